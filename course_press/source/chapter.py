"""A chapter as written: front matter, includes, cells, inline expressions, by file and line."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from course_press.source.errors import SourceError

# What the embedded engine knows of what Quarto knows.
KNOWN = tomllib.loads((Path(__file__).parents[1] / "assets" / "known.toml").read_text("utf-8"))
# libyaml's, where YAML was built with it: ten times as fast.
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Includes within includes; one that holds itself stops here at the latest.
DEPTH = 20
# Lines of one page with all that it includes: the longest of the book has some hundreds.
LINES = 50_000
LABELS = ("fig", "tbl", "eq", "sec", "lst")
INLINE = re.compile(r"(?<!`)`\{python\} ([^`]+)`(?!`)")
CITED = re.compile(r"(?<![\w@])-?@\{?([\w][\w:.#$%&+?<>~/-]*\w)")

_INCLUDE = re.compile(r"\s*\{\{<\s*include\s+(\S+)\s*>\}\}\s*$")
_SHORTCODE = re.compile(r"\{\{<\s*([\w-]+)")
_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(.*?)\s*$")
_DIV = re.compile(r"^\s*:{3,}\s*(.+?)\s*:*\s*$")
_DIV_END = re.compile(r"^\s*:{3,}\s*$")
_TITLE = re.compile(r"^# (.+?)\s*(?:\{([^}]*)\})?\s*$")
_ATTRIBUTE = re.compile(r"""([#.][\w:.-]+)|([\w-]+)=("[^"]*"|'[^']*'|\S+)""")


class Line(NamedTuple):
    """A line of a chapter after includes, and where it stands."""

    text: str
    file: Path
    number: int

    def error(self, message: str) -> SourceError:
        return SourceError(self.file, self.number, message)


@dataclass(frozen=True, slots=True)
class Cell:
    """An executable cell. `lines` are its code without options; `at` is the opening fence."""

    lines: tuple[Line, ...]
    options: Mapping[str, Any]
    at: Line
    indent: str

    @property
    def code(self) -> str:
        return "\n".join(line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Inline:
    """An inline expression in a line of prose."""

    expression: str
    at: Line


@dataclass(frozen=True, slots=True)
class Chapter:
    """A page of the book as written, includes expanded, in one language."""

    path: Path  # from the book's root
    number: int | None  # among the numbered chapters
    meta: Mapping[str, Any]  # the front matter, and the title wherever it was written
    items: Sequence[Line | Cell]
    files: Sequence[Path]  # all that it was read from
    unnumbered: bool = False  # as its title says

    @property
    def is_cover(self) -> bool:
        return self.path.stem == "index"

    @property
    def title(self) -> str:
        return str(self.meta["title"])

    @property
    def cells(self) -> Iterator[Cell]:
        return (item for item in self.items if isinstance(item, Cell))

    @property
    def prose(self) -> Iterator[Line]:
        """Lines that are neither cells nor inside a fenced block of code."""
        lines = (item for item in self.items if isinstance(item, Line))
        return (line for line, is_prose in _told_apart(lines) if is_prose)

    @property
    def inlines(self) -> Iterator[Inline]:
        return (
            Inline(match[1].strip(), line)
            for line in self.prose
            for match in INLINE.finditer(line.text)
        )


def read_text(file: Path, shown: Path | None = None) -> str:
    """A source's text in UTF-8, without a mark put first; an error calls the file `shown`."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        said = f"byte {error.object[error.start]:#04x} is not UTF-8: save the file as UTF-8"
        raise SourceError(shown or file, line, said) from None


def read_chapter(root: Path, path: Path, lang: str) -> Chapter:
    """Read one chapter, not yet numbered: includes expanded, cells and prose told apart."""
    files: list[Path] = []
    expanded: list[tuple[Line, bool]] = []
    for one in _expanded(root / path, files, root, root.resolve()):
        expanded.append(one)
        if len(expanded) > LINES:
            raise one[0].error(f"{path} with all that it includes has more than {LINES} lines")
    _closed_divs(expanded)
    lines = list(_for_language(expanded, lang))
    meta, start = _front_matter(lines)
    unnumbered = False
    if not meta.get("title"):
        # Quarto leaves a chapter unnumbered only if a heading says so; then the title stands there.
        start = next((i for i in range(start, len(lines)) if lines[i].text.strip()), start)
        heading = _TITLE.match(lines[start].text) if start < len(lines) else None
        if not heading:
            fix = "write title: in the front matter, or # Title {.unnumbered} below it"
            raise SourceError(path, 1, f"has no title: {fix}")
        meta, start = {**meta, "title": heading[1]}, start + 1
        unnumbered = ".unnumbered" in (heading[2] or "")
    return Chapter(path, None, meta, _items(lines[start:]), files, unnumbered)


def is_div_end(line: Line) -> bool:
    """Whether a line of prose closes a div."""
    return ":::" in line.text and bool(_DIV_END.match(line.text))


def div_opening(line: Line) -> str:
    """The class or attributes of the div that a line of prose opens, or nothing."""
    opening = None if ":::" not in line.text or is_div_end(line) else _DIV.match(line.text)
    return opening[1] if opening else ""


def _told_apart(lines: Iterable[Line]) -> Iterator[tuple[Line, bool]]:
    """Each line, and whether it is prose rather than of a fenced block of code."""
    fence, line = "", None
    for line in lines:
        mark = _FENCE.match(line.text) if "```" in line.text or "~~~" in line.text else None
        yield line, not (fence or mark)
        if fence:
            fence = "" if mark and mark[2].startswith(fence) and not mark[3] else fence
        elif mark:
            fence = mark[2]
    if fence and line:
        raise line.error(f"the code block opened with {fence} is never closed")


def _expanded(
    file: Path, files: list[Path], root: Path, real: Path, via: tuple[Path, ...] = ()
) -> Iterator[tuple[Line, bool]]:
    files.append(file)
    here: Path | None = None
    shown = file.relative_to(root) if file.is_relative_to(root) else file
    texts = read_text(file, shown).splitlines()
    for line, is_prose in _told_apart(Line(text, shown, i) for i, text in enumerate(texts, 1)):
        coded = is_prose and "{{<" in line.text
        if coded and (include := _INCLUDE.match(line.text)):
            # A path that starts with a slash is meant from the book's root, as in Quarto.
            above = root if include[1].startswith("/") else file.parent
            target = _resolved(above / include[1].removeprefix("/"))
            here = here or _resolved(file)
            if not target.is_relative_to(real):
                raise line.error(f"included file {include[1]} lies outside the book's folder")
            if not target.is_file():
                raise line.error(f"included file {include[1]} does not exist")
            if target in via or target == here:
                raise line.error(f"{include[1]} includes itself")
            if len(via) == DEPTH:
                raise line.error(f"{include[1]} is included more than {DEPTH} files deep")
            yield from _expanded(target, files, root, real, (*via, here))
            continue
        if coded and (shortcode := _SHORTCODE.search(line.text)):
            if shortcode[1] == "include":
                raise line.error("shortcode include must stand alone on its line")
            raise line.error(f"shortcode {shortcode[1]} is not known to the embedded engine")
        yield line, is_prose


def _for_language(lines: Iterable[tuple[Line, bool]], lang: str) -> Iterator[Line]:
    """Leave out blocks for another language, so that nothing in them counts."""
    depth, hidden = 0, 0
    for line, is_prose in lines:
        if is_prose and is_div_end(line):
            depth -= 1
            if hidden and depth < hidden:
                hidden = 0
                continue
        elif is_prose and (opening := div_opening(line)):
            depth += 1
            profile = re.search(r'when-profile="?([\w-]+)', opening)
            if profile and not hidden and (".content-visible" in opening) != (profile[1] == lang):
                hidden = depth
        if not hidden:
            yield line


def _closed_divs(lines: Iterable[tuple[Line, bool]]) -> None:
    """Every div is closed, and nothing else."""
    open_: list[Line] = []
    text = False
    for line, is_prose in lines:
        after_text, text = text, False
        if not is_prose:
            continue
        if is_div_end(line):
            if not open_:
                raise line.error("this ::: closes no div")
            open_.pop()
        elif div_opening(line):
            if after_text:
                raise line.error("a div opens after a blank line: this one would be read as text")
            open_.append(line)
        else:
            text = bool(line.text.strip()) and not line.text.startswith(("#", "---"))
    if open_:
        raise open_[-1].error("this div is never closed with :::")


def _front_matter(lines: Sequence[Line]) -> tuple[dict[str, Any], int]:
    if not lines or lines[0].text.strip() != "---":
        return {}, 0
    ends = (i for i, line in enumerate(lines[1:], 1) if line.text.strip() in ("---", "..."))
    if (end := next(ends, None)) is None:
        raise lines[0].error("the front matter is never closed with ---")
    try:
        meta = yaml.load("\n".join(line.text for line in lines[1:end]), SafeLoader) or {}  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = lines[min(1 + (mark.line if mark else 0), end)]
        said = getattr(error, "problem", error)
        raise at.error(f"the front matter is not valid YAML: {said}") from None
    if not isinstance(meta, dict):
        raise lines[1].error("the front matter must hold key: value pairs")
    for key in meta:
        if key not in KNOWN["front-matter"]:
            begin = (line for line in lines[1:end] if line.text.strip().startswith(str(key)))
            said = f"the press does not know the front matter key {key}"
            raise next(begin, lines[1]).error(said)
    return meta, end + 1


def _items(lines: Sequence[Line]) -> list[Line | Cell]:
    items: list[Line | Cell] = []
    left = iter(lines)
    for line in left:
        if not (mark := _FENCE.match(line.text)):
            _known_div(line)
            items.append(line)
            continue
        indent, fence, info = mark.groups()
        end, block = re.compile(rf"\s*{re.escape(fence)}[`~]*\s*$"), [line]
        while len(block) == 1 or not end.match(block[-1].text):
            block.append(next(left))
        if info == "{python}":
            items.append(_cell(block[1:-1], line, indent))
        elif re.match(r"\{[\w-]+\b[^=.#]*\}$", info):
            raise line.error(f"cells must be {{python}}: the embedded engine does not run {info}")
        else:
            items.extend(block)
    return items


def _cell(lines: Sequence[Line], at: Line, indent: str) -> Cell:
    options: dict[str, Any] = {}
    code = [Line(line.text.removeprefix(indent), line.file, line.number) for line in lines]
    while code and code[0].text.startswith("#|"):
        line = code.pop(0)
        shown = f"cell option {line.text[2:].strip()!r}"
        try:
            option = _read_yaml(line.text[2:])
        except yaml.YAMLError as error:
            said = getattr(error, "problem", error)
            raise line.error(f"{shown} is not valid YAML: {said}") from None
        if not isinstance(option, dict) or not set(option) <= {*KNOWN["cell-options"]}:
            raise line.error(
                f"{shown} is not known; known: {', '.join(sorted(KNOWN['cell-options']))}"
            )
        options |= option
    return Cell(tuple(code), options, at, indent)


# The same cells stand in every language, and the system is asked about each of a path's folders.
_resolved = cache(Path.resolve)
# A book has a dozen lines of options, a thousand times.
_read_yaml = cache(partial(yaml.load, Loader=SafeLoader))


def _known_div(line: Line) -> None:
    if line.text.startswith("# "):
        raise line.error("a chapter has one title: its sections start at ##")
    opening = inside = div_opening(line)
    if not opening:
        return
    if not inside.startswith("{"):
        inside = f"{{.{inside}}}"
    if not inside.endswith("}"):
        raise line.error(f"a div's attributes must close on its line: {opening}")
    for name, _, _ in _ATTRIBUTE.findall(inside[1:-1]):
        if name.startswith(".") and name[1:] not in KNOWN["div-classes"]:
            raise line.error(f"div class {name} is not known to the embedded engine")
        if name.startswith("#") and name != "#refs" and name[1:].partition("-")[0] not in LABELS:
            kinds = ", ".join(f"#{kind}-" for kind in LABELS)
            raise line.error(f"label {name} must start with one of {kinds}")
