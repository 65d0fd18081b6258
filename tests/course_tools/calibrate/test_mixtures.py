"""Mixtures of experts: what engines took for them and for their messages, and what is expected."""

import json
import re
import shutil
import subprocess

import msgspec
import numpy as np
import pytest

from course_lib import chip, llm, ops, roofline
from course_lib.core.checks import CourseError
from course_tools import calibrate
from course_tools.calibrate import evidence, kernels
from course_tools.calibrate.errors import known_errors
from course_tools.calibrate.kernels import Kernel, product
from course_tools.calibrate.links import AT_ONCE
from course_tools.calibrate.mixtures import FULL, MESSAGES, message_seconds, mixture_seconds
from course_book import explore
from course_book.explore import page, serving
from course_press.outputs import translate

GOALS = {"mixtures": 0.15, "dispatch and combine": 0.2}


@pytest.fixture(scope="module")
def rows():
    return list(evidence._mixture_errors())


@pytest.mark.parametrize("family", GOALS)
@pytest.mark.parametrize("key", evidence.COLLECTED)
def test_the_half_that_no_constant_saw_is_within_its_goal_and_its_range(rows, family, key):
    some = [
        one for one in rows if (one.family, one.held, one.chips) == (family, "test half", (key,))
    ]
    columns = [
        [getattr(one, name) for one in some] for name in ("measured", "expected", "low", "high")
    ]
    measured, expected, low, high = map(np.concatenate, columns)
    assert np.abs(expected / measured - 1).mean() <= GOALS[family]
    assert 0.75 <= np.mean((low <= measured) & (measured <= high)) <= 0.9


@pytest.mark.parametrize("family", GOALS)
def test_lent_ranges_hold_four_in_five_and_are_wider(rows, family):
    lent, own = (
        [r for r in rows if (r.family, r.held) == (family, by)]
        for by in ("other chips", "test half")
    )
    inside = np.concatenate([(r.low <= r.measured) & (r.measured <= r.high) for r in lent])
    assert inside.mean() >= 0.75
    width = [np.median(np.concatenate([r.high / r.low for r in some])) for some in (lent, own)]
    assert width[0] > width[1]


@pytest.mark.parametrize("key", evidence.COLLECTED)
def test_links_lent_within_their_generation_stay_and_others_are_in_more_doubt(key):
    found, of = calibrate.calibration(key, "bf16"), chip(key)
    same, other = (
        calibrate.constants.lend(found, of, chip(to)).links for to in (key, "a100-sxm-80")
    )
    for name in ("nvlink", *MESSAGES):
        kept = msgspec.structs.replace(same[name], range=found.links[name].range)
        assert msgspec.structs.replace(kept, small=found.links[name].small) == found.links[name]
        assert other[name].latency == found.links[name].latency
        assert other[name].range.low < same[name].range.low < found.links[name].range.low
        assert other[name].small.high > same[name].small.high > found.links[name].small.high


@pytest.mark.parametrize(("key", "other"), [evidence.COLLECTED, evidence.COLLECTED[::-1]])
def test_a_call_is_lent_as_the_other_kind_of_kernels_shows(key, other):
    own, theirs = (calibrate.calibration(one, "bf16").links for one in (key, other))
    lent = calibrate.constants.lend(
        calibrate.calibration(other, "bf16"), chip(other), chip(key)
    ).links
    shown = {"nvlink": AT_ONCE} | dict.fromkeys((AT_ONCE, *MESSAGES), "nvlink")
    for name, by in shown.items():
        ratio = own[by].latency / theirs[by].latency
        assert lent[name].latency == pytest.approx(theirs[name].latency * ratio)
    # Byte/s that so many multiprocessors send are the same on any links, up to all of these.
    rates = [chip(one).links["nvlink"].total_per_direction for one in (key, other)]
    for name in MESSAGES[:2]:
        sent = lent[name].bandwidth * rates[0]
        assert sent == pytest.approx(min(theirs[name].bandwidth * rates[1], rates[0]))


def test_scales_of_blocks_take_time_where_the_matrix_unit_does_not_scale():
    for key, more in (("h100-sxm", True), ("b200-sxm", False)):
        found = calibrate.calibration(key, "fp8-block")
        assert found.constants.scales > 0
        none = msgspec.structs.replace(found.constants, scales=0.0)
        bound = roofline(ops.matmul(8192, 8192, 8192, x="fp8", w="fp8", out="bf16"), chip(key))
        kernel = Kernel(bound, bound.work)
        took, least = (kernels.seconds(kernel, chip(key), c) for c in (found.constants, none))
        assert took >= least
        assert (took > 1.05 * least) == more


def test_the_table_has_both_families_by_what_tested_them():
    found = {(row.family, row.held) for row in known_errors()}
    for family in GOALS:
        assert {(family, by) for by in ("fit half", "test half", "other chips")} <= found


def seconds(b, groups, routed=None, key="h100-sxm", f=4096):
    bound = roofline(ops.grouped_matmul(b, 2048, f, groups, routed=routed), chip(key))
    kernel = Kernel(bound, bound.work)
    c = calibrate.calibration(key, "bf16").mixtures
    return mixture_seconds(kernel, chip(key), c)


def test_tiles_are_chosen_by_the_pairs_of_all_chips():
    """The same rows, experts spread over more chips: fuller tiles are expected, and stay empty."""
    many = 2 ** np.arange(8, 14)
    assert np.all(np.diff(seconds(256, 16, many, "b200-sxm")) > 0)
    own = seconds(256, 16, key="b200-sxm")
    assert own == seconds(256, 16, 256, "b200-sxm")
    with pytest.raises(CourseError, match="routed must be at least B"):
        ops.grouped_matmul(256, 8, 8, 16, routed=128)


