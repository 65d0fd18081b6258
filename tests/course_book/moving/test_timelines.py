"""Timelines: they end when the library says, at the speed that they say, and merge what it fuses."""

from itertools import pairwise

import numpy as np
import pytest

from course_lib import CourseError, block, chip, ops, roofline, total
from course_book import moving, n

H100 = chip("h100-sxm")
MODEL = {"model": "gpt2-xl", "batch": 8, "new": 1024}
LAYER = ops.matmul(256, 8192, 28672)
ROW = ops.matmul(4096, 8192, 8192), ops.matmul(8, 8192, 65536)


def texts(scene, step):
    return [shape.at("text", step) for shape in scene.shapes if shape.tag == "text"]


@pytest.fixture(scope="module")
def fusing():
    return moving.fuse(H100, **MODEL)


@pytest.fixture(scope="module")
def clocks():
    return moving.overlap(H100, LAYER, *ROW)


@pytest.mark.parametrize(
    ("choice", "step", "fused"),
    [
        ("fusing", 0, False),
        ("fusing", -1, True),
        ("separate kernels", -1, False),
        ("fused kernels", -1, True),
    ],
)
@pytest.mark.parametrize("size", [0, 1])
def test_a_block_takes_what_the_library_says(fusing, choice, step, fused, size):
    works = block.operators(**MODEL, fused=fused)
    whole = block.estimate(works, H100)
    scene = fusing.scenes[choice][size]
    said = texts(scene, step % len(scene.says))
    assert {n(whole.lower, "s"), n(whole.bytes, "B"), n(len(works))} <= set(said)


@pytest.mark.parametrize(
    ("choice", "fused"), [("separate kernels", False), ("fused kernels", True)]
)
def test_kernels_play_as_many_times_slower_as_it_says(fusing, choice, fused):
    lines = block.lines(block.operators(**MODEL, fused=fused), H100)
    wide = fusing.scenes[choice][0]
    assert wide.seconds[:-1] == pytest.approx([1e4 * line.seconds for line in lines], abs=1e-3)


def test_fused_kernels_follow_one_another_without_a_gap_over_all_rows(fusing):
    wide = fusing.scenes["fusing"][0]
    rows = len(block.operators(**MODEL))
    rects = [shape for shape in wide.shapes if shape.tag == "rect"]
    solid, end = rects[rows : 2 * rows], len(wide.says) - 1
    places = sorted({(one.at("x", end), one.at("width", end)) for one in solid})
    assert len(places) == len(block.operators(**MODEL, fused=True))
    for (x, width), (after, _) in pairwise(places):
        assert x + width == pytest.approx(after, abs=0.2)


@pytest.mark.parametrize("model", ["llama-3-8b", "gpt2-xl"])
def test_every_operator_is_in_one_fused_kernel(model):
    wide = moving.fuse(H100, model, 1, 512).scenes["fused kernels"][0]
    rows = len(block.operators(model, 1, 512))
    ghosts = [shape for shape in wide.shapes if shape.tag == "rect"][:rows]
    assert all(ghost.at("width", 0) > 0 for ghost in ghosts)


def test_overlap_ends_at_the_lower_bound_and_turns_at_the_upper_one(clocks):
    step = roofline(LAYER, H100)
    for choice, seconds in (("overlapped", step.lower), ("in turns", step.upper)):
        for scene in clocks.scenes[choice]:
            said = texts(scene, len(scene.says) - 1)
            assert {n(seconds, "s"), n(step.t_memory, "s"), n(step.t_math, "s")} <= set(said)
            assert n(seconds, "s") in scene.says[-1]
            assert sum(scene.seconds[1:-1]) == pytest.approx(1.5e4 * seconds, rel=0.01)


def test_operators_in_a_row_take_the_sum_of_their_maxima(clocks):
    whole = total(one=roofline(ROW[0], H100), two=roofline(ROW[1], H100))
    for scene in clocks.scenes["two operators in a row"]:
        assert n(whole.lower, "s") in texts(scene, len(scene.says) - 1)
        assert n(max(whole.t_math, whole.t_memory), "s") in scene.says[-1]


def test_in_turns_one_clock_runs_at_a_time(clocks):
    wide = clocks.scenes["in turns"][0]
    bars = [s for s in wide.shapes if s.tag == "rect" and s.at("width", 0) == 0]
    for step in range(1, len(wide.says) - 1):
        grows = [b for b in bars if b.at("width", step + 1) > b.at("width", step)]
        assert len(grows) == 1


def test_many_sizes_at_once_are_refused():
    with pytest.raises(CourseError, match="single sizes"):
        moving.overlap(H100, ops.matmul(np.array([1, 2]), 64, 64), *ROW)
