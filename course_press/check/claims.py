"""Sentences that tell a speed or a cost from bounds alone, as if it had been measured."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from course_press.source.chapter import INLINE, Chapter, Line, read_text
from course_press.source.errors import SourceError

# Attributes that only a bound, or a datasheet, has.
BOUNDS = {"lower", "speed_of_light", "t_math", "t_memory", "ridge", "peak", "bandwidth"}
# Names by which a number came from a clock, or from what clocks taught a model.
TIMES = {"calibrate", "expected", "measured", "published", "results", "serve", "train"}

_SENTENCE = re.compile(r"(?<=[.!?])(?:[”»)*]|\]\{[^}]*\})*\s+")


def unsaid(chapter: Chapter, lang: str, root: Path) -> Iterator[tuple[Line, str]]:
    """Each sentence that claims so and does not say it: its line, and the first bound in it."""
    file, shown = root / "chapters" / "claims.toml", Path("chapters") / "claims.toml"
    if not file.is_file():
        return
    try:
        said = tomllib.loads(read_text(file, shown))[lang]
        claim, bound = (re.compile(said[key], re.IGNORECASE) for key in ("claim", "bound"))
    except (KeyError, TypeError, re.error, tomllib.TOMLDecodeError) as error:
        raise SourceError(shown, 1, f"needs claim and bound under [{lang}]: {error!r}") from None
    made = _made(chapter)
    for line in chapter.prose:
        expressions = INLINE.findall(line.text)
        # Numbered, as an expression may hold what looks like the end of a sentence.
        numbers = iter(range(len(expressions)))
        text = INLINE.sub(lambda _, of=numbers: f"\0{next(of)}\0", line.text)  # type: ignore[misc]
        for sentence in _SENTENCE.split(text):
            if not claim.search(sentence) or bound.search(sentence):
                continue
            inside = [expressions[int(one)] for one in re.findall(r"\0(\d+)\0", sentence)]
            origins = [_origins(one, made) for one in inside]
            bounded = [one for one, of in zip(inside, origins, strict=True) if of & BOUNDS]
            if bounded and not any(of & TIMES for of in origins):
                yield line, bounded[0].strip()


def _made(chapter: Chapter) -> dict[str, set[str]]:
    """Of each name of a chapter's cells, the names that it is made from."""
    made: dict[str, set[str]] = {}
    for cell in chapter.cells:
        for name, of in _makes(cell.code):
            made.setdefault(name, set()).update(of)
    return made


@cache
def _makes(code: str) -> list[tuple[str, set[str]]]:
    """Each name that a cell, which all languages share, gives a value, and what from."""
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return []  # whoever runs it says so
    return [
        (name, _names(one) - {name})
        for one in body
        for name in ({one.name} if isinstance(one, ast.FunctionDef) else _stored(one) - _own(one))
    ]


def _stored(tree: ast.AST) -> set[str]:
    names = (one for one in ast.walk(tree) if isinstance(one, ast.Name))
    return {one.id for one in names if isinstance(one.ctx, ast.Store)}


def _own(tree: ast.AST) -> set[str]:
    """What functions and loops inside an expression call their arguments and variables."""
    own: set[str] = set()
    for one in ast.walk(tree):
        if isinstance(one, ast.arg):
            own.add(one.arg)
        elif isinstance(one, (ast.comprehension, ast.FunctionDef)):
            own |= _stored(one.target if isinstance(one, ast.comprehension) else one)
    return own


def _names(tree: ast.AST) -> set[str]:
    """The names and attributes that some code uses and does not make itself."""
    nodes = list(ast.walk(tree))
    names = {one.id for one in nodes if isinstance(one, ast.Name)}
    return (names - _own(tree)) | {one.attr for one in nodes if isinstance(one, ast.Attribute)}


def _origins(expression: str, made: dict[str, set[str]]) -> set[str]:
    """All names that an expression is made from, through whatever the cells do."""
    try:
        left = list(_names(ast.parse(expression.strip(), mode="eval")))
    except SyntaxError:
        return set()  # another rule says so
    found: set[str] = set()
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += made.get(name, ())
    return found
