"""Sheets by roll: everybody gets another one, without answers, and its key says what `check` says."""

import ast
import csv
import json
import re
from dataclasses import replace

import nbformat
import pytest
from typer.testing import CliRunner

from course_lib import CourseError
from course_book import exercises
from course_book.text import in_language, plain
from course_press.cli.app import app
from course_press.exports import rolls, sheets

ROLL = "id,name,language\ns001,Ana López,es\ns002,김지우,ko\ns003,,\n"
NUMBER = re.compile(r"\d(?:[.,]?\d|\s\d{3}(?!\d))*")
"""A number as a language writes it, also with spaces between its thousands."""
ANSWER = {"en": "Answer", "es": "Respuesta", "ko": "답"}


def run(tmp_path, *options, roll=ROLL, seed="7"):
    file = tmp_path / "roll.csv"
    file.write_bytes(roll if isinstance(roll, bytes) else roll.encode())
    folders = ["--out", str(tmp_path / "sheets"), "--key", str(tmp_path / "keys")]
    call = ["exercises", "--seed", seed, "--roll", str(file), *folders, *options]
    done = CliRunner().invoke(app, call)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def index(tmp_path):
    with (tmp_path / "keys" / rolls.INDEX).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def cells(file, kind):
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


def everything(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_each_student_gets_a_sheet_of_their_own_and_the_same_one_again(tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "again").mkdir()
    run(tmp_path / "first")
    # Who else is on the roll, and in what order, changes nothing for the others.
    run(tmp_path / "again", roll="id,language\ns009,\ns003,\ns002,ko\ns001,es\n")
    first, again = (everything(tmp_path / name / "sheets") for name in ("first", "again"))
    assert sorted(first) == ["s001.ipynb", "s002.ipynb", "s003.ipynb"]
    assert first == {name: again[name] for name in first}
    assert again["s003.ipynb"] != again["s009.ipynb"]
    seeds = [row["seed"] for row in index(tmp_path / "again")]
    assert len(set(seeds)) == 4
    questions = [
        [one.variant(int(seed)).text("question") for one in exercises.all()] for seed in seeds[:2]
    ]
    same = sum(one == other for one, other in zip(*questions, strict=True))
    assert same < len(questions[0]) / 10


def test_no_sheet_shows_an_answer_or_a_name(tmp_path):
    run(tmp_path)
    for row in index(tmp_path):
        file = tmp_path / "sheets" / row["sheet"]
        text = file.read_text(encoding="utf-8")
        notebook = nbformat.read(file, as_version=4)
        assert not row["name"] or row["name"] not in text
        assert not any(cell.get("outputs") or cell.metadata for cell in notebook.cells)
        about = json.dumps(notebook.metadata)
        with in_language(row["language"]):
            for one in exercises.all():
                variant = one.variant(int(row["seed"]))
                assert plain(variant.text("solution")) not in text
                # Without the heading, which counts the exercises, and the bytes of a chart.
                asked = next(cell.source for cell in notebook.cells if cell.id == one.id)
                asked = re.sub(r"\(data:\S+\)", "", asked.partition("\n")[2])
                digits = NUMBER.match(variant.shown_answer)[0]
                if len(digits) > 1:  # a 2 may stand anywhere
                    assert digits not in NUMBER.findall(asked), (one.id, asked)
                    assert not re.search(rf"(?<![\d.]){re.escape(digits)}(?![\d.])", about)


def test_the_cells_of_a_sheet_check_what_its_key_says(tmp_path):
    run(tmp_path, "--chapter", "int8-problems", "--chapter", "your-own-step")
    for row in index(tmp_path):
        code = cells(tmp_path / "sheets" / row["sheet"], "code")
        key = "\n".join(cells(tmp_path / "keys" / row["key"], "markdown"))
        calls = [ast.parse(one).body[-1].value for one in code if one.startswith("check(")]
        shown = re.findall(rf"\*\*{ANSWER[row['language']]}: (.+?)\.\*\*", key)
        assert len(calls) == len(shown) > 10
        with in_language(row["language"]):
            for call, answer in zip(calls, shown, strict=True):
                seed = call.keywords[0].value.value
                assert seed == int(row["seed"])
                assert exercises.check(call.args[0].value, answer, seed).verdict == "right"


def test_a_run_that_was_stopped_goes_on_and_writes_nothing_twice(tmp_path):
    run(tmp_path, "--chapter", "rooflines")
    whole = everything(tmp_path / "sheets"), everything(tmp_path / "keys")
    (tmp_path / "keys" / "s002-key.ipynb").unlink()
    kept = (tmp_path / "sheets" / "s001.ipynb").stat().st_mtime_ns
    assert "1 students, 2 there already" in run(tmp_path, "--chapter", "rooflines")
    assert (everything(tmp_path / "sheets"), everything(tmp_path / "keys")) == whole
    assert (tmp_path / "sheets" / "s001.ipynb").stat().st_mtime_ns == kept
    late = "id,name,language\ns004,Bo,\n"
    run(tmp_path, "--chapter", "rooflines", roll=late)
    assert [row["id"] for row in index(tmp_path)] == ["s001", "s002", "s003", "s004"]


def test_sheets_of_another_seed_are_replaced_only_when_told_so(tmp_path):
    run(tmp_path, "--chapter", "rooflines")
    before = everything(tmp_path / "sheets")
    with pytest.raises(CourseError, match="from another seed, language or choice of chapters"):
        run(tmp_path, "--chapter", "rooflines", seed="8")
    assert everything(tmp_path / "sheets") == before
    run(tmp_path, "--chapter", "rooflines", "--force", seed="8")
    after = everything(tmp_path / "sheets")
    assert all(after[name] != before[name] for name in before)


def test_keys_do_not_go_among_the_sheets(tmp_path):
    with pytest.raises(CourseError, match="lies in the folder of the sheets"):
        run(tmp_path, "--key", str(tmp_path / "sheets" / "keys"))
    assert not (tmp_path / "sheets").exists()


@pytest.mark.parametrize(
    ("roll", "said"),
    [
        ("id,name\na1,A\nA1,B\n", "line 3: id 'A1' is on line 2 already"),
        ("name,language\nAna,es\n", "columns, id among them, with commas between (got name, lang"),
        ("id;name\na1;Ana\n", "(got id;name)"),
        ("id,id\na,b\n", "different columns"),
        ("", "(got an empty file)"),
        ("id,name\n", "names no student"),
        ("id,name\n,Ana\n", "line 2: no id"),
        ("id,name\n../a,Ana\n", "id '../a' cannot name a file"),
        ("id,language\na1,fr\n", "line 2: language 'fr' is not one of the book"),
        ("id,name\na1,Kim, J\n", "line 2 has 3 cells instead of 2"),
        ("id,name\na1,Ana\na2,Peña\n".encode("latin-1"), "line 3 is not UTF-8"),
    ],
)
def test_a_roll_that_cannot_be_meant_is_refused_by_its_line(tmp_path, roll, said):
    with pytest.raises(CourseError, match=re.escape(said)):
        run(tmp_path, roll=roll)
    assert not (tmp_path / "sheets").exists()


def test_a_roll_as_a_spreadsheet_saves_it_is_read(tmp_path):
    file = tmp_path / "roll.csv"
    file.write_bytes('\ufeffID,Name,Group\r\na1,"Kim, J",x\r\n\r\nb2,,\r\n'.encode())
    assert rolls.read_roll(file, "ko") == (
        rolls.Student("a1", "Kim, J", "ko"),
        rolls.Student("b2", "", "ko"),
    )
    with pytest.raises(CourseError, match="cannot be read"):
        rolls.read_roll(tmp_path / "none.csv", "en")


def test_a_sheet_says_which_exercises_are_the_same_for_everyone():
    one = exercises.get("int8-p2")
    for lang in ANSWER:
        with in_language(lang):
            said = exercises.phrases()["fixed"]
            for few in (True, False):
                variant = replace(one, few=few).variant(3)
                assert (said in sheets.questions([variant], 3, lang)) == few
