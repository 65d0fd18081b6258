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
    """New tokens, tokens read, and s of each step that was measured.

    Examples
    --------
    >>> about = dict(device="cpu", kind="cpu", op="step", dtype="fp32", timing="warm",
    ...     data="random", status="ok")
    >>> steps([Row(**about, shape="4x260", settings="decode", seconds_median=0.01)])
    [(4, 260, 0.01)]
    """
    found = []
    for row, seconds in timed(rows).values():
        if row.op == "step":
            tokens, seen = row.sizes
            found.append((tokens, seen, seconds))
    return found


def fit(rows: Iterable[Row]) -> StepFit:
    """The three constants that come closest to the measured steps, none of them negative.

    Relative errors count, so that a short step weighs as much as a long one.

    Parameters
    ----------
    rows : of one engine on one device.

    Raises
    ------
    CourseError
        If the steps are too few, or all alike.

    Examples
    --------
    >>> about = dict(device="cpu", kind="cpu", op="step", dtype="fp32", timing="warm",
    ...     data="random", status="ok", settings="decode")
    >>> rows = [Row(**about, shape=f"{n}x{n * c}", seconds_median=2e-3 + 1e-4 * n + 1e-6 * n * c)
    ...     for n in (1, 4, 8) for c in (64, 512)]
    >>> found = fit(rows)
    >>> [round(1e6 * one) for one in (found.step, found.token, found.seen)]
    [2000, 100, 1]
    """
    measured = np.array(steps(rows))
    if len(measured) < 4 or np.linalg.matrix_rank(_columns(measured)) < 3:
        raise CourseError(
            "rows must hold four steps or more, with different tokens and contexts: measure with a "
            "larger budget"
        )
    seconds = measured[:, 2]
    scaled = _columns(measured) / seconds[:, None]
    used = [0, 1, 2]
    while True:
        found = np.zeros(3)
        found[used] = np.linalg.lstsq(scaled[:, used], np.ones(len(seconds)), rcond=None)[0]
        if found.min() >= 0:
            break
        used.remove(int(found.argmin()))
    errors = np.abs(scaled @ found - 1)
    step, token, seen = map(float, found)
    return StepFit(step, token, seen, float(np.median(errors)))


def _columns(measured: Numbers) -> Numbers:
    return np.stack([np.ones(len(measured)), measured[:, 0], measured[:, 1]], axis=1)


def capacity(fitted: StepFit, prompt: float, output: float, sequences: int) -> float:
    """Requests a second that an engine whose places are always full gets done, about.

    Each request pays for its prompt, and in each of its steps for its own token, for its cache as
    it is on average, and for its share of what a step takes anyway.

    Parameters
    ----------
    fitted : of its steps.
    prompt, output : mean tokens.
    sequences : its places.

    Examples
    --------
    >>> round(capacity(StepFit(8e-3, 1e-4, 1e-6), 100, 50, 8), 2)
    14.04
    """
    positive("prompt", prompt)
    positive("output", output)
    whole("sequences", sequences)
    each = fitted.step / sequences + fitted.token + fitted.seen * (prompt + output / 2)
    return float(formulas.ceiling(prompt * fitted.token, output, each))


def kept(row: Row, run: str, scheduled: float, first: float, last: float) -> Row:
    """The row of a request once it has been served.

    Examples
    --------
    >>> about = dict(device="cpu", kind="cpu", op="request", dtype="fp32", timing="warm",
    ...     data="random", status="ok", shape="8x2")
    >>> kept(Row(**about, settings="of=1 arrived=0.5"), "run=1", 0.5, 0.6, 0.7).settings
    'run=1 of=1 arrived=0.5 scheduled=0.500000 first=0.600000 last=0.700000'
    """
    told = zip(_TIMES, (scheduled, first, last), strict=True)
    after = " ".join(f"{name}={seconds:.6f}" for name, seconds in told)
    arrived = float(row.setting("arrived") or 0)
    return msgspec.structs.replace(
        row, settings=f"{run} {row.settings} {after}", seconds_median=last - arrived
    )


def replays(rows: Iterable[Row]) -> list[Replayed]:
    """The runs that came to their end, in the order in which they were measured.

    Of a run that was ended while its rows were written nothing is kept.

    Examples
    --------
    >>> replays([])
    []
    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.op == "request":
            found.setdefault(row.setting("run"), []).append(row)
    return [_replayed(these) for these in found.values() if str(len(these)) == _of(these)]


def _of(these: Sequence[Row]) -> str:
    return these[0].setting("of")


def _replayed(these: Sequence[Row]) -> Replayed:
    ordered = tuple(sorted(these, key=lambda row: int(row.setting("request"))))
    sizes = [row.sizes for row in ordered]

    def told(name: str) -> tuple[float, ...]:
        return tuple(float(row.setting(name)) for row in ordered)

    return Replayed(
        rows=ordered,
        arrived=told("arrived"),
        scheduled=told("scheduled"),
        first=told("first"),
        last=told("last"),
        prompt=tuple(prompt for prompt, _ in sizes),
        output=tuple(output for _, output in sizes),
        seqs=int(ordered[0].setting("seqs")),
        tokens=int(ordered[0].setting("tokens")),
        rule=ordered[0].setting("rule"),
    )
