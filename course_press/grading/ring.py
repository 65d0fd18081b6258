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
from course_press.grading.learner import Warden, existing
from course_press.grading.ring_run import BASE, PER_RANK, WORLDS, RankOutcome, StoppedError, run
from course_press.grading.verdict import Verdict

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
        If there is no such file, it is not text in UTF-8, or torch is not installed.

    Examples
    --------
    >>> grade(Path("nowhere.py"))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: path 'nowhere.py' is not a file: give the path of your ring_all_reduce.py
    """  # noqa: E501
    path = existing(path, "ring_all_reduce.py")
    outcomes, world, stopped = run(path, limit, warden)
    tried = [str(number) for number in WORLDS if number >= world]
    runs = Verdict("runs", True, f"in {', '.join(tried)} ranks")
    if stopped and stopped.failed:
        return _failed(stopped, world, runs)
    if stopped:
        return [runs, Verdict("ends", False, _waiting(path, stopped.waiting, limit))]
    verdicts = [
        runs,
        Verdict("ends", True, "no rank waits forever"),
        Verdict("own", True, "send and receive only"),
    ]
    for world in WORLDS:
        if wrong := _sum([outcome for outcome in outcomes if outcome.world == world]):
            return [*verdicts, Verdict("sum", False, wrong)]
    return [
        *verdicts,
        Verdict("sum", True, "the sum of what the ranks were given"),
        _uneven(outcomes),
        _ring(outcomes),
    ]


def _failed(stopped: StoppedError, world: int, runs: Verdict) -> list[Verdict]:
    """What is wrong with the file itself."""
    rank, (kind, said) = next(iter(stopped.failed.items()))
    if kind == "ready-made":
        return [
            runs,
            Verdict(
                "own", False, f"it calls {said.rpartition(' ')[2]}: use send, isend and recv only"
            ),
        ]
    if kind == "not-implemented":
        said = (
            f"{said}: NotImplementedError: not implemented yet: your code goes here, and the "
            f"stub's TODOs say what is needed"
        )
    elif kind == "gone":
        said = f"rank {rank} of {world} ended without a result: {said}"
    elif kind != "no-function":
        said = f"rank {rank} of {world}: {said}"
    return [Verdict("runs", False, said)]


def _waiting(path: Path, stood: dict[int, int], limit: float) -> str:
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
        return f"no rank ended within {limit:g} s"
    places = "; ".join(
        f"rank {rank} in line {number}: {line!r}" for rank, (number, line) in sorted(at.items())
    )
    said = f"the ranks wait for each other, or did not end within {limit:g} s. {places}"
    calls = [line for _, line in at.values()]
    if all(re.search(r"\bsend\(", line) for line in calls):
        said += (
            ". All wait in send, which returns when the other side receives, and none gets to "
            "its recv: "
        )
        said += "begin with isend, then recv, then wait(); or let every second rank receive first"
    elif all(re.search(r"\brecv\(", line) for line in calls):
        said += ". All wait in recv and nobody sends: begin with isend, then recv, then wait()"
    else:
        said += (
            ". Some rank sends or receives more often than its neighbour: both phases take "
            "world - 1 steps in every rank"
        )
    return said


def _sum(outcomes: Sequence[RankOutcome]) -> str:
    """What is wrong with the sums of one number of ranks; empty where they are right."""
    if not outcomes or all(outcome.even < RIGHT for outcome in outcomes):
        return ""
    world = outcomes[0].world
    full = sum(BASE**rank for rank in range(world))
    where = f"with {world} ranks "
    if all(
        outcome.counted == [float(BASE**outcome.rank)] * len(outcome.counted)
        for outcome in outcomes
    ):
        return (
            f"{where}the tensor is as it was before: write into it, what the function returns "
            f"is not looked at"
        )
    if all(
        isclose(value, full / world, rel_tol=1e-9)
        for outcome in outcomes
        for value in outcome.counted
    ):
        return f"{where}the result is the average: an all-reduce adds, it does not divide by world"
    complete = {
        outcome.rank: [_whole(outcome, chunk, full) for chunk in range(world)]
        for outcome in outcomes
    }
    if all(sum(chunks) == 1 for chunks in complete.values()):
        have = ", ".join(
            f"rank {rank} chunk {chunks.index(True)}" for rank, chunks in complete.items()
        )
        return (
            f"{where}each rank has only one complete chunk ({have}): the reduce-scatter "
            f"is right and the all-gather is missing."
            " Send the complete chunks round the ring once more, world - 1 steps, "
            "replacing and not adding"
        )
    if not all(isfinite(value) for outcome in outcomes for value in outcome.counted):
        said = (
            "the result holds numbers that are not finite: torch.empty holds what was in the "
            "memory before"
        )
        return f"{where}{said}, so receive into it before you add it"
    for outcome in outcomes:
        for i, value in enumerate(outcome.counted):
            if value != full and value == int(value) and 0 <= value < BASE**world:
                return where + _miscounted(outcome.rank, i // PER_RANK, int(value), world)
    worst = max(outcomes, key=lambda outcome: outcome.even)
    return (
        f"{where}every rank is counted once but the numbers are in the wrong places (rank "
        f"{worst.rank}): a chunk went astray"
    )


def _whole(outcome: RankOutcome, chunk: int, full: int) -> bool:
    return all(
        value == full for value in outcome.counted[chunk * PER_RANK : (chunk + 1) * PER_RANK]
    )


def _miscounted(rank: int, chunk: int, value: int, world: int) -> str:
    times = [value // BASE**other % BASE for other in range(world)]
    odd = next(other for other, count in enumerate(times) if count != 1)
    how = "is missing" if times[odd] == 0 else f"is counted {times[odd]} times"
    return (
        f"chunk {chunk} of rank {rank} is wrong: what rank {odd} started from {how}. Look "
        f"at the chunk indices: in step s of the"
        " reduce-scatter a rank sends chunk (rank - s) and adds what arrives to chunk "
        "(rank - s - 1); in step s of the all-gather"
        " it sends chunk (rank + 1 - s) and replaces chunk (rank - s), all modulo world"
    )


def _uneven(outcomes: Sequence[RankOutcome]) -> Verdict:
    wrong = [
        outcome for outcome in outcomes if outcome.uneven is None or not outcome.uneven < RIGHT
    ]
    if not wrong:
        return Verdict("uneven", True, "also where the ranks do not divide the elements")
    size = 100 * wrong[0].world + 1
    why = next((f" ({outcome.said_uneven})" for outcome in wrong if outcome.said_uneven), "")
    remedy = (
        "cut with tensor_split(world), and receive into a tensor as long as the chunk that "
        "comes, not the one you send"
    )
    return Verdict(
        "uneven", False, f"wrong for {size} elements in {wrong[0].world} ranks{why}: {remedy}"
    )


def _ring(outcomes: Sequence[RankOutcome]) -> Verdict:
    for outcome in outcomes:
        steps = {(outcome.rank + 1) % outcome.world, (outcome.rank - 1) % outcome.world}
        if not set(outcome.receivers) <= steps:
            said = (
                f"rank {outcome.rank} of {outcome.world} sends to ranks {outcome.receivers}: "
                f"in a ring only to a neighbour"
            )
            return Verdict("ring", False, said)

    def due(outcome: RankOutcome) -> float:
        return float(network.cost("all-reduce", outcome.world).share) * outcome.message

    def share(outcome: RankOutcome) -> float:
        return outcome.sent / due(outcome)

    least, most = min(outcomes, key=share), max(outcomes, key=share)
    worst = least if share(least) < 0.95 else most
    wanted = int(due(worst))
    said = (
        f"a rank of {worst.world} sends {worst.sent} B for a message of {worst.message} B, "
        f"and 2(n - 1)/n of it is {wanted} B"
    )
    if share(worst) < 0.95:
        return Verdict(
            "ring", False, f"{said}: in a ring every rank sends a chunk in each of 2(n - 1) steps"
        )
    if share(worst) > 1.05:
        return Verdict("ring", False, f"{said}: send one chunk a step, not the whole tensor")
    return Verdict("ring", True, said)
