"""The changelog of numbers: what changed is found, whatever else was edited, and nothing else is."""

import json
import subprocess

import pytest

from course_lib import CourseError
from course_press.exports import numbers
from tests.course_press.conftest import course


def notebook(*cells):
    """A notebook of texts, and of tables that code gave."""
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "source": "",
                    "outputs": [{"data": {"text/markdown": cell.split("\n")[0:1] and cell}}],
                }
                if cell.startswith("|")
                else {"cell_type": "markdown", "source": cell.splitlines(keepends=True)}
                for cell in cells
            ]
        }
    )


def found(old, new):
    return [(m.section, m.was, m.now) for m in numbers.moved(old, new, "one")]


def test_a_figure_in_a_sentence_is_told_with_its_section_and_the_words_around():
    old = notebook("## 3.1 Two clocks\n\nIt takes 999 µs at best. Nothing else does.")
    new = notebook("## 4.1 Two clocks\n\nIt takes 1.01 ms at best. Nothing else does.")
    (move,) = numbers.moved(old, new, "one")
    assert move == ("one", "Two clocks", "999 µs", "1.01 ms", "It takes **1.01 ms** at best.")


TABLE = "| chip | time | bound |\n|:--|--:|:--|\n| A100 | 3.0 ms | memory |\n| H100 | {} | {} |"


def test_a_cell_of_a_table_is_found_below_a_new_row_and_beside_a_new_word():
    old = notebook(TABLE.format("1.5 ms", "memory"))
    grown = TABLE.replace("| A100", "| T4 | 9.0 ms | memory |\n| A100")
    assert found(old, notebook(grown.format("1.6 ms", "memory"))) == [("", "1.5 ms", "1.6 ms")]
    assert found(old, notebook(TABLE.format("1.6 ms", "math"))) == [("", "1.5 ms", "1.6 ms")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("See Section\u00a03.1 and Table 3.2.", "See Section\u00a04.1 and Table 4.2."),
        ("As Jones wrote (Jones 2024a).", "As Jones wrote (Jones 2025)."),
        ("$$ a = b \\tag{3.1} $$", "$$ a = b \\tag{4.1} $$"),
        ("$$ a\n= b \\tag{3.1} $$", "$$ a\n= b \\tag{4.1} $$"),
        ("It needs 1024 of them.", "It needs 1,024 of them."),
        ("The gain is 3.1× here.", "The gain is 3.1 times here."),
        ("First 3 and then 5 of the pages.", "First 5 and then, at last, 3 of the pages."),
        ("An A100 has 40 GB of memory.", "Nobody ever asks what it costs, 12 USD say."),
    ],
)
def test_places_papers_ways_of_writing_and_new_sentences_are_no_moves(old, new):
    assert found(notebook(old), notebook(new)) == []


def test_a_figure_in_an_edited_sentence_is_found():
    old = notebook("The layer takes 140 µs on one chip.", "And the rest takes 7 s.")
    new = notebook("And the rest takes 7 s.", "Here the layer takes 150 µs on one chip.")
    assert found(old, new) == [("", "140 µs", "150 µs")]


def test_what_is_no_notebook_is_refused_by_name():
    with pytest.raises(CourseError, match="one is no notebook"):
        numbers.moved("[]", notebook("Text."), "one")


@pytest.fixture
def clone(book):
    """The fixture book as a clone with a release, and a number that changed since."""
    file = book.root / "notebooks" / "en" / "one.ipynb"
    file.parent.mkdir(parents=True)
    file.write_text(notebook("## Speed\n\nIt takes 3 s."), encoding="utf-8")
    for command in (
        ["init", "-q"],
        ["config", "user.email", "nobody@example.org"],
        ["config", "user.name", "Nobody"],
        ["add", "-A"],
        ["commit", "-qm", "Begin"],
        ["tag", "v0.1.0"],
    ):
        subprocess.run(["git", "-C", str(book.root), *command], check=True)
    file.write_text(notebook("## Speed\n\nIt takes 4 s."), encoding="utf-8")
    return book.root


def test_the_command_compares_with_the_last_release_and_keeps_a_changelog(clone):
    done = course(clone, "numbers", "--out", "docs/numbers.md")
    assert done.returncode == 0, done.stderr
    assert "one, Speed: 3 s → 4 s in: It takes **4 s**." in done.stdout
    page = (clone / "docs" / "numbers.md").read_text(encoding="utf-8")
    assert "## Since v0.1.0\n\n### one\n" in page
    assert "| Speed | 3 s | 4 s | It takes **4 s**. |" in page
    day = subprocess.check_output(
        ["git", "-C", str(clone), "log", "-1", "--format=%h of %cs"], text=True
    )
    assert numbers.named(clone, "HEAD") == day.strip()
    assert course(clone, "numbers", "--until", "HEAD").stdout == "0 numbers changed since v0.1.0\n"
    done = course(clone, "numbers", "--since", "--all")
    assert done.returncode == 2
    assert "'--all' is no commit here: give a tag or a commit" in done.stderr


def test_without_a_release_it_compares_with_the_print_before(clone):
    def git(*asked):
        subprocess.run(["git", "-C", str(clone), *asked], check=True)

    git("tag", "-d", "v0.1.0")
    alone = course(clone, "numbers")
    assert alone.returncode == 2
    assert "give --since, a tag or a commit" in alone.stderr
    git("commit", "-qam", "Print")
    done = course(clone, "numbers")
    assert done.returncode == 0, done.stderr
    assert "1 number changed since" in done.stdout


def test_a_release_replaces_what_was_written_before_it_and_keeps_older_ones(tmp_path):
    file, move = tmp_path / "numbers.md", numbers.MovedFigure("one", "Two", "1", "2", "a | **2**")
    for title in ("Since v1.0.0, until v1.1.0", "Since v1.1.0", "Since v1.1.0"):
        numbers.write_page([move], title, file)
    numbers.write_page([], "Since v1.1.0, until v1.2.0", file)
    text = file.read_text(encoding="utf-8")
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == ["## Since v1.1.0, until v1.2.0", "## Since v1.0.0, until v1.1.0"]
    assert "No number changed." in text
    assert r"| Two | 1 | 2 | a \| **2** |" in text
    assert numbers.page([], "Since v1.1.0, until v1.2.0", file) == text
