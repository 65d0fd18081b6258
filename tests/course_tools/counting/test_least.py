"""What no program beats, and what needs the least work, beside counts by hand and by torch's own
counter.
"""

import json
import random
import time

import pytest

from course_lib import CourseError, chip
from course_tools.counting import ask, building, count, named
from course_tools.counting.tracing import Recorder
from tests.course_tools.counting.configs import CASES

torch = pytest.importorskip("torch")
nn = torch.nn
BF16 = torch.bfloat16


def taken(make, *given, calls=2):
    """CPU-s of the quickest of some calls, to compare with what else takes in this process."""
    times = []
    for _ in range(calls):
        began = time.process_time()
        make(*given)
        times.append(time.process_time() - began)
    return min(times)


def zeros(*shape, dtype=BF16):
    return torch.empty(shape, dtype=dtype, device="meta")


# --- torch's own counter ------------------------------------------------------------------------

try:
    from torch.utils.flop_counter import flop_registry
except ImportError:
    flop_registry = {}
REGISTERED = {one._qualified_op_name: one for one in flop_registry if hasattr(one, "default")}
FORWARD = ("aten::_scaled_dot_product", "aten::_flash", "aten::_efficient")


def arguments(op, draw):
    """Random arguments of an operator by its schema, and what it returns."""
    name, few = op._qualified_op_name, lambda: draw.randint(1, 9)
    b, m, k, n = few(), few(), few(), few()
    if name.endswith("mm"):
        stacked = "bmm" in name
        left, right, out = (
            ((b, m, k), (b, k, n), (b, m, n)) if stacked else ((m, k), (k, n), (m, n))
        )
        more = [zeros(1, dtype=torch.float32)] * 2 if "scaled" in name else []
        first = [zeros(*out)] if "add" in name else []
        return [*first, zeros(*left), zeros(*right), *more], zeros(*out)
    if name.startswith(FORWARD):
        return attention(op, draw)
    ends, groups = draw.choice((1, 2, 3)), draw.choice((1, 2))
    transposed = draw.random() < 0.5 and "cudnn" not in name and "slow" not in name
    ends, groups = (2, 1) if "slow" in name else (ends, groups)
    stride = [draw.randint(1, 3)] * ends
    inner, outer, side = groups * few(), groups * few(), [3] * ends
    x = zeros(b, inner, *(draw.randint(5, 9) for _ in range(ends)))
    pair = (inner, outer // groups) if transposed else (outer, inner // groups)
    weight, none, one = zeros(*pair, *side), [0] * ends, [1] * ends
    way = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{ends}d")
    out = way(x, weight, stride=stride, groups=groups)
    if "backward" in name:
        mask = [draw.random() < 0.7, draw.random() < 0.7, False]
        how = [stride, none, one, transposed, none, groups]
        result = tuple(like if on else None for like, on in zip((x, weight), mask, strict=False))
        return [out, x, weight, None, *how, mask], (*result, None)
    if "slow" in name:
        return [x, weight, side, None, stride, none], out
    if "cudnn" in name:
        return [x, weight, none, stride, one, groups, False, False, False], out
    more = [True, True, True, True] if name == "aten::_convolution" else []
    return [x, weight, None, stride, none, one, transposed, none, groups, *more], out


def attention(op, draw):
    """Queries that are as many as keys: torch counts the whole square, masked or not."""
    b, heads, tokens, width = (draw.randint(1, 9) for _ in range(4))
    late = "scaled_dot" not in op._qualified_op_name
    shape = (b, tokens, heads, width) if late else (b, heads, tokens, width)
    found = []
    for one in op.default._schema.arguments:
        kind, optional = str(one.real_type), str(one.real_type).startswith("Optional")
        if one.kwarg_only:
            continue
        optional = optional or one.name.startswith("cum_seq")  # one sequence after another
        main = one.name.rstrip("_") in ("query", "key", "value", "grad_out", "out")
        plain = {"Tensor": zeros(1), "bool": False, "float": 0.0}
        found.append(
            zeros(*shape) if main else None if optional else plain.get(kind, [True] * 4)
            if not kind.startswith(("int", "SymInt")) else 1
        )  # fmt: skip
    return found, (zeros(*shape),) * 4


def otherwise(name, seed):
    """What the trace and torch's own counter say of an operator, where they differ."""
    op = REGISTERED[name]
    args, out = arguments(op, random.Random(f"{name} {seed}"))
    recorder = Recorder(nn.Identity(), BF16, causal=False, tokens=1)
    recorder.see(op.default, tuple(args), {}, out)
    if "slow_conv2d" in name:  # torch's own counter lacks arguments of its formula
        args, op = [*args[:2], None, args[4], args[5], [1, 1], False, [0, 0], 1], "convolution"
        op = getattr(torch.ops.aten, op)
    ours, theirs = (
        sum(one.flops for one in recorder.operations), flop_registry[op](*args, out_val=out)
    )  # fmt: skip
    return None if ours == theirs and not recorder.uncounted else (ours, theirs)


@pytest.mark.parametrize(
    "seeds", [range(2), pytest.param(range(2, 60), marks=pytest.mark.exhaustive)], ids=str
)
@pytest.mark.parametrize("name", sorted(REGISTERED))
def test_every_operator_counts_as_torch_counts_it(name, seeds):
    found = {seed: otherwise(name, seed) for seed in seeds}
    assert {seed: both for seed, both in found.items() if both} == {}


def test_what_torch_counts_beside_its_operators_is_attention_of_ones_own():
    others = {str(one) for one in flop_registry if not hasattr(one, "default")}
    assert others <= {"flex_attention", "flex_attention_backward"}


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_a_transposed_convolution_counts_its_input_at_every_stride(stride):
    found = count(nn.ConvTranspose2d(8, 16, 3, stride=stride), torch.zeros(2, 8, 32, 32))
    assert found.flops == 2 * (2 * 8 * 32 * 32) * 16 * 9  # 4.72 MFLOP


# --- any module or function ----------------------------------------------------------------------


def test_a_module_counts_each_byte_once_however_often_it_is_called():
    layer = nn.Linear(64, 64, bias=False, dtype=BF16)
    before = layer.weight
    found = count(lambda x: layer(layer(layer(x))), zeros(8, 64))
    assert found.flops == 3 * 2 * 8 * 64 * 64
    assert found.bytes == 2 * (64 * 64 + 2 * 8 * 64)
    thrice = count(nn.Sequential(layer, layer, layer), torch.zeros(8, 64, dtype=BF16))
    assert (thrice.flops, thrice.bytes, thrice.parameters) == (found.flops, found.bytes, 64 * 64)
    assert layer.weight is before  # and it still runs
    assert layer(torch.zeros(1, 64, dtype=BF16)).shape == (1, 64)
    step = thrice.on("h100-sxm")
    assert step.speed_of_light < step.lower
    assert step.bytes == 3 * 2 * (64 * 64 + 2 * 8 * 64)


def test_the_readers_numbers_keep_their_format():
    wide, narrow = (count(nn.Linear(64, 32, bias=False).to(of), zeros(8, 64, dtype=of))
                    for of in (torch.float32, BF16))  # fmt: skip
    assert (wide.flops, wide.bytes) == (narrow.flops, 2 * narrow.bytes)


@pytest.mark.parametrize(
    ("function", "moved"),
    [
        (lambda x: x.float() * 2, 4 * 64 + 8 * 64),  # a result that is twice as wide
        (lambda x: (x.float().square() + 1).to(BF16), 2 * 4 * 64),
        (lambda x: torch.cat([x, -x]) + 1, 4 * 64 + 2 * 4 * 64),
        (lambda x: torch.where(torch.ones(64, 64).triu()[0] > 0, x, -x), 2 * 4 * 64),
        (lambda x: (x * 2).clone().contiguous().clone(), 2 * 4 * 64),
        (lambda x: x[torch.argsort(x[:, 0])].exp(), 2 * 4 * 64),
        (lambda x: (x + 1).repeat(10, 1), 4 * 64 * 11),
        (lambda x: x.clone(), 2 * 4 * 64),
    ],
)
def test_copies_masks_and_orders_are_no_traffic_of_their_own(function, moved):
    found = count(function, zeros(2, 64))
    assert found.bytes == moved
    assert found.on("h100-sxm").speed_of_light <= found.on("h100-sxm").lower


@pytest.mark.parametrize("bad", [3, None, "layer"])
def test_what_cannot_be_called_is_refused(bad):
    with pytest.raises(CourseError, match=r"module must be a torch\.nn\.Module or"):
        count(bad, zeros(1))


@pytest.mark.parametrize(
    ("make", "gates", "sides"),
    [
        (lambda: nn.GRU(64, 128, batch_first=True), 3, 1),
        (lambda: nn.LSTM(64, 128, 2, bidirectional=True, batch_first=True), 4, 2),
        (lambda: nn.RNN(64, 128, 2, batch_first=True), 1, 1),
    ],
)
def test_ten_thousand_steps_count_at_once_and_their_parameters_once(make, gates, sides):
    module = make()
    few, many = torch.empty(3, 100, 64), torch.empty(3, 10_000, 64)
    assert taken(count, module, many) < 10 * taken(count, module, few)
    found = count(module, many)
    layers = module.num_layers
    inner = [64] + [128 * sides] * (layers - 1)
    each = sum(sides * gates * 128 * (size + 128) for size in inner)
    assert found.flops == 2 * 3 * 10_000 * each
    results = 3 * 10_000 * 128 * sides
    parameters = sum(one.numel() for one in module.parameters())
    assert found.bytes == pytest.approx(4 * (3 * 10_000 * 64 + parameters + results), rel=0.001)
    step = found.on("h100-sxm")
    assert step.speed_of_light < step.lower
    few = count(make(), torch.empty(3, 5, 64)).on("h100-sxm")
    assert step.flops == pytest.approx(2000 * few.flops, rel=0.01)


# --- models of transformers ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


def usual(kind, transformers, **more):
    """A type's default configuration, smaller where a test says so."""
    config = transformers.CONFIG_MAPPING[kind]().to_dict()
    if "num_hidden_layers" in more:  # what says something of each layer is for as many
        config = {key: one for key, one in config.items() if not key.endswith("_types")}
    return json.dumps({**config, **more}, default=str)


def once(answer):
    """Byte of everything that a decode step touches, by hand from the answer's own sizes: what a
    token meets of the parameters, and the whole cache.
    """
    return 2 * answer.active + float(answer.fit.memory.kv)


DECODERS = {
    "glm4_moe_lite": 0.0190, "deepseek_v32": 0.085, "glm_moe_dsa": 0.090, "kimi_linear": 0.0214,
    "longcat_flash": 0.030,
}  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(one, marks=() if one == "glm4_moe_lite" else pytest.mark.exhaustive)
        for one in DECODERS
    ],
)
def test_no_bound_of_latent_attention_is_above_everything_once(kind, transformers):
    """At 16 sequences of 32,768 tokens on an H200: published weights are 18.4 ms of a
    glm4_moe_lite, all of them, and its cache.
    """
    if kind not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers has no {kind}")
    answer = ask(named("-", usual(kind, transformers)), "h200-sxm", 16, 32768)
    step, card = answer.step, chip("h200-sxm")
    assert step.speed_of_light <= DECODERS[kind]
    assert step.speed_of_light <= step.lower <= answer.as_written.lower
    assert answer.as_written.lower > 1.5 * step.lower
    most = max(once(answer) / card.bandwidth, float(step.least.t_math))
    assert step.speed_of_light <= most * 1.01
    everything = (float(answer.fit.memory.weights + answer.fit.memory.kv)) / card.bandwidth
    assert step.lower <= everything * 1.05


