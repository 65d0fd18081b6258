"""Whether a number can be true: what was published, judged by hand first, and what must hold of
every model, chip and format.
"""

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, chip, chips, llm, network
from course_lib.bench import results
from course_lib.specs import listed_models, model
from course_tools.claims import SPEEDS, VERDICTS, Claimed, claimed, margins, of_row, read, verify
from course_tools.measured import FOLDER
from tests.each import each

# What was said in public, and what a hand with a pencil says of it: 2 bytes or less a weight over
# the bandwidth, the datasheet's dense peak, bytes over a link in one direction.
PUBLIC = {
    "70B in fp16 at 155 tokens/s on one H200: 21 TB/s of 4.8": (
        {"model": "llama-2-70b", "chip": "h200-sxm", "tokens_per_second": 155, "batch": 1}
        | {"weights": "fp16"},
        "impossible",
    ),
    "the same on one H100: 11 TB/s of 3.35 in fp8": (
        {"model": "llama-2-70b", "chip": "h100-sxm", "tokens_per_second": 155, "batch": 1}
        | {"weights": "fp8"},
        "impossible",
    ),
    "40 tokens/s of 70B in fp16 on an A100: 5.5 TB/s of 2": (
        {"model": "llama-2-70b", "chip": "a100-sxm-80", "tokens_per_second": 40, "batch": 1}
        | {"weights": "fp16"},
        "impossible",
    ),
    "11,819 tokens/s of 13B at batch 1024, fp8": (
        {"model": "llama-2-13b", "chip": "h200-sxm", "tokens_per_second": 11819, "batch": 1024}
        | {"weights": "fp8", "context": 192},
        "possible",
    ),
    "read as one user's": (
        {"model": "llama-2-13b", "chip": "h200-sxm", "tokens_per_second": 11819, "batch": 1},
        "impossible",
    ),
    "200 tokens/s of 7B in four bits on an RTX 4090": (
        {"model": "llama-2-7b", "chip": "rtx-4090", "tokens_per_second": 200, "batch": 1},
        "possible",
    ),
    "93 tokens/s of 8B in six bits on an RTX 4090": (
        {"model": "llama-3-8b", "chip": "rtx-4090", "tokens_per_second": 93, "batch": 1},
        "possible",
    ),
    "135.5 tokens/s at 3.28 tokens a step": (
        {"model": "qwen3-32b", "chip": "rtx-4090", "tokens_per_second": 135.5, "batch": 1}
        | {"weights": "int4", "tokens_per_pass": 3.28},
        "possible",  # 16.4 GB at 1.008 TB/s are 61 passes a second
    ),
    "3868 GB/s on a card of 1008": ({"chip": "rtx-4090", "bytes_per_second": 3868e9}, "cache-only"),
    "the same, of 2 x 16 MiB": (
        {"chip": "rtx-4090", "bytes_per_second": 3868e9, "bytes": 2**25},
        "cache-only",
    ),
    "86.7 TFLOP/s in fp32 on a card of 82.6": (
        {"chip": "rtx-4090", "flops": 86.7e12, "format": "fp32"},
        "possible",
    ),
    "167 TFLOP/s in fp16 on a card of 165": (
        {"chip": "rtx-4090", "flops": 167.1e12, "format": "fp16"},
        "possible",
    ),
    "104 % MFU on an H100, by another chip's peak": (
        {"chip": "h100-sxm", "mfu": 1.04},
        "impossible",
    ),
    "3.2 times that": ({"mfu": 3.17}, "impossible"),
    "9600 tokens/s of training 7B: 480 TFLOP/s": (
        {"chip": "h100-sxm", "flops": 480e12, "format": "bf16"},
        "possible",
    ),
    "1979 TFLOP/s in bf16: the sparse headline": (
        {"chip": "h100-sxm", "flops": 1979e12, "format": "bf16"},
        "impossible",
    ),
    "a claim of 1069 TFLOP/s, at 1980 MHz": (
        {"chip": "h100-sxm", "flops": 1069e12, "format": "bf16"},
        "possible",
    ),
    "3651 TFLOP/s in bf16": (
        {"chip": "h100-sxm", "flops": 3651e12, "format": "bf16"},
        "impossible",
    ),
    "a gigabyte summed over 8 H100s in 0.5 ms": (
        {"chip": "h100-sxm", "collective": "all-reduce", "bytes": 1e9, "chips": 8, "ms": 0.5},
        "impossible",
    ),
    "and in 2.5 ms, by the switch": (
        {"chip": "h100-sxm", "collective": "all-reduce", "bytes": 1e9, "chips": 8, "ms": 2.5},
        "possible",
    ),
}


