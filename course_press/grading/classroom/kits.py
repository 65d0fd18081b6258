"""A lab's grader, packed for Gradescope, Otter-Grader or nbgrader: the same verdicts there."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from course_lib.core import known
from course_book.text import language
from course_press.grading.graders import Grading, graded_by
from course_press.grading.verdict import said

EXTRAS = {
    "benchmark": "press,torch",
    "ring": "press,torch",
    "kernels": "press,torch,kernels",
    "sharding": "press,sharding",
}
"""By grader, what its files need; `press` where none is named."""
SETUP = """\
#!/usr/bin/env bash
set -e
export UV_PYTHON_INSTALL_DIR=/autograder/python
apt-get update
apt-get install -y bubblewrap python3-pip
python3 -m pip install --break-system-packages uv || python3 -m pip install uv
uv venv --python 3.12 /autograder/venv
uv pip install --python /autograder/venv/bin/python --torch-backend cpu \\
  -c /autograder/source/constraints.txt "/autograder/source[{extras}]"
"""
RUN = """\
#!/usr/bin/env bash
# Any one Python file is taken for a {file}. No cell, no points: the instructor is told why.
home=${{AUTOGRADER:-/autograder}}
python=${{COURSE_PYTHON:-$home/venv/bin/python}}
results=$home/results/results.json
export COURSE_LANG={lang} PYTHONPATH=$home/source
file=$(ls "$home"/submission/*{file} "$home"/submission/*.py 2>/dev/null | head -n 1)
cd "$home/source"
chmod 700 "$home/results"
{way}
told=$("$python" -m course_press grade {lab} "${{file:-{file}}}" --out "$results" $way 2>&1)
[ -f "$results" ] || "$python" -c 'import json, sys
print(json.dumps({{"score": 0, "output": sys.argv[1]}}))' "$told" > "$results"
"""
CELL = "way=--isolated"
NO_CELL = """\
way=
# Packed with --unsafe. Where another user can run what a file needs, it runs as one.
if "$python" -c "
import os
os.setgroups([]), os.setresgid(*[{user}] * 3), os.setresuid(*[{user}] * 3)
import numpy
open('course_press/grading/inside/frames.py')
" 2>/dev/null; then export COURSE_LEARNER={user}; fi"""
USER = 61183
"""One that no account and no cell has."""
OTTER = """\
from functools import cache
from pathlib import Path

from otter.test_files import test_case

OK_FORMAT = False
name = "lab-{lab}"


@cache
def found():
    from course_press.grading.classroom import judged

    return judged(Path({folder!r}), Path({file!r}), isolate={isolate})


def meets(criterion):
    told = [one for one in found().marks if one.criterion == criterion]
    assert told and told[0].passed, told[0].told[{lang!r}] if told else {unjudged!r}
"""
CASE = """

@test_case(name={name!r}, points={points})
def test_{number}():
    meets({name!r})
"""
NOTEBOOK = """\
### BEGIN HIDDEN TESTS
from pathlib import Path

from course_book.text import in_language
from course_press.grading.classroom import judged, student_report

found = judged(Path({folder!r}), Path({file!r}), isolate={isolate})
with in_language({lang!r}):
    print(student_report([found], {{"{lab}": {criteria}}}))
found.points({criteria})
### END HIDDEN TESTS
"""
CONFIG = """\
c = get_config()
c.Autograde.exclude_overwriting = {{"lab-{lab}": [{file!r}]}}
"""


def write_kit(kind: str, root: Path, folder: Path, out: Path, *, isolate: bool = True) -> None:
    """Pack a lab's grader.

    Parameters
    ----------
    kind : one of `KITS`.
    root : of the book.
    folder : of the lab.
    out : a zip file; for nbgrader the folder of a course.
    isolate : whether files must run in cells: where none can be made, nobody gets points.

    Examples
    --------
    >>> write_kit("moodle", Path(), Path("labs/00-three-accelerators"), Path("kit.zip"))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: unknown kit 'moodle': choose one of gradescope, nbgrader, otter
    """
    pack = KITS[known("kit", kind, KITS)]
    out.parent.mkdir(parents=True, exist_ok=True)
    pack(Kit(root, folder, out, isolate, graded_by(folder)))


class Kit(msgspec.Struct, frozen=True):
    """What a kit is made of."""

    root: Path
    folder: Path
    out: Path
    isolate: bool
    about: Grading

    def filled(self, template: str) -> str:
        """A template with what it leaves open."""
        return template.format(
            lab=self.folder.name[:2],
            folder=str(self.folder.resolve()),
            file=self.about.file,
            criteria=self.about.criteria,
            isolate=self.isolate,
            lang=language(),
            unjudged=str(said("not-judged")),
            way=CELL if self.isolate else NO_CELL.format(user=USER),
            extras=EXTRAS.get(self.about.grader, "press"),
        )


def _gradescope(kit: Kit) -> None:
    root, folder = kit.root, kit.folder
    files: dict[str, str | bytes] = {
        "setup.sh": kit.filled(SETUP),
        "run_autograder": kit.filled(RUN),
    }
    # What grades, and no reference.
    kept = [root / name for name in ("pyproject.toml", "constraints.txt", "README.md")]
    kept += [*root.glob("LICENSE*"), folder / "lab.toml", folder / "lab.ipynb"]
    for package in ("course_lib", "course_tools", "course_book", "course_press"):
        kept += [one for one in (root / package).rglob("*") if "__pycache__" not in one.parts]
    for one in kept:
        if one.is_file():
            files[one.relative_to(root).as_posix()] = one.read_bytes()
    kit.out.write_bytes(_zip(files))


def _otter(kit: Kit) -> None:
    config = {"lang": "python", "points_possible": 100, "show_hidden": True}
    names = kit.about.criteria
    cases = [
        CASE.format(name=name, points=100 / len(names), number=number)
        for number, name in enumerate(names)
    ]
    tests = kit.filled(OTTER) + "".join(cases)
    kit.out.write_bytes(_zip({"otter_config.json": json.dumps(config), "tests/lab.py": tests}))


def _nbgrader(kit: Kit) -> None:
    name, file = kit.filled("lab-{lab}"), kit.about.file
    graded = {
        "grade": True,
        "grade_id": name,
        "locked": True,
        "points": 100,
        "schema_version": 3,
        "solution": False,
        "task": False,
    }
    text = {
        "cell_type": "markdown",
        "id": "says",
        "metadata": {},
        "source": str(said("kit-says", file=file)),
    }
    cell: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "id": "grade",
        "metadata": {"nbgrader": graded},
        "outputs": [],
        "source": kit.filled(NOTEBOOK),
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "cells": [text, cell],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    source = kit.out / "source" / name
    source.mkdir(parents=True, exist_ok=True)
    (source / f"{name}.ipynb").write_text(json.dumps(notebook, indent=1), encoding="utf-8")
    (source / file).write_bytes((kit.folder / file).read_bytes())
    (kit.out / "nbgrader_config.py").write_text(kit.filled(CONFIG), encoding="utf-8")


def _zip(files: Mapping[str, str | bytes]) -> bytes:
    """The same bytes from the same files; scripts can be run."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)  # its date is 1980
            script = files[name][:2] in ("#!", b"#!")
            entry.external_attr = (0o755 if script else 0o644) << 16
            opened.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


KITS: Mapping[str, Callable[[Kit], None]] = {
    "gradescope": _gradescope,
    "nbgrader": _nbgrader,
    "otter": _otter,
}
"""By system, what packs for it."""