CHOOSES = {
    "num_hidden_layers": 2, "first_k_dense_replace": 1, "n_routed_experts": 8,
    "num_local_experts": 8, "n_group": 1, "topk_group": 1, "index_topk": 64, "vocab_size": 512,
    "hidden_size": 256, "num_experts_per_tok": 2,
}  # fmt: skip


def test_many_tokens_of_many_sequences_are_counted_as_soon_as_few(transformers):
    one = named("-", usual("deepseek_v32", transformers, **CHOOSES))
    few = taken(ask, one, "h200-sxm", 1, 128)
    assert taken(ask, one, "h200-sxm", 16, 32_768, calls=1) < 5 * few


def test_attention_to_chosen_tokens_reads_those_and_the_indexers_keys(transformers):
    config = usual("deepseek_v32", transformers, **CHOOSES)
    one = json.loads(config)
    answer = ask(named("-", config), "h200-sxm", 2, 1024)
    parts = {
        name: of for part in answer.step.parts.values() for name, of in part.parts.items()
        if of.work is not None and of.work.kind == "attention"
    }  # fmt: skip
    heads, rank, rope = one["num_attention_heads"], one["kv_lora_rank"], one["qk_rope_head_dim"]
    wide, many = one["index_head_dim"], one["index_n_heads"]
    assert parts["attention"].flops == 2 * 2 * 2 * heads * (2 * rank + rope) * 64
    assert parts["indexer"].flops == 2 * 2 * 2 * many * (wide + 1) * 1024
    assert parts["indexer"].bytes >= 2 * 2 * 2 * 1024 * wide
    assert answer.fit.memory.kv == 2 * 2 * 2 * 1024 * (rank + rope + wide)


