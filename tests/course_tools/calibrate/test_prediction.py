"""Predictions: between the bound and what was measured, explainable, honest about whose constants
they are.
"""

import dataclasses
import math
import re
import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import CourseError, Estimate, Work, chip, chips, llm, network, ops, roofline, total
from course_lib.core import BITS, itemsize
from course_lib.network import all_reduce
from course_lib.specs import DATA, Accelerator, model
from course_tools import calibrate
from course_tools.calibrate import evidence
from course_tools.calibrate import kernels as achieved
from course_tools.calibrate.constants import FOLDER, CalibrationFile, nearest, to_toml
from course_tools.calibrate.kernels import count_of, kernels_of
from course_tools.calibrate.links import LinkConstants, Range
from course_tools.counting.answers import ask
from course_tools.counting.sources import named
from course_tools.measured import published
from tests.each import each

A100 = chip("a100-sxm-80")
ROOT = Path(__file__).parents[3]
SIZES = st.integers(1, 20_000)


def product(*sizes, on=A100, **formats):
    return roofline(ops.matmul(*sizes, **formats), on)


@given(
    SIZES, SIZES, SIZES, st.sampled_from(["a100-sxm-80", "h100-sxm", "l40s", "mi300x", "b200-sxm"])
)
@settings(max_examples=60)
def test_the_range_lies_above_the_bound(b, d, f, key):
    step = product(b, d, f, on=chip(key))
    likely = calibrate.predict(step, key)
    assert step.lower <= likely.low <= likely.expected <= likely.high


@each("key", chips())
def test_every_chip_gets_a_prediction_that_names_its_source(key):
    one = chip(key)
    unit = "matrix" if any(name.startswith("matrix.") for name in one.peaks) else "vector"
    dtype = next(
        name.partition(".")[2] for name in one.peaks if name.startswith(unit) and "/" not in name
    )
    step = roofline(Work(1e12, 1e9, dtype, unit), one)
    likely = calibrate.predict(step, one)
    assert step.lower <= likely.low < likely.expected < likely.high
    measured = key in calibrate.calibrations()
    assert measured or "no one measured" in likely.source
    # Somebody's own measurements promise more than another chip's.
    reference = calibrate.predict(product(4096, 4096, 4096), "a100-sxm-80")
    assert measured or likely.high / likely.low > reference.high / reference.low


def test_a_format_nobody_measured_widens_the_range_and_says_so():
    step = roofline(ops.matmul(4096, 8192, 8192, x="int8", w="int8"), A100)
    likely, fp16 = calibrate.predict(step, A100), calibrate.predict(product(4096, 8192, 8192), A100)
    assert "no one measured int8" in likely.source
    assert likely.high / likely.low > fp16.high / fp16.low


def test_the_bound_does_not_know_of_calibration():
    step = product(4096, 8192, 8192)
    before = step.lower, step.upper, step.t_math, step.t_memory
    calibrate.predict(step, A100)
    assert before == (step.lower, step.upper, step.t_math, step.t_memory)
    assert step.t_math == step.flops / A100.peak("bf16")


def test_with_perfect_constants_the_expected_time_is_the_bound():
    perfect = msgspec.structs.replace(
        calibrate.calibration(A100, "bf16"),
        constants=achieved.Constants(
            compute=1.0,
            burst=1.0,
            bandwidth=1.0,
            stream=1.0,
            overhead=0.0,
            overlap=1e3,
            reload=0.0,
            misaligned=1.0,
        ),
    )
    # One full wave of the largest tiles, and a product so thin that memory decides.
    for sizes in ((256 * 9, 65_536, 128 * 12), (1, 8192, 65_536)):
        step = product(*sizes)
        assert calibrate.predict(step, A100, constants=perfect).expected == pytest.approx(
            step.lower, rel=1e-3
        )


@given(
    st.sampled_from(["llama-3-8b", "mixtral-8x7b"]),
    st.sampled_from(["a100-sxm-80", "h100-sxm", "mi300x"]),
    st.sampled_from(["bf16", "int8", "int4/32"]),
    st.sampled_from([1, 64]),
)
@settings(max_examples=12)
def test_a_breakdown_adds_up_and_takes_nothing_back(model, key, w, batch):
    step = llm.decode(model, key, batch, 512, w=w)
    spent = calibrate.breakdown(step, key)
    assert sum(spent.values()) == pytest.approx(calibrate.predict(step, key).expected)
    assert spent["bound"] == step.lower
    assert min(spent.values()) >= 0
    assert (spent["unpack"] > 0) == (w != "bf16")


