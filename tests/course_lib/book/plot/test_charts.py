import contextlib
import hashlib
import itertools
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.scale import LogTransform
from matplotlib.text import Text

from course_lib import CourseError, attainable, plot, ridge
from course_lib.book.plot.charts import GRID, INK, LINES, MUTED, SHADES

PALETTE = {INK, MUTED, GRID, *LINES, *SHADES}


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


def test_another_process_draws_the_same_bytes():
    code = (
        "import hashlib, sys; from course_lib import plot;"
        "one = plot.roofline({'H100': (1e15, 3e12), 'A100': (3e14, 2e12)}, {'dot': 0.5});"
        "print(hashlib.sha256(one.svg().encode() + one.png()).hexdigest())"
    )
    seeded = {**os.environ, "PYTHONHASHSEED": "7"}
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=seeded
    ).stdout
    one = figure()
    assert there.strip() == hashlib.sha256(one.svg().encode() + one.png()).hexdigest()


@pytest.mark.parametrize(
    "make",
    [
        lambda a: plot.roofline(
            {"H100": (a(1e15 / 3), 3e12), "A100": (3e14, a(2e12 / 7))}, {"dot": a(0.3)}
        ),
        lambda a: plot.sweep(
            x := a(np.geomspace(1, 4096, 40)),
            {"y": a(x**1.3)},
            x_label="B",
            y_label="s",
            dots={"y": (x[::4], a(x[::4] ** 1.2))},
        ),
        lambda a: plot.parity(
            {"A100": (a(np.geomspace(1, 300, 9)), a(np.geomspace(1.4, 500, 9)))}, unit="ms"
        ),
    ],
    ids=["roofline", "sweep", "parity"],
)
def test_processors_that_differ_in_the_last_bit_draw_the_same_bytes(make, monkeypatch):
    here, other = make(lambda value: value), make(lambda value: value * 1.001)
    expected = here.png(), here.svg()
    assert expected[0] != other.png()
    assert expected[1] != other.svg()
    exact = LogTransform.transform_non_affine
    for way in (np.inf, -np.inf):
        monkeypatch.setattr(
            LogTransform,
            "transform_non_affine",
            lambda self, v, to=way: np.nextafter(exact(self, v), to),
        )
        there = make(lambda value, to=way: np.nextafter(value, to))
        assert (there.png(), there.svg()) == expected


def test_a_png_carries_no_date_and_no_version():
    png = figure().png()
    assert png.startswith(b"\x89PNG")
    assert not re.search(rb"tEXt|iTXt|zTXt|tIME", png)


@pytest.mark.parametrize("make", [figure, sweep, lambda: figure(shade=True)])
def test_an_svg_takes_its_colours_from_the_page(make):
    svg = make().svg()
    assert svg.startswith("<svg")
    colours = re.findall(r"(?:fill|stroke): ?([^;\"]+)", svg)
    assert colours
    assert all(colour.startswith(("var(--fig-", "none")) for colour in colours)
    assert not re.search(r'<svg[^>]* (?:width|height)="', svg)
    assert "DejaVu" not in svg
    assert all("w3.org" in address for address in re.findall(r'https?://[^"\s]+', svg))
    taken = re.findall(r"var\(--fig-([\w-]+), (#[0-9a-f]{6})\)", svg)
    assert {colour for _, colour in taken} <= PALETTE
    assert len({token for token, _ in taken}) == len(set(taken))
    rest = re.sub(r"var\(--fig-[\w-]+, #[0-9a-f]{6}\)|url\(#[\w-]+\)|href=\"#[\w-]+\"", "", svg)
    assert not re.search(r"#[0-9a-fA-F]{3,8}|rgb|black|white", rest)


@pytest.mark.parametrize("make", [figure, sweep])
def test_an_svg_stands_alone_in_a_page(make):
    root = ElementTree.fromstring(make().svg())
    assert root.tag.endswith("svg")
    assert root.get("viewBox")
    assert not {"width", "height"} & set(root.attrib)
    tags = {node.tag.partition("}")[2] for node in root.iter()}
    assert not tags & {"script", "image", "metadata", "foreignObject"}
    links = [
        value
        for node in root.iter()
        for name, value in node.attrib.items()
        if name.endswith("href")
    ]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"@import|url\((?!#)|<\?xml|<!DOCTYPE", make().svg())


def test_an_svg_leaves_the_rest_of_the_page_alone():
    # The rules of a <style> inside an inline <svg> hold for every element of the page.
    assert "<style" not in figure().svg()


