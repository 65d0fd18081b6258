import contextlib
import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.text import Text
from matplotlib.ticker import LogLocator

from course_lib import CourseError, attainable, ridge
from course_book import plot
from course_book.plot.colors import LINES, MARKERS, own_tone
from course_book.plot.figure import GRID, INK, SHADES
from course_book.plot.labels import MUTED, NARROW, WIDE
from tests.each import each


def figure(**more):
    return plot.roofline({"H100": (1e15, 3e12), "A100": (3e14, 2e12)}, {"dot": 0.5}, **more)


def sweep():
    return plot.sweep(
        [1, 10, 100],
        {"2B": [2, 20, 200], "3B": [3, 30, 300]},
        x_label="B",
        y_label="FLOP/B",
        levels={"π": 100},
    )


@pytest.mark.parametrize("make", [figure, sweep])
def test_the_same_figure_is_the_same_bytes(make):
    one = make()
    assert one.svg() == make().svg() == one.svg()
    assert one.png() == make().png() == one.png()


@pytest.mark.parametrize("span", [None, (2.0, 9.0), (2.0, 90.0)])
def test_ticks_that_are_found_once_are_drawn_where_each_step_would_find_them(monkeypatch, span):
    """Also on an axis where none has a label, and on one whose room the twin for a phone changes."""

    def drawn():
        one = figure() if span is None else figure(intensity=span)
        one.figure.axes[0].xaxis.set_minor_locator(LogLocator(subs="auto", numticks="auto"))
        # Ticks between are marks of one line, which groups them otherwise.
        marks = r"<(?:use|text|path) [^>]*>[^<\s]*"
        return *(sorted(re.findall(marks, one.svg(narrow=of))) for of in (False, True)), one.png()

    once = drawn()
    monkeypatch.setattr("course_book.plot.figure._ticks_once", contextlib.nullcontext)
    assert once == drawn()


def test_another_process_draws_the_same_bytes():
    code = (
        "import hashlib, sys; from course_book import plot;"
        "one = plot.roofline({'H100': (1e15, 3e12), 'A100': (3e14, 2e12)}, {'dot': 0.5});"
        "print(*(hashlib.sha256(each).hexdigest() for each in (one.svg().encode(), one.png())))"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("7", "8")
    }
    assert len(drawn) == 1


def test_a_png_carries_no_date_and_no_version():
    png = figure().png()
    assert png.startswith(b"\x89PNG")
    assert not re.search(rb"tEXt|iTXt|zTXt|tIME", png)


CROWDED = [
    figure,
    sweep,
    lambda: figure(shade=True),
    lambda: plot.roofline(
        {"NVLink": (1e15, 4e11), "HBM": (1e15, 3e12)}, {f"B = {b}": b for b in (100, 130, 150, 160)}
    ),
    lambda: plot.sweep(
        [1, 1e9],
        {f"a line with a long name {i}": [1, 10 + i] for i in range(4)},
        x_label="V",
        y_label="s",
    ),
    lambda: plot.parity(
        {f"runs of source {i}": ([1e-9, 1e3], [1e-9, 2e3]) for i in range(6)}, unit="s"
    ),
]


def dotted():
    made = figure()
    for i in range(8):
        made.name_dot(f"an operator, {i}", 2 + i / 4, 2e12, fontsize=7)
    return made


CROWDED.append(dotted)
CROWDED.append(
    lambda: plot.strips(
        {f"a kind, with its name {i}": [1, 2 + i] for i in range(9)},
        x_label="s",
        spans={"a kind, with its name 0": (0.5, 4)},
        levels={"limit": 3},
    )
)


def meeting():
    """Lines that end in one place, as far as letters can tell, and one that ends far above."""
    ends = {"one": 10, "two": 10, "three": 10.1, "four": 1000}
    return plot.sweep(
        [1, 10],
        {name: [1 + i, end] for i, (name, end) in enumerate(ends.items())},
        x_label="B",
        y_label="s",
    )


CROWDED.append(meeting)


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
@each(("place", "make"), list(enumerate(CROWDED)))
def test_no_name_stands_on_another_or_outside(place, make, turn):
    """In either width, in turn."""
    figure, narrow = make(), (place + turn) % 2
    with figure._labels.narrow() if narrow else contextlib.nullcontext():
        figure._labels.place(NARROW if narrow else WIDE)
        figure.figure.draw_without_rendering()
        axes, frame = figure.figure.axes[0], figure.figure.bbox
        legend = axes.get_legend()
        texts = [
            text
            for text in [*axes.texts, *(legend.get_texts() if legend else [])]
            if text.get_visible() and text.get_text()
        ]
        boxes = [
            (text.get_text(), Text.get_window_extent(text)) for text in texts
        ]  # without leaders
    for said, box in boxes:
        assert (
            min(box.x0 - frame.x0, frame.x1 - box.x1, box.y0 - frame.y0, frame.y1 - box.y1) >= -1
        ), said
    for (said, one), (other_said, other) in itertools.combinations(boxes, 2):
        wide, tall = (
            min(one.x1, other.x1) - max(one.x0, other.x0),
            min(one.y1, other.y1) - max(one.y0, other.y0),
        )
        assert wide <= 1 or tall <= 0.4 * min(one.height, other.height), (said, other_said)


