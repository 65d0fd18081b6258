"""Laws of all that is counted: which time lies below which, whatever it was counted from."""

import csv
import itertools
import json
import random
from pathlib import Path

import pytest

from course_lib import CourseError, chip, resnet
from course_lib.specs import models
from course_lib.workloads.llm import cached
from course_tools.counting import ask, building, count, named
from tests.course_tools.counting.configs import CASES
from tests.course_tools.counting.reduced import reduced

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
nn = torch.nn
SHARED = Path(__file__).parents[4] / "shared" / "data"
CONFIGS = sorted((SHARED / "configs").glob("*.json"))
CHIPS = ("h200-sxm", "l4")
A_LITTLE = 1 + 1e-9


def lawful(step, everything, on, code=None):
    """Of one pass: bounds in their order, and none above all that there is, once."""
    assert 0 < step.speed_of_light <= step.lower * A_LITTLE
    assert step.lower <= step.upper * A_LITTLE
    most = everything / chip(on).bandwidth + float(step.t_math)
    assert step.speed_of_light <= most * A_LITTLE
    assert step.least is None or step.least.flops <= step.flops * A_LITTLE
    if code is not None:
        assert step.lower <= code.lower * A_LITTLE
        assert step.speed_of_light <= code.speed_of_light * A_LITTLE


def lawful_answer(answer, on, config=None):
    memory, step = answer.fit.memory, answer.step
    # A state is read and written; what comes in and goes out flies between operators, but for the
    # logits of the last token.
    sizes = config or {}
    vocab = sizes.get("vocab_size") or sizes.get("text_config", {}).get("vocab_size") or 0
    everything = float(memory.weights + 2 * memory.kv + memory.activations)
    everything += 4 * answer.batch * vocab
    for one in (step, answer.prefill, answer.decode):
        if one is not None:
            lawful(one, everything, on, answer.as_written if one is step else None)
    assert (answer.as_written is None) == (not answer.traced)
    assert answer.cached is None or answer.cached <= step.speed_of_light * A_LITTLE
    assert answer.active is None or 0 < answer.active <= answer.parameters


# --- bounds in their order ------------------------------------------------------------------------


TABLE = [one for one in models() if one != "resnet-50"]
ALTERNATELY = set(zip(TABLE, itertools.cycle(CHIPS)))


@pytest.mark.parametrize(
    ("key", "on"),
    [
        pytest.param(*pair, marks=() if pair in ALTERNATELY else pytest.mark.exhaustive)
        for pair in itertools.product(TABLE, CHIPS)
    ],
)
def test_models_of_the_table(key, on):
    for batch, prefill in itertools.product((1, 64), (False, True)):
        lawful_answer(ask(named(key), on, batch, 256, prefill=prefill), on)


@pytest.mark.parametrize("on", CHIPS)
def test_a_network_of_the_table(on):
    step = resnet.forward("resnet-50", on, 32)
    lawful(step, float(step.bytes), on)


def public(*quick):
    return pytest.mark.parametrize(
        "file",
        [pytest.param(one, id=one.stem, marks=() if one.stem in quick else pytest.mark.exhaustive)
         for one in CONFIGS] or [pytest.param(None, marks=pytest.mark.skip(
             reason=f"NO PUBLIC CONFIGURATIONS in {SHARED}"))],
    )  # fmt: skip


@public("microsoft--phi-4", "mistralai--Mamba-Codestral-7B")
def test_public_configurations(file, traced_once):
    try:
        given = named(str(file))
        for on in CHIPS:
            lawful_answer(ask(given, on, 4, 128), on, given.config)
    except CourseError as error:
        pytest.skip(f"{file.stem} is refused: {error}")


QUICK = ("afmoe", "bart", "cohere2", "gemma3_text", "gpt2", "mamba2", "vit", "whisper")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(one, marks=() if one in QUICK else pytest.mark.exhaustive)
     for one in transformers.CONFIG_MAPPING],
)  # fmt: skip
def test_types_of_transformers(kind, monkeypatch):
    monkeypatch.setattr(building, "variants", lambda config: iter(()))  # which key it was is slow
    try:
        transformers.CONFIG_MAPPING[kind]().to_dict()
    except Exception as error:  # noqa: BLE001 - transformers' own default is none
        pytest.skip(f"{kind} has no default: {type(error).__name__}")
    few = (True,) if kind in QUICK else (True, False)
    for of in few:
        try:
            given = named("-", reduced(kind, few=of))
            answer = ask(given, "h200-sxm", 2, min(64, given.limit or 64), trace=True)
            break
        except CourseError as error:
            why = error
    else:
        assert kind not in QUICK
        pytest.skip(f"{kind} is refused: {why}"[:300])
    lawful_answer(answer, "h200-sxm", given.config)


