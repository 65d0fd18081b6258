"""The book as one file: an EPUB that readers can open, a PDF with text and bookmarks, and their
links on the cover.
"""

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path, PurePosixPath

import pypdf
import pytest
from lxml import etree, html

from course_lib import CourseError
from course_press.exports import book as export
from course_press.pages import site
from course_press.source.book import languages, read_book
from course_press.source.errors import MissingError
from tests.conftest import ROOT
from tests.course_press.conftest import course, known_copy

XHTML = "{http://www.w3.org/1999/xhtml}"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    copy = known_copy(tmp_path_factory, tmp_path_factory.mktemp("exported") / "book")
    copy.build(("en", "es"))
    export.export_book(copy.root, "es", ["epub", "md"], copy.root / "_site")
    return copy.root


def test_the_markdown_has_every_chapter_its_numbers_and_maths_and_no_markup(exported):
    text = (exported / "_site" / "downloads" / "book-es.md").read_text(encoding="utf-8")
    titles = [line for line in text.splitlines() if line.startswith("# ")]
    assert len(titles) >= len(
        [one for one in read_book(exported, "es").chapters if not one.is_cover]
    )
    assert "$" in text
    assert re.search(r"The ridge is 500\sFLOP/B", text)
    assert not re.search(r"</?(?:div|span|svg|math|script)\b", text)


def test_an_assistant_is_told_of_every_chapter_and_of_the_text(exported):
    site = exported / "_site"
    text = (site / "llms.txt").read_text(encoding="utf-8")
    links = [link.split("/", 3)[-1] for link in re.findall(r"\]\(([^)]+)\)", text)]
    assert len(links) > 3
    assert all(line.count("](") <= 2 for line in text.splitlines())
    assert all(list(site.glob(f"**/{link.rpartition('/')[2]}")) for link in links)


@pytest.fixture(scope="module")
def epub(exported):
    with zipfile.ZipFile(exported / "_site" / "downloads" / "book-es.epub") as file:
        return {name: file.read(name) for name in file.namelist()}


def pages_of(epub):
    return {
        PurePosixPath(name): etree.fromstring(text)
        for name, text in epub.items()
        if name.endswith(".xhtml")
    }


def test_every_part_of_the_epub_is_well_formed(epub):
    assert next(iter(epub)) == "mimetype"
    parts = [name for name in epub if name.endswith((".xhtml", ".opf", ".ncx", ".xml", ".svg"))]
    for name in parts:
        etree.fromstring(epub[name])
    assert len(parts) >= 8


