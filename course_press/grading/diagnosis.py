"""Grades lab 02: what is wrong with each program, and which operator shows it.

The file is read, not run: it holds one dict.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from course_press.grading.lab import Finding, Lab, Session
from course_press.grading.verdict import Text, Verdict, message

Cause = Literal["none", "unfused-chain", "round-trip", "tiny-batches", "strided-copies"]
CAUSES: tuple[str, ...] = get_args(Cause)
EXAMPLE = '"A": {"cause": "none", "operator": "aten::mm"}'


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is wrong with a program, the operators that show it, and what tells it, by language."""

    cause: Cause
    operators: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    tells: dict[str, str]


_GIVEN = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes())
WRAPPERS, CONFUSED = _GIVEN["wrappers"], list(map(set, _GIVEN["confused"]))


class _UnreadableError(Exception):
    """The file holds no dict that can be read; its argument says why."""


def _observed(session: Session, answers: Mapping[str, Program]) -> tuple[Any, Any]:
    """What is assigned to DIAGNOSIS, and the answers; what is wrong where nothing can be read."""
    text = session.path.read_text(encoding="utf-8-sig")
    try:
        return _literal(text), answers
    except SyntaxError as error:
        where = message("line", line=str(error.lineno), code=repr((error.text or "").strip()))
        return message("syntax", where=where, what=error.msg), None
    except _UnreadableError as error:
        return error.args[0], None
    except (RecursionError, MemoryError):
        return message("too-deep"), None


def _judged(observed: Iterator[tuple[Any, Any]], _: Session) -> Iterator[Finding]:
    ((given, answers),) = observed
    if answers is None:
        yield "runs", given
        return
    yield "runs", None
    wrong = next(_form(given, answers), None)
    yield "keys", message("form-wrong", wrong=wrong, example=EXAMPLE) if wrong else None
    if not wrong:
        for name, program in answers.items():
            yield _program(name, program, **given[name])


def _literal(text: str) -> Any:
    """What is assigned to DIAGNOSIS; nothing of the file is run."""
    for node in reversed(ast.parse(text).body):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == "DIAGNOSIS" for target in targets):
            try:
                return ast.literal_eval(getattr(node, "value", None) or ast.Constant(None))
            except (ValueError, TypeError):
                raise _UnreadableError(message("computed", line=str(node.lineno))) from None
    raise _UnreadableError(message("not-assigned"))


def _form(given: Any, names: Collection[str]) -> Iterator[Text]:
    """What is wrong with the form of the dict."""
    if not isinstance(given, dict):
        yield message("form-no-dict", given=_shown(given))
        return
    if missing := [name for name in names if name not in given]:
        yield message("form-missing", name=missing[0])
    if more := [name for name in given if name not in names]:
        yield message("form-unknown", name=_shown(more[0]))
    for name, about in given.items():
        if not isinstance(about, dict) or set(about) != {"cause", "operator"}:
            yield message("form-entry", name=name)
        if not all(isinstance(value, str) for value in about.values()):
            yield message("form-texts", name=name)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return type(value).__name__


def _program(name: str, program: Program, cause: str, operator: str) -> Verdict:
    cause, operator = cause.strip(), operator.strip()
    agreed = message("agreed", cause=cause, operator=operator, tells=program.tells)
    wrong = next(_wrong(program, cause, operator), None)
    return Verdict(name, not wrong, wrong or agreed)


def _wrong(program: Program, cause: str, operator: str) -> Iterator[Text]:
    """What is wrong with a cause, and then with an operator."""
    if not cause:
        yield message("no-cause")
    if cause not in CAUSES:
        if near := get_close_matches(cause, CAUSES, n=1):
            yield message("cause-misspelled", cause=repr(cause), near=repr(near[0]))
        yield message("cause-unknown", cause=repr(cause), causes=CAUSES)
    if cause != program.cause:
        told_apart = {program.cause, cause} in CONFUSED
        why = message(f"{program.cause}-not-{cause}" if told_apart else "look")
        yield message("cause-wrong", cause=cause, why=why)
    if not operator:
        yield message("no-operator")
    copies = "Memcpy" in program.operators and operator.startswith("Memcpy")
    if operator in program.operators or copies:
        return
    if f"aten::{operator}" in program.operators:
        yield message("operator-short", name=f"'aten::{operator}'")
    if WRAPPERS.get(operator) in program.operators:
        yield message("operator-wrapper", operator=operator, real=WRAPPERS[operator])
    yield message("operator-wrong", operator=operator)


DIAGNOSIS = Lab(
    name="diagnosis",
    criteria=("runs", "keys"),  # and the programs by their letters
    scenarios=(),  # the answers
    observe=_observed,
    judge=_judged,
    preload=None,
)