# --- modules of one's own -------------------------------------------------------------------------


def drawn(draw):
    """A random chain of layers, and what goes in."""
    size = lambda: 8 * draw.randint(1, 16)  # noqa: E731
    layers, wide = [], size()
    shape = (draw.randint(1, 8), wide)
    if draw.random() < 0.5:
        ends = draw.choice((1, 2))
        shape = (*shape, *(draw.randint(8, 40) for _ in range(ends)))
        for _ in range(draw.randint(1, 4)):
            way = getattr(nn, f"Conv{draw.choice(('', 'Transpose'))}{ends}d")
            to = size()
            groups = draw.choice((1, 8))
            layers += [way(wide, to, 3, stride=draw.choice((1, 2)), padding=1, groups=groups)]
            layers += draw.choice(([], [nn.ReLU()], [getattr(nn, f"BatchNorm{ends}d")(to)]))
            wide = to
    else:
        for _ in range(draw.randint(1, 5)):
            to = size()
            layers += [nn.Linear(wide, to, bias=draw.random() < 0.5)]
            layers += draw.choice(([], [nn.GELU()], [nn.LayerNorm(to)], [nn.Softmax(-1)]))
            wide = to
    return nn.Sequential(*layers).eval(), torch.empty(shape, device="meta")


@pytest.mark.exhaustive
def test_many_random_modules():
    wrong = {}
    for seed in range(6, 150):
        try:
            test_random_modules(seed)
        except AssertionError as error:
            wrong[seed] = str(error)
    assert wrong == {}


@pytest.mark.parametrize("seed", range(6))
def test_random_modules(seed):
    """FLOPs are those of torch's own counter, bytes those of parameters, input and result, once;
    called twice, or with its parameters in two places, a module has them once.
    """
    from torch.utils.flop_counter import FlopCounterMode

    module, x = drawn(random.Random(seed))
    found = count(module, x)
    on_meta = module.to("meta")
    with FlopCounterMode(display=False) as counter:
        result = on_meta(x)
    assert found.flops == counter.get_total_flops()
    parameters = sum(one.numel() for one in module.parameters())
    running = sum(one.numel() for name, one in module.named_buffers() if "num_batches" not in name)
    assert found.parameters == parameters
    assert found.bytes == 4 * (parameters + running + x.numel() + result.numel())
    for on in CHIPS:
        lawful(found.on(on), found.bytes, on)
    both = count(lambda one, two: (module(one), module(two)), x, torch.empty_like(x))
    assert both.flops == 2 * found.flops
    assert both.bytes == 2 * found.bytes - 4 * (parameters + running)


def test_functions_of_torchs_own_and_of_modules_without_memory_count():
    x = torch.empty(8, 64, device="meta")
    assert count(torch.matmul, x, torch.empty(64, 32, device="meta")).flops == 2 * 8 * 64 * 32
    layer = nn.Linear(64, 64, bias=False, device="meta")
    assert count(lambda x: layer(layer(x)), x).parameters == 64 * 64


def test_a_choice_between_two_and_a_part_of_a_result_are_no_more_than_the_code_moves():
    """Whoever reads a choice would read both sides of it; of what a chain makes only that part is
    written which a product reads.
    """

    def chosen(x, w):
        return torch.where(x > 0, x.exp(), x.sin()) @ w

    def rotated(x, w):
        made = x.exp()
        return torch.cat([made[:8], made[8:].cos()]) @ w

    x, w = torch.empty(64, 64, device="meta"), torch.empty(64, 64, device="meta")
    for function in (chosen, rotated):
        step = count(function, x, w).on("h200-sxm")
        assert step.bytes == 4 * 5 * 64 * 64  # of a chain two, of a product three


