from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, ops
from course_lib.core import BITS, itemsize
from course_lib.core.dtypes import element, widest
from tests.each import each

small = st.integers(1, 6)
dtypes = st.sampled_from(["fp32", "bf16", "fp8"])


@given(
    small,
    small,
    st.integers(0, 5),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.booleans(),
    dtypes,
    dtypes,
)
def test_attention_counts_what_a_loop_does(
    batch, q_len, before, kv_heads, group, dim, causal, x, kv
):
    heads, kv_len, flops, bits = kv_heads * group, before + q_len, 0, 0
    for _, _, i, j in product(range(batch), range(heads), range(q_len), range(kv_len)):
        if not causal or j <= before + i:
            flops += 2 * dim + 2 * dim  # a score, and a value weighed by it
    for _, i in product(range(batch), range(kv_len)):
        row = 2 * kv_heads * dim
        new = i >= before
        bits += row * (BITS[x] + BITS[kv]) if new else row * BITS[kv]
        bits += 2 * heads * dim * BITS[x] * new  # its query and its result
    work = ops.attention(batch, q_len, kv_len, heads, kv_heads, dim, causal=causal, x=x, kv=kv)
    assert (work.flops, work.bytes) == (flops, bits / 8)
    assert BITS[work.dtype] == max(BITS[x], BITS[kv])


@given(small, small, st.integers(1, 4), st.integers(1, 4))
def test_without_a_cache_everything_is_an_activation(batch, tokens, heads, dim):
    work = ops.attention(batch, tokens, tokens, heads, heads, dim, causal=False)
    assert work.bytes == 2 * 4 * batch * tokens * heads * dim
    assert work.flops == 4 * batch * heads * tokens**2 * dim


def test_one_token_attends_at_heads_over_kv_heads_however_long_the_context():
    for heads, kv_heads in ((32, 8), (32, 32), (8, 1)):
        work = ops.attention(
            1, 1, np.array([10**5, 10**7]), heads, kv_heads, 128, causal=True, kv="bf16"
        )
        assert work.intensity == pytest.approx(heads / kv_heads, rel=1e-3)


def test_the_causal_half_tends_to_half():
    full, half = (
        ops.attention(1, 4096, 4096, 8, 8, 64, causal=causal).flops for causal in (False, True)
    )
    assert half / full == pytest.approx(0.5 + 0.5 / 4096)


def test_values_inside_the_keys_are_not_read_again():
    apart = ops.attention(1, 1, 1000, 16, 1, 576, causal=True, kv="bf16", value_dim=512)
    inside = ops.attention(
        1, 1, 1000, 16, 1, 576, causal=True, kv="bf16", value_dim=512, values_in_keys=True
    )
    assert apart.bytes - inside.bytes == 512 * (1000 + 1) * 2
    assert apart.flops == inside.flops == 2 * 16 * (576 + 512) * 1000


@given(st.integers(1, 50), small, small, st.integers(1, 5))
def test_groups_are_matrices_of_their_own(B, D, F, groups):
    one, many = ops.matmul(B, D, F), ops.grouped_matmul(B, D, F, groups)
    assert many.flops == one.flops
    assert many.bytes - one.bytes == (groups - 1) * D * F * 2
    assert many.kernels == 1


def test_elementwise_work_is_on_the_vector_unit():
    gelu = ops.elementwise((32, 2048, 4096), flops=10, dtype="fp16")
    assert (gelu.intensity, gelu.unit, gelu.dtype) == (2.5, "vector", "fp32")
    fused = ops.elementwise((32, 2048, 4096), flops=12, dtype="fp16")
    unfused = 3 * fused.bytes
    assert (unfused / 1e9, fused.bytes / 1e9) == (
        pytest.approx(3.22, abs=0.005),
        pytest.approx(1.07, abs=0.005),
    )
    assert ops.elementwise(
        (4, np.array([1, 2])), flops=1, dtype="int8", reads=2
    ).bytes.tolist() == [12, 24]
    assert ops.elementwise(7, flops=0, dtype="fp32").bytes == 56


def test_norm_and_embedding_read_rows_not_tables():
    assert ops.norm(3, 8, kind="layer").bytes == 2 * (2 * 3 * 8 + 2 * 8)
    assert ops.norm(3, 8).flops == 4 * 3 * 8
    assert ops.embedding(5, 16, w="int8", x="bf16").bytes == 5 * 16 * 3
    assert (ops.embedding(5, 16).flops, ops.embedding(5, 16, tables=2).flops) == (0, 80)


def test_formats_with_a_scale_for_each_group():
    assert 8 * itemsize("int4/32") == 4.5
    assert 8 * itemsize("fp8/128") == 8.125
    assert ops.matmul(1, 64, 64, w="int4/32").bytes == 2 * 64 + 64 * 64 * 4.5 / 8 + 2 * 64
    assert (
        element("int4/32"),
        widest("int4/32", "int8"),
        ops.matmul(1, 1, 1, w="int4/32").dtype,
    ) == ("int4", "int8", "bf16")


@each(
    ("call", "parts"),
    [
        (
            lambda: ops.attention(1, 2, 1, 4, 4, 8, causal=True),
            ["kv_len", "at least q_len 2", "got 1"],
        ),
        (
            lambda: ops.attention(1, 1, 1, 4, 3, 8, causal=True),
            ["kv_heads", "divide heads 4", "got 3"],
        ),
        (lambda: ops.attention(1, 1, 0, 4, 4, 8, causal=True), ["kv_len", "positive whole"]),
        (lambda: ops.attention(1, 1, 1, 4, 4, 8, causal=True, kv="int9"), ["dtype", "'int9'"]),
        (lambda: ops.grouped_matmul(1, 1, 1, 0), ["groups", "positive", "got 0"]),
        (lambda: ops.elementwise((1, 0), flops=1, dtype="bf16"), ["shape", "got 0"]),
        (lambda: ops.elementwise(1, flops=-1, dtype="bf16"), ["flops", "-1"]),
        (lambda: ops.norm(1, 1, kind="batch"), ["kind", "'batch'", "layer, rms"]),
        (lambda: itemsize("int4/0"), ["int4/0", "positive whole"]),
        (lambda: itemsize("int4/"), ["int4/", "positive whole"]),
        (lambda: itemsize("int5/32"), ["dtype", "'int5'"]),
        (lambda: itemsize(16), ["dtype", "16"]),
    ],
)
def test_errors_name_argument_value_and_remedy(call, parts):
    with pytest.raises(CourseError) as error:
        call()
    for part in parts:
        assert part in str(error.value)
