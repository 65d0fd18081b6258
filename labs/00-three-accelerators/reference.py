"""Lab 00, reference solution: measure how fast a machine multiplies two matrices."""

import time
from statistics import median

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}


def operands(M: int, N: int, K: int, dtype: str = "fp32", device: str = "cpu"):
    """A random M x K and a random K x N matrix: torch tensors, or NumPy arrays without torch."""
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
        return rng.standard_normal((M, K)).astype(kind), rng.standard_normal((K, N)).astype(kind)
    kind = {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp32": torch.float32,
        "fp64": torch.float64,
    }[dtype]
    torch.manual_seed(0)
    return torch.randn(M, K, dtype=kind, device=device), torch.randn(
        K, N, dtype=kind, device=device
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


def bench_matmul(
    M: int,
    N: int,
    K: int,
    dtype: str = "fp32",
    device: str = "cpu",
    warmup: int = 3,
    iters: int = 10,
) -> dict:
    """Time the product of an M x K and a K x N matrix: median seconds, operations, TFLOP/s, and the
    GB/s of both operands and the result, each moved once, one way.
    """
    a, b = operands(M, N, K, dtype, device)
    once = events_on_the_gpu if device.startswith("cuda") else clock_on_the_host
    for _ in range(warmup):
        a @ b
    times = [once(a, b) for _ in range(iters)]
    seconds, flops = median(times), 2 * M * N * K
    moved = BYTES[dtype] * (M * K + K * N + M * N)
    return {
        "seconds": seconds,
        "flops": flops,
        "tflops": flops / seconds / 1e12,
        "gbps": moved / seconds / 1e9,
    }


def measure(n: int, dtype: str = "fp32", device: str = "cpu", repeats: int = 10) -> dict:
    """What the grader asks: a square product."""
    return bench_matmul(n, n, n, dtype, device, warmup=3, iters=repeats)
