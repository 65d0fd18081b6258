"""Waves take every tile once, sectors are as many as a warp touches, and slices keep their turns."""

import pytest

from course_lib import CourseError, chip, occupancy, ops
from course_lib.bench.rows import Row
from course_tools.measured.gaps import waves
from course_book import moving, n
from tests.each import each

A100 = chip("a100-sxm-80")


@pytest.mark.parametrize("tiles", [108, 109, 162, 216])
@pytest.mark.parametrize("size", [0, 1])
def test_waves_are_as_many_and_as_full_as_the_library_says(tiles, size):
    row = Row(device="a100", kind="cuda", op="matmul", dtype="bf16", timing="warm", data="random",
              status="ok", shape=f"128x4096x{128 * tiles}")  # fmt: skip
    _, turns, full = waves(row, 108)
    scene = moving.waves(A100).scenes[n(tiles)][size]
    last = len(scene.says) - 1
    said = [shape.at("text", last) for shape in scene.shapes if shape.tag == "text"]
    assert n(full, "%", digits=2) in said
    taken = [int(text.split(" / ")[0]) for text in said if " / " in text]
    assert len(taken) == turns
    assert sum(taken) == tiles


def test_as_many_squares_are_lit_as_multiprocessors_work():
    wide = moving.waves(A100).scenes["162"][0]
    lines = [shape for shape in wide.shapes if shape.at("line", 0) == "math"]
    step = next(i for i, says in enumerate(wide.says) if says.startswith("Wave 2"))
    lit = [
        round((line.at("x2", step) - line.at("x1", step) + 4) / 24)
        for line in lines
        if line.at("opacity", step)
    ]
    assert sum(lit) == 54


@pytest.mark.parametrize("key", ["mi300x", "tpu-v5e"])
def test_a_chip_whose_multiprocessors_cannot_be_drawn_is_refused(key):
    with pytest.raises(CourseError, match="multiprocessors"):
        moving.waves(chip(key))


STRIDES = {
    "along a row": (1, 0),
    "one number off": (1, 1),
    "every second number": (2, 0),
    "down a column": (32, 0),
}


@pytest.mark.parametrize("choice", STRIDES)
@pytest.mark.parametrize("size", [0, 1])
def test_as_many_sectors_light_up_as_a_warp_touches(choice, size):
    scene = moving.coalescing().scenes[choice][size]
    stride, start = STRIDES[choice]
    wanted = ops.sectors(stride, start=start)
    for load in range(4):
        step = 2 * load + 2
        lit = [
            shape
            for shape in scene.shapes
            if shape.tag == "rect"
            and shape.at("tone", 0) == "memory"
            and shape.at("opacity", step)
            and shape.at("height", 0) < 14
        ]
        assert len(lit) == wanted
        # Every thread stands in a sector that is lit.
        threads = [
            shape
            for shape in scene.shapes
            if shape.tag == "rect" and shape.at("tone", 0) == "ink" and shape.at("height", 0) < 14
        ]
        assert len(threads) == 32
        assert len({(one.at("x", step), one.at("y", step)) for one in threads}) == 32
        for one in threads:
            assert any(
                bar.at("x", step) <= one.at("x", step) < bar.at("x", step) + bar.at("width", step)
                and bar.at("y", step) == one.at("y", step)
                for bar in lit
            )
    said = [shape.at("text", 9) for shape in scene.shapes if shape.tag == "text"]
    assert n(4 * 32 * wanted, "B") in said
    assert n(4 / wanted, "%") in said


@pytest.mark.parametrize("many", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [0, 1])
def test_slices_keep_the_turns_that_the_library_gives_them(many, size):
    one = occupancy.slice_of(chip("h100-sxm"), 128, 128, 64, patch=(11, 12))
    scene = moving.stages(one).scenes[n(many)][size]
    turns = one.timeline(many, 8)
    last = len(scene.says) - 1
    math = [s for s in scene.shapes if s.at("tone", last) == "math" and s.at("height", 0) > 20]
    assert len(math) == 8
    ends = [s.at("x", last) + s.at("width", last) + 1 for s in math]
    scale = (ends[-1] - ends[0]) / (turns[-1].done - turns[0].done)
    for end, turn in zip(ends, turns, strict=True):
        assert end - ends[0] == pytest.approx((turn.done - turns[0].done) * scale, abs=0.5)
    # A row is one place: nothing in it overlaps.
    rows = {}
    for shape in math:
        rows.setdefault(shape.at("y", last), []).append(shape)
    assert len(rows) == many
    said = [shape.at("text", last) for shape in scene.shapes if shape.tag == "text"]
    assert n(8 * one.math / turns[-1].done, "%", digits=2) in said


def test_a_slice_that_fits_only_once_is_refused():
    with pytest.raises(CourseError, match="twice at least"):
        moving.stages(occupancy.slice_of(chip("h100-sxm"), 256, 256, 256))


TILES = {1: (128, 256), 2: (256, 256), 4: (256, 512)}


@each("blocks", TILES)
@each("size", [0, 1])
@each(("per_clock", "deep"), [(8192, 64), (4096, 32)])
def test_a_cluster_fetches_what_one_tile_of_its_size_needs(blocks, size, per_clock, deep):
    scene = moving.multicast(per_clock, deep).scenes[n(blocks)][size]
    last = len(scene.says) - 1
    packets = [s for s in scene.shapes if s.tag == "rect" and s.at("opacity", 0) == 1][-14:]
    packets = [s for s in packets if s.at("height", 0) == 11]
    assert len(packets) == 12
    high, wide = TILES[blocks]
    each = 2 * deep * (high + wide) / blocks  # byte that a multiprocessor gets from the L2
    # Each block of rows and each half of columns has as many bytes; some leave as one.
    leave = {(s.at("x", 2), s.at("y", 2)) for s in packets}
    assert len(leave) * 2 * deep * 128 == 4 * each
    assert len({(s.at("x", 1), s.at("y", 1)) for s in packets}) == 6  # memory sends each once
    assert len({(s.at("x", 4), s.at("y", 4)) for s in packets}) == 12  # and all have what they need
    said = [s.at("text", last) for s in scene.shapes if s.tag == "text"]
    assert {n(6 * 256 * deep, "B"), n(4 * each, "B")} <= set(said)
    feed = per_clock * (high + wide) / (high * wide)
    assert any(text.startswith(n(feed, digits=2)) for text in said)
