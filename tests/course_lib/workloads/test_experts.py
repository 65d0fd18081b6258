"""Experts spread over chips: nothing is lost, chips only ever help, and chance is counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, chip, llm, model, network
from course_lib.workloads.transformer import exchanged, operators
from course_lib.workloads.weights import max_expert_load
from course_tools import calibrate
from tests.course_lib.workloads import mixing
from tests.each import each

MODELS = ("mixtral-8x7b", "deepseek-v3")
FM = llm.formats()


def routed(tokens, experts, active, chips, times=400):
    """Pairs on the busiest chip, and experts that the one with most of them meets, by dice."""
    dice = np.random.default_rng(5)
    chosen = np.argsort(dice.random((times, tokens, experts)), axis=-1)[..., :active]
    counts = np.stack([(chosen == expert).sum((1, 2)) for expert in range(experts)], axis=1)
    counts = counts.reshape(times, chips, -1)
    return counts.sum(2).max(1).mean(), (counts > 0).sum(2).max(1).mean()


@each("experts", [(8, 2, 2), (8, 2, 8), (64, 6, 8), (16, 1, 4)])
@each("tokens", [1, 2, 8, 64])
def test_the_busiest_chip_is_that_of_thrown_dice(experts, tokens):
    found, counted = max_expert_load(tokens, *experts), routed(tokens, *experts)
    for one, other in zip(found, counted, strict=True):
        assert one == pytest.approx(other, rel=0.12 if tokens < 8 else 0.06)


CHOICES = st.sampled_from([(8, 2), (64, 6), (256, 8), (16, 1), (4, 4)])


@given(st.integers(1, 4000), CHOICES, st.sampled_from([1, 2, 4]), st.floats(1, 3))
def test_the_busiest_has_its_share_at_least_and_no_more_than_there_is(tokens, sizes, chips, skew):
    experts, active = sizes
    pairs, met = max_expert_load(tokens, experts, active, chips)
    assert tokens * active / chips <= pairs <= tokens * min(active, experts // chips)
    assert llm.distinct(tokens, experts, active) / chips * (1 - 1e-12) <= met
    assert met <= min(pairs, experts / chips)
    more, same = max_expert_load(tokens, experts, active, chips, skew)
    assert more >= pairs
    assert same >= met
    if chips == 1:
        assert (pairs, more) == (tokens * active, tokens * active)
        assert met == pytest.approx(llm.distinct(tokens, experts, active))


@pytest.mark.parametrize("key", MODELS)
def test_one_chip_has_what_there_was_and_all_have_it_together(key):
    one = model(key)
    same, alone = (operators(one, 64, 1, 900, FM, ep=ep) for ep in (1, 1))
    spread = operators(one, 64, 1, 900, FM, ep=8)
    for name, work in alone["experts"].items():
        assert same["experts"][name].bytes == work.bytes
        if name in ("gate", "up", "down"):
            rows = spread["experts"][name].shape[0]
            assert rows == max_expert_load(64, one.experts.count, one.experts.active, 8)[0]
            assert work.shape[0] / 8 <= rows < work.shape[0]  # pairs of all chips are all pairs
        else:
            assert spread["experts"][name].flops == pytest.approx(work.flops / 8)
    for part in ("projections", "head"):
        for name, work in alone[part].items():
            assert spread[part][name].flops == pytest.approx(work.flops / 8)
    assert spread["attention"]["attention"].bytes == pytest.approx(
        alone["attention"]["attention"].bytes / 8
    )


@pytest.mark.parametrize("key", MODELS)
@pytest.mark.parametrize("tp", [1, 2])
def test_more_chips_never_hold_more_each(key, tp):
    one = model(key)
    held = [llm.weight_bytes(one, FM, tp=tp, ep=ep) for ep in (tp, 2 * tp, 4 * tp)]
    assert held == sorted(held, reverse=True)
    assert len(set(held)) == 3
    assert held[0] == llm.weight_bytes(one, FM, tp=tp)  # as a whole or cut: the same bytes
    kept = [llm.memory(one, 64, 512, tp=tp, ep=ep, tokens=64) for ep in (tp, 2 * tp)]
    assert kept[0].kv == 2 * kept[1].kv
    assert kept[0].activations == 2 * kept[1].activations


@pytest.mark.parametrize("key", MODELS)
def test_a_step_reads_no_more_weights_on_a_chip_of_more(key):
    for tokens in (1, 16, 4096):
        moved = [
            sum(operators(model(key), tokens, 1, 9, FM, ep=ep)["experts"][name].bytes
                for name in ("gate", "up", "down"))
            for ep in (1, 2, 4, 8)
        ]  # fmt: skip
        assert moved == sorted(moved, reverse=True)


@pytest.mark.parametrize("key", MODELS)
@pytest.mark.parametrize(("tp", "ep"), [(1, 4), (2, 2), (2, 8)])
def test_decode_and_prefill_are_mixed_steps_of_equals(key, tp, ep):
    how = {"tp": tp, "ep": ep, "link": "nvlink"}
    pairs = (
        (mixing.mixed(key, "h200-sxm", [1] * 16, 900, **how), llm.decode(key, "h200-sxm", 16, 900, **how)),
        (mixing.mixed(key, "h200-sxm", [70, 70], 70, **how), llm.prefill(key, "h200-sxm", 2, 70, **how)),
    )  # fmt: skip
    for mixed, equal in pairs:
        for name in ("lower", "flops", "bytes", "t_network", "kernels"):
            assert getattr(mixed, name) == pytest.approx(getattr(equal, name), rel=1e-12), name
    assert ("all_to_all" in pairs[0][0].parts) == (ep > tp)
    assert ("all_reduce" in pairs[0][0].parts) == (tp > 1)


def test_tokens_travel_as_the_network_says_each_once_to_a_chip():
    one, link = model("mixtral-8x7b"), chip("h100-sxm").links["nvlink"]
    step = llm.decode(one, "h100-sxm", 800, 64, ep=4, link="nvlink")
    met = 1 - (6 * 5) / (8 * 7)  # of two of eight experts none among a chip's two
    sent = network.all_to_all(800 * met * 4096 * 2, link, 4, algorithm="switched")
    assert step.parts["all_to_all"].t_network == pytest.approx(2 * 32 * sent)
    # Two chips that share a sequence need not tell each other of it.
    pairs = exchanged(one, 800, FM, 2, 4).shape[0] / exchanged(one, 800, FM, 1, 4).shape[0]
    assert pairs == pytest.approx(2 / 3)
    assert llm.decode(one, "h100-sxm", 8, 64, ep=8, link="nodes").lower > 0


def test_the_bound_is_below_what_is_likely_and_favored_experts_take_longer():
    how = {"ep": 8, "link": "nvlink", "batch": [1, 64, 4096], "context": 64}
    step = llm.decode("mixtral-8x7b", "h100-sxm", **how)
    assert np.all(step.lower < calibrate.predict(step, "h100-sxm").expected)
    crowded = llm.decode("mixtral-8x7b", "h100-sxm", **how, skew=2.0)
    assert np.all(crowded.lower >= step.lower)
    assert crowded.lower[-1] > 1.2 * step.lower[-1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"model": "llama-3-8b", "ep": 2}, "ep must be 1: llama-3-8b has no experts"),
        ({"ep": 3}, r"ep must divide experts 8 .got 3"),
        ({"ep": 2, "tp": 4}, "ep must be a multiple of tp 4"),
        ({"ep": 2, "link": None}, "link must be given for ep 2"),
        ({"ep": 2, "skew": 0.5}, "skew must be 1"),
        ({"ep": 0}, "ep must be"),
    ],
)
def test_what_cannot_be_spread_is_refused(asked, said):
    how = {"model": "mixtral-8x7b", "chip": "h100-sxm", "batch": 4, "context": 64, "link": 1e9}
    with pytest.raises(CourseError, match=said):
        llm.decode(**how | asked)
