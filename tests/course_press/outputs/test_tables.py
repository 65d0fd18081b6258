"""Tables as a page has them: what its cells say beyond their text."""

import pytest

from course_book.text import Span, english, in_language, plain, table
from course_press.outputs.tables import markdown


@pytest.mark.parametrize(("lang", "shown"), [("en", "A title"), ("ko", "[A title]{lang=en}")])
def test_a_note_in_english_says_so_on_pages_of_other_languages(lang, shown):
    with in_language(lang):
        note = english("A title")
        cells = [[note, plain("(", note, ")"), english("")]]
    assert markdown(table(["a", "b", "c"], cells)).endswith(f"| {shown} | ({shown}) |  |")


def test_a_span_of_which_nothing_is_said_is_its_text():
    assert markdown(table(["a"], [[Span("x")]])).endswith("| x |")


def columns(shown):
    """The columns of a table as a page has them: the spaces that align numbers as `_` and `~`."""
    lines = markdown(shown).replace("&#8200;", "_").replace("&#8199;", "~").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [[row[at] for row in (rows[0], *rows[2:])] for at in range(len(rows[0]))]


@pytest.mark.parametrize(
    ("lang", "cells", "shown"),
    [
        ("en", ["0.3", "0.4524", "1,024"], ["x", "0.3~~~", "0.4524", "1,024~~~~_"]),
        ("es", ["0,3", "0,4524", "1 024"], ["x", "0,3~~~", "0,4524", "1 024~~~~_"]),
        ("en", ["2×", "1.99×"], ["x", "2×~~_", "1.99×"]),
        ("en", ["≈ 2%", "0.5%"], ["x", "≈ 2%~_", "0.5%"]),
        ("en", ["never", "0.5", "10"], ["x", "never", "0.5", "10~_"]),
        ("en", ["0.5 ms", "3 s"], ["x", "0.5 ms", "3 s"]),
        ("en", ["9.89 × 10¹⁴", "1 × 10¹⁵"], ["x", "9.89 × 10¹⁴", "1 × 10¹⁵"]),
    ],
)
def test_the_points_of_a_column_stand_one_below_the_other(lang, cells, shown):
    with in_language(lang):
        assert columns(table(["", "x"], [["", cell] for cell in cells]))[1] == shown


@pytest.mark.parametrize(
    ("head", "cells", "shown"),
    [
        ("I", ["0.3 FLOP/B", "12 FLOP/B"], ["I (FLOP/B)", "0.3", "12~_"]),
        ("T", ["3 ms", "", "0.5 ms"], ["T (ms)", "3~_", "", "0.5"]),
        ("Q", ["3 GB", "4 GiB"], ["Q", "3 GB", "4 GiB"]),
        ("Q", ["3 GB", "all 4 GB"], ["Q", "3 GB", "all 4 GB"]),
        ("Q (both)", ["3 GB", "4 GB"], ["Q (both)", "3 GB", "4 GB"]),
        ("Q", ["3 GB"], ["Q", "3 GB"]),
        ("Q", ["3 tokens", "4 tokens"], ["Q", "3 tokens", "4 tokens"]),
    ],
)
def test_a_unit_that_a_column_shares_stands_in_its_head(head, cells, shown):
    assert columns(table(["", head], [["", cell] for cell in cells]))[1] == shown


@pytest.mark.parametrize(
    ("others", "shown"),
    [
        (["900 µs", "1.2 ms"], ["T", "3 ms", "0.5 ms"]),
        (["900 µs", "120 µs"], ["T", "3 ms", "0.5 ms"]),
        (["9 ms", "1 ms"], ["T (ms)", "3~_", "0.5"]),
        (["9 GB", "1.2 TB"], ["T (ms)", "3~_", "0.5"]),
    ],
)
def test_units_stay_beside_numbers_that_are_compared_across_columns(others, shown):
    rows = [["", time, other] for time, other in zip(["3 ms", "0.5 ms"], others, strict=True)]
    assert [cell.replace("~_", "") for cell in columns(table(["", "T", "U"], rows))[1]] == [
        cell.replace("~_", "") for cell in shown
    ]


def test_a_column_that_is_no_figure_and_a_table_without_rows_stay_as_they_are():
    assert columns(table(["a", "b"], [["2 s", "x"], ["1.5 s", "y"]])) == [
        ["a", "2 s", "1.5 s"],
        ["b", "x", "y"],
    ]
    assert columns(table(["a", "b"], [])) == [["a"], ["b"]]
