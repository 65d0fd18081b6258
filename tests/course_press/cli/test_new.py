"""What `course new` begins: files that the book's own rules accept, and its place in every list."""

import os
import shutil
import subprocess
import sys

import pytest

from course_press.cli.new import KINDS, Draft
from tests.conftest import ROOT
from tests.course_press.conftest import course


def files(root):
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in root.rglob("*")
        if file.is_file() and not {".cache", "__pycache__"} & set(file.parts)
    }


def begun(root, *what):
    """What `course new` has written, by path, and that it says so."""
    before = files(root)
    done = course(root, "new", *what)
    assert done.returncode == 0, done.stderr
    after = files(root)
    changed = {path for path in after if after[path] != before.get(path)}
    said = {line for line in done.stdout.splitlines() if (root / line).is_file()}
    assert said == {path for path in changed if not path.endswith("stamps.json")}
    return changed


def checked(root):
    done = course(root, "check")
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
def clone(tmp_path):
    """The book's own sources, with the package that holds its words and exercises."""
    for name in ("chapters", "course_book", "index.qmd", "references.bib", "_environment-en"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    for lang in ("", "-en", "-es", "-ko"):
        shutil.copy(ROOT / f"_quarto{lang}.yml", tmp_path)
    for file in ROOT.glob("labs/*/lab.*"):
        (tmp_path / file.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tmp_path / file.relative_to(ROOT))
    shared = tmp_path / "_quarto.yml"
    text = shared.read_text(encoding="utf-8")
    for installed in ("course_lib/data/sources.json", "course_press/assets/vendor/chicago"):
        text = text.replace(f" {installed}", f" {ROOT / installed}")
    shared.write_text(text, encoding="utf-8")
    return tmp_path


def test_an_exercise_and_the_first_of_a_chapter_are_asked_in_every_language(clone):
    made = begun(clone, "exercise", "rooflines/dot-product")
    texts = {f"course_book/data/exercises/rooflines.{lang}.toml" for lang in ("en", "es", "ko")}
    pages = {f"chapters/{lang}/rooflines.qmd" for lang in ("en", "es", "ko")}
    bank = "course_book/exercises/bank/rooflines.py"
    assert made == {*texts, *pages, bank, "chapters/cells/rooflines/ex-dot-product.qmd"}
    begun(clone, "chapter", "tensor-cores")
    first = begun(clone, "exercise", "tensor-cores/share")
    assert "course_book/data/words.csv" in first  # what pages call the chapter
    assert checked(clone) == (0, "")
    code = (
        "from course_book.exercises import CHAPTERS, check, get; assert 'tensor-cores' in CHAPTERS;"
        "[one] = [get('tensor-cores-share')]; assert len(one.variants()) == 100;"
        "print(check('rooflines-dot-product', 100 * one.variant().answer).verdict)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=clone, env=os.environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "right", done.stderr
    assert "exists already" in course(clone, "new", "exercise", "rooflines/dot-product").stderr


def test_a_language_begins_as_the_english_and_says_what_is_left_to_translate(clone):
    made = begun(clone, "language", "fr")
    assert {"_quarto-fr.yml", "_environment-fr", "chapters/fr/rooflines.qmd"} <= made
    assert "course_book/data/exercises/rooflines.fr.toml" in made
    code, said = checked(clone)
    assert code == 1
    assert all("is out of date" in line for line in said.splitlines())
    for page in clone.glob("chapters/fr/*.qmd"):
        if not page.name.startswith("_"):
            assert course(clone, "stamp", "fr", page.stem).returncode == 0
            break
    assert "_site/fr" in (clone / "_quarto-fr.yml").read_text(encoding="utf-8")


def test_a_chip_goes_to_those_of_the_book_and_elsewhere_to_the_reader(book):
    assert begun(book.root, "chip", "h20") == {"h20.toml"}
    (book.root / "course_lib/data/chips").mkdir(parents=True)
    draft = Draft(book.root)
    KINDS["chip"][0](draft, "h30")
    assert [str(path) for path in draft.texts] == ["course_lib/data/chips/h30.toml"]
