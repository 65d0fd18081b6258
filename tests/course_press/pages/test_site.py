import base64
import hashlib
import json
import re
from functools import cache
from pathlib import Path

import html5lib
import pypandoc
import pytest
from lxml import html

from course_lib import CourseError
from course_press.check import parity
from course_press.check import rules as check
from course_press.pages import about
from course_press.pages import pandoc as printing
from course_press.source import book as reading
from course_press.source.book import read_book
from course_press.source.errors import SourceError
from tests.bench_pages import FIRST_VISIT, weight
from tests.course_press.conftest import Copy

ONE = "chapters/en/one.qmd"


def page(site, path="en/chapters/en/one.html"):
    return html.parse(str(site / path)).getroot()


def text(element):
    return " ".join(element.text_content().split())


def test_references_say_kind_and_number(built):
    one, two, cover = (
        page(built),
        page(built, "en/chapters/en/two.html"),
        page(built, "en/index.html"),
    )
    said = [(a.get("href"), text(a)) for a in one.cssselect("a.xref")]
    assert said == [
        ("#fig-line", "Figure 1.1"),
        ("#tbl-words", "Table 1.1"),
        ("#eq-roof", "Equation 1.1"),
        ("#lst-hello", "Listing 1.1"),
        ("#sec-sub", "Section 1.1.1"),
        ("#fig-line", "1.1"),
        ("../../chapters/en/two.html#sec-there", "Section 2.1"),
    ]
    assert [text(a) for a in two.cssselect("a.xref")] == ["Figure 1.1"]
    assert [a.get("href") for a in cover.cssselect("a.xref")] == ["chapters/en/one.html#fig-line"]
    assert [text(a) for a in page(built, "es/chapters/es/one.html").cssselect("a.xref")][:3] == [
        "Figura 1.1",
        "Tabla 1.1",
        "Ecuación 1.1",
    ]


def test_lines_of_code_carry_no_names_that_nothing_leads_to(built):
    one = page(built)
    assert one.cssselect("div.sourceCode > pre code > span")
    assert not one.cssselect("[id^=cb], a[href^='#cb']")


def test_floats_have_number_caption_and_alternative(built):
    one = page(built)
    assert [text(label) for label in one.cssselect(".caption-label")] == [
        "Figure 1.1",
        "Table 1.1",
        "Listing 1.1",
    ]
    assert "A caption with 2 TB/s in it." in text(one.cssselect("#fig-line figcaption")[0])
    svg = one.cssselect("#fig-line svg")[0]
    assert (svg.get("role"), svg.get("aria-label")) == ("img", 'A line that bends at the "ridge"')
    assert text(one.cssselect("#eq-roof .equation-number")[0]) == "(1.1)"


def test_every_feature_is_on_the_page(built):
    one = page(built)
    for selector in (
        "details.cell-code summary",
        "div.cell-code code.python",
        ".callout-note .callout-title",
        "details.predict em",
        ".tabset .tab .tab-title",
        "div.margin-note",
        "span.margin-note",
        "#footnotes li",
        "#refs #ref-williams2009",
        "math",
        ".table-scroll[tabindex='0'] table",
        "h2#unnumbered, section#unnumbered",
        "nav.toc a[href='#sec-sub']",
    ):
        assert one.cssselect(selector), selector
    assert text(one.cssselect(".callout-note .callout-title")[0]) == "Titled by a heading"
    said = text(one.cssselect("article")[0])
    assert "Not Spanish." in said
    assert "Only Spanish." not in said
    assert "`{python} not_evaluated`" in said
    assert "Only Spanish." in text(page(built, "es/chapters/es/one.html"))
    assert "The ridge is 500 FLOP/B" in said  # no-break spaces
    assert "English preface" in text(page(built, "en/index.html"))
    assert "Prefacio" not in text(page(built, "en/index.html"))


def test_numbers_and_neighbours(built):
    one, two = page(built), page(built, "en/chapters/en/two.html")
    assert text(one.cssselect("#sec-first h2 .header-section-number")[0]) == "1.1"
    assert not one.cssselect("#unnumbered .header-section-number")
    assert text(one.cssselect(".eyebrow")[0]) == "Chapter 1"
    assert [a.get("href") for a in two.cssselect(".turn a")] == ["../../chapters/en/one.html"]
    assert text(one.cssselect(".sidebar [aria-current]")[0]) == "1 Chapter one"
    assert text(one.cssselect(".sidebar .part span")[0]) == "Part en"


