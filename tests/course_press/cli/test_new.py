"""What `course new` begins: files that the book's own rules accept, and its place in every list."""

import shutil
import subprocess
import sys

import pytest

from course_press.cli.new import KINDS, Draft
from tests.conftest import ROOT
from tests.course_press.conftest import course, course_apart


def files(root):
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in root.rglob("*")
        if file.is_file() and not {".cache", "__pycache__"} & set(file.parts)
    }


def ran(root, *arguments):
    """In a process of its own where the folder has packages of its own."""
    return (course_apart if (root / "course_book").is_dir() else course)(root, *arguments)


def begun(root, *what):
    """What `course new` has written, by path, and that it says so."""
    before = files(root)
    done = ran(root, "new", *what)
    assert done.returncode == 0, done.stderr
    after = files(root)
    changed = {path for path in after if after[path] != before.get(path)}
    said = {line for line in done.stdout.splitlines() if (root / line).is_file()}
    assert said == {path for path in changed if not path.endswith("stamps.json")}
    return changed


def checked(root):
    done = ran(root, "check")
    return done.returncode, done.stdout


def test_a_chapter_is_there_in_every_language_and_can_be_printed(book):
    assert begun(book.root, "chapter", "tensor-cores") == {
        "chapters/cells/tensor-cores/setup.qmd",
        "chapters/en/tensor-cores.qmd",
        "chapters/es/tensor-cores.qmd",
        "chapters/es/stamps.json",
        "_quarto-en.yml",
        "_quarto-es.yml",
    }
    assert checked(book.root) == (0, "")
    (page,) = book.build(only=["tensor-cores"])
    assert "3.35" in page.read_text(encoding="utf-8")
    again = course(book.root, "new", "chapter", "tensor-cores")
    assert again.returncode == 2
    assert "tensor-cores/setup.qmd exists already: choose another name" in again.stderr


def test_a_lab_has_a_number_a_notebook_and_a_handout(book):
    (book.root / "labs/03-before").mkdir(parents=True)
    made = begun(book.root, "lab", "cache-misses")
    folder = "labs/04-cache-misses"
    assert {f"{folder}/lab.ipynb", f"{folder}/cache_misses.py", "chapters/es/lab-04.qmd"} <= made
    assert checked(book.root) == (0, "")  # its first cell installs as _quarto.yml says
    again = course(book.root, "new", "lab", "cache-misses")
    assert "a lab 'cache-misses' exists already" in again.stderr


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            ("chapters", "one-more"),
            "'chapters' cannot be begun: choose from chapter, exercise, chip",
        ),
        (("chapter", "../one"), "NAME must be of lower-case letters, digits and hyphens"),
        (("exercise", "one"), "NAME of an exercise is CHAPTER/ID"),
        (("exercise", "three/new"), "'three' is no chapter: choose from one, two"),
        (("chip", "h100-sxm"), "chip 'h100-sxm' exists already"),
        (("language", "es"), "chapters/es/_preface.qmd exists already"),
    ],
)
def test_nothing_is_written_over_what_there_is(book, what, said):
    before = files(book.root)
    done = course(book.root, "new", *what)
    assert done.returncode == 2
    assert said in done.stderr
    assert files(book.root) == before


@pytest.fixture
def clone(book):
    """The small book with the package that holds its words and exercises, and a lab's answers."""
    shutil.copytree(ROOT / "course_book", book.root / "course_book")
    lab = "labs/02-fusion-and-profiling"
    (book.root / lab).mkdir(parents=True)
    shutil.copy(ROOT / lab / "lab.toml", book.root / lab)
    shutil.copy(ROOT / "chapters/claims.toml", book.root / "chapters")
    return book.root


def test_an_exercise_and_the_first_of_a_chapter_are_asked_in_every_language(clone):
    made = begun(clone, "exercise", "one/dot-product")
    texts = {f"course_book/data/exercises/one.{lang}.toml" for lang in ("en", "es", "ko")}
    texts.add("course_book/data/exercises/one.toml")
    pages = {"chapters/en/one.qmd", "chapters/es/one.qmd"}
    cell = "chapters/cells/one/ex-dot-product.qmd"
    # What pages call the chapter stands among the words.
    assert made == {*texts, *pages, cell, "course_book/data/words.csv"}
    assert begun(clone, "exercise", "one/share") == {
        *texts, *pages, "chapters/cells/one/ex-share.qmd"
    }  # fmt: skip
    assert checked(clone) == (0, "")
    code = (
        "from course_book.exercises import CHAPTERS, check, get; assert CHAPTERS[-1] == 'one';"
        "one = get('one-share'); assert len(one.variants()) == 100;"
        "print(check('one-dot-product', 100 * one.variant().answer).verdict)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "right", done.stderr
    assert "exists already" in ran(clone, "new", "exercise", "one/dot-product").stderr


def test_a_language_begins_as_the_english_and_says_what_is_left_to_translate(clone):
    made = begun(clone, "language", "fr")
    assert {"_quarto-fr.yml", "_environment-fr", "chapters/fr/one.qmd", "index.qmd"} <= made
    assert "course_book/data/exercises/rooflines.fr.toml" in made
    assert {"chapters/claims.toml", "labs/02-fusion-and-profiling/lab.toml"} <= made
    code, said = checked(clone)
    assert code == 1
    assert all("is out of date" in line for line in said.splitlines())
    assert {"fr/one", "fr/two"} <= set(said.split())
    assert "_site/fr" in (clone / "_quarto-fr.yml").read_text(encoding="utf-8")


def test_a_chip_goes_to_those_of_the_book_and_elsewhere_to_the_reader(book):
    assert begun(book.root, "chip", "mi308x") == {"mi308x.toml"}
    (book.root / "course_lib/data/chips").mkdir(parents=True)
    draft = Draft(book.root)
    KINDS["chip"][0](draft, "h30")
    assert [str(path) for path in draft.texts] == ["course_lib/data/chips/h30.toml"]
