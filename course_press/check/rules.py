"""Checks the source without running it: references, inline rules, typed numbers, unused cells."""

import ast
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib import CourseError, specs
from course_book import exercises
from course_book.files import DATA
from course_book.tables import every_model
from course_press.check import parity
from course_press.check.claims import unsaid
from course_press.check.exercises import untranslated
from course_press.check.terms import forbidden
from course_press.source.book import Book, languages, read_book
from course_press.source.chapter import CITED, INLINE, LABELS, Chapter, Line, read_text
from course_press.source.errors import SourceError
from course_press.source.install import lab_notebooks
from course_press.source.labels import find_labels

# Characters of code that a page shows without scrolling.
CODE_WIDTH = 88

_CROSS = re.compile(rf"(?:{'|'.join(LABELS)})-")
_MATHS = re.compile(r"\$\$(.+?)\$\$|(?<![\\\w$])\$(?=\S)(.+?)(?<=\S)\$(?!\d)")
_NOT_PROSE = re.compile(r"`[^`]*`|\]\([^)]*\)|<https?:[^>]*>|\[[^\]]*@[^\]]*\]|\{[^}]*\}|\$[^$]*\$")
_UNIT = r"(?:×|%|°C|[pnµmkMGTPE]?(?:s|B|b|FLOP[sS]?|OPs?|W|Wh|Hz)(?:/(?:s|B))?|[KMG]iB|bits?|bytes?|times|percent)"  # noqa: E501
_EXERCISE = re.compile(r"\b(?:exercise|check)\(\s*[\"']([\w-]+)")
_TYPED = re.compile(
    rf"(?<![\w.#-])[0-9][0-9.,]*(?:\s*[-–]\s*[0-9][0-9.,]*)?(?:[ "
    rf"\u00a0]*{_UNIT})(?![\w])|[0-9][0-9.,]*e[0-9]+"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: where, what, and behind an arrow how to mend it."""

    file: Path
    line: int
    said: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.said}"


def check_book(root: Path) -> list[Finding]:
    """Every finding in the book at `root`, in reading order."""
    findings: list[Finding] = []
    books: list[Book] = []
    for lang in languages(root):
        try:
            books.append(read_book(root, lang))
        except SourceError as error:
            findings.append(Finding(error.file, error.line, f"{error.message} → mend the source"))
    allowed = _Allowed(root)
    for book in books:
        findings += _references(book)
        for chapter in book.chapters:
            findings += _inline_rules(chapter)
            findings += _typed_numbers(chapter, allowed)
            for line, expression in unsaid(chapter, book.lang, root):
                what = f"a speed or a cost from bounds alone, stated as a fact: {expression}"
                fix = "a bound allows, the model expects, a clock took: say in the sentence which"
                findings.append(_at(line, f"{what} → {fix} it is"))
            findings += _wide_code(chapter)
            findings += _open_layout(chapter)
    if books and len(books) == len(languages(root)):
        findings += _unused_cells(root, books)
        findings += allowed.unused()
        for source in (book for book in books if book.lang == parity.SOURCE):
            for book in books:
                if book is not source:
                    findings += _translation(source, book)
    findings += _exercises(root, books)
    # No text calls a thing otherwise than the book does.
    for line, (_, rival, chosen) in forbidden(books, DATA):
        said = f"{rival!r} is not this book's word → write {chosen!r}, as rivals.csv has it"
        findings.append(Finding(_below(root, line.file), line.number, said))
    # The labs' notebooks install what `_quarto.yml` says.
    for file, text in lab_notebooks(books[0]).items() if books else ():
        if read_text(file) != text:
            said = "its first cell is not the one that _quarto.yml asks for → run course notebooks"
            findings.append(Finding(file.relative_to(root), 1, said))
    findings += _provenance(root, books)
    # A file that several languages include is reported once.
    return list(dict.fromkeys(findings))


def _at(line: Line, said: str) -> Finding:
    return Finding(line.file, line.number, said)


def _below(root: Path, file: Path) -> Path:
    """A file as it is called from the book's folder, where it stands in it."""
    return file.relative_to(root) if file.is_relative_to(root) else file


def bibliography_keys(files: Iterable[Path]) -> set[str]:
    """The keys of all entries in BibTeX and CSL JSON files."""
    keys: set[str] = set()
    for file in files:
        text = read_text(file)
        try:
            if file.suffix == ".json":
                keys.update(entry["id"] for entry in json.loads(text))
            else:
                keys.update(re.findall(r"@\w+\{([^,\s]+),", text))
        except (KeyError, TypeError, ValueError) as error:
            said = f"is no list of sources, each with its id: {error!r}"
            raise SourceError(file, 1, said) from None
    return keys


def _references(book: Book) -> Iterator[Finding]:
    keys = bibliography_keys(book.bibliography)
    known: dict[str, Line] = {}
    for chapter in book.chapters:
        for label in find_labels(chapter):
            first = known.setdefault(label.id, label.at)
            if first is not label.at:
                where = f"{first.file}:{first.number}"
                said = f"label #{label.id} stands at {where} already → rename one of them"
                yield _at(label.at, said)
    for line in book.prose:
        for id_ in CITED.findall(re.sub(r"`[^`]*`|(?<!@)\{[^}]*\}", "", line.text)):
            if _CROSS.match(id_) and id_ not in known:
                fix = "write the label, or mend the reference"
                yield _at(line, f"@{id_} has no target in the book → {fix}")
            elif not _CROSS.match(id_) and id_ not in keys:
                fix = "add it to references.bib, or mend the key"
                yield _at(line, f"@{id_} is in no bibliography → {fix}")


def _inline_rules(chapter: Chapter) -> Iterator[Finding]:
    for inline in chapter.inlines:
        shown = f"`{{python}} {inline.expression}`"
        try:
            tree: ast.expr | None = ast.parse(inline.expression, mode="eval").body
        except SyntaxError as error:
            yield _at(inline.at, f"{shown} is not an expression: {error.msg} → mend it")
            continue
        called = tree.func if isinstance(tree, ast.Call) else None
        if not isinstance(called, ast.Name) or called.id not in ("n", "t"):
            fix = "wrap it: numbers in n(), words in t()"
            yield _at(inline.at, f"{shown} is not a call of n() or t() → {fix}")
    first = next(iter(chapter.inlines), None)
    if first and not chapter.meta.get("engine") and not list(chapter.cells):
        what = f"{chapter.path} has inline code but no cell: Quarto would not run it"
        yield _at(first.at, f"{what} → write engine: jupyter in the front matter of the page")
    for line in chapter.prose:
        for match in _MATHS.finditer(line.text):
            maths = match[1] or match[2]
            if "{python}" in maths:
                yield _at(line, "inline code inside maths → close the maths before the number")
            elif re.search(r"\d[.,]\d", maths):
                fix = "put the number outside, from n()"
                yield _at(line, f"decimal numeral inside maths: ${maths}$ → {fix}")


def _translation(source_book: Book, book: Book) -> Iterator[Finding]:
    stamps = parity.read_stamps(book.root, book.lang)
    for source, translation in parity.pairs(source_book, book):
        for line, said in parity.differences(source, translation):
            yield _at(line, said)
        path, stem = translation.path, translation.path.stem
        if stale := parity.stale_sections(source, stamps):
            sections = f"{len(stale)} of its sections: {', '.join(stale)}"
            fix = f"compare with the English, then course stamp {book.lang} {stem}#SECTION"
            yield Finding(path, 1, f"{book.lang}/{stem} is out of date in {sections} → {fix}")
        for term in parity.missing_terms(source, translation, book.lang):
            what = f"a term of the glossary is translated otherwise: {term}"
            yield Finding(path, 1, f"{what} → use the fixed term")


def _exercises(root: Path, books: Iterable[Book]) -> Iterator[Finding]:
    """Cells name exercises that exist, and every exercise has its texts in all languages."""
    known = {one.id for one in exercises.all()}
    cells = (cell for book in books for one in book.chapters for cell in one.cells)
    for line in (line for cell in cells for line in cell.lines):
        for id_ in _EXERCISE.findall(line.text):
            if id_ not in known:
                fix = "name one of course_book.exercises.all()"
                yield _at(line, f"there is no exercise {id_} → {fix}")
    shown = _below(root, exercises.FOLDER)
    for file, what in untranslated():
        yield Finding(shown / file, 1, f"{what} → write it as in the English file")


def _provenance(root: Path, books: Sequence[Book]) -> Iterator[Finding]:
    """Chips, models and prices load, which proves their sources, and cite every source."""
    shown = _below(root, specs.DATA)
    cited = {id_ for book in books for line in book.prose for id_ in CITED.findall(line.text)}
    cited |= {one.source for one in every_model() if hasattr(one, "source")}
    for file, why in specs.unreadable().items():
        yield Finding(file, 1, f"{why} → mend the file")
    names = [f"chips/{key}.toml" for key in specs.chips()]
    names += [f"models/{key}.toml" for key in specs.models()]
    for name in [*names, "prices.csv"]:
        try:
            cited |= _sources_in(name)
        except CourseError as error:
            yield Finding(shown / name, 1, f"{error} → mend the file")
    for id_ in sorted(set(specs.sources()) - cited):
        said = f"source {id_} is cited by nothing → delete the entry, or cite it"
        yield Finding(shown / "sources.json", 1, said)
    for book in books:
        keys = bibliography_keys(file for file in book.bibliography if file.suffix == ".bib")
        for key in sorted(keys & set(specs.sources())):
            said = f"{key} stands in sources.json too → keep it there and delete it here"
            yield Finding(Path("references.bib"), 1, said)


def _sources_in(name: str) -> set[str]:
    """The sources that a file of the spec tables cites; raise where it does not load."""
    if name == "prices.csv":
        return {price.source for price in specs.prices()}
    kind, key = name.removesuffix(".toml").split("/")
    return set(specs.chip(key).sources if kind == "chips" else specs.cited_by(specs.model(key)))


class _Allowed:
    """Numbers that prose may have: `chapters/allowed-numbers.toml`, each with its reason."""

    def __init__(self, root: Path) -> None:
        shown = Path("chapters/allowed-numbers.toml")
        self.shown, file = shown, root / shown
        try:
            entries = tomllib.loads(read_text(file, shown)) if file.is_file() else {}
            self.entries = {
                (name, entry["text"])
                for name, listed in entries.items()
                for entry in listed
                if entry["reason"]
            }
        except (AttributeError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
            said = f"must hold, for each page, entries with text and reason: {error!r}"
            raise SourceError(shown, 1, said) from None
        self.used: set[tuple[str, str]] = set()

    def __call__(self, line: Line, text: str) -> bool:
        entry = (line.file.name, text)
        self.used.add(entry)
        return entry in self.entries

    def unused(self) -> Iterator[Finding]:
        for name, text in sorted(self.entries - self.used):
            what = f"{text!r} is allowed in {name} and does not stand there"
            yield Finding(self.shown, 1, f"{what} → delete the entry")


def _typed_numbers(chapter: Chapter, allowed: _Allowed) -> Iterator[Finding]:
    for line in chapter.prose:
        prose = _NOT_PROSE.sub(" ", INLINE.sub(" ", line.text))
        for match in _TYPED.finditer(prose):
            if not allowed(line, match[0].strip()):
                fix = "compute it: `{python} n(…)`, or give a reason in"
                what = f"number typed by hand: {match[0].strip()}"
                yield _at(line, f"{what} → {fix} chapters/allowed-numbers.toml")


def _wide_code(chapter: Chapter) -> Iterator[Finding]:
    for cell in chapter.cells:
        for line in cell.lines:
            if len(line.text) > CODE_WIDTH:
                what = f"code line of {len(line.text)} characters"
                yield _at(line, f"{what} → break it: pages show {CODE_WIDTH}")


_LAYS_OUT = re.compile(r"(?:table|tables\.\w+|plot\.\w+|explore\.\w+|moving\.\w+|rent\.\w+)\(")

_IMPORT = (ast.Import, ast.ImportFrom)


def _open_layout(chapter: Chapter) -> Iterator[Finding]:
    """Code that sets up, or ends in a table or a figure, is folded unless it says to be read."""
    for cell in chapter.cells:
        if "code-fold" in cell.options or not cell.options.get("echo", True):
            continue
        try:
            body = ast.parse(cell.code).body
        except SyntaxError:
            continue  # whoever runs it says so
        imports = any(isinstance(one, _IMPORT) for one in body) and all(
            isinstance(one, (*_IMPORT, ast.Assign)) for one in body
        )
        shows = bool(body) and isinstance(body[-1], ast.Expr)
        if imports or (shows and _LAYS_OUT.match(ast.unparse(body[-1]))):
            what = "this cell only imports and names things, or ends in a table or a figure"
            fix = "#| code-fold: true, or false where the text is about the code"
            yield _at(cell.at, f"{what} → {fix}")


def _unused_cells(root: Path, books: Iterable[Book]) -> Iterator[Finding]:
    used = {file.resolve() for book in books for chapter in book.chapters for file in chapter.files}
    for file in sorted((root / "chapters" / "cells").rglob("*.qmd")):
        if file.resolve() not in used:
            said = "no chapter includes this cell → include it, or delete the file"
            yield Finding(file.relative_to(root), 1, said)
