"""Grades a class: several files at a time, each once."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path

from course_lib import CourseError
from course_press.grading.classroom.record import Graded, Record, as_marks, digest
from course_press.grading.classroom.submissions import Submission, text_of
from course_press.grading.graders import grade, graded_by
from course_press.grading.isolation import isolated, isolating
from course_press.grading.learner import Warden, existing
from course_press.grading.verdict import Said, Verdict, said

__all__ = ["judged", "mark", "mark_all"]


def mark(one: Submission, folder: Path) -> Graded:
    """Grade one file.

    Parameters
    ----------
    one : whose and for which lab.
    folder : of the lab.
    """
    before = digest(one.file)
    text = text_of(one.file)
    verdicts = [Verdict("runs", False, text)] if isinstance(text, Said) else grade(folder, one.file)
    return Graded(
        student=one.student,
        lab=one.lab,
        file=one.file.name,
        digest=before,
        isolated=isolating(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        marks=as_marks(verdicts),
    )


def judged(folder: Path, file: Path, *, isolate: bool) -> Graded:
    """Grade a file where another system keeps the book of grades.

    Parameters
    ----------
    folder : of the lab.
    file : the student's.
    isolate : in a cell, or not at all.

    Examples
    --------
    >>> judged(Path("labs/00-three-accelerators"), Path("nowhere.py"), isolate=False)
    Traceback (most recent call last):
    ...
    course_lib.CourseError: path 'nowhere.py' is not a file: give the path of your matmul_bench.py
    """
    file = existing(file, graded_by(folder).file)
    with isolated() if isolate else nullcontext():
        return mark(Submission("", folder.name[:2], file), folder)


def check_here(folder: Path) -> None:
    """Raise where a lab's own reference fails on this computer: then every student would."""
    reference = folder / "reference.py"
    if reference.is_file() and (
        wrong := [one for one in grade(folder, reference) if not one.passed]
    ):
        why = [f"{one.title}: {one.said}" for one in wrong]
        raise CourseError(str(said("reference-fails", lab=folder.name[:2], why=why)))


def mark_all(
    submissions: Iterable[Submission],
    folders: Mapping[str, Path],
    record: Record,
    *,
    jobs: int,
    say: Callable[[str], object],
) -> tuple[list[Graded], list[tuple[Submission, str]]]:
    """Grade what the record does not have, as it is now.

    Parameters
    ----------
    submissions : of a class.
    folders : of the labs, by number.
    record : is asked first, and told of each as soon as it is graded.
    jobs : how many at a time.
    say : is told of each.

    Returns
    -------
    All that is graded, and what could not be, with the reason; that is tried again next time.
    """
    work = list(submissions)
    todo = [one for one in work if not _done(one, record)]
    if todo and isolating():
        with Warden():  # refuses before anything is graded
            pass
    for lab in sorted({one.lab for one in todo}):
        check_here(folders[lab])
    failed: list[tuple[Submission, str]] = []
    say(str(said("class-begins", todo=len(todo), known=len(work) - len(todo))))
    with ThreadPoolExecutor(jobs) as pool:
        running = {
            pool.submit(copy_context().run, mark, one, folders[one.lab]): one for one in todo
        }
        try:
            for count, future in enumerate(as_completed(running), start=1):
                one = running[future]
                try:
                    found = future.result()
                except (CourseError, OSError) as error:
                    failed.append((one, str(error)))
                    continue
                record.add(found)
                verdict = str(said("passed" if found.passed else "failed"))
                say(f"{count}/{len(todo)}  {one.student}  {one.lab}: {verdict}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [known for one in work if (known := _done(one, record))], failed


def _done(one: Submission, record: Record) -> Graded | None:
    """What the record has of a file as it is now."""
    known = record.of(one)
    if known is None or known.digest != digest(one.file):
        return None
    # A file that was not isolated could have written in the record itself.
    return known if known.isolated or not isolating() else None
