"""Lab 00: measure how fast your machine multiplies an M x K by a K x N matrix.

Copy this file to my_matmul_bench.py, do the five TODOs, and have your file graded:

    course grade 00 my_matmul_bench.py
"""

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}


def operands(M: int, N: int, K: int, dtype: str = "fp32", device: str = "cpu"):
    """An M x K and a K x N matrix: torch tensors where torch is installed, else NumPy arrays."""
    # TODO 1: these are zeros, and a chip may multiply zeros faster than your data. Make them
    #         random: torch.randn(M, K, ...), and np.random.default_rng(0).standard_normal((M,
    #         K)).
    try:
        import torch
    except ImportError:
        import numpy as np

        if device != "cpu":
            raise ValueError(
                f"device {device!r} needs torch: install it, or measure on 'cpu'"
            ) from None
        kind = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}[dtype]
        return np.zeros((M, K)).astype(kind), np.zeros((K, N)).astype(kind)
    kind = {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp32": torch.float32,
        "fp64": torch.float64,
    }[dtype]
    return torch.zeros(M, K, dtype=kind, device=device), torch.zeros(
        K, N, dtype=kind, device=device
    )


def bench_matmul(
    M: int,
    N: int,
    K: int,
    dtype: str = "fp32",
    device: str = "cpu",
    warmup: int = 3,
    iters: int = 10,
) -> dict:
    """Time one product of an M x K and a K x N matrix.

    Returns {"seconds": median seconds, "flops": operations of one product, "tflops": achieved
    TFLOP/s, "gbps": achieved GB/s, with both operands and the result moved once, one way}.
    """
    # a, b = operands(M, N, K, dtype, device) makes two matrices, and a @ b multiplies them.
    # TODO 2: warm up, `warmup` times. The first a @ b loads libraries and picks a kernel, so run it
    #         before you time anything.
    # TODO 3: time one a @ b. On a CPU, read time.perf_counter() before and after. If device is
    #         "cuda", a @ b returns before the work is done, so let the GPU take the time: make
    #         start and end, both torch.cuda.Event(enable_timing=True); start.record(), a @ b,
    #         end.record(), end.synchronize(); then start.elapsed_time(end), in milliseconds.
    #         (On a GPU, time.perf_counter() is right, too, if you call torch.cuda.synchronize()
    #         before you start the clock and again before you stop it.)
    # TODO 4: do that `iters` times, keep every time, and take the median:
    #         statistics.median(times).
    # TODO 5: count the operations, 2*M*N*K, because each multiply-accumulate counts as two, and the
    #         bytes, BYTES[dtype]*(M*K + K*N + M*N). Return both rates beside the seconds and the
    #         operations.
    raise NotImplementedError


def measure(n: int, dtype: str = "fp32", device: str = "cpu", repeats: int = 10) -> dict:
    """What the grader asks: a square product. Leave it as it is."""
    return bench_matmul(n, n, n, dtype, device, warmup=3, iters=repeats)