@each("name", PUBLIC)
def test_what_was_published_is_judged_as_by_hand(name):
    said, verdict = PUBLIC[name]
    assert verify(Claimed(**said)).verdict == verdict


DECODERS = [key for key in listed_models() if getattr(model(key), "kind", "") == "decoder"]
PAIRS = [(key, chips()[i % len(chips())]) for i, key in enumerate(DECODERS)]


@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(one, marks=pytest.mark.exhaustive) for one in (1, 2))]
)
@each(("place", "name", "on"), [(i, *pair) for i, pair in enumerate(PAIRS)])
def test_nobody_at_the_speed_of_light_or_below_is_refused(place, name, on, turn):
    """In any format, at any batch: by the estimate of a step, which charges more."""
    rated = sorted(one.partition(".")[2] for one in chip(on).peaks if "/" not in one)
    rated = [one for one in rated if one in ("bf16", "fp16", "fp32")]
    for i, (weights, batch) in enumerate((("bf16", 1), ("fp8", 64), ("int4", 1))):
        if (place + turn - i) % 3 == 0:
            how = {"w": weights, "x": rated[0], "compute": rated[0]}
            step = llm.decode(name, on, batch, 512, **how).speed_of_light
            said = {"model": name, "chip": on, "context": 512, "batch": batch, "weights": weights}
            for speed, value in (
                ("tokens_per_second", batch / step),
                ("ms_per_token", 1e3 * step),
                ("ms", 1e3 * step),
            ):
                for slower in (1, 3):
                    slow = value / slower if SPEEDS[speed][1] else value * slower
                    found = verify(Claimed(**said, **{speed: slow}))
                    assert found.verdict == "possible", (weights, batch, speed, found)
            quiet = {key: said[key] for key in ("model", "chip")}
            found = verify(Claimed(**quiet, tokens_per_second=batch / step))
            assert found.verdict == "possible", (weights, batch, found)


@each("on", chips())
def test_peaks_and_bandwidths_are_possible_and_eight_times_them_not(on):
    one = chip(on)
    assert verify(Claimed(chip=on, bytes_per_second=one.bandwidth)).factor == 1
    assert verify(Claimed(chip=on, bytes_per_second=one.bandwidth)).verdict == "possible"
    assert verify(Claimed(chip=on, bytes_per_second=8.1 * one.bandwidth)).verdict == "impossible"
    for name, peak in one.peaks.items():
        dtype = name.partition(".")[2].partition("/")[0]
        found = verify(Claimed(chip=on, flops=peak, format=dtype))
        assert found.verdict == "possible", name
        assert verify(Claimed(chip=on, flops=peak)).verdict == "possible", name
    beyond = 1.05 * (1 + margins(one).compute) * max(one.peaks.values())
    assert verify(Claimed(chip=on, flops=beyond)).verdict == "impossible"


def test_faster_is_never_more_possible():
    for said, _ in PUBLIC.values():
        speed = next(name for name in SPEEDS if name in said)
        more = SPEEDS[speed][1]
        scales = [0.01, 0.5, 1, 2, 20]
        found = [
            verify(Claimed(**{**said, speed: said[speed] * (x if more else 1 / x)})) for x in scales
        ]
        ranks = [VERDICTS.index(one.verdict) for one in found]
        assert ranks == sorted(ranks), said
        assert ranks[0] == 0


def test_exactly_at_the_bound_is_possible_and_beyond_its_margin_is_not():
    said = {"model": "llama-2-70b", "chip": "h200-sxm", "batch": 1, "weights": "fp16"}
    limit = verify(Claimed(**said, tokens_per_second=1)).limit
    most = limit * (1 + margins(chip("h200-sxm")).memory)
    assert verify(Claimed(**said, tokens_per_second=limit)).verdict == "possible"
    assert verify(Claimed(**said, tokens_per_second=most)).explanations["above"] > 0
    # What the caches hold of 140 GB is next to nothing, and still is not refused.
    assert verify(Claimed(**said, tokens_per_second=1.0002 * most)).verdict == "cache-only"
    assert verify(Claimed(**said, tokens_per_second=1.01 * most)).verdict == "impossible"


