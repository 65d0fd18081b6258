"""The book rendered by Quarto itself, where it is installed: the same pages, numbers and
alternatives as ours.
"""

import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pypandoc
import pytest
import yaml
from lxml import html

from course_press.pages import about, quarto, site
from course_press.pages.references import labels_written
from course_press.source.assets import ASSETS
from course_press.source.labels import label_facts
from tests.the_book import the_book

ROOT = Path(__file__).parent.parent


def numbered(root):
    """What captions, headings and references are numbered as: Quarto and we differ in the marks
    around them only.
    """
    captions = [" ".join(c.text_content().split())[:11] for c in root.cssselect("figcaption")]
    headings = [
        e.text_content()
        for e in root.cssselect("main h2 .header-section-number, main h3 .header-section-number")
    ]
    references = [
        " ".join(a.text_content().split()) for a in root.cssselect("a.xref, a.quarto-xref")
    ]
    return sorted(re.match(r"\w+ [\d.]*\d", c)[0] for c in captions), headings, references


def as_quarto_reads(root, file):
    """A page as Quarto hands it to pandoc, with what it includes in its place and without cells:
    every language's cover.
    """

    def included(match):
        path = match[1]
        return as_quarto_reads(root, root / path.lstrip("/"))

    text = re.sub(
        r"^{{< include (\S+) >}}$", included, file.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return re.sub(r"^```{python}$.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("root", [ROOT, ROOT / "tests" / "fixture"], ids=["book", "fixture"])
def test_the_cover_has_no_id_twice_although_it_includes_every_language(root):
    text = as_quarto_reads(root, root / "index.qmd")
    assert text.count('{anchor="sec-') >= 2
    command = [
        pypandoc.get_pandoc_path(),
        "--from=markdown",
        "--to=html",
        "--lua-filter",
        ASSETS / "course.lua",
    ]
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=True)
    assert "Duplicate" not in done.stderr
    assert done.stdout.count('id="sec-') == text.count('{anchor="sec-')


def test_a_bare_render_dresses_its_pages_as_the_press_does(tmp_path):
    """Quarto runs the script with these variables and its own Python after every render, of one
    page or of all.
    """
    project = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["project"]
    script = ROOT / project["post-render"]
    page = (
        "<html><body><main><header "
        'id="title-block-header"><h1>T</h1></header><p>x</p></main></body></html>'
    )
    for name in ("index", "chapters/es/memory-wall"):
        file = tmp_path / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page, encoding="utf-8")
    given = {**os.environ, "QUARTO_PROFILE": "es", "QUARTO_PROJECT_OUTPUT_DIR": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, script], cwd=ROOT, env=given, check=True)
        for chapter in the_book("es").chapters:
            file = tmp_path / about.url(chapter)
            if file.exists():
                root = html.parse(str(file)).getroot()
                main = root.cssselect("main")[0]
                said = about.page_facts(the_book("es"), chapter)
                addresses = root.xpath("/html/head/meta[@property='og:url']/@content")
                assert addresses == [about.at_site(the_book("es"), about.url(chapter))]
                assert [code.text for code in main.cssselect(".cite code")] == [
                    said["citation"]["bibtex"]
                ]
                wanted = [link["title"] for link in said["prerequisites"] or ()]
                assert [a.text for a in main.cssselect(".prerequisites a")] == wanted


def test_references_that_quarto_resolves_last_read_as_ours_do(tmp_path):
    """A book's references are filled in when every filter has run, with the word before the
    number.
    """
    file = tmp_path / "chapters/ko/memory-wall.html"
    file.parent.mkdir(parents=True)
    file.write_text(
        "<html><body><main><p>"
        '<a class="quarto-xref" href="#sec-a"><span>절&nbsp;2.1</span></a>와 '
        '<a class="quarto-xref" href="#fig-b">그림&nbsp;1.1</a>는 &lt;두&gt; '
        '<a class="quarto-xref" href="#tbl-c">표&nbsp;3.2</a></p></main></body></html>',
        encoding="utf-8",
    )
    quarto.add_facts(the_book("ko"), tmp_path)
    page = html.fromstring(file.read_text(encoding="utf-8"))
    assert page.cssselect("main p")[0].text_content() == "2.1절과 그림\u00a01.1은 <두> 표\u00a03.2"
    assert [a.get("href") for a in page.cssselect("a.quarto-xref")] == [
        "#sec-a",
        "#fig-b",
        "#tbl-c",
    ]


