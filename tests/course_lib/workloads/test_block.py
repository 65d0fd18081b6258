"""A block operator by operator: against torch's own FLOP counter, hand counts, and the sums of its
table.
"""

import numpy as np
import pytest

from course_lib import CourseError, block, chip, ops, roofline, total
from course_lib.specs import model

LLAMA, GPT2, BERT = "llama-3-8b", "gpt2-xl", "bert-large"
KEYS = (LLAMA, GPT2, BERT, "gemma-2b")


def summed(works, field, unit=None):
    return sum(getattr(work, field) for work in works.values() if unit in (None, work.unit))


def by_torch(one, tokens, batch):
    """FLOPs that torch counts in one block of these sizes, on tensors without memory."""
    torch = pytest.importorskip("torch")
    from torch.nn import functional
    from torch.utils.flop_counter import FlopCounterMode

    def tensor(*sizes):
        return torch.empty(*sizes, device="meta")

    d, dim = one.width, one.head_dim
    x = tensor(batch * tokens, d)
    with FlopCounterMode(display=False) as counter:
        for outer in (one.heads * dim, one.kv_heads * dim, one.kv_heads * dim):
            functional.linear(x, tensor(outer, d))
        q = tensor(batch * one.heads, tokens, dim)
        scores = torch.bmm(q, q.transpose(1, 2))
        torch.bmm(torch.softmax(scores, -1), q)
        functional.linear(tensor(batch * tokens, one.heads * dim), tensor(d, one.heads * dim))
        for _ in range(2 if one.gated else 1):
            functional.linear(x, tensor(one.ffn, d))
        functional.linear(functional.gelu(tensor(batch * tokens, one.ffn)), tensor(d, one.ffn))
        functional.layer_norm(x, (d,)) + x
    return counter.get_total_flops()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("key", KEYS)