def test_a_format_that_nobody_said_is_the_one_that_allows_most():
    said = {"model": "llama-2-7b", "chip": "rtx-4090", "batch": 1}
    wide = verify(Claimed(**said, tokens_per_second=50))
    assert (wide.format, wide.formats) == ("bf16", ("bf16", "fp8", "int4"))
    narrow = verify(Claimed(**said, tokens_per_second=200))
    assert (narrow.verdict, narrow.formats) == ("possible", ("int4",))
    assert narrow.assumed["weights"] == "int4"
    named = verify(Claimed(**said, tokens_per_second=200, weights="fp16"))
    assert (named.verdict, named.formats, named.assumed) == ("impossible", ("int4",), {})
    assert verify(Claimed(**said, tokens_per_second=900)).formats == ()
    assert verify(Claimed(**said, tokens_per_second=200, format="fp16")).format == "fp16"
    declared = verify(Claimed(model="gpt-oss-20b", chip="h100-sxm", tokens_per_second=9, batch=1))
    assert declared.format.startswith("mxfp4")


@pytest.mark.parametrize("key", ["gpt-oss-20b", "kimi-k2", "llama-3-8b", "qwen3-30b-a3b"])
@given(st.sampled_from(["m4-max", "rtx-4090", "h100-sxm"]), st.floats(10, 3_000))
def test_a_format_that_nobody_said_refuses_no_file_that_others_could_publish(key, chip, speed):
    said = {"model": key, "chip": chip, "tokens_per_second": speed, "batch": 1}
    if verify(Claimed(**said)).verdict == "impossible":
        for weights in ("bf16", "fp8", "int4", None):
            assert verify(Claimed(**said, weights=weights)).verdict == "impossible"


@pytest.mark.parametrize(("mfu", "said"), [(0.41, False), (1.3, False), (41.0, True), (300, False)])
def test_a_share_in_percent_is_asked_about(mfu, said):
    assert ("percent" in verify(Claimed(chip="h100-sxm", mfu=mfu)).explanations) is said


@pytest.mark.parametrize("speed", ["flops", "bytes_per_second"])
@pytest.mark.parametrize(("rate", "said"), [(700.0, True), (3.1e12, False)])
def test_a_rate_in_another_unit_is_asked_about(speed, rate, said):
    assert ("unit" in verify(Claimed(chip="h100-sxm", **{speed: rate})).explanations) is said


def test_a_batch_that_nobody_said_is_the_smallest_that_is_possible():
    said = {"model": "llama-2-70b", "chip": "h200-sxm", "weights": "fp8"}
    found = verify(Claimed(**said, tokens_per_second=1000))
    assert (found.verdict, found.explanations["batch"]) == ("possible", found.batch)
    one = {**said, "tokens_per_second": 1000}
    assert verify(Claimed(**one, batch=found.batch)).verdict == "possible"
    assert verify(Claimed(**one, batch=found.batch - 2)).verdict == "impossible"
    assert verify(Claimed(**one, users=1)).verdict == "impossible"
    assert verify(Claimed(**said, tokens_per_second=5e4)).term == "compute"
    # Weights that do not fit may lie elsewhere: no batch is ruled out.
    assert verify(Claimed(**{**one, "chip": "rtx-4090"})).verdict == "possible"


def test_tokens_a_pass_chips_and_sparsity_explain():
    said = {"model": "llama-2-70b", "chip": "h200-sxm", "tokens_per_second": 155, "batch": 1}
    found = verify(Claimed(**said, weights="fp8"))
    more = found.explanations
    assert verify(Claimed(**said, weights="fp8", tokens_per_pass=more["speculation"])).verdict == (
        "possible"
    )
    assert verify(Claimed(**said, weights="fp8", tp=4)).verdict == "possible"
    rate = {"chip": "h100-sxm", "flops": 1.9e15, "format": "bf16"}
    assert "sparse" in verify(Claimed(**rate)).explanations
    assert verify(Claimed(**rate, sparse=True)).verdict == "possible"
    assert verify(Claimed(**rate, chips=2)).verdict == "possible"


