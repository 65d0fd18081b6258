"""From a folder of submissions to everything that an instructor hands on."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from course_book.text import in_language, language
from course_press.grading.classroom import exports
from course_press.grading.classroom.marking import mark_all
from course_press.grading.classroom.record import Graded, Record
from course_press.grading.classroom.similarity import Pair, alike
from course_press.grading.classroom.submissions import Submission, find, text_of
from course_press.grading.graders import graded_by
from course_press.grading.verdict import message
from course_press.source.files import file_names

# Stands for the reference solution among what is compared: anybody can copy it.
REFERENCE = "(reference)"


class Done(msgspec.Struct, frozen=True):
    """What came of a class; `wrong` tells of files that were left out or not graded now."""

    graded: list[Graded]
    wrong: list[str]
    similar: dict[str, list[Pair]]


def grade_class(
    submissions: Path,
    folders: Mapping[str, Path],
    out: Path,
    *,
    lab: str | None = None,
    jobs: int = 1,
    roster: Mapping[str, str] | None = None,
    say: Callable[[str], object] = str,
) -> Done:
    """Grade all that was handed in, and write grades, reports and exports.

    Files run in cells inside `course_press.grading.isolated`, and else with your rights. What the
    record has of a file as it is now is not graded again.

    Parameters
    ----------
    submissions : folder of a class's files.
    folders : of the labs, by number.
    out : the CSV of grades; all else goes into a folder beside it, of the same name.
    lab : the only one, where all files are for one.
    jobs : how many files at a time.
    roster : languages by student; `None` where there is no list of the class.
    say : is told what happens.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     grade_class(Path(folder), {}, Path(folder, "grades.csv")).graded
    []
    """
    about = {number: graded_by(folder) for number, folder in folders.items()}
    work, left = find(submissions, {number: one.file for number, one in about.items()}, lab)
    beside = out.with_suffix("")
    with Record(beside / "record.jsonl") as record:
        graded = mark_all(work, folders, record, jobs=jobs, say=say)
    labs = [lab] if lab else sorted({one.lab for one in graded})
    criteria = {number: about[number].criteria for number in labs}
    similar = {
        number: _alike([one for one in work if one.lab == number], folders[number])
        for number in labs
    }
    students = roster or {}
    written = {
        out: exports.plain_csv(graded, criteria, students, similar),
        beside / "nbgrader.csv": exports.nbgrader_csv(graded, criteria),
        beside / "summary.txt": exports.summary(graded),
        beside / "similar.csv": exports.similar_csv(similar),
    }
    files = file_names(one.student for one in graded)
    for student, name in files.items():
        if len(student) > len(name):
            say(str(message("name-shortened", student=student, name=name)))
    for one in graded:
        with in_language(students.get(one.student, language())):
            results = exports.gradescope(one, criteria[one.lab])
            theirs = [other for other in graded if other.student == one.student]
            report = exports.student_report(theirs, criteria)
        name = f"{files[one.student]}-{one.lab}.json"
        written[beside / "gradescope" / name] = exports.gradescope_text(results)
        written[beside / "reports" / f"{files[one.student]}.txt"] = report
    for folder in ("gradescope", "reports"):
        (beside / folder).mkdir(exist_ok=True)
    for file, text in written.items():
        file.write_text(text, encoding="utf-8")
    wrong = [str(one) for one in left]
    wrong += [
        str(message("class-left", student=one.student, lab=one.lab, why=mark.told[language()]))
        for one in graded
        if (mark := one.unjudged)
    ]
    return Done(graded, wrong, similar)


def _alike(work: list[Submission], folder: Path) -> list[Pair]:
    texts = {one.student: text for one in work if isinstance(text := text_of(one.file), str)}
    if (reference := folder / "reference.py").is_file():
        texts[REFERENCE] = reference.read_text(encoding="utf-8")
    return alike(texts, (folder / graded_by(folder).file).read_text(encoding="utf-8"))
