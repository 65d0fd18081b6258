"""Waves: every tile is taken once, and they are as full as the library says."""

import pytest

from course_lib import CourseError, chip, moving, n
from course_lib.measured import Row
from course_lib.measured.gaps import waves

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
