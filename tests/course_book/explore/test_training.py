"""The map of layouts: every cell is what the library says of one, and the best one is marked."""

import random
import re

import numpy as np
import pytest

from course_lib import CourseError
from course_tools import train
from course_book import explore, n, t
from course_book.explore import training
from course_book.explore.maps import DARKEST
from course_press.outputs.explorer import html, payload

SEQUENCE = 4096


@pytest.fixture(scope="module")
def one():
    return explore.layouts()


def choices(figure, count):
    pick = random.Random("layouts")
    for _ in range(count):
        yield {name: pick.choice(figure.values(name)) for name in figure.controls}


def found(figure, chosen):
    place = figure.state(**chosen)
    return {name: figure.number(name, place) for name in training.QUANTITIES}


def layout_of(chosen, said):
    numbers = {name: int(said[name]) for name in ("dp", "mbs", "acc")}
    zero = int(chosen["zero"]) if said["dp"] > 1 else 0
    policy = training.RECOMPUTE[int(said["recompute"])]
    spread = {name: chosen[name] for name in ("tp", "pp")}
    return train.Layout(**numbers, **spread, zero=zero, recompute=policy)


def test_each_cell_is_the_step_of_the_layout_that_it_names(one):
    seen = set()
    for chosen in choices(one, 150):
        said = found(one, chosen)
        if np.isnan(said["dp"]):
            continue
        how = layout_of(chosen, said)
        assert (how.chips, how.batch) == (chosen["chips"], chosen["batch"])
        step = train.step(chosen["model"], f"{chosen['chips']}xh100-sxm", how, SEQUENCE)
        assert said["needed"] == step.memory.total
        assert bool(said["fit"]) == step.fits
        seen.add(step.fits)
        if step.fits:
            assert (said["rate"], said["mfu"]) == (step.tokens_per_s_per_chip, step.mfu)
            lost = training.LOST[int(said["lost"])]
            assert said["share"] == step.parts[lost] / step.expected_s
            assert step.parts[lost] == max(step.parts[name] for name in training.LOST)
        else:
            assert np.isnan([said["rate"], said["mfu"], said["lost"], said["share"]]).all()
    assert seen == {True, False}


def test_no_microbatch_and_no_recomputation_is_faster_than_the_one_shown(one):
    for chosen in choices(one, 30):
        said = found(one, chosen)
        if said["fit"] != 1:
            continue
        each, how = chosen["batch"] // int(said["dp"]), layout_of(chosen, said)
        others = [
            train.step(
                chosen["model"],
                f"{chosen['chips']}xh100-sxm",
                train.Layout(dp=how.dp, tp=how.tp, pp=how.pp, zero=how.zero, mbs=mbs,
                             acc=each // mbs, recompute=policy),
                SEQUENCE,
            )
            for mbs in (1, 2, 4)
            if each % mbs == 0
            for policy in ("none", "full")
        ]  # fmt: skip
        # By the expected time over the chance that the memory suffices.
        chosen_step = train.step(chosen["model"], f"{chosen['chips']}xh100-sxm", how, SEQUENCE)
        speeds = [step.tokens_per_s_per_chip * (1 - step.risk) for step in others if step.fits]
        most = said["rate"] * (1 - chosen_step.risk)
        assert max(speeds, default=0.0) <= most * (1 + 1e-9)


def test_the_best_is_the_first_of_the_ranked_list(one):
    for chosen in ({}, {"model": "llama-3-70b", "chips": 512, "zero": "3"}):
        state = one.state(**chosen)
        at = {name: one.values(name)[i] for name, i in state.items()}
        ranked = train.layouts(
            at["model"], f"{at['chips']}xh100-sxm", at["batch"], SEQUENCE, zeros=[int(at["zero"])]
        )
        offered = [
            each
            for each in ranked
            if {each.layout.tp, each.layout.pp} <= set(training.SPREAD) and each.layout.dp > 1
        ]
        best = {name: one.number(f"best_{name}", state) for name in ("tp", "pp", "rate")}
        first = offered[0]
        assert best == {
            "tp": first.layout.tp,
            "pp": first.layout.pp,
            "rate": first.step.tokens_per_s_per_chip,
        }


def test_where_nothing_fits_there_is_no_best_and_memory_stands_in_the_cells(one):
    state = one.state(model="llama-3-405b", chips=8)
    hatches, cells, chosen, best = (list(one.tiles(layer, state)) for layer in one.layers)
    assert (cells, best, len(chosen)) == ([], [], 1)
    assert hatches
    assert all(tile.text.endswith("B") for tile in hatches)
    assert one.shown(model="llama-3-405b", chips=8)[7][1:] == [t("does-not-fit"), "–"]


def test_the_fastest_cell_is_the_darkest_and_framed(one):
    state = one.state()
    _, cells, _, (best,) = (list(one.tiles(layer, state)) for layer in one.layers)
    darkest = max(cells, key=lambda tile: tile.shade)
    assert (darkest.shade, darkest[:2]) == (1, best[:2])
    assert darkest.text == n(one.number("best_rate", state))
    svg = one.plot().svg()
    assert len(re.findall(rf"opacity: {DARKEST}\b", svg)) == 1


def test_a_page_gets_the_ticks_and_what_is_too_much_is_loud(one):
    data = payload(one)
    assert data["x"]["ticks"] == data["y"]["ticks"] == list(training.SPREAD)
    assert "ticks" not in payload(explore.batch())["x"]
    assert html(one).count('class="loud"') == 0
    assert html(explore.layouts("llama-3-405b")).count('class="loud"') == 1


def test_a_live_kernel_maps_what_no_table_has(one):
    start = {name: axis.start for name, axis in one.controls.items()}
    here, chosen = one.at({**start, "chips": 24, "batch": 96, "tp": 3})
    assert here.values("tp") == (1, 2, 3, 4, 8, 16)
    assert here.shown(**chosen)[2][1] == "–"  # 32 heads are not divided by three
    assert here.shown(**{**chosen, "tp": 8})[2][1] == "3"


def test_what_is_not_offered_is_refused():
    with pytest.raises(CourseError, match="model must be one that the explorer 'layouts' offers"):
        explore.layouts("gemma-2b")
