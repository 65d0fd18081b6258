"""What has been graded, a line a submission, kept so that a run that ends early loses none."""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Self

import msgspec

import course_lib
from course_lib import CourseError
import course_tools
from course_book.text import in_language, languages
from course_press import grading
from course_press.grading.classroom.submissions import MOST, Submission
from course_press.grading.verdict import Amount, Text, Verdict, message

PLACES = ("line", "call")  # keys of what says where in a student's file something is


class Mark(msgspec.Struct, frozen=True):
    """What was found by one criterion, by language; `general` is without what is the student's."""

    criterion: str
    passed: bool
    mistake: str
    title: dict[str, str]
    told: dict[str, str]
    general: dict[str, str]


class Graded(msgspec.Struct, frozen=True):
    """A submission and what was found."""

    student: str
    lab: str
    file: str
    digest: str
    isolated: bool
    at: str
    marks: list[Mark]

    @property
    def passed(self) -> bool:
        """Whether all criteria are met."""
        return bool(self.marks) and all(mark.passed for mark in self.marks)

    @property
    def unjudged(self) -> Mark | None:
        """What says that, and why, it could not be judged."""
        return {mark.mistake.partition("/")[0]: mark for mark in self.marks}.get("unjudged")

    def points(self, criteria: Sequence[str]) -> float:
        """Of 100, by how many of a lab's criteria it meets."""
        met = {mark.criterion for mark in self.marks if mark.passed}
        return round(100 * len(met & set(criteria)) / len(criteria), 1)


def as_marks(verdicts: Sequence[Verdict]) -> list[Mark]:
    """Verdicts in every language."""
    marks = [
        Mark(one.criterion, one.passed, "" if one.passed else "/".join(_keys(one.why)), {}, {}, {})
        for one in verdicts
    ]
    for lang in languages():
        with in_language(lang):
            for mark, one in zip(marks, verdicts, strict=True):
                mark.title[lang], mark.told[lang] = one.title, one.text
                mark.general[lang] = str(_general(one.why))
    return marks


def _keys(why: Text) -> Iterator[str]:
    yield why.key
    for value in why.values.values():
        for part in _parts(value):
            if isinstance(part, Text) and part.key not in PLACES:
                yield from _keys(part)


def _general(why: Text) -> Text:
    """The sentence without numbers and without what it quotes."""

    def hushed(value: object) -> Text | str:
        if isinstance(value, Text):
            return message("somewhere") if value.key in PLACES else _general(value)
        return "…"

    return Text(why.key, {name: list(map(hushed, _parts(one))) for name, one in why.values.items()})


def _parts(value: object) -> Sequence[object]:
    """The parts of a value that has several."""
    if isinstance(value, list | tuple) and not isinstance(value, Amount):
        return value or [value]
    return [value]


def digest(file: Path, folder: Path) -> str:
    """A name for what is graded of a file and for what grades it; none where it cannot be read."""
    try:
        with file.open("rb") as opened:
            return hashlib.sha256(opened.read(MOST + 1) + _grades(folder)).hexdigest()
    except OSError:
        return ""


@cache
def _grades(folder: Path) -> bytes:
    found = hashlib.sha256()
    libraries = (Path(str(one.__file__)).parent for one in (grading, course_lib, course_tools))
    for root in (folder, *libraries):
        for file in sorted(root.rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                found.update(f"{file.relative_to(root)}\0{content}\0".encode())
    return found.digest()


class Record:
    """A file of graded submissions, one run's at a time, to which lines are only added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[tuple[str, str], Graded] = {}

    def __enter__(self) -> Self:
        import fcntl  # of POSIX systems; the rest of the command line does without

        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise CourseError(str(message("record-busy", path=repr(str(self.path))))) from None
        self._file.seek(0)
        content = self._file.read()
        # A killed run leaves half a line, which is graded again.
        self._file.truncate(content.rfind(b"\n") + 1)
        for line in content[: content.rfind(b"\n") + 1].splitlines():
            with contextlib.suppress(msgspec.MsgspecError):
                self._note(msgspec.json.decode(line, type=Graded))
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, one: Graded) -> None:
        """Keep it: when this returns, it is on the disk."""
        line = msgspec.json.encode(one) + b"\n"
        while line:
            line = line[os.write(self._file.fileno(), line) :]
        os.fsync(self._file.fileno())
        self._note(one)

    def of(self, submission: Submission) -> Graded | None:
        """What was found last."""
        return self._known.get((submission.student, submission.lab))

    def _note(self, one: Graded) -> None:
        self._known[one.student, one.lab] = one
