"""The machine at work shows what the roofline says, at the speed of the chip."""

from copy import copy

import pytest

from course_lib import CourseError, chip, ops, roofline
from course_book import moving, n
from course_book.moving.anatomy import BLOCKS, DASH
from course_book.moving.anatomy import STREAM_PLAYED as PLAYED

H100 = chip("h100-sxm")
BATCHES = (1, 16, 64, 256, 1024)
PICTURE = moving.machine(H100, 8192, 28672, BATCHES)
CASES = [(batch, size) for batch in BATCHES for size in (0, 1)]


def made(batch, size):
    return PICTURE.scenes[n(batch)][size], roofline(ops.matmul(batch, 8192, 28672), H100)


def of(scene, tag, tone):
    return [one for one in scene.shapes if one.tag == tag and one.at("tone", 0) == tone]


@pytest.mark.parametrize(("batch", "size"), CASES)
def test_the_counters_end_at_the_times_of_the_roofline(batch, size):
    scene, step = made(batch, size)
    last = len(scene.says) - 1
    told = [one.at("text", last) for one in scene.shapes if one.tag == "text"]
    for text in (n(step.t_memory, "s"), n(step.t_math, "s"), n(1 - step.t_math / step.lower, "%")):
        assert text in told
    assert n(step.lower, "s") in scene.says[last]


@pytest.mark.parametrize(("batch", "size"), CASES)
def test_it_takes_the_lower_bound_and_the_units_are_lit_for_their_share_of_it(batch, size):
    scene, step = made(batch, size)
    (units,) = (one for one in scene.shapes if one.tag == "path")
    running = range(1, len(scene.says) - 1)
    whole = sum(scene.seconds[i] for i in running)
    lit = sum(scene.seconds[i] for i in running if units.at("tone", i) == "math")
    assert whole * PLAYED == pytest.approx(step.lower)
    assert lit * PLAYED == pytest.approx(step.t_math)


@pytest.mark.parametrize(("batch", "size"), CASES)
def test_every_byte_leaves_the_memory_once_and_the_bars_are_to_scale(batch, size):
    scene, step = made(batch, size)
    last = len(scene.says) - 1
    level, *fetched = of(scene, "rect", "memory")
    assert level.at("height", 0) > 0 == level.at("height", last)
    streams = [one for one in scene.shapes if "flow" in one.tracks]
    moved = [-one.at("flow", last) for one in streams]
    assert moved[0] == moved[1] > 0
    period = sum(map(float, streams[0].fixed["stroke-dasharray"].split()))
    assert moved[0] == pytest.approx(step.bytes / DASH * period, rel=1e-3)
    track = max(one.at("width", 0) for one in of(scene, "rect", "grid"))
    longest = max(made(one, size)[1].lower for one in BATCHES)
    for bars, time in ((fetched, step.t_memory), (of(scene, "rect", "math"), step.t_math)):
        assert len(bars) == BLOCKS
        drawn = sum(one.at("width", last) for one in bars)
        assert drawn == pytest.approx(time / longest * track, abs=0.05 * BLOCKS)


def test_all_units_are_drawn_and_a_chip_that_publishes_none_is_refused():
    (units,) = (one for one in made(1, 0)[0].shapes if one.tag == "path")
    assert units.fixed["d"].count("M") == H100.multiprocessors
    unknown = copy(H100)
    unknown.multiprocessors = None
    with pytest.raises(CourseError, match="multiprocessors"):
        moving.machine(unknown)
