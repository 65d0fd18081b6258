"""The questions that lead from a slow step to its cause, asked one at a time: a reader's answer
opens the next, without a kernel and without a script.
"""

from html import escape
from typing import Any

from course_lib.book.text import Shown, t
from course_lib.diagnosis import FLOW, Fork

__all__ = ["Walk", "walk"]


class Walk(Shown):
    """The questions of `diagnosis.FLOW`, as folded answers that hold each other."""

    def html(self) -> str:
        """The markup of all questions, the first in sight."""
        ends = f"<p>{_said('end')}</p>{_verdicts(('at-roof',))}"
        asked = ends
        for fork in reversed(FLOW):
            asked = _asked(fork, asked)
        return f'<div class="walk"><p>{_said("start")}</p>{asked}</div>'

    def static_bundle(self) -> dict[str, Any]:
        """Markup that a notebook shows as it is."""
        return {"text/markdown": self.html()}


def walk() -> Walk:
    """The flow of the chapter *Bandwidth and profiling*, to be walked: each question has two
    answers, one of which ends in a remedy and in the causes that `course diagnose` may name there.

    Examples
    --------
    >>> walk().html().count("<summary>") == 2 * len(FLOW)
    True
    """
    return Walk()


def _asked(fork: Fork, leads_on: str) -> str:
    ends = f"<p>{_said(fork.remedy)}</p>{_verdicts(fork.causes)}<p>{_again()}</p>"
    answers = {fork.answer: ends, fork.other: leads_on}
    # Of details with one name, opening one closes the other.
    folded = "".join(
        f'<details name="walk-{fork.key}"><summary>{_said(answer)}</summary>'
        f"<div>{answers[answer]}</div></details>"
        for answer in ("yes", "no")
    )
    return f"<p><strong>{_said(fork.key)}</strong></p>{folded}"


def _verdicts(causes: tuple[str, ...]) -> str:
    named = ", ".join(f"<code>{cause}</code>" for cause in causes)
    return f"<p>{escape(t('flow-verdict'))}: {named}</p>"


def _again() -> str:
    said = t("flow-again")
    return escape(said[:1].upper() + said[1:] + ".")


def _said(key: str) -> str:
    return escape(t(f"flow-{key}"))
