"""What others see of the book: a picture of each page, and the map for search engines."""

import io
import itertools
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lxml import html
from PIL import Image, ImageChops, ImageDraw, ImageStat

from course_press.pages import pandoc, quarto, share
from course_press.source.book import languages, read_book
from tests.the_book import the_book

ROOT = Path(__file__).parent.parent.parent.parent
SITE = "https://example.org/book"
ONE = "en/chapters/en/one.html"


def social(file):
    """What the head of a page tells social sites."""
    head = html.parse(str(file)).getroot().cssselect("head meta")
    return {m.get("property") or m.get("name"): m.get("content") for m in head}


def drawn(address, site):
    return Image.open(site / address.removeprefix(f"{SITE}/"))


@pytest.mark.parametrize("lang", ["en", "es"])
def test_a_shared_link_shows_the_first_figure_of_its_page(built, lang):
    said = social(built / f"{lang}/chapters/{lang}/one.html")
    picture = drawn(said["og:image"], built)
    assert picture.size == (1200, 630)
    assert Path(picture.filename).stat().st_size < 60_000
    assert len(picture.convert("RGB").getcolors(1 << 24)) > 10  # not an empty sheet
    assert said["twitter:card"] == "summary_large_image"
    assert (said["og:image:width"], said["og:image:height"]) == ("1200", "630")


QUARTO = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><meta name="generator" content="quarto-1.7"><title>T</title>
<meta name="description" content="Quarto's.">
<link rel="canonical" href="https://example.org/book/chapters/es/one.html">
<meta property="og:title" content="Quarto's"><meta property="og:image" content="there.png">
<meta name="twitter:image" content="there.png"><meta name="twitter:creator" content="@us">
</head><body><main><p>x</p></main></body></html>"""
MAP = """<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>https://example.org/book/index.html</loc><lastmod>2026-01-02</lastmod></url></urlset>"""


@pytest.mark.parametrize("lang", ["en", "es"])
def test_quartos_pages_are_shared_as_ours_are(book, lang):
    book.build(("en", "es"))
    ours, theirs = (book.root / site / lang for site in ("_site", "theirs"))
    pages = ["index.html", f"chapters/{lang}/one.html", f"chapters/{lang}/two.html"]
    for page in pages:
        (theirs / page).parent.mkdir(parents=True, exist_ok=True)
        (theirs / page).write_text(QUARTO, encoding="utf-8")
    (theirs / "sitemap.xml").write_text(MAP, encoding="utf-8")
    for _ in range(2):
        quarto.add_facts(read_book(book.root, lang), theirs)
        for page in pages:
            said, wanted = social(theirs / page), social(ours / page)
            names = {n for n in [*wanted, *said] if n and n.startswith(("og:", "twitter:"))}
            assert {name: said.get(name) for name in names} == {
                **{name: wanted.get(name) for name in names},
                "twitter:creator": "@us",
            }
            assert said["description"] == "Quarto's."
            heads = [html.parse(str(site / page)).getroot().head for site in (theirs, ours)]
            assert len(heads[0].xpath("meta[@property='og:title']")) == 1
            links = [head.xpath("link[@rel='canonical']/@href") for head in heads]
            assert links[0] == links[1] == [f"{SITE}/{lang}/{page}"]
    cards = [
        {file.name: file.read_bytes() for file in site.glob("cards/*")} for site in (ours, theirs)
    ]
    assert list(cards[0]) == ["one.png"]
    assert cards[0] == cards[1]
    named = re.findall("<loc>(.*?)</loc>", (theirs / "sitemap.xml").read_text(encoding="utf-8"))
    assert sorted(named) == sorted(f"{SITE}/{lang}/{page}" for page in pages)


def test_who_renders_one_page_with_quarto_waits_for_no_picture(book, monkeypatch):
    monkeypatch.setattr(quarto, "draw_pictures", lambda *_: pytest.fail("cells ran"))
    book.forget()
    page, card = (book.root / "theirs" / name for name in ("chapters/en/one.html", "cards/one.png"))
    for there in (False, True):
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(QUARTO, encoding="utf-8")
        quarto.add_facts(read_book(book.root, "en"), book.root / "theirs", draw=False)
        assert ("og:image" in social(page)) == there
        card.parent.mkdir(exist_ok=True)
        card.touch()
    assert not (book.root / ".cache").exists()


def test_a_page_without_a_figure_promises_none(built):
    said = social(built / "en/chapters/en/two.html")
    assert "og:image" not in said
    assert said["twitter:card"] == "summary"


def test_without_an_address_of_its_own_a_site_has_no_whole_addresses(book):
    book.edit("_quarto.yml", "site-url: https://example.org/book", "")
    book.build(("en",))
    out = book.root / "_site"
    assert "og:image" not in social(out / ONE)
    assert not (out / "sitemap.xml").exists()
    assert not list(out.rglob("cards"))


def card_of(site, lang):
    return (site / lang / "cards" / "one.png").read_bytes()