@pytest.mark.parametrize(
    "kind", ["clip_qformer", "resnet", "data2vec-vision", "voxtral_realtime_text"]
)
def test_no_type_fails_but_with_a_reason(kind):
    """One that is none, backbones, code that looks at numbers when built, a class that is missing."""
    given = named("-", json.dumps({"model_type": kind}) if kind not in transformers.CONFIG_MAPPING
                  else reduced(kind))  # fmt: skip
    if kind in ("resnet", "data2vec-vision"):
        lawful_answer(ask(given, "h200-sxm", 1, 64), "h200-sxm")
    else:
        with pytest.raises(CourseError, match=kind):
            ask(given, "h200-sxm", 1, 64)


# --- both ways of counting ------------------------------------------------------------------------


def test_a_format_of_the_cache_narrows_keys_and_values_and_no_state(traced_once):
    """Of four layers, one has two heads of 256 for keys and as many for values; the others' states
    stay as they are.
    """
    few = {"num_hidden_layers": 4, "layer_types": CASES["qwen3-next"].config["layer_types"][:4]}
    given = named("-", json.dumps({**CASES["qwen3-next"].config, **few}))
    wide, narrow = (
        ask(given, "b200-sxm", 2, 512, w="bf16", kv=kv, trace=True) for kv in ("bf16", "fp8")
    )
    saved = 2 * 512 * 1 * 2 * 2 * 256
    assert wide.fit.memory.kv - narrow.fit.memory.kv == saved
    assert wide.decode.least.bytes - narrow.decode.least.bytes == pytest.approx(saved, rel=0.01)


BOTH = [name for name, one in CASES.items() if named("-", json.dumps(one.config)).model]
FORMATS = (("bf16", "bf16"), ("fp8", "fp8"), ("int8", "bf16"), ("mxfp4", "fp8"))


@pytest.mark.parametrize(
    ("name", "w", "kv"),
    [pytest.param(name, *of, marks=() if (name, of) in ((BOTH[0], FORMATS[1]), (BOTH[1], FORMATS[2]))
                  else pytest.mark.exhaustive)
     for name in BOTH for of in FORMATS],
)  # fmt: skip
def test_sizes_and_trace_agree_to_a_thousandth(name, w, kv, traced_once):
    given = named("-", json.dumps(CASES[name].config))
    sized, ran = (ask(given, "b200-sxm", 2, 512, w=w, kv=kv, trace=of) for of in (False, True))
    assert (sized.traced, ran.traced) == (False, True)
    assert (sized.parameters, sized.active) == (ran.parameters, ran.active)
    # Of a window transformers keeps a token less: the new one of the next step comes to it.
    near = {"mistral-7b": 1 / 512, "gemma-3-1b": 1 / 512, "gpt-oss-20b": 1 / 128}
    assert ran.fit.memory.kv == pytest.approx(sized.fit.memory.kv, rel=near.get(name, 1e-3))
    for one, other in ((sized.decode, ran.decode), (sized.prefill, ran.prefill)):
        assert other.least.flops == pytest.approx(one.least.flops, rel=1e-3)
        assert other.least.bytes == pytest.approx(one.least.bytes, rel=0.01)
        assert other.speed_of_light == pytest.approx(one.speed_of_light, rel=0.01)


def part(step, *words):
    """FLOPs of the products of which part or name has one of these words."""
    return sum(
        one.flops for name, of in step.parts.items() for line, one in of.parts.items()
        if one.work is not None and one.work.unit == "matrix"
        and any(word in f"{name}.{line}" for word in words)
    )  # fmt: skip


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen2.5-7b"])
def test_sizes_and_trace_have_the_same_parts(name):
    given = named("-", json.dumps(CASES[name].config))
    sized, ran = (ask(given, "h200-sxm", 2, 512, trace=of).decode for of in (False, True))
    pairs = (("mlp",), ("mlp",)), (("head",), ("lm_head",)), (
        ("projections", "attention"), ("self_attn", "attention"))  # fmt: skip
    for one, other in pairs:
        assert 0 < part(sized, *one) == pytest.approx(part(ran, *other), rel=1e-3)


# --- monotone -------------------------------------------------------------------------------------