def test_what_is_missing_of_three_formats_is_no_single_constant():
    """A nearly constant difference between measurement and bound, of one part that shrinks, one
    that grows and one that stays.
    """
    rows = {r.w: r for r in published.runs("decode_gptfast_bs1") if r.model == "llama-2-7b"}
    missing = [rows[w].measured - rows[w].predicted for w in ("bf16", "int8", "int4/32")]
    assert max(missing) / min(missing) < 1.1
    spent = [
        calibrate.breakdown(llm.decode("llama-2-7b", A100, 1, 1, w=w), A100)
        for w in ("bf16", "int8", "int4/32")
    ]
    wide, half, narrow = spent
    assert wide["bandwidth"] > 1.5 * half["bandwidth"] > 2 * narrow["bandwidth"] > 0
    assert wide["unpack"] == 0 < half["unpack"] < narrow["unpack"] / 2
    assert wide["launches"] == pytest.approx(narrow["launches"])
    assert wide["launches"] < missing[0] / 2


def test_a_breakdown_takes_the_readers_constants_and_names_what_is_wrong():
    step = llm.decode("llama-3-8b", A100, 1, 512)
    own = msgspec.structs.replace(
        calibrate.calibration(A100, "bf16"),
        constants=msgspec.structs.replace(
            calibrate.calibration(A100, "bf16").constants, bandwidth=0.5
        ),
    )
    assert calibrate.breakdown(step, A100, constants=own)["bandwidth"] == pytest.approx(
        step.lower, rel=0.02
    )
    with pytest.raises(CourseError, match="estimate must be an Estimate"):
        calibrate.breakdown(3.0, A100)


def tiles_by_hand(b, f, rows, columns, units):
    """Waves, counted by laying the tiles out one by one."""
    placed = [(i, j) for i in range(0, b, rows) for j in range(0, f, columns)]
    waves = [placed[i : i + units] for i in range(0, len(placed), units)]
    return len(waves) * units * rows * columns / (b * f)


@given(
    st.integers(1, 3000), st.integers(1, 3000), st.sampled_from(achieved.TILES), st.integers(1, 140)
)
@settings(max_examples=50)
def test_waves_against_laying_the_tiles_out(b, f, tile, units):
    counted = achieved.tiled(achieved.Product(b, 64, f, 1), tile, 1, units, reload=0)
    assert counted == pytest.approx(tiles_by_hand(b, f, *tile, units))
    assert counted >= 1


def test_one_tile_more_than_a_wave_costs_a_second_one():
    one, more = (
        achieved.tiled(achieved.Product(256, 32_768, 128 * n, 1), (256, 128), 1, 108, reload=0)
        for n in (108, 109)
    )
    assert (one, more * 109 / 108) == pytest.approx((1, 2))
    # A library takes smaller tiles then, or splits, and loses less; but it loses.
    whole, beyond = (
        float(calibrate.predict(product(256, 32_768, 128 * n), A100).expected) for n in (108, 109)
    )
    assert 1.05 * whole < beyond < 2 * whole


def test_a_crooked_row_costs():
    straight, crooked = (
        calibrate.predict(product(8192, 4096, f), A100).expected for f in (10_944, 10_922)
    )
    assert crooked > 1.2 * straight


def test_narrow_weights_are_faster_but_less_than_their_bytes():
    bf16, int8, int4 = (
        float(calibrate.predict(product(1, 8192, 28_672, w=w), A100).expected)
        for w in ("bf16", "int8", "int4/32")
    )
    assert bf16 / 2 < int8 < bf16
    assert int8 / 2 < int4 < int8


def test_unpacking_needs_weights_narrower_than_the_arithmetic():
    """Integers multiplied as integers are not widened."""
    known = calibrate.calibration(A100, "bf16")
    found = msgspec.structs.replace(known, engine=msgspec.structs.replace(known.engine, unpack=1e6))
    for formats in (
        {"x": "int8", "w": "int8"},
        {"x": "bf16", "w": "bf16"},
        {"x": "bf16", "w": "bf16", "out": "fp32"},
    ):
        step = product(1, 8192, 8192, **formats)
        assert calibrate.predict(step, A100, constants=found).expected < 1e-3
    assert (
        calibrate.predict(product(1, 8192, 8192, w="int8"), A100, constants=found).expected > 1e-3
    )


