"""What the chapters say in words about figures that they compute: recomputed, so that no sentence
outlives its number.
"""

import pytest

from course_lib import chip, llm, resnet
from course_lib.core import sensitivity
from course_tools import measured
from course_tools.calibrate import evidence
from course_tools.measured import published
from course_book import rent

A100, H100, H200, B200 = (chip(key) for key in ("a100-sxm-80", "h100-sxm", "h200-sxm", "b200-sxm"))
TENSORRT = next(
    float(row["ms"]) / 1e3
    for row in measured.table("resnet50_a100")
    if (row["engine"], row["precision"], row["batch"], row["statistic"])
    == ("TensorRT", "fp16", "1", "mean")
)


def test_the_sum_of_both_times_does_not_bound_what_runs():
    """rooflines: only a kernel that keeps both clocks full lies below the sum; programs may take
    longer, and many do.
    """
    assert 5 * resnet.forward("resnet-50", A100, 1).upper < TENSORRT
    runs = [run for name in (*published.TABLES, *published.UNSEEN) for run in published.runs(name)]
    above = [
        run
        for run in runs
        if run.token is not None and run.batch == 1 and run.measured > 2 * run.predicted
    ]
    assert len(above) >= 3  # the sum is never more than twice the longer time


def test_the_factor_of_the_first_page_is_the_bounds_times_what_was_missed():
    """hello-roofline: bound over peak, times measured over bound."""
    flops = resnet.work("resnet-50", 1).flops
    bound = resnet.forward("resnet-50", A100, 1).lower
    parts = bound * A100.peak("fp16") / flops, TENSORRT / bound
    assert parts[0] * parts[1] == pytest.approx(TENSORRT * A100.peak("fp16") / flops)
    assert parts == pytest.approx((1.87, 15.5), rel=0.01)


def test_the_h100_is_first_at_one_image_and_at_many_and_for_other_reasons():
    bandwidths, peaks = H100.bandwidth / A100.bandwidth, H100.peak("fp16") / A100.peak("fp16")
    passes = {
        (c, batch): resnet.forward("resnet-50", c, batch)
        for c in (chip("v100-sxm2"), A100, H100)
        for batch in (1, 256)
    }
    for batch in (1, 256):
        assert (
            min((c for c, b in passes if b == batch), key=lambda c: passes[c, batch].lower) is H100
        )
    gains = {batch: passes[A100, batch].lower / passes[H100, batch].lower for batch in (1, 256)}
    assert bandwidths < gains[1] < 1.1 * bandwidths
    assert gains[1] < gains[256] < peaks
    waiting = {
        key: sum(part.bound == "memory-bound" for part in one.parts.values())
        for key, one in passes.items()
    }
    layers = len(passes[A100, 1].parts)
    assert all(count > layers / 2 for (_, batch), count in waiting.items() if batch == 1)
    assert waiting[A100, 256] < layers / 2 < waiting[H100, 256]


def test_answers_of_the_first_chapter():
    ways = {
        counted: lambda batch, counted=counted: resnet.work("resnet-50", batch, counted=counted)
        for counted in resnet.BYTES
    }
    ridges = A100.ridge("fp16"), A100.peak("fp16") / H100.bandwidth
    changed = [
        counted for counted, work in ways.items() if ridges[1] <= work(64).intensity < ridges[0]
    ]
    assert changed == ["fused"]  # only Q3
    per_image = ways["operands"](2).bytes - ways["operands"](1).bytes
    assert ways["operands"](1).flops / 2 / per_image < ridges[0]  # half the operations: never
    weights = ways["weights"](1).bytes
    widest = max(2 * (layer.inputs + layer.outputs) for layer in resnet.layers("resnet-50"))
    assert A100.llc < weights < H100.llc < weights + widest
    rows = [
        row for row in measured.table("resnet50_a100") if row["precision"] in ("fp16", "mixed fp16")
    ]
    assert all(
        int(row["batch"]) / (float(row["ms"]) / 1e3) < 20_000 for row in rows
    )  # no published row is the service's
    assert 1 / resnet.forward("resnet-50", A100, 1).lower > 20_000


def costs(key, context=1024, batch=64, length=2048):
    """USD of a token in three regimes, for each bandwidth that is in print."""
    price = next(one.usd_per_hour for one in rent.quotes(key, provider="RunPod"))
    steps = [
        (
            llm.decode("llama-3-8b", c, 1, context).lower,
            llm.decode("llama-3-8b", c, batch, context).lower / batch,
            llm.prefill("llama-3-8b", c, 1, length).lower / length,
        )
        for c in chip(key).as_printed("bandwidth")
    ]
    return [[price * step[i] for step in steps] for i in range(3)]