def test_each_roof_bends_at_its_ridge_and_carries_the_marks():
    axes = figure().figure.axes[0]
    roofs = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert [line.get_xdata()[1] for line in roofs] == [1e15 / 3e12, 3e14 / 2e12]
    assert [line.get_ydata()[1] for line in roofs] == [1e15, 3e14]
    dots = [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() in tuple(MARKERS)
    ]
    assert dots == [(0.5, 1.5e12), (0.5, 1e12)]


def test_what_is_drawn_is_what_the_library_says():
    peak, bandwidth = 3e14, 2e12
    axes = plot.roofline({"A100": (peak, bandwidth)}, intensity=(0.5, 5000)).figure.axes[0]
    (roof,) = (line for line in axes.lines if len(line.get_xdata()) == 3)
    assert list(roof.get_xdata()) == [0.5, ridge(peak, bandwidth), 5000]
    assert np.array_equal(roof.get_ydata(), attainable(roof.get_xdata(), peak, bandwidth))
    assert axes.get_xlim() == (0.5, 5000)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_a_sweep_draws_its_values():
    axes = sweep().figure.axes[0]
    lines = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert [list(line.get_ydata()) for line in lines] == [[2, 20, 200], [3, 30, 300]]
    assert [line.get_color() for line in lines] == list(LINES[:2])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("B", "FLOP/B")
    assert {"2B", "3B", "π"} <= {text.get_text() for text in axes.texts}


def test_an_even_sweep_begins_at_nothing_and_cuts_no_dot():
    shares = [0.25, 0.5, 0.75]
    picture = plot.sweep(shares, {"a": shares}, x_label="ψ", y_label="s", even=True)
    (axes,) = picture.figure.axes
    low, high = axes.get_xlim()
    assert axes.get_xscale() == "linear"
    assert low == 0
    assert high > shares[-1]


def test_dots_take_the_colour_of_their_line():
    dots = {"b": ([1, 10], [3.3, 27])}
    axes = plot.sweep(
        [1, 10], {"a": [1, 2], "b": [3, 30]}, x_label="B", y_label="s", dots=dots
    ).figure.axes[0]
    (drawn,) = [line for line in axes.lines if line.get_marker() == MARKERS[1]]
    assert (list(drawn.get_xdata()), list(drawn.get_ydata())) == dots["b"]
    assert drawn.get_color() == LINES[1]


def test_a_chip_has_one_colour_and_one_mark_in_every_figure():
    roofs = {name: (1e15, 3e12 + i) for i, name in enumerate(("V100", "H100", "own"))}
    pairs = {name: ([1, 2], [1.1, 2.1]) for name in ("gemm", "H100, fp8")}
    figures = {
        "H100": (plot.roofline(roofs, {"dot": 0.5}), 3),
        "V100": (plot.roofline(dict(reversed(roofs.items()))), 2),
        "H100, fp8": (plot.parity(pairs, unit="s"), 2),
    }
    for label, (figure, least) in figures.items():
        axes, color = figure.figure.axes[0], LINES[own_tone(label)]
        seen = [line for line in axes.lines if line.get_color() == color]
        named = [text for text in axes.texts if text.get_text() == label]
        assert [text.get_color() for text in named] == [color]
        assert len(seen) >= least - 1
        dots = {line.get_marker() for line in seen} - {"None"}
        assert dots <= {MARKERS[own_tone(label)]}
    level = plot.sweep([1, 10], {"a": [1, 2]}, x_label="B", y_label="s", levels={"A100": 1.5})
    (line,) = [line for line in level.figure.axes[0].lines if line.get_ydata()[0] == 1.5]
    assert line.get_color() == LINES[own_tone("A100")]


def test_lines_are_told_apart():
    assert len(set(LINES)) == len(LINES) >= 6
    assert len({INK, MUTED, GRID, *LINES, *SHADES}) == 3 + len(LINES) + len(SHADES)


