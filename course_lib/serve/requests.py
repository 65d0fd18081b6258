"""Requests that come to a server: drawn at a rate, or replayed from a file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib.core.checks import CourseError, count, nonnegative, positive, shown, single, whole

__all__ = ["Requests", "drawn", "read_requests"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Requests in the order in which they come.

    Attributes
    ----------
    arrived : s from the first.
    prompt, output : tokens.
    group : which beginning of a prompt a request shares with others; -1 where none.
    shared : tokens of that beginning.
    """

    arrived: Numbers
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    group: NDArray[np.int64]
    shared: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.arrived.size)

    @property
    def rate(self) -> float:
        """Requests a second, from the first to the last."""
        span = float(self.arrived[-1]) if len(self) > 1 else 0.0
        return (len(self) - 1) / span if span else float("inf")

    def take(self, chosen: Any) -> "Requests":
        """Some of them, at the times at which they come.

        Examples
        --------
        >>> len(drawn(2.0, 10, 100, 10).take(slice(3)))
        3
        """
        return Requests(
            *(
                getattr(self, name)[chosen]
                for name in ("arrived", "prompt", "output", "group", "shared")
            )
        )


def drawn(
    rate: float,
    requests: int,
    prompt: ArrayLike,
    output: ArrayLike,
    *,
    burst: float = 1.0,
    spread: float = 0.0,
    groups: int = 0,
    shared: int = 0,
    seed: int = 0,
) -> Requests:
    """Requests at random times, the same ones for the same seed, closer together at a higher rate.

    Parameters
    ----------
    rate : requests a second, on average.
    requests : how many.
    prompt, output : mean tokens, or lists to draw from, together where both are lists.
    burst : standard deviation over mean of the time between two requests: 1 is a Poisson process,
        more comes in bursts (Gamma).
    spread : the same of tokens (Gamma), where a mean is given.
    groups, shared : how many beginnings of prompts there are, chosen evenly, and their tokens.

    Examples
    --------
    >>> slow, fast = (drawn(rate, 1000, 512, 128) for rate in (1.0, 2.0))
    >>> bool(np.allclose(slow.arrived, 2 * fast.arrived)), round(slow.rate, 1)
    (True, 1.0)
    """
    often = single("rate", positive("rate", rate))
    many, dice = count("requests", requests), np.random.default_rng(count("seed", seed, 0))
    between = _gamma(dice, many, single("burst", positive("burst", burst)))
    arrived = np.cumsum(between) / often
    prompts, outputs = (
        np.atleast_1d(whole("prompt", prompt)),
        np.atleast_1d(whole("output", output)),
    )
    width = single("spread", nonnegative("spread", spread))
    if prompts.size > 1 and prompts.size == outputs.size:
        chosen = dice.integers(prompts.size, size=many)
        lengths = [prompts[chosen], outputs[chosen]]
    else:
        lengths = [_lengths(dice, many, one, width) for one in (prompts, outputs)]
    kinds = count("groups", groups, 0)
    start = count("shared", shared, 0)
    if kinds and not start:
        raise CourseError(f"shared must be given for groups {kinds}: tokens that a group shares")
    group = dice.integers(kinds, size=many) if kinds else np.full(many, -1)
    begun = np.where(group >= 0, start, 0)
    return Requests(
        arrived - arrived[0],
        (lengths[0] + begun).astype(np.int64),
        lengths[1].astype(np.int64),
        group.astype(np.int64),
        begun.astype(np.int64),
    )


def _gamma(dice: np.random.Generator, many: int, spread: Any) -> Numbers:
    shape = 1 / float(spread) ** 2
    return np.asarray(dice.gamma(shape, 1 / shape, many))


def _lengths(dice: np.random.Generator, many: int, given: Any, spread: float) -> Numbers:
    if given.size > 1:
        return np.asarray(given[dice.integers(given.size, size=many)])
    if not spread:
        return np.full(many, float(given[0]))
    return np.asarray(np.maximum(np.round(given[0] * _gamma(dice, many, spread)), 1))


_FIELDS = {"arrived": "arrival_time", "prompt": "input_toks", "output": "output_toks"}


def read_requests(path: Path | str) -> Requests:
    """Requests of a file: a JSON object a line with `arrival_time` in s, `input_toks` and
    `output_toks`; where requests share a beginning, `prefix_id` and `prefix_toks` too.

    Raises
    ------
    CourseError
        If the file cannot be read or has no request; or a line lacks a field, is not in order, or
        has a time or a count that is none: it names the line.

    Examples
    --------
    >>> read_requests("nowhere.jsonl")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: arrivals 'nowhere.jsonl' cannot be read: No such file or directory
    """
    name = str(path)
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CourseError(f"arrivals {name!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CourseError(f"arrivals {name!r} is not text in UTF-8") from None
    rows: list[tuple[float, int, int, int, int]] = []
    groups: dict[Any, int] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"arrivals {name!r}, line {number}"
            row = _row(line, where)
            if rows and row[0] < rows[-1][0]:
                raise CourseError(
                    f"{where}: arrival_time {row[0]:g} is before {rows[-1][0]:g} of the line "
                    f"above: sort the file by it"
                )
            group = groups.setdefault(row[3], len(groups)) if row[3] is not None else -1
            rows.append((*row[:3], group, row[4]))
    if not rows:
        raise CourseError(f"arrivals {name!r} has no request")
    columns = [np.asarray(column) for column in zip(*rows, strict=True)]
    arrived = columns[0].astype(float)
    return Requests(arrived - arrived[0], *(column.astype(np.int64) for column in columns[1:]))


def _row(line: str, where: str) -> tuple[float, int, int, Any, int]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise CourseError(f"{where} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CourseError(f"{where} must be an object (got {shown(found)})")
    if missing := [field for field in _FIELDS.values() if field not in found]:
        raise CourseError(f"{where} lacks {', '.join(missing)}")
    time = found["arrival_time"]
    if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < np.inf:
        raise CourseError(f"{where}: arrival_time must be seconds, 0 or more (got {shown(time)})")
    tokens = [found["input_toks"], found["output_toks"], found.get("prefix_toks", 0)]
    for field, value, least in zip(
        ("input_toks", "output_toks", "prefix_toks"), tokens, (1, 1, 0), strict=True
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise CourseError(
                f"{where}: {field} must be a whole number, {least} or more (got {shown(value)})"
            )
    if tokens[2] > tokens[0]:
        raise CourseError(f"{where}: prefix_toks {tokens[2]} is more than input_toks {tokens[0]}")
    return float(time), tokens[0], tokens[1], found.get("prefix_id"), tokens[2]
