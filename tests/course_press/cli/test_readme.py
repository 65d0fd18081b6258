"""Every command of the README runs as printed, in a clone that holds nothing else than the commit."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
PRINTED = [line.partition("  #")[0].strip() for block in BLOCKS for line in block.splitlines()]
COURSE = [line for line in PRINTED if line.startswith((".venv/bin/course", ".venv/bin/python"))]
ELSEWHERE = {
    "build": "prints pages for minutes; tests/course_press/pages does that with a small book",
    "notebooks": "runs every chapter, for minutes",
    "export": "prints the whole book",
    "preview": "serves until it is stopped",
    "me": "measures for minutes; tests/course_press/cli/test_me.py does that with a small machine",
    "mcp": "serves until its assistant hangs up",
    "check": "reads all languages for a minute; make lint does that",
    "release": "checks the whole book first",
    "stamp": "writes into the chapters",
    "lab": "measures for a minute, needs a reader's own results, or rents a machine",
    "results": "checks what a reader measured",
    "grade": "needs a student's file",
}
OWN = ("config.json", "roll.csv")
"""What a reader brings."""


def asked(line):
    return shlex.split(line)[1]


def test_what_does_not_run_here_is_a_command_of_the_readme_and_few_are():
    assert set(ELSEWHERE) <= {asked(line) for line in COURSE}
    assert len(COURSE) > 25
    reader = [asked(line) for line in COURSE]
    assert reader[:7] == ["fits", "predict", "verify", "diagnose", "serve", "train", "me"]
    assert reader.index("diagnose") < reader.index("build")


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme") / "clone"
    command = ["git", "clone", "-q", "--no-tags", "--shared", str(ROOT), str(folder)]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("this is no clone of git")
    return folder


RUN_HERE = [
    line
    for line in COURSE
    if asked(line) not in ELSEWHERE and not any(own in shlex.split(line) for own in OWN)
]
FIRST = [*{asked(line): line for line in reversed(RUN_HERE)}.values()]
"""Of each command."""
ALONE = [line for line in FIRST if line == FIRST[-1] or not line.startswith(".venv/bin/course")]
"""What `make test` types into a shell; the others in `make exhaustive`."""
EACH = """
import os, shlex, sys
from course_press.__main__ import main
import course_press.cli.app, course_book.answers
for line in sys.argv[1:]:
    if (pid := os.fork()) == 0:
        sys.argv = shlex.split(line)
        sys.exit(main())
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        sys.exit(f"{line}: exit status {code}")
"""


def test_the_first_of_each_command_runs_in_a_fresh_clone(clone):
    """Each in a process of its own, which has imported already what all need."""
    env = {**os.environ, "PYTHONPATH": str(clone)}
    lines = [line for line in FIRST if line not in ALONE]
    command = [sys.executable, "-c", EACH, *lines]
    done = subprocess.run(command, cwd=clone, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=() if line in ALONE else pytest.mark.exhaustive)
        for line in RUN_HERE
    ],
)
def test_it_runs_as_printed_in_a_fresh_clone(clone, line):
    program = sys.executable + (" -m course_press" if "/course" in line.split()[0] else "")
    typed = f"{program} {line.partition(' ')[2]}"
    env = {**os.environ, "PYTHONPATH": str(clone)}
    done = subprocess.run(
        typed, shell=True, cwd=clone, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
