"""The learner's end of the simulated machine: a NumPy and a torch whose products take time on it.

The grader has the clock and keeps the record; the GPU works on after a call returns.
"""

import contextlib
import functools
import importlib
import json
import socket
import sys
import time
import types
from collections.abc import Callable, Iterable
from functools import partialmethod
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from course_press.grading.sandbox import frames, learner

EVERY = 61  # of how many elements of an operand the grader is shown one
RANDOM = np.random.default_rng()


class NotSimulatedError(AttributeError):
    """The code under test uses something that the simulated torch does not have."""

    kind = "unsupported"


class NotReadyError(RuntimeError):
    """A time is asked for before the GPU has come to it; torch raises a RuntimeError too."""

    kind = "not-ready"


def _some(size: int) -> np.ndarray:
    """Places of elements, one of each `EVERY`, and nobody knows beforehand which."""
    start = np.arange(0, size, EVERY)
    return start + RANDOM.integers(np.minimum(EVERY, size - start))


class RemoteMachine:
    """Passes work on to the machine that the grader has."""

    def __init__(self, talk: socket.socket) -> None:
        self.talk = talk

    def ask(self, op: str, payload: bytes = b"", **more: Any) -> float:
        """What the machine answers; `simulated.OPS` of the grader names what it can be asked."""
        frames.send(self.talk, {"op": op, **more}, payload)
        reply = json.loads(frames.receive(self.talk)[0])
        if "not_ready" in reply:
            raise NotReadyError(reply["not_ready"])
        return float(reply["value"])

    def read(self) -> float:
        return self.ask("read")

    def sleep(self, seconds: float) -> None:
        self.ask("sleep", seconds=float(seconds))

    def synchronize(self, *_: Any, **__: Any) -> None:
        self.ask("synchronize")

    def multiply(
        self, a: np.ndarray, b: np.ndarray, device: str, dtype: str, *, torch: bool
    ) -> None:
        """Take the time of a product, and show what the operands hold."""
        if a.ndim < 2 or b.ndim < 2 or not (a.size and b.size):
            return
        shown = [one.ravel()[_some(one.size)].astype(np.float64) for one in (a, b)]
        about = {"device": device, "dtype": dtype, "torch": torch, "shapes": [a.shape, b.shape]}
        self.ask("multiply", b"".join(one.tobytes() for one in shown), **about)


def install(machine: RemoteMachine, *, with_torch: bool) -> None:
    """Put the simulated clock, NumPy and torch in place of the real ones, for later imports."""
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
    torch = _torch(machine) if with_torch else None
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
        plain = {key: _plain(value) for key, value in kwargs.items()}
        return _tracked(func(*map(_plain, args), **plain))

    def dot(self, b: Any, out: Any = None) -> Any:
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
    """NumPy, or `numpy.random`, with arrays that are the machine's; all else is real."""

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
        tracked = callable(value) and not real and not isinstance(value, np.ufunc)
        return _tracking(value) if tracked else value


class DType(NamedTuple):
    """A torch dtype: its name, its bytes, and the NumPy dtype that stands in for it."""

    name: str
    itemsize: int
    storage: Any

    def __repr__(self) -> str:
        return f"torch.{self.name}"


STORED = ("float64", "float32", "float16", "int8", "int32", "int64")
DTYPES = {name: DType(name, np.dtype(name).itemsize, np.dtype(name)) for name in STORED}
DTYPES["bfloat16"] = DType("bfloat16", 2, np.float32)
ALIASES = {"double": "float64", "float": "float32", "half": "float16", "long": "int64"}
ALIASES["int"] = "int32"


