"""What a page asks of its reader: questions one at a time, a trace, numbers to be drawn along."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.core import formulas
from course_lib.core.checks import known
from course_tools.diagnosis import FLOW, Fork
from course_book.text import Shown, n, t


@dataclass(frozen=True, repr=False)
class Walk(Shown):
    """The flow of *Finding the cause*: questions, each answer with a remedy and causes; a
    page folds them, so that each answer opens the next.
    """

    forks: tuple[Fork, ...] = FLOW

    def words(self, key: str) -> str:
        """What the language of the page says for a key of the flow."""
        return t(f"flow-{key}")

    def verdict(self, causes: tuple[str, ...]) -> str:
        """The causes that an answer ends in, as Markdown."""
        return f"{self.heading(causes)}: {', '.join(f'`{cause}`' for cause in causes)}"

    def heading(self, causes: tuple[str, ...]) -> str:
        """What stands before causes: of one, or of several."""
        return self.words("verdict" if len(causes) == 1 else "verdicts")

    def static_bundle(self) -> dict[str, Any]:
        """Every question with both answers, as a list."""
        lines = [self.words("start"), ""]
        for number, fork in enumerate(self.forks, 1):
            ends = f"{self.words(fork.remedy)} {self.verdict(fork.causes)}."
            answer = self.words(fork.answer).capitalize()
            lines.append(f"{number}. **{self.words(fork.key)}** {answer}. {ends}")
        ends = f"{self.words('end')} {self.verdict(('at-roof',))}."
        return {"text/markdown": "\n".join([*lines, "", ends])}


@dataclass(frozen=True, repr=False)
class TraceBox(Shown):
    """A box for a trace of one's own; it opens on one of these, by its number."""

    traces: tuple[Path, ...]
    first: int = 1

    def static_bundle(self) -> dict[str, Any]:
        """Where a reader of a notebook finds it."""
        return {"text/markdown": t("trace-notebook")}


@dataclass(frozen=True, repr=False)
class Box(Shown):
    """What a page's script of this kind fills with data, and what it says without one."""

    kind: str
    text: str
    data: Mapping[str, Any]

    def __repr__(self) -> str:
        return self.text


def numbers(drawn: Mapping[str, Sequence[Any]], follows: Mapping[str, Sequence[Any]]) -> Box:
    """Numbers of sentences that a reader draws along, and others that follow by a formula.

    Parameters
    ----------
    drawn : by name, a number, its least, its most, its unit, and what it is called.
    follows : by name, a unit, a function of `course_lib.core.formulas`, and its arguments, of which
        a text is a number's name.

    Raises
    ------
    CourseError
        If there is no such formula.

    Examples
    --------
    >>> numbers({"load": (0.5, 0.0, 0.9, "%", "load")}, {"token": ("s", "loaded", 0.01, "load")})
    load 50%, token 20 ms
    """
    values = {name: one[0] for name, one in drawn.items()}
    for name, (_, rule, *given) in follows.items():
        formula = getattr(formulas, known("formula", rule, formulas.__dict__))
        values[name] = formula(*(values.get(a, a) if isinstance(a, str) else a for a in given))
    units = {name: one[3] for name, one in drawn.items()} | {k: of[0] for k, of in follows.items()}
    said = ", ".join(f"{name} {n(values[name], unit)}" for name, unit in units.items())
    return Box("numbers", said, {"drawn": drawn, "follows": follows})