def check(file):
    """What epubcheck, a standard's own judge, says of an EPUB; skips, loudly, without it."""
    found = shutil.which("epubcheck")
    if not found or not shutil.which("java"):
        message = "NO EPUBCHECK: EPUBs are not judged (apt install epubcheck)"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    # Debian's is a jar that not every kernel starts by itself.
    java = (
        "java",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-jar",
    )  # begins in half the time
    start = java if Path(found).read_bytes()[:2] == b"PK" else []
    command = [*start, found, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    return re.findall(r"^(?:FATAL|ERROR|WARNING).*", done.stdout + done.stderr, re.MULTILINE)


def test_the_epub_is_valid(book):
    book.edit("chapters/en/one.qmd", "## Unnumbered {", "## Two {")  # another page's name
    (file,) = export.export_book(book.root, "en", ["epub"], book.root / "_site")
    assert check(file) == []


@pytest.mark.exhaustive
def test_a_broken_epub_is_told_from_a_valid_one(book):
    (file,) = export.export_book(book.root, "en", ["epub"], book.root / "_site")
    with zipfile.ZipFile(file, "a") as opened:
        opened.writestr("EPUB/text/stray.xhtml", "<p>")
    assert check(file)


@pytest.mark.exhaustive
@pytest.mark.parametrize("lang", languages(ROOT))
def test_the_books_epub_is_valid_and_no_float_in_it_is_empty(lang, tmp_path):
    (file,) = export.export_book(ROOT, lang, ["epub"], tmp_path)
    assert check(file) == []
    with zipfile.ZipFile(file) as opened:
        texts = [opened.read(name) for name in opened.namelist() if "/ch0" in name]
    floats = [one for text in texts for one in html.fromstring(text).cssselect("figure.float")]
    assert len(floats) > 100
    for one in floats:
        assert one.cssselect("table, img, svg, pre"), one.text_content()


def test_the_epub_says_what_it_is_and_in_which_language(epub):
    package = etree.fromstring(epub["EPUB/content.opf"])
    said = {
        name: package.findtext(f".//{{http://purl.org/dc/elements/1.1/}}{name}")
        for name in ("title", "language", "creator")
    }
    assert said == {"title": "Fixture (es)", "language": "es", "creator": "Nobody"}
    (cover,) = package.xpath("//*[@properties='cover-image']/@href")
    assert "Fixture" in epub[f"EPUB/{cover}"].decode()
    languages = {page.get("lang") for name, page in pages_of(epub).items() if "text" in name.parts}
    assert languages == {"es"}


def test_the_same_book_is_the_same_epub_whenever_it_is_made(exported, epub):
    (again,) = export.export_book(exported, "es", ["epub"], exported / "again")
    with zipfile.ZipFile(again) as file:
        assert {name: file.read(name) for name in file.namelist()} == epub
    assert b"2026-01-02T00:00:00Z" in epub["EPUB/content.opf"]


def test_everything_that_the_epub_points_at_is_in_it(epub):
    pages = pages_of(epub)
    ids = {name: set(page.xpath("//@id")) for name, page in pages.items()}
    images, links = 0, 0
    for name, page in pages.items():
        for image in page.iter(f"{XHTML}img"):
            assert (PurePosixPath("EPUB") / image.get("src").removeprefix("../")).as_posix() in epub
            assert image.get("alt")
            images += 1
        for link in page.iter(f"{XHTML}a"):
            file, _, anchor = link.get("href").partition("#")
            if re.match(r"\w+:", file):
                continue
            target = PurePosixPath(os.path.normpath(name.parent / file)) if file else name
            assert target in pages, link.get("href")
            assert not anchor or anchor in ids[target], link.get("href")
            links += 1
    assert images
    assert links > 10


def test_the_epub_has_maths_and_titles_and_nothing_that_needs_a_script(epub):
    pages = [page for name, page in pages_of(epub).items() if "text" in name.parts]
    tags = {
        element.tag.rpartition("}")[2]
        for page in pages
        for element in page.iter()
        if isinstance(element.tag, str)
    }
    assert {"math", "table", "figure", "pre"} <= tags
    assert not tags & {"script", "form", "input", "button"}
    assert [" ".join(h.itertext()).split() for page in pages for h in page.iter(f"{XHTML}h1")][
        -1
    ] == ["2", "Capítulo", "dos"]
    figures = [text.decode() for name, text in epub.items() if name.endswith(".svg")]
    assert not any("var(" in svg for svg in figures)
    assert all("#1a3ab8" in svg for svg in figures)


def test_the_cover_offers_what_there_is_and_a_build_keeps_it(exported):
    def offered(lang):
        root = html.parse(str(exported / "_site" / lang / "index.html")).getroot()
        return [(a.text, a.get("href")) for a in root.cssselect(".downloads a")]

    both = [("EPUB", "../downloads/book-es.epub"), ("Markdown", "../downloads/book-es.md")]
    assert offered("es") == both
    assert offered("en") == []
    site.build(exported, ["es"], exported / "_site")
    assert offered("es") == both
    for name in ("book-es.epub", "book-es.md"):
        (exported / "_site/downloads" / name).unlink()
    site.build(exported, ["es"], exported / "_site")
    assert offered("es") == []


def test_quartos_cover_offers_the_same_and_changes_in_nothing_else(book):
    cover = book.root / "_site" / "en" / "index.html"
    cover.parent.mkdir(parents=True)
    text = (
        '<!DOCTYPE html>\n<html><head><meta name="generator" content="quarto-1.6"></head><body>'
        '<header id="title-block-header"><h1>T</h1></header><main><p>x &amp; é</p></main></body>'
        "</html>"
    )
    cover.write_text(text, encoding="utf-8")
    (book.root / "_site" / site.MARKER).touch()
    for _ in range(2):
        export.export_book(book.root, "en", ["epub"], book.root / "_site")
    link = '<li><a href="../downloads/book-en.epub" download>EPUB</a></li>'
    assert cover.read_text(encoding="utf-8") == text.replace(
        "</h1>", f'</h1><ul class="actions downloads">{link}</ul>'
    )


def test_nothing_is_lost_between_what_needs_a_script(book):
    book.edit(
        "chapters/en/one.qmd",
        "In the margin.",
        "```{=html}\n<p>Before <input type=text> within</p><div><p>between</p>"
        "<button>gone</button> after</div>\n```",
    )
    export.export_book(book.root, "en", ["epub"], book.root / "_site")
    with zipfile.ZipFile(book.root / "_site/downloads/book-en.epub") as file:
        chapters = [etree.fromstring(file.read(name)) for name in file.namelist() if "/ch0" in name]
    assert len(chapters) == 3
    text = " ".join("".join(chapters[1].itertext()).split())
    assert re.search("Before within ?between ?after", text)
    assert "Second tab." in text


def test_without_chromium_a_pdf_says_how_to_get_it(book, monkeypatch):
    monkeypatch.setattr(export, "chromium", lambda: None)
    with pytest.raises(
        MissingError,
        match=r"Chromium, which is not on PATH: apt install chromium.*--to epub needs none",
    ):
        export.export_book(book.root, "en", ["pdf"], book.root / "_site")
    with pytest.raises(CourseError, match="--to 'mobi' is not a format: choose from epub, pdf"):
        export.export_book(book.root, "en", ["mobi"], book.root / "_site")


def test_the_command_names_the_languages(book):
    done = course(book.root, "export", "--lang", "xx")
    assert done.returncode == 2
    assert "--lang 'xx' is not a language of this book: choose from en, es" in done.stderr


@pytest.mark.browser
def test_the_pdf_has_pages_text_and_bookmarks(book):
    if not export.chromium():
        message = "NO CHROMIUM: the PDF is not tested (apt install chromium)"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    done = course(book.root, "export", "--lang", "en", "--to", "pdf", path=os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("_site/downloads/book-en.pdf: ")
    pdf = pypdf.PdfReader(book.root / "_site/downloads/book-en.pdf")
    text = [" ".join(page.extract_text().split()) for page in pdf.pages]
    assert len(text) >= 5
    assert text[0].startswith("Fixture (en)")
    assert any("1 Chapter one The first." in page for page in text)
    assert "Second tab." in " ".join(text)  # what a click shows on a screen is open on paper
    titles = [entry.title for entry in pdf.outline if not isinstance(entry, list)]
    assert [" ".join(title.split()) for title in titles] == [
        "Cover",
        "1 Chapter one",
        "2 Chapter two",
    ]
    assert shutil.which("chromium") is None or not list(
        (book.root / "_site/downloads").glob(".export-*")
    )