def test_no_winner_is_named_where_a_disputed_bandwidth_decides():
    """memory-wall: what the chapter says of two chips' costs holds for every bandwidth in print, or
    it says that it does not.
    """
    a100, h100, b200 = (costs(key) for key in ("a100-sxm-80", "h100-sxm", "b200-sxm"))
    assert min(h100[0]) > max(a100[0])  # said outright: decode is cheaper on the A100,
    assert max(h100[2]) < min(a100[2])  # prefill on the H100
    assert max(b200[2]) < min(*a100[2], *h100[2])  # and on the B200
    for regime in (0, 1):  # said to be open
        assert b200[regime][0] < a100[regime][0] < b200[regime][1]


def test_the_h200_moved_both_walls_and_no_peak():
    assert H200.peak("bf16") == H100.peak("bf16")
    assert H200.bandwidth > 1.4 * H100.bandwidth
    assert H200.memory > 1.7 * H100.memory


def test_a_single_user_gained_less_than_the_bound_and_more_than_nothing():
    """memory-wall: the opening question, by torchao's rows."""
    rows = {
        (run.w, run.chip): run
        for run in published.runs("decode_torchao_bs1")
        if run.model == "llama-3-8b"
    }
    for w, gain in (("bf16", 1.33), ("int8", 1.30), ("int4/64", 1.34)):
        old, new = rows[w, "a100-sxm-80"], rows[w, "h100-sxm"]
        assert old.measured / new.measured == pytest.approx(gain, abs=0.005)
        assert (
            old.measured / new.measured
            < old.predicted / new.predicted
            < H100.peak("bf16") / A100.peak("bf16")
        )
    wide = [rows["bf16", key] for key in ("a100-sxm-80", "h100-sxm")]
    assert wide[1].measured - wide[1].predicted > wide[0].measured - wide[0].predicted


def test_one_step_changes_its_bottleneck_on_the_older_chip_first():
    def peak_share(c, batch):
        return sensitivity(llm.decode("llama-3-8b", c, batch, 128))["peak"]

    assert [peak_share(A100, batch) > 0.5 for batch in (1, 128, 256, 512)] == [
        False,
        False,
        True,
        True,
    ]
    assert [peak_share(H100, batch) > 0.5 for batch in (1, 128, 256, 512)] == [
        False,
        False,
        False,
        True,
    ]
    assert peak_share(H100, 1) == 0


def test_answers_of_the_memory_wall():
    longest = llm.first_compute_bound_batch("llama-3-8b", H100, 1).max_context
    assert (
        1.9 * longest
        < llm.first_compute_bound_batch("llama-3-8b", H100, 1, kv="fp8").max_context
        < 2.1 * longest
    )
    mixtral = [llm.decode("mixtral-8x7b", H200, users, 1024).lower for users in (1, 64)]
    llama = [llm.decode("llama-3-70b", H200, users, 1024, w="int4/32").lower for users in (1, 64)]
    assert mixtral[0] < llama[0]
    assert llama[1] < mixtral[1]
    possible = {
        w: llm.check_claim("llama-3-8b", H100, 400, w=w).possible
        for w in ("bf16", "fp8", "int4/32")
    }
    assert possible == {"bf16": False, "fp8": True, "int4/32": True}
    assert (
        max(one.usd_per_hour for one in rent.quotes("mi300x"))
        < 1.1 * rent.quotes("a100-sxm-80", provider="RunPod")[0].usd_per_hour
    )


def test_mlperf_ratios_are_those_of_the_bounds_and_its_images_were_not_fp16():
    found = {
        (row["benchmark"], row["accelerator"][7:11]): float(row["result"])
        for row in measured.table("mlperf_inference_v31")
    }
    flops = resnet.work("resnet-50", 1).flops
    assert found["resnet50", "A100"] > 8 * A100.peak("fp16") / flops
    bounds = {
        c.short: 8 * 1024 / resnet.forward("resnet-50", c, 1024, w="int8").lower
        for c in (A100, H100)
    }
    assert all(found["resnet50", name] < bound for name, bound in bounds.items())
    ratio = found["resnet50", "H100"] / found["resnet50", "A100"]
    assert ratio == pytest.approx(bounds["H100"] / bounds["A100"], rel=0.02)
    above = [
        name for name, of in found if of == "H100" and found[name, of] / found[name, "A100"] > 3.171
    ]
    assert sorted(above) == ["bert-99.9", "gptj-99", "gptj-99.9"]


def test_no_measurement_breaks_its_bound():
    """measured-predicted: none of them does, the all-reduces included."""
    pairs = [(one.lower, one.seconds) for one in evidence.bounds()]
    for node, count in evidence.NODES:
        messages = evidence.messages(node, count, count)
        pairs.append((messages.bound, messages.seconds))
    assert sum(seconds.size for _, seconds in pairs) > 1000
    assert all((seconds >= lower).all() for lower, seconds in pairs)
