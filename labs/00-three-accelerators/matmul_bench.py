"""Lab 00: measure how fast your machine multiplies two n x n matrices.

Copy this file to my_matmul_bench.py, do the five TODOs, and have your file graded:

    course grade 00 my_matmul_bench.py
"""


def operands(n: int, dtype: str = "fp32", device: str = "cpu"):
    """Two n x n matrices: torch tensors where torch is installed, else NumPy arrays."""
    # TODO 1: these are zeros, and a chip may multiply zeros faster than your data. Make them
    #         random: torch.randn(n, n, ...), and np.random.default_rng(0).standard_normal((n,
    #         n)).
    try:
        import torch
    except ImportError:
        import numpy as np

        if device != "cpu":
            raise ValueError(
                f"device {device!r} needs torch: install it, or measure on 'cpu'"
            ) from None
        kind = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}[dtype]
        return np.zeros((n, n)).astype(kind), np.zeros((n, n)).astype(kind)
    kind = {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp32": torch.float32,
        "fp64": torch.float64,
    }[dtype]
    return torch.zeros(n, n, dtype=kind, device=device), torch.zeros(
        n, n, dtype=kind, device=device
    )


def measure(n: int, dtype: str = "fp32", device: str = "cpu", repeats: int = 10) -> dict:
    """Time one n x n x n matmul.

    Returns {"seconds": median seconds, "flops": operations of one matmul, "tflops": achieved
    TFLOP/s}.
    """
    # a, b = operands(n, dtype, device) makes two matrices, and a @ b multiplies them.
    # TODO 2: warm up. The first a @ b loads libraries and picks a kernel, so run it before you time
    #         anything.
    # TODO 3: time one a @ b. On a CPU, read time.perf_counter() before and after. If device is
    #         "cuda", a @ b returns before the work is done, so let the GPU take the time: make
    #         start and end, both torch.cuda.Event(enable_timing=True); start.record(), a @ b,
    #         end.record(), end.synchronize(); then start.elapsed_time(end), in milliseconds.
    #         (On a GPU, time.perf_counter() is right, too, if you call torch.cuda.synchronize()
    #         before you start the clock and again before you stop it.)
    # TODO 4: do that `repeats` times, keep every time, and take the median:
    #         statistics.median(times).
    # TODO 5: count the operations, 2*n^3, because each multiply-accumulate counts as two. Return
    #         them, the seconds, and the TFLOP/s that follow from both.
    raise NotImplementedError
