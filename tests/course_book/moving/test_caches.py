"""Roofs of caches: dots stand where the library puts them, and sentences say what it says."""

import json
from math import log10

import pytest

from course_lib import CourseError, chip, ops, ridge, roofline
from course_book import moving, n, t
from course_book.text import in_language

V5E = chip("tpu-v5e")
PEAK = V5E.peak("bf16")
FACTOR, WIDTH, UNIT = 22, 4096, 128
LEVELS = (V5E.bandwidth, FACTOR * V5E.bandwidth)
SIDES = [8 * 2**i for i in range(10)]


@pytest.fixture(scope="module")
def picture():
    return moving.roofs(V5E, FACTOR, WIDTH)


def dots(scene, tone):
    """The dots of a path: what its row of numbers begins with, its trace, and the one that walks."""
    tag = "rect" if tone == "memory" else "circle"
    return [shape for shape in scene.shapes if shape.tag == tag and shape.at("tone", 0) == tone]


def middle(dot, step):
    if dot.tag == "circle":
        return dot.at("cx", step), dot.at("cy", step)
    return dot.at("x", step) + dot.at("width", 0) / 2, dot.at("y", step) + dot.at("height", 0) / 2


def tick(scene, anchor, number):
    """The number at an axis: those of intensities are centered, those of speeds are not."""
    return next(
        shape
        for shape in scene.shapes
        if shape.fixed.get("text-anchor") == anchor and shape.at("text", 0) == n(number)
    )


def counted(batch, side):
    """Bytes from main memory, and bytes on the chip."""
    part = min(side, UNIT)
    return [float(ops.tiled_matmul(batch, WIDTH, WIDTH, one, one).bytes) for one in (side, part)]


def times(batch, side):
    """Seconds of main memory, of the memory on the chip, and of the arithmetic."""
    paths = [moved / level for moved, level in zip(counted(batch, side), LEVELS, strict=True)]
    return [*paths, 2 * batch * WIDTH * WIDTH / PEAK]


@pytest.mark.parametrize("batch", [4096, 16])
@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("path", [0, 1])
def test_dots_stand_at_their_intensity_and_under_their_roof(picture, batch, size, path):
    scene = picture.scenes[n(batch)][size]
    *_, dot = dots(scene, ("memory", "cache")[path])
    left, right = (tick(scene, "middle", power).at("x", 0) for power in (1, 1000))
    # The number of a speed stands four pixels below its line.
    low, high = (tick(scene, "end", tera).at("y", 0) - 4 for tera in (1, 100))
    for step, side in enumerate(SIDES):
        intensity = 2 * batch * WIDTH * WIDTH / counted(batch, side)[path]
        rate = min(PEAK, intensity * LEVELS[path])
        x, y = middle(dot, step)
        assert x == pytest.approx(left + (right - left) * log10(intensity) / 3, abs=0.2)
        assert y == pytest.approx(low + (high - low) * log10(rate / 1e12) / 2, abs=0.2)


@pytest.mark.parametrize("batch", [4096, 16])
def test_numbers_told_are_those_of_the_library(picture, batch):
    for scene in picture.scenes[n(batch)]:
        for step, side in enumerate(SIDES):
            told = {shape.at("text", step) for shape in scene.shapes if shape.tag == "text"}
            assert {n(seconds, "s") for seconds in times(batch, side)} <= told
            for moved in counted(batch, side):
                flops = 2 * batch * WIDTH * WIDTH
                assert {n(moved, "B"), n(flops / moved, "FLOP/B"), n(flops, "FLOP")} <= told
            assert f"{n(min(side, batch))} × {n(side)}" in told
            assert n(max(times(batch, side)), "s") in scene.says[step]


@pytest.mark.parametrize("batch", [4096, 16])
def test_the_frame_is_around_what_takes_longest(picture, batch):
    for scene in picture.scenes[n(batch)]:
        (frame,) = (s for s in scene.shapes if s.tag == "rect" and s.at("line", 0) == "ink")
        names = {shape.at("text", 0): shape for shape in scene.shapes if shape.tag == "text"}
        for step, side in enumerate(SIDES):
            clocks = dict(zip(("HBM", "VMEM", t("arithmetic")), times(batch, side), strict=True))
            slowest = max(clocks, key=clocks.get)
            top = frame.at("y", step)
            assert top < names[slowest].at("y", 0) < top + frame.at("height", 0)
            assert f"{slowest} is the limit" in scene.says[step].replace(
                "arithmetic, which", "arithmetic"
            )


def test_dots_of_main_memory_climb_to_the_roof_and_leave_a_trace(picture):
    wide = picture.scenes["4,096"][0]
    _, *trace, dot = dots(wide, "memory")
    heights = [middle(dot, step)[1] for step in range(len(SIDES))]
    assert heights == sorted(heights, reverse=True)
    reached = [step for step, height in enumerate(heights) if height == heights[-1]]
    assert [SIDES[step] for step in reached] == [512, 1024, 2048, 4096]
    for step in range(len(SIDES)):
        assert [bool(one.at("opacity", step)) for one in trace] == [
            before < step for before in range(len(SIDES))
        ]


def test_sixteen_tokens_are_memory_bound_from_main_memory_and_compute_bound_on_the_chip(picture):
    """What the chapter says of them."""
    assert ridge(PEAK, LEVELS[1]) < 2 * 16 * WIDTH**2 / counted(16, WIDTH)[1]
    whole = roofline(ops.matmul(16, WIDTH, WIDTH), V5E)
    assert whole.bound == "memory-bound"
    last = picture.scenes["16"][0].says[-1]
    assert n(whole.lower, "s") in last
    assert last.endswith(f"at least {n(whole.t_math, 's')}.")


def test_a_unit_that_holds_little_makes_the_memory_on_the_chip_the_limit():
    scene = moving.roofs(V5E, FACTOR, 1024, (1024,), unit=8).scenes["1,024"][0]
    assert "HBM is the limit" in scene.says[0]
    assert "VMEM is the limit" in scene.says[-1]


@pytest.mark.parametrize("lang", ["en", "es", "ko"])
def test_every_choice_has_the_same_roofs_and_says_whole_sentences(lang):
    with in_language(lang):
        drawn = moving.roofs(V5E, FACTOR, WIDTH)
    for size in (0, 1):
        first, second = (scenes[size] for scenes in drawn.scenes.values())
        assert [one.fixed for one in first.shapes] == [one.fixed for one in second.shapes]
        for scene in (first, second):
            assert len(scene.shapes) < 150
            assert all(says.endswith(".") and "{" not in says for says in scene.says)
            for shape in scene.shapes:
                if shape.tag == "text":
                    assert float(shape.fixed.get("font-size", 13)) >= 12
                    assert 0 <= shape.at("x", 0) <= scene.width
                    assert 0 <= shape.at("y", 0) <= scene.height
    sent = [(scenes[0].says, drawn.changes(choice), drawn.changes(choice, narrow=True))
            for choice, scenes in drawn.scenes.items()]  # fmt: skip
    assert len(json.dumps(sent, separators=(",", ":"))) < 60_000


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        (lambda: moving.roofs(V5E, FACTOR, 8), "more than 8"),
        (lambda: moving.roofs(V5E, FACTOR, 8192, (8192,)), "fits on the chip"),
        (lambda: moving.roofs(V5E, 0), "factor"),
    ],
)
def test_what_cannot_be_drawn_is_refused(made, refused):
    with pytest.raises(CourseError, match=refused):
        made()
