"""Makes the twelve seeded traces: recorded on a CPU where a cause can be made there (with torch),
else constructed in Kineto's format, as each says of itself, from a small model of a GPU:
``python -m tests.course_tools.diagnosis.seeded_traces`` writes all anew.
"""

import gzip
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np

from course_lib.specs.catalog import accelerator
from course_tools.diagnosis.causes import FOLDER

NOTE = (
    "Constructed from a model of a GPU, not recorded: it shows what a cause looks like in Kineto's "
    "format, and its times are no measurements."
)
# µs that a launch takes of the host, and until the kernel starts on an idle device: launching one
# takes 5 to 10 µs.
LAUNCH, LATENCY = 6.0, 4.0
REACHED = 0.85  # part of its bound's rate that a kernel of the model reaches
MAIN, COMMUNICATION = 7, 20  # streams
TYPE, SIZE = "c10::BFloat16", 2
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>(int, {})"
HOPPER = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1"
AMPERE = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
COPIES = {"HtoD": "Memcpy HtoD (Pageable -> Device)", "DtoH": "Memcpy DtoH (Device -> Pageable)"}


Span = tuple[float, float]  # start and how long, µs
Grid = Sequence[int]


class SyntheticTrace:
    """A trace that is being written: what the host does moves its clock, `now` (µs), and what it
    launches queues up on a stream; `seed` is of the scatter of all times.
    """

    def __init__(self, chip: str, seed: int = 0, *, device: int = 0) -> None:
        self.chip, self.random = accelerator(chip), np.random.default_rng(seed)
        self.events: list[dict[str, Any]] = []
        self.now, self.device, self.pid = 1e6, device, 4000 + device
        self.free: dict[int, float] = {}
        self._last = 0

    def about(self, value: float, part: float = 0.05) -> float:
        """A value with some scatter."""
        return float(value * self.random.uniform(1 - part, 1 + part))

    def product(
        self, rows: int, depth: int, columns: int, seconds: float = 0.0, grid: Grid | None = None
    ) -> None:
        """A matrix product that runs as fast as its bound allows."""
        flops = 2.0 * rows * depth * columns
        moved = SIZE * (rows * depth + depth * columns + rows * columns)
        least = max(flops / self.chip.peak("bf16"), moved / self.chip.bandwidth)
        self._operator(
            "aten::mm",
            HOPPER if self.chip.key.startswith("h") else AMPERE,
            [[rows, depth], [depth, columns]],
            seconds or least / REACHED,
            grid or [ceil(rows / 128), ceil(columns / 128), 1],
        )

    def pointwise(self, name: str, dims: Sequence[int], inputs: int = 1) -> None:
        """An operator that passes over arrays once, as fast as memory does."""
        moved = prod(dims) * SIZE * (inputs + 1)
        what = f"{name.title()}Functor<{TYPE}>"
        self._operator(
            f"aten::{name}",
            POINTWISE.format(what, what),
            [list(dims) for _ in range(inputs)],
            moved / self.chip.bandwidth / REACHED,
            [max(prod(dims) // 512, 1), 1, 1],
        )

    def _operator(
        self, name: str, kernel: str, shapes: Sequence[Grid], seconds: float, grid: Grid
    ) -> None:
        """An operator of the host and the kernel that it launches."""
        here, inside = self.new_id(), self.about(3.0)
        strides = [[prod(dims[i + 1 :]) for i in range(len(dims))] for dims in shapes]
        types = [TYPE] * len(shapes)
        self._op(name, (self.now, inside + LAUNCH + 1.0), here, shapes, types, strides)
        self.call("cudaLaunchKernel", (self.now + inside, LAUNCH), here)
        start = max(self.now + inside + LATENCY, self.free.get(MAIN, 0.0))
        properties: dict[str, Any] = {
            "blocks per SM": prod(grid) / (self.chip.multiprocessors or 1),
            "grid": list(grid),
            "block": [128, 1, 1],
        }
        lasted = self.about(seconds * 1e6 + 1.5)
        self.on_device("kernel", kernel, (start, lasted), MAIN, here, properties)
        self.now += inside + LAUNCH + self.about(2.0)

    def copy(self, way: str, moved: float, *, rate: float) -> None:
        """A copy between host and device, for which the host waits."""
        here = self.new_id()
        start = max(self.now + LATENCY, self.free.get(MAIN, 0.0))
        lasted = self.about(moved / rate * 1e6 + 1.5)
        until, begin = start + lasted, self.now + 2.0 + LAUNCH
        spent = until - self.now + 4.0
        self._op("aten::copy_", (self.now, spent), here, [[int(moved) // 4]], ["float"])
        self.call("cudaMemcpyAsync", (self.now + 2.0, LAUNCH), here)
        rates = {"bytes": int(moved), "memory bandwidth (GB/s)": moved / lasted / 1e3}
        self.on_device("gpu_memcpy", COPIES[way], (start, lasted), MAIN, here, rates)
        self.call("cudaStreamSynchronize", (begin, max(until - begin, 1.0)), here)
        self.now = until + 5.0

    def item(self) -> None:
        """A number that the host asks for: it waits until the device has done all."""
        asked, here = self.new_id(), self.new_id()
        ready = max(self.now + 8.0, self.free.get(MAIN, 0.0))
        until = ready + 6.0
        waited = until - self.now
        self._op("aten::item", (self.now, waited + 3.0), asked, [[]], ["float"])
        name = "aten::_local_scalar_dense"
        self._op(name, (self.now + 1, waited + 1.0), here, [[]], ["float"])
        self.call("cudaMemcpyAsync", (self.now + 2.0, 5.0), here)
        rates = {"bytes": 4, "memory bandwidth (GB/s)": 0.003}
        self.on_device("gpu_memcpy", COPIES["DtoH"], (ready, 1.2), MAIN, here, rates)
        self.call("cudaStreamSynchronize", (self.now + 7.5, max(waited - 7.5, 1.0)), here)
        self.now = until + 4.0

    def wait(self) -> None:
        """The host waits for the device."""
        until = max(self.now + 2.0, *self.free.values(), 0.0) + 2.0
        self.call("cudaDeviceSynchronize", (self.now, until - self.now), 0)
        self.now = until + 1.0

    def busy(self, micros: float) -> None:
        """The host does something else."""
        self.now += self.about(micros)

    def collective(self, elements: int, micros: float, group: int = 8) -> None:
        """An all-reduce of NCCL, on its own stream, on which the main one waits; it begins when
        what was launched is done.
        """
        here, inside = self.new_id(), self.about(6.0)
        spent = inside + LAUNCH + 3
        self._op("c10d::allreduce_", (self.now, spent), here, [[elements]], [TYPE])
        self.call("cudaLaunchKernelExC", (self.now + inside, LAUNCH), here)
        free = (self.free.get(stream, 0.0) for stream in (COMMUNICATION, MAIN))
        args = {
            "grid": [24, 1, 1],
            "block": [544, 1, 1],
            "Collective name": "allreduce",
            "dtype": "BFloat16",
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "Group size": group,
        }
        name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        start = max(self.now + inside + LATENCY, *free)
        self.on_device("kernel", name, (start, micros), COMMUNICATION, here, args)
        self.now += inside + LAUNCH + 4
        self.free[MAIN] = max(self.free.get(MAIN, 0.0), self.free[COMMUNICATION])

    def new_id(self) -> int:
        """The next number by which a launch and its kernel are one."""
        self._last += 1
        return self._last

    def on_device(
        self, category: str, name: str, span: Span, stream: int, here: int, more: dict[str, Any]
    ) -> None:
        """A row of the device; the stream is free when it ends."""
        args = {"External id": here, "device": self.device, "context": 1, "stream": stream}
        args |= {"correlation": here, **more}
        self._row(category, name, span, self.device, stream, args)
        self.free[stream] = sum(span) + 1.0

    def call(self, name: str, span: Span, here: int) -> None:
        """A call of CUDA's runtime."""
        args = {"External id": here, "cbid": 211, "correlation": here}
        self._row("cuda_runtime", name, span, self.pid, self.pid, args)

    def _op(
        self, name: str, span: Span, here: int, dims: Any, types: list[str], strides: Any = None
    ) -> None:
        args = {"External id": here, "Input Dims": dims, "Input type": types}
        args |= {"Input Strides": strides} if strides is not None else {}
        self._row("cpu_op", name, span, self.pid, self.pid, args)

    def _row(self, category: str, name: str, span: Span, pid: int, tid: int, args: Any) -> None:
        row = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
        row |= {"ts": round(span[0], 3), "dur": round(span[1], 3), "args": args}
        self.events.append(row)


def whole(*scenes: SyntheticTrace) -> dict[str, Any]:
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


def _layers(scene: SyntheticTrace, times: int, tokens: int = 4096, width: int = 4096) -> None:
    for _ in range(times):
        scene.product(tokens, width, width)
        scene.pointwise("gelu", (tokens, width))


def launch_bound() -> dict[str, Any]:
    """A decoding step of many kernels, each shorter than its launch."""
    scene = SyntheticTrace("h100-sxm", 1)
    for _ in range(60):
        scene.product(1, 1024, 1024)
        for name in ("add", "mul", "silu"):
            scene.pointwise(name, (1, 1024), inputs=2)
    scene.wait()
    return whole(scene)


def synchronisation() -> dict[str, Any]:
    """A loop that asks for a number after every few kernels; what the host does with it takes less
    than the kernels, so that it would hide behind them.
    """
    scene = SyntheticTrace("a100-sxm-80", 3)
    for _ in range(90):
        scene.product(2048, 2048, 2048)
        scene.pointwise("abs", (2048, 2048))
        scene.item()
        scene.busy(35.0)
    return whole(scene)


def copies() -> dict[str, Any]:
    """Activations that go to the host and back."""
    scene = SyntheticTrace("h100-sxm", 4)
    for _ in range(25):
        _layers(scene, 2)
        scene.copy("DtoH", 2.0 * 4096 * 4096, rate=11e9)
        scene.copy("HtoD", 2.0 * 4096 * 4096, rate=12e9)
    return whole(scene)


def ragged_waves() -> dict[str, Any]:
    """Products of so few rows that most multiprocessors have no block."""
    scene = SyntheticTrace("h100-sxm", 8)
    for _ in range(60):
        # Each block multiplies as fast as one multiprocessor does, and there are 8 of them.
        one = 2.0 * 256 * 16384 * 512 / (scene.chip.peak("bf16") * 8 / 132) / 0.8
        scene.product(256, 16384, 512, seconds=one, grid=[2, 4, 1])
        scene.pointwise("add", (256, 512), inputs=2)
    scene.wait()
    return whole(scene)


def exposed_collectives() -> dict[str, Any]:
    """All-reduces after each layer, while nothing else runs."""
    scene = SyntheticTrace("h100-sxm", 9)
    for _ in range(50):
        _layers(scene, 1, tokens=2048)
        elements = 2048 * 4096 * 8
        scene.collective(elements, scene.about(2 * 2.0 * elements / 400e9 * 1e6))
    scene.wait()
    return whole(scene)


def load_imbalance() -> dict[str, Any]:
    """Four ranks in one file; the last has three times the tokens of the others."""
    scenes = [SyntheticTrace("h100-sxm", 10 + rank, device=rank) for rank in range(4)]
    elements = 2048 * 4096
    for _ in range(20):
        for scene in scenes:
            _layers(scene, 1, tokens=3 * 4096 if scene is scenes[-1] else 4096)
        end = max(scene.free[MAIN] for scene in scenes) + 2 * 2.0 * elements / 400e9 * 1e6 + 20.0
        for scene in scenes:
            begun = max(scene.free[MAIN], scene.now + 10.0)
            scene.collective(elements, end - begun, group=4)
    return whole(*scenes)


def at_roof() -> dict[str, Any]:
    """Large products in bf16, one after the other."""
    scene = SyntheticTrace("h100-sxm", 11)
    for _ in range(40):
        _layers(scene, 1, tokens=8192, width=8192)
    scene.wait()
    return whole(scene)


def unknown() -> dict[str, Any]:
    """A CUDA graph that is replayed, of which the trace shows one row each time."""
    scene = SyntheticTrace("h100-sxm", 12)
    for _ in range(40):
        start, here = max(scene.now + 8.0, scene.free.get(MAIN, 0.0)), scene.new_id()
        scene.call("cudaGraphLaunch", (scene.now, 9.0), here)
        lasted = scene.about(2400.0)
        scene.on_device("kernel", "CUDA graph 1", (start, lasted), MAIN, here, {})
        scene.now += 40.0
        if scene.free[MAIN] - scene.now > 5000:
            scene.busy(2400.0)
    scene.wait()
    return whole(scene)


def _recorded() -> dict[str, Callable[[], Any]]:
    """Steps that show a cause on a CPU."""
    import torch

    x, square = torch.randn(2048, 4096), torch.randn(512, 512)
    lines = ["3,1,4,1,5,9,2,6" * 40] * 512
    narrow, wide = torch.randn(4096, 64), torch.randn(1024, 1024)
    doubles = torch.randn(1024, 512, dtype=torch.float64)

    def load() -> Any:
        rows = [[float(one) for one in line.split(",")[:64]] for line in lines]
        return torch.tensor(rows).repeat(1, 8)

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    return {
        # A loop that loads each batch with the interpreter before it multiplies.
        "host-bound": lambda: [torch.relu(load() @ square) @ square for _ in range(6)],
        # GELU as its formula is written, an operator for each sign.
        "unfused-elementwise": lambda: [gelu(x[:1024]) for _ in range(4)],
        # Arrays that are transposed to be laid out by feature, and back.
        "strided": lambda: [
            torch.relu(x.t().contiguous()).t().contiguous() @ narrow for _ in range(4)
        ],
        # Activations in 32 bits that are multiplied in 64, to be safe.
        "wrong-format": lambda: [torch.relu((wide.double() @ doubles).float()) for _ in range(4)],
    }


def record_step(cause: str) -> dict[str, Any]:
    """A trace of torch.profiler on this computer's CPU, one thread, without the machine's name."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    step = _recorded()[cause]
    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        step()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
            step()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for key in ("host_name", "traceName", "trace_id"):
        found.pop(key, None)
    note = "Recorded by torch.profiler on one core of a CPU, without the machine's name."
    return {"constructed": False, "note": note, **found}


MADE: dict[str, Callable[[], dict[str, Any]]] = {
    "launch-bound": launch_bound,
    "host-bound": partial(record_step, "host-bound"),
    "synchronisation": synchronisation,
    "copies": copies,
    "unfused-elementwise": partial(record_step, "unfused-elementwise"),
    "strided": partial(record_step, "strided"),
    "wrong-format": partial(record_step, "wrong-format"),
    "ragged-waves": ragged_waves,
    "exposed-collectives": exposed_collectives,
    "load-imbalance": load_imbalance,
    "at-roof": at_roof,
    "unknown": unknown,
}


def write(folder: Path, causes: list[str]) -> None:
    """Make these traces and write them, the same bytes for the same events."""
    folder.mkdir(parents=True, exist_ok=True)
    for cause in causes:
        text = json.dumps(MADE[cause]()).encode()
        (folder / f"{cause}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    write(FOLDER, sys.argv[1:] or list(MADE))
