"""Which numbers of the printed notebooks changed between two commits: their changelog."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from course_lib import CourseError
from course_press.source.chapter import read_text
from course_press.source.files import swap_in

HEAD = """# Numbers that changed

`course numbers` writes this page. It compares the English notebooks of two versions and lists every
number in a sentence or a table that is different in the later version. It doesn't compare pictures,
nor sentences that were rewritten. If a number was wrong, the book's page of errata says why.
"""
# Share of their words that two passages must have in common to be the same one, edited.
ALIKE = 0.6
# Characters of the sentence that are shown on each side of a figure.
AROUND = 60
_UNIT = (
    r"(?:×|%|°C|USD|min|h|days?|[pnµmkKMGTPE]?i?(?:FLOPs?|OPs?|Hz|Wh?|J|s|B|bits?)"
    r"(?:/(?:s|B|FLOP))?)"
)
# A number as n() writes it in English, with the unit that decides its size.
_NUMBER = re.compile(
    rf"(?<![\w.])[−-]?\d[\d,]*(?:\.\d+)?(?<!,)(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?(?: ?{_UNIT}(?![\w/]))?(?!\w)"
)
_TOKEN = re.compile(rf"{_NUMBER.pattern}|\$+[^$]*\$+|\w+|[^\w\s]")
_VALUE = re.compile(r"([−-]?[\d.]*(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?) ?(.*)")
# Names of places in the book, of which a new figure before them changes every one.
_PLACE = re.compile(
    r"\b(?:Table|Figure|Section|Chapter|Equation|Listing|Part)s? \d+(?:\.\d+)*|\\tag\{[^}]*\}"
)
_CITED = re.compile(r"\([^()]*\b(?:19|20)\d\d[a-z]?\)")
_HEADING = re.compile(r"^#{1,6} +(?:\d+(?:\.\d+)* +)?(.+)$")
_SENTENCE = re.compile(r"(?<=[.!?:;]) +(?=[^\W\d_]|[*“\"`(])")


class MovedFigure(NamedTuple):
    """A number that changed: where it stands, what it was, what it is, and the words around it."""

    chapter: str
    section: str
    was: str
    now: str
    around: str


class Passage(msgspec.Struct, frozen=True, dict=True):
    """A sentence, or one row under its table's header, in a section of a notebook."""

    section: str
    text: str
    table: str = ""
    row: int = 0

    @cached_property
    def tokens(self) -> tuple[tuple[str, int], ...]:
        """Words, marks and numbers, each with where it begins."""
        return tuple((found[0], found.start()) for found in _TOKEN.finditer(self.text))

    @cached_property
    def mask(self) -> tuple[str, ...]:
        """Its tokens with numbers as ``#``; of a table's row, its header and its first cell."""
        masked = tuple("#" if _NUMBER.fullmatch(token) else token for token, _ in self.tokens)
        return (self.table, self._label, *masked) if self.table else masked

    @cached_property
    def words(self) -> frozenset[str]:
        """What tells this passage from others."""
        found = {one for one in self.mask if one.isalpha() or one == "#"}
        found |= {self.table, self._label, f"row {self.row}"} if self.table else set()
        return frozenset(found)

    @property
    def _label(self) -> str:
        return f"first: {self.text.strip('| ').partition('|')[0].strip()}"


def moved(old: str, new: str, chapter: str = "") -> list[MovedFigure]:
    """The numbers that changed from a printed notebook to a later one, in reading order."""
    before, after = _passages(old, chapter), _passages(new, chapter)
    place = {id(passage): i for i, passage in enumerate(after)}
    return [
        MovedFigure(chapter, now.section, was_number, number, _around(now.text, at, number))
        for was, now in sorted(_pairs(before, after), key=lambda pair: place[id(pair[1])])
        for was_number, number, at in _differing(was, now)
    ]


