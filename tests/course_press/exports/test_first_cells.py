"""The first cells of notebooks and labs, run where the library is and where it is not, without a
network.
"""

import json
import re
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from course_book.text import words
from course_press.check import rules as check
from course_press.exports import notebooks
from course_press.source import install
from course_press.source.book import languages
from tests.the_book import the_book

ROOT = Path(__file__).parents[3]
BOOKS = {lang: the_book(lang) for lang in languages(ROOT)}


def at(book, address):
    """A book whose repository stands at an address."""
    meta = {**book.meta, "repo-url": address}
    return replace(book, config={**book.config, "book": meta, "install-ref": "v9"})


REPOSITORY = "https://github.com/example/book"
SOURCE = f"course-lib[book] @ git+{REPOSITORY}@v9"
PUBLISHED = {lang: install.first_cell(at(book, REPOSITORY), lang) for lang, book in BOOKS.items()}
FIRST = {
    **{lang: install.first_cell(book, lang) for lang, book in BOOKS.items()},
    **{
        file.parent.name: "".join(
            next(c for c in json.loads(file.read_text())["cells"] if c["cell_type"] == "code")[
                "source"
            ]
        )
        for file in sorted(ROOT.glob("labs/*/lab.ipynb"))
    },
}
# Stands in for pip: writes down what it is asked for, and installs it.
PIP = """
import pathlib, sys
here = pathlib.Path(__file__).parent
(here / "asked.txt").write_text(" ".join(sys.argv[1:]))
(here / "course_lib.py").write_text("")
"""


@pytest.fixture
def bare(tmp_path):
    """A Python of its own, with neither pip nor the library."""
    venv.create(tmp_path / "bare", with_pip=False)
    return next((tmp_path / "bare").glob("lib/python*/site-packages"))


def first_cell(bare, code):
    python = bare.parents[2] / "bin" / "python"
    return subprocess.run(
        [str(python), "-I", "-c", code + "\nimport course_lib"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("lang", PUBLISHED)
def test_a_first_cell_gets_the_library_or_says_in_its_language_what_pip_said(bare, lang):
    said = words(lang)
    for printed, why, network in (
        ("", "No module named pip", False),
        ("fatal: could not find it\nnote: no fault of pip\n", "fatal: could not find it", False),
        ("fatal: Could not resolve host\nhint\n", "fatal: Could not resolve host", True),
        ("WARNING: retrying\nERROR: requires a different Python", "ERROR: requires a", False),
    ):
        if printed:
            (bare / "pip.py").write_text(f"raise SystemExit({printed!r})")
        done = first_cell(bare, PUBLISHED[lang])
        assert done.returncode == 1
        assert said["ui-pip-failed"].partition("{")[0] in done.stderr
        assert SOURCE in done.stderr
        assert why in done.stderr
        assert (said["ui-no-network"] in done.stderr) == network
        assert done.stderr.count("\n") == 1
    (bare / "pip.py").write_text(PIP)
    assert first_cell(bare, PUBLISHED[lang]).returncode == 0
    asked = f"install -q {SOURCE} --disable-pip-version-check"
    assert (bare / "asked.txt").read_text() == asked
    (bare / "pip.py").write_text("raise SystemExit('must not run')")
    done = first_cell(bare, PUBLISHED[lang])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("lang", BOOKS)
def test_a_book_that_is_published_nowhere_tells_how_to_install_it_from_its_folder(bare, lang):
    cell = install.first_cell(at(BOOKS[lang], f"{install.PLACEHOLDER}rooflines"), lang)
    (bare / "pip.py").write_text(PIP)
    done = first_cell(bare, cell)
    assert (done.returncode, done.stderr) == (1, f"{words(lang)['ui-from-a-folder']}\n")
    assert "%pip install" in done.stderr
    assert not (bare / "asked.txt").exists()
    (bare / "course_lib.py").write_text("")
    done = first_cell(bare, cell)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", FIRST)
def test_a_first_cell_names_a_python_that_is_too_old(bare, name):
    code = re.sub(r"version_info < \(3, 11\)", "version_info < (9, 0)", FIRST[name])
    assert code != FIRST[name]
    done = first_cell(bare, code)
    assert done.returncode == 1
    assert "3.11" in done.stderr
    assert sys.version.split()[0] in done.stderr


def test_one_setting_moves_every_first_cell(book):
    lab = book.root / "labs" / "00-x" / "lab.ipynb"
    lab.parent.mkdir(parents=True)
    lab.write_text((ROOT / "labs/00-three-accelerators/lab.ipynb").read_text())
    assert [str(f) for f in check.check_book(book.root) if "labs" in str(f.file)] == [
        "labs/00-x/lab.ipynb:1: its first cell is not the one that _quarto.yml asks for → "
        "run course notebooks"
    ]
    book.edit("_quarto.yml", "bibliography:", 'install-ref: "1a2b3c"\nbibliography:')
    (file,) = notebooks.write_notebooks(book.root, ["en"])
    for written in (file, lab):
        assert "git+https://github.com/example/book@1a2b3c" in written.read_text()
    assert not [f for f in check.check_book(book.root) if "labs" in str(f.file)]