def test_the_matrix_unit_does_what_torch_counts(key):
    works = block.operators(key, 2, 96)
    assert summed(works, "flops", "matrix") == by_torch(model(key), 96, 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_attention_in_one_kernel_does_what_torch_counts():
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    q = torch.empty(2, 16, 64, 32, device="meta")
    with FlopCounterMode(display=False) as counter:
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    tiled = ops.attention_tiled(2, 64, 64, 16, 16, 32, sram=1e5)
    assert (
        tiled.flops
        == counter.get_total_flops()
        == ops.attention(2, 64, 64, 16, 16, 32, causal=False).flops
    )


def test_a_block_counted_by_hand():
    """GPT-2 XL: width 1600, 25 heads of 64, hidden 6400; biases everywhere; bf16."""
    T, d, f, heads = 128, 1600, 6400, 25
    a, square = 2 * T * d, 2 * heads * T * T
    expected = {
        "norm 1": 2 * a + 2 * 2 * d,
        "qkv": a + 2 * 3 * d * d + 3 * a,
        "qkv bias": 6 * a + 2 * 3 * d,
        "scores": 2 * a + square,
        "softmax": 2 * square,
        "values": square + 2 * a,
        "out": 2 * a + 2 * d * d,
        "out bias": 2 * a + 2 * d,
        "residual 1": 3 * a,
        "norm 2": 2 * a + 4 * d,
        "up": a + 2 * d * f + 4 * a,
        "up bias": 8 * a + 2 * f,
        "gelu": 8 * a,
        "down": 5 * a + 2 * d * f,
        "down bias": 2 * a + 2 * d,
        "residual 2": 3 * a,
    }
    works = block.operators(GPT2, 1, T)
    assert {name: work.bytes for name, work in works.items()} == expected


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("dropout", [False, True])
def test_fusion_changes_bytes_and_launches_and_nothing_else(key, dropout):
    plain, fused = (
        block.operators(key, 2, 256, fused=fused, dropout=dropout) for fused in (False, True)
    )
    assert summed(fused, "bytes") < summed(plain, "bytes")
    assert len(fused) < len(plain)
    vector = {name: work for name, work in plain.items() if name != "softmax"}
    assert summed(fused, "flops", "vector") == summed(vector, "flops", "vector")
    names = [name for group in fused for name in group.split("+")]
    assert [name for name in names if name != "attention"] == [
        name for name in plain if name not in ("scores", "softmax", "values")
    ]
    whole_square = 256 * 256 if model(key).kind == "encoder" else 256 * 257 / 2
    skipped = 4 * 2 * model(key).heads * model(key).head_dim * (256 * 256 - whole_square)
    assert summed(plain, "flops", "matrix") - summed(fused, "flops", "matrix") == skipped


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("context", [256, 900])
def test_attention_in_one_kernel_moves_what_the_three_move_without_their_scores(key, context):
    plain, fused = (block.operators(key, 2, 256, context, fused=fused) for fused in (False, True))
    scores = 2 * 2 * model(key).heads * 256 * context
    parts = sum(plain[name].bytes for name in ("scores", "softmax", "values"))
    assert fused["attention"].bytes == parts - 4 * scores


def test_a_sum_that_is_wanted_again_is_written():
    fused = block.operators(LLAMA, 1, 64, fused=True)["residual 1+norm 2"]
    assert fused.bytes == 4 * 64 * 4096 * 2 + 4096 * 2


def test_decode_reads_the_cache_once():
    for fused in (False, True):
        short, long = (
            block.operators(LLAMA, 4, 1, context, fused=fused) for context in (1000, 2000)
        )
        cache = 2 * 4 * 1000 * 8 * 128 * 2
        scores = 4 * 32 * 1000 * 2 * 4 if not fused else 0
        assert summed(long, "bytes") - summed(short, "bytes") == cache + scores


@pytest.mark.parametrize("key", ["h100-sxm", "a100-sxm-80", "l4", "v100-sxm2"])
@pytest.mark.parametrize("fused", [False, True])
def test_the_table_is_the_total_line_by_line(key, fused):
    w = "fp16"
    works = block.operators(LLAMA, 1, 1024, w=w, x=w, fused=fused)
    lines, whole = block.lines(works, key), block.estimate(works, key)
    assert (
        whole.lower
        == total(**{name: roofline(work, chip(key)) for name, work in works.items()}).lower
    )
    assert [line.name for line in lines] == list(works)
    assert sum(line.share for line in lines) == pytest.approx(1)
    assert sum(line.seconds for line in lines) == pytest.approx(whole.lower)
    assert sum(line.bytes for line in lines) == whole.bytes
    for line in lines:
        assert line.intensity == line.flops / line.bytes
        assert (line.bound == "compute-bound") == (line.intensity >= line.ridge)
        assert line.dtype == (w if line.unit == "matrix" else "fp32")


def test_what_fusion_is_worth_is_known_before_it_is_written():
    """In prefill a tenth to a third of the block; in decode the weights rule, and next
    to nothing.
    """
    times = {
        new: [
            block.estimate(block.operators(LLAMA, 1, new, 2048, fused=fused), "h100-sxm").lower
            for fused in (False, True)
        ]
        for new in (2048, 1)
    }
    assert times[2048][0] / times[2048][1] > 1.2
    assert times[1][0] / times[1][1] < 1.02


def test_sizes_broadcast():
    tokens = np.array([1, 64, 2048])
    at_once = block.estimate(block.operators(LLAMA, 1, tokens), "h100-sxm").lower
    one_by_one = [
        block.estimate(block.operators(LLAMA, 1, int(t)), "h100-sxm").lower for t in tokens
    ]
    assert list(at_once) == pytest.approx(one_by_one)


def test_a_chip_without_a_vector_peak_bounds_vector_work_by_memory_alone():
    v5e = chip("tpu-v5e")
    lines = block.lines(block.operators(LLAMA, 1, 512), v5e)
    vector = [line for line in lines if line.unit == "vector"]
    assert {line.ridge for line in vector} == {None}
    assert {line.bound for line in vector} == {"memory-bound"}
    assert all(line.seconds == line.bytes / v5e.bandwidth for line in vector)


def test_the_share_of_a_ridge():
    gelu = ops.gelu((32, 2048, 4096), x="fp16")
    assert block.ridge_share(gelu, "h100-sxm", dtype="fp16", unit="matrix") == pytest.approx(
        0.0085, abs=5e-5
    )
    assert block.ridge_share(gelu, "h100-sxm") == pytest.approx(0.125, abs=5e-4)
    assert block.ridge_share(ops.matmul(8192, 8192, 8192), "h100-sxm") == 1


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (
            lambda: block.operators("mixtral-8x7b"),
            ["without experts", "'mixtral-8x7b'", "llama-3-8b"],
        ),
        (lambda: block.operators("deepseek-v3"), ["latent attention", "'deepseek-v3'"]),
        (lambda: block.operators(LLAMA, 0), ["batch", "positive whole", "got 0"]),
        (
            lambda: block.operators(LLAMA, 1, 10, 5, fused=True),
            ["context", "at least new 10", "got 5"],
        ),
        (
            lambda: block.estimate(block.operators(LLAMA), "v100-sxm2"),
            ["v100-sxm2", "'bf16'", "matrix unit"],
        ),
        (lambda: block.operators("resnet-50"), ["model must be a transformer", "'resnet-50'"]),
        (lambda: block.lines(block.operators(LLAMA), "h10"), ["'h10'", "did you mean"]),
    ],
)
def test_errors_name_argument_value_and_remedy(call, parts):
    with pytest.raises(CourseError) as error:
        call()
    for part in parts:
        assert part in str(error.value)
