"""A machine on paper: a clock that only work moves, and a torch and a NumPy whose matmuls take known, repeatable time.

Code under test imports them as the real ones. The first multiplication of a kind is slow, one in eleven is an outlier, and the
simulated GPU works on after a call returns, so that a benchmark's mistakes change its answer by an amount known beforehand.
"""

import functools
import importlib
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec
import numpy as np

DURATION = 1e-3
"""Seconds of an ordinary multiplication; those of a run differ by a few per cent."""
SLOW = 20.0
"""How much longer the first multiplication of a shape takes: it loads the library, picks a kernel and wakes the clock."""
JITTER = (1.12, 1.0, 1.21, 1.06, 1.27, 1.03, 1.18, 1.09, 1.24, 1.15, 6.0)
"""The multiplications after that, over and over: any eleven in a row hold one outlier, and have one median and one minimum."""
LAUNCH = 2e-6
"""Seconds the host spends to hand work to the simulated GPU."""
TICK = 1e-7
"""Seconds that reading the clock takes, so that a loop waiting for the clock ends."""


class UnsupportedError(AttributeError):
    """The code under test uses something that the simulated torch does not have."""


class NotReadyError(RuntimeError):
    """The code under test asks for a time before the GPU has come to it; torch raises a RuntimeError too."""


class Sample(msgspec.Struct, frozen=True):
    """One interval between two readings of the clock: what it showed, and the work that was started within it."""

    elapsed: float
    work: float
    calls: int
    first: bool
    """Whether the slow first multiplication is among them."""

    @property
    def each(self) -> float:
        """The time of one multiplication as the code under test sees it."""
        return self.elapsed / self.calls


class Call(msgspec.Struct, frozen=True):
    """One multiplication that reached the machine."""

    device: str
    seconds: float
    first: bool
    operands: tuple[str, str]


class Machine:
    """The clock, the GPU's queue, and a record of what was asked of them."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.busy_until = 0.0
        self.used_torch = False
        self.calls: list[Call] = []
        self.reads: list[tuple[float, int]] = []
        self.event_samples: list[Sample] = []
        self._seen: Counter[tuple[Any, ...]] = Counter()

    def read(self) -> float:
        """The time, for the code under test: every reading is on record."""
        self.now += TICK
        self.reads.append((self.now, len(self.calls)))
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let simulated time pass."""
        self.now += seconds

    def synchronize(self, *_: Any, **__: Any) -> None:
        """Wait until the GPU has done all it was given."""
        self.now = max(self.now, self.busy_until) + TICK

    def multiply(self, a: np.ndarray, b: np.ndarray, device: str, dtype: str) -> None:
        """Take the time of a product: at once on the CPU, in the queue on the GPU."""
        if a.ndim < 2 or b.ndim < 2:
            return
        key = (device, a.shape, b.shape, dtype)
        nth = self._seen[key]
        self._seen[key] += 1
        first = nth == 0
        seconds = DURATION * (SLOW if first else JITTER[(nth - 1) % len(JITTER)])
        self.calls.append(Call(device, seconds, first, (contents(a), contents(b))))
        if device == "cpu":
            self.now += seconds
        else:
            self.now += LAUNCH
            self.busy_until = max(self.now, self.busy_until) + seconds

    def sample(self, elapsed: float, start: int, stop: int) -> Sample:
        """The interval in which the calls from `start` to `stop` were made."""
        calls = self.calls[start:stop]
        return Sample(elapsed, sum(call.seconds for call in calls), len(calls), any(call.first for call in calls))

    def samples(self) -> list[Sample]:
        """Intervals between neighbouring readings of the clock within which something was multiplied."""
        found = []
        for (start, before), (stop, after) in zip(self.reads, self.reads[1:], strict=False):
            if after > before:
                found.append(self.sample(stop - start, before, after))
        return found