def test_unpacking_fits_into_the_instructions_that_there_are():
    """A weight takes a lane for half a clock at least, with two weights to a register."""
    for key in ("a100-sxm-80", "h100-sxm"):
        on = chip(key)
        in_a_clock = 1 / calibrate.calibration(on, "bf16").engine.unpack
        assert in_a_clock < 2 * on.integer_lanes <= 2 * on.lanes
    # What an H100's memory brings of four-bit weights outruns it, so the bytes alone do not tell
    # the gain of a single token.
    h100 = chip("h100-sxm")
    assert h100.multiprocessors * h100.clock * in_a_clock < h100.bandwidth / itemsize("int4/32")
    step, wide = (product(1, 8192, 28_672, w=w, on=h100) for w in ("int4/32", "bf16"))
    likely, was = (float(calibrate.predict(one, h100).expected) for one in (step, wide))
    assert wide.lower / step.lower > 3.4 > 2.5 > was / likely


def test_widening_grows_with_multiprocessors_not_with_the_vector_unit():
    """An H100 doubles the vector unit of a multiprocessor, not its integer units."""
    times = []
    for key in ("a100-sxm-80", "h100-sxm"):
        on = chip(key)
        step, known = (
            product(1, 8192, 28_672, w="int4/32", on=on),
            calibrate.calibration(on, "bf16"),
        )
        added = msgspec.structs.replace(
            known, constants=msgspec.structs.replace(known.constants, overlap=1.0)
        )
        hides = msgspec.structs.replace(known.engine, unpack=0.0)
        wide, hidden = (
            calibrate.predict(step, on, constants=one).expected
            for one in (added, msgspec.structs.replace(added, engine=hides))
        )
        times.append((wide - hidden) * on.multiprocessors * on.clock)
    assert times[0] == pytest.approx(times[1], rel=1e-6)


def test_widening_on_a_chip_of_few_cores_is_not_known():
    one, other = (
        calibrate.predict(product(1, 8192, 28_672, w=w, on=chip("tpu-v5e")), "tpu-v5e")
        for w in ("int8", "int4")
    )
    assert "widen" not in one.source + other.source


def test_an_engine_may_hide_what_widening_takes():
    wide, narrow = (
        calibrate.predict(llm.decode("llama-2-7b", A100, 1, 128, w=w), A100)
        for w in ("bf16", "int4/32")
    )
    assert narrow.low / narrow.expected < wide.low / wide.expected
    assert narrow.high / narrow.expected == pytest.approx(wide.high / wide.expected)
    assert "hides it" in narrow.source
    assert "hides it" not in wide.source


@pytest.mark.parametrize(
    ("model", "shared"),
    [
        ("llama-2-70b", 8),
        ("llama-2-7b", 1),  # nothing is shared
        ("deepseek-v3", 1),  # one cache of all heads
    ],
)
@pytest.mark.parametrize("key", ["h100-sxm", "a100-sxm-80", "l40s"])
def test_an_engine_of_2023_reads_shared_heads_again_no_faster_than_the_last_level_cache(
    model, shared, key
):
    step = llm.decode(model, key, 64, 4000)
    found = calibrate.calibration(key, "bf16")
    once, again = (
        calibrate.predict(step, key, constants=msgspec.structs.replace(found, engine=engine))
        for engine in (found.engine, msgspec.structs.replace(found.engine, repeats=True))
    )
    more = again.expected / once.expected
    assert (more > 1.2) == (shared > 1)
    assert 1 <= more < shared + 1e-9


@pytest.mark.parametrize(("key", "tested"), [("llama-3-8b", True), ("qwen3-next-80b-a3b", False)])
def test_no_row_stands_behind_a_step_with_states(key, tested):
    found = calibrate.predict(ask(named(key), A100, 1, 1024).step, A100)
    assert found.evidence.endswith("rows") == tested


def test_kernels_add_their_overhead():
    small = ops.elementwise(8, flops=1, dtype="bf16")
    one, hundred = (calibrate.predict(roofline(n * small, A100), A100).expected for n in (1, 100))
    assert hundred == pytest.approx(100 * one)
    assert one > 1e-6


def test_products_of_one_input_run_as_one():
    def names(step):
        return sorted(
            kernel.work.shape[2]
            for kernel in achieved.kernels_of(step)
            if achieved.product(kernel.work) is not None
        )

    def marked(b, f, mark):
        work = dataclasses.replace(ops.matmul(b, 4096, f), fuses_with=mark)
        return roofline(work, A100)

    parts = {name: marked(64, f, "qkv") for name, f in {"a": 4096, "b": 1024, "c": 1024}.items()}
    together = total(**parts, out=marked(64, 4096, ""))
    assert names(together) == [4096, 4096 + 1024 + 1024]
    flops = sum(kernel.bound.flops for kernel in achieved.kernels_of(together))
    assert flops == together.flops
    # Without a mark, with another one, or with another input, nothing is fused.
    assert len(names(total(q=marked(64, 4096, ""), k=marked(64, 4096, "")))) == 2
    assert len(names(total(q=marked(64, 4096, "qkv"), up=marked(64, 4096, "gate-up")))) == 2
    assert len(names(total(gate=marked(64, 8192, "up"), up=marked(32, 8192, "up")))) == 2


