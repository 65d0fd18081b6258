"""Figures as SVG of a page: in its colours, small, and for a phone as well."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.scale import LogTransform

from course_book import plot
from course_book.plot import LINES
from course_book.plot.figure import GRID, INK, SHADES
from course_book.plot.labels import MUTED
from course_press.outputs.figure import page_svg
from tests.course_book.plot.test_charts import CROWDED, figure, sweep

PALETTE = {INK, MUTED, GRID, *LINES, *SHADES}


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
    expected = here.png(), page_svg(here)
    assert expected[0] != other.png()
    assert expected[1] != page_svg(other)
    exact = LogTransform.transform_non_affine
    for way in (np.inf, -np.inf):
        monkeypatch.setattr(
            LogTransform,
            "transform_non_affine",
            lambda self, v, to=way: np.nextafter(exact(self, v), to),
        )
        there = make(lambda value, to=way: np.nextafter(value, to))
        assert (there.png(), page_svg(there)) == expected


@pytest.mark.parametrize("make", [figure, sweep, lambda: figure(shade=True)])
def test_an_svg_takes_its_colours_from_the_page(make):
    svg = page_svg(make())
    assert svg.startswith("<svg")
    colours = re.findall(r"(?:fill|stroke): ?([^;\"]+)", svg)
    assert colours
    page = ("var(--fig-", "var(--paper", "none")
    assert all(colour.startswith(page) for colour in colours)
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
    root = ElementTree.fromstring(page_svg(make()))
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
    assert not re.search(r"@import|url\((?!#)|<\?xml|<!DOCTYPE", page_svg(make()))


def test_an_svg_leaves_the_rest_of_the_page_alone():
    # The rules of a <style> inside an inline <svg> hold for every element of the page.
    assert "<style" not in page_svg(figure())


def test_labels_stay_text():
    svg = page_svg(plot.roofline({"A <&> B": (1e15, 3e12)}, {"x & y": 2}))
    texts = {
        "".join(node.itertext()).strip()
        for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    }
    assert {"A <&> B", "x & y", "I (FLOP/B)", "FLOP/s"} <= texts


def test_figures_on_one_page_share_no_id():
    ids = [set(re.findall(r' id="([^"]+)"', page_svg(make()))) for make in (figure, sweep)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for make in (figure, sweep):
        svg = page_svg(make())
        assert set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg)) == set(
            re.findall(r' id="([^"]+)"', svg)
        )


def test_it_prints_exactly_one_kind(monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "site")
    one = figure()
    bundle = one._repr_mimebundle_()
    assert list(bundle) == ["text/markdown"]
    block = bundle["text/markdown"]
    assert re.fullmatch(
        r'```\{=html\}\n<div class="sizes"><svg .*</svg>\n</div>\n```\n', block, flags=re.DOTALL
    )
    assert block.count("```") == 2
    wide, narrow = page_svg(figure()), page_svg(one, narrow=True)
    assert wide + narrow in block
    assert wide != narrow
    monkeypatch.setenv("COURSE_PRINT", "notebook")
    assert list(one._repr_mimebundle_()) == ["image/png"]
    monkeypatch.delenv("COURSE_PRINT")
    assert one._repr_mimebundle_(include=None, exclude=None) == {"image/png": figure().png()}
    assert repr(one) == "Plot()"


def words_in(svg):
    """What a figure says beside its ticks, of which a phone has fewer; names of dots in a list carry
    numbers that are no part of them.
    """
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return sorted(
        re.sub(r"^\d+\s{2}", "", said)
        for node in texts
        if re.search("[A-Za-z]", said := "".join(node.itertext()).strip())
        and not re.fullmatch(r"[\d.,]+\s(?:[kMGTPmµn]?[sB])", said)
    )


@pytest.mark.parametrize("make", CROWDED)
def test_the_narrow_twin_says_as_much_in_letters_as_large(make):
    one = make()
    wide, narrow = page_svg(one), page_svg(one, narrow=True)
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
    assert page_svg(one) == wide


def test_places_are_short_and_texts_are_whole():
    svg = page_svg(plot.sweep([0.00123, 10], {"0.12345": [1, 2]}, x_label="x", y_label="y"))
    assert "0.12345" in svg
    attributes = re.findall(r'(?: d| x| y| transform|points)="([^"]+)"', svg)
    assert attributes
    assert not any(re.search(r"\.\d{3}", attribute) for attribute in attributes)


def test_many_dots_of_one_style_are_one_element_with_each_in_its_place():
    dots = np.geomspace(1, 2, 50), np.geomspace(1, 3, 50)
    svg = page_svg(plot.parity({"one": dots, "two": dots}, unit="s"))
    root = ElementTree.fromstring(svg)
    name = "{http://www.w3.org/2000/svg}%s"
    # Ticks are lines, and dots are filled.
    markers = {
        one.get("id"): one
        for one in root.iter(name % "marker")
        if "fill-opacity" in one[0].get("style")
    }
    clouds = [
        (one.get("d"), re.search(r"marker: url\(#([^)]+)", one.get("style"))[1])
        for one in root.iter(name % "path")
        if re.search(r"marker: url\(#(" + "|".join(markers) + ")", one.get("style", ""))
    ]
    assert {cloud for _, cloud in clouds} == set(markers)
    assert [len(places.split()) for places, _ in clouds] == [100, 100]
    assert all("fill-opacity: 0.75" in one[0].get("style") for one in markers.values())
    drawn = [float(place) for place in clouds[0][0].removeprefix("M").split()]
    assert drawn[::2] == sorted(drawn[::2])  # to the right
    assert drawn[1::2] == sorted(drawn[1::2], reverse=True)  # and up
