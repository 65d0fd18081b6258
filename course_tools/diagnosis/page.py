"""What a page shows of traces that a reader drops on it: the verdict, and where the time went.

A page runs this and what it asks, as `course_press.outputs.translate` writes it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from course_lib.specs import Accelerator
from course_tools.diagnosis import gaps
from course_tools.diagnosis.causes import WHOLES
from course_tools.diagnosis.reading.rows import Floats, Rows
from course_tools.diagnosis.root_cause import judged

# What a strip shows of each stretch of time, from below: of the idle time, why it is.
SHOWN = ("compute", "copies", "exchange", *WHOLES[0])
# Stretches of which a strip consists.
PIECES = 120


def dropped(
    read: Sequence[Rows], files: Sequence[str], known: Sequence[Accelerator]
) -> dict[str, Any]:
    """The verdict on recordings, seconds by kind of kernel, and by cause; and a strip: of each of
    `PIECES` stretches of time, the shares that `SHOWN` names.
    """
    found, where = judged(read, files, known)
    lost = {cause: where.lost[cause] for cause in where.lost if cause != "unknown"}
    first, last = gaps.window(read[0])
    at = np.linspace(first, last, PIECES + 1)
    whole = max((last - first) / PIECES * found.devices, 1e-9)

    def share(key: str) -> Floats:
        covered = np.zeros(PIECES)
        for one in where.when.get(key, []):
            covered = covered + one.covered(at[:-1], at[1:])
        return covered / whole

    # Whatever runs beside kernels is hidden: only what goes beyond them shows.
    compute, copies, busy = share("compute"), share("copies"), share("exchange")
    copies = np.maximum(copies, compute)
    strip = [compute, copies - compute, np.maximum(busy - copies, 0.0), *map(share, WHOLES[0])]
    kinds = sorted(where.kinds.items(), key=lambda one: -one[1])
    of = [one.tolist() for one in strip]
    return {"found": found, "lost": lost, "kinds": kinds, "strip": of, "roof": where.roof}