def renamed(estimate):
    parts = {f"part {i}": renamed(part) for i, part in enumerate(estimate.parts.values())}
    return dataclasses.replace(estimate, parts=parts)


@pytest.mark.parametrize("key", ["llama-3-8b", "mixtral-8x7b", "gpt-3-175b"])
def test_no_prediction_hangs_on_what_a_part_is_called(key):
    step = llm.decode(key, "h100-sxm", [1, 64], 1024)
    said, other = (calibrate.predict(each, "h100-sxm") for each in (step, renamed(step)))
    for name in ("expected", "low", "high"):
        assert getattr(said, name).tolist() == getattr(other, name).tolist()
    assert sum(kernel.work.kind == "matmul" for kernel in achieved.kernels_of(step)) < sum(
        len(part.parts) for name, part in step.parts.items() if name not in ("norms", "embedding")
    )


DECODED = {
    "attention": ops.attention(4, 1, 8192, 32, 8, 128, causal=True, kv="bf16"),
    "tiled": ops.attention_tiled(4, 1, 8192, 32, 8, 128, rows=64),
    "kv_read": ops.kv_read(4, 8192, 32, 8, 128),
}


@pytest.mark.parametrize("key", ["h100-sxm", "a100-sxm-80", "mi300x"])
def test_every_account_of_one_attention_kernel_is_predicted_alike(key):
    found = {
        name: calibrate.predict(roofline(work, chip(key)), key) for name, work in DECODED.items()
    }
    for end in ("low", "expected", "high"):
        assert [getattr(one, end) for one in found.values()] == pytest.approx(
            [getattr(found["attention"], end)] * len(found), rel=2e-3
        )
    assert len({one.source for one in found.values()}) == 1
    assert "again for each head" not in found["kv_read"].source  # that is in doubt in steps


def test_what_a_kernel_is_follows_from_its_kind_alone():
    made = Work(2 * 64**3, 3 * 2 * 64**2, "bf16", shape=(64, 64, 64))
    assert achieved.product(made) is None
    assert achieved.product(dataclasses.replace(made, kind="matmul")) is not None
    parts = ops.attention_standard(1, 64, 64, 1, 1, 1)
    assert {part.kind for part in parts.values()} == {"other", "vector"}
    with pytest.raises(CourseError, match="shape of kind 'attention'"):
        dataclasses.replace(made, kind="attention")
    with pytest.raises(CourseError, match="unknown kind 'matmull': did you mean 'matmul'"):
        dataclasses.replace(made, kind="matmull")


@pytest.mark.parametrize("key", ["llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gpt-3-175b"])
def test_kernels_lose_nothing_of_a_step(key):
    step = llm.decode(key, "h100-sxm", 4, 1024)
    every = list(achieved.kernels_of(step))
    for name in ("flops", "bytes", "t_math", "t_memory"):
        assert sum(getattr(kernel.bound, name) for kernel in every) == pytest.approx(
            getattr(step, name)
        )


def test_a_product_is_known_by_its_kind():
    assert achieved.product(ops.matmul(2, 3, 4)) is not None
    assert achieved.product(7 * ops.matmul(2, 3, 4)) is not None
    assert achieved.product(ops.grouped_matmul(4, 8, 16, 2)) is not None
    assert achieved.product(ops.attention(2, 3, 4, 8, 8, 64, causal=False)) is None
    assert achieved.product(ops.norm(4, 8)) is None
    assert achieved.product(Work(1.0, 1.0, "bf16")) is None
    assert achieved.product(None) is None


def test_steps_launched_one_by_one_are_further_apart():
    prompt, token = llm.prefill("llama-2-7b", A100, 1, 128), llm.decode("llama-2-7b", A100, 1, 128)
    graph = calibrate.calibration(A100, "bf16")
    launched = msgspec.structs.replace(
        graph, engine=msgspec.structs.replace(graph.engine, launch=1e-3)
    )
    kernels = 7 * 32
    assert calibrate.predict(prompt, A100, constants=launched).expected > 0.9e-3 * kernels
    assert (
        calibrate.predict(token, A100, constants=launched).expected
        == calibrate.predict(token, A100, constants=graph).expected
    )