def test_a_mixture_alone_is_expected_by_its_own_constants():
    bound = roofline(ops.grouped_matmul(256, 2048, 4096, 16), chip("h100-sxm"))
    likely = calibrate.predict(bound, "h100-sxm")
    assert likely.expected == pytest.approx(seconds(256, 16))
    assert likely.evidence.startswith("mixtures, test half, h100-sxm")
    lent = calibrate.predict(roofline(bound.work, chip("l40s")), "l40s")
    assert lent.evidence.startswith("mixtures, other chips")
    assert lent.high / lent.low > likely.high / likely.low


@pytest.mark.parametrize("key", ["a100-sxm-80", "h100-sxm", "b200-sxm", "mi300x", "tpu-v5p"])
@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3"])
def test_a_step_of_a_mixture_is_never_below_its_bound(name, key):
    batches = np.array([1, 3, 64, 4096])
    for step in (llm.decode(name, key, batches, 777), llm.prefill(name, key, 1, batches)):
        likely = calibrate.predict(step, key)
        assert np.all(step.lower <= likely.low)
        assert np.all(likely.low <= likely.expected)
        assert np.all(likely.expected <= likely.high)
        one = llm.decode(name, key, 64, 777)
        spent = calibrate.breakdown(one, key)
        assert sum(spent.values()) == pytest.approx(calibrate.predict(one, key).expected)


def test_heads_that_share_no_matrix_are_no_experts():
    """Latent attention multiplies each head by its own matrix, which no router chooses."""
    kernels = calibrate.kernels.kernels_of(llm.decode("deepseek-v3", "h100-sxm", 8, 1024))
    grouped = [one for one in map(product, (k.work for k in kernels)) if one and one.groups > 1]
    assert {bool(one.routed > 0) for one in grouped} == {True, False}


def test_messages_of_experts_take_the_quicker_way():
    links = calibrate.calibration("h100-sxm", "bf16").links
    assert set(MESSAGES) <= set(links)
    few, many = (message_seconds(links, "nvlink", bound, (0, 8, 256)) for bound in (1e-7, 1e-2))
    assert few < (links["dispatch"].latency + links["combine"].latency) / 2
    assert many < message_seconds(
        {**links, "dispatch": links["dispatch of few"]}, "nvlink", 1e-2, (0, 8, 256)
    )
    small = [message_seconds(links, "nvlink", 1e-5, (0, 8, experts)) for experts in (8, FULL, 256)]
    assert small[0] > small[1] == small[2]
    # Between machines nothing of the kind was measured.
    nodes = message_seconds(links, "nodes", 1e-3, (0, 16, 256))
    assert nodes == calibrate.links.exchange_seconds(links["nodes"], 1e-3, 16)


def test_spread_experts_pay_for_their_messages():
    how = {"tp": 8, "ep": 8, "link": "nvlink", "w": "fp8"}
    apart = llm.decode("deepseek-v3", "h100-sxm", 256, 1024, ep=8, link="nvlink", w="fp8")
    found = calibrate.calibration("h100-sxm", "fp8")
    slow = {name: msgspec.structs.replace(found.links[name], latency=1e-3) for name in MESSAGES}
    slower = msgspec.structs.replace(found, links={**found.links, **slow})
    taken = [
        calibrate.predict(apart, "h100-sxm", constants=one).expected for one in (found, slower)
    ]
    assert taken[1] > taken[0] + 0.9e-3 * 2 * 58
    together = llm.decode("deepseek-v3", "h100-sxm", 256, 1024, **how)
    assert calibrate.predict(together, "h100-sxm").expected >= together.lower


@pytest.mark.skipif(shutil.which("node") is None, reason="runs the page's functions in Node")
def test_the_page_says_of_mixtures_what_the_library_says(tmp_path):
    states = [
        {
            **serving.START,
            "model": name,
            "chip": key,
            "batch": batch,
            "context": context,
            "offer": 0,
        }
        for name in ("mixtral-8x7b", "deepseek-v3")
        for key in ("h100-sxm", "b200-sxm", "a100-sxm-80", "l4")
        for batch, context in ((1, 1), (7, 333), (64, 2048))
    ]
    script = "globalThis.window = globalThis;\n"
    for file in (translate.PHYSICS, translate.STEPS, translate.ASSETS / "calculator.html"):
        whole = re.search(r"<script>(.*?)</script>", file.read_text(encoding="utf-8"), re.DOTALL)
        # Of the calculator, what answers: the rest draws.
        script += whole[1].partition("\n};\n")[0] + "\n};\n" if "calc" in file.name else whole[1]
    given = json.dumps([page.given(explore.calculator()), states])
    script += (
        f"const [data, states] = {given}, ask = courseCalculator(data);\n"
        "console.log(JSON.stringify(states.map(s => { const a = ask.answer(s);"
        "return [a.decode_low, a.decode_likely, a.decode_high, a.prefill_likely]; })));"
    )
    (tmp_path / "page.js").write_text(script, encoding="utf-8")
    run = subprocess.run(
        ["node", tmp_path / "page.js"], capture_output=True, text=True, timeout=60, check=True
    )
    for at, said in zip(states, json.loads(run.stdout), strict=True):
        step = llm.decode(at["model"], at["chip"], at["batch"], at["context"])
        read = llm.prefill(at["model"], at["chip"], 1, at["context"])
        likely, soon = (calibrate.predict(one, at["chip"]) for one in (step, read))
        assert said == pytest.approx([likely.low, likely.expected, likely.high, soon.expected])
