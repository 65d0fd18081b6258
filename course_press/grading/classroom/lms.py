"""A lab's grader, packed for Gradescope, Otter-Grader or nbgrader: the same verdicts there.

What these run is in `assets/lms`, with what it leaves open in braces.
"""

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
TEMPLATES = Path(__file__).parents[2] / "assets" / "lms"
USER = 61183  # one that no account and no cell has


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
        "way": "way=--isolated" if isolate else _template("no_cell").format(user=USER),
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

    def filled(self, name: str) -> str:
        """A template with what it leaves open."""
        return _template(name).format(**self.values)


def _template(name: str) -> str:
    return (TEMPLATES / f"{name}.txt").read_text(encoding="utf-8")


def _gradescope(package: LmsPackage) -> None:
    root, folder = package.root, package.folder
    files: dict[str, str | bytes] = {"setup.sh": package.filled("setup")}
    files["run_autograder"] = package.filled("run_autograder")
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
    case = _template("otter_case")
    cases = [case.format(name=name, points=each, number=i) for i, name in enumerate(names)]
    tests = package.filled("otter") + "".join(cases)
    package.out.write_bytes(_zip({"otter_config.json": json.dumps(config), "tests/lab.py": tests}))


def _nbgrader(package: LmsPackage) -> None:
    name, file = f"lab-{package.values['lab']}", package.about.file
    graded: dict[str, Any] = {"grade": True, "grade_id": name, "locked": True, "points": 100}
    graded |= {"schema_version": 3, "solution": False, "task": False}
    text: dict[str, Any] = {"cell_type": "markdown", "id": "says", "metadata": {}}
    text["source"] = str(message("kit-says", file=file))
    cell: dict[str, Any] = {"cell_type": "code", "execution_count": None, "id": "grade"}
    cell |= {"metadata": {"nbgrader": graded}, "outputs": [], "source": package.filled("nbgrader")}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook: dict[str, Any] = {"cells": [text, cell], "metadata": {"kernelspec": kernel}}
    notebook |= {"nbformat": 4, "nbformat_minor": 5}
    source = package.out / "source" / name
    source.mkdir(parents=True, exist_ok=True)
    (source / f"{name}.ipynb").write_text(json.dumps(notebook, indent=1), encoding="utf-8")
    (source / file).write_bytes((package.folder / file).read_bytes())
    (package.out / "nbgrader_config.py").write_text(
        package.filled("nbgrader_config"), encoding="utf-8"
    )


def _zip(files: Mapping[str, str | bytes]) -> bytes:
    """The same bytes from the same files; scripts can be run."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)  # its date is 1980
            script = files[name][:2] == "#!"  # of bytes, none is ours to run
            entry.external_attr = (0o755 if script else 0o644) << 16
            opened.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


# By system, what packs for it.
SYSTEMS: Mapping[str, Callable[[LmsPackage], None]] = {
    "gradescope": _gradescope,
    "nbgrader": _nbgrader,
    "otter": _otter,
}