def test_tensor_parallel_steps_pay_for_their_collectives():
    slow = msgspec.structs.replace(calibrate.calibration(A100, "bf16"))
    link = msgspec.structs.replace(slow.links["nvlink"], latency=1e-3)
    slow = msgspec.structs.replace(slow, links={**slow.links, "nvlink": link})
    step = llm.decode("llama-2-70b", A100, 1, 128, tp=4, link="nvlink")
    extra = (
        calibrate.predict(step, A100, constants=slow).expected
        - calibrate.predict(step, A100).expected
    )
    assert extra > 0.9e-3 * 2 * 80


@given(st.floats(1, 1e10), st.integers(2, 8))
def test_all_reduce_lies_above_its_bound(size, n):
    likely = calibrate.collective("all-reduce", size, "a100-sxm-80", n)
    bound = all_reduce(size, A100.links["nvlink"], n)
    assert bound <= likely.low <= likely.expected <= likely.high


def test_all_reduce_of_one_chip_is_free_and_large_ones_reach_the_links():
    assert calibrate.collective("all-reduce", 1e9, A100, 1).expected == 0
    links = calibrate.calibration(A100).links["nvlink"]
    huge = calibrate.collective("all-reduce", 1e15, A100, 8).expected
    assert huge == pytest.approx(
        all_reduce(1e15, A100.links["nvlink"], 8) / links.bandwidth, rel=1e-3
    )


def test_pieces_of_the_best_number_give_the_time_of_a_collective():
    """The formula is the least, over how many pieces a message is cut into, of what pieces over two
    hops take.
    """
    latency, bytes_time = 2e-5, 5e-4
    counts = np.arange(1, 10_000)
    # The second hop starts when the first piece has arrived, so there is one turn more than pieces.
    by_pieces = (latency + bytes_time / counts) * (counts + 1)
    sure = Range(1.0, 1.0)
    link = LinkConstants(latency=latency, hop=0.0, bandwidth=1.0, range=sure, small=sure)
    found = float(link.seconds("all-reduce", bytes_time, 8))
    assert found == pytest.approx(by_pieces.min(), rel=2e-3)


def test_the_switch_beats_a_rings_bound_where_it_adds_and_nowhere_else():
    h200 = chip("h200-sxm")
    by_ring = all_reduce(8e9, h200.links["nvlink"], 8)
    likely, ring = (
        calibrate.collective("all-reduce", 8e9, h200, 8, in_switch=way) for way in (None, False)
    )
    assert likely.low < by_ring < likely.expected < ring.expected
    assert likely.low >= all_reduce(8e9, h200.links["nvlink"], 8, algorithm="in-switch")
    assert ring.low >= by_ring
    few = [calibrate.collective("all-reduce", 8e9, h200, 4, in_switch=way) for way in (None, False)]
    assert few[0].expected == few[1].expected
    # A reduce-scatter takes half of a ring's steps and bytes.
    half = calibrate.collective("reduce-scatter", 8e9, h200, 8)
    assert half.expected == pytest.approx(ring.expected / 2, rel=0.02)
    # Of small messages less is promised.
    small = calibrate.collective("all-reduce", 1e4, h200, 8)
    other = calibrate.collective("all-to-all", 8e9, h200, 8)
    assert small.high / small.expected > 1.05 * likely.high / likely.expected
    assert other.high / other.expected >= likely.high / likely.expected


def test_cards_without_links_of_their_own_are_joined_by_their_hosts():
    step = llm.decode("llama-3-8b", "l40s", 1, 512, tp=2, link="host")
    slow = calibrate.predict(step, "l40s")
    alone = calibrate.predict(llm.decode("llama-3-8b", "l40s", 1, 512), "l40s")
    assert alone.expected / 2 < slow.expected < alone.expected
    assert calibrate.collective("all-reduce", 1e8, "l40s", 2, link="host").expected > 1e-3


def test_a_product_alone_runs_faster_than_in_a_step_and_laboratories_are_its_doubt():
    step = product(8192, 8192, 8192)
    burst, sustained = (
        calibrate.predict(step, A100, state=state) for state in ("burst", "sustained")
    )
    assert calibrate.predict(step, A100).expected == burst.expected
    assert 1.05 < sustained.expected / burst.expected < 1.15
    assert burst.high / burst.expected > sustained.high / sustained.expected
    assert (burst.state, sustained.state) == calibrate.STATES
    whole = calibrate.predict(total(one=step), A100)
    assert (whole.state, whole.engine, whole.source_chip) == ("sustained", "typical", "a100-sxm-80")
    with pytest.raises(CourseError, match="unknown state 'warm'"):
        calibrate.predict(step, A100, state="warm")


