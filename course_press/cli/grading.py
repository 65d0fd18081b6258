"""The commands that grade labs: one file, a class, or by the system that a school has."""

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from course_lib import CourseError
from course_book.text import in_language
from course_press.cli.console import command, complain, err_console, tell
from course_press.cli.labs import Lang, chosen
from course_press.labs import run as labs

app = typer.Typer()


@command(app)
def grade(
    number: Annotated[str | None, Argument()] = None,
    file: Annotated[Path | None, Argument()] = None,
    all_: Annotated[Path | None, Option("--all")] = None,
    out: Path | None = None,
    roll: Path | None = None,
    jobs: Annotated[int, Option(min=1)] = max(1, (os.cpu_count() or 1) // 2),
    isolated: bool = False,
    unsafe: bool = False,
    lang: Lang = None,
) -> None:
    """Check your solution of a lab, or a class's.

    Example: `course grade 00 my_matmul_bench.py`

    Example: `course grade --all submissions --out grades.csv`
    """
    from course_press import grading  # graders take long to import
    from course_press.grading import classroom

    with in_language(chosen(lang)):
        if all_ is not None:
            if file is not None or isolated:
                raise CourseError("--all grades a folder: leave out the file and --isolated")
            with contextlib.nullcontext() if unsafe else grading.isolated():
                _class(all_, number, out or Path("grades.csv"), roll, jobs)
            return
        if number is None or file is None or roll is not None or unsafe:
            raise CourseError(
                "give a lab and a file, as in: course grade 00 my_matmul_bench.py; or a folder of "
                "submissions with --all, which --roll and --unsafe go with"
            )
        folder = labs.folder(Path.cwd(), number)
        with grading.isolated() if isolated else contextlib.nullcontext():
            if out is None:
                verdicts = grading.grade(folder, file)
                passed = all(verdict.passed for verdict in verdicts)
            else:
                found = classroom.judged(folder, file, isolate=False)
                verdicts, passed = [], found.passed
        marks = [str(grading.message(key)) for key in ("failed", "passed")]
        for verdict in verdicts:
            mark = marks[verdict.passed].ljust(max(map(len, marks)))
            tell(f"{mark}  {verdict.title}: {verdict.text}")
        if out is not None:
            criteria = grading.graded_by(folder).criteria
            results = classroom.gradescope(found, criteria)
            out.write_text(classroom.gradescope_text(results), encoding="utf-8")
            tell(classroom.student_report([found], {found.lab: criteria}))
    if not passed:
        raise typer.Exit(1)


def _class(folder: Path, number: str | None, out: Path, roll: Path | None, jobs: int) -> None:
    from course_press import grading
    from course_press.grading import classroom

    root = Path.cwd()
    every = sorted((root / "labs").glob("[0-9][0-9]-*"))
    folders = {one.name[:2]: one for one in every if grading.grading(one) is not None}
    lab = labs.folder(root, number).name[:2] if number else None
    say = partial(err_console.print, soft_wrap=True)
    roster = classroom.read_roster(roll) if roll else None
    done = classroom.grade_class(folder, folders, out, lab=lab, jobs=jobs, roster=roster, say=say)
    tell(classroom.summary(done.graded))
    for lab, pairs in done.similar.items():
        if pairs:
            tell(str(grading.message("class-similar", lab=lab, pairs=len(pairs))))
    tell(str(grading.message("class-done", path=str(out), folder=str(out.with_suffix("")))))
    for line in done.wrong:
        complain(line)
    if done.wrong:
        raise typer.Exit(1)


@command(app)
def autograder(
    number: str,
    system: Annotated[str, Option("--for")],
    out: Annotated[Path, Option()],
    unsafe: bool = False,
    lang: Lang = None,
) -> None:
    """Pack a grader for Gradescope, Otter-Grader or nbgrader.

    Example: `course autograder 00 --for gradescope --out autograder-00.zip`
    """
    from course_press.grading import classroom

    root = Path.cwd()
    with in_language(chosen(lang)):
        folder = labs.folder(root, number)
        classroom.write_package(system, root, folder, out, isolate=not unsafe)
    tell(str(out))
