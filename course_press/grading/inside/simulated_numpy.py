"""A NumPy whose products take time on the simulated machine, and how it, the clock and torch take
the place of the real ones.
"""

import functools
import importlib
import sys
import time
import types
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from course_press.grading.inside import simulated_torch
from course_press.grading.inside.machine import RemoteMachine


def install(machine: RemoteMachine, *, with_torch: bool) -> None:
    """Put the simulated clock, NumPy and torch in place of the real ones, for all that is imported
    from now on.
    """
    for name in ("perf_counter", "time", "monotonic", "process_time", "thread_time"):
        setattr(time, name, machine.read)
        setattr(time, f"{name}_ns", lambda: round(machine.read() * 1e9))
    setattr(time, "sleep", machine.sleep)  # noqa: B010
    # timeit keeps the clock that it found when it was imported.
    sys.modules.pop("timeit", None)
    # NumPy imports parts of itself when they are first used, np.median this one: they must find the
    # real one.
    importlib.import_module("numpy.ma")
    Array.machine = machine
    torch = simulated_torch.module(machine) if with_torch else None
    # An import of what is None here fails as that of a missing package does.
    stand_ins: dict[str, Any] = {"torch": torch, "torch.cuda": torch and torch.cuda}
    stand_ins |= {"numpy": _NumPy(np), "numpy.random": _NumPy(np.random)}
    sys.modules.update(stand_ins)


class Array(np.ndarray):
    """A NumPy array whose products take time on the machine."""

    machine: ClassVar[RemoteMachine]

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: Any, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
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
        return _tracked(
            func(*map(_plain, args), **{key: _plain(value) for key, value in kwargs.items()})
        )

    def dot(self, b: Any, out: Any = None) -> Any:
        """`a.dot(b)` is a product too."""
        return np.dot(self, b, out=out)

    def _account(self, args: Iterable[Any]) -> None:
        matrices = [np.asarray(arg) for arg in args if not isinstance(arg, str)]
        # np.einsum of one operand only sums or transposes.
        if len(matrices) > 1:
            self.machine.multiply(matrices[0], matrices[1], "cpu", str(self.dtype), torch=False)


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
    """NumPy, or `numpy.random`, with arrays that are the machine's. Its other classes and its
    ufuncs are the real ones.
    """

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
        return (
            value
            if real or isinstance(value, np.ufunc) or not callable(value)
            else _tracking(value)
        )
