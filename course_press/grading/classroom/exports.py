"""Grades as other systems read them: any LMS, Gradescope, nbgrader."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from course_book.text import language
from course_press.grading.classroom.record import Graded, as_marks
from course_press.grading.classroom.similarity import Pair
from course_press.grading.verdict import Verdict, said

COLUMNS = (
    "student", "lab", "verdict", "points", "met", "criteria", "failed", "mistakes", "similar",
    "isolated", "graded", "file",
)  # fmt: skip
NBGRADER = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip
"""The columns of `nbgrader export`."""


def plain_csv(
    found: Sequence[Graded],
    criteria: Mapping[str, Sequence[str]],
    *,
    roll: Iterable[str] = (),
    similar: Iterable[tuple[str, str]] = (),
) -> str:
    """A row for each student and lab; a student of the roll without a file has one too.

    Parameters
    ----------
    found : what was graded.
    criteria : of each lab.
    roll : the students of the class.
    similar : students with the labs in which they were flagged.

    Examples
    --------
    >>> print(plain_csv([], {"00": ["runs"]}, roll=["ada"]).splitlines()[1])
    ada,00,missing,0,0,1,,,,,,
    """
    flagged = set(similar)
    rows: list[list[Any]] = []
    for one in found:
        wrong = [mark for mark in one.marks if not mark.passed]
        rows.append(
            [
                one.student,
                one.lab,
                "unjudged" if one.unjudged else "passed" if one.passed else "failed",
                one.points(criteria[one.lab]),
                len(one.marks) - len(wrong),
                len(criteria[one.lab]),
                " ".join(mark.criterion for mark in wrong),
                " ".join(mark.mistake for mark in wrong),
                "yes" if (one.student, one.lab) in flagged else "no",
                "yes" if one.isolated else "no",
                one.at,
                one.file,
            ]
        )
    there = {(one.student, one.lab) for one in found}
    for lab, names in criteria.items():
        rows += [
            [student, lab, "missing", 0, 0, len(names), *[""] * 6]
            for student in roll
            if (student, lab) not in there
        ]
    return _csv(COLUMNS, sorted(rows, key=lambda row: (row[1], row[0])))


def nbgrader_csv(found: Sequence[Graded], criteria: Mapping[str, Sequence[str]]) -> str:
    """The rows that `nbgrader export` writes: a lab is an assignment of 100 points.

    Examples
    --------
    >>> nbgrader_csv([], {}).partition(",")[0]
    'assignment'
    """
    rows = [
        [f"lab-{one.lab}", "", one.at, one.student, "", "", "", points, 0.0, points, 100.0]
        for one in found
        for points in [one.points(criteria[one.lab])]
    ]
    return _csv(NBGRADER, rows)


def similar_csv(similar: Mapping[str, Sequence[Pair]]) -> str:
    r"""The pairs that are alike, by lab.

    Examples
    --------
    >>> similar_csv({"00": []})
    'lab,first,second,share\n'
    """
    rows = [
        [lab, one.first, one.second, round(one.share, 3)]
        for lab, pairs in similar.items()
        for one in pairs
    ]
    return _csv(("lab", "first", "second", "share"), rows)


def gradescope(one: Graded, criteria: Sequence[str]) -> dict[str, Any]:
    """What Gradescope reads as `results.json`, in the language of the moment.

    The score is of 100 points. A criterion that could not be judged is listed as failed.

    Parameters
    ----------
    one : what was graded.
    criteria : of the lab.

    Examples
    --------
    >>> from course_press.grading.classroom.record import Graded
    >>> none = Graded("ada", "00", "mine.py", "", True, "", [])
    >>> gradescope(none, ["runs"])["score"]
    0.0
    """
    lang, each = language(), 100 / len(criteria)
    judged = {mark.criterion: mark for mark in one.marks}
    others = [Verdict(name, False, said("not-judged")) for name in criteria if name not in judged]
    judged |= {mark.criterion: mark for mark in as_marks(others)}
    tests = [
        {
            "name": mark.title[lang],
            "score": round(each if mark.passed else 0.0, 4),
            "max_score": round(each, 4),
            "status": "passed" if mark.passed else "failed",
            "visibility": "visible",
            "output": mark.told[lang],
        }
        for mark in (judged[name] for name in criteria)
    ]
    return {
        "score": one.points(criteria),
        "output": str(said("report-lab", lab=one.lab, file=one.file)),
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {
            "passed": one.passed,
            "mistakes": [mark.mistake for mark in one.marks if mark.mistake],
        },
    }


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula."""
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if formula else value
