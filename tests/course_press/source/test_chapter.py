import pytest

from course_lib import CourseError
from course_press.source import chapter
from course_press.source.book import Part, languages, read_book
from course_press.source.errors import SourceError

ONE = "chapters/en/one.qmd"


def test_a_book_is_read_with_includes_cells_and_inlines(book):
    en = read_book(book.root, "en")
    assert languages(book.root) == ["en", "es"]
    assert [c.title for c in en.chapters] == ["Cover", "Chapter one", "Chapter two"]
    assert [c.number for c in en.chapters] == [None, 1, 2]
    assert [c.unnumbered for c in en.chapters] == [True, False, False]
    assert isinstance(en.contents[1], Part)
    one = en.chapters[1]
    assert [cell.lines[0].file.name for cell in one.cells] == [
        "setup.qmd",
        "line.qmd",
        "words.qmd",
        "hello.qmd",
    ]
    assert [cell.options for cell in one.cells] == [
        {"code-fold": False},
        {"code-fold": True},
        {"code-fold": False},
        {"echo": False},
    ]
    assert [inline.expression for inline in one.inlines][:2] == [
        'n(ridge(peak, bandwidth), "FLOP/B")',
        'n(peak, "FLOP/s")',
    ]
    assert not any("not_evaluated" in inline.expression for inline in one.inlines)


def test_profiles_are_merged_key_by_key_and_lists_one_after_the_other(book):
    book.edit("_quarto-en.yml", "lang: en", "lang: en\nbibliography: [more.bib]")
    (book.root / "more.bib").touch()
    en = read_book(book.root, "en")
    assert [file.name for file in en.bibliography] == ["references.bib", "more.bib"]
    assert en.meta["author"] == "Nobody"
    assert en.meta["title"] == "Fixture (en)"


def test_includes_may_start_at_the_root_and_nest(book):
    book.edit(ONE, "../cells/one/hello.qmd", "/chapters/cells/one/nested.qmd")
    (book.root / "chapters/cells/one/nested.qmd").write_text("{{< include hello.qmd >}}\n")
    assert len(list(read_book(book.root, "en").chapters[1].cells)) == 4


@pytest.mark.parametrize(
    ("path", "old", "new", "where", "message"),
    [
        (
            ONE,
            "../cells/one/hello.qmd",
            "../cells/one/gone.qmd",
            f"{ONE}:30",
            "included file ../cells/one/gone.qmd does not exist",
        ),
        (ONE, "../cells/one/hello.qmd", "one.qmd", f"{ONE}:30", "includes itself"),
        (ONE, "A listing.", "{{< video x.mp4 >}}", f"{ONE}:32", "shortcode video is not known"),
        (
            ONE,
            "A listing.",
            "see {{< include x >}}",
            f"{ONE}:32",
            "shortcode include must stand alone",
        ),
        (
            ONE,
            "::: {.column-margin}",
            "::: {.column-page}",
            f"{ONE}:61",
            ".column-page is not known",
        ),
        (ONE, "::: {.column-margin}", "::: columns", f"{ONE}:61", ".columns is not known"),
        (
            ONE,
            "::: {#lst-hello}",
            "::: {#thm-hello}",
            f"{ONE}:29",
            "#thm-hello must start with one of #fig-",
        ),
        (ONE, "::: {#lst-hello}", "::: {#lst-hello", f"{ONE}:29", "must close on its line"),
        (ONE, "title: Chapter one", "titel: Chapter one", f"{ONE}:2", "front matter key titel"),
        (ONE, "title: Chapter one\n", "", f"{ONE}:1", "has no title"),
        (ONE, "---\n", "", f"{ONE}:1", "has no title"),
        (ONE, "## First section", "# First section", f"{ONE}:8", "sections start at ##"),
        (ONE, "title: Chapter one", "title: [", f"{ONE}:", "not valid YAML"),
        (ONE, "A first paragraph.", "```{r}\n1\n```", f"{ONE}:6", "cells must be {python}"),
        (ONE, "## Unnumbered {.unnumbered}", "```python", f"{ONE}:", "never closed"),
        (
            "chapters/cells/one/line.qmd",
            "#| code-fold: true",
            "#| label: x",
            "chapters/cells/one/line.qmd:2",
            "'label: x' is not known",
        ),
        (
            "_quarto-en.yml",
            "chapters/en/two.qmd",
            "chapters/en/three.qmd",
            "_quarto-en.yml:12",
            "three.qmd does not exist",
        ),
        (
            "_quarto-en.yml",
            "part: Part en",
            "prat: Part en",
            "_quarto-en.yml:",
            "part with chapters",
        ),
        (
            "_quarto.yml",
            "author: Nobody",
            "autor: Nobody",
            "_quarto.yml:7",
            "does not know book.autor",
        ),
        ("_quarto.yml", "execute:", "exceute:", "_quarto.yml:", "does not know exceute"),
        ("_quarto.yml", "  group: [en, es]", "  group: [", "_quarto.yml:", "not valid YAML"),
        (
            "_quarto.yml",
            "  author: Nobody\n",
            "  author: Nobody\n  author: Somebody\n",
            "_quarto.yml:8",
            "author stands twice",
        ),
        (
            "_quarto-en.yml",
            "  title: Fixture (en)\n",
            "",
            "_quarto-en.yml:1",
            "book.title is missing",
        ),
        (
            "_quarto-en.yml",
            "project:\n  output-dir: _site/en\n",
            "project: 1\n",
            "_quarto-en.yml:2",
            "project must hold",
        ),
        (
            "_quarto.yml",
            "references.bib",
            "gone.bib",
            "_quarto.yml:13",
            "bibliography gone.bib does not exist",
        ),
        (
            "_quarto.yml",
            "execute:",
            "csl: gone.csl\nexecute:",
            "_quarto.yml:14",
            "csl gone.csl does not exist",
        ),
        (
            ONE,
            "title: Chapter one\ndescription: The first.\n",
            "- a\n",
            f"{ONE}:2",
            "must hold key: value pairs",
        ),
        (
            "chapters/cells/one/line.qmd",
            "#| code-fold: true",
            "#| echo: [",
            "chapters/cells/one/line.qmd:2",
            "not valid YAML",
        ),
        (
            ONE,
            "{{< include ../cells/one/hello.qmd >}}",
            "{{< include ../../../x.qmd >}}",
            f"{ONE}:30",
            "outside the book's folder",
        ),
        (ONE, "In the margin.\n:::", "In the margin.", f"{ONE}:61", "this div is never closed"),
        (
            ONE,
            "A first paragraph.",
            "A first paragraph.\n\n:::",
            f"{ONE}:8",
            "this ::: closes no div",
        ),
        (
            ONE,
            "::: {.column-margin}",
            "text\n::: {.column-margin}",
            f"{ONE}:62",
            "a div opens after a blank line",
        ),
    ],
)
def test_errors_name_file_and_line(book, path, old, new, where, message):
    book.edit(path, old, new)
    with pytest.raises(SourceError) as error:
        read_book(book.root, "en")
    assert str(error.value).startswith(where)
    assert message in str(error.value)
    assert isinstance(error.value, CourseError)