def test_metadata(built):
    head = page(built).cssselect("head")[0]
    meta = {
        m.get("name") or m.get("property"): m.get("content")
        for m in head.cssselect("meta[content]")
    }
    assert meta["description"] == meta["og:description"] == "The first."
    assert meta["og:title"] == "Chapter one · Fixture (en)"
    assert (
        head.cssselect("link[rel=canonical]")[0].get("href")
        == "https://example.org/book/en/chapters/en/one.html"
    )
    others = {link.get("hreflang"): link.get("href") for link in head.cssselect("link[hreflang]")}
    assert others["es"] == "https://example.org/book/es/chapters/es/one.html"
    deck, edit, issue = (a.get("href") for a in page(built).cssselect(".actions a"))
    assert deck == "../../slides/one.html"
    assert edit == "https://github.com/example/book/edit/main/chapters/en/one.qmd"
    assert issue == "https://github.com/example/book/issues/new?title=chapters/en/one.qmd"


def test_every_page_says_what_it_may_load_and_run(built):
    """The template's own scripts, by their hashes, and the site's files: no text of a page is among
    them.
    """
    for file in built.rglob("*.html"):
        shown = file.read_text(encoding="utf-8")
        (policy,) = (
            m.get("content")
            for m in html.fromstring(shown).cssselect("meta[http-equiv=Content-Security-Policy]")
        )
        assert policy.startswith("default-src 'self' file:; script-src 'self' file:")
        assert ("'sha256-" in policy) == ("<script>" in shown)
        assert "unsafe-eval" not in policy
        assert re.search(r"script-src[^;]*unsafe", policy) is None
        for script in re.findall(r"<script>(.*?)</script>", shown, re.DOTALL):
            assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy


def test_a_script_in_the_text_of_a_page_is_not_among_those_that_may_run(book):
    book.edit(ONE, "In the margin.", "```{=html}\n<script>stolen()</script>\n```")
    book.build()
    policy = (
        page(book.root / "_site")
        .cssselect("meta[http-equiv=Content-Security-Policy]")[0]
        .get("content")
    )
    assert base64.b64encode(hashlib.sha256(b"stolen()").digest()).decode() not in policy


def test_a_notebook_is_linked_and_copied_where_there_is_one(book):
    notebook = book.root / "notebooks" / "en" / "one.ipynb"
    notebook.parent.mkdir(parents=True)
    notebook.write_text("{}")
    book.build()
    hrefs = [a.get("href") for a in page(book.root / "_site").cssselect(".actions a")]
    assert hrefs[1] == "../../notebooks/en/one.ipynb"
    assert (
        hrefs[2]
        == "https://colab.research.google.com/github/example/book/blob/v0.1.0/notebooks/en/one.ipynb"
    )
    assert (book.root / "_site/en/notebooks/en/one.ipynb").is_file()


def test_links_and_anchors_lead_somewhere_and_nothing_leaves_the_origin(built):
    check_site(built)


def check_site(site):
    # A 404 stands for any address, so its links are whole paths: it has a test of its own.
    files = [file for file in site.rglob("*.html") if file.name != "404.html"]
    pages = {file: html.parse(str(file)).getroot() for file in files}
    named = {file.resolve(): root.xpath("//@id") for file, root in pages.items()}
    ids = {file: set(names) for file, names in named.items()}
    resolved = cache(lambda folder, path: (to := (folder / path).resolve(), to.exists()))
    for file, names in named.items():
        assert len(names) == len(ids[file]), f"{file} has an id twice"
    for file, root in pages.items():
        for one in root.cssselect("figure[id^='fig-'], figure[id^='tbl-']"):
            held = one.cssselect("table" if one.get("id").startswith("tbl") else "svg, img")
            assert held, f"{file}: #{one.get('id')} is empty"
        for target in root.xpath("//@href | //@src | //@srcset | //@poster"):
            element = target.getparent()
            loads = element.tag in ("script", "img", "iframe", "source") or element.get("rel") in (
                "stylesheet",
                "icon",
            )
            if target.startswith(("http:", "https:", "mailto:")):
                assert not loads, f"{file} loads {target}"
                continue
            if target.startswith("data:") or target.attrname not in ("href", "src"):
                continue
            path, _, anchor = target.partition("#")
            to, there = resolved(file.parent, path or file.name)
            assert there, f"{file} links to {target}"
            if anchor:
                assert anchor in ids[to], f"{file} links to {target}"
    for style in site.rglob("*.css"):
        # The name of a language of pictures asks for nothing.
        text = style.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//fonts", text)


