"""Grades as any LMS, Gradescope, nbgrader, students and (nameless) instructors read them."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from course_book.text import language
from course_press.grading.classroom.record import Graded, as_marks
from course_press.grading.classroom.similarity import Pair
from course_press.grading.verdict import Verdict, message

COLUMNS = (
    "student", "lab", "verdict", "points", "met", "criteria", "failed", "mistakes", "similar",
    "isolated", "graded", "file",
)  # fmt: skip
# The columns of `nbgrader export`.
NBGRADER = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip


def plain_csv(
    found: Sequence[Graded],
    criteria: Mapping[str, Sequence[str]],
    roster: Iterable[str] = (),
    similar: Mapping[str, Sequence[Pair]] = MappingProxyType({}),
) -> str:
    """A row for each student and lab; a student of the roster without a file has one too."""
    flagged = {(pair.first, lab) for lab, pairs in similar.items() for pair in pairs}
    flagged |= {(pair.second, lab) for lab, pairs in similar.items() for pair in pairs}
    rows: list[list[Any]] = []
    for one in found:
        wrong = [mark for mark in one.marks if not mark.passed]
        verdict = "unjudged" if one.unjudged else "passed" if one.passed else "failed"
        counts = [len(one.marks) - len(wrong), len(criteria[one.lab])]
        told = [" ".join(getattr(m, of) for m in wrong) for of in ("criterion", "mistake")]
        flags = ["yes" if so else "no" for so in ((one.student, one.lab) in flagged, one.isolated)]
        row = [one.student, one.lab, verdict, one.points(criteria[one.lab]), *counts]
        rows.append([*row, *told, *flags, one.at, one.file])
    there = {(one.student, one.lab) for one in found}
    for lab, names in criteria.items():
        rows += [
            [student, lab, "missing", 0, 0, len(names), *[""] * 6]
            for student in roster
            if (student, lab) not in there
        ]
    return _csv(COLUMNS, sorted(rows, key=lambda row: (row[1], row[0])))


def nbgrader_csv(found: Sequence[Graded], criteria: Mapping[str, Sequence[str]]) -> str:
    """The rows that `nbgrader export` writes: a lab is an assignment of 100 points."""
    rows = []
    for one in found:
        points = one.points(criteria[one.lab])
        whose = [f"lab-{one.lab}", "", one.at, one.student, "", "", ""]
        rows.append([*whose, points, 0.0, points, 100.0])
    return _csv(NBGRADER, rows)


def similar_csv(similar: Mapping[str, Sequence[Pair]]) -> str:
    """The pairs that are alike, by lab."""
    every = ((lab, one) for lab, pairs in similar.items() for one in pairs)
    rows = [[lab, one.first, one.second, round(one.share, 3)] for lab, one in every]
    return _csv(("lab", "first", "second", "share"), rows)


def gradescope(one: Graded, criteria: Sequence[str]) -> dict[str, Any]:
    """What Gradescope reads as `results.json`, in the language of the moment.

    The score is of 100 points. A criterion that could not be judged is listed as failed.

    Examples
    --------
    >>> from course_press.grading.classroom.record import Graded
    >>> none = Graded("ada", "00", "mine.py", "", True, "", [])
    >>> gradescope(none, ["runs"])["score"]
    0.0
    """
    lang, each = language(), 100 / len(criteria)
    missing = [Verdict(name, False, message("not-judged")) for name in criteria]
    judged = {mark.criterion: mark for mark in (*as_marks(missing), *one.marks)}
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
    mistakes = [mark.mistake for mark in one.marks if mark.mistake]
    return {
        "score": one.points(criteria),
        "output": str(message("report-lab", lab=one.lab, file=one.file)),
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"passed": one.passed, "mistakes": mistakes},
    }


def gradescope_text(results: Mapping[str, Any]) -> str:
    """As Gradescope's file holds it."""
    return json.dumps(results, ensure_ascii=False, indent=1)


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


def student_report(found: Sequence[Graded], criteria: Mapping[str, Sequence[str]]) -> str:
    """One student's labs, in the language of the moment."""
    lang, parts = language(), []
    for one in found:
        met = sum(mark.passed for mark in one.marks)
        lines = [str(message("report-lab", lab=one.lab, file=one.file))]
        for mark in one.marks:
            passed = message("passed" if mark.passed else "failed")
            lines.append(f"{passed}  {mark.title[lang]}: {mark.told[lang]}")
        due = len(criteria[one.lab])
        lines.append(str(message("report-all" if one.passed else "report-some", met=met, due=due)))
        if not one.passed and len(one.marks) < due:
            lines.append(str(message("report-more")))
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def summary(found: Sequence[Graded]) -> str:
    """How many make which mistake, without a name, in the language of the moment."""
    lang, parts = language(), []
    for lab in sorted({one.lab for one in found}):
        of_lab = [one for one in found if one.lab == lab]
        passed = sum(one.passed for one in of_lab)
        lines = [str(message("summary-lab", lab=lab, passed=passed, all=len(of_lab)))]
        wrong = [mark for one in of_lab for mark in one.marks if not mark.passed]
        mistakes = Counter((m.criterion, m.mistake, m.title[lang], m.general[lang]) for m in wrong)
        lines += [
            f"{count:>4}  {title}: {general}  [{mistake}]"
            for (_, mistake, title, general), count in sorted(
                mistakes.items(), key=lambda item: (-item[1], item[0])
            )
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
