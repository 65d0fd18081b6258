"""What a page shows of traces that a reader drops on it: the verdict, and where the time went.

A page runs this and what it asks, as `course_press.outputs.translate` writes it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from course_lib import ops, specs
from course_lib.core.checks import EXACT
from course_tools.diagnosis import gaps
from course_tools.diagnosis.account import SECOND
from course_tools.diagnosis.causes import WHOLES
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import KERNEL, Floats, Rows
from course_tools.diagnosis.root_cause import judged

# What a strip shows of each stretch of time, from below: of the idle time, why it is.
SHOWN = ("compute", "copies", "exchange", *WHOLES[0])
# What is told of each operator besides, and what is asked of a chip.
OPERATOR = ("distance", "small", "overcounted")
CHIP = ("key", "short", "device_names", "bandwidth", "memory", "multiprocessors", "peaks")
# Stretches of which a strip consists; operators that are listed; s from which a kind is.
PIECES, LISTED, LEAST = 120, 6, 1e-9


def dropped(read: Sequence[Rows], known: Sequence[specs.Accelerator]) -> dict[str, Any]:
    """The verdict on recordings, and where the time went: what `trace.html` draws."""
    # Of each of `PIECES` stretches of time, the strip has the shares that `SHOWN` names; of several
    # recordings, the first one's host is told.
    found, where = judged(read, known)
    spans = where.when.get("span", [])
    every = [one.moments(PIECES) for one in spans]
    whole = max(sum(one.total for one in spans) / PIECES, 1e-9)

    def share(key: str) -> Floats:
        of = zip(where.when.get(key, []), every, strict=False)
        mine = (one.covered(at[:-1], at[1:]) for one, at in of)
        return np.asarray(sum(mine, np.zeros(PIECES)) / whole)

    # Whatever runs beside kernels is hidden: only what goes beyond them shows.
    compute, copies, busy = map(share, SHOWN[:3])
    strip = [compute, copies - compute, busy - copies, *map(share, WHOLES[0])]
    host, kernels = gaps.Host(read[0]), read[0].dur[read[0].kind == KERNEL]
    ends = [*every[0]] if every else [0.0, 0.0]
    held = (one.covered(ends[0], ends[-1]) for one in (host.inside, host.wait))
    works, waits = (SECOND * float(one) for one in held)
    others = sorted(where.operators.values(), key=lambda one: -one[1])[LISTED:]
    kinds = [one for one in where.kinds.items() if one[1] > LEAST]
    return {
        "found": found,
        "sure": found.sure,
        "lost": where.lost,
        "kinds": sorted(kinds, key=lambda one: -one[1]),
        "rest": (LISTED, *(sum(one[i] for one in others) for i in (0, 1))),
        "strip": [one.tolist() for one in strip],
        "kernels": (len(kernels), SECOND * float(kernels.sum())),
        "host": (works - waits, waits),
        **{name: [getattr(one, name) for one in found.operators] for name in OPERATOR},
    }


def asked() -> dict[str, Any]:
    """What that asks besides, which a page holds: names, conventions, and chips."""
    known = map(specs.chip, specs.chips())
    return {
        "tables": {name: names.rows_of(name) for name in ("patterns", "calls", "arguments")},
        "flops": {name: one.flops for name, one in ops.CONVENTIONS.items()},
        "exact": EXACT,
        "chips": [{key: getattr(one, key) for key in CHIP} for one in known],
    }
