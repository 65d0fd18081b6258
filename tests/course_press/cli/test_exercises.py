import ast
import json
import re

import nbformat
import pytest
from typer.testing import CliRunner

from course_lib import CourseError
from course_book import exercises
from course_book.text import languages, plain
from course_press.check import rules as check
from course_press.cli.app import app
from course_press.source.book import configured
from course_press.source.install import first_cell
from tests.course_press.conftest import Copy


def sheet(tmp_path, *options, name="sheet.ipynb"):
    out = tmp_path / name
    done = CliRunner().invoke(app, ["exercises", "--out", str(out), *options])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return out, out.with_name(f"{out.stem}-key.ipynb")


def cells(file, kind):
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


@pytest.mark.parametrize("lang", languages())
def test_a_sheet_holds_every_exercise_and_no_answer(tmp_path, lang, monkeypatch):
    out, key = sheet(tmp_path, "--seed", "7", "--lang", lang)
    text, answers = out.read_text(encoding="utf-8"), key.read_text(encoding="utf-8")
    monkeypatch.setenv("COURSE_LANG", lang)
    for one in exercises.all():
        variant = one.variant(7)
        assert json.dumps(plain(variant.text("question")), ensure_ascii=False)[1:-1] in text
        assert plain(variant.text("solution")) not in text
        assert json.dumps(plain(variant.text("solution")), ensure_ascii=False)[1:-1] in answers
        if variant.answer >= 10:
            part = text.partition(f'"{one.id}"')[2].partition(f'"{one.id}-answer"')[0]
            assert variant.shown_answer not in re.sub(r"## \d+\. ", "", part)
    assert not [
        cell
        for cell in nbformat.read(out, as_version=4).cells
        if cell.cell_type == "code" and cell.outputs
    ]


def test_a_sheet_of_the_book_gets_the_library_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alone, _ = sheet(tmp_path, "--seed", "7", "--lang", "es")
    assert "pip" not in cells(alone, "code")[0]
    book = Copy(tmp_path / "book")
    monkeypatch.chdir(book.root)
    shared, key = sheet(tmp_path, "--seed", "7", "--lang", "es", name="shared.ipynb")
    first = cells(shared, "code")[0]
    assert first == first_cell(configured(book.root, "en"), "es")
    assert 'os.environ["COURSE_LANG"] = "es"' in first
    assert "git+https://" in first
    assert not cells(key, "code")


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    first = [file.read_bytes() for file in sheet(tmp_path, "--seed", "7")]
    again = [file.read_bytes() for file in sheet(tmp_path, "--seed", "7", name="again.ipynb")]
    other = [file.read_bytes() for file in sheet(tmp_path, "--seed", "8", name="other.ipynb")]
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]


def test_the_cells_of_a_sheet_check_what_its_key_says(tmp_path, monkeypatch):
    out, key = sheet(
        tmp_path,
        "--seed",
        "11",
        "--lang",
        "es",
        "--chapter",
        "int8-problems",
        "--chapter",
        "rooflines",
    )
    monkeypatch.setenv("COURSE_LANG", "es")
    calls = [
        ast.parse(code).body[-1].value for code in cells(out, "code") if code.startswith("check(")
    ]
    shown = re.findall(r"\*\*Respuesta: (.+?)\.\*\*", "\n".join(cells(key, "markdown")))
    assert (
        len(calls)
        == len(shown)
        == sum(one.chapter in ("int8-problems", "rooflines") for one in exercises.all())
    )
    for call, answer in zip(calls, shown, strict=True):
        id_, empty = (argument.value for argument in call.args)
        assert empty is ...
        assert exercises.check(id_, answer, call.keywords[0].value.value).verdict == "right"


def test_an_untouched_cell_says_what_to_do(tmp_path):
    out, _ = sheet(tmp_path, "--seed", "7", "--chapter", "rooflines")
    code = "\n".join(cells(out, "code")[:3])
    with pytest.raises(CourseError, match="value must be your answer"):
        exec(code, {})


def test_the_key_may_stand_elsewhere(tmp_path):
    out, beside = sheet(tmp_path, "--seed", "7", "--key", str(tmp_path / "private.ipynb"))
    assert out.is_file()
    assert (tmp_path / "private.ipynb").is_file()
    assert not beside.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lang", "fr"], "--lang 'fr'"),
        (["--chapter", "rooves"], "--chapter 'rooves'"),
        (["--key", "{out}"], "is the sheet itself"),
    ],
)
def test_bad_options_are_named(tmp_path, options, said):
    with pytest.raises(CourseError, match=re.escape(said)):
        sheet(
            tmp_path,
            "--seed",
            "7",
            *(option.replace("{out}", str(tmp_path / "sheet.ipynb")) for option in options),
        )
    assert not list(tmp_path.iterdir())


def test_check_finds_an_exercise_that_does_not_exist(tmp_path):
    book = Copy(tmp_path / "book")
    cell = book.root / "chapters/cells/one/hello.qmd"
    cell.write_text(
        cell.read_text().replace("```{python}\n", '```{python}\nexercise("int8-p99")\n', 1)
    )
    assert any(
        "there is no exercise int8-p99" in str(finding) for finding in check.check_book(book.root)
    )


def test_check_finds_a_text_that_is_missing(tmp_path, monkeypatch):
    book = Copy(tmp_path / "book")
    monkeypatch.setattr(
        check, "untranslated", lambda: [("rooflines.ko.toml", "rooflines-dot has no text")]
    )
    assert any(
        "rooflines-dot has no text" in str(finding) for finding in check.check_book(book.root)
    )
