"""A small book that uses every feature once, copied so that a test may break it."""

import contextlib
import functools
import io
import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from course_lib import CourseError
from course_press.__main__ import main
from course_press.grading.graders import GRADERS
from course_press.grading.isolation import isolated
from course_press.grading.learner import Supervisor
from course_press.pages import site
from tests.conftest import once

# Tests have both cores: a product's threads would wait for each other, and take most of the time.
os.environ["OPENBLAS_NUM_THREADS"] = "1"


def need(*packages):
    """Skip where a package is missing; it is not imported here, which takes seconds."""
    for name in packages:
        if not find_spec(name.partition(".")[0]):
            pytest.skip(f"NOT EXERCISED: {name} is not installed", allow_module_level=True)


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


class Done(NamedTuple):
    """What a command came to, as `subprocess` tells it."""

    returncode: int
    stdout: str
    stderr: str


def course(root, *arguments, path=None):
    """Run the command `course` in a folder, in this process: in one of its own, imports take
    longer than most commands.
    """
    out, err, code = io.StringIO(), io.StringIO(), 0
    ended = signal.getsignal(signal.SIGTERM)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.chdir(root)
        patch.setattr(sys, "argv", ["course", *arguments])
        for name, value in surroundings(path).items():
            patch.setenv(name, value)
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            signal.signal(signal.SIGTERM, ended)
    return Done(code, out.getvalue(), err.getvalue())


def course_apart(root, *arguments):
    """Run it as a reader would, in a process of its own: needed where a folder holds the packages."""
    env, command = {**os.environ, **surroundings()}, [sys.executable, "-m", "course_press"]
    return subprocess.run(
        [*command, *arguments], cwd=root, env=env, capture_output=True, text=True, check=False
    )


def surroundings(path=None):
    return {"COLUMNS": "200", "NO_COLOR": "1", **({"PATH": path} if path else {})}


@pytest.fixture(autouse=True)
def without_quarto(monkeypatch):
    """Hide any quarto on PATH: these are tests of the embedded engine."""
    folders = [f for f in os.environ["PATH"].split(os.pathsep) if not (Path(f) / "quarto").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))


@pytest.fixture(scope="session")
def supervised():
    """By the name of a grader: a supervisor that has imported what it needs, for all gradings."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def started(name):
            if name == "ring" and find_spec("triton"):  # one that has torch too
                return started("kernels")
            lab = GRADERS[name]
            need(*lab.preload)
            one = Supervisor(lab.preload, environment=lab.environment, readable=lab.readable)
            return stack.enter_context(one)

        yield started


@pytest.fixture
def supervisor(supervised):
    return supervised("ring")


@pytest.fixture
def jax_supervisor(supervised):
    return supervised("sharding")


@pytest.fixture(scope="session")
def cells():
    """Skips, loudly, where learners' files cannot be isolated."""
    try:
        with isolated(), Supervisor():
            pass
    except CourseError as error:
        pytest.skip(f"NOT EXERCISED, isolation and what relies on it: {error}")


def known_copy(tmp_path_factory, root):
    """A copy that knows what the cells of the fixture gave and how its pages were printed, so that
    a test pays for what it changes.
    """
    copy = Copy(root)
    kept = fixture_site(tmp_path_factory).with_name("fixture-book") / ".cache"
    shutil.copytree(kept, copy.root / ".cache", copy_function=os.link)
    return copy


@pytest.fixture
def book(tmp_path, tmp_path_factory):
    return known_copy(tmp_path_factory, tmp_path / "book")


def fixture_site(tmp_path_factory):
    """The site of the fixture book in both languages, for tests that only read it."""

    def make(folder):
        copy = Copy(folder.with_name("fixture-book"))
        site.build(copy.root, ("en", "es"), folder)

    return once(tmp_path_factory, "fixture-site", make)


built = pytest.fixture(scope="session")(fixture_site)
