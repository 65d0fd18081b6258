"""Operands and operators on a device: torch where it is installed, NumPy otherwise."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from course_lib.bench.device import torch_or_none
from course_lib.core.checks import CourseError, known

DATA = ("random", "zeros")
# Random numbers that a CPU draws at most: a larger matrix repeats them, for drawing a gigabyte
# takes longer than moving it.
DRAWN = 2**22 + 1
# The fp8 that AMD's matrix units multiply, by how an architecture's name begins; others have none.
AMD_FP8 = {"gfx94": "float8_e4m3fnuz", "gfx95": "float8_e4m3fn", "gfx12": "float8_e4m3fn"}


class NumpyArrays:
    """What the benchmark needs of an array library on one device: NumPy on the CPU."""

    _TYPES: ClassVar = {"fp32": np.float32, "fp64": np.float64, "fp16": np.float16}

    def __init__(self) -> None:
        self.label = f"numpy {np.__version__}"

    def supports(self, dtype: str) -> str:
        """Why a format cannot be multiplied here; empty where it can."""
        return "" if dtype in self._TYPES else f"NumPy has no {dtype}: install torch"

    def operand(
        self, rows: int, columns: int, dtype: str, data: str, seed: int, *, second: bool = False
    ) -> Any:
        """A matrix of seeded random numbers or of zeros; `second`: as a right operand."""
        kind = self._TYPES[dtype]
        if known("data", data, DATA) == "zeros":
            return np.zeros((rows, columns), kind)
        draw = np.random.default_rng(seed).standard_normal
        if rows * columns <= DRAWN:
            return draw((rows, columns), np.float32).astype(kind)
        return np.resize(draw(DRAWN, np.float32).astype(kind), (rows, columns))

    def multiply(self, a: Any, b: Any, dtype: str) -> Any:
        """The product, in the format that the device gives."""
        return a @ b

    def copy(self, to: Any, source: Any) -> None:
        """One read and one write."""
        np.copyto(to, source)

    def triad(self, to: Any, a: Any, b: Any) -> None:
        """`to = a + 3 b`: two reads and one write."""
        np.multiply(b, 3, out=to)
        np.add(to, a, out=to)

    def outer(self, to: Any, a: Any, b: Any) -> None:
        """`to += a[:, k] × b[k, :]` for one k after another, each in a pass of its own."""
        for column, row in zip(a.T, b, strict=True):
            to += column[:, None] * row

    def timed(self, run: Callable[[], Any], calls: int) -> list[float]:
        """Seconds of one call, after so many were made and the device has finished them."""
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return [(time.perf_counter() - start) / calls]

    def rows(self, matrix: Any, count: int) -> np.ndarray[Any, Any]:
        """The first rows as float64 on the host."""
        return np.asarray(matrix[:count], np.float64)

    def settings(self, dtype: str) -> str:
        """What decides how the arithmetic is done."""
        return "triad and outer product in two passes each"


class TorchArrays(NumpyArrays):
    """The same of torch, on a CPU or a GPU."""

    def __init__(self, torch: Any, device: str) -> None:
        self._torch, self._device, self._one = torch, device, None
        self.label = f"torch {torch.__version__}"
        self._types = {
            "fp64": torch.float64,
            "fp32": torch.float32,
            "tf32": torch.float32,
            "bf16": torch.bfloat16,
            "fp16": torch.float16,
            "int8": torch.int8,
            "fp8": getattr(torch, "float8_e4m3fn", None),
        }
        if device == "cuda" and getattr(torch.version, "hip", None):
            # Its capability is the architecture's number, and it asks for tf32 in other ways.
            name = torch.cuda.get_device_properties(0).gcnArchName
            fp8 = next((one for start, one in AMD_FP8.items() if name.startswith(start)), "")
            self._types |= {"tf32": None, "fp8": getattr(torch, fp8, None)}

    def supports(self, dtype: str) -> str:
        on_gpu = self._device == "cuda"
        major = self._torch.cuda.get_device_capability(0) if on_gpu else (0, 0)
        if self._types.get(dtype) is None or (
            self._device == "mps" and dtype not in ("fp32", "fp16", "bf16")
        ):
            return f"torch has no {dtype} here"
        if dtype in ("tf32", "fp8") and not on_gpu:
            return f"{dtype} is a mode of a GPU's matrix unit"
        if (dtype == "tf32" and major < (8, 0)) or (dtype == "fp8" and major < (8, 9)):
            return f"this GPU's matrix unit has no {dtype}"
        if dtype == "bf16" and on_gpu and major < (8, 0):
            return "this GPU emulates bf16: not its matrix unit's rate"
        return ""

    def operand(
        self, rows: int, columns: int, dtype: str, data: str, seed: int, *, second: bool = False
    ) -> Any:
        torch, kind = self._torch, self._types[dtype]
        generator = torch.Generator(self._device).manual_seed(seed)
        here = {"device": self._device}
        if known("data", data, DATA) == "zeros":
            made = torch.zeros(rows, columns, **here).to(kind)
        elif dtype == "int8":
            size = (rows, columns)
            made = torch.randint(-127, 128, size, dtype=kind, **here, generator=generator)
        elif self._device == "cpu" and rows * columns > DRAWN:
            few = torch.randn(DRAWN, generator=generator).to(kind)
            made = few.repeat(-(-rows * columns // DRAWN))[: rows * columns].view(rows, columns)
        else:
            made = torch.randn(rows, columns, **here, generator=generator).to(kind)
        # A GPU's 8-bit kernels take their right operand by columns: fp8 takes no other, and int8 by
        # rows falls back to a kernel at a tenth of the rate. The others are fastest by rows.
        by_columns = second and self._device == "cuda" and dtype in ("fp8", "int8")
        return made.t().contiguous().t() if by_columns else made

    def multiply(self, a: Any, b: Any, dtype: str) -> Any:
        torch = self._torch
        if dtype == "int8":
            return torch._int_mm(a, b)
        if dtype == "fp8":
            if self._one is None:  # once: filled in each call, it would be timed with the product
                self._one = torch.ones((), device=self._device)
            scales = {"scale_a": self._one, "scale_b": self._one}
            made = torch._scaled_mm(a, b, **scales, out_dtype=torch.bfloat16)
            return made[0] if isinstance(made, tuple) else made  # of torch 2.4, with its largest
        if self._device == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        return a @ b

    def copy(self, to: Any, source: Any) -> None:
        to.copy_(source)

    def triad(self, to: Any, a: Any, b: Any) -> None:
        self._torch.add(a, b, alpha=3, out=to)

    def outer(self, to: Any, a: Any, b: Any) -> None:
        for column, row in zip(a.t(), b, strict=True):
            to.addr_(column, row)

    def timed(self, run: Callable[[], Any], calls: int) -> list[float]:
        if self._device == "cpu":
            return super().timed(run, calls)
        if self._device == "mps":
            self._torch.mps.synchronize()  # what made the operands may be under way
            start = time.perf_counter()
            for _ in range(calls):
                run()
            self._torch.mps.synchronize()
            return [(time.perf_counter() - start) / calls]
        marks = [self._torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
        marks[0].record()
        for mark in marks[1:]:
            run()
            mark.record()
        marks[-1].synchronize()
        return [float(start.elapsed_time(end)) / 1e3 for start, end in pairwise(marks)]

    def rows(self, matrix: Any, count: int) -> np.ndarray[Any, Any]:
        result: np.ndarray[Any, Any] = matrix[:count].cpu().to(self._torch.float64).numpy()
        return result

    def settings(self, dtype: str) -> str:
        if self._device != "cuda":
            return f"threads={self._torch.get_num_threads()}"
        reduced = self._torch.backends.cuda.matmul
        sums = "int32" if dtype == "int8" else "fp32"
        return (
            f"tf32={'on' if dtype == 'tf32' else 'off'} accumulate={sums}"
            f" reduced_fp16={reduced.allow_fp16_reduced_precision_reduction}"
            f" reduced_bf16={reduced.allow_bf16_reduced_precision_reduction}"
        )


def arrays(device: str) -> NumpyArrays:
    """The array library for a device; NumPy on a CPU without torch."""
    torch = torch_or_none()
    if torch is not None:
        return TorchArrays(torch, device)
    if device != "cpu":
        raise CourseError(f"device {device!r} needs torch: pip install -e '.[torch]'")
    return NumpyArrays()
