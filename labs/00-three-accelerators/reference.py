"""Lab 00, reference solution: measure how fast a machine multiplies two n x n matrices."""

import time
from statistics import median


def operands(n: int, dtype: str = "fp32", device: str = "cpu"):
    """Two random n x n matrices: torch tensors where torch is installed, else NumPy arrays."""
    try:
        import torch
    except ImportError:
        import numpy as np

        if device != "cpu":
            raise ValueError(
                f"device {device!r} needs torch: install it, or measure on 'cpu'"
            ) from None
        kind = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}[dtype]
        rng = np.random.default_rng(0)
        return rng.standard_normal((n, n)).astype(kind), rng.standard_normal((n, n)).astype(kind)
    kind = {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp32": torch.float32,
        "fp64": torch.float64,
    }[dtype]
    torch.manual_seed(0)
    return torch.randn(n, n, dtype=kind, device=device), torch.randn(
        n, n, dtype=kind, device=device
    )


def clock_on_the_host(a, b) -> float:
    """Seconds of one a @ b on a CPU, which returns when the work is done."""
    start = time.perf_counter()
    a @ b
    return time.perf_counter() - start


def events_on_the_gpu(a, b) -> float:
    """Seconds of one a @ b on a GPU, which itself records a timestamp when it reaches an event."""
    import torch

    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    a @ b
    end.record()
    end.synchronize()  # the timestamp exists only once the GPU has reached the event
    return start.elapsed_time(end) / 1e3  # elapsed_time returns milliseconds


def measure(n: int, dtype: str = "fp32", device: str = "cpu", repeats: int = 10) -> dict:
    """Time one n x n x n matmul: median seconds, operations and achieved TFLOP/s."""
    a, b = operands(n, dtype, device)
    once = events_on_the_gpu if device.startswith("cuda") else clock_on_the_host
    for _ in range(3):
        a @ b
    times = [once(a, b) for _ in range(repeats)]
    seconds, flops = median(times), 2 * n**3
    return {"seconds": seconds, "flops": flops, "tflops": flops / seconds / 1e12}
