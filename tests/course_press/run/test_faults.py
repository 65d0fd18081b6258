"""What a run may not give is refused with its file and line, before anything is printed."""

import re

import pytest

from course_press.exports.book import export_book
from course_press.exports.notebooks import write_notebooks
from course_press.source.errors import SourceError

CELLS, ONE = "chapters/cells/one/", "chapters/en/one.qmd"


@pytest.mark.parametrize(
    ("path", "old", "new", "at", "what"),
    [
        (CELLS + "words.qmd", "table(", "given = table(", ONE, "#tbl-words is empty"),
        pytest.param(
            CELLS + "line.qmd",
            "plot.roofline",
            "None and plot.roofline",
            ONE,
            "#fig-line is empty",
            marks=pytest.mark.exhaustive,
        ),
        (CELLS + "line.qmd", "plot.roofline", "1.5 or plot.roofline", ONE, "#fig-line is empty"),
        pytest.param(
            CELLS + "hello.qmd", "print(", "str(", None, None, marks=pytest.mark.exhaustive
        ),
        (CELLS + "hello.qmd", "print(", "1 / 3, print(", CELLS + "hello.qmd", "0.3333333333333333"),
        pytest.param(
            CELLS + "hello.qmd",
            "print(",
            "print(2**0.5, ",
            CELLS + "hello.qmd",
            "1.4142135623730951",
            marks=pytest.mark.exhaustive,
        ),
        (CELLS + "hello.qmd", "print(", "print(2e-16, ", CELLS + "hello.qmd", "prints 2e-16"),
        (
            CELLS + "words.qmd",
            'n(peak / 3, "FLOP/s")',
            "n(1.1e-16)",
            CELLS + "words.qmd",
            "× 10⁻¹⁶",
        ),
        (ONE, 'n(peak, "FLOP/s")', "n(1 - 0.9 - 0.1)", ONE, "2.78 × 10⁻¹⁷"),
        (ONE, 'n(peak, "FLOP/s")', "n(1 - 0.9 - 0.1, below=1e-15)", None, None),
    ],
)
def test_empty_floats_raw_floats_and_noise_are_refused(book, path, old, new, at, what):
    book.edit(path, old, new)
    if at is None:
        assert write_notebooks(book.root, ["en"])
        return
    with pytest.raises(SourceError, match=re.escape(what)) as refused:
        write_notebooks(book.root, ["en"])
    assert str(refused.value.file) == at


def test_no_printer_prints_a_float_without_a_body(book):
    """Nor one that an earlier run of the same cells left in the cache."""
    write_notebooks(book.root, ["en"])
    include = "{{< include ../cells/one/words.qmd >}}\n"
    book.edit(ONE, f"::: {{#tbl-words}}\n{include}", f"{include}\n::: {{#tbl-words}}\n")
    for printed in (book.build, lambda: export_book(book.root, "en", ["epub"], book.root / "x")):
        with pytest.raises(SourceError, match="#tbl-words is empty"):
            printed()