def test_the_book_itself_has_no_dead_link(whole_book):
    check_site(whole_book)
    for page in sorted(whole_book.glob("*/chapters/*/*.html")):
        assert weight(whole_book, page.relative_to(whole_book).as_posix()) < FIRST_VISIT, page


def test_what_has_moved_stands_where_its_old_page_says(whole_book):
    moved = 0
    for file in whole_book.glob("*/chapters/*/*.html"):
        here = html.parse(str(file)).getroot()
        for mark in here.cssselect("[data-moved]"):
            # In one order, which a Lua table hasn't: or each build would write another page.
            assert list(mark.attrib)[-3:] == ["hidden", "data-moved", "data-to"]
            there = html.parse(str(file.with_name(mark.get("data-to")))).getroot()
            ids = set(mark.get("data-moved").split())
            assert ids <= set(there.xpath("//@id"))
            assert not ids & set(here.xpath("//@id"))
            moved += len(ids)
    assert moved > 100


def test_the_book_itself_is_valid_html(whole_book):
    """Every thirteenth of all pages and decks: by name, each time in another language."""
    pages = sorted(whole_book.rglob("*.html"), key=lambda page: page.parts[::-1])
    check_html(pages[::13])


@pytest.mark.exhaustive
def test_the_whole_book_is_valid_html(whole_book):
    check_html(whole_book.rglob("*.html"))


def check_html(files):
    for file in files:
        parser = html5lib.HTMLParser()
        parser.parse(file.read_text(encoding="utf-8"))
        assert parser.errors == [], file
        ids = re.findall(r'(?<= )id="([^"]+)"', file.read_text(encoding="utf-8"))
        assert len(ids) == len(set(ids)), file


def test_pages_are_valid_html(built):
    check_html(built.rglob("*.html"))


def test_search_index_is_a_script_with_what_readers_see(built):
    script = (built / "en/search.js").read_text(encoding="utf-8")
    quoted = script.removeprefix("window.COURSE_SEARCH = '").removesuffix("';\n")
    index = json.loads(quoted.replace("\\'", "'").replace("\\\\", "\\"))
    found = {one["url"]: one for one in index["storedFields"].values()}
    first = found["chapters/en/one.html#sec-first"]
    assert (first["page"], "label" in first) == ("Chapter one", False)
    assert "see Figure\u00a01.1, Table\u00a01.1" in first["text"]
    assert "import" not in first["text"]
    assert "\\min" not in first["text"]
    figure = found["chapters/en/one.html#fig-line"]
    assert (figure["label"], figure["title"]) == (
        "Figure\u00a01.1",
        "A caption with 2\u00a0TB/s in it.",
    )


def test_a_date_stays_on_one_line(book):
    book.edit("chapters/en/one.qmd", "In the margin.", "In the margin on 2026-11-09 or 2026-1109.")
    book.build(("en",))
    assert [
        date.text
        for date in page(book.root / "_site", "en/chapters/en/one.html").cssselect(".nowrap")
    ] == ["2026-11-09"]


def test_landing_page_and_one_language_at_a_time(book):
    book.build(("en",))
    out = book.root / "_site"
    assert "refresh" in (out / "index.html").read_text()
    assert not page(out).cssselect(".languages")
    book.build(("es",))
    assert [
        a.get("href") for a in html.parse(str(out / "index.html")).getroot().cssselect("a.start")
    ] == ["en/index.html", "es/index.html"]
    assert (out / "en/index.html").exists()
    switch = page(out, "es/chapters/es/one.html").cssselect(".languages a")
    assert [a.get("href") for a in switch] == [
        "../../../en/chapters/en/one.html",
        "../../../es/chapters/es/one.html",
    ]


