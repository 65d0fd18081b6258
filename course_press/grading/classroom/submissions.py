"""What a class has handed in: whose file is for which lab."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from course_lib import CourseError
from course_book.text import language
from course_press.grading.verdict import Text, message

MOST = 1 << 20  # bytes of a file: what a person writes is far smaller


# What stands between a student's id and the name of a stub.
_BETWEEN = re.compile(r"(?:[ ._-]|(?:^|(?<=[ ._-]))my_)+$")


class Submission(msgspec.Struct, frozen=True, order=True):
    """One student's file for one lab."""

    student: str
    lab: str
    file: Path


def find(
    folder: Path, stubs: Mapping[str, str], lab: str | None = None
) -> tuple[list[Submission], list[Text]]:
    """The submissions in a folder of files, or of students' folders; and what is told of the rest.

    Without `lab`, a file is for the lab whose stub its name ends in: `ada/matmul_bench.py` and
    `ada-my_matmul_bench.py`, as the lab's page has students call their copy, are both Ada's.
    """
    if not folder.is_dir():
        raise CourseError(str(message("no-submissions", path=repr(str(folder)))))
    wanted = {lab: stubs[lab]} if lab else stubs
    found: dict[tuple[str, str], Submission] = {}
    wrong: list[Text] = []
    endings = tuple(wanted.values())

    def order(entry: tuple[str | None, Path]) -> tuple[bool, Path]:
        return not entry[1].name.endswith(endings), entry[1]  # a stub's name goes before others

    for owner, file in sorted(_files(folder), key=order):
        name = file.relative_to(folder).as_posix()
        if file.is_symlink() or not file.is_file() or file.suffix != ".py":
            wrong.append(message("hand-in-kind", name=name))
            continue
        number = next((key for key, stub in wanted.items() if file.name.endswith(stub)), lab)
        if number is None:
            wrong.append(message("hand-in-lab", name=name, names=sorted(endings)))
            continue
        named = _BETWEEN.sub("", file.name.removesuffix(wanted[number]))
        student = printable(owner or named or file.stem)
        one = Submission(student, number, file)
        if (same := found.get((one.student, number))) is not None:
            other = same.file.relative_to(folder).as_posix()
            wrong.append(message("hand-in-twice", name=name, other=other))
            continue
        found[one.student, number] = one
    return sorted(found.values()), wrong


def _files(folder: Path) -> Iterator[tuple[str | None, Path]]:
    """Each file, with its student where a folder is named after one."""
    for entry in folder.iterdir():
        if entry.name.startswith((".", "__")):
            continue
        if entry.is_symlink() or not entry.is_dir():
            yield None, entry
            continue
        for file in entry.rglob("*"):
            inner = file.relative_to(entry).parts
            if (file.is_symlink() or not file.is_dir()) and not any(
                part.startswith((".", "__")) for part in inner
            ):
                yield entry.name, file


def printable(name: str) -> str:
    """As one writes it, whatever the system that packed it; nothing in it moves a cursor."""
    composed = unicodedata.normalize("NFC", name)
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in composed)


def text_of(file: Path) -> str | Text:
    """What a file holds, or why it cannot be graded."""
    with file.open("rb") as opened:
        content = opened.read(MOST + 1)
    if len(content) > MOST:
        return message("hand-in-large", most=MOST >> 20)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return message("hand-in-text", reason=error.reason)


def read_roster(file: Path) -> dict[str, str]:
    r"""The students of a class with their languages, from the roster that `course exercises` reads.

    Its ids are the names of the submissions; who has no language there gets that of the moment. One
    that cannot be read is refused by the line that is wrong.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "roll.csv")
    ...     _ = file.write_text("id,language\nada,es\n")
    ...     read_roster(file)
    {'ada': 'es'}
    """
    from course_press.exports import rolls  # what prints takes long to import

    students = rolls.read_roll(file, language(), plain=False)
    return {printable(one.id): one.language for one in students}
