"""The first cells of notebooks and labs, run where the library is and where it is not, without a
network.
"""

import json
import subprocess
import venv
from pathlib import Path

import pytest
import yaml

from course_press.check import rules as check
from course_press.exports import notebooks
from course_press.source import install
from course_press.source.book import languages, read_book

ROOT = Path(__file__).parents[3]
CONFIG = yaml.safe_load((ROOT / "_quarto.yml").read_text())
SOURCE = f"git+{CONFIG['book']['repo-url']}@{CONFIG['install-ref']}"
FIRST = {
    **{f"{lang}": install.first_cell(read_book(ROOT, lang), lang) for lang in languages(ROOT)},
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


@pytest.mark.parametrize("name", FIRST)
def test_a_first_cell_says_nothing_where_the_library_is_and_one_line_where_it_cannot_be_got(
    bare, name
):
    done = first_cell(bare, FIRST[name])
    assert done.returncode == 1
    assert (
        done.stderr
        == f"course_lib is not here and pip could not get {SOURCE}: is there a network?\n"
    )
    (bare / "pip.py").write_text(PIP)
    assert first_cell(bare, FIRST[name]).returncode == 0
    assert (bare / "asked.txt").read_text() == f"install -q {SOURCE}"
    (bare / "pip.py").write_text("raise SystemExit('must not run')")
    done = first_cell(bare, FIRST[name])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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
