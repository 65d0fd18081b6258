"""Constructs traces in Kineto's format from a small model of a GPU: a host that launches, a device
that works off its queue, and kernels that take what their bounds allow.

Such a trace says of itself that it is constructed. It shows what a cause looks like, and is no
measurement of anything.
"""

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator

NOTE = (
    "Constructed from a model of a GPU, not recorded: it shows what a cause looks like in Kineto's "
    "format, and its times are no measurements."
)
LAUNCH, LATENCY = 6.0, 4.0
"""µs that a launch takes of the host, and until the kernel starts on an idle device: launching one
takes 5 to 10 µs.
"""
REACHED = 0.85
"""Part of its bound's rate that a kernel of the model reaches."""
TYPES = {"bf16": "c10::BFloat16", "fp16": "c10::Half", "fp32": "float", "fp64": "double"}
SIZE = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>(int, {})"
HOPPER = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1"
PRODUCTS = {
    "bf16": "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "fp16": "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn",
    "fp32": "ampere_sgemm_128x128_tn",
}


class Sketch:
    """A trace that is being written: what the host does moves its clock, and what it launches
    queues up on a stream.

    Parameters
    ----------
    chip : whose peaks the kernels' times come from.
    seed : of the scatter of all times.
    device : number of the device.
    start : µs.
    """

    def __init__(
        self, chip: Accelerator | str, seed: int = 0, *, device: int = 0, start: float = 1e6
    ) -> None:
        self.chip, self.random = accelerator(chip), np.random.default_rng(seed)
        self.events: list[dict[str, Any]] = []
        self.now, self.device, self.pid = start, device, 4000 + device
        self.free: dict[int, float] = {}
        self._next = 1

    def about(self, value: float, part: float = 0.05) -> float:
        """A value with some scatter."""
        return float(value * self.random.uniform(1 - part, 1 + part))

    def product(
        self, rows: int, depth: int, columns: int, dtype: str = "bf16", **more: Any
    ) -> None:
        """A matrix product that runs as fast as its bound allows."""
        flops = 2.0 * rows * depth * columns
        unit = "vector" if dtype == "fp32" else "matrix"
        moved = SIZE[dtype] * (rows * depth + depth * columns + rows * columns)
        least = max(flops / self.chip.peak(dtype, unit), moved / self.chip.bandwidth)  # type: ignore[arg-type]
        given: dict[str, Any] = {
            "seconds": least / REACHED,
            "grid": [ceil(rows / 128), ceil(columns / 128), 1],
            "block": [128, 1, 1],
            **more,
        }
        shapes = [[rows, depth], [depth, columns]]
        hopper = dtype == "bf16" and self.chip.key.startswith("h")
        kernel = HOPPER if hopper else PRODUCTS[dtype]
        self.operator("aten::mm", kernel, shapes, [TYPES[dtype]] * 2, **given)

    def pointwise(
        self, name: str, dims: Sequence[int], dtype: str = "bf16", inputs: int = 1, **more: Any
    ) -> None:
        """An operator that passes over arrays once, as fast as memory does."""
        moved = prod(dims) * SIZE[dtype] * (inputs + 1)
        what = f"{name.title()}Functor<{TYPES[dtype]}>"
        given: dict[str, Any] = {
            "seconds": moved / self.chip.bandwidth / REACHED,
            "grid": [max(prod(dims) // 512, 1), 1, 1],
            "block": [128, 1, 1],
            **more,
        }
        kernel = POINTWISE.format(what, what)
        shapes = [list(dims) for _ in range(inputs)]
        self.operator(f"aten::{name}", kernel, shapes, [TYPES[dtype]] * inputs, **given)

    def operator(
        self,
        name: str,
        kernel: str,
        shapes: Sequence[Sequence[int]],
        types: Sequence[str],
        *,
        seconds: float,
        grid: Sequence[int] = (132, 1, 1),
        block: Sequence[int] = (128, 1, 1),
        strides: Sequence[Sequence[int]] | None = None,
        stream: int = 7,
        host: float = 0.0,
        graph: bool = False,
    ) -> None:
        """An operator of the host and the kernel that it launches; `host`, µs, comes on top of
        launching.
        """
        here = self._next
        self._next += 1
        inside = self.about(3.0) + host
        if not graph:
            args = {
                "External id": here,
                "Input Dims": [list(one) for one in shapes],
                "Input type": list(types),
                "Input Strides": [list(one) for one in strides or map(_dense, shapes)],
            }
            whole = inside + LAUNCH + 1.0
            self._row("cpu_op", name, self.now, whole, self.pid, args)
            self._call("cudaLaunchKernel", self.now + inside, LAUNCH, here)
        start = max(self.now + inside + LATENCY, self.free.get(stream, 0.0))
        lasted = self.about(seconds * 1e6 + 1.5)
        properties: dict[str, Any] = {
            "blocks per SM": prod(grid) / (self.chip.multiprocessors or 1),
            "grid": list(grid),
            "block": list(block),
        }
        self.on_device("kernel", kernel, start, lasted, stream, here, properties)
        if not graph:
            self.now += inside + LAUNCH + self.about(2.0)

    def copy(
        self, way: str, moved: float, *, rate: float, waits: bool = True, stream: int = 7
    ) -> None:
        """A copy between host and device, for which the host waits unless its memory is pinned."""
        names = {
            "HtoD": "Memcpy HtoD (Pageable -> Device)",
            "DtoH": "Memcpy DtoH (Device -> Pageable)",
        }
        here = self._next
        self._next += 1
        start = max(self.now + LATENCY, self.free.get(stream, 0.0))
        lasted = self.about(moved / rate * 1e6 + 1.5)
        args = {"External id": here, "Input Dims": [[int(moved) // 4]], "Input type": ["float"]}
        until = start + lasted if waits else self.now + LAUNCH
        self._row("cpu_op", "aten::copy_", self.now, until - self.now + 4.0, self.pid, args)
        self._call("cudaMemcpyAsync", self.now + 2.0, LAUNCH, here)
        rates = {"bytes": int(moved), "memory bandwidth (GB/s)": moved / lasted / 1e3}
        self.on_device("gpu_memcpy", names[way], start, lasted, stream, here, rates)
        if waits:
            begin = self.now + 2.0 + LAUNCH
            self._call("cudaStreamSynchronize", begin, max(until - begin, 1.0), here)
        self.now = until + 5.0

    def item(self) -> None:
        """A number that the host asks for: it waits until the device has done all."""
        here = self._next
        self._next += 1
        ready = max(self.now + 8.0, self.free.get(7, 0.0))
        until = ready + 6.0
        self._row(
            "cpu_op",
            "aten::item",
            self.now,
            until - self.now + 3.0,
            self.pid,
            {"External id": here, "Input Dims": [[]], "Input type": ["float"]},
        )
        self._row(
            "cpu_op",
            "aten::_local_scalar_dense",
            self.now + 1,
            until - self.now + 1.0,
            self.pid,
            {"External id": here + 1, "Input Dims": [[]], "Input type": ["float"]},
        )
        self._next += 1
        self._call("cudaMemcpyAsync", self.now + 2.0, 5.0, here + 1)
        self.on_device(
            "gpu_memcpy",
            "Memcpy DtoH (Device -> Pageable)",
            ready,
            1.2,
            7,
            here + 1,
            {"bytes": 4, "memory bandwidth (GB/s)": 0.003},
        )
        self._call(
            "cudaStreamSynchronize", self.now + 7.5, max(until - self.now - 7.5, 1.0), here + 1
        )
        self.now = until + 4.0

    def wait(self, name: str = "cudaDeviceSynchronize") -> None:
        """The host waits for the device."""
        until = max(self.now + 2.0, *self.free.values(), 0.0) + 2.0
        self._call(name, self.now, until - self.now, 0)
        self.now = until + 1.0

    def busy(self, micros: float, name: str = "") -> None:
        """The host does something else; under a name, it is an annotation."""
        lasted = self.about(micros)
        if name:
            self._row("user_annotation", name, self.now, lasted, self.pid, {})
        self.now += lasted

    def collective(
        self, name: str, elements: int, micros: float, *, stream: int = 20, group: int = 8
    ) -> None:
        """A collective of NCCL, on its own stream; it begins when what was launched is done."""
        here = self._next
        self._next += 1
        inside = self.about(6.0)
        self._row(
            "cpu_op",
            f"c10d::{name}_",
            self.now,
            inside + LAUNCH + 3,
            self.pid,
            {"External id": here, "Input Dims": [[elements]], "Input type": ["c10::BFloat16"]},
        )
        self._call("cudaLaunchKernelExC", self.now + inside, LAUNCH, here)
        start = max(self.now + inside + LATENCY, self.free.get(stream, 0.0), self.free.get(7, 0.0))
        what = {"allreduce": "AllReduce_Sum_bf16_RING_LL", "allgather": "AllGather_RING_LL"}[name]
        args = {
            "grid": [24, 1, 1], "block": [544, 1, 1], "Collective name": name, "dtype": "BFloat16",
            "In msg nelems": elements, "Out msg nelems": elements, "Group size": group,
        }  # fmt: skip
        self.on_device(
            "kernel",
            f"ncclDevKernel_{what}(ncclDevKernelArgsStorage<4096ul>)",
            start,
            micros,
            stream,
            here,
            args,
        )
        self.now += inside + LAUNCH + 4

    def join(self, stream: int = 20) -> None:
        """What comes next on the main stream waits for another stream."""
        self.free[7] = max(self.free.get(7, 0.0), self.free.get(stream, 0.0))

    def on_device(
        self, category: str, name: str, start: float, lasted: float, stream: int, here: int,
        more: dict[str, Any],
    ) -> None:  # fmt: skip
        """A row of the device; the stream is free when it ends."""
        args = {"External id": here, "device": self.device, "context": 1, "stream": stream,
                "correlation": here, **more}  # fmt: skip
        self._row(category, name, start, lasted, self.device, args, stream)
        self.free[stream] = start + lasted + 1.0

    def _call(self, name: str, start: float, lasted: float, here: int) -> None:
        args = {"External id": here, "cbid": 211, "correlation": here}
        self._row("cuda_runtime", name, start, lasted, self.pid, args)

    def _row(
        self, category: str, name: str, start: float, lasted: float, pid: int,
        args: dict[str, Any], tid: int | None = None,
    ) -> None:  # fmt: skip
        row = {"ph": "X", "cat": category, "name": name, "pid": pid,
               "tid": pid if tid is None else tid, "ts": round(start, 3), "dur": round(lasted, 3),
               "args": args}  # fmt: skip
        self.events.append(row)


def whole(*scenes: Sketch) -> dict[str, Any]:
    """A trace of one or several devices, as Kineto writes it, that says that it is constructed."""
    chip = scenes[0].chip
    device = {
        "name": chip.device_names[0],
        "totalGlobalMem": int(chip.memory or 0),
        "numSms": int(chip.multiprocessors or 0),
        "warpSize": 32,
    }
    return {
        "schemaVersion": 1,
        "constructed": True,
        "note": NOTE,
        "deviceProperties": [{"id": one.device, **device} for one in scenes],
        "displayTimeUnit": "ms",
        "traceEvents": [event for one in scenes for event in one.events],
    }


def _dense(dims: Sequence[int]) -> list[int]:
    return [prod(dims[i + 1 :]) for i in range(len(dims))]