def test_clocks_and_cards_for_players():
    """A known clock is judged at that clock; else cards are given what such cards are seen to do."""
    rate = {"chip": "rtx-4090", "format": "bf16"}
    peak = chip("rtx-4090").peak("bf16")
    assert verify(Claimed(**rate, flops=1.18 * peak)).explanations["above"] == pytest.approx(0.18)
    assert verify(Claimed(**rate, flops=1.18 * peak, clock=2520)).verdict == "impossible"
    assert verify(Claimed(**rate, flops=1.18 * peak, clock=3000)).verdict == "possible"
    assert verify(Claimed(chip="rtx-4090", mfu=1.1)).verdict == "possible"


def test_what_fits_into_the_cache_is_told_apart():
    small = {"model": "mpt-125m", "chip": "rtx-4090", "batch": 1, "weights": "int8"}
    assert verify(Claimed(**small, tokens_per_second=12_000)).verdict == "cache-only"
    assert verify(Claimed(**small, tokens_per_second=4_000)).verdict == "possible"
    assert verify(Claimed(**small, tokens_per_second=1e8)).term == "memory"
    moved = {"chip": "h100-sxm", "bytes_per_second": 5e12}
    assert verify(Claimed(**moved, bytes=30e6)).verdict == "cache-only"
    assert verify(Claimed(**moved, bytes=3e9)).verdict == "impossible"
    bits = verify(Claimed(chip="h100-sxm", bytes_per_second=8 * 3e12))
    assert bits.explanations["bits"] < 1


def test_prompts():
    said = {"model": "llama-3-8b", "chip": "h100-sxm"}
    assert verify(Claimed(**said, prompt_tokens_per_second=60_000)).verdict == "possible"
    assert verify(Claimed(**said, prompt_tokens_per_second=600_000)).verdict == "impossible"
    found = verify(Claimed(**said, ttft=0.01, context=8000))
    assert found.verdict == "impossible"
    assert 0 < found.explanations["prefix-cache"] < 1
    assert verify(Claimed(**said, ttft=0.2, context=8000)).verdict == "possible"


def test_a_collective_at_its_bound_on_every_chip_that_has_links():
    for key in chips():
        on = chip(key)
        if not on.joins:
            continue
        link = next(iter(on.joins))
        for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
            took = 1e3 * float(getattr(network, name)(1e9, on.joins[link], 4))
            said = {"collective": name.replace("_", "-"), "bytes": 1e9, "chips": 4}
            assert verify(Claimed(chip=key, ms=took, **said)).verdict == "possible", (key, name)
            assert verify(Claimed(chip=key, ms=took / 9, **said)).verdict == "impossible", key


def test_every_row_that_was_measured_for_the_book_is_possible():
    files = sorted(FOLDER.glob("lab-*/nvidia-*/results.csv"))
    found = [(file, where, one) for file in files for where, one in read(file)]
    assert len(found) > 200
    assert [one for one in found if getattr(one[2], "verdict", "") not in ("possible", "")] == []


def test_a_row_that_no_device_can_have_done_is_refused():
    file = next(iter(sorted(FOLDER.glob("lab-00/nvidia-h100*/results.csv"))))
    row = next(row for row in results.read(file) if row.op == "matmul" and row.status == "ok")
    hasty = msgspec.structs.replace(row, seconds_median=row.seconds_median / 100)
    assert of_row(hasty).verdict == "impossible"
    abacus = {"device": "abacus", "peak_tflops": row.peak_tflops or 989.0}
    assert of_row(msgspec.structs.replace(row, **abacus)).verdict == "possible"
    assert of_row(msgspec.structs.replace(hasty, **abacus)).verdict == "impossible"
    with pytest.raises(CourseError, match="no chip's"):
        of_row(msgspec.structs.replace(row, device="abacus", peak_tflops=None))


