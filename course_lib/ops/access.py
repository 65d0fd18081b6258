"""What memory hands over when the threads of a warp ask for numbers at once. Knows no chip."""

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import Numbers, count, plain, whole
from course_lib.core.dtypes import itemsize

# Byte that memory hands over at least: a whole sector, of which a warp may want less.
SECTOR = 32
# Threads of a warp, whose loads are one request.
WARP = 32


def sectors(stride: ArrayLike, *, start: int = 0, x: str = "fp32", threads: int = WARP) -> Numbers:
    """Sectors of `SECTOR` bytes that one load of a warp touches: each thread reads one element of
    format `x`, the first so many elements behind the `start` of a sector, each `stride` behind the
    one before.

    Examples
    --------
    >>> sectors([1, 2, 4, 8, 32]).tolist(), sectors(1, x="bf16")
    ([4.0, 8.0, 16.0, 32.0, 32.0], 2.0)
    """
    # Source: [nvidia-cuda-practices] section Coalesced Access to Global Memory.
    size, many = itemsize(x, "x"), count("threads", threads)
    apart = whole("stride", stride) * size
    end = count("start", start, 0) * size % SECTOR + (many - 1) * apart
    # No sector is skipped where threads are at most one apart; beyond, each has its own.
    return plain(np.where(apart <= SECTOR, np.floor(end / SECTOR) + 1, float(many)))
