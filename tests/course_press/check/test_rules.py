import pytest

from course_lib.specs import DATA
from course_press.check.rules import check_book

ONE = "chapters/en/one.qmd"


def found(book):
    """Findings, without those that the translation of an edited page has: test_parity is about
    them.
    """
    return [
        finding
        for finding in check_book(book.root)
        if "es" not in finding.file.parts and "out of date" not in finding.said
    ]


def test_a_sound_book_has_no_findings(book):
    assert check_book(book.root) == []


@pytest.mark.parametrize(
    ("path", "old", "new", "line", "what"),
    [
        (ONE, "@sec-there", "@sec-where", 13, "@sec-where has no target"),
        (ONE, "[@williams2009]", "[@nobody2009]", 13, "@nobody2009 is in no bibliography"),
        (
            "chapters/en/two.qmd",
            "Back to",
            "## Again {#sec-there}\n\nBack to",
            8,
            "label #sec-there stands at",
        ),
        (ONE, 'n(peak, "FLOP/s")', "str(peak)", 12, "is not a call of n() or t()"),
        (ONE, 'n(peak, "FLOP/s")', "n(peak", 12, "is not an expression"),
        (
            ONE,
            "with $I$ inline",
            "with $I = `{python} n(1)`$ inline",
            35,
            "inline code inside maths",
        ),
        (
            ONE,
            "with $I$ inline",
            "with $I > 240.5$ inline",
            35,
            "decimal numeral inside maths: $I > 240.5$",
        ),
        (ONE, "In the margin.", "It takes 1.01 ms.", 62, "number typed by hand: 1.01 ms"),
        (ONE, "In the margin.", "That is 3.35 TB/s, or so.", 62, "number typed by hand: 3.35 TB/s"),
        (ONE, "In the margin.", "Some 2–3× faster", 62, "number typed by hand: 2–3×"),
        (ONE, "In the margin.", "A peak of 9.89e14 there", 62, "number typed by hand: 9.89e14"),
        (
            "chapters/cells/one/setup.qmd",
            "#| code-fold: false",
            "#| echo: true",
            1,
            "only imports and names things",
        ),
        (
            "chapters/cells/one/words.qmd",
            "#| code-fold: false",
            "#| echo: true",
            1,
            "ends in a table or a figure",
        ),
        (
            "chapters/cells/one/setup.qmd",
            "2e12",
            f"2e12  # {'x' * 88}",
            6,
            "code line of 120 characters",
        ),
        ("chapters/en/_preface.qmd", "English preface", "English `{python} n(1)` preface", 3, "@"),
    ],
)
def test_every_rule_fires(book, path, old, new, line, what):
    book.edit(path, old, new)
    if what == "@":
        book.edit("index.qmd", "engine: jupyter\n", "")
        what = "index.qmd has inline code but no cell"
    findings = found(book)
    assert [(str(f.file), f.line) for f in findings] == [(path, line)]
    assert what in str(findings[0])
    assert "→" in str(findings[0])


def test_numbers_that_are_no_quantities_are_left_alone(book):
    book.edit(
        ONE,
        "In the margin.",
        "Chapter 2 of 2009, a TPU v5e, an H100, bf16, 16-bit, `3 ms`, $2BDF$, "
        "[two](two.qmd), 3 chips.",
    )
    assert found(book) == []


def test_a_number_may_be_allowed_with_a_reason_and_only_where_it_stands(book):
    book.edit(ONE, "In the margin.", "It holds 16 bits.")
    assert len(found(book)) == 1
    allowed = book.root / "chapters" / "allowed-numbers.toml"
    allowed.write_text('[["one.qmd"]]\ntext = "16 bits"\nreason = "a name"\n')
    assert found(book) == []
    book.edit(ONE, "It holds 16 bits.", "In the margin.")
    assert "'16 bits' is allowed in one.qmd and does not stand there" in str(found(book)[0])


def test_a_cell_that_nobody_includes_is_found(book):
    (book.root / "chapters/cells/one/spare.qmd").write_text("```{python}\n1\n```\n")
    assert [str(f.file) for f in found(book)] == ["chapters/cells/one/spare.qmd"]


def test_a_book_that_cannot_be_read_is_a_finding(book):
    book.edit(ONE, "::: {.column-margin}", "::: {.column-page}")
    findings = found(book)
    assert [(str(f.file), f.line) for f in findings] == [(ONE, 61)]


def test_a_figure_without_a_source_is_a_finding(book, tmp_path, monkeypatch):
    good = (DATA / "chips" / "t4.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(
        good.replace('sources = ["nvidia-t4"', 'sources = ["nvidia-t5"', 1), encoding="utf-8"
    )
    monkeypatch.setenv("COURSE_CHIPS", str(tmp_path))
    (finding,) = found(book)
    assert finding.file.name == "mine.toml"
    assert "unknown source 'nvidia-t5': did you mean 'nvidia-t4'?" in finding.said
