"""The shortest way to a class, as the page for instructors has it: its commands do what it says."""

import csv
import re
import subprocess
import sys
import zipfile

import pytest

from course_press.source.book import languages
from tests.conftest import ROOT

FETCH = ("git clone ", "cd ", "make ")
"""How lines begin that need a network, or what it brought."""


def commands(lang):
    """The blocks of commands in the section; None where a translation does not have it yet."""
    page = (ROOT / "chapters" / lang / "instructors.qmd").read_text(encoding="utf-8")
    _, found, rest = page.partition("{#sec-teach-monday}\n")
    return re.findall(r"```sh\n(.*?)```", rest.partition("\n## ")[0], re.DOTALL) if found else None


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Like a clone after its first block of commands."""
    root = tmp_path_factory.mktemp("monday")
    for one in ROOT.iterdir():
        if not one.name.startswith(".") and one.name not in ("_site", "dist"):
            (root / one.name).symlink_to(one)
    course = root / ".venv" / "bin" / "course"
    course.parent.mkdir(parents=True)
    course.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m course_press "$@"\n')
    course.chmod(0o755)
    return root


def run(clone, block):
    done = subprocess.run(
        ["bash", "-ec", block], cwd=clone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (block, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def walked(clone):
    """After every block but the first, which fetches, and the last, which grades."""
    for block in commands("en")[1:-1]:
        run(clone, block)
    return clone


def test_every_language_has_the_same_commands_and_only_the_first_ones_fetch():
    english = commands("en")
    for lang in languages(ROOT):
        assert commands(lang) in (english, None), lang
    fetched = [block.splitlines()[0].startswith(FETCH) for block in english]
    assert fetched == [True] + [False] * (len(english) - 1)
    assert all(line.startswith(FETCH) for line in english[0].splitlines())
    assert "course grade --all" in english[-1]


def test_each_student_gets_a_sheet_and_the_instructor_the_keys(walked):
    with (walked / "roll.csv").open(encoding="utf-8") as roll:
        ids = [row["id"] for row in csv.DictReader(roll)]
    assert len(ids) == 2
    assert {one.name for one in (walked / "sheets").iterdir()} == {f"{id_}.ipynb" for id_ in ids}
    keys = {f"{id_}-key.ipynb" for id_ in ids}
    assert {one.name for one in (walked / "keys").iterdir()} == keys | {"index.csv"}


def test_the_zip_opens_and_is_what_gradescope_takes(walked):
    with zipfile.ZipFile(walked / "lab-00.zip") as opened:
        assert opened.testzip() is None
        names = set(opened.namelist())
        scripts = {one.filename for one in opened.infolist() if one.external_attr >> 16 & 0o111}
        grading = opened.read("run_autograder").decode()
    assert scripts == {"setup.sh", "run_autograder"}
    assert {"pyproject.toml", "course_lib/__init__.py", "course_press/__main__.py"} <= names
    assert not [name for name in names if name.endswith("reference.py")]
    stub = re.search(r"cp labs/(\S+)/(\w+\.py) ", commands("en")[-1])
    assert f"labs/{stub[1]}/lab.toml" in names
    assert f"grade {stub[1][:2]} " in grading
    assert stub[2] in grading


def test_the_file_that_students_begin_with_fails_and_who_hands_nothing_in_is_missing(walked, cells):
    run(walked, commands("en")[-1])
    with (walked / "grades.csv").open(encoding="utf-8") as opened:
        verdicts = {row["student"]: row["verdict"] for row in csv.DictReader(opened)}
    assert verdicts == {"s001": "failed", "s002": "missing"}
    told = (walked / "grades" / "reports" / "s001.txt").read_text(encoding="utf-8")
    assert "not implemented yet" in told
