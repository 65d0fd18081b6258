"""Boxes that build on one another: each stands below all that it needs, on a page and on a phone,
and arrows and boxes are whole.
"""

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError
from course_book.plot.diagram import NARROW
from course_book.plot.graph import WIDE, builds_on, layered

SVG = "{http://www.w3.org/2000/svg}"
BOXES = {
    "peak": ("a chip", ()),
    "bandwidth": ("a chip", ()),
    "ridge & roof": ("a chip", ("peak", "bandwidth")),
    "a step that is limited by communication": ("a step", ("ridge & roof",)),
    "통신 바운드": ("a step", ("ridge & roof", "bandwidth")),
    "speed-up": ("a model", ("a step that is limited by communication",)),
}
SIZES = {"markup": WIDE, "narrow": NARROW}


@st.composite
def graphs(draw):
    size = draw(st.integers(1, 14))
    return [
        sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(size)
    ]


@given(graphs(), st.integers(1, 5))
def test_layers_hold_so_many_boxes_each_below_its_needs_and_apart(needs, most):
    made = layered(needs, most)
    at = {}  # a box stands in the first layer that has it
    for i, row in enumerate(made.rows):
        for box, layer in row:
            assert layer == i
            at.setdefault(box, i)
    assert at.keys() == set(range(len(needs)))
    for box, of in enumerate(needs):
        assert all(at[need] < at[box] for need in of)
    for i, row in enumerate(made.rows):
        boxes = {one for one in row if at[one[0]] == i}
        assert len(boxes) <= most
        half = {one: 0.5 if one in boxes else 0.05 for one in row}
        for one, other in pairwise(row):
            assert made.x[other] - made.x[one] >= half[one] + half[other] - 1e-9
        for one in row:
            assert half[one] - 1e-9 <= made.x[one] <= made.width - half[one] + 1e-9
    assert all(below[1] == above[1] + 1 for above, below in made.links)
    # From each need a way leads to what needs it, along the need's own line.
    ways = set(made.links)
    for box, of in enumerate(needs):
        for need in of:
            line = [(need, i) for i in range(at[need], at[box])] + [(box, at[box])]
            assert ways >= set(pairwise(line))


def rects(root):
    return [
        [float(one.get(side)) for side in ("x", "y", "width", "height")]
        for one in root.iter(f"{SVG}rect")
        if float(one.get("height")) > 20
    ]


@pytest.mark.parametrize(("size", "width"), SIZES.items())
def test_every_box_has_its_name_and_every_need_an_arrow(size, width):
    root = ET.fromstring(getattr(builds_on(BOXES, title="Ideas"), size))
    boxes = rects(root)
    assert len(boxes) == len(BOXES)
    assert len(list(root.iter(f"{SVG}polygon"))) == sum(len(needs) for _, needs in BOXES.values())
    for x, y, wide, tall in boxes:
        assert x >= -2
        assert x + wide <= width - 2
        assert y + tall <= float(root.get("viewBox").split()[3])
    for one, other in combinations(boxes, 2):
        apart = [abs(one[i] - other[i]) >= (one, other)[one[i] > other[i]][i + 2] for i in (0, 1)]
        assert any(apart)
    shown = " ".join(text.text for text in root.iter(f"{SVG}text")).replace("- ", "-")
    for name in BOXES:
        assert name in shown


@pytest.mark.parametrize("size", SIZES)
def test_color_is_not_all_that_tells_a_kind(size):
    root = ET.fromstring(getattr(builds_on(BOXES, title="Ideas"), size))
    shown = [text.text for text in root.iter(f"{SVG}text")]
    assert {"1 a chip", "2 a step", "3 a model"} <= set(shown)
    assert [shown.count(number) for number in "123"] == [3, 2, 1]


def test_its_description_says_what_each_needs():
    said = ET.fromstring(builds_on(BOXES, title="Ideas").markup).find(f"{SVG}desc").text
    assert said.startswith("peak. bandwidth. ridge & roof: peak, bandwidth.")


@pytest.mark.parametrize(
    ("boxes", "refused"),
    [
        ({}, "at least one name"),
        ({"a": ("k", ("b",)), "b": ("k", ())}, "must come before"),
        ({"a": ("k", ("c",))}, "must come before"),
        ({str(i): (str(i), ()) for i in range(5)}, "at most 4 kinds"),
    ],
)
def test_what_cannot_be_drawn_is_refused(boxes, refused):
    with pytest.raises(CourseError, match=refused):
        builds_on(boxes, title="Ideas")
