"""The kernels of lab 04, counted by hand, and by the operators where those know of no blocks."""

import pytest

from course_lib import CourseError, ops
from course_lib.ops import KERNELS, blocked

SIZES = {
    "add": (10,),
    "fused": (5, 7),
    "softmax": (3, 10),
    "matmul": (5, 6, 7),
    "attention": (6, 6, 4),
}
BLOCKS = {"add": (4,), "fused": (2, 4), "softmax": (4,), "matmul": (2, 4, 3), "attention": (4, 2)}


def parts(*given, **named):
    work = blocked(*given, **named)
    assert work.bytes == work.loaded + work.stored
    return work.loaded, work.stored


def test_by_hand():
    assert parts("add", (10,), (4,)) == (2 * 40, 40)
    # Three rows of tiles, each with the bias of 7 elements for itself.
    assert parts("fused", (5, 7), (2, 4)) == (2 * (35 + 3 * 7), 70)
    assert parts("softmax", (3, 10), (4,)) == (2 * 120, 120)
    # Two columns of tiles load a[5, 7] each, three rows of tiles b[7, 6].
    assert parts("matmul", (5, 6, 7), (2, 4, 3)) == (2 * (2 * 35 + 3 * 42), 60)
    # Two programs load their queries, and all six keys and values.
    assert parts("attention", (6, 6, 4), (4, 2)) == (2 * 4 * (6 + 2 * 2 * 6), 48)
    # The first one sees four keys only.
    assert parts("attention", (6, 6, 4), (4, 2), causal=True) == (2 * 4 * (6 + 2 * (4 + 6)), 48)


@pytest.mark.parametrize("kernel", KERNELS)
def test_without_blocks_each_array_is_read_once(kernel):
    least, much = blocked(kernel, SIZES[kernel]), blocked(kernel, SIZES[kernel], BLOCKS[kernel])
    assert least.stored == much.stored
    assert least.loaded <= much.loaded
    assert least.flops == much.flops
    assert (least.unit == "matrix") == (kernel in ("matmul", "attention"))


def test_with_blocks_that_hold_everything_only_softmax_reads_again():
    for kernel, sizes in SIZES.items():
        whole = blocked(kernel, sizes, BLOCKS[kernel] and tuple(64 for _ in BLOCKS[kernel]))
        assert whole.loaded == (2 if kernel == "softmax" else 1) * blocked(kernel, sizes).loaded


def test_it_is_what_the_operators_say():
    assert blocked("matmul", (64, 48, 32)).bytes == ops.matmul(64, 32, 48, x="fp16", w="fp16").bytes
    tiled = ops.attention_tiled(1, 64, 96, 1, 1, 16, rows=32, x="fp16")
    assert blocked("attention", (64, 96, 16), (32, 32)).bytes == tiled.bytes


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("gemm", (1,)), "unknown kernel 'gemm'"),
        (("matmul", (8, 8)), r"sizes must be \(M, N, K\)"),
        (("softmax", (8, 8), (2, 4)), r"block must be \(width\)"),
        (("add", (0,)), r"sizes\[0\] must be"),
    ],
)
def test_what_does_not_fit_is_refused(given, said):
    with pytest.raises(CourseError, match=said):
        blocked(*given)


@pytest.mark.parametrize(("kernel", "sizes"), [("add", (8,)), ("attention", (4, 8, 16))])
def test_a_causal_mask_needs_as_many_keys_as_queries(kernel, sizes):
    with pytest.raises(CourseError, match="as many keys as queries"):
        blocked(kernel, sizes, causal=True)