def test_engines_differ_in_what_lies_between_kernels():
    step = llm.decode("llama-2-7b", A100, 1, 512)
    fast, slow = (
        calibrate.predict(step, A100, engine=name).expected for name in ("gpt-fast", "lmdeploy")
    )
    assert fast < calibrate.predict(step, A100).expected < slow
    mine = calibrate.calibration(A100, "bf16", "gpt-fast")
    assert calibrate.predict(step, A100, constants=mine).engine == "gpt-fast"
    with pytest.raises(CourseError, match="unknown engine 'vllm'"):
        calibrate.predict(step, A100, engine="vllm")


def test_ranges_widen_away_from_what_was_fitted_and_say_where():
    def spread(**how):
        likely = calibrate.predict(llm.decode("llama-2-7b", A100, **how), A100)
        return likely.high / likely.low, likely.source

    within, source = spread(batch=32, context=2048)
    beyond, said = spread(batch=1024, context=2048)
    assert beyond > 1.2 * within
    assert "batch outside what was fitted" in said
    assert "outside" not in source
    dense, experts = (
        calibrate.predict(llm.decode(key, "h100-sxm", 8, 1024), "h100-sxm")
        for key in ("llama-3-8b", "mixtral-8x7b")
    )
    assert experts.high / experts.expected > 1.02 * dense.high / dense.expected
    # Whose constants say nothing of experts, takes them as other products, in doubt as chips differ.
    mine = msgspec.structs.replace(calibrate.calibration("h100-sxm", "bf16"), mixtures=None)
    step = llm.decode("mixtral-8x7b", "h100-sxm", 8, 1024)
    unknown = calibrate.predict(step, "h100-sxm", constants=mine)
    assert unknown.high / unknown.expected > experts.high / experts.expected
    assert "no step with experts was measured" in unknown.source
    tiny = calibrate.predict(product(8, 64, 64), A100)
    assert "product outside what was fitted" in tiny.source


def test_tensor_parallelism_beyond_a_node_needs_its_ports():
    with pytest.raises(CourseError, match="tp must be at most the 8 chips that nvlink joins"):
        llm.decode("llama-3-70b", "h100-sxm", 64, 1024, tp=16, link="nvlink")
    across = llm.decode("llama-3-70b", "h100-sxm", 64, 1024, tp=16, link="nodes")
    within = llm.decode("llama-3-70b", "h100-sxm", 64, 1024, tp=8, link="nvlink")
    shared = across.parts["all_reduce"], within.parts["all_reduce"]
    # Each port sends half of its eighth twice, in less time than NVLink takes for its part.
    assert shared[0].t_network == pytest.approx(shared[1].t_network)
    eight = llm.decode("llama-3-70b", "h100-sxm", 64, 1024, tp=64, link="nodes")
    ratio = eight.parts["all_reduce"].t_network / shared[1].t_network
    assert ratio == pytest.approx(450 / 400)  # of eight machines it sends seven eighths


def test_a_step_across_machines_waits_for_calls_and_is_in_more_doubt():
    across, within = (
        calibrate.predict(
            llm.decode("llama-3-70b", "h100-sxm", 1, 1024, tp=tp, link=link), "h100-sxm"
        )
        for tp, link in ((16, "nodes"), (8, "nvlink"))
    )
    call = calibrate.calibration("h100-sxm", "bf16").links["nodes"].latency
    assert across.expected > 2 * 80 * call
    assert across.high / across.expected > within.high / within.expected


def test_collectives_between_machines():
    h100 = chip("h100-sxm")
    for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
        inside = calibrate.collective(kind, 1e9, h100, 8, link="nodes")
        across = calibrate.collective(kind, 1e9, h100, 16, link="nodes")
        least = network.phases(
            kind, 1e9, network.between_nodes(h100.node, h100.links["nvlink"]), 16
        ).lower
        assert least <= across.low < across.expected < across.high
        assert across.expected > inside.expected or kind != "all-to-all"
    # The machines that were measured reached a small part of their ports: the range says so.
    large = calibrate.collective("all-reduce", 1e9, A100, 16, link="nodes")
    assert large.high > 5 * large.expected
    one_each = network.between_nodes(A100.node, A100.links["nvlink"], each=1)
    alone = calibrate.collective("all-reduce", 1e9, A100, 16, link=one_each)
    assert alone.expected > 5 * large.expected


def test_predictions_broadcast():
    batches = np.array([1, 8, 64, 512, 4096])
    many = calibrate.predict(product(batches, 8192, 8192), A100)
    alone = [calibrate.predict(product(int(b), 8192, 8192), A100) for b in batches]
    for name in ("low", "expected", "high"):
        assert np.allclose(getattr(many, name), [getattr(one, name) for one in alone])
    steps = calibrate.predict(llm.decode("llama-3-8b", A100, batches, 1024), A100)
    assert np.all(np.diff(steps.expected) > 0)