def test_a_group_of_languages_that_is_none_says_so(book):
    book.edit("_quarto.yml", "  group: [en, es]", "  group: 7")
    with pytest.raises(SourceError, match=r"_quarto\.yml:1: profile\.group names no language"):
        languages(book.root)


def test_a_div_closes_with_any_number_of_colons(book):
    book.edit(ONE, "In the margin.\n:::", "In the margin.\n:::::")
    read_book(book.root, "en")


@pytest.mark.parametrize("path", [ONE, "chapters/cells/one/hello.qmd", "_quarto.yml"])
def test_a_source_that_is_not_utf8_is_named_with_its_line(book, path):
    file = book.root / path
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], b"# ca\xf1on\n", *lines[2:]]))
    with pytest.raises(SourceError, match=rf"^{path}:3: byte 0xf1 is not UTF-8"):
        read_book(book.root, "en")


def test_the_mark_that_some_editors_put_first_changes_nothing(book):
    before = read_book(book.root, "en")
    for path in (ONE, "chapters/cells/one/hello.qmd", "_quarto.yml", "_quarto-en.yml"):
        (book.root / path).write_bytes(b"\xef\xbb\xbf" + (book.root / path).read_bytes())
    assert read_book(book.root, "en") == before


def test_includes_have_a_depth_and_a_page_a_size(book, monkeypatch):
    monkeypatch.setattr(chapter, "LINES", 5000)
    cells = book.root / "chapters/cells/one"
    for i in range(50):
        (cells / f"deep{i}.qmd").write_text(f"{{{{< include deep{i + 1}.qmd >}}}}\n")
    book.edit(ONE, "../cells/one/hello.qmd", "../cells/one/deep0.qmd")
    with pytest.raises(
        SourceError, match=r"deep19\.qmd:1: deep20\.qmd is included more than 20 files deep"
    ):
        read_book(book.root, "en")
    for i in range(4):
        (cells / f"deep{i}.qmd").write_text(f"{{{{< include deep{i + 1}.qmd >}}}}\n" * 10)
    (cells / "deep4.qmd").write_text("boom\n")
    with pytest.raises(
        SourceError,
        match=r"chapters/en/one\.qmd with all that it includes has more than 5000 lines",
    ):
        read_book(book.root, "en")


def test_a_folder_without_a_book_says_so(tmp_path):
    with pytest.raises(
        SourceError, match=r"_quarto\.yml:1: the file does not exist: run this in the book's folder"
    ):
        languages(tmp_path)