GROWING = ("deepseek_v3", "gpt_oss", "llama", "mamba2", "mixtral", "qwen3_next", "bert")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(one, marks=() if one == "gpt_oss" else pytest.mark.exhaustive)
     for one in GROWING],
)  # fmt: skip
@pytest.mark.parametrize(
    "chain",
    [
        [{"batch": one} for one in (1, 2, 8)],
        [{"context": one} for one in (64, 256, 500)],
        [{"w": one} for one in ("mxfp4", "int8", "bf16")],
        [{"kv": one} for one in ("fp8", "bf16")],
    ],
    ids=("batch", "context", "w", "kv"),
)
def test_more_takes_no_less(kind, chain, traced_once):
    """More sequences, tokens, or bits of a number: of all times none gets shorter."""
    given = named("-", reduced(kind))

    def times(batch=2, context=256, **how):
        answer = ask(given, "b200-sxm", batch, context, trace=True, **how)
        passes = (answer.step, answer.prefill, answer.as_written)
        return [
            *itertools.chain(*((one.speed_of_light, one.lower) for one in passes)),
            float(answer.fit.needed),
        ]

    for less, more in itertools.pairwise(times(**how) for how in chain):
        assert all(a <= b * A_LITTLE for a, b in zip(less, more, strict=True))


# --- published numbers ----------------------------------------------------------------------------

EXPECTED = SHARED / "configs" / "expected.csv"
OTHERWISE = {"hf-default--LongcatFlash": {"params", "active"}}
"""What the table counts otherwise: experts that do nothing as if they had parameters."""
CHUNKED = {"Qwen--Qwen3.5-397B-A17B", "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8"}
"""Of these the table has states computed in chunks, filled up; a recurrence takes fewer FLOPs."""


EMBEDDED = {"hf-default--Phi4Multimodal": 200064 * 3072}
"""Parameters of a head where the table has those of pictures and sound among them."""


def rows_of(file):
    with file.open(encoding="utf-8", newline="") as of:
        return list(csv.DictReader(of))


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row["file"], marks=() if "SmolLM3" in row["file"] or
                  "Jamba" in row["file"] else pytest.mark.exhaustive)
     for row in rows_of(EXPECTED)] if EXPECTED.is_file() else [pytest.param(
         None, marks=pytest.mark.skip(reason=f"NO PUBLIC CONFIGURATIONS in {SHARED}"))],
)  # fmt: skip
def test_public_configurations_are_as_others_count_them(row):
    """Parameters, elements of the cache, and FLOPs of 32 tokens, of which all have logits there, and
    attention is a square.
    """
    given = named(str(EXPECTED.parent / f"{row['file']}.json"))
    few, many = (ask(given, "h200-sxm", 1, tokens, w="bf16", kv="bf16") for tokens in (24, 32))
    for key, ours in (("params", many.parameters), ("active", many.active)):
        if key not in OTHERWISE.get(row["file"], ()):
            assert ours == float(row[key]), key
    if row["cache_elems_per_token"]:
        kept = [float(one.fit.memory.kv) / 2 for one in (few, many)]
        each, fixed = float(row["cache_elems_per_token"]), float(row["cache_elems_const"])
        assert kept[1] - kept[0] == 8 * each
        # Of a state some is in fp32, two of bf16; a window's own counter is none of ours.
        assert fixed - 50 <= kept[1] - 32 * each <= 2 * fixed
    if row["flops_S32"]:
        logits = 31 * 2 * EMBEDDED.get(row["file"], float(row["embed_params"]))
        every = float(many.prefill.flops) + logits
        low, high = (0.94, 1) if row["file"] in CHUNKED else (0.99, 1.01)
        assert low <= every / float(row["flops_S32"]) <= high


# --- published times ------------------------------------------------------------------------------

LARGER = ("289bbc6564da", "3396fc0c90b4")
"""Commits of the source after which most of its programs are larger."""
MEASURED_ON = {
    "AMD Instinct MI250X/MI250": "mi250x", "NVIDIA A100-SXM4-40GB": "a100-sxm-40",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80", "NVIDIA A10G": "a10g", "NVIDIA B200": "b200-sxm",
    "NVIDIA H100 80GB HBM3": "h100-sxm", "NVIDIA H100 PCIe": "h100-pcie", "NVIDIA L4": "l4",
    "NVIDIA L40S": "l40s", "Tesla T4": "t4",
}  # fmt: skip