def test_less_power_never_gives_more():
    assert (
        calibrate.calibration(chip("h100-pcie")).constants.compute
        < calibrate.calibration(chip("h100-sxm")).constants.compute
    )
    of_half, of_all = (calibrate.calibration(one).constants for one in (chip("a100-sxm-40"), A100))
    assert msgspec.structs.replace(of_all, burst=1.0) == of_half  # a burst is no chip's


def test_whose_constants(tmp_path):
    assert nearest(chip("rtx-3090"))[0] == "rtx-a6000"
    assert nearest(chip("mi250x"))[0] == "mi300x"
    assert nearest(chip("tpu-v5e"))[0] == "tpu-v7"
    assert (
        nearest(chip("trainium2"))[0] == "a100-sxm-80"
    )  # nobody of its vendor's: the one measured most
    own = tmp_path / "h300.toml"
    own.write_text((DATA / "chips" / "h100-sxm.toml").read_text())
    assert nearest(Accelerator.from_toml(own))[0] in calibrate.calibrations()


@pytest.mark.parametrize("key", calibrate.calibrations())
def test_a_format_that_lends_its_constants_is_surer_than_the_one_that_takes_them(key):
    measured = tomllib.loads((FOLDER / f"{key}.toml").read_text())["constants"]
    own = {calibrate.calibration(key, dtype).log_sigma for dtype in measured}
    lent = [calibrate.calibration(key, dtype) for dtype in BITS if dtype not in measured]
    assert lent
    assert min(one.log_sigma for one in lent) > 1.1 * max(own)
    assert all("wider range" in one.source for one in lent)


@pytest.mark.parametrize(
    ("year", "like"),
    [
        (1999, {"a100-sxm-80"}),
        (2021, {"a100-sxm-80", "h100-sxm"}),
        (2022, {"h100-sxm"}),
        (2099, {"b300-sxm"}),
    ],
)
def test_a_readers_own_chip_takes_the_constants_of_its_vendors_nearest_in_years(
    year, like, tmp_path, monkeypatch
):
    text = (DATA / "chips" / "h100-sxm.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace("year = 2022", f"year = {year}"))
    monkeypatch.setenv("COURSE_CHIPS", str(tmp_path))
    found, why = nearest(chip("mine"))
    assert found in like
    assert why == "of NVIDIA's the nearest in years"
    assert (
        f"{found}'s constants, since no one measured mine"
        in calibrate.calibration("mine", "bf16").source
    )


@pytest.mark.parametrize("key", calibrate.calibrations())
def test_files_are_what_they_say(key):
    raw = tomllib.loads((FOLDER / f"{key}.toml").read_text())
    assert raw["source"]
    assert raw["points"] > 0
    for constants in raw["constants"].values():
        assert 0 < constants["compute"] <= 1
        assert 0 < constants["bandwidth"] <= 1
        assert 1e-7 < constants["overhead"] < 1e-4
    for low, high in raw["ranges"].values():
        assert 0 < low <= 1 <= high
    file = msgspec.convert(raw, CalibrationFile)
    assert tomllib.loads(to_toml(file)) == raw


def test_ranges_widen_as_independent_doubts_add():
    low, high = Range(0.9, 1.2).factors(math.log(1.3))
    assert math.log(high) == pytest.approx(math.hypot(math.log(1.2), math.log(1.3)))
    assert low < 0.9


def test_the_error_is_counted_right():
    assert calibrate.mean_error([1.0, 2.0], [2.0, 1.0]) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: calibrate.predict(3.0, A100), "estimate must be an Estimate"),
        (lambda: calibrate.predict(product(1, 1, 1), "h10"), "did you mean 'h100-sxm'"),
        (lambda: calibrate.predict(product(1, 1, 1), A100, dtype="fp17"), "unknown dtype"),
        (
            lambda: calibrate.predict(product(1, 1, 1), A100, constants="nowhere.toml"),
            "nowhere.toml",
        ),
        (lambda: calibrate.collective("all-reduce", 1.0, A100, 8, link="ici"), "unknown link"),
        (
            lambda: calibrate.collective("all-reduce", 1.0, A100, 16),
            "n must be at most the 8 chips",
        ),
        (lambda: calibrate.collective("all-sum", 1.0, A100, 8), "unknown kind 'all-sum'"),
        (
            lambda: calibrate.collective("all-reduce", 1.0, A100, 8, in_switch=True),
            "no all-reduce by a switch was measured over nvlink of a100-sxm-80",
        ),
    ],
)
def test_errors_name_what_is_wrong(call, said):
    with pytest.raises(CourseError, match=said):
        call()


