"""What `make calibrate` runs: fits the constants, prints their errors on what was held out."""

from collections.abc import Iterable

from course_tools.calibrate.evidence import Result, calibrate_report
from tools.fit_chips import fit_and_write
from tools.fit_engine import fit_and_write as fit_engines


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


if __name__ == "__main__":
    for path in (*fit_and_write(), *fit_engines()):
        print(path)
    print(as_text(calibrate_report()))