def separable(inner, outer, padding):
    return nn.Sequential(
        nn.Conv2d(inner, inner, 3, padding=padding, groups=inner, bias=False),
        nn.Conv2d(inner, outer, 1, bias=False),
    )


PROGRAMS = {
    "1_Square_matrix_multiplication_": [
        (torch.matmul, (n, n), (n, n)) for n in (2048, 4096)],
    "3_Batched_matrix_multiplication": [
        (torch.bmm, (128, 128 * n, 256 * n), (128, 256 * n, 512 * n)) for n in (1, 4)],
    "4_Matrix_vector_multiplication_": [
        (torch.matmul, (256 * n, 131072 * n), (131072 * n, 1)) for n in (1, 8)],
    "8_Matmul_with_irregular_shapes_": [(torch.matmul, (8205, 2949), (2949, 5921))] * 2,
    "9_Tall_skinny_matrix_multiplication_": [
        (torch.matmul, (16384 * n, 16 * n), (16 * n, 16384 * n)) for n in (1, 2)],
    "24_LogSoftmax": [(nn.LogSoftmax(1), one) for one in ((16, 16384), (4096, 393216))],
    "33_BatchNorm": [
        (nn.BatchNorm2d(64), one) for one in ((16, 64, 256, 256), (64, 64, 512, 512))],
    "46_Average_Pooling_3D": [
        (nn.AvgPool3d(3, 2, 1), one) for one in ((16, 32, 64, 64, 64), (16, 32, 128, 128, 256))],
    "47_Sum_reduction_over_a_dimension": [
        (lambda x: x.sum(1, keepdim=True), one) for one in ((16, 256, 256), (128, 4096, 4095))],
    "59_conv_standard_3D__asymmetric_input__square_kernel": [
        (nn.Conv3d(3, 64, (3, 3, 1), bias=False), (16, 3, 256, 256, 10))] * 2,
    "61_conv_transposed_3D__square_input__square_kernel": [
        (nn.ConvTranspose3d(3, 64, 3, bias=False), (16, 3, 32, 32, 32)),
        (nn.ConvTranspose3d(48, 48, 3, bias=False), (8, 48, 64, 64, 64))],
    "71_conv_transposed_2D__asymmetric_input__square_kernel": [
        (nn.ConvTranspose2d(32, 64, 3, bias=False), (16, 32, 128, 256)),
        (nn.ConvTranspose2d(32, 32, 3, bias=False), (8, 32, 512, 1024))],
    "83_conv_depthwise_2D_square_input_asymmetric_kernel": [
        (nn.Conv2d(3, 3, (3, 1), groups=3, bias=False), (16, 3, 256, 256)),
        (nn.Conv2d(8, 8, (3, 1), groups=8, bias=False), (64, 8, 512, 512))],
    "86_conv_depthwise_separable_2D": [
        (separable(3, 64, 0), (16, 3, 256, 256)), (separable(64, 128, 1), (16, 64, 512, 512))],
}  # fmt: skip
TIMES = SHARED / "measured" / "programs_kernelbench.csv"


@pytest.mark.skipif(not TIMES.is_file(), reason=f"NO PUBLISHED TIMES in {TIMES}")
def test_no_published_time_is_below_the_speed_of_light():
    """Small programs run again and again find their numbers in the last-level cache: there
    `cached` is the bound.
    """
    every = [{**row, "problem": row["problem"].removesuffix(".py")} for row in rows_of(TIMES)]
    rows = [row for row in every if row["problem"] in PROGRAMS and row["device"] in MEASURED_ON]
    needs = {
        (name, larger): count(module, *(torch.empty(shape, device="meta") for shape in shapes))
        for name, both in PROGRAMS.items()
        for larger, (module, *shapes) in enumerate(both)
    }
    below = []
    for row in rows:
        name, on = row["problem"], chip(MEASURED_ON[row["device"]])
        step = needs[name, int(row["commit"] in LARGER)].on(on)
        kept = cached(step)
        bound = step.speed_of_light if kept is None else kept
        if float(row["mean_ms"]) / 1e3 < bound:
            below.append((name, on.key, row["commit"], float(row["mean_ms"]) / 1e3 / bound))
    assert len(rows) > 250
    assert below == []
