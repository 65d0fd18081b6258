"""Makes the twelve seeded traces: recorded on a CPU where a cause can be made there, else
constructed.

``python -m tools.seeded_traces`` writes them anew; recording needs torch.
"""

import gzip
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_tools.diagnosis.causes import FOLDER
from tools.constructed import Sketch, whole


def _layers(scene: Sketch, times: int, tokens: int = 4096, width: int = 4096) -> None:
    for _ in range(times):
        scene.product(tokens, width, width)
        scene.pointwise("gelu", (tokens, width))


def launch_bound() -> dict[str, Any]:
    """A decoding step of many kernels, each shorter than its launch."""
    scene = Sketch("h100-sxm", 1)
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
    scene = Sketch("a100-sxm-80", 3)
    for _ in range(90):
        scene.product(2048, 2048, 2048)
        scene.pointwise("abs", (2048, 2048))
        scene.item()
        scene.busy(35.0)
    return whole(scene)


def copies() -> dict[str, Any]:
    """Activations that go to the host and back."""
    scene = Sketch("h100-sxm", 4)
    for _ in range(25):
        _layers(scene, 2)
        scene.copy("DtoH", 2.0 * 4096 * 4096, rate=11e9)
        scene.copy("HtoD", 2.0 * 4096 * 4096, rate=12e9)
    return whole(scene)


def ragged_waves() -> dict[str, Any]:
    """Products of so few rows that most multiprocessors have no block."""
    scene = Sketch("h100-sxm", 8)
    for _ in range(60):
        # Each block multiplies as fast as one multiprocessor does, and there are 8 of them.
        one = 2.0 * 256 * 16384 * 512 / (scene.chip.peak("bf16") * 8 / 132) / 0.8
        scene.product(256, 16384, 512, seconds=one, grid=[2, 4, 1])
        scene.pointwise("add", (256, 512), inputs=2)
    scene.wait()
    return whole(scene)


def exposed_collectives() -> dict[str, Any]:
    """All-reduces after each layer, while nothing else runs."""
    scene = Sketch("h100-sxm", 9)
    for _ in range(50):
        _layers(scene, 1, tokens=2048)
        elements = 2048 * 4096 * 8
        scene.collective("allreduce", elements, scene.about(2 * 2.0 * elements / 400e9 * 1e6))
        scene.join()
    scene.wait()
    return whole(scene)


def load_imbalance() -> dict[str, Any]:
    """Four ranks in one file; the last has three times the tokens of the others."""
    scenes = [Sketch("h100-sxm", 10 + rank, device=rank) for rank in range(4)]
    elements = 2048 * 4096
    for _ in range(20):
        for scene in scenes:
            _layers(scene, 1, tokens=3 * 4096 if scene is scenes[-1] else 4096)
        end = max(scene.free[7] for scene in scenes) + 2 * 2.0 * elements / 400e9 * 1e6 + 20.0
        for scene in scenes:
            begun = max(scene.free[7], scene.now + 10.0)
            scene.collective("allreduce", elements, end - begun, group=4)
            scene.join()
    return whole(*scenes)


def at_roof() -> dict[str, Any]:
    """Large products in bf16, one after the other."""
    scene = Sketch("h100-sxm", 11)
    for _ in range(40):
        _layers(scene, 1, tokens=8192, width=8192)
    scene.wait()
    return whole(scene)


def unknown() -> dict[str, Any]:
    """A CUDA graph that is replayed, of which the trace shows one row each time."""
    scene = Sketch("h100-sxm", 12)
    for _ in range(40):
        start = max(scene.now + 8.0, scene.free.get(7, 0.0))
        scene._call("cudaGraphLaunch", scene.now, 9.0, scene._next)
        lasted = scene.about(2400.0)
        scene.on_device("kernel", "CUDA graph 1", start, lasted, 7, scene._next, {})
        scene._next += 1
        scene.now += 40.0
        if scene.free[7] - scene.now > 5000:
            scene.busy(2400.0)
    scene.wait()
    return whole(scene)


def host_bound() -> dict[str, Any]:
    """A loop that loads each batch with the interpreter before it multiplies."""
    import torch

    weights, lines = torch.randn(512, 512), ["3,1,4,1,5,9,2,6" * 40] * 512

    def load() -> Any:
        rows = [[float(one) for one in line.split(",")[:64]] for line in lines]
        return torch.tensor(rows).repeat(1, 8)

    def step() -> None:
        for _ in range(6):
            torch.relu(load() @ weights) @ weights

    return _recorded(step)


def unfused_elementwise() -> dict[str, Any]:
    """GELU as its formula is written, an operator for each sign."""
    import torch

    x = torch.randn(1024, 4096)

    def step() -> None:
        for _ in range(4):
            0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    return _recorded(step)


def strided() -> dict[str, Any]:
    """Arrays that are transposed to be laid out by feature, and back."""
    import torch

    x, weights = torch.randn(2048, 4096), torch.randn(4096, 64)

    def step() -> None:
        for _ in range(4):
            torch.relu(x.t().contiguous()).t().contiguous() @ weights

    return _recorded(step)


def wrong_format() -> dict[str, Any]:
    """Activations in 32 bits that are multiplied in 64, to be safe."""
    import torch

    x, weights = torch.randn(1024, 1024), torch.randn(1024, 512, dtype=torch.float64)

    def step() -> None:
        for _ in range(4):
            torch.relu((x.double() @ weights).float())

    return _recorded(step)


MADE: dict[str, Callable[[], dict[str, Any]]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        launch_bound,
        host_bound,
        synchronisation,
        copies,
        unfused_elementwise,
        strided,
        wrong_format,
        ragged_waves,
        exposed_collectives,
        load_imbalance,
        at_roof,
        unknown,
    )
}
"""What makes each."""


def _recorded(step: Callable[[], None]) -> dict[str, Any]:
    """A trace of torch.profiler on this computer's CPU, one thread, without the machine's name."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        step()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
            step()
    descriptor, name = tempfile.mkstemp(suffix=".json")
    os.close(descriptor)
    try:
        profiler.export_chrome_trace(name)
        found: dict[str, Any] = json.loads(Path(name).read_text(encoding="utf-8"))
    finally:
        Path(name).unlink()
    for key in ("host_name", "traceName", "trace_id"):
        found.pop(key, None)
    note = "Recorded by torch.profiler on one core of a CPU, without the machine's name."
    return {"constructed": False, "note": note, **found}


def write(folder: Path, causes: list[str]) -> None:
    """Make these traces and write them, the same bytes for the same events."""
    folder.mkdir(parents=True, exist_ok=True)
    for cause in causes:
        text = json.dumps(MADE[cause]()).encode()
        (folder / f"{cause}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    write(FOLDER, sys.argv[1:] or list(MADE))