def test_a_lost_reader_is_led_to_every_language_from_any_depth(book):
    book.edit("_quarto-es.yml", "title: Fixture (es)", "title: Ejemplo")
    book.build(("en", "es"))
    lost = (book.root / "_site/404.html").read_text(encoding="utf-8")
    root = html.fromstring(lost)
    addresses = root.xpath("//@href | //@src")
    assert {one.split("/")[1] for one in addresses} == {"book"}  # the path of site-url
    assert [a.get("href") for a in root.cssselect("a.start")] == [
        "/book/en/index.html",
        "/book/es/index.html",
    ]
    for one in addresses:
        assert (book.root / "_site" / one.removeprefix("/book/")).is_file()
    assert "<script" not in lost
    assert "--ink:" in root.xpath("string(//style)")  # no file of another host or path dresses it
    assert not root.xpath("//link[@rel='stylesheet']")
    assert "refresh" not in lost
    assert [section.get("lang") for section in root.cssselect("section")] == ["en", "es"]
    landing = html.fromstring((book.root / "_site/index.html").read_text(encoding="utf-8"))
    assert [
        (part.get("lang"), text(part.cssselect("h1, h2")[0]))
        for part in landing.cssselect("section")
    ] == [("en", "Fixture (en)"), ("es", "Ejemplo")]


@pytest.mark.parametrize("langs", [("en",), ("es",), ("en", "es")])
def test_a_build_reads_each_source_once_and_writes_each_page_once(book, monkeypatch, langs):
    read, wrote = [], []  # of a first build: what is there and the same is not written again
    read_chapter = reading.read_chapter
    monkeypatch.setattr(
        reading, "read_chapter", lambda root, *at: read.append(at) or read_chapter(root, *at)
    )
    for write in (Path.write_text, Path.write_bytes):
        monkeypatch.setattr(
            Path,
            write.__name__,
            lambda file, *what, write=write, **more: (
                wrote.append(file) or write(file, *what, **more)
            ),
        )
    book.build(langs)
    assert len(read) == len(set(read))
    assert {lang for _, lang in read} == {"en", *langs}  # pages say where the English has moved on
    pages = [file for file in wrote if ".html" in file.name]
    assert len(pages) == len(set(pages)) == 2 + 5 * len(langs)  # two of the three pages have slides


def test_a_folder_may_be_called_anything_in_any_locale(tmp_path, monkeypatch):
    for variable in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.setenv(variable, "C")
    copy = Copy(tmp_path / "나의 책 & its $HOME 'áé'")
    assert [file.name for file in copy.build()] == ["one.html", "two.html", "index.html"]


def test_a_failed_build_leaves_the_old_site_untouched(book):
    book.build()
    before = {
        file: file.read_bytes() for file in (book.root / "_site").rglob("*") if file.is_file()
    }
    book.edit("chapters/cells/one/setup.qmd", "2e12", "1 / 0")
    with pytest.raises(SourceError, match="ZeroDivisionError"):
        book.build()
    assert {
        file: file.read_bytes() for file in (book.root / "_site").rglob("*") if file.is_file()
    } == before
    assert [file.name for file in book.root.iterdir() if file.name.startswith("._site")] == []


def test_a_folder_of_something_else_is_never_replaced(book):
    out = book.root / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(CourseError, match="choose a new or empty folder"):
        book.build(out="mine")
    assert (out / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        ("@sec-there", "@sec-where", f"{ONE}:13", "cross-reference @sec-where has no target"),
        (
            "[@williams2009]",
            "[@willians2009]",
            f"{ONE}:13",
            "source willians2009 is in no bibliography",
        ),
        (
            "$$ T = \\frac{2BDF}{\\pi} $$",
            "$$ T = \\frak2{BDF $$",
            f"{ONE}:37",
            "this formula cannot be set",
        ),
        ("In the margin.", "[gone](three.qmd)", f"{ONE}:62", "no such page"),
        ("In the margin.", "[gone](two.qmd#sec-gone)", f"{ONE}:62", "no such anchor"),
        ("In the margin.", "![alt](gone.svg)", f"{ONE}:62", "image gone.svg does not exist"),
        (
            ' fig-alt="A line that bends at the \\"ridge\\""',
            "",
            f"{ONE}:17",
            "#fig-line needs a text alternative",
        ),
        ("{#eq-roof}", "{#eq-roof} $$x$$ {#eq-roof}", f"{ONE}:35", "#eq-roof"),
    ],
)
def test_errors_name_file_and_line(book, old, new, where, message):
    book.edit(ONE, old, new)
    with pytest.raises(SourceError) as error:
        book.build()
    assert str(error.value).startswith(where)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/hostname",
        "../../../outside.png",
        "../../../../../../../../../../etc/hostname",
        "link.png",
    ],
)
def test_an_image_is_read_from_the_book_and_written_into_the_site_and_nowhere_else(book, path):
    (book.root.parent / "outside.png").write_bytes(b"secret")
    (book.root / "chapters/en/link.png").symlink_to(book.root.parent / "outside.png")
    book.edit(ONE, "In the margin.", f"![alt]({path})")
    before = {file for file in book.root.parent.rglob("*") if ".cache" not in file.parts}
    with pytest.raises(
        SourceError, match=rf"one\.qmd:62: image {re.escape(path)} lies outside the book's folder"
    ):
        book.build()
    assert {file for file in book.root.parent.rglob("*") if ".cache" not in file.parts} == before