def test_experts_that_do_nothing_are_none(transformers):
    config = usual("longcat_flash", transformers, num_layers=2, vocab_size=512)
    one = json.loads(config)
    answer = ask(named("-", config), "h200-sxm", 1, 64)
    idle, every = one["zero_expert_num"], one["n_routed_experts"]
    visited = round(one["moe_topk"] * every / (every + idle))
    each = one["hidden_size"] * one["expert_ffn_hidden_size"]
    assert answer.active == answer.parameters - 2 * 3 * (every - visited) * each
    assert any(f"{idle} are taken" in said for said in answer.not_modelled)


def test_null_is_not_said(transformers):
    """Other tools write the keys that they do not use as null; where transformers would fail on
    them, the usual value holds, and a null that it understands keeps its meaning."""
    config = json.loads(usual("ernie4_5_moe", transformers, num_hidden_layers=2, vocab_size=512))
    silent = {**config, "head_dim": None, "moe_layer_end_index": None}
    said = {key: value for key, value in silent.items() if value is not None}
    given, asked = (ask(named("-", json.dumps(one)), "h200-sxm", 1, 64) for one in (silent, said))
    assert (given.parameters, given.active) == (asked.parameters, asked.active)
    deep = json.loads(usual("deepseek_v2", transformers, num_hidden_layers=2, vocab_size=512))
    deep |= {"num_experts_per_tok": 2, "n_routed_experts": 8}
    ranks = [building.from_transformers({**deep, "q_lora_rank": rank}) for rank in (None, 1536)]
    assert ranks[0].parameters != ranks[1].parameters


