"""Bars: parts are as wide as their shares, on a page and on a phone, and names stand inside."""

import xml.etree.ElementTree as ET

import pytest

from course_lib import CourseError
from course_book.plot import bars
from course_book.plot.diagram import NARROW, WIDTH

SVG = "{http://www.w3.org/2000/svg}"
ROWS = {
    "small": [("a", "q", 1.0), ("b", "up & down", 3.0)],
    "large": [("a", "q", 30.0), ("c", "", 20.0), ("b", "up & down", 949.0), ("d", "thin", 1.0)],
}


@pytest.mark.parametrize(("size", "width"), [("markup", WIDTH), ("narrow", NARROW)])
def test_parts_are_to_scale_and_every_bar_is_as_long(size, width):
    root = ET.fromstring(getattr(bars(ROWS, title="Parts"), size))
    boxes = [one for one in root.iter(f"{SVG}rect") if float(one.get("height")) > 20]
    assert len(boxes) == sum(map(len, ROWS.values()))
    full = None
    for parts in ROWS.values():
        mine, boxes = boxes[: len(parts)], boxes[len(parts) :]
        wide = [float(one.get("width")) for one in mine]
        whole = sum(size for *_, size in parts)
        assert full is None or sum(wide) == pytest.approx(full, abs=0.05)
        full = sum(wide)
        assert full < width
        for got, (*_, value) in zip(wide, parts, strict=True):
            assert got == pytest.approx(full * value / whole, abs=0.01)


def test_a_name_without_room_is_left_to_the_description():
    root = ET.fromstring(bars(ROWS, title="Parts").markup)
    shown = [one.text for one in root.iter(f"{SVG}text")]
    assert "thin" not in shown
    assert shown.count("up & down") == 2
    assert "thin 0.1%" in root.find(f"{SVG}desc").text


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        ({}, "at least one label"),
        ({"a": []}, "at least one label"),
        ({"a": [("a", "b", 0.0)]}, "positive"),
        ({"a": [(str(i), "", 1.0) for i in range(5)]}, "at most 4 kinds"),
    ],
)
def test_what_cannot_be_drawn_is_refused(rows, refused):
    with pytest.raises(CourseError, match=refused):
        bars(rows, title="Parts")
