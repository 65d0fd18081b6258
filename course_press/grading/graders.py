"""Which grader a lab has: its lab.toml says."""

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from course_lib import CourseError
from course_lib.core import known
from course_book.text import languages
from course_press.grading.benchmark import BENCHMARK
from course_press.grading.diagnosis import DIAGNOSIS, Program
from course_press.grading.kernels import KERNELS
from course_press.grading.lab import Lab
from course_press.grading.learner import existing
from course_press.grading.ring import RING
from course_press.grading.serving import SERVING
from course_press.grading.sharding import SHARDING
from course_press.grading.verdict import Verdict, message

# By the key that a lab.toml names.
GRADERS: Mapping[str, Lab] = {
    "benchmark": BENCHMARK,
    "ring": RING,
    "diagnosis": DIAGNOSIS,
    "kernels": KERNELS,
    "serving": SERVING,
    "sharding": SHARDING,
}


class Grading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a lab.toml holds: its grader, the stub's name, criteria, and answers to compare with."""

    grader: str
    file: str
    criteria: Annotated[list[str], msgspec.Meta(min_length=1)]
    answers: dict[str, Program] = {}


def grading(folder: Path) -> Grading | None:
    """What a lab's lab.toml says, refused by the key that is wrong; `None` where it has none.

    Examples
    --------
    >>> grading(Path("nowhere")) is None
    True
    """
    file = folder / "lab.toml"
    if not file.is_file():
        return None
    try:
        found = msgspec.toml.decode(file.read_bytes(), type=Grading)
        known("grader", found.grader, GRADERS)
    except (msgspec.MsgspecError, UnicodeDecodeError, CourseError) as error:
        raise CourseError(f"{folder.name}/lab.toml: {error}") from None
    if bool(found.answers) != (found.grader == "diagnosis"):
        needs = "needs" if not found.answers else "takes no"
        raise CourseError(f"{folder.name}/lab.toml: grader {found.grader!r} {needs} answers")
    for name, program in found.answers.items():
        if lacking := [lang for lang in languages() if not program.tells.get(lang)]:
            said = f"answers.{name}.tells has no text in {lacking[0]!r}"
            raise CourseError(f"{folder.name}/lab.toml: {said}")
    return found


def grade(folder: Path, file: Path) -> list[Verdict]:
    """Grade a learner's file by the grader of a lab's folder; refused where there is no such file,
    it is no text, or what its grader needs is not installed.

    Examples
    --------
    >>> grade(Path("elsewhere/07-small"), Path("mine.py"))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: lab '07' has nothing to grade: choose from none
    """
    about = graded_by(folder)
    file = existing(file, about.file)
    try:
        with np.errstate(all="ignore"):
            return GRADERS[about.grader].grade(file, [about.answers] if about.answers else None)
    except (CourseError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a file leads the judge into, it says
        *_, at = traceback.extract_tb(error.__traceback__)
        what = f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"
        return [Verdict("runs", False, message("unjudged", why=what))]


def graded_by(folder: Path) -> Grading:
    """What a lab's lab.toml says; raise where it has none, with the labs that have."""
    about = grading(folder)
    if about is None:
        labs = sorted(path.parent.name[:2] for path in folder.parent.glob("[0-9][0-9]-*/lab.toml"))
        lab = folder.name.partition("-")[0]
        choice = labs or message("nothing")
        raise CourseError(str(message("nothing-to-grade", lab=repr(lab), labs=choice)))
    return about
