import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, chip, ops
from course_lib.core import BITS, itemsize
from tests.each import each

small = st.integers(1, 7)
dtypes = st.sampled_from(["fp32", "bf16", "fp8"])
TENSOR = (32, 2048, 4096)


def test_gelu_against_the_matrix_ridge_and_the_vector_ridge():
    h100, work = chip("h100-sxm"), ops.gelu(TENSOR, x="fp16")
    assert (work.unit, work.flops / math.prod(TENSOR), work.intensity) == ("vector", 10, 2.5)
    assert (round(h100.ridge("fp16")), round(h100.ridge("fp32", "vector"))) == (295, 20)
    assert work.intensity / h100.ridge("fp16") == pytest.approx(0.0085, abs=5e-5)
    assert work.intensity / h100.ridge(work.dtype, work.unit) == pytest.approx(0.125, abs=5e-4)


@pytest.mark.parametrize(("mask", "ratio"), [(False, 3.0), (True, 2.6)])
def test_bias_gelu_dropout_fused(mask, ratio):
    chain = [
        ops.bias(math.prod(TENSOR[:2]), TENSOR[2], x="fp16"),
        ops.gelu(TENSOR, x="fp16"),
        ops.dropout(TENSOR, x="fp16", mask=mask),
    ]
    unfused, fused = sum(work.bytes for work in chain), ops.fuse(chain)
    assert unfused / fused.bytes == pytest.approx(ratio, abs=0.005)
    if not mask:
        assert (unfused / 1e9, fused.bytes / 1e9) == (
            pytest.approx(3.22, abs=0.005),
            pytest.approx(1.07, abs=0.005),
        )
    assert fused.flops == sum(work.flops for work in chain)
    assert (fused.kernels, fused.unit, fused.dtype) == (1, "vector", "fp32")


def written_out(x):
    """A scalar that counts the operations that are done with it."""

    class Counted:
        done = 0

        def __init__(self, value):
            self.value = value

        def _do(self, value):
            Counted.done += 1
            return Counted(value)

    for name, do in {
        "__add__": lambda a, b: a + b,
        "__radd__": lambda a, b: b + a,
        "__mul__": lambda a, b: a * b,
        "__rmul__": lambda a, b: b * a,
        "__truediv__": lambda a, b: a / b,
        "__rtruediv__": lambda a, b: b / a,
    }.items():
        value = lambda other: other.value if isinstance(other, Counted) else other  # noqa: E731
        setattr(
            Counted,
            name,
            lambda self, other, do=do, value=value: self._do(do(self.value, value(other))),
        )
    Counted.__neg__ = lambda self: self._do(-self.value)
    Counted.exp = lambda self: self._do(math.exp(self.value))
    Counted.tanh = lambda self: Counted(math.tanh(self.value))
    return Counted(x), Counted


def test_the_formulas_take_as_many_operations_as_the_conventions_say():
    x, counted = written_out(0.7)
    result = 0.5 * x * ((math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))).tanh() + 1.0)
    assert result.value == pytest.approx(0.7 * 0.5 * (1 + math.erf(0.7 / math.sqrt(2))), abs=1e-3)
    assert (
        ops.CONVENTIONS["gelu"].flops == counted.done + 2
    )  # the tanh is an exponential and a division

    gate, counted = written_out(0.7)
    up = 1.3
    result = gate / (1.0 + (-gate).exp()) * up
    assert result.value == pytest.approx(1.3 * 0.7 / (1 + math.exp(-0.7)))
    assert ops.CONVENTIONS["swiglu"].flops == counted.done

    x, counted = written_out(0.7)
    x * math.cos(1.0) + 0.2 * math.sin(1.0) * x.__class__(1.0)
    assert ops.CONVENTIONS["rotary"].flops == counted.done


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_a_norm_takes_as_many_operations_an_element_as_a_loop(kind):
    width, done = 1000, 0
    for _ in range(width):
        done += 1 if kind == "layer" else 0  # into the mean
        done += 1 if kind == "layer" else 0  # off the mean
        done += 2  # a square, into the sum
        done += 2  # by the root's inverse, by the scale
        done += 1 if kind == "layer" else 0  # the bias
    assert ops.norm(1, width, kind=kind).flops == done