def test_an_output_that_no_page_can_show_is_named_with_its_cell(book):
    book.edit(
        "chapters/cells/one/hello.qmd",
        "print(",
        "display({'application/pdf': 'x'}, raw=True)\nprint(",
    )
    with pytest.raises(
        SourceError, match=r"hello\.qmd:1: a page cannot show what this cell gives: application/pdf"
    ):
        book.build()


def test_a_pandoc_that_only_waits_for_a_busy_machine_goes_on(book, tmp_path, monkeypatch):
    slow = tmp_path / "pandoc"
    slow.write_text(f"#!/bin/sh\nsleep 2\nexec '{pypandoc.get_pandoc_path()}' \"$@\"\n")
    slow.chmod(0o755)
    monkeypatch.setattr(pypandoc, "get_pandoc_path", lambda: str(slow))
    monkeypatch.setattr(printing, "TIMEOUT", 1)
    assert book.build()


def test_pandoc_has_a_limit_of_time(book, monkeypatch):
    monkeypatch.setattr(printing, "TIMEOUT", 1)  # of computing: no other page takes half of it
    book.edit(ONE, "In the margin.", "[" * 3000)
    with pytest.raises(
        SourceError,
        match=r"one\.qmd:62: pandoc computed for longer than 1 s on this page, .*; this is its longest "
        r"line",
    ):
        book.build()


@pytest.mark.parametrize("text", ["{", "[]", '{"one": 1}', '{"one": {"top": 3}}', "caf\xe9"])
def test_stamps_that_cannot_be_read_are_named(book, text):
    (book.root / "chapters/es/stamps.json").write_text(text, encoding="latin-1")
    with pytest.raises(SourceError, match=r"^chapters/es/stamps\.json:1: .*(course stamp|UTF-8)"):
        parity.read_stamps(book.root, "es")


@pytest.mark.parametrize("text", ["{", "[1]", '[{"title": "x"}]'])
def test_a_bibliography_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / "sources.json").write_text(text)
    with pytest.raises(SourceError, match=r"sources\.json:1: is no list of sources"):
        check.bibliography_keys([tmp_path / "sources.json"])


def test_a_date_that_is_none_is_named(book):
    book.edit("_quarto.yml", "date: 2026-01-02", "date: today")
    with pytest.raises(SourceError, match=r"_quarto\.yml:1: book\.date must be a day"):
        about.citation(read_book(book.root, "en"), read_book(book.root, "en").chapters[1])


def test_the_same_label_twice_is_an_error(book):
    book.edit("chapters/en/two.qmd", "{#sec-there}", "{#sec-first}")
    with pytest.raises(
        SourceError, match=r"two\.qmd:6: label #sec-first stands in chapters/en/one\.qmd already"
    ):
        book.build()


def test_no_line_of_a_title_ends_inside_a_name_and_the_start_has_one_colon(book):
    book.edit(ONE, "title: Chapter one", 'title: "Chapter one: ResNet-50"')
    book.build()
    assert page(book.root / "_site").cssselect("h1")[0].text == "Chapter one: ResNet-\u206050"
    cover = html.parse(str(book.root / "_site/en/index.html")).getroot()
    assert cover.cssselect("a.start")[0].text.strip() == "Start: Chapter one"
