"""Rivals of the book's terms: found wherever somebody reads them, and nowhere in the book."""

import csv
import shutil
from pathlib import Path

import pytest

from course_book.text import languages, words
from course_press.check import rules
from course_press.check.rules import check_book
from course_press.check.terms import forbidden
from tests.the_book import the_book

ROOT = Path(__file__).parents[3]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A copy of the files that are read for rivals, in place of the library's."""
    for name in ("words.csv", "definitions.csv", "rivals.csv"):
        shutil.copy(rules.DATA / name, tmp_path / name)
    shutil.copytree(rules.DATA / "exercises", tmp_path / "exercises")
    monkeypatch.setattr(rules, "DATA", tmp_path)
    return tmp_path


def rivals_in(book):
    return [str(one) for one in check_book(book.root) if "this book's word" in one.said]


@pytest.mark.parametrize(
    ("path", "old", "new", "line", "rival"),
    [
        ("chapters/en/one.qmd", "In the margin.", "Quantisation,", 62, "quantisation"),
        ("chapters/en/one.qmd", "In the margin.", "A data\nsheet.", 62, "data sheet"),
        (
            "chapters/es/one.qmd",
            "In the margin.",
            "Un\u00a0roofline o línea de techo.",
            62,
            "línea de techo",
        ),
    ],
)
def test_a_rival_in_prose_is_found_where_it_begins(book, path, old, new, line, rival):
    book.edit(path, old, new)
    (finding,) = rivals_in(book)
    assert finding.startswith(f"{path}:{line}: '{rival}")
    assert "→ write '" in finding


@pytest.mark.parametrize(
    ("file", "old", "new", "rival", "chosen"),
    [
        ("words.csv", ",통신 시간,", ",레이턴시,", "레이턴시", "지연 시간"),
        ("words.csv", ",memory wall,", ",data sheet,", "data sheet", "datasheet"),
        ("definitions.csv", "tensores que", "arrays que", "arrays", "tensores"),
        ("exercises/common.en.toml", "Right:", "Quantised:", "quantised", "quantized"),
        ("exercises/common.ko.toml", "[phrases]\n", '[phrases]\n병목 = "보틀넥의"\n', "보틀넥", "병목"),
    ],
)  # fmt: skip
def test_a_rival_in_the_data_is_found(book, data, file, old, new, rival, chosen):
    edited = data / file
    text = edited.read_text(encoding="utf-8")
    assert old in text
    line = text.partition(old)[0].count("\n") + 1 + old.count("\n")
    edited.write_text(text.replace(old, new, 1), encoding="utf-8")
    finding = rivals_in(book)[0]
    assert finding.startswith(f"{edited}:{line}:")
    assert f"{rival!r} is not this book's word" in finding
    assert chosen in finding


def test_a_rival_that_is_part_of_a_term_or_of_another_word_is_none(book):
    for text in ("unquantised", "`quantised`", "[x](quantised.html)"):
        book.edit("chapters/en/one.qmd", "In the margin.", f"In the margin. {text}")
    assert rivals_in(book) == []


def test_the_book_has_no_rivals():
    books = [the_book(lang) for lang in languages()]
    assert [f"{line.file}:{line.number}: {one}" for line, one in forbidden(books, rules.DATA)] == []


def test_every_rival_stands_beside_a_word_of_its_language():
    with (rules.DATA / "rivals.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"en", "es", "ko"} <= {row["lang"] for row in rows} <= set(languages())
    assert len({(row["lang"], row["rival"]) for row in rows}) == len(rows)
    for row in rows:
        own = words(row["lang"]).get(row["key"], row["key"])
        assert row["rival"].lower() != own.partition("(")[0].strip().lower()
        # a mistyped key would be shown as the word to write
        assert row["key"] in words(row["lang"]) or "-" not in row["key"] or " " in row["key"]


def test_readers_may_ask_by_a_rival_and_no_page_says_it():
    asked = {
        name.strip()
        for lang in languages()
        for other in words(lang, "also").values()
        for name in other.split(";")
    }
    with (rules.DATA / "rivals.csv").open(encoding="utf-8", newline="") as file:
        rivals = {row["rival"] for row in csv.DictReader(file)}
    assert asked & rivals
    assert list(forbidden([], rules.DATA)) == []