@pytest.mark.parametrize("together", [True, False])
def test_a_figure_that_no_font_here_can_draw_is_shared_as_the_english_one(
    book, monkeypatch, together
):
    print_page = pandoc.print_page

    def without_spanish_pictures(which, *rest):
        page = print_page(which, *rest)
        return replace(page, picture=None) if which.lang == "es" else page

    monkeypatch.setattr(pandoc, "print_page", without_spanish_pictures)
    for langs in [("en", "es")] if together else [("en",), ("es",)]:
        book.build(langs)
    out = book.root / "_site"
    sheets = [Image.open(io.BytesIO(card_of(out, lang))).convert("RGB") for lang in ("en", "es")]
    figures = [sheet.crop((600, 0, 1200, 630)) for sheet in sheets]
    apart = ImageStat.Stat(ImageChops.difference(*figures)).mean
    assert max(apart) < 1  # as far as their palettes differ
    # Where the English pages were printed too, its words are its own.
    assert (card_of(out, "es") == card_of(out, "en")) == (not together)
    said = social(out / "es/chapters/es/one.html")
    assert said["og:image"] == f"{SITE}/es/cards/one.png"


def blank(size=(400, 300), color="white"):
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("lang", languages(ROOT))
def test_the_words_of_every_card_are_whole_legible_and_inside(lang, step, monkeypatch):
    """Of some pages, in each language of others; of all in `make exhaustive`."""
    written = []
    monkeypatch.setattr(
        ImageDraw.ImageDraw,
        "text",
        lambda _, at, said, fill, letters, **more: written.append((at, said, letters, more)),
    )
    book = the_book(lang)
    pictures = {chapter.path.stem: (0, "", blank) for chapter in book.chapters}
    faces = list(share.faces(book, pictures).items())
    for key, face in faces[languages(ROOT).index(lang) % step :: step]:
        if not share.font("".join(face[1:])):
            pytest.skip(
                "NO HANGUL FONT: cards in Korean are the English ones (apt install fonts-nanum)"
            )
        written.clear()
        share.card(blank, face)
        assert " ".join(said for _, said, *_ in written).split() == " ".join(face[1:]).split()
        boxes = []
        for (x, y), said, letters, more in written:
            box = letters.getbbox(said, anchor=more.get("anchor"))
            boxes.append([x + box[0], y + box[1], x + box[2], y + box[3]])
            none = bytes(letters.getmask("\uffff"))
            assert all(bytes(letters.getmask(one)) != none for one in said if one != " "), (
                key,
                said,
            )
        for left, top, right, bottom in filter(lambda box: box[2] > box[0], boxes):
            assert 40 <= left <= right <= 600 - 24, key
            assert 20 <= top <= bottom <= 630 - 20, key
        for above, below in itertools.pairwise(box for box in boxes if box[2] > box[0]):
            assert above[3] <= below[1] + 2, key  # no line on another
        assert face.finding[-1] in ".?!"


def test_a_wide_and_a_tall_figure_fit_the_right_half_whole():
    for size in ((2000, 300), (300, 2000), (1037, 620)):
        face = share.Face(None, "One", "A finding.", "A book")
        sheet = Image.open(
            io.BytesIO(share.card(partial(blank, size, (200, 30, 30)), face))
        ).convert("RGB")
        red = [
            (x, y)
            for x in range(0, 1200, 4)
            for y in range(0, 630, 2)
            if sheet.getpixel((x, y))[0] > 150 > sheet.getpixel((x, y))[1]
        ]
        xs, ys = {x for x, _ in red}, {y for _, y in red}
        assert min(xs) >= 600
        assert max(xs) <= 1200 - 20
        assert min(ys) >= 20
        assert max(ys) <= 630 - 20
        ratio = (max(xs) - min(xs)) / (max(ys) - min(ys))
        assert ratio == pytest.approx(size[0] / size[1], rel=0.05)


def test_the_map_names_every_page_and_its_twins_and_no_other(built):
    space = {
        "s": "http://www.sitemaps.org/schemas/sitemap/0.9",
        "x": "http://www.w3.org/1999/xhtml",
    }
    urls = ElementTree.parse(built / "sitemap.xml").getroot().findall("s:url", space)
    named = {
        url.find("s:loc", space).text: {
            link.get("hreflang"): link.get("href") for link in url.findall("x:link", space)
        }
        for url in urls
    }
    pages = {f"{SITE}/{file.relative_to(built).as_posix()}" for file in built.glob("*/**/*.html")}
    decks = {one for one in pages if "/slides/" in one}  # readers come to them from their chapters
    assert set(named) == pages - decks
    for address, twins in named.items():
        assert set(twins) == {"en", "es", "x-default"}
        assert address in twins.values()
        assert set(twins.values()) <= pages
        assert twins["x-default"] == twins["en"]
        # Search engines ask for links that agree with each page's own.
        head = html.parse(str(built / address.removeprefix(f"{SITE}/"))).getroot()
        own = {
            one.get("hreflang"): one.get("href") for one in head.cssselect("head link[hreflang]")
        }
        assert own.items() <= twins.items()


def test_a_lost_reader_is_not_indexed_and_not_shared(built):
    said = social(built / "404.html")
    assert said["robots"] == "noindex"
    assert "og:title" not in said
    assert social(built / "index.html")["og:title"] == "Fixture (en)"
