"""Grades a class, each file in a process of its own: no file ends another one's grading."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from course_lib import CourseError
from course_book.text import in_language, language
from course_press.grading.classroom.record import Graded, Record, as_marks, digest
from course_press.grading.classroom.submissions import Submission, printable, text_of
from course_press.grading.graders import grade, graded_by
from course_press.grading.isolation import isolated, isolating
from course_press.grading.learner import Supervisor, existing
from course_press.grading.verdict import Amount, Text, Verdict, message

LIMIT = 600.0  # seconds that judging one file may take: more than all that a file may take itself


def mark(one: Submission, folder: Path) -> Graded:
    """Grade one file by the folder of its lab."""
    before = digest(one.file, folder)
    text = text_of(one.file)
    verdicts = [Verdict("runs", False, text)] if isinstance(text, Text) else grade(folder, one.file)
    return _graded(one, before, verdicts)


def _graded(one: Submission, digest_: str, verdicts: Sequence[Verdict]) -> Graded:
    return Graded(
        student=one.student,
        lab=one.lab,
        file=printable(one.file.name),
        digest=digest_,
        isolated=isolating(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        marks=as_marks(verdicts),
    )


def _unjudged(one: Submission, why: Text | str) -> Graded:
    return _graded(one, "", [Verdict("runs", False, message("unjudged", why=why))])


def apart(one: Submission, folder: Path) -> Graded:
    """Grade one file in a process of its own; where that comes to no end, say so."""
    about = [one.student, one.lab, str(one.file), str(folder), isolating(), language()]
    program = "from course_press.grading.classroom import marking; marking.main()"
    call = [sys.executable, "-P", "-X", "utf8", "-c", program, json.dumps(about)]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        tempfile.TemporaryFile() as reply,
        tempfile.TemporaryFile() as complaints,
    ):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": place}
        with subprocess.Popen(
            call, stdin=subprocess.PIPE, stdout=reply, stderr=complaints, env=env
        ) as process:
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                return _unjudged(one, message("judge-late", limit=Amount(LIMIT, "s")))
        reply.seek(0)
        try:
            return msgspec.json.decode(reply.read(), type=Graded)
        except msgspec.MsgspecError:
            complaints.seek(0)
            lines = complaints.read().decode(errors="replace").strip()
            return _unjudged(one, message("judge-ended", what=lines.rpartition("\n")[2]))


def main() -> None:
    """Be the process that `apart` starts; it ends with the one that asked."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
    student, lab, file, folder, isolate, lang = json.loads(sys.argv[1])
    one = Submission(student, lab, Path(file))
    with in_language(lang), isolated() if isolate else nullcontext():
        try:
            found = mark(one, Path(folder))
        except (CourseError, OSError) as error:
            found = _unjudged(one, str(error))
    sys.stdout.buffer.write(msgspec.json.encode(found))


def judged(folder: Path, file: Path, *, isolate: bool) -> Graded:
    """Grade a file by a lab's folder where another system keeps the book of grades; in a cell, or
    not at all.

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
    verdicts = grade(folder, reference) if reference.is_file() else []
    if why := [f"{one.title}: {one.text}" for one in verdicts if not one.passed]:
        raise CourseError(str(message("reference-fails", lab=folder.name[:2], why=why)))


def mark_all(
    submissions: Iterable[Submission],
    folders: Mapping[str, Path],
    record: Record,
    *,
    jobs: int,
    say: Callable[[str], object],
) -> list[Graded]:
    """Grade what the record does not have, as it is now, `jobs` at a time: all that is graded."""
    work = list(submissions)
    todo = [one for one in work if not _done(one, folders[one.lab], record)]
    if todo and isolating():
        with Supervisor():  # refuses before anything is graded
            pass
    for lab in sorted({one.lab for one in todo}):
        check_here(folders[lab])
    say(str(message("class-begins", todo=len(todo), known=len(work) - len(todo))))
    with ThreadPoolExecutor(jobs) as pool:
        running = {
            pool.submit(copy_context().run, apart, one, folders[one.lab]): one for one in todo
        }
        try:
            for count, future in enumerate(as_completed(running), start=1):
                one = running[future]
                try:
                    found = future.result()
                    record.add(found)
                except Exception as error:  # noqa: BLE001 - one file ends nobody's grading
                    found = _unjudged(one, f"{type(error).__name__}: {error}")
                    record.add(found)
                verdict = str(message("passed" if found.passed else "failed"))
                say(f"{count}/{len(todo)}  {one.student}  {one.lab}: {verdict}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [known for one in work if (known := record.of(one))]


def _done(one: Submission, folder: Path, record: Record) -> bool:
    """Whether the record has a file as it is now, judged as it would be now."""
    known = record.of(one)
    if known is None or known.unjudged or known.digest != digest(one.file, folder):
        return False
    # A file that was not isolated could have written in the record itself.
    return known.isolated or not isolating()
