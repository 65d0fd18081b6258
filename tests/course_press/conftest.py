"""A small book that uses every feature once, copied so that a test may break it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib import CourseError
from course_press.grading.isolation import isolated
from course_press.grading.learner import Supervisor
from course_press.pages import site
from tests.conftest import once

SHEBANG = f"""#!/bin/sh
'''exec' "{sys.executable}" "$0" "$@"
' '''"""
"""What makes a file a program of this Python, in whatever folder that is: a shebang of its own ends
at the first space.
"""
FIXTURE = Path(__file__).parent.parent / "fixture"


class Copy:
    """A copy of the fixture book."""

    def __init__(self, root):
        self.root = root
        shutil.copytree(FIXTURE, root, ignore=shutil.ignore_patterns(".cache", "_site"))

    def edit(self, path, old, new):
        file = self.root / path
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{old!r} is not in {path}"
        file.write_text(text.replace(old, new, 1), encoding="utf-8")

    def forget(self):
        """What its cells gave, so that they run."""
        shutil.rmtree(self.root / ".cache")

    def build(self, langs=("en",), out="_site", **more):
        return site.build(self.root, langs, self.root / out, **more)


def edited(file, edits):
    """The text of a file after some replacements, each of which must have something to replace."""
    text = file.read_text(encoding="utf-8")
    for old, new in edits.items():
        assert old in text, f"{old!r} is not in {file}"
        text = text.replace(old, new)
    return text


def course(root, *arguments, path=None):
    """Run the command `course` in a folder, as a reader would."""
    env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **({"PATH": path} if path else {})}
    command = [sys.executable, "-m", "course_press", *arguments]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def without_quarto(monkeypatch):
    """Hide any quarto on PATH: these are tests of the embedded engine."""
    folders = [f for f in os.environ["PATH"].split(os.pathsep) if not (Path(f) / "quarto").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))


@pytest.fixture(scope="session")
def supervisor():
    """One that has imported torch, for all gradings that need it."""
    pytest.importorskip("torch")
    with Supervisor(["torch"]) as one:
        yield one


@pytest.fixture(scope="session")
def cells():
    """Skips, loudly, where learners' files cannot be isolated."""
    try:
        with isolated(), Supervisor():
            pass
    except CourseError as error:
        pytest.skip(f"NOT EXERCISED, isolation and what relies on it: {error}")


@pytest.fixture
def book(tmp_path, tmp_path_factory):
    """A copy that knows what the cells of the fixture gave and how its pages were printed, so that
    a test pays for what it changes.
    """
    copy = Copy(tmp_path / "book")
    kept = fixture_site(tmp_path_factory).with_name("fixture-book") / ".cache"
    shutil.copytree(kept, copy.root / ".cache", copy_function=os.link)
    return copy


def fixture_site(tmp_path_factory):
    """The site of the fixture book in both languages, for tests that only read it."""

    def make(folder):
        copy = Copy(folder.with_name("fixture-book"))
        site.build(copy.root, ("en", "es"), folder)

    return once(tmp_path_factory, "fixture-site", make)


built = pytest.fixture(scope="session")(fixture_site)