def test_labels_stay_text():
    svg = plot.roofline({"A <&> B": (1e15, 3e12)}, {"x & y": 2}).svg()
    texts = {
        "".join(node.itertext()).strip()
        for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    }
    assert {"A <&> B", "x & y", "I (FLOP/B)", "FLOP/s"} <= texts


def test_figures_on_one_page_share_no_id():
    ids = [set(re.findall(r' id="([^"]+)"', make().svg())) for make in (figure, sweep)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for make in (figure, sweep):
        svg = make().svg()
        assert set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg)) == set(
            re.findall(r' id="([^"]+)"', svg)
        )


def test_it_prints_exactly_one_kind(monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "site")
    bundle = figure()._repr_mimebundle_()
    assert list(bundle) == ["text/markdown"]
    block = bundle["text/markdown"]
    assert re.fullmatch(
        r'```\{=html\}\n<div class="sizes"><svg .*</svg>\n</div>\n```\n', block, flags=re.DOTALL
    )
    assert block.count("```") == 2
    assert figure().svg() + figure().svg(narrow=True) in block
    assert figure().svg() != figure().svg(narrow=True)
    monkeypatch.setenv("COURSE_PRINT", "notebook")
    assert list(figure()._repr_mimebundle_()) == ["image/png"]
    monkeypatch.delenv("COURSE_PRINT")
    assert figure()._repr_mimebundle_(include=None, exclude=None) == {"image/png": figure().png()}
    assert repr(figure()) == "Plot()"


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


def words_in(svg):
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return sorted(
        said for node in texts if re.search("[A-Za-z]", said := "".join(node.itertext()).strip())
    )


@pytest.mark.parametrize("make", CROWDED)
def test_the_narrow_twin_says_as_much_in_letters_as_large(make):
    one = make()
    wide, narrow = one.svg(), one.svg(narrow=True)
    assert words_in(narrow) == words_in(wide)
    boxes = [
        [float(side) for side in re.search(r'viewBox="([^"]+)"', svg)[1].split()]
        for svg in (wide, narrow)
    ]
    assert boxes[1][2] <= boxes[0][2] / 2
    # A phone's column of 325 px shows nine points as eleven pixels.
    assert (
        min(float(size) for size in re.findall(r"font(?:-size)?: (?:bold )?([\d.]+)px", narrow))
        * 325
        / boxes[1][2]
        >= 11
    )
    assert one.svg() == wide


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("make", CROWDED)
def test_no_name_stands_on_another_or_outside(make, narrow):
    figure = make()
    with figure._labels.narrow() if narrow else contextlib.nullcontext():
        figure._labels.place(plot.NARROW if narrow else plot.WIDE)
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


def test_places_are_short_and_texts_are_whole():
    svg = plot.sweep([0.00123, 10], {"0.12345": [1, 2]}, x_label="x", y_label="y").svg()
    assert "0.12345" in svg
    attributes = re.findall(r'(?: d| x| y| transform|points)="([^"]+)"', svg)
    assert attributes
    assert not any(re.search(r"\.\d{3}", attribute) for attribute in attributes)


def test_many_dots_say_their_style_once():
    svg = plot.parity({"one": (np.geomspace(1, 2, 50), np.geomspace(1, 3, 50))}, unit="s").svg()
    dots = re.findall(
        r'<g[^>]* style="fill: var[^"]*">\s*((?:<use xlink:href="[^"]*" x="[\d.]+" '
        r'y="[\d.]+"/>\s*)+)</g>',
        svg,
    )
    assert [found.count("<use") for found in dots if found.count("<use") > 10] == [50]


def test_each_roof_bends_at_its_ridge_and_carries_the_marks():
    axes = figure().figure.axes[0]
    roofs = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert [line.get_xdata()[1] for line in roofs] == [1e15 / 3e12, 3e14 / 2e12]
    assert [line.get_ydata()[1] for line in roofs] == [1e15, 3e14]
    dots = [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() == "o"
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


def test_dots_take_the_colour_of_their_line():
    dots = {"b": ([1, 10], [3.3, 27])}
    axes = plot.sweep(
        [1, 10], {"a": [1, 2], "b": [3, 30]}, x_label="B", y_label="s", dots=dots
    ).figure.axes[0]
    (drawn,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert (list(drawn.get_xdata()), list(drawn.get_ydata())) == dots["b"]
    assert drawn.get_color() == LINES[1]


def test_lines_are_told_apart():
    assert len(set(LINES)) == len(LINES) >= 6
    assert len(PALETTE) == 3 + len(LINES) + len(SHADES)


@pytest.mark.parametrize(
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
    assert [axis.get_label_text() for axis in (axes.xaxis, axes.yaxis)] == ["ŷ (s)", "y (s)"]


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