@each(
    ("call", "message"),
    [
        (lambda: plot.roofline({}), "roofs must hold at least one"),
        (lambda: plot.roofline({"a": (0, 1)}), "peak must be positive"),
        (
            lambda: plot.roofline({"a": (1, float("nan"))}),
            r"bandwidth must be positive and finite \(got nan\)",
        ),
        (
            lambda: plot.roofline({"a": (1, 1)}, intensity=(0, 10)),
            r"intensity must be positive and finite \(got 0\)",
        ),
        (
            lambda: plot.roofline({"a": (1, 1)}, intensity=(1, float("inf"))),
            "intensity must be positive",
        ),
        (lambda: plot.roofline({"a": (1, 1)}, {"b": -1}), r"marks\['b'\] must be positive"),
        (
            lambda: plot.sweep([1, 2], {"a": [1]}, x_label="x", y_label="y"),
            r"lines\['a'\] must have one value for each x",
        ),
        (lambda: plot.sweep([0, 2], {"a": [1, 2]}, x_label="x", y_label="y"), "x must be positive"),
        (
            lambda: plot.sweep([1, 2], {"a": [1, -2]}, x_label="x", y_label="y"),
            r"lines\['a'\] must be positive .*index \(1,\)",
        ),
        (
            lambda: plot.sweep([1, 2], {"a": [1, 2]}, x_label="x", y_label="y", levels={"p": -1}),
            r"levels\['p'\] must be positive",
        ),
        (
            lambda: plot.sweep(
                [1, 2], {"a": [1, 2]}, x_label="x", y_label="y", dots={"b": ([1], [2])}
            ),
            "unknown line .b.: choose one of a .*dots belong to a line",
        ),
        (
            lambda: plot.sweep([1, 2], {"a": [1, 2]}, x_label="x", y_label="y", marks={"m": 0}),
            r"marks\['m'\] must be positive",
        ),
        (lambda: plot.strips({}, x_label="s"), "rows must hold at least one label"),
        (lambda: plot.strips({"a": [1, -2]}, x_label="s"), r"rows\['a'\] must be positive"),
        (
            lambda: plot.strips({"a": [1]}, x_label="s", spans={"b": (1, 2)}),
            "unknown row .b.: choose one of a .*a span belongs to no row",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(CourseError, match=message):
        call()


def test_parity_puts_each_measurement_over_its_prediction():
    figure = plot.parity({"one": ([1.0, 2.0], [1.5, 2.5]), "two": ([4.0], [4.0])}, unit="s").figure
    axes = figure.axes[0]
    drawn = {
        tuple(map(tuple, line.get_xydata()))
        for line in axes.lines
        if line.get_transform() == axes.transData
    }
    assert ((1.0, 1.5), (2.0, 2.5)) in drawn
    assert ((4.0, 4.0),) in drawn
    diagonal = next(
        line for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2
    )
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())
    assert axes.get_xlim() == axes.get_ylim()
    assert [axis.get_label_text() for axis in (axes.xaxis, axes.yaxis)] == ["ŷ", "y"]


@pytest.mark.parametrize(
    ("label", "symbol", "tick"),
    [("T (s)", "T", "20 s"), ("s", "", "20 s"), ("V (B)", "V", "20 B"), ("B", "B", "20"),
     ("β (GB/s)", "β (GB/s)", "20")],
)  # fmt: skip
def test_ticks_of_times_and_bytes_have_their_units(label, symbol, tick):
    axes = plot.strips({"a": [2.0, 200.0]}, x_label=label).figure.axes[0]
    assert axes.get_xlabel() == symbol
    assert axes.xaxis.get_major_formatter()(20.0) == tick


def test_strips_puts_each_value_in_its_row_and_kinds_in_one_color():
    rows = {"one, a": [2.0, 3.0], "one, b": [4.0], "two": [5.0]}
    axes = plot.strips(rows, x_label="s", spans={"two": (1.0, 9.0)}).figure.axes[0]
    dots = [line for line in axes.lines if line.get_marker() in MARKERS]
    assert [list(line.get_xdata()) for line in dots] == list(rows.values())
    assert [set(line.get_ydata()) for line in dots] == [{0}, {1}, {2}]
    first, second, third = (line.get_color() for line in dots)
    assert first == second != third
    assert [1.0, 9.0] in [list(line.get_xdata()) for line in axes.lines]


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({}, "points must hold at least one label"),
        (
            {"a": ([1.0, 2.0], [1.0])},
            "points\\['a'\\] must have one measurement for each prediction: 2 \\(got 1\\)",
        ),
        ({"a": ([1.0], [0.0])}, "points\\['a'\\] must be positive"),
    ],
)
def test_parity_refuses_what_cannot_be_compared(points, message):
    with pytest.raises(CourseError, match=message):
        plot.parity(points, unit="s")


def test_a_figure_with_korean_names_is_text_on_paper_where_a_notebook_shows_it():
    latin, korean = (
        plot.parity({name: ([1.0, 2.0], [2.0, 3.0])}, unit="s") for name in ("matmul", "행렬 곱")
    )
    assert list(latin.static_bundle()) == ["image/png"]
    shown = korean.static_bundle()["image/svg+xml"]
    assert "행렬 곱" in shown
    assert 'fill="white"/>' in shown
    assert korean.svg(narrow=True).count("행렬 곱") > 0  # and no warning of a missing letter


def test_korean_names_of_dots_take_their_own_room():
    figure = plot.roofline({"a": (1e12, 1e9)})
    for _ in range(2):
        figure.name_dot("어텐션 커널 하나", 10.0, 1e9, fontsize=9)
    figure.svg()
    first, other = figure._labels._drawn
    assert first.xyann != other.xyann
