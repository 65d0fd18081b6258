"""What is written of a graded class: to each student, and of all of them without a name."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from course_book.text import in_language, language
from course_press.grading.classroom.record import Graded
from course_press.grading.verdict import said


def student_report(found: Sequence[Graded], criteria: Mapping[str, Sequence[str]]) -> str:
    """One student's labs, in the language of the moment.

    Examples
    --------
    >>> student_report([], {})
    ''
    """
    lang, parts = language(), []
    for one in found:
        met = sum(mark.passed for mark in one.marks)
        lines = [str(said("report-lab", lab=one.lab, file=one.file))]
        lines += [
            f"{said('passed' if mark.passed else 'failed')}  {mark.title[lang]}: {mark.told[lang]}"
            for mark in one.marks
        ]
        due = len(criteria[one.lab])
        lines.append(str(said("report-all" if one.passed else "report-some", met=met, due=due)))
        if not one.passed and len(one.marks) < due:
            lines.append(str(said("report-more")))
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def summary(found: Sequence[Graded]) -> str:
    """How many make which mistake, without a name, in the language of the moment.

    Examples
    --------
    >>> with in_language("en"):
    ...     summary([])
    ''
    """
    lang, parts = language(), []
    for lab in sorted({one.lab for one in found}):
        of_lab = [one for one in found if one.lab == lab]
        passed = sum(one.passed for one in of_lab)
        lines = [str(said("summary-lab", lab=lab, passed=passed, all=len(of_lab)))]
        mistakes = Counter(
            (mark.criterion, mark.mistake, mark.title[lang], mark.general[lang])
            for one in of_lab
            for mark in one.marks
            if not mark.passed
        )
        lines += [
            f"{count:>4}  {title}: {general}  [{mistake}]"
            for (_, mistake, title, general), count in sorted(
                mistakes.items(), key=lambda item: (-item[1], item[0])
            )
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def write_reports(
    found: Sequence[Graded],
    criteria: Mapping[str, Sequence[str]],
    roll: Mapping[str, str],
    files: Mapping[str, str],
    folder: Path,
) -> None:
    """A file for each student, in the student's language; `files` says what it is called."""
    folder.mkdir(parents=True, exist_ok=True)
    for student in sorted({one.student for one in found}):
        with in_language(roll.get(student, language())):
            text = student_report([one for one in found if one.student == student], criteria)
        folder.joinpath(f"{files[student]}.txt").write_text(text, encoding="utf-8")
