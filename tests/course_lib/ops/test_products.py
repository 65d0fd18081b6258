from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, ops
from course_lib.core import BITS, itemsize
from course_lib.core.dtypes import widest
from tests.each import each

small = st.integers(1, 9)
dtypes = st.sampled_from(sorted(BITS))


@given(small, small, small, dtypes, dtypes, dtypes)
def test_matmul_counts_what_a_loop_does(B, D, F, x, w, out):
    flops, touched = 0, set()
    for b, f in product(range(B), range(F)):
        for d in range(D):
            flops += 2  # a multiplication and an addition, the first addition onto zero
            touched |= {("x", b, d), ("w", d, f)}
        touched.add(("out", b, f))
    bits = {"x": BITS[x], "w": BITS[w], "out": BITS[out]}
    work = ops.matmul(B, D, F, x=x, w=w, out=out, compute="fp32")
    assert (work.flops, work.bytes) == (flops, sum(bits[operand] for operand, *_ in touched) / 8)
    assert (work.unit, work.kernels, work.shape) == ("matrix", 1, (B, D, F))


@given(dtypes, dtypes, dtypes)
def test_every_operand_has_its_own_format(x, w, out):
    work = ops.matmul(3, 5, 7, x=x, w=w, out=out, compute="fp32")
    assert work.bytes == 15 * BITS[x] / 8 + 35 * BITS[w] / 8 + 21 * BITS[out] / 8
    assert work.dtype == "fp32"


@given(small, small, small, small, small)
def test_tiled_matmul_reads_what_its_tiles_read(B, D, F, bm, bn):
    moved = B * F
    for top in range(0, B, bm):
        for left in range(0, F, bn):
            moved += min(bm, B - top) * D + D * min(bn, F - left)
    work = ops.tiled_matmul(B, D, F, bm, bn)
    assert (work.flops, work.bytes) == (2 * B * D * F, 2 * moved)


@given(small, small, small, dtypes)
def test_outer_products_touch_the_whole_result_for_each(B, D, F, dtype):
    elements = 0
    for _ in range(D):
        elements += B + F  # a column of X and a row of W
        elements += 2 * B * F  # the result, read and written
    work = ops.outer_products(B, D, F, dtype=dtype)
    assert (work.flops, work.bytes) == (2 * B * D * F, elements * BITS[dtype] / 8)
    assert (work.unit, work.kernels, work.shape) == ("vector", D, (B, D, F))


@given(small, small, small, small, small, dtypes, dtypes, dtypes)
def test_tiles_read_each_operand_in_its_own_format(B, D, F, bm, bn, x, w, out):
    bits = 0
    for top, left in product(range(0, B, bm), range(0, F, bn)):
        rows, columns = range(top, min(top + bm, B)), range(left, min(left + bn, F))
        touched = {("x", b, d) for b in rows for d in range(D)} | {
            ("w", d, f) for d in range(D) for f in columns
        }
        bits += sum(BITS[x] if operand == "x" else BITS[w] for operand, *_ in touched)
        bits += len(rows) * len(columns) * BITS[out]
    work = ops.tiled_matmul(B, D, F, bm, bn, x=x, w=w, out=out, compute="fp16")
    assert (work.bytes, work.dtype) == (bits / 8, "fp16")
    assert work.bytes >= ops.matmul(B, D, F, x=x, w=w, out=out, compute="fp16").bytes


def test_one_tile_is_a_plain_matmul():
    assert ops.tiled_matmul(64, 32, 16, 1000, 1000).bytes == ops.matmul(64, 32, 16).bytes


def test_intensity_of_a_tile():
    work = ops.tiled_matmul(4096, 10**9, 4096, 128, 128)
    assert work.intensity == pytest.approx(128 * 128 / 256, rel=1e-4)


@given(st.integers(1, 10**6))
def test_dot_product(N):
    work = ops.dot(N)
    assert work.intensity == pytest.approx((2 * N - 1) / (4 * N + 2))
    assert work.intensity < 0.5
    assert (work.unit, work.dtype) == ("vector", "fp32")


@given(small, dtypes, dtypes, dtypes)
def test_dot_counts_what_a_loop_does(N, x, y, out):
    flops = 0
    for i in range(N):
        flops += 1 if i == 0 else 2  # the first product has nothing to be added to
    work = ops.dot(N, x=x, y=y, out=out)
    assert (work.flops, work.bytes) == (flops, (N * (BITS[x] + BITS[y]) + BITS[out]) / 8)


def test_intensity_tends_to_the_batch():
    assert ops.matmul(16, 10**6, 10**6).intensity == pytest.approx(16, rel=1e-4)


@given(*[st.integers(1, 10**5)] * 3)
def test_intensity_stays_below_the_smallest_size(B, D, F):
    intensity = ops.matmul(B, D, F).intensity
    assert intensity == pytest.approx(1 / (1 / B + 1 / D + 1 / F))
    assert intensity < min(B, D, F)


@given(st.integers(1, 300), st.integers(1, 300))
def test_intensity_of_any_tile_that_fits(bm, bn):
    work = ops.tiled_matmul(50 * bm, 10**9, 50 * bn, bm, bn)
    assert work.intensity == pytest.approx(bm * bn / (bm + bn), rel=1e-3)


