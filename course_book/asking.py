"""The questions that lead from a slow step to its cause, asked one at a time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_tools.diagnosis import FLOW, Fork
from course_book.text import Shown, t


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
    """A box for a trace of one's own; first, it shows the last of these."""

    traces: tuple[Path, ...]

    def static_bundle(self) -> dict[str, Any]:
        """Where a reader of a notebook finds it."""
        return {"text/markdown": t("trace-notebook")}
