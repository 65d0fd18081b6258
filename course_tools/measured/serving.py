"""A small engine's measured steps, the three constants that describe them, and the requests that it
served.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib.bench.rows import Row, timed
from course_lib.core import formulas
from course_lib.core.checks import CourseError, positive, whole

Numbers = NDArray[np.float64]
_TIMES = ("scheduled", "first", "last")


class StepFit(msgspec.Struct, frozen=True):
    """What a step takes: `step`, and more for each new token and each token read from a cache.

    Attributes
    ----------
    step, token, seen : s.
    error : median relative error of the steps that it was fitted to.
    """

    step: float
    token: float
    seen: float
    error: float = 0.0

    def seconds(self, tokens: object, seen: object) -> Numbers:
        """S of steps with so many new tokens that read so many."""
        new, read = np.asarray(tokens, float), np.asarray(seen, float)
        return np.asarray(self.step + self.token * new + self.seen * read)


class Replayed(msgspec.Struct, frozen=True):
    """Requests that an engine served, all in one run.

    Attributes
    ----------
    rows : one a request, in the order in which they came.
    arrived, scheduled, first, last : s, when each came, joined a step, and got its first and its
        last token.
    prompt, output : tokens.
    seqs, tokens : the most sequences, and new tokens, of a step.
    rule : who was admitted, by its name.
    """

    rows: tuple[Row, ...]
    arrived: tuple[float, ...]
    scheduled: tuple[float, ...]
    first: tuple[float, ...]
    last: tuple[float, ...]
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    seqs: int
    tokens: int
    rule: str

    def same(self, rows: Sequence[Row]) -> bool:
        """Whether these rows, not served yet, ask for what was served here."""

        def asked(row: Row) -> tuple[str, ...]:
            names = ("rule", "seqs", "tokens", "of", "request", "arrived")
            return row.device, row.dtype, row.shape, *(row.setting(name) for name in names)

        return list(map(asked, rows)) == list(map(asked, self.rows))


def steps(rows: Iterable[Row]) -> list[tuple[int, int, float]]:
    """New tokens, tokens read, and s of each step that was measured."""
    measured = [pair for pair in timed(rows).values() if pair[0].op == "step"]
    return [(row.sizes[0], row.sizes[1], seconds) for row, seconds in measured]


def fit(rows: Iterable[Row]) -> StepFit:
    """The three constants that come closest to the measured steps of one engine on one device, none
    of them negative. Relative errors count, so that a short step weighs as much as a long one.
    """
    measured = np.array(steps(rows))
    columns = np.insert(measured[:, :2], 0, 1, axis=1) if len(measured) else measured
    if len(measured) < 4 or np.linalg.matrix_rank(columns) < 3:
        raise CourseError(
            "rows must hold four steps or more, with different tokens and contexts: measure with a "
            "larger budget"
        )
    scaled = columns / measured[:, 2:]
    used = [0, 1, 2]
    while True:
        found = np.zeros(3)
        found[used] = np.linalg.lstsq(scaled[:, used], np.ones(len(scaled)), rcond=None)[0]
        if found.min() >= 0:
            break
        used.remove(int(found.argmin()))
    step, token, seen = map(float, found)
    return StepFit(step, token, seen, float(np.median(np.abs(scaled @ found - 1))))


def capacity(fitted: StepFit, prompt: float, output: float, sequences: int) -> float:
    """Requests a second that an engine whose places are always full gets done, about.

    Each request pays for its prompt, and in each of its steps for its own token, for its cache as
    it is on average, and for its share of what a step takes anyway.
    """
    positive("prompt", prompt)
    positive("output", output)
    whole("sequences", sequences)
    each = fitted.step / sequences + fitted.token + fitted.seen * (prompt + output / 2)
    return float(formulas.ceiling(prompt * fitted.token, output, each))


def kept(row: Row, run: str, scheduled: float, first: float, last: float) -> Row:
    """The row of a request once it has been served: times in s after those it came with."""
    times = zip(_TIMES, (scheduled, first, last), strict=True)
    after = " ".join(f"{name}={seconds:.6f}" for name, seconds in times)
    arrived = float(row.setting("arrived") or 0)
    return msgspec.structs.replace(
        row, settings=f"{run} {row.settings} {after}", seconds_median=last - arrived
    )


def replays(rows: Iterable[Row]) -> list[Replayed]:
    """The runs that came to their end, in the order in which they were measured; of one that was
    ended while its rows were written nothing is kept.
    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.op == "request":
            found.setdefault(row.setting("run"), []).append(row)
    return [
        _replayed(tuple(sorted(these, key=lambda row: int(row.setting("request")))))
        for these in found.values()
        if str(len(these)) == these[0].setting("of")
    ]


def _replayed(rows: tuple[Row, ...]) -> Replayed:
    prompt, output = zip(*(row.sizes for row in rows), strict=True)
    names, one = ("arrived", *_TIMES), rows[0]
    times = {name: tuple(float(row.setting(name)) for row in rows) for name in names}
    return Replayed(
        rows,
        **times,
        prompt=prompt,
        output=output,
        seqs=int(one.setting("seqs")),
        tokens=int(one.setting("tokens")),
        rule=one.setting("rule"),
    )
