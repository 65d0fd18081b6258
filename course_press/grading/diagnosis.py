"""Grades the learner's file of lab 02: what is wrong with each program, and which operator shows
it.

The file is read, not run: it holds one dict.
"""

import ast
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from course_press.grading.verdict import Said, Verdict, said

Cause = Literal["none", "unfused-chain", "round-trip", "tiny-batches", "strided-copies"]
CAUSES: tuple[str, ...] = get_args(Cause)
EXAMPLE = '"A": {"cause": "none", "operator": "aten::mm"}'


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is wrong with a program, the operators that show it, and what in the trace tells, by
    language.
    """

    cause: Cause
    operators: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    tells: dict[str, str]


WRAPPERS = {
    "aten::linear": "aten::mm",
    "aten::matmul": "aten::mm",
    "aten::contiguous": "aten::copy_",
    "aten::clone": "aten::copy_",
    "aten::to": "aten::copy_",
    "aten::_to_copy": "aten::copy_",
}
"""Operators that only call others, by the one that does their work."""
CONFUSED: tuple[tuple[Cause, Cause], ...] = (
    ("strided-copies", "round-trip"),
    ("round-trip", "strided-copies"),
    ("tiny-batches", "none"),
    ("unfused-chain", "none"),
    ("none", "tiny-batches"),
    ("none", "unfused-chain"),
    ("tiny-batches", "unfused-chain"),
    ("unfused-chain", "tiny-batches"),
)
"""The right cause and another that is named for it, where a sentence tells them apart."""


def grade(path: Path, answers: Mapping[str, Program]) -> list[Verdict]:
    """Grade a learner's diagnosis.

    Parameters
    ----------
    path : the learner's file.
    answers : by program.

    Returns
    -------
    One verdict each on whether the file can be read (``"runs"``) and on its form (``"keys"``), and
    then one for each program; those after a failure of the first two are left out.
    """
    text = path.read_text(encoding="utf-8-sig")
    try:
        given = _literal(text)
    except SyntaxError as error:
        where = said("line", line=str(error.lineno), code=repr((error.text or "").strip()))
        return [Verdict("runs", False, said("syntax", where=where, what=error.msg))]
    except _UnreadableError as error:
        return [Verdict("runs", False, error.said)]
    except (RecursionError, MemoryError):
        return [Verdict("runs", False, said("too-deep"))]
    verdicts = [Verdict("runs", True, said("holds-diagnosis"))]
    if wrong := _form(given, answers):
        return [*verdicts, Verdict("keys", False, said("form-wrong", wrong=wrong, example=EXAMPLE))]
    verdicts.append(Verdict("keys", True, said("form-right")))
    return [*verdicts, *(_program(name, answers[name], **given[name]) for name in answers)]


class _UnreadableError(Exception):
    """The file holds no dict that can be read; `said` says why."""

    def __init__(self, why: Said) -> None:
        super().__init__(why)
        self.said = why


def _literal(text: str) -> Any:
    """What is assigned to DIAGNOSIS; nothing of the file is run."""
    for node in reversed(ast.parse(text).body):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == "DIAGNOSIS" for target in targets):
            try:
                return ast.literal_eval(getattr(node, "value", None) or ast.Constant(None))
            except (ValueError, TypeError):
                raise _UnreadableError(said("computed", line=str(node.lineno))) from None
    raise _UnreadableError(said("not-assigned"))


def _form(given: Any, names: Collection[str]) -> Said | None:
    """What is wrong with the form of the dict; none where nothing is."""
    if not isinstance(given, dict):
        return said("form-no-dict", given=_shown(given))
    if missing := [name for name in names if name not in given]:
        return said("form-missing", name=missing[0])
    if more := [name for name in given if name not in names]:
        return said("form-unknown", name=_shown(more[0]))
    for name, about in given.items():
        if not isinstance(about, dict) or set(about) != {"cause", "operator"}:
            return said("form-entry", name=name)
        if not all(isinstance(value, str) for value in about.values()):
            return said("form-texts", name=name)
    return None


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return type(value).__name__


def _program(name: str, program: Program, cause: str, operator: str) -> Verdict:
    cause, operator = cause.strip(), operator.strip()
    if wrong := _cause(program, cause) or _operator(program, operator):
        return Verdict(name, False, wrong)
    agreed = said("agreed", cause=cause, operator=operator, tells=program.tells)
    return Verdict(name, True, agreed)


def _cause(program: Program, cause: str) -> Said | None:
    if not cause:
        return said("no-cause")
    if cause not in CAUSES:
        if near := get_close_matches(cause, CAUSES, n=1):
            return said("cause-misspelled", cause=repr(cause), near=repr(near[0]))
        return said("cause-unknown", cause=repr(cause), causes=CAUSES)
    if cause == program.cause:
        return None
    told_apart = (program.cause, cause) in CONFUSED
    why = said(f"{program.cause}-not-{cause}" if told_apart else "look")
    return said("cause-wrong", cause=cause, why=why)


def _operator(program: Program, operator: str) -> Said | None:
    if not operator:
        return said("no-operator")
    if operator in program.operators or any(
        operator.startswith(one) for one in program.operators if one == "Memcpy"
    ):
        return None
    if f"aten::{operator}" in program.operators:
        return said("operator-short", name=f"'aten::{operator}'")
    if WRAPPERS.get(operator) in program.operators:
        return said("operator-wrapper", operator=operator, real=WRAPPERS[operator])
    return said("operator-wrong", operator=operator)