def test_tables_are_read_by_what_others_call_their_columns(tmp_path):
    lines = [
        "Model,GPU,tok/s,batch size,precision,MFU %",
        "meta-llama/Llama-2-70b-chat-hf,NVIDIA H200,155,1,FP16,",
        'Llama 3.1 8B,H100,"1,200",16,4-bit,',
        "Llama 3.1 8B,H100,1.2.3,16,bf16,",
        "nobody's,H100,3,1,,",
        ",H100,,,,140",
    ]
    (tmp_path / "claims.csv").write_text("\n".join(lines))
    vllm = {"model_id": "meta-llama/Llama-3.1-8B", "output_throughput": 2500, "mean_tpot_ms": 0.1}
    (tmp_path / "one.json").write_text(json.dumps(vllm))
    (tmp_path / "torn.json").write_text("{")
    found = dict(read(tmp_path, "h100-sxm"))
    verdicts = {where: getattr(one, "verdict", "unread") for where, one in found.items()}
    assert verdicts == {
        "claims.csv:2": "impossible",
        "claims.csv:3": "possible",
        "claims.csv:4": "unread",
        "claims.csv:5": "unread",
        "claims.csv:6": "impossible",
        "one.json:1": "impossible",
        "torn.json": "unread",
    }
    assert claimed({"gpu": "H100 SXM", "TFLOPS": 700}).flops == 700e12
    assert claimed({"Device": "NVIDIA H200", "tok/s": "1"}).chip == "h200-sxm"


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"chip": "h100-sxm"}, "--tokens-per-second"),
        ({"chip": "h100-sxm", "flops": 0}, "flops must be"),
        ({"chip": "h100-sxm", "ms": float("nan")}, "ms must be"),
        ({"flops": 1e15}, "chip must be named"),
        ({"chip": "h100-sxm", "tokens_per_second": 3}, "needs a model"),
        ({"chip": "h100-sxm", "ms": 3, "collective": "all-reduce"}, "--bytes"),
        ({"chip": "h100-sxm", "ms": 3, "collective": "gather", "bytes": 1e9}, "all-gather"),
        ({"chip": "h100-sxm", "flops": 1e15, "format": "int3"}, "int3"),
        ({"chip": "tpu-v6e", "flops": 1e14, "clock": 900}, "clock"),
    ],
)
def test_what_cannot_be_judged_says_what_to_give(said, what):
    with pytest.raises(CourseError, match=what):
        verify(Claimed(**said))


def test_a_verdict_is_a_record():
    found = verify(Claimed(mfu=0.5))
    assert replace(found, model="x").model == "x"


def test_a_bus_bandwidth_is_judged_as_the_time_that_it_stands_for():
    said = {"chip": "h100-sxm", "collective": "all-reduce", "chips": 8}
    ring = verify(Claimed(**said, bytes_per_second=450e9))
    assert (ring.verdict, ring.speed) == ("possible", "ms")
    # NVLink's switches add up: a ring's own links are exceeded, and no false claim is made of it.
    switched = verify(Claimed(**said, bytes_per_second=480e9))
    assert switched.verdict == "possible"
    assert "in-switch" in switched.explanations or switched.factor <= 1
    assert verify(Claimed(**said, bytes_per_second=900e9)).verdict == "impossible"
    gathered = verify(Claimed(**said | {"collective": "all-gather"}, bytes_per_second=900e9))
    assert gathered.verdict == "impossible"


@each(
    ("column", "cell", "field", "value"),
    [
        ("tokens/s", "2.3k tok/s", "tokens_per_second", 2300),
        ("tok/s", "1,250 tokens/s/GPU", "tokens_per_second", 10_000),
        ("tok/s", "50 tok/s/user", "ms_per_token", 20),
        ("ttft_ms", "42 ms", "ttft", 0.042),
        ("ttft_ms", "42", "ttft", 0.042),
        ("TTFT", "42 ms TTFT", "ttft", 0.042),
        ("TPOT ms", "7,5", "ms_per_token", 7.5),
        ("TFLOPS", "1,350", "flops", 1.35e15),
        ("TFLOPS", "1.35 PFLOPS", "flops", 1.35e15),
        ("GB/s", "3,1 TB/s", "bytes_per_second", 3.1e12),
        ("mfu_percent", "40 %", "mfu", 0.4),
        ("mfu_percent", "40", "mfu", 0.4),
    ],
)
def test_a_cell_says_its_unit_or_the_column_does(column, cell, field, value):
    row = {"model": "llama-3-8b", "gpu": "H100 SXM", "num_gpus": "8", column: cell}
    assert getattr(claimed(row), field) == pytest.approx(value, rel=1e-12)
