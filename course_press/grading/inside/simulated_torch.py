"""The torch of a simulated machine: what a matmul benchmark uses of it, with a GPU that works on
after a call returns.
"""

import contextlib
import types
from collections.abc import Callable
from functools import partialmethod
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from course_press.grading.inside.machine import NotSimulatedError, RemoteMachine


class DType:
    """A torch dtype: its name, its bytes, and the NumPy dtype that stands in for it."""

    def __init__(self, name: str, itemsize: int, storage: Any) -> None:
        self.name, self.itemsize, self.storage = name, itemsize, storage

    def __repr__(self) -> str:
        return f"torch.{self.name}"


DTYPES = {
    dtype.name: dtype
    for dtype in (
        DType("float64", 8, np.float64),
        DType("float32", 4, np.float32),
        DType("float16", 2, np.float16),
        DType("bfloat16", 2, np.float32),
        DType("int8", 1, np.int8),
        DType("int32", 4, np.int32),
        DType("int64", 8, np.int64),
    )
}
ALIASES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "int": "int32",
}


class Device:
    """A torch device: `"cpu"`, `"cuda"` or `"cuda:0"`."""

    def __init__(self, name: Any, index: int | None = None) -> None:
        kind, _, number = str(name).partition(":")
        if kind not in ("cpu", "cuda"):
            raise RuntimeError(
                f"Expected one of cpu, cuda device type at start of device string: {kind}"
            )
        self.type = kind
        self.index = int(number) if number else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Tensor:
    """A tensor of the simulated torch: values in NumPy, time on the machine. Looking at values on
    the GPU waits for it.
    """

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
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found cpu and cuda"
            )
        self.machine.multiply(self.data, other.data, self.device.type, self.dtype.name, torch=True)
        wide = np.float64 if self.dtype.itemsize == 8 else np.float32
        return self._like(self.data.astype(wide, copy=False) @ other.data.astype(wide, copy=False))

    __matmul__ = mm = matmul

    def to(self, *args: Any, dtype: Any = None, device: Any = None, **_: Any) -> "Tensor":
        """Convert or move: a dtype, a device or both."""
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
        """Nothing is copied: values are never changed in place."""
        return self

    contiguous = detach = clone

    def t(self) -> "Tensor":
        """Transposed."""
        return self._like(self.data.T)

    T = property(t)

    def numpy(self) -> np.ndarray:
        """The values as an array."""
        if self.device.type == "cuda":
            self.machine.synchronize()
        return self.data

    def item(self) -> Any:
        """The one value as a number."""
        return self.numpy().item()

    __float__ = item

    def __getitem__(self, key: Any) -> "Tensor":
        return self._like(self.data[key])

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self.data.shape

    def median(self) -> "Tensor":
        """The lower of the two middle values, as torch has it."""
        return self._like(np.sort(self.data, axis=None)[(self.data.size - 1) // 2])

    def _reduce(self, name: str) -> "Tensor":
        return self._like(getattr(self.data, name)())

    def _binary(self, name: str, other: Any) -> "Tensor":
        return self._like(
            getattr(self.data, name)(other.data if isinstance(other, Tensor) else other)
        )


for _name in ("sum", "mean", "min", "max"):
    setattr(Tensor, _name, partialmethod(Tensor._reduce, _name))
for _name in ("add", "sub", "mul", "truediv", "radd", "rsub", "rmul", "rtruediv"):
    setattr(Tensor, f"__{_name}__", partialmethod(Tensor._binary, f"__{_name}__"))


class SimulatedEvent:
    """A CUDA event: a time stamp that the GPU sets when it comes to it."""

    def __init__(self, machine: RemoteMachine, *, timed: bool) -> None:
        self.machine, self.timed = machine, timed
        self.at: int | None = None

    def record(self, *_: Any) -> None:
        """Queue the stamp."""
        self.at = self.machine.record()

    def synchronize(self) -> None:
        """Wait for the stamp."""
        if self.at is not None:
            self.machine.wait(self.at)

    def query(self) -> bool:
        """Whether the stamp is set."""
        return self.at is None or self.machine.query(self.at)

    def elapsed_time(self, end: "SimulatedEvent") -> float:
        """Milliseconds from this stamp to another."""
        if not self.timed or not end.timed:
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self.at is None or end.at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return self.machine.elapsed(self.at, end.at) * 1e3


SimulatedEvent.__name__ = "Event"  # in messages, as torch's is


class _Guard(contextlib.ContextDecorator):
    """`no_grad` and its like: nothing to do here."""

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class _Generator:
    """A seeded generator: every value of the simulated torch is repeatable anyway."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def manual_seed(self, _: int) -> Self:
        """Nothing to seed."""
        return self


class _Module(types.ModuleType):
    """A module that names what it lacks."""

    def __init__(self, name: str, members: dict[str, Any]) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotSimulatedError(f"{self.__name__}.{name}")


def _nothing(*_: Any, **__: Any) -> None: ...


def _makers(machine: RemoteMachine) -> dict[str, Callable[..., Tensor]]:
    rng = np.random.default_rng(0)

    def maker(
        values: Callable[[tuple[int, ...]], Any], usual: str = "float32"
    ) -> Callable[..., Tensor]:
        def make(*size: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
            sizes = kwargs.get("size") or (
                size[0] if size and isinstance(size[0], tuple | list) else size
            )
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
        "zeros": maker(np.zeros),
        "ones": maker(np.ones),
        "empty": maker(np.zeros),
        "full": full,
        "randint": randint,
        "tensor": tensor,
        "as_tensor": tensor,
        "from_numpy": tensor,
    }


def _cuda(machine: RemoteMachine) -> _Module:
    stream = SimpleNamespace(synchronize=machine.synchronize)
    members: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "synchronize": machine.synchronize,
        "Event": lambda enable_timing=False, **_: SimulatedEvent(machine, timed=enable_timing),
        "current_stream": lambda *_: stream,
        "get_device_name": lambda *_: "simulated GPU",
        "device": _Guard,
        **dict.fromkeys(
            ("empty_cache", "manual_seed", "manual_seed_all", "set_device", "init"), _nothing
        ),
    }
    return _Module("torch.cuda", members)


def module(machine: RemoteMachine) -> _Module:
    """A module to stand in for torch, whose work is done by the machine."""
    switches = SimpleNamespace(allow_tf32=False, benchmark=False)
    members: dict[str, Any] = {
        **DTYPES,
        **{alias: DTYPES[name] for alias, name in ALIASES.items()},
        **_makers(machine),
        **dict.fromkeys(
            ("manual_seed", "set_num_threads", "set_grad_enabled", "set_float32_matmul_precision"),
            _nothing,
        ),
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
    return _Module("torch", members)