@pytest.mark.parametrize("kind", ["qwen3_next", "mamba2"])
def test_a_state_is_read_and_written_once(kind, transformers):
    more = {"num_hidden_layers": 4, "vocab_size": 512}
    if kind == "qwen3_next":
        more["layer_types"] = ["linear_attention"] * 3 + ["full_attention"]
    answer = ask(named("-", usual(kind, transformers, **more)), "h200-sxm", 64, 64, trace=True)
    assert answer.step.speed_of_light <= answer.step.lower < answer.as_written.lower
    touched = 2 * answer.active + 2 * float(answer.fit.memory.kv)
    assert answer.step.least.bytes == pytest.approx(touched, rel=0.2)


def test_what_engines_may_reserve_for_windows_is_said():
    config = {**CASES["gpt-oss-20b"].config, "num_hidden_layers": 4}
    config["layer_types"] = config["layer_types"][:4]
    answer = ask(named("-", json.dumps(config)), "h200-sxm", 32, 1024)
    must, may = (32 * 2 * 2 * 8 * 64 * 2 * tokens / 1e9 for tokens in (128, 1024))
    (said,) = [one for one in answer.not_modelled if "window" in one]
    assert f"{must:.3g} GB" in said
    assert f"{may:.3g} GB" in said


def test_a_convolution_says_that_it_is_counted_directly():
    vit = ask(named("-", json.dumps(CASES["vit-base"].config)), "h200-sxm", trace=True)
    assert any("Winograd" in said for said in vit.not_modelled)


def test_a_passing_function_gives_back_what_it_was_lent():
    layer = nn.BatchNorm1d(4)
    held = dict(layer.named_buffers())
    with pytest.raises(CourseError), building.lend(layer, (zeros(2, 4),), {}):
        raise CourseError("on the way")
    assert all(one is held[name] for name, one in layer.named_buffers())