def contents(array: np.ndarray) -> str:
    """What a matrix holds, as far as its speed may depend on it: zeros, ones, constant, mostly constant, or varied."""
    values, counts = np.unique(array.ravel()[::61].astype(np.float64), return_counts=True)
    if len(values) == 1:
        return {0.0: "zeros", 1.0: "ones"}.get(float(values[0]), "constant")
    return "mostly one value" if counts.max() > counts.sum() / 2 else "varied"


def install(machine: Machine, *, with_torch: bool) -> None:
    """Put the simulated clock, NumPy and torch in place of the real ones, for all that is imported from now on."""
    from course_press import simulated_torch

    for name in ("perf_counter", "time", "monotonic", "process_time", "thread_time"):
        setattr(time, name, machine.read)
        setattr(time, f"{name}_ns", lambda: round(machine.read() * 1e9))
    setattr(time, "sleep", machine.sleep)  # noqa: B010
    # timeit keeps the clock that it found when it was imported.
    sys.modules.pop("timeit", None)
    # NumPy imports parts of itself when they are first used, np.median this one: they must find the real one.
    importlib.import_module("numpy.ma")
    Array.machine = machine
    torch = simulated_torch.module(machine) if with_torch else None
    # An import of what is None here fails as that of a missing package does.
    stand_ins: dict[str, Any] = {"torch": torch, "torch.cuda": torch and torch.cuda}
    stand_ins |= {"numpy": _NumPy(np), "numpy.random": _NumPy(np.random)}
    sys.modules.update(stand_ins)


class Array(np.ndarray):
    """A NumPy array whose products take time on the machine."""

    machine: ClassVar[Machine]

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        """Compute with plain arrays; a matmul is put on the machine's account first."""
        if ufunc is np.matmul and method == "__call__":
            self._account(inputs)
        if out is not None:
            kwargs["out"] = tuple(map(_plain, out))
        return _tracked(getattr(ufunc, method)(*map(_plain, inputs), **kwargs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Take the time of `np.dot` and its like; everything else is NumPy's own."""
        if func not in (np.dot, np.einsum, np.inner, np.tensordot):
            return super().__array_function__(func, types, args, kwargs)
        self._account(args)
        return _tracked(func(*map(_plain, args), **{key: _plain(value) for key, value in kwargs.items()}))

    def dot(self, b: Any, out: Any = None) -> Any:
        """`a.dot(b)` is a product too."""
        return np.dot(self, b, out=out)

    def _account(self, args: Iterable[Any]) -> None:
        matrices = [np.asarray(arg) for arg in args if not isinstance(arg, str)]
        # np.einsum of one operand only sums or transposes.
        if len(matrices) > 1:
            self.machine.multiply(matrices[0], matrices[1], "cpu", str(self.dtype))


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Array) else value


def _tracked(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return value.view(Array)
    return _Random(value) if isinstance(value, GENERATORS) else value


def _tracking(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _tracked(function(*args, **kwargs))

    return call


GENERATORS = (np.random.Generator, np.random.RandomState)


class _Random:
    """A random generator whose arrays are the machine's."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        return _tracking(value) if callable(value) else value


class _NumPy(types.ModuleType):
    """NumPy, or `numpy.random`, with arrays that are the machine's. Its other classes and its ufuncs are the real ones."""

    def __init__(self, real: types.ModuleType) -> None:
        super().__init__(real.__name__)
        self._real = real
        self.__spec__, self.__path__ = real.__spec__, real.__path__

    def __getattr__(self, name: str) -> Any:
        # Fresh memory may hold anything; here it holds zeros every time, as it often does.
        value = getattr(self._real, {"empty": "zeros", "empty_like": "zeros_like"}.get(name, name))
        if value is np.random:
            return sys.modules["numpy.random"]
        real = isinstance(value, type) and value not in GENERATORS
        return value if real or isinstance(value, np.ufunc) or not callable(value) else _tracking(value)
