"""What `make calibrate` runs: fits the constants, prints their errors on what was held out, and how
often a diagnosis is right that is so sure.
"""

import importlib
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from course_tools.calibrate.evidence import Result, calibrate_report
from course_tools.diagnosis import SEEDED, diagnose, seeded
from tools.fit_chips import fit_and_write

# Where a bucket of confidences begins; below a half, a cause is asked, not said.
BUCKETS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)


def as_text(results: Iterable[Result]) -> str:
    """A report as lines of text, one a result."""
    lines = []
    for one in results:
        whole, target = isinstance(one.value, int), one.target
        value = f"{one.value}" if whole else f"{100 * one.value:.1f} %"
        verdict = {True: "met", False: "MISSED", None: ""}[one.met]
        if isinstance(target, tuple):
            asked = f"; {100 * target[0]:g} to {100 * target[1]:g} %"
        elif target is None:
            asked = ""
        else:
            asked = f"; {target}" if whole else f"; at most {100 * target:g} %"
        lines.append(f"{verdict:6} {value:>7}  {one.what} ({one.points} points{asked})")
    return "\n".join(lines)


def confidences(known: Iterable[tuple[str, Any]]) -> dict[float, tuple[int, int]]:
    """How many causes are stated with a confidence of each bucket, and how many of them are right,
    over traces whose cause is known: pairs of the cause and the trace. ``"unknown"`` states none.
    """
    found = dict.fromkeys(BUCKETS, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        for cause, trace in known:
            file.write_text(json.dumps(trace), encoding="utf-8")
            one = diagnose(file)
            if one.cause != "unknown":
                at = max(bucket for bucket in BUCKETS if bucket <= one.confidence)
                count, right = found[at]
                found[at] = count + 1, right + (one.cause == cause)
    return found


if __name__ == "__main__":
    for path in fit_and_write():
        print(path)
    print(as_text(calibrate_report()))
    constructed = importlib.import_module("tests.course_tools.diagnosis.others").known_causes()
    print("course diagnose: confidence from, causes stated, of these right")
    for bucket, (count, right) in confidences(constructed).items():
        print(f"{bucket:6.1f} {count:6} {right:6}")
    sure = [diagnose(seeded(cause)) for cause in SEEDED]
    print(f"seeded: {sum(a.cause == b for a, b in zip(sure, SEEDED, strict=True))} of {len(sure)}")