def test_contents_mark_the_short_path_which_goes_on_below_the_text(tmp_path):
    """In chapters that are rendered alone: what Quarto puts in the cover's place leads on only."""
    book, site = the_book("en"), tmp_path / "en"
    addresses = [f"../../{about.url(chapter)}" for chapter in book.chapters]
    contents = "".join(f'<a href="{to}">A page</a>' for to in addresses)
    sections = "".join(f'<a href="#{id_}">A section</a>' for id_ in label_facts(book))
    on, written = about.path(), labels_written(book)
    at = {id_: f"../../{about.url(written[id_])}" for id_ in on}
    (site / "chapters" / "en").mkdir(parents=True)
    (site / "index.html").write_text("<meta http-equiv='refresh' content='0;URL=index.html'>")
    for to in at.values():
        (site / "chapters" / "en" / to).write_text(
            f'<body><nav id="quarto-sidebar">{contents}</nav><nav id="TOC">{sections}</nav>'
            "<main><p>x</p></main></body>",
            encoding="utf-8",
        )
    quarto.add_facts(book, site, draw=False)
    quarto.link_up(book, tmp_path, ["en"])
    for id_, further in pairwise(on):
        page = html.parse(str(site / "chapters" / "en" / at[id_])).getroot()
        marked = page.xpath("//a[*[@class='on-path']]/@href")
        assert set(marked) == {f"#{one}" for one in on} | set(at.values())
        if at[further] != at[id_]:
            to = f"{at[further]}#{further}"
            assert page.xpath("//main/p[@class='further']/a/@href") == [to]


def test_a_python_without_the_press_does_not_fail_a_render(tmp_path):
    """Quarto takes the first Python that it finds, which need not be the book's."""
    script = (
        ROOT
        / yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["project"][
            "post-render"
        ]
    )
    given = {**os.environ, "QUARTO_PROJECT_OUTPUT_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-S", script],
        cwd=ROOT,
        env=given,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "set QUARTO_PYTHON to the Python of this book" in done.stderr


@pytest.mark.quarto
def test_quarto_renders_the_same_pages_numbers_and_alternatives(tmp_path):
    if not quarto.executable():
        pytest.skip(
            "NO QUARTO ON PATH: the Quarto engine is not tested here (course doctor says "
            "how to get it)"
        )
    copy = tmp_path / "book"
    shutil.copytree(
        ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "_site", ".cache", ".quarto")
    )
    langs = site.languages(copy)
    quarto.build(copy, langs, copy / "theirs")
    site.build(copy, langs, copy / "ours")
    for page in (copy / "ours").rglob("*.html"):
        if page.parent.name == "slides":  # decks are the same engine's on both
            continue
        name = page.relative_to(copy / "ours")
        theirs, ours = (
            html.parse(str(copy / engine / name)).getroot() for engine in ("theirs", "ours")
        )
        assert numbered(theirs) == numbered(ours), name
        alternatives = [
            [svg.get("aria-label") for svg in root.cssselect("figure svg[role=img]")]
            for root in (theirs, ours)
        ]
        assert alternatives[0] == alternatives[1], name
        text = (copy / "theirs" / name).read_text(encoding="utf-8")
        assert not re.search(
            r"<(?:script|img)[^>]+src=\"https?:|<link[^>]+rel=\"(?:stylesheet|icon)\"[^>]+href=\"https?:",
            text,
        ), name
        assert not re.search(r"\?@|quarto-unresolved-ref", text), name
