"""The decision diagram: its text is text, it names itself, and it needs neither script nor the
page's colours.
"""

import xml.etree.ElementTree as ET

import pytest

from course_lib import CourseError
from course_book.plot import flow
from course_book.plot.diagram import NARROW, WIDTH

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"markup": WIDTH, "narrow": NARROW}
FORKS = [
    ("Is it <busy>?", "no", "Launch less & batch.", "yes"),
    ("Is it near a bound?", "no", "Take another path.", "yes"),
]


def drawn(forks=FORKS, start="Time the step.", end="Another algorithm.", size="markup"):
    return getattr(flow(start, forks, end, title="A slow step", again="again"), size)


def test_it_is_xml_with_a_title_and_a_description_that_it_is_labelled_by():
    root = ET.fromstring(drawn())
    named = [root.find(f"{SVG}{tag}") for tag in ("title", "desc")]
    assert root.get("role") == "img"
    assert all(one.get("id")[0].isalpha() for one in named), "an XML name begins with a letter"
    assert root.get("aria-labelledby") == " ".join(one.get("id") for one in named)
    for question, answer, remedy, _ in FORKS:
        assert f"{question} {answer.capitalize()}. {remedy}" in named[1].text


@pytest.mark.parametrize("size", SIZES)
def test_every_word_stands_in_the_picture(size):
    root = ET.fromstring(drawn(size=size))
    shown = " ".join(text.text for text in root.iter(f"{SVG}text"))
    for fork in FORKS:
        for words in fork:
            assert set(words.split()) <= set(shown.split())


@pytest.mark.parametrize(
    "question",
    ["Is " + "a long question " * 12, "장치가 쉬지 않고 일하고 있는가, 아니면 기다리고 있는가?"],
)
@pytest.mark.parametrize("size", SIZES)
def test_lines_stay_within_their_boxes(question, size):
    root = ET.fromstring(drawn([(question, "no", "Remedy.", "yes")], size=size))
    boxes = [
        [float(box.get(side)) for side in ("x", "y", "width", "height")]
        for box in root.iter(f"{SVG}rect")
    ]
    for text in root.iter(f"{SVG}text"):
        x, y = float(text.get("x")), float(text.get("y"))
        if text.text in ("no", "yes", "again"):
            continue
        assert any(
            left < x < left + wide and top < y < top + tall for left, top, wide, tall in boxes
        )
    assert max(left + wide for left, _, wide, _ in boxes) < SIZES[size]


def test_two_diagrams_of_a_page_share_no_id():
    first, second = (ET.fromstring(drawn(end=end)) for end in ("One.", "Two."))
    assert not {one.get("id") for one in first.iter() if one.get("id")} & {
        one.get("id") for one in second.iter()
    }


def test_on_a_page_it_takes_the_colours_of_the_page_and_in_a_notebook_it_brings_paper(monkeypatch):
    made = flow("a", FORKS, "b", title="c", again="d")
    monkeypatch.setenv("COURSE_PRINT", "site")
    page = made._repr_mimebundle_()["text/markdown"]
    assert "var(--fig-ink, #" in page
    assert "white" not in page
    assert "<script" not in page
    monkeypatch.delenv("COURSE_PRINT")
    assert 'fill="white"' in made._repr_mimebundle_()["image/svg+xml"]


def test_no_fork_is_an_error():
    with pytest.raises(CourseError, match="forks must hold at least one question"):
        flow("a", [], "b", title="c", again="d")
