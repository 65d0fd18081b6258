"""Scenes and the pictures made of them: steps, what changes, and what is refused."""

import re

import pytest

from course_lib import CourseError
from course_book.moving.scene import NARROW, WIDE, Moving, Scene, rows


def told(width, *, steps=3, shapes=2):
    scene = Scene(width, 60, "One.")
    made = [scene.rect(10 * i, 5, 8, 8, tone="memory") for i in range(shapes)]
    for step in range(1, steps):
        scene.step(f"Step {step}.")
        made[0].to(x=20 * step, tone="math")
    return scene


def picture(**more):
    return Moving("bytes", {"": (told(WIDE), told(NARROW))}, **more)


def test_a_shape_keeps_what_it_was_told_until_it_is_told_otherwise():
    scene = Scene(WIDE, 60)
    byte = scene.rect(0, 0, 8, 8, tone="memory")
    scene.step()
    scene.step()
    byte.to(x=100)
    scene.step()
    assert [byte.at("x", step) for step in range(4)] == [0, 0, 100, 100]


def test_what_comes_later_is_not_seen_before():
    scene = Scene(WIDE, 60)
    scene.step()
    late = scene.text(0, 0, "late")
    assert [late.at("opacity", step) for step in (0, 1)] == [0, 1]


def test_only_what_moves_is_sent_to_a_page():
    changes = picture().changes("")
    assert [(place, name) for place, name, _ in changes] == [(0, "x"), (0, "tone")]
    assert changes[0][2] == [0.0, 20.0, 40.0]


def test_a_choice_puts_back_what_another_has_put_elsewhere():
    there = [told(width, steps=1) for width in (WIDE, NARROW)]
    for scene in there:
        scene.shapes[1].to(y=30)
    here = tuple(told(width, steps=1) for width in (WIDE, NARROW))
    both = Moving("bytes", {"here": here, "there": tuple(there)})
    assert both.changes("here") == [(1, "y", [5.0])]
    assert both.changes("there") == [(1, "y", [30.0])]


def test_a_still_is_the_step_that_was_asked_for():
    first, last = (picture(still=step).svg() for step in (0, 2))
    assert "fill: var(--fig-2" in first
    assert re.search(r'<rect x="40"[^>]*fill: var\(--fig-3', last)


@pytest.mark.parametrize(
    ("scenes", "refused"),
    [
        ({"": (told(WIDE), told(NARROW, steps=2))}, "must say the same at each step"),
        (
            {"a": (told(WIDE), told(NARROW)), "b": (told(WIDE, shapes=3), told(NARROW))},
            "must have the shapes",
        ),
    ],
)
def test_scenes_that_do_not_belong_together_are_refused(scenes, refused):
    with pytest.raises(CourseError, match=refused):
        Moving("bytes", scenes)


def test_a_shape_refuses_what_it_was_not_made_with():
    scene = Scene(WIDE, 60)
    with pytest.raises(CourseError, match="attribute"):
        scene.rect(0, 0, 8, 8).to(cx=5)
    with pytest.raises(CourseError, match="tone"):
        scene.rect(0, 0, 8, 8, tone="mauve")


def test_room_is_kept_for_letters_that_are_twice_as_wide():
    assert rows(["a" * 90]) == 2
    assert rows(["합" * 90]) == 4