def between(
    root: Path, since: str, until: str | None = None, lang: str = "en"
) -> list[MovedFigure]:
    """The numbers that changed from `since` to `until`, or the work tree, in all notebooks."""
    folder = f"notebooks/{lang}"
    old = _committed(root, since, folder)
    if until is None:
        new = {file.name: read_text(file) for file in (root / folder).glob("*.ipynb")}
    else:
        new = _committed(root, until, folder)
    for what, found in ((since, old), (until or "the work tree", new)):
        if not found:
            raise CourseError(f"{what} has no notebook in {folder}: give another --since or --lang")
    return [
        change
        for name in sorted(old.keys() & new.keys())
        if old[name] != new[name]
        for change in moved(old[name], new[name], name.removesuffix(".ipynb"))
    ]


def last_release(root: Path, but: str = "") -> str | None:
    """The newest tag of a release, ``v1.2.3``, before this commit, but for one; None if none."""
    left_out = [f"--exclude={but}"] if but else []
    done = git(root, "describe", "--tags", "--abbrev=0", "--match=v[0-9]*", *left_out)
    return done.stdout.strip() if done.returncode == 0 else None


def last_print(root: Path) -> str | None:
    """The commit of the notebooks before those that were printed last; None where there is none."""
    done = git(root, "log", "-1", "--skip=1", "--format=%h", "--", "notebooks")
    return done.stdout.strip() or None


def named(root: Path, revision: str) -> str:
    """A revision as a reader can find it: a release by its tag, any other by its commit and day."""
    if re.fullmatch(r"v\d[\w.]*", revision):
        return revision
    asked = ["log", "-1", "--format=%h of %cs", _commit(root, revision)]
    return git(root, *asked).stdout.strip()


def page(moves: Sequence[MovedFigure], title: str, file: Path) -> str:
    """The changelog with these moves on top, in place of any that it has under the same release."""
    kept = read_text(file).partition("\n## ")[2] if file.is_file() else ""
    others = [part for part in re.split(r"^## ", kept, flags=re.MULTILINE) if part.strip()]
    replaced = (title, title.partition(",")[0])  # a release replaces what was written before it
    parts = [part for part in others if part.partition("\n")[0].strip() not in replaced]
    older = (f"## {part}".rstrip() + "\n" for part in parts)
    return "\n".join([HEAD, f"## {title}\n", *_blocks(moves), *older])


def write_page(moves: Sequence[MovedFigure], title: str, file: Path) -> None:
    """Write the changelog anew, with these moves first."""
    swap_in(file, page(moves, title, file))


def git(root: Path, *asked: str) -> "subprocess.CompletedProcess[str]":
    """What git answers in a folder; refused where there is no git."""
    call = ["git", "-C", str(root), *asked]
    try:
        return subprocess.run(call, capture_output=True, check=False, encoding="utf-8")
    except FileNotFoundError:
        raise CourseError("git is not on PATH: install it, and work in a clone") from None


def _commit(root: Path, revision: str) -> str:
    asked = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    found = git(root, *asked)
    if found.returncode or not found.stdout.strip():
        said = f"{revision!r} is no commit here"
        raise CourseError(f"{said}: give a tag or a commit, or run git fetch --tags")
    return found.stdout.strip()


def _committed(root: Path, revision: str, folder: str) -> dict[str, str]:
    commit = _commit(root, revision)
    listed = git(root, "ls-tree", "--name-only", "-z", commit, "--", f"./{folder}/").stdout
    names = [name for name in listed.split("\0") if name.endswith(".ipynb")]
    return {Path(name).name: git(root, "show", f"{commit}:./{name}").stdout for name in names}


