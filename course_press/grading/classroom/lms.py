"""A lab's grader, packed for Gradescope, Otter-Grader or nbgrader: the same verdicts there."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from course_lib.core import known
from course_book.text import language
from course_press.grading.graders import Grading, graded_by
from course_press.grading.isolation import OURS
from course_press.grading.verdict import message

# By grader, what its files need; `press` where none is named.
EXTRAS = {
    "benchmark": "press,torch",
    "ring": "press,torch",
    "kernels": "press,torch,kernels",
    "sharding": "press,sharding",
}
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
open('course_press/grading/sandbox/frames.py')
" 2>/dev/null; then export COURSE_LEARNER={user}; fi"""
USER = 61183  # one that no account and no cell has
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


def write_package(kind: str, root: Path, folder: Path, out: Path, *, isolate: bool = True) -> None:
    """Pack a lab's grader.

    Parameters
    ----------
    kind : one of `SYSTEMS`.
    root : of the book.
    folder : of the lab.
    out : a zip file; for nbgrader the folder of a course.
    isolate : whether files must run in cells: where none can be made, nobody gets points.

    Examples
    --------
    >>> write_package("moodle", Path(), Path("labs/00-three-accelerators"), Path("kit.zip"))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: unknown kit 'moodle': choose one of gradescope, nbgrader, otter
    """
    pack = SYSTEMS[known("kit", kind, SYSTEMS)]
    out.parent.mkdir(parents=True, exist_ok=True)
    about = graded_by(folder)
    values = {
        "lab": folder.name[:2],
        "folder": str(folder.resolve()),
        "file": about.file,
        "criteria": about.criteria,
        "isolate": isolate,
        "lang": language(),
        "unjudged": str(message("not-judged")),
        "way": CELL if isolate else NO_CELL.format(user=USER),
        "extras": EXTRAS.get(about.grader, "press"),
    }
    pack(LmsPackage(root, folder, out, about, values))


class LmsPackage(NamedTuple):
    """What a package is made of; `values` fill templates."""

    root: Path
    folder: Path
    out: Path
    about: Grading
    values: Mapping[str, Any]

    def filled(self, template: str) -> str:
        """A template with what it leaves open."""
        return template.format(**self.values)


def _gradescope(package: LmsPackage) -> None:
    root, folder = package.root, package.folder
    scripts = {"setup.sh": SETUP, "run_autograder": RUN}
    files: dict[str, str | bytes] = {name: package.filled(one) for name, one in scripts.items()}
    # What grades, and no reference.
    kept = [root / name for name in ("pyproject.toml", "constraints.txt", "README.md")]
    kept += [*root.glob("LICENSE*"), folder / "lab.toml", folder / "lab.ipynb"]
    for name in OURS:
        kept += [one for one in (root / name).rglob("*") if "__pycache__" not in one.parts]
    for one in kept:
        if one.is_file():
            files[one.relative_to(root).as_posix()] = one.read_bytes()
    package.out.write_bytes(_zip(files))


def _otter(package: LmsPackage) -> None:
    config = {"lang": "python", "points_possible": 100, "show_hidden": True}
    names = package.about.criteria
    each = 100 / len(names)
    cases = [CASE.format(name=name, points=each, number=i) for i, name in enumerate(names)]
    tests = package.filled(OTTER) + "".join(cases)
    package.out.write_bytes(_zip({"otter_config.json": json.dumps(config), "tests/lab.py": tests}))


def _nbgrader(package: LmsPackage) -> None:
    name, file = package.filled("lab-{lab}"), package.about.file
    graded: dict[str, Any] = {"grade": True, "grade_id": name, "locked": True, "points": 100}
    graded |= {"schema_version": 3, "solution": False, "task": False}
    text: dict[str, Any] = {"cell_type": "markdown", "id": "says", "metadata": {}}
    text["source"] = str(message("kit-says", file=file))
    cell: dict[str, Any] = {"cell_type": "code", "execution_count": None, "id": "grade"}
    cell |= {"metadata": {"nbgrader": graded}, "outputs": [], "source": package.filled(NOTEBOOK)}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook: dict[str, Any] = {"cells": [text, cell], "metadata": {"kernelspec": kernel}}
    notebook |= {"nbformat": 4, "nbformat_minor": 5}
    source = package.out / "source" / name
    source.mkdir(parents=True, exist_ok=True)
    (source / f"{name}.ipynb").write_text(json.dumps(notebook, indent=1), encoding="utf-8")
    (source / file).write_bytes((package.folder / file).read_bytes())
    (package.out / "nbgrader_config.py").write_text(package.filled(CONFIG), encoding="utf-8")


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


# By system, what packs for it.
SYSTEMS: Mapping[str, Callable[[LmsPackage], None]] = {
    "gradescope": _gradescope,
    "nbgrader": _nbgrader,
    "otter": _otter,
}