def test_estimates_made_by_hand_are_predicted_too():
    by_hand = Estimate(1e-3, 5e-4, 0.0, flops=1e9, bytes=1e9)
    likely = calibrate.predict(by_hand, A100)
    assert by_hand.lower < likely.expected < 2 * by_hand.upper


@pytest.mark.parametrize("key", ["llama-2-7b", "llama-3-8b", "llama-2-13b"])
@pytest.mark.parametrize("context", [256, 1024, 4096])
def test_a_decode_step_is_its_bytes_at_what_a_stream_reaches_and_its_gaps(key, context):
    """The page's prediction by hand, which leaves overlap and tiles out."""
    step = llm.decode(key, A100, 1, context)
    found = calibrate.calibration(A100, "bf16")
    c, gap = found.constants, found.engine.gap
    kernels = (
        step.kernels - 3 * model(key).layers
    )  # queries, keys and values as one, gate and up as one
    by_hand = step.lower / c.bandwidth + kernels * (c.overhead + gap)
    assert calibrate.predict(step, A100).expected == pytest.approx(by_hand, rel=0.01)


def test_every_measurement_names_its_chip():
    every = evidence.bounds()
    for one in every:
        assert one.chips.shape == one.seconds.shape
        assert {str(key) for key in one.chips} <= set(chips())
    assert len({str(key) for one in every for key in one.chips}) > 5


def test_no_page_quotes_a_figure_that_its_reader_cannot_compute_again():
    said = r"outside this book|not among this book|this book does not carry|cannot rerun"
    for file in [
        *(ROOT / "chapters" / "cells").rglob("*.qmd"),
        *(ROOT / "chapters" / "en").glob("*.qmd"),
    ]:
        assert not re.search(said, file.read_text(encoding="utf-8")), file


def test_an_engine_launches_fewer_kernels_than_a_bound_counts_operators():
    step, a100 = llm.decode("llama-3-8b", "a100-sxm-80", 1, 1024), chip("a100-sxm-80")
    # By hand: queries, keys and values are one product, gate and up another, in each of 32 layers.
    assert step.kernels == 323
    assert sum(count_of(kernel) for kernel in kernels_of(step)) == 323 - 3 * 32
    found = calibrate.calibration(a100, "bf16")
    each = found.constants.overhead + found.engine.gap
    assert calibrate.breakdown(step, a100)["launches"] / each == pytest.approx(227)


def test_what_no_row_of_a_vendor_tests_is_in_doubt_by_several_times():
    work = ops.elementwise((2**28,), flops=1, dtype="fp32")
    for one in (
        calibrate.predict(roofline(work, chip("mi300x")), "mi300x"),
        calibrate.collective("all-gather", 1e8, "mi300x", 4, link="xgmi"),
        calibrate.collective("all-gather", 1e8, "tpu-v5e", 4, link="ici"),
    ):
        assert one.high / one.expected > 2.5
    assert (
        calibrate.predict(product(8192, 8192, 8192), A100).high
        < 2 * calibrate.predict(product(8192, 8192, 8192), A100).expected
    )


def test_cards_that_meet_at_their_hosts_may_share_them():
    few, many = (calibrate.collective("all-reduce", 1e8, "l40s", n, link="host") for n in (2, 8))
    assert many.high / many.low > 2 * few.high / few.low
    link = calibrate.calibration("l40s").links
    assert link["host"].latency >= link["nvlink"].latency


@pytest.mark.parametrize("key", ["l40s", "h100-pcie"])
@pytest.mark.parametrize("shared", [{"tp": 2}, {"ep": 4}], ids=str)
def test_a_message_takes_the_constants_of_the_link_that_carries_it(key, shared):
    mine = calibrate.calibration(key, "bf16")

    def slowed(link, carrier):
        one = mine.links[carrier]
        slow = msgspec.structs.replace(one, latency=10 * one.latency, hop=10 * one.hop)
        slow = msgspec.structs.replace(mine, links={**mine.links, carrier: slow})
        step = llm.decode("mixtral-8x7b", key, 64, 512, link=link, **shared)
        times = [calibrate.predict(step, key, constants=of).expected for of in (mine, slow)]
        return times[1] / times[0]

    assert slowed("host", "host") > 1.1
    assert slowed("host", "nvlink") == 1
    for link in chip(key).links:
        assert slowed(link, "host") == 1