def _passages(text: str, chapter: str) -> list[Passage]:
    try:
        cells = json.loads(text)["cells"]
        blocks = [block for cell in cells for block in _blocks_of(cell)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CourseError(f"{chapter or 'the text'} is no notebook: {error!r}") from None
    section, header, row = "", "", 0
    passages = []
    for line in (line for block in blocks for line in [*block.splitlines(), ""]):
        if heading := _HEADING.match(line):
            section = heading[1].strip()
        elif line.startswith("|"):
            if not header:
                header, row = line, 0
            elif not set(line) <= set("|:- "):
                row += 1
                passages.append(Passage(section, _plain(line), header, row))
            continue
        else:
            parts = _SENTENCE.split(_plain(line))
            passages += [Passage(section, one) for one in parts if one.strip()]
        header = ""
    return passages


def _blocks_of(cell: dict[str, Any]) -> Iterator[str]:
    """The Markdown of a cell: its text, or what its code gave."""
    if cell["cell_type"] == "markdown":
        yield "".join(cell["source"])
        return
    for output in cell["outputs"]:
        yield "".join(output.get("data", {}).get("text/markdown", ""))


def _plain(line: str) -> str:
    """A line without the numbers that are names of places and of papers."""
    line = _PLACE.sub(lambda found: re.split("[ {]", found[0])[0], line.replace("\u00a0", " "))
    return _CITED.sub("", line)


def _pairs(
    before: Sequence[Passage], after: Sequence[Passage]
) -> Iterator[tuple[Passage, Passage]]:
    """Each passage with what it became: the same but for numbers first, then by their words."""
    old, new = ([passage.mask for passage in some] for some in (before, after))
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    for i, j, size in blocks:
        yield from zip(before[i : i + size], after[j : j + size], strict=True)
    same_old = {i + k for i, _, size in blocks for k in range(size)}
    same_new = {j + k for _, j, size in blocks for k in range(size)}
    left = [p for j, p in enumerate(after) if j not in same_new and "#" in p.mask]
    for was in (p for i, p in enumerate(before) if i not in same_old and "#" in p.mask):
        best = max(left, key=lambda now: _likeness(was, now), default=None)
        if best is not None and _likeness(was, best) >= ALIKE:
            left.remove(best)
            yield was, best


def _likeness(one: Passage, other: Passage) -> float:
    if bool(one.table) != bool(other.table):
        return 0.0
    return len(one.words & other.words) / len(one.words | other.words)


def _differing(was: Passage, now: Passage) -> Iterator[tuple[str, str, int]]:
    """The numbers of two passages that differ, old and new, and where the new one stands."""
    one, other = ([token for token, _ in p.tokens] for p in (was, now))
    old, new = (
        ["#" if _NUMBER.fullmatch(each) else each for each in some] for some in (one, other)
    )
    matched = SequenceMatcher(None, old, new, autojunk=False)
    for what, i, i_end, j, j_end in matched.get_opcodes():
        if what != "equal":
            continue
        for token, (its, at) in zip(one[i:i_end], now.tokens[j:j_end], strict=True):
            # In a sentence that was edited, what both have may only have changed its place.
            swapped = was.mask != now.mask and (
                any(_same(token, each) for each in other) or any(_same(its, each) for each in one)
            )
            if not swapped and not _same(token, its):
                yield token, its, at


def _same(one: str, other: str) -> bool:
    """Whether two tokens are one number, of which one may lack its unit or its commas."""
    both = (_VALUE.findall(each.replace(",", ""))[0] for each in (one, other))
    (value, unit), (its, its_unit) = both
    return bool(value == its and (unit == its_unit or not (unit and its_unit)))


def _around(text: str, at: int, number: str) -> str:
    end = at + len(number)
    before, after = text[:at], text[end:]
    if len(before) > AROUND:
        before = "… " + before[-AROUND:].partition(" ")[2]
    if len(after) > AROUND:
        after = after[:AROUND].rpartition(" ")[0] + " …"
    return f"{before}**{number}**{after}".strip()


def _blocks(moves: Sequence[MovedFigure]) -> Iterator[str]:
    if not moves:
        yield "No number changed.\n"
    for chapter, its in groupby(moves, key=lambda move: move.chapter):
        rows = [[m.section or "opening", m.was, m.now, m.around.strip("| ")] for m in its]
        lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
        head = ["| section | was | is | where |", "|:--|--:|--:|:--|"]
        yield "\n".join([f"### {chapter}\n", *head, *lines, ""])
