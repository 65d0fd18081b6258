"""Sheets for everybody on a roll: each student's own, its key, and the instructor's index."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from course_lib import CourseError
from course_book.exercises import Exercise
from course_book.text import in_language, languages
from course_press.exports import sheets
from course_press.source.errors import choose
from course_press.source.files import file_names, swap_in

# The file beside the keys that says whose sheet is which.
INDEX = "index.csv"
_COLUMNS = ("id", "name", "language", "seed", "chapters", "sheet", "key")


@dataclass(frozen=True, slots=True)
class Student:
    """A line of a roll; its id names files, its name is for the index alone."""

    id: str
    name: str
    language: str


def read_roll(file: Path, language: str, *, plain: bool = True) -> tuple[Student, ...]:
    """Everybody on a roll: a CSV file with a column ``id``, and maybe ``name`` and ``language``.

    An id that is missing, twice there or (but for `plain`) no file's name is refused by its line.
    """
    rows = list(_rows(file))
    if not rows:
        raise CourseError(f"--roll {str(file)!r} names no student: write a line for each")
    found: dict[str, tuple[int, Student]] = {}
    for line, row in rows:
        at = f"--roll {str(file)!r}, line {line}"
        who = Student(row["id"], row.get("name", ""), row.get("language", "") or language)
        if not who.id:
            raise CourseError(f"{at}: no id: give each student one")
        if plain and file_names([who.id])[who.id] != who.id:
            fix = "use up to 64 of a-z, A-Z, 0-9, - and _, beginning with a letter or digit"
            raise CourseError(f"{at}: id {who.id!r} cannot name a file: {fix}")
        said = f"{at}: language {who.language!r} is not one of the book"
        choose(who.language, languages(), said)
        # Some file systems do not tell "A7" from "a7".
        first = found.setdefault(who.id.casefold(), (line, who))
        if first[0] != line:
            said = f"{at}: id {who.id!r} is on line {first[0]} already"
            raise CourseError(f"{said}: give each student one line")
    return tuple(who for _, who in found.values())


def _rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    at = f"--roll {str(file)!r}"
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise CourseError(f"{at} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        fix = "export the table again as UTF-8"
        raise CourseError(f"{at}, line {line} is not UTF-8: {fix}") from None
    lines = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip().casefold() for name in next(lines, [])]
    if "id" not in header or len(set(header)) < len(header):
        wrong = f"{at} must begin with a line of different columns, id among them, with commas"
        raise CourseError(f"{wrong} between (got {', '.join(header) or 'an empty file'})")
    for cells in lines:
        if any(cell.strip() for cell in cells):
            if len(cells) != len(header):
                said = f"{at}, line {lines.line_num} has {len(cells)} cells"
                fix = "put quotes around a cell with a comma"
                raise CourseError(f"{said} instead of {len(header)}: {fix}")
            yield lines.line_num, dict(zip(header, (cell.strip() for cell in cells), strict=True))


def seed_of(seed: int, id_: str) -> int:
    """A student's own seed: the same for the same course and id, whoever else is on the roll."""
    return int.from_bytes(sha256(f"{seed}:{id_}".encode()).digest()[:6])


def write_sheets(
    roll: Sequence[Student],
    chosen: Sequence[Exercise],
    seed: int,
    *,
    out: Path,
    keys: Path,
    force: bool = False,
) -> tuple[int, int]:
    """Write each student's sheet and key, and the index: how many are new, and how many were there.

    Who is in the index and has both files keeps them, so that a stopped run goes on; who is off the
    roll stays in the index. Files that are not of this roll and seed are refused.
    """
    if keys.resolve().is_relative_to(out.resolve()):
        said = f"--key {str(keys)!r} lies in the folder of the sheets"
        raise CourseError(f"{said}: the answers need one of their own")
    for option, folder in (("--out", out), ("--key", keys)):
        if folder.exists() and not folder.is_dir():
            raise CourseError(f"{option} {str(folder)!r} is a file: with --roll it is a folder")
    index = keys / INDEX
    before = _index(index, force)
    done: dict[str, dict[str, str]] = {}
    wanted = {who.id: _line(who, chosen, seed) for who in roll}
    for who in roll if not force else ():
        known, line = before.get(who.id), wanted[who.id]
        there = [file for file in (out / line["sheet"], keys / line["key"]) if file.exists()]
        if there and not (known and {**known, "name": who.name} == line):
            raise CourseError(
                f"{str(there[0])!r} is there already, from another seed, language or choice of "
                f"chapters: choose other folders, or add --force to replace it"
            )
        if len(there) == 2:
            done[who.id] = line
    kept = len(done)
    for who in roll:
        if who.id in done:
            continue
        own = seed_of(seed, who.id)
        # Before the files, so that a run that is stopped between them knows them as its own.
        done[who.id] = wanted[who.id]
        _write(index, _table({**before, **done}))
        with in_language(who.language):
            variants = [one.variant(own) for one in chosen]
            _write(out / wanted[who.id]["sheet"], sheets.questions(variants, own, who.language))
            _write(keys / wanted[who.id]["key"], sheets.answers(variants, own))
    _write(index, _table({**before, **done}))
    return len(roll) - kept, kept


def _line(who: Student, chosen: Sequence[Exercise], seed: int) -> dict[str, str]:
    chapters = " ".join(dict.fromkeys(one.chapter for one in chosen))
    own = str(seed_of(seed, who.id))
    files = (f"{who.id}.ipynb", f"{who.id}-key.ipynb")
    return dict(zip(_COLUMNS, (who.id, who.name, who.language, own, chapters, *files), strict=True))


def _index(file: Path, force: bool) -> dict[str, dict[str, str]]:
    if not file.is_file():
        return {}
    rows = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"), newline=""))
    if tuple(rows.fieldnames or ()) != _COLUMNS:
        if force:
            return {}
        raise CourseError(f"{str(file)!r} is no index of sheets: choose another folder for --key")
    return {row["id"]: row for row in rows}


def _table(lines: dict[str, dict[str, str]]) -> str:
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(lines.values())
    return text.getvalue()


def _write(file: Path, text: str) -> None:
    try:
        swap_in(file, text)
    except OSError as error:
        raise CourseError(f"{str(file)!r} cannot be written: {error.strerror}") from None
