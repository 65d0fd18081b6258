"""Checks the source without running it: references, inline rules, typed numbers, unused cells."""

import ast
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from course_lib import CourseError, specs
from course_book import exercises
from course_book.files import DATA
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
    """One thing that is wrong: where, what, and how to mend it."""

    file: Path
    line: int
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what} → {self.fix}"


def check_book(root: Path) -> list[Finding]:
    """Every finding in the book at `root`, in reading order."""
    findings: list[Finding] = []
    books: list[Book] = []
    for lang in languages(root):
        try:
            books.append(read_book(root, lang))
        except SourceError as error:
            findings.append(Finding(error.file, error.line, error.message, "mend the source"))
    allowed = _Allowed(root)
    for book in books:
        findings += _references(book)
        for chapter in book.chapters:
            findings += _inline_rules(chapter)
            findings += _typed_numbers(chapter, allowed)
            findings += _claims(chapter, book)
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
    findings += _rivals(root, books)
    findings += _labs(books[:1])
    findings += _provenance(root, books)
    # A file that several languages include is reported once.
    return list(dict.fromkeys(findings))


def _finding(line: Line, what: str, fix: str) -> Finding:
    return Finding(line.file, line.number, what, fix)


def bibliography_keys(files: Iterable[Path]) -> set[str]:
    """The keys of all entries in BibTeX and CSL JSON files."""
    keys: set[str] = set()
    for file in files:
        text = read_text(file)
        try:
            bibtex = file.suffix != ".json"
            keys.update(
                re.findall(r"@\w+\{([^,\s]+),", text)
                if bibtex
                else (entry["id"] for entry in json.loads(text))
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(
                file, 1, f"is no list of sources, each with its id: {error!r}"
            ) from None
    return keys


def _references(book: Book) -> Iterator[Finding]:
    keys = bibliography_keys(book.bibliography)
    known: dict[str, Line] = {}
    for chapter in book.chapters:
        for label in find_labels(chapter):
            first = known.setdefault(label.id, label.at)
            if first is not label.at:
                yield _finding(
                    label.at,
                    f"label #{label.id} stands at {first.file}:{first.number} already",
                    "rename one of them",
                )
    for chapter in book.chapters:
        for line in chapter.prose:
            for id_ in CITED.findall(re.sub(r"`[^`]*`|(?<!@)\{[^}]*\}", "", line.text)):
                if _CROSS.match(id_) and id_ not in known:
                    yield _finding(
                        line,
                        f"@{id_} has no target in the book",
                        "write the label, or mend the reference",
                    )
                elif not _CROSS.match(id_) and id_ not in keys:
                    yield _finding(
                        line,
                        f"@{id_} is in no bibliography",
                        "add it to references.bib, or mend the key",
                    )


def _inline_rules(chapter: Chapter) -> Iterator[Finding]:
    for inline in chapter.inlines:
        shown = f"`{{python}} {inline.expression}`"
        try:
            tree: ast.expr | None = ast.parse(inline.expression, mode="eval").body
        except SyntaxError as error:
            yield _finding(inline.at, f"{shown} is not an expression: {error.msg}", "mend it")
            continue
        if not (
            isinstance(tree, ast.Call)
            and isinstance(tree.func, ast.Name)
            and tree.func.id in ("n", "t")
        ):
            yield _finding(
                inline.at,
                f"{shown} is not a call of n() or t()",
                "wrap it: numbers in n(), words in t()",
            )
    if not chapter.meta.get("engine") and not list(chapter.cells):
        for inline in chapter.inlines:
            fix = "write engine: jupyter in the front matter of the page"
            yield _finding(
                inline.at,
                f"{chapter.path} has inline code but no cell: Quarto would not run it",
                fix,
            )
            break
    for line in chapter.prose:
        for match in _MATHS.finditer(line.text):
            maths = match[1] or match[2]
            if "{python}" in maths:
                yield _finding(
                    line, "inline code inside maths", "close the maths before the number"
                )
            elif re.search(r"\d[.,]\d", maths):
                yield _finding(
                    line,
                    f"decimal numeral inside maths: ${maths}$",
                    "put the number outside, from n()",
                )


def _translation(source_book: Book, book: Book) -> Iterator[Finding]:
    stamps = parity.read_stamps(book.root, book.lang)
    for source, translation in parity.pairs(source_book, book):
        for line, what, fix in parity.differences(source, translation):
            yield _finding(line, what, fix)
        name = f"{book.lang}/{translation.path.stem}"
        if stale := parity.stale_sections(source, stamps):
            what = f"{name} is out of date in {len(stale)} of its sections: {', '.join(stale)}"
            fix = (
                f"compare with the English, then course stamp {book.lang} "
                f"{translation.path.stem}#SECTION"
            )
            yield Finding(translation.path, 1, what, fix)
        for term in parity.missing_terms(source, translation, book.lang):
            yield Finding(
                translation.path,
                1,
                f"a term of the glossary is translated otherwise: {term}",
                "use the fixed term",
            )


def _exercises(root: Path, books: Iterable[Book]) -> Iterator[Finding]:
    """Cells name exercises that exist, and every exercise has its texts in all languages."""
    known = {one.id for one in exercises.all()}
    for book in books:
        for chapter in book.chapters:
            for cell in chapter.cells:
                for line in cell.lines:
                    for id_ in _EXERCISE.findall(line.text):
                        if id_ not in known:
                            yield _finding(
                                line,
                                f"there is no exercise {id_}",
                                "name one of course_book.exercises.all()",
                            )
    folder = exercises.FOLDER
    shown = folder.relative_to(root) if folder.is_relative_to(root) else folder
    for file, what in untranslated():
        yield Finding(shown / file, 1, what, "write it as in the English file")


def _rivals(root: Path, books: Iterable[Book]) -> Iterator[Finding]:
    """No text calls a thing otherwise than the book does."""
    for line, (_, rival, chosen) in forbidden(books, DATA):
        shown = line.file.relative_to(root) if line.file.is_relative_to(root) else line.file
        what = f"{rival!r} is not this book's word"
        yield Finding(shown, line.number, what, f"write {chosen!r}, as rivals.csv has it")


def _labs(books: Iterable[Book]) -> Iterator[Finding]:
    """The labs' notebooks install what `_quarto.yml` says."""
    for book in books:
        for file, text in lab_notebooks(book).items():
            if read_text(file) != text:
                what = "its first cell is not the one that _quarto.yml asks for"
                yield Finding(file.relative_to(book.root), 1, what, "run course notebooks")


def _provenance(root: Path, books: Iterable[Book]) -> Iterator[Finding]:
    """Chips, models and prices load, which proves their sources, and cite every source."""
    data = specs.DATA
    shown = data.relative_to(root) if data.is_relative_to(root) else data
    cited: set[str] = set()
    yield from (Finding(file, 1, why, "mend the file") for file, why in specs.unreadable().items())
    for folder, keys, load in (
        ("chips", specs.chips(), specs.chip),
        ("models", specs.models(), specs.model),
    ):
        for key in keys:
            try:
                found = load(key)
                cited |= (
                    set(found.sources)
                    if isinstance(found, specs.Accelerator)
                    else set(specs.cited_by(found))
                )
            except CourseError as error:
                yield Finding(shown / folder / f"{key}.toml", 1, str(error), "mend the file")
    try:
        cited |= {price.source for price in specs.prices()}
    except CourseError as error:
        yield Finding(shown / "prices.csv", 1, str(error), "mend the file")
    prose = {
        id_
        for book in books
        for chapter in book.chapters
        for line in chapter.prose
        for id_ in CITED.findall(line.text)
    }
    for id_ in sorted(set(specs.sources()) - cited - prose):
        yield Finding(
            shown / "sources.json",
            1,
            f"source {id_} is cited by nothing",
            "delete the entry, or cite it",
        )
    for book in books:
        for key in sorted(
            bibliography_keys([file for file in book.bibliography if file.suffix == ".bib"])
        ):
            if key in specs.sources():
                yield Finding(
                    Path("references.bib"),
                    1,
                    f"{key} stands in sources.json too",
                    "keep it there and delete it here",
                )


class _Allowed:
    """Numbers that prose may have: `chapters/allowed-numbers.toml`, each with its reason."""

    def __init__(self, root: Path) -> None:
        self.file = root / "chapters" / "allowed-numbers.toml"
        shown = Path("chapters") / self.file.name
        try:
            entries = tomllib.loads(read_text(self.file, shown)) if self.file.is_file() else {}
            self.entries = {
                (name, entry["text"])
                for name, listed in entries.items()
                for entry in listed
                if entry["reason"]
            }
        except (AttributeError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
            raise SourceError(
                shown, 1, f"must hold, for each page, entries with text and reason: {error!r}"
            ) from None
        self.used: set[tuple[str, str]] = set()

    def __call__(self, line: Line, text: str) -> bool:
        entry = (line.file.name, text)
        self.used.add(entry)
        return entry in self.entries

    def unused(self) -> Iterator[Finding]:
        for name, text in sorted(self.entries - self.used):
            shown = Path("chapters") / self.file.name
            yield Finding(
                shown,
                1,
                f"{text!r} is allowed in {name} and does not stand there",
                "delete the entry",
            )


def _typed_numbers(chapter: Chapter, allowed: _Allowed) -> Iterator[Finding]:
    for line in chapter.prose:
        prose = _NOT_PROSE.sub(" ", INLINE.sub(" ", line.text))
        for match in _TYPED.finditer(prose):
            if not allowed(line, match[0].strip()):
                fix = (
                    "compute it: `{python} n(…)`, or give a reason in chapters/allowed-numbers.toml"
                )
                yield _finding(line, f"number typed by hand: {match[0].strip()}", fix)


def _claims(chapter: Chapter, book: Book) -> Iterator[Finding]:
    for line, expression in unsaid(chapter, book.lang, book.root):
        what = f"a speed or a cost from bounds alone, stated as a fact: {expression}"
        fix = "a bound allows, the model expects, a clock took: say in the sentence which it is"
        yield _finding(line, what, fix)


def _wide_code(chapter: Chapter) -> Iterator[Finding]:
    for cell in chapter.cells:
        for line in cell.lines:
            if len(line.text) > CODE_WIDTH:
                yield _finding(
                    line,
                    f"code line of {len(line.text)} characters",
                    f"break it: pages show {CODE_WIDTH}",
                )


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
            yield _finding(
                cell.at,
                "this cell only imports and names things, or ends in a table or a figure",
                "#| code-fold: true, or false where the text is about the code",
            )


def _unused_cells(root: Path, books: Iterable[Book]) -> Iterator[Finding]:
    used = {file.resolve() for book in books for chapter in book.chapters for file in chapter.files}
    for file in sorted((root / "chapters" / "cells").rglob("*.qmd")):
        if file.resolve() not in used:
            yield Finding(
                file.relative_to(root),
                1,
                "no chapter includes this cell",
                "include it, or delete the file",
            )
