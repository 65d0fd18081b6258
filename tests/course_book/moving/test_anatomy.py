"""Parts at work: a load takes what the report says, and an array computes the product."""

import json

import numpy as np
import pytest

from course_lib import CourseError, chip
from course_book import moving, n
from course_book.moving.anatomy import PLAYED, SIDE
from course_book.text import in_language

H100 = chip("h100-sxm")
TIMES = {"HBM": H100.latency, "L2": H100.parts["cache_latency"], "L1": H100.parts["l1_latency"]}
BATCHES = (1, 7)


@pytest.fixture(scope="module")
def journey():
    return moving.journey(H100)


@pytest.fixture(scope="module")
def systolic():
    return moving.systolic(BATCHES)


def texts(scene, step):
    return [shape.at("text", step) for shape in scene.shapes if shape.tag == "text"
            and shape.at("opacity", step)]  # fmt: skip


def arrival(scene):
    """The step in which the number is in a register."""
    return next(i for i, says in enumerate(scene.says) if "is in a register after" in says)


@pytest.mark.parametrize("level", TIMES)
@pytest.mark.parametrize("size", [0, 1])
def test_a_load_takes_as_long_as_the_report_says_at_the_speed_that_is_played(journey, level, size):
    scene, time = journey.scenes[level][size], TIMES[level]
    there = arrival(scene)
    assert sum(scene.seconds[1:there]) * PLAYED == pytest.approx(time)
    assert {n(time, "s"), f"{n(round(time * 1.98e9))} clock cycles"} <= set(texts(scene, there))
    assert n(time, "s") in scene.says[there]


@pytest.mark.parametrize("level", TIMES)
def test_the_bars_are_to_scale_and_each_memory_has_its_own_part(journey, level):
    scene = journey.scenes[level][0]
    last = len(scene.says) - 1
    bars = [shape for shape in scene.shapes if shape.tag == "rect" and shape.at("height", 0) == 18]
    track, *parts = bars
    scale = track.at("width", 0) / H100.latency
    ends = list(TIMES.values())
    own = [ends[0] - ends[1], ends[1] - ends[2], ends[2]]
    passed = [time if place >= list(TIMES).index(level) else 0 for place, time in enumerate(own)]
    assert [one.at("width", last) for one in parts] == pytest.approx(
        [time * scale for time in passed], abs=0.1
    )
    right = [one.at("x", last) + one.at("width", last) for one in parts]
    assert max(right) == pytest.approx(track.at("x", 0) + scale * sum(passed), abs=0.2)


@pytest.mark.parametrize("level", TIMES)
def test_the_request_goes_out_and_the_number_comes_back_by_the_same_memories(journey, level):
    scene = journey.scenes[level][0]
    ring, number = (one for one in scene.shapes if one.tag == "circle")
    there = arrival(scene)
    way = [ring.at("cx", step) for step in range(1, there + 1)]
    assert way == way[::-1]
    assert min(way) == way[len(way) // 2]
    shown = [bool(number.at("opacity", step)) for step in range(there + 1)]
    assert shown == [step > there // 2 for step in range(there + 1)]


def test_all_parts_of_a_multiprocessor_are_drawn(journey):
    scene = journey.scenes["HBM"][1]
    (cores, *more) = [one for one in scene.shapes if one.tag == "path"]
    drawn = sum(one.fixed["d"].count("M") for one in (cores, *more))
    assert drawn == H100.lanes
    small = [one for one in scene.shapes if one.tag == "rect" and one.at("width", 0) == 34]
    assert len(small) == H100.parts["matrix_units"]


def test_a_chip_without_its_parts_is_refused():
    with pytest.raises(CourseError, match="a100-sxm-80 lacks l1_latency"):
        moving.journey(chip("a100-sxm-80"))


def numbers(picture):
    """Inputs and weights as they are drawn: told by their tones."""
    scene = picture.scenes["7"][0]
    every = [one for one in scene.shapes if one.tag == "text"]
    told = [one.at("text", 0) for one in every if one.at("tone", 0) == "memory"]
    weights = [int(text) for text in told if text.isdigit()]
    inputs = [int(one.at("text", 0)) for one in every
              if one.at("tone", 0) == "chip" and one.fixed.get("font-size") == "15"]  # fmt: skip
    return np.reshape(inputs, (-1, SIDE)), np.reshape(weights, (SIDE, SIDE))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("size", [0, 1])
def test_the_results_are_the_product(systolic, batch, size):
    inputs, weights = numbers(systolic)
    scene = systolic.scenes[n(batch)][size]
    last = len(scene.says) - 1
    sums = [one for one in scene.shapes if one.tag == "text" and one.at("tone", 0) == "math"
            and one.fixed.get("text-anchor") == "middle" and one.at("opacity", last)]  # fmt: skip
    product = [int(one.at("text", last)) for one in sums]
    assert product == (inputs[:batch] @ weights).ravel().tolist()
    rows = sorted({one.at("y", last) for one in sums})
    assert len(rows) == batch


@pytest.mark.parametrize("batch", BATCHES)
def test_as_many_cells_are_lit_as_are_said_and_each_works_once_for_every_token(systolic, batch):
    scene = systolic.scenes[n(batch)][0]
    cells = [one for one in scene.shapes if one.tag == "rect"]
    clocks = batch + 2 * SIDE - 2
    lit = [sum(one.at("tone", step) == "math-soft" for one in cells)
           for step in range(1, clocks + 1)]  # fmt: skip
    assert sum(lit) == batch * SIDE * SIDE
    for step, many in enumerate(lit, start=1):
        assert f"{n(many)} / 16" in texts(scene, step)
    share = n(sum(lit) / (16 * clocks), "%", digits=2)
    assert share in scene.says[-1]
    assert share in texts(scene, len(scene.says) - 1)


def test_more_tokens_than_there_is_room_for_are_refused():
    for batches in ((1, 9), ()):
        with pytest.raises(CourseError, match="1 to 8 tokens"):
            moving.systolic(batches)


@pytest.mark.parametrize("lang", ["en", "es", "ko"])
@pytest.mark.parametrize("make", [lambda: moving.journey(H100), moving.systolic])
def test_it_is_legible_says_whole_sentences_and_is_quickly_sent(make, lang):
    with in_language(lang):
        picture = make()
    for size in (0, 1):
        first, *others = (scenes[size] for scenes in picture.scenes.values())
        for scene in (first, *others):
            assert [one.fixed for one in scene.shapes] == [one.fixed for one in first.shapes]
            assert len(scene.shapes) < 200
            assert all(says.endswith(".") and "{" not in says for says in scene.says)
            for shape in (one for one in scene.shapes if one.tag == "text"):
                assert float(shape.fixed.get("font-size", 13)) >= 12
                for step in range(len(scene.says)):
                    assert 0 <= shape.at("x", step) <= scene.width
                    assert 0 <= shape.at("y", step) <= scene.height
    sent = [(scenes[0].says, picture.changes(choice), picture.changes(choice, narrow=True))
            for choice, scenes in picture.scenes.items()]  # fmt: skip
    assert len(json.dumps(sent, separators=(",", ":"))) < 60_000