class Device:
    """A torch device: `"cpu"`, `"cuda"` or `"cuda:0"`."""

    def __init__(self, name: Any, index: int | None = None) -> None:
        kind, _, number = str(name).partition(":")
        if kind not in ("cpu", "cuda"):
            known = "Expected one of cpu, cuda device type at start of device string"
            raise RuntimeError(f"{known}: {kind}")
        self.type = kind
        self.index = int(number) if number else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Tensor:
    """A tensor: values in NumPy, time on the machine. Looking at values on the GPU waits for it."""

    def __init__(self, machine: RemoteMachine, data: Any, dtype: DType, device: Any = None) -> None:
        self.machine, self.dtype, self.device = machine, dtype, Device(device or "cpu")
        self.data = np.asarray(data).view(np.ndarray).astype(dtype.storage, copy=False)

    def __getattr__(self, name: str) -> Any:
        raise NotSimulatedError(f"Tensor.{name}")

    def _like(self, data: Any) -> "Tensor":
        return Tensor(self.machine, data, self.dtype, self.device)

    def matmul(self, other: "Tensor") -> "Tensor":
        """`a @ b`: takes time on the device that holds both."""
        if self.device.type != other.device.type:
            said = "Expected all tensors to be on the same device, but found cpu and cuda"
            raise RuntimeError(said)
        self.machine.multiply(self.data, other.data, self.device.type, self.dtype.name, torch=True)
        wide = np.float64 if self.dtype.itemsize == 8 else np.float32
        return self._like(self.data.astype(wide, copy=False) @ other.data.astype(wide, copy=False))

    __matmul__ = mm = matmul

    def to(self, *args: Any, dtype: Any = None, device: Any = None, **_: Any) -> "Tensor":
        for arg in args:
            if isinstance(arg, DType):
                dtype = arg
            elif isinstance(arg, Device | str):
                device = arg
        moved = Device(device or self.device)
        data = self.numpy() if moved.type == "cpu" else self.data
        return Tensor(self.machine, data, dtype or self.dtype, moved)

    half = partialmethod(to, DTYPES["float16"])
    float = partialmethod(to, DTYPES["float32"])
    double = partialmethod(to, DTYPES["float64"])
    bfloat16 = partialmethod(to, DTYPES["bfloat16"])
    cpu = partialmethod(to, "cpu")
    cuda = partialmethod(to, device="cuda")

    def clone(self) -> "Tensor":
        return self  # values are never changed in place

    contiguous = detach = clone

    def t(self) -> "Tensor":
        return self._like(self.data.T)

    T = property(t)

    def numpy(self) -> np.ndarray:
        if self.device.type == "cuda":
            self.machine.synchronize()
        return self.data

    def item(self) -> Any:
        return self.numpy().item()

    __float__ = item

    def __getitem__(self, key: Any) -> "Tensor":
        return self._like(self.data[key])

    @property
    def shape(self) -> Any:
        return self.data.shape

    def median(self) -> "Tensor":
        """The lower of the two middle values, as torch has it."""
        return self._like(np.sort(self.data, axis=None)[(self.data.size - 1) // 2])

    def _do(self, name: str, *others: Any) -> "Tensor":
        plain = (one.data if isinstance(one, Tensor) else one for one in others)
        return self._like(getattr(self.data, name)(*plain))


_OPERATORS = ("add", "sub", "mul", "truediv", "radd", "rsub", "rmul", "rtruediv")
for _name in ("sum", "mean", "min", "max", *(f"__{one}__" for one in _OPERATORS)):
    setattr(Tensor, _name, partialmethod(Tensor._do, _name))


class SimulatedEvent:
    """A CUDA event: a time stamp that the GPU sets when it comes to it."""

    def __init__(self, machine: RemoteMachine, *, timed: bool) -> None:
        self.machine, self.timed = machine, timed
        self.at: int | None = None

    def record(self, *_: Any) -> None:
        self.at = int(self.machine.ask("record"))

    def synchronize(self) -> None:
        if self.at is not None:
            self.machine.ask("wait", event=self.at)

    def query(self) -> bool:
        return self.at is None or bool(self.machine.ask("query", event=self.at))

    def elapsed_time(self, end: "SimulatedEvent") -> float:
        """Milliseconds from this stamp to another."""
        if not self.timed or not end.timed:
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self.at is None or end.at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return self.machine.ask("elapsed", event=self.at, end=end.at) * 1e3


SimulatedEvent.__name__ = "Event"  # in messages, as torch's is


class _Guard(contextlib.nullcontext[Any], contextlib.ContextDecorator):
    """`no_grad` and its like: nothing to do here."""


class _Generator:
    """A seeded generator: every value of the simulated torch is repeatable anyway."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def manual_seed(self, _: int) -> Self:
        return self


def _lacks(name: str) -> Any:
    raise NotSimulatedError(name)


def _nothing(*_: Any, **__: Any) -> None: ...


def _makers(machine: RemoteMachine) -> dict[str, Callable[..., Tensor]]:
    rng = np.random.default_rng(0)

    def maker(
        values: Callable[[tuple[int, ...]], Any], usual: str = "float32"
    ) -> Callable[..., Tensor]:
        def make(*size: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
            one = size[0] if size and isinstance(size[0], tuple | list) else size
            sizes = kwargs.get("size") or one
            return Tensor(machine, values(tuple(sizes)), dtype or DTYPES[usual], device)

        return make

    def full(size: Any, fill_value: Any, **kwargs: Any) -> Tensor:
        return maker(lambda sizes: np.full(sizes, fill_value))(*size, **kwargs)

    def randint(*args: Any, **kwargs: Any) -> Tensor:
        low, high, size = args if len(args) == 3 else (0, *args)
        return maker(lambda sizes: rng.integers(low, high, sizes), "int64")(*size, **kwargs)

    def tensor(data: Any, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
        array = np.asarray(data)
        # torch takes an array as it is, and Python's own floats as float32.
        usual = "float32" if array is not data and array.dtype == np.float64 else array.dtype.name
        return Tensor(machine, array, dtype or DTYPES[usual], device)

    return {
        "randn": maker(lambda size: rng.standard_normal(size, np.float32)),
        "rand": maker(lambda size: rng.random(size, np.float32)),
        **dict.fromkeys(("zeros", "empty"), maker(np.zeros)),
        "ones": maker(np.ones),
        "full": full,
        "randint": randint,
        **dict.fromkeys(("tensor", "as_tensor", "from_numpy"), tensor),
    }


def _cuda(machine: RemoteMachine) -> learner.StandIn:
    stream = SimpleNamespace(synchronize=machine.synchronize)
    idle = ("empty_cache", "manual_seed", "manual_seed_all", "set_device", "init")
    members: dict[str, Any] = {
        **dict.fromkeys(idle, _nothing),
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "synchronize": machine.synchronize,
        "Event": lambda enable_timing=False, **_: SimulatedEvent(machine, timed=enable_timing),
        "current_stream": lambda *_: stream,
        "get_device_name": lambda *_: "simulated GPU",
        "device": _Guard,
    }
    return learner.StandIn("torch.cuda", members, _lacks)


def _torch(machine: RemoteMachine) -> learner.StandIn:
    """A module to stand in for torch, whose work is done by the machine."""
    switches = SimpleNamespace(allow_tf32=False, benchmark=False)
    idle = ("manual_seed", "set_num_threads", "set_grad_enabled", "set_float32_matmul_precision")
    members: dict[str, Any] = {
        **DTYPES,
        **{alias: DTYPES[name] for alias, name in ALIASES.items()},
        **_makers(machine),
        **dict.fromkeys(idle, _nothing),
        **dict.fromkeys(("matmul", "mm"), lambda a, b, **_: a @ b),
        **dict.fromkeys(("no_grad", "inference_mode"), _Guard),
        "median": lambda x: x.median(),
        "mean": lambda x: x.mean(),
        "Tensor": Tensor,
        "Generator": _Generator,
        "device": Device,
        "dtype": DType,
        "cuda": _cuda(machine),
        "backends": SimpleNamespace(cuda=SimpleNamespace(matmul=switches), cudnn=switches),
        "__version__": "2.9.0+simulated",
    }
    return learner.StandIn("torch", members, _lacks)
