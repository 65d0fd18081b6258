"""Keeps a CPU's memory pages between calls, for they would be timed too."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Parameters of glibc's mallopt: how many allocations may be mapped by themselves, and from where
# free memory is given back.
MMAP_MAX, TRIM_THRESHOLD = -4, -1
DEFAULTS = {MMAP_MAX: 65536, TRIM_THRESHOLD: 128 * 1024}


@contextmanager
def kept() -> Iterator[bool]:
    """Let freed memory stay with the process, and be used again, while the block runs; it yields
    whether the C library can be told to.
    """
    # Every result of an eager operator is a new allocation. Beyond 32 MiB glibc maps each by itself
    # and gives it back at once: clearing its pages anew takes several times what the operator does.
    told = _tell({MMAP_MAX: 0, TRIM_THRESHOLD: -1})
    try:
        yield told
    finally:
        if told:
            _tell(DEFAULTS)


def _tell(parameters: dict[int, int]) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # musl has the name and does nothing: it returns 0.
    return mallopt is not None and all(mallopt(*one) == 1 for one in parameters.items())
