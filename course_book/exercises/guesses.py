"""What readers predict before the book answers, and how far off all guesses were together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, fsum, isfinite, log
from typing import Any, Literal, NamedTuple

from course_lib.core.checks import CourseError, known, positive, single
from course_book.exercises.wording import predictions
from course_book.text import UNITS, Shown, language, n

# Which side of the truth an optimist guesses on: a time low, a speedup high.
Hopes = Literal["low", "high"]


class Guess(NamedTuple):
    """A guess and the truth, in the same unit, and the side on which an optimist would be."""

    guess: float
    truth: float
    hopes: Hopes = "high"


class Bias(NamedTuple):
    """Factors by which guesses are too optimistic, and off to whichever side."""

    optimism: float
    spread: float


def bias(guesses: Iterable[Guess]) -> Bias:
    """How far off guesses are together, by logarithms: twice too much and half of it cancel.

    Raises
    ------
    CourseError
        If there is no guess, or a number is not positive and finite.

    Examples
    --------
    >>> bias([Guess(2.0, 1.0), Guess(1.0, 8.0, "low")])
    Bias(optimism=4.0, spread=4.0)
    """
    logs = []
    for one in map(Guess._make, guesses):
        for name, value in (("guess", one.guess), ("truth", one.truth)):
            if not (isfinite(value) and value > 0):
                raise CourseError(f"{name} must be a positive number (got {value})")
        sign = 1 if known("hopes", one.hopes, ("low", "high")) == "high" else -1
        logs.append(sign * log(one.guess / one.truth))
    if not logs:
        raise CourseError("guesses must hold one at least (got none)")
    means = (fsum(some) / len(logs) for some in (logs, map(abs, logs)))
    return Bias(*(float(f"{exp(mean):.12g}") for mean in means))


@dataclass(frozen=True, repr=False, eq=False)
class Question(Shown):
    """A prediction to be made. `predict` makes it, of its own arguments."""

    id: str
    truth: float | None
    unit: str
    span: tuple[float, float]
    hopes: Hopes
    choices: tuple[str, ...]
    right: int | None
    until: str

    @property
    def ask(self) -> str:
        """What is to be guessed, in the page's language."""
        return str(predictions(language())[self.id]["ask"])

    @property
    def shown_choices(self) -> list[str]:
        """The choices in the page's language; what has no words of its own is a name."""
        words = predictions(language())[self.id].get("choices", {})
        return [words.get(choice, choice) for choice in self.choices]

    @property
    def shown_truth(self) -> str:
        """The truth as the page's language writes it."""
        if self.right is not None:
            return self.shown_choices[self.right]
        return n(self.truth, self.unit)

    def __repr__(self) -> str:
        return f"{self.ask}: {self.shown_truth}"

    def static_bundle(self) -> dict[str, Any]:
        """The answer: whoever runs the cell has made a guess, or wants none."""
        return {"text/markdown": f"**{self.ask}:** {self.shown_truth}"}


def predict(
    id: str,  # noqa: A002
    truth: float | None = None,
    unit: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
    hopes: Hopes = "low",
    choices: Sequence[str] = (),
    right: str | None = None,
    until: str = "",
) -> Question:
    """A prediction that a page asks for before what follows its box opens.

    Parameters
    ----------
    id : of the prediction, as in ``data/exercises/predictions.<language>.toml``.
    truth, unit : what is to be guessed, in SI base units, and a key of `UNITS`.
    low, high : the ends of the slider, in the same unit.
    hopes : ``"low"`` where an optimist guesses too low, ``"high"`` where too high.
    choices, right : instead of a number, names to choose from, and the right one.
    until : the id of the last thing that is closed; the end of the subsection if not given.

    Raises
    ------
    CourseError
        If there is no such prediction, or the truth lies outside the slider or the choices.

    Examples
    --------
    >>> predict("rooflines-trillion", 1e12 / 989.4e12, "s", low=1e-9, high=1.0)
    The time on an H100: 1.01 ms
    >>> predict("net-size", choices=["B", "D", "F"], right="D")
    The size to raise: D
    """
    known("id", id, [name for name in predictions("en") if name != "phrases"])
    known("unit", unit, UNITS)
    known("hopes", hopes, ("low", "high"))
    if choices:
        place = list(choices).index(known("right", str(right), choices))
        return Question(id, None, "", (0.0, 0.0), hopes, tuple(choices), place, until)
    if truth is None or low is None or high is None:
        raise CourseError("a prediction needs truth, low and high, or choices and right")
    given = {"low": low, "truth": truth, "high": high}
    low, truth, high = (single(name, positive(name, value)) for name, value in given.items())
    if not low < truth < high:
        raise CourseError(
            f"truth must lie between low and high, and low above zero "
            f"(got low={low}, truth={truth}, high={high})"
        )
    return Question(id, float(truth), unit, (float(low), float(high)), hopes, (), None, until)


class Parity(Shown):
    """All of a reader's predictions beside the truth, which only a page can know."""

    def __repr__(self) -> str:
        return str(predictions(language())["phrases"]["still"])


def parity() -> Parity:
    """All of a reader's predictions beside the truth: a page draws them.

    Examples
    --------
    >>> parity()
    Your predictions, each beside the truth, are drawn here by a browser with JavaScript.
    """
    return Parity()
