"""Grades the learner's file of lab 01: an all-reduce from send and receive, in a few processes on
this computer's CPU.

Rank r starts from 16^r, so that the digits of a result tell which ranks were counted in it, and how
often: that is what tells one mistake from another.
"""

import re
from collections.abc import Sequence
from math import isclose, isfinite
from pathlib import Path

from course_lib import network
from course_press.grading.learner import Warden
from course_press.grading.ring_run import BASE, PER_RANK, WORLDS, RankOutcome, StoppedError, run
from course_press.grading.verdict import Amount, Said, Value, Verdict, said

LIMIT = 10.0
"""Seconds that the ranks may take together; right ones take about one."""
RIGHT = 1e-5
"""Relative error that fp32 sums in another order stay well below."""


def grade(path: Path, *, limit: float = LIMIT, warden: Warden | None = None) -> list[Verdict]:
    """Grade a learner's `ring_all_reduce`.

    Parameters
    ----------
    path : the learner's file.
    limit : seconds after which ranks that have not ended are.
    warden : one that has imported torch, for grading many files; one of its own if not given.

    Returns
    -------
    One verdict a criterion: runs, ends, own, sum, uneven and ring. None that cannot be judged.

    Raises
    ------
    CourseError
        If torch is not installed.
    """
    outcomes, world, stopped = run(path, limit, warden)
    tried = [str(number) for number in WORLDS if number >= world]
    runs = Verdict("runs", True, said("runs-ranks", ranks=tried))
    if stopped and stopped.failed:
        return _failed(stopped, world, runs)
    if stopped:
        return [runs, Verdict("ends", False, _waiting(path, stopped.waiting, limit))]
    verdicts = [
        runs,
        Verdict("ends", True, said("ends-right")),
        Verdict("own", True, said("own-right")),
    ]
    for world in WORLDS:
        if wrong := _sum([outcome for outcome in outcomes if outcome.world == world]):
            return [*verdicts, Verdict("sum", False, wrong)]
    return [*verdicts, Verdict("sum", True, said("sum-right")), _uneven(outcomes), _ring(outcomes)]


def _failed(stopped: StoppedError, world: int, runs: Verdict) -> list[Verdict]:
    """What is wrong with the file itself."""
    rank, (kind, why) = next(iter(stopped.failed.items()))
    if kind == "ready-made":
        return [runs, Verdict("own", False, why)]
    if kind not in ("not-implemented", "no-function"):
        key = "rank-ended" if kind == "gone" else "rank-failed"
        why = said(key, rank=rank, world=world, why=why)
    return [Verdict("runs", False, why)]


def _waiting(path: Path, stood: dict[int, int], limit: float) -> Said:
    """What the ranks that never ended were waiting in: each one's last line of the
    learner's file.
    """
    source = path.read_text(encoding="utf-8").splitlines()
    at = {
        rank: (line, source[line - 1].strip())
        for rank, line in stood.items()
        if 0 < line <= len(source)
    }
    if not at:
        return said("none-ended", limit=Amount(limit, "s"))
    places = [
        said("waits-in", rank=rank, line=str(number), code=repr(line))
        for rank, (number, line) in sorted(at.items())
    ]
    calls = [line for _, line in at.values()]
    if all(re.search(r"\bsend\(", line) for line in calls):
        why = "all-send"
    elif all(re.search(r"\brecv\(", line) for line in calls):
        why = "all-receive"
    else:
        why = "unmatched"
    return said("waiting", limit=Amount(limit, "s"), places=places, why=said(why))


def _sum(outcomes: Sequence[RankOutcome]) -> Said | None:
    """What is wrong with the sums of one number of ranks; none where they are right."""
    if not outcomes or all(outcome.even < RIGHT for outcome in outcomes):
        return None
    world = outcomes[0].world
    full = sum(BASE**rank for rank in range(world))
    if all(
        outcome.counted == [float(BASE**outcome.rank)] * len(outcome.counted)
        for outcome in outcomes
    ):
        return said("sum-unchanged", world=world)
    if all(
        isclose(value, full / world, rel_tol=1e-9)
        for outcome in outcomes
        for value in outcome.counted
    ):
        return said("sum-average", world=world)
    complete = {
        outcome.rank: [_whole(outcome, chunk, full) for chunk in range(world)]
        for outcome in outcomes
    }
    if all(sum(chunks) == 1 for chunks in complete.values()):
        have = [
            said("has-chunk", rank=rank, chunk=chunks.index(True))
            for rank, chunks in complete.items()
        ]
        return said("sum-scattered", world=world, have=have)
    if not all(isfinite(value) for outcome in outcomes for value in outcome.counted):
        return said("sum-not-finite", world=world)
    for outcome in outcomes:
        for i, value in enumerate(outcome.counted):
            if value != full and value == int(value) and 0 <= value < BASE**world:
                return _miscounted(outcome.rank, i // PER_RANK, int(value), world)
    worst = max(outcomes, key=lambda outcome: outcome.even)
    return said("sum-astray", world=world, rank=worst.rank)


def _whole(outcome: RankOutcome, chunk: int, full: int) -> bool:
    return all(
        value == full for value in outcome.counted[chunk * PER_RANK : (chunk + 1) * PER_RANK]
    )


def _miscounted(rank: int, chunk: int, value: int, world: int) -> Said:
    times = [value // BASE**other % BASE for other in range(world)]
    odd = next(other for other, count in enumerate(times) if count != 1)
    return said(
        "sum-repeated" if times[odd] else "sum-left-out",
        world=world,
        chunk=chunk,
        rank=rank,
        other=odd,
        times=times[odd],
        remedy=said("chunk-indices"),
    )


def _uneven(outcomes: Sequence[RankOutcome]) -> Verdict:
    wrong = [
        outcome for outcome in outcomes if outcome.uneven is None or not outcome.uneven < RIGHT
    ]
    if not wrong:
        return Verdict("uneven", True, said("uneven-right"))
    world = wrong[0].world
    remedy = said("uneven-remedy")
    about: dict[str, Value] = {"size": 100 * world + 1, "world": world, "remedy": remedy}
    if why := next((outcome.said_uneven for outcome in wrong if outcome.said_uneven), None):
        return Verdict("uneven", False, said("uneven-wrong-why", **about, why=why))
    return Verdict("uneven", False, said("uneven-wrong", **about))


def _ring(outcomes: Sequence[RankOutcome]) -> Verdict:
    for outcome in outcomes:
        steps = {(outcome.rank + 1) % outcome.world, (outcome.rank - 1) % outcome.world}
        if not set(outcome.receivers) <= steps:
            to = [str(rank) for rank in outcome.receivers]
            why = said("ring-strangers", rank=outcome.rank, world=outcome.world, receivers=to)
            return Verdict("ring", False, why)

    def due(outcome: RankOutcome) -> float:
        return float(network.cost("all-reduce", outcome.world).share) * outcome.message

    def share(outcome: RankOutcome) -> float:
        return outcome.sent / due(outcome)

    least, most = min(outcomes, key=share), max(outcomes, key=share)
    worst = least if share(least) < 0.95 else most
    sent = said(
        "ring-sent",
        world=worst.world,
        sent=worst.sent,
        message=worst.message,
        wanted=int(due(worst)),
    )
    if share(worst) < 0.95:
        return Verdict("ring", False, said("ring-too-little", sent=sent))
    if share(worst) > 1.05:
        return Verdict("ring", False, said("ring-too-much", sent=sent))
    return Verdict("ring", True, sent)
