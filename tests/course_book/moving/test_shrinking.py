"""A chip's memory that shrinks: every stack is as long as its bytes, beside the chip's line."""

from types import SimpleNamespace

import pytest

from course_lib import CourseError, chip
from course_book import moving, n
from course_book.moving import memory
from course_book.moving.scene import TONES
from course_book.text import in_language

PARTS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "fragmentation")
H100 = chip("h100-sxm")


def held(*amounts):
    return SimpleNamespace(**dict(zip(PARTS, amounts, strict=True)), total=sum(amounts))


SMALL = {
    "plain": held(16e9, 32e9, 96e9, 35e9, 6e9, 2e9, 4e9),
    "zero-1": held(16e9, 32e9, 1.5e9, 35e9, 6e9, 2e9, 4e9),
    "zero-3": held(0.25e9, 0.5e9, 1.5e9, 35e9, 6e9, 3e9, 4e9),
}
LARGE = {"plain": held(140e9, 280e9, 840e9, 300e9, 6e9, 2e9, 9e9), "tensor": SMALL["plain"]}


@pytest.fixture(scope="module")
def picture():
    return moving.shrink({"8B": SMALL, "70B": LARGE}, H100)


def stack(scene, row, step):
    """The widths of a row's parts."""
    bars = [one for one in scene.shapes if one.tag == "rect"]
    return [one.at("width", step) for one in bars[8 * row : 8 * row + 7]]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("case", "rows"), [("8B", SMALL), ("70B", LARGE)])
def test_each_stack_is_to_scale_with_the_line(picture, case, rows, narrow):
    scene = picture.scenes[case][narrow]
    line = next(one for one in scene.shapes if one.tag == "line")
    left = scene.shapes[0].at("x", 0)
    for step, one in enumerate(rows.values()):
        px = (line.at("x1", step) - left) / H100.memory
        wanted = [getattr(one, part) * px for part in PARTS]
        assert stack(scene, step, step) == pytest.approx(wanted, abs=0.5)
        # What was before is to the same scale, as far as there is room.
        if step:
            before = [getattr(list(rows.values())[step - 1], part) * px for part in PARTS]
            assert stack(scene, step - 1, step) == pytest.approx(before, abs=0.5)


def test_a_stack_waits_where_the_one_before_it_stands(picture):
    scene = picture.scenes["8B"][0]
    assert stack(scene, 1, 0) == stack(scene, 0, 0)
    first = [one for one in scene.shapes if one.tag == "rect"][8]
    assert [first.at("opacity", step) for step in (0, 1)] == [0, 1]


@pytest.mark.parametrize("lang", ["en", "es", "ko"])
def test_each_step_says_what_is_left_or_lacking(lang):
    with in_language(lang):
        one = moving.shrink({"8B": SMALL}, H100)
        for says, rows in zip(one.scenes["8B"][0].says, SMALL.values(), strict=True):
            assert n(rows.total, "B") in says
            assert n(abs(H100.memory - rows.total), "B") in says
            assert "{" not in says


def test_every_technique_has_a_word_and_a_sentence():
    for key in memory.TECHNIQUES:
        one = moving.shrink({"": {key: SMALL["plain"]}}, H100)
        assert not any("moving-" in says for says in one.scenes[""][0].says)
    assert {look["tone"] for look in memory._PARTS.values()} <= set(TONES)


@pytest.mark.parametrize(
    ("cases", "refused"),
    [({"8B": {"magic": SMALL["plain"]}}, "technique"), ({"8B": {}}, "row"), ({}, "row")],
)
def test_what_has_no_rows_or_an_unknown_one_is_refused(cases, refused):
    with pytest.raises(CourseError, match=refused):
        moving.shrink(cases, H100)