def test_published_intensity_of_three_operands():
    assert ops.matmul(8192, 8192, 8192).intensity == pytest.approx(2730.67, abs=0.005)


def test_operators_broadcast():
    B = np.array([1, 2, 3])
    for operator in (
        lambda b: ops.matmul(b, 4, 5),
        lambda b: ops.tiled_matmul(b, 4, 5, 2, 2),
        ops.dot,
    ):
        at_once = operator(B)
        assert np.array_equal(at_once.flops, [operator(int(b)).flops for b in B])
        assert np.array_equal(at_once.bytes, [operator(int(b)).bytes for b in B])


def test_sizes_broadcast_against_each_other():
    B, D, tile = np.array([[1], [7]]), [3, 4, 5], [1, 2, 30]
    at_once, tiled = ops.matmul(B, D, 6), ops.tiled_matmul(B, 4, 6, tile, tile)
    assert at_once.bytes.shape == tiled.bytes.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        one = ops.matmul(int(B[i, 0]), D[j], 6)
        assert (at_once.flops[i, j], at_once.bytes[i, j]) == (one.flops, one.bytes)
        assert tiled.bytes[i, j] == ops.tiled_matmul(int(B[i, 0]), 4, 6, tile[j], tile[j]).bytes


def test_arithmetic_is_in_the_wider_format():
    assert ops.matmul(1, 1, 1, x="bf16", w="int8").dtype == "bf16"
    assert ops.matmul(1, 1, 1, x="int8", w="bf16").dtype == "bf16"
    assert ops.matmul(1, 1, 1, x="int8", w="int8").dtype == "int8"
    assert ops.tiled_matmul(1, 1, 1, 1, 1, x="bf16", w="int8").dtype == "bf16"
    assert widest("fp8", "fp32", "bf16") == "fp32"
    assert itemsize("int4") == 0.5


def test_formats_left_out_follow_the_activations():
    assert ops.matmul(3, 5, 7, x="int8", w="bf16").bytes == 15 + 2 * 35 + 21
    assert ops.matmul(3, 5, 7, x="bf16", w="int8").bytes == 2 * 15 + 35 + 2 * 21
    assert ops.tiled_matmul(3, 5, 7, 3, 7, x="int8", w="bf16").bytes == 15 + 2 * 35 + 21
    assert ops.dot(10, x="fp8").bytes == 10 + 10 + 1
    assert ops.dot(10, x="fp8", y="fp32").bytes == 10 + 40 + 1


@each(
    ("call", "parts"),
    [
        (lambda: ops.matmul(0, 1, 1), ["B", "positive whole", "got 0"]),
        (lambda: ops.matmul(1.5, 1, 1), ["B", "whole", "1.5"]),
        (lambda: ops.matmul(1, -4, 1), ["D", "-4"]),
        (lambda: ops.matmul(1, 1, [1, 0]), ["F", "got 0", "index (1,)"]),
        (lambda: ops.matmul(1, 1, 1, x="fp16", w="bf16"), ["compute", "bf16 and fp16", "compute="]),
        (lambda: ops.matmul(1, 1, 1, w="int9"), ["dtype", "'int9'", "did you mean"]),
        (lambda: ops.tiled_matmul(1, 1, 1, 0, 1), ["bm", "positive whole", "got 0"]),
        (lambda: ops.tiled_matmul(1, 1, 1, 1, [2, 0.5]), ["bn", "whole", "0.5", "index (1,)"]),
        (
            lambda: ops.tiled_matmul(1, 1, 1, 1, 1, x="fp8", w="int8"),
            ["compute", "fp8 and int8", "compute="],
        ),
        (lambda: ops.matmul(1, float("inf"), 1), ["D", "positive whole", "inf"]),
        (lambda: ops.matmul("16", 1, 1), ["B", "number", "'16'"]),
        (
            lambda: ops.matmul(1, 1, 1, compute="bfloat16"),
            ["dtype", "'bfloat16'", "did you mean 'bf16'"],
        ),
        (lambda: ops.dot(8, out="float"), ["dtype", "'float'"]),
        (lambda: ops.dot(float("nan")), ["N", "nan"]),
        (lambda: ops.dot(True), ["N", "number"]),
    ],
)
def test_errors_name_argument_value_and_remedy(call, parts):
    with pytest.raises(CourseError) as error:
        call()
    for part in parts:
        assert part in str(error.value)


def test_a_quantized_layer_is_a_product_and_a_kernel_that_quantizes_its_input():
    quantize = ops.quantize(512, 4096, x="bf16", out="fp8")
    product = ops.matmul(512, 4096, 14_336, x="fp8", w="fp8", out="bf16")
    assert quantize.bytes == 512 * (4096 * (2 + 1) + 4)
    assert (quantize.unit, product.unit) == ("vector", "matrix")
    assert product.bytes == 512 * 4096 + 4096 * 14_336 + 512 * 14_336 * 2
    assert product.flops == ops.matmul(512, 4096, 14_336).flops
    assert int(quantize.kernels) == int(product.kernels) == 1
