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

from course_press.grading.learner import existing
from course_press.grading.verdict import Verdict

Cause = Literal["none", "unfused-chain", "round-trip", "tiny-batches", "strided-copies"]
CAUSES: tuple[str, ...] = get_args(Cause)
EXAMPLE = '"A": {"cause": "none", "operator": "aten::mm"}'


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is wrong with a program, the operators that show it, and what in the trace tells."""

    cause: Cause
    operators: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    tells: str


WRAPPERS = {
    "aten::linear": "aten::mm",
    "aten::matmul": "aten::mm",
    "aten::contiguous": "aten::copy_",
    "aten::clone": "aten::copy_",
    "aten::to": "aten::copy_",
    "aten::_to_copy": "aten::copy_",
}
"""Operators that only call others, by the one that does their work."""
CONFUSED = {
    (
        "strided-copies",
        "round-trip",
    ): "aten::copy_ shows both: the formats are the same on both sides here, the strides are not",
    (
        "round-trip",
        "strided-copies",
    ): "aten::copy_ shows both: the strides are alike on both sides here, formats or devices "
    "are not",
    (
        "tiny-batches",
        "none",
    ): "a product is on top, as it should be, but look at its calls and at the first number "
    "of its shapes",
    (
        "unfused-chain",
        "none",
    ): "the operators on top are no products: how many arrays of one shape go by for one formula?",
    ("none", "tiny-batches"): "the product on top is called twice a step, on all rows at once",
    (
        "none",
        "unfused-chain",
    ): "there is one kernel between the products: the activation is fused already",
    (
        "tiny-batches",
        "unfused-chain",
    ): "many calls do not make a chain: look at their shapes, which have one row each",
    (
        "unfused-chain",
        "tiny-batches",
    ): "each operator here takes the whole array, however many they are",
}
"""By the right cause and the one named: what tells them apart."""
LOOK = (
    "look at which operator is on top, how often it is called, and the shapes, strides and "
    "formats of its inputs"
)


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

    Raises
    ------
    CourseError
        If there is no such file, or it is not text in UTF-8.

    Examples
    --------
    >>> grade(Path("nowhere.py"), {})
    Traceback (most recent call last):
    ...
    course_lib.CourseError: path 'nowhere.py' is not a file: give the path of your diagnosis.py
    """
    text = existing(path, "diagnosis.py").read_text(encoding="utf-8")
    try:
        given = _literal(text)
    except SyntaxError as error:
        line = (error.text or "").strip()
        return [
            Verdict("runs", False, f"syntax error in line {error.lineno}: {line!r}: {error.msg}")
        ]
    except ValueError as error:
        return [Verdict("runs", False, str(error))]
    except (RecursionError, MemoryError):
        said = (
            "an expression in the file is nested too deeply to be read: write DIAGNOSIS out "
            "as a dict of texts"
        )
        return [Verdict("runs", False, said)]
    verdicts = [Verdict("runs", True, "the file holds a DIAGNOSIS")]
    if wrong := _form(given, answers):
        return [
            *verdicts,
            Verdict("keys", False, f"{wrong}: write a line for each patient as {EXAMPLE}"),
        ]
    verdicts.append(Verdict("keys", True, "a cause and an operator for each patient"))
    return [*verdicts, *(_program(name, answers[name], **given[name]) for name in answers)]


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
                said = (
                    f"DIAGNOSIS in line {node.lineno} is computed, and the grader reads it "
                    f"without running the file"
                )
                raise ValueError(f"{said}: write it out as a dict of texts") from None
    raise ValueError("nothing is assigned to DIAGNOSIS: keep the name that the stub gives it")


def _form(given: Any, names: Collection[str]) -> str:
    """What is wrong with the form of the dict; empty where nothing is."""
    if not isinstance(given, dict):
        return f"DIAGNOSIS must be a dict (got {given!r})"
    if missing := [name for name in names if name not in given]:
        return f"patient {missing[0]} is missing"
    if more := [name for name in given if name not in names]:
        return f"there is no patient {more[0]!r}"
    for name, about in given.items():
        if not isinstance(about, dict) or set(about) != {"cause", "operator"}:
            return f"patient {name} must have a cause and an operator, and nothing else"
        if not all(isinstance(value, str) for value in about.values()):
            return f"cause and operator of patient {name} must be texts"
    return ""


def _program(name: str, program: Program, cause: str, operator: str) -> Verdict:
    cause, operator = cause.strip(), operator.strip()
    said = _cause(program, cause) or _operator(program, operator)
    if said:
        return Verdict(name, False, said)
    return Verdict(name, True, f"{cause}, shown by {operator}: {program.tells}")


def _cause(program: Program, cause: str) -> str:
    if not cause:
        return "no cause yet: record the trace, and read what is on top"
    if cause not in CAUSES:
        near = get_close_matches(cause, CAUSES, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(CAUSES)}"
        return f"{cause!r} is not one of the causes: {remedy}"
    if cause == program.cause:
        return ""
    why = CONFUSED.get((program.cause, cause))
    return f"not {cause}: {why or LOOK}"


def _operator(program: Program, operator: str) -> str:
    if not operator:
        return "the cause is right; name the operator that takes most time by itself"
    if operator in program.operators or any(
        operator.startswith(one) for one in program.operators if one == "Memcpy"
    ):
        return ""
    if f"aten::{operator}" in program.operators:
        return (
            f"the cause is right; write the operator by its full name in the trace: "
            f"'aten::{operator}'"
        )
    if WRAPPERS.get(operator) in program.operators:
        real = WRAPPERS[operator]
        said = (
            f"the cause is right, but {operator} only calls {real}, and its duration holds "
            f"that of what it calls"
        )
        return f"{said}: sort by each operator's own time"
    return (
        f"the cause is right, but {operator} takes little time by itself: sort by each "
        f"operator's own time, and name the first"
    )