@given(small, small, small, dtypes, st.booleans())
def test_bytes_are_what_a_loop_touches(a, b, c, x, mask):
    count, size = a * b * c, itemsize(x)
    one_in_one_out = 2 * count * size
    assert ops.gelu((a, b, c), x=x).bytes == ops.softmax(a * b, c, x=x).bytes == one_in_one_out
    assert (
        ops.swiglu((a, b, c), x=x).bytes == ops.residual((a, b, c), x=x).bytes == 3 * count * size
    )
    assert ops.dropout((a, b, c), x=x, mask=mask).bytes == one_in_one_out + mask * count
    assert ops.bias(a * b, c, x=x).bytes == one_in_one_out + c * size
    assert ops.rotary(a, b, c, x=x).bytes == one_in_one_out + 2 * a * (c / 2) * 4


@given(
    st.lists(
        st.sampled_from(["bias", "gelu", "dropout", "residual", "norm", "softmax"]),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_fusion_moves_what_a_walk_along_the_chain_moves(names, data):
    rows, width = 6, 5
    made = {
        "bias": ops.bias(rows, width),
        "gelu": ops.gelu((rows, width)),
        "dropout": ops.dropout((rows, width), mask=True),
        "residual": ops.residual((rows, width)),
        "norm": ops.norm(rows, width),
        "softmax": ops.softmax(rows, width),
    }
    own = {
        "bias": 2 * width,
        "dropout": rows * width,
        "residual": 2 * rows * width,
        "norm": 2 * width,
    }
    chain = [made[name] for name in names]
    keep = data.draw(st.sets(st.integers(0, len(names) - 2))) if len(names) > 1 else set()
    fused = ops.fuse(chain, keep=sorted(keep))
    array = 2 * rows * width
    assert fused.bytes == 2 * array + sum(own.get(name, 0) for name in names) + len(keep) * array
    assert (
        sum(work.bytes for work in chain) - fused.bytes
        == (2 * (len(names) - 1) - len(keep)) * array
    )
    assert fused.bytes >= fused.read + fused.written
    assert ops.fuse([fused]).bytes == fused.bytes


@given(st.integers(2, 5), st.integers(1, 4))
def test_fusing_in_steps_is_fusing_at_once(many, cut):
    chain = [
        ops.gelu((7, 9)),
        ops.residual((7, 9)),
        ops.bias(7, 9),
        ops.norm(7, 9),
        ops.dropout((7, 9), mask=True),
    ][:many]
    cut = min(cut, many - 1)
    at_once, in_steps = ops.fuse(chain), ops.fuse([ops.fuse(chain[:cut]), ops.fuse(chain[cut:])])
    assert (at_once.flops, at_once.bytes, at_once.read, at_once.written) == (
        in_steps.flops,
        in_steps.bytes,
        in_steps.read,
        in_steps.written,
    )


def test_operators_broadcast():
    tokens = np.array([1, 10, 300])
    for make in (
        lambda t: ops.gelu((t, 8)),
        lambda t: ops.softmax(t, 8),
        lambda t: ops.rotary(t, 4, 8),
        lambda t: ops.bias(t, 8),
        lambda t: ops.dropout((t, 8), mask=True),
        lambda t: ops.fuse([ops.bias(t, 8), ops.norm(t, 8)]),
        lambda t: ops.kv_read(1, t, 8, 2, 4),
        lambda t: ops.attention_tiled(1, t, t, 4, 2, 8, sram=300),
        lambda t: ops.attention_standard(1, t, t, 4, 2, 8)["scores"],
    ):
        at_once = make(tokens)
        assert list(at_once.bytes) == [make(int(t)).bytes for t in tokens]
        assert list(at_once.flops) == [make(int(t)).flops for t in tokens]


def test_every_convention_names_its_unit_and_its_source():
    from pathlib import Path

    bibliography = (Path(__file__).parents[3] / "references.bib").read_text()
    sources = (Path(ops.__file__).parents[1] / "data" / "sources.json").read_text()
    for name, how in ops.CONVENTIONS.items():
        assert how.unit == ("matrix" if name in ("matmul", "attention") else "vector")
        assert how.counted
        assert f"{{{how.source}," in bibliography or f'"{how.source}"' in sources, how.source


@given(
    small,
    small,
    small,
    st.integers(1, 3),
    st.integers(1, 3),
    small,
    st.sampled_from(["fp32", "bf16"]),
)
def test_standard_attention_touches_what_its_kernels_touch(batch, q, t, kv_heads, group, d, x):
    heads = kv_heads * group
    moved = {"scores": 0, "softmax": 0, "values": 0}
    for _ in range(batch):
        queries, keys, square = heads * q * d, kv_heads * t * d, heads * q * t
        moved["scores"] += queries + keys + square
        moved["softmax"] += 2 * square
        moved["values"] += square + keys + queries
    flops = {"scores": 0, "softmax": 0, "values": 0}
    for _ in product(range(batch), range(heads), range(q), range(t)):
        flops["scores"] += 2 * d
        flops["values"] += 2 * d
        flops["softmax"] += 5
    parts = ops.attention_standard(batch, q, t, heads, kv_heads, d, x=x)
    assert {name: part.bytes for name, part in parts.items()} == {
        name: n * BITS[x] / 8 for name, n in moved.items()
    }
    assert {name: part.flops for name, part in parts.items()} == flops
    assert [part.unit for part in parts.values()] == ["matrix", "vector", "matrix"]


def walked(rows, t, d, block, outer):
    """Elements and statistics that algorithm 1, or the loops the other way round, move for one head
    of keys.
    """
    moved, numbers = 0, 0
    parts = [range(start, min(start + block, rows)) for start in range(0, rows, block)]
    blocks = [range(start, min(start + block, t)) for start in range(0, t, block)]
    if outer == "queries":
        for part in parts:
            moved += len(part) * d
            for keys in blocks:
                moved += 2 * len(keys) * d
            moved += len(part) * d
        return moved, numbers
    moved += rows * d  # results and statistics begin at nothing in main memory
    numbers += 2 * rows
    for keys in blocks:
        moved += 2 * len(keys) * d
        for part in parts:
            moved += len(part) * d + 2 * len(part) * d
            numbers += 2 * 2 * len(part)
    return moved, numbers


@given(
    small,
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(0, 3000),
    st.sampled_from(["queries", "keys"]),
    st.sampled_from(["fp32", "bf16"]),
)
def test_tiled_attention_touches_what_its_loops_touch(
    batch, q, t, kv_heads, group, d, more, outer, x
):
    size = BITS[x] / 8
    sram = 4 * d * size + more
    block = 0
    while 4 * d * (block + 1) * size <= sram:
        block += 1
    moved, numbers = walked(q * group, t, d, block, outer)
    work = ops.attention_tiled(
        batch, q, t, kv_heads * group, kv_heads, d, sram=sram, outer=outer, x=x
    )
    assert work.bytes == batch * kv_heads * (moved * size + numbers * 4)
    assert work.flops == 4 * batch * kv_heads * group * q * t * d


def test_with_enough_memory_tiled_attention_reads_everything_once():
    tiled = ops.attention_tiled(2, 500, 700, 8, 2, 64, sram=1e12)
    once = ops.attention(2, 500, 700, 8, 2, 64, causal=False)
    assert (tiled.bytes, tiled.flops) == (once.bytes, once.flops)


def test_traffic_falls_as_one_over_the_memory():
    """Theorem 2 of FlashAttention: N^2 d^2 / M elements, between M = d and M = N d."""
    N, d = 65536, 128
    M = np.array([16e3, 32e3, 64e3, 128e3])
    for outer, elements in (("queries", 2), ("keys", 3)):
        work = ops.attention_tiled(1, N, N, 1, 1, d, sram=2 * M, outer=outer)
        # A block has M / 4d rows, so 2 N d elements pass by 4 N d / M times.
        assert np.asarray(work.bytes) / 2 == pytest.approx(elements * 4 * N**2 * d**2 / M, rel=0.05)
        standard = sum(part.bytes for part in ops.attention_standard(1, N, N, 1, 1, d).values())
        # 4 N^2 elements against it: tiles pay once the memory holds so many squares of the head's
        # size.
        assert list(work.bytes < standard) == list(elements * d**2 < M)
    flash, second = (
        ops.attention_tiled(1, N, N, 1, 1, d, sram=2 * M, outer=outer).bytes
        for outer in ("keys", "queries")
    )
    assert np.all(second < flash)


@given(st.integers(1, 300), st.sampled_from([32, 64, 128, 256]), st.integers(1, 4))
def test_the_intensity_of_tiles_is_their_rows_whatever_the_head(rows, d, heads):
    work = ops.attention_tiled(1, 2**20, 2**20, heads, heads, d, rows=rows)
    assert work.intensity == pytest.approx(rows, rel=1e-3)
    assert (
        work.bytes == ops.attention_tiled(1, 2**20, 2**20, heads, heads, d, sram=8 * d * rows).bytes
    )


def test_too_little_memory_for_a_block_moves_more_than_scores_in_memory():
    """The bound's other end: with M near d the tiles are so small that storing the scores is no
    worse.
    """
    N, d = 4096, 128
    standard = sum(part.bytes for part in ops.attention_standard(1, N, N, 1, 1, d).values())
    assert (
        ops.attention_tiled(1, N, N, 1, 1, d, sram=4 * d * 2).bytes
        > standard
        > ops.attention_tiled(1, N, N, 1, 1, d, sram=1e5).bytes
    )


def test_the_cache_is_read_at_heads_over_kv_heads():
    for heads, kv_heads in ((32, 8), (32, 32), (8, 1)):
        work = ops.kv_read(np.array([1, 7]), 1000, heads, kv_heads, 128)
        assert list(work.intensity) == [heads / kv_heads] * 2
    full = ops.attention(1, 1, 10**6, 32, 8, 128, causal=True, kv="bf16")
    assert ops.kv_read(1, 10**6, 32, 8, 128).bytes == pytest.approx(full.bytes, rel=1e-4)
    assert (
        ops.kv_read(1, 1000, 32, 8, 128, kv="fp8").bytes
        == ops.kv_read(1, 1000, 32, 8, 128).bytes / 2
    )
    assert ops.kv_read(1, 1000, 32, 8, 128, kv="fp8").dtype == "bf16"


@each(
    ("call", "parts"),
    [
        (lambda: ops.fuse([]), ["works", "at least one"]),
        (
            lambda: ops.fuse([ops.gelu((2, 3)), ops.matmul(2, 3, 4)]),
            ["works[1]", "vector unit", "matrix"],
        ),
        (
            lambda: ops.fuse([ops.gelu((2, 3)), ops.gelu((2, 4))]),
            ["works[1]", "works[0] writes", "12.0 B", "16.0 B"],
        ),
        (
            lambda: ops.fuse(
                [ops.gelu(4), ops.elementwise(4, flops=1, dtype="bf16", compute="bf16")]
            ),
            ["works[1]", "bf16", "fp32"],
        ),
        (
            lambda: ops.fuse([ops.gelu(4), ops.gelu(4)], keep=[1]),
            ["keep", "before the last", "got 1"],
        ),
        (lambda: ops.norm(1, 1, kind="batch"), ["kind", "'batch'", "layer, rms"]),
        (lambda: ops.softmax(0, 1), ["rows", "positive whole", "got 0"]),
        (lambda: ops.rotary(1, 1, 8, table="fp33"), ["dtype", "'fp33'", "did you mean"]),
        (lambda: ops.attention_standard(1, 1, 1, 4, 3, 8), ["kv_heads", "divide heads 4", "got 3"]),
        (lambda: ops.attention_tiled(1, 1, 1, 4, 4, 64), ["sram or rows", "not both"]),
        (
            lambda: ops.attention_tiled(1, 1, 1, 4, 4, 64, sram=1e5, rows=128),
            ["sram or rows", "rows=128"],
        ),
        (lambda: ops.attention_tiled(1, 1, 1, 4, 4, 64, rows=0), ["rows", "got 0"]),
        (
            lambda: ops.attention_tiled(1, 1, 1, 4, 4, 64, sram=511),
            ["sram", "512 B or more", "got 511"],
        ),
        (
            lambda: ops.attention_tiled(1, 1, 1, 4, 4, 64, sram=1e5, outer="q"),
            ["outer", "'q'", "queries"],
        ),
        (lambda: ops.kv_read(1, 0, 4, 4, 8), ["context", "positive whole"]),
    ],
)
def test_errors_name_argument_value_and_remedy(call, parts):
    with pytest.raises(CourseError) as error:
        call()
    for part in parts:
        assert part in str(error.value)
