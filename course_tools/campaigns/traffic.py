"""Counts the bytes that a Triton kernel loads and stores while the interpreter runs it.

Bytes do not depend on the device: what is counted on a CPU is what the same kernel asks of a GPU's
caches. What those serve from an earlier load is not known here, so memory sees as many or fewer.

Needs nothing of this library: the grader of lab 04 gives this file to a process that has none.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

# Bytes that an NVIDIA GPU's memory hands out at least, aligned alike.
SECTOR = 32


class Launch(NamedTuple):
    """What one launch of a kernel moved, over all of its programs, in byte."""

    kernel: str
    programs: int
    loaded: int = 0  # asked for: lanes that a mask leaves out ask for nothing
    stored: int = 0
    loaded_sectors: int = 0  # of the sectors that each load touches
    stored_sectors: int = 0
    overlap: int = 0  # stored by more than one program: they run in turn here, at once on a GPU
    # Beyond the ends of the arrays that the kernel was given: on a GPU that is other arrays'
    # memory, or an error; here it is kept from harm.
    outside_loaded: int = 0
    outside_stored: int = 0

    @property
    def bytes(self) -> int:
        """Loaded and stored."""
        return self.loaded + self.stored


@contextmanager
def counted() -> Iterator[list[Launch]]:
    """Count what kernels load and store while the `with` block runs.

    They must be interpreted: set ``TRITON_INTERPRET=1`` before triton is imported. Lanes that a
    load leaves out without naming an `other`, and loads beyond an array, get what no sum survives:
    a GPU promises nothing there. Stores beyond an array are dropped.

    It yields a list, to which each launch is added when it is done; none where triton is not
    installed.
    """
    launches: list[Launch] = []
    try:
        from triton.runtime import interpreter
    except ImportError:
        yield launches
        return
    builder, executor = interpreter.interpreter_builder, interpreter.GridExecutor
    tallies: list[_Tally] = []  # of the launch that is under way
    load, store = builder.create_masked_load, builder.create_masked_store
    change, swap = builder.create_atomic_rmw, builder.create_atomic_cas
    launch = executor.__call__

    def masked_load(pointers: Any, mask: Any, other: Any, *rest: Any, **more: Any) -> Any:
        if not tallies:
            return load(pointers, mask, other, *rest, **more)
        asked, inside = tallies[-1].load(*_lanes(pointers, mask))
        got = load(pointers, type(mask)(inside, mask.dtype), other, *rest, **more)
        lost = asked & ~inside if other is not None else ~inside
        if lost.any():
            # Nothing was promised: not a number, or the largest there is.
            of = got.data.dtype
            most = np.nan if of.kind == "f" else 1 if of.kind == "b" else np.iinfo(of).max
            got.data = np.where(lost, of.type(most), got.data)
        return got

    def masked_store(pointers: Any, value: Any, mask: Any, *rest: Any, **more: Any) -> Any:
        if tallies:
            inside = tallies[-1].store(*_lanes(pointers, mask), builder.grid_idx)
            mask = type(mask)(inside, mask.dtype)
        return store(pointers, value, mask, *rest, **more)

    def atomic_change(kind: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        if tallies:
            mask = type(mask)(tallies[-1].change(*_lanes(pointers, mask)), mask.dtype)
        return change(kind, pointers, value, mask, *rest)

    def atomic_swap(pointers: Any, *rest: Any) -> Any:
        if tallies:
            tallies[-1].change(*_lanes(pointers, None))
        return swap(pointers, *rest)

    def launched(self: Any, *given: Any, **named: Any) -> Any:
        tallies.append(_Tally([*given, *named.values()]))
        try:
            result = launch(self, *given, **named)
            launches.append(tallies[-1].done(self.fn.__name__, builder.grid_dim))
        finally:
            tallies.pop()
        return result

    with ExitStack() as stack:
        for owner, name, new in (
            (builder, "create_masked_load", masked_load),
            (builder, "create_masked_store", masked_store),
            (builder, "create_atomic_rmw", atomic_change),
            (builder, "create_atomic_cas", atomic_swap),
            (executor, "__call__", launched),
        ):
            stack.enter_context(patch.object(owner, name, new))
        yield launches


class _Tally:
    """Counts one launch."""

    def __init__(self, given: list[Any]) -> None:
        self.ends = _ends(given)
        self.sums = {"loaded": 0, "stored": 0, "loaded_sectors": 0, "stored_sectors": 0}
        self.outside = {"loaded": 0, "stored": 0}
        self.stores: list[tuple[tuple[int, ...], np.ndarray]] = []

    def load(self, at: np.ndarray, asked: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The lanes that ask for something, and those of them that may have it."""
        return asked, self._count("loaded", at, asked, size)

    def store(
        self, at: np.ndarray, asked: np.ndarray, size: int, program: tuple[int, ...]
    ) -> np.ndarray:
        """The lanes whose value may be stored."""
        inside = self._count("stored", at, asked, size)
        every_byte = (at[inside].reshape(-1, 1) + np.arange(size)).reshape(-1)
        self.stores.append((tuple(program), every_byte))
        return inside

    def change(self, at: np.ndarray, asked: np.ndarray, size: int) -> np.ndarray:
        """The lanes that may be changed: each is loaded and stored."""
        self._count("stored", at, asked, size)
        return self._count("loaded", at, asked, size)

    def _count(self, way: str, at: np.ndarray, asked: np.ndarray, size: int) -> np.ndarray:
        inside = np.full(at.shape, self.ends is None)
        for first, last in self.ends or ():
            inside |= (at >= first) & (at + size <= last)
        touched = at[asked]
        self.sums[way] += size * touched.size
        ends = np.concatenate([touched, touched + (size - 1)]) // SECTOR
        self.sums[f"{way}_sectors"] += SECTOR * np.unique(ends).size
        self.outside[way] += size * int(np.count_nonzero(asked & ~inside))
        allowed: np.ndarray = asked & inside
        return allowed

    def done(self, kernel: str, grid: tuple[int, ...]) -> Launch:
        """All that was counted."""
        of: dict[tuple[int, ...], list[np.ndarray]] = {}
        for program, bytes_ in self.stores:
            of.setdefault(program, []).append(bytes_)
        # Bytes stored by more than one program, each counted as often as by others before.
        each = [np.unique(np.concatenate(parts)) for parts in of.values()]
        together = np.concatenate(each) if each else np.empty(0, np.int64)
        overlap = together.size - np.unique(together).size
        outside = {f"outside_{way}": bytes_ for way, bytes_ in self.outside.items()}
        return Launch(kernel, int(np.prod(grid)), **self.sums, overlap=overlap, **outside)


def _ends(given: list[Any]) -> list[tuple[int, int]] | None:
    """Each array's first address and the one behind its last; None if on a GPU."""
    found = []
    for one in given:
        if isinstance(one, tuple | list):
            inner = _ends(list(one))
            if inner is None:
                return None
            found += inner
            continue
        array = getattr(one, "base", one)
        array = one if array is None else array
        if not hasattr(array, "data_ptr"):
            continue
        if array.device.type != "cpu":
            return None
        if array.numel():
            steps = zip(array.shape, array.stride(), strict=True)
            reach = sum((size - 1) * step for size, step in steps)
            first = array.data_ptr()
            found.append((first, first + (reach + 1) * array.element_size()))
    return found


def _lanes(pointers: Any, mask: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Addresses, which of them are asked for, and the bytes at each."""
    at = np.asarray(pointers.data).astype(np.int64)
    asked = np.ones(at.shape, bool) if mask is None else np.asarray(mask.data).astype(bool)
    size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
    return at, np.broadcast_to(asked, at.shape), size
