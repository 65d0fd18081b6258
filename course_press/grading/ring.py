"""Grades lab 01: an all-reduce in a few processes, whose messages are carried and counted here.

Rank r starts from 16^r: the digits of a result tell which ranks were counted in it, how often, and
so one mistake from another.
"""

import re
import secrets
import select
import time
from collections.abc import Iterator, Sequence
from math import isclose, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from course_lib import network
from course_press.grading.lab import Finding, Lab, Session
from course_press.grading.learner import EndedError, Learner, Reply
from course_press.grading.verdict import Amount, Text, Value, Verdict, message

RIGHT = 1e-5  # relative error that fp32 sums in another order stay well below
# Numbers of ranks that are tried: in 4 most mistakes show, an odd number breaks tricks with pairs,
# 2 is the smallest ring.
WORLDS = (4, 3, 2)
# Rank r starts from BASE**r: the digits of the result tell how often each rank was counted.
BASE = 16
PER_RANK = 3
STUCK = 1.0  # seconds without a message after which ranks that all wait are waiting for each other
CALL = "ring_all_reduce(tensor)"
# The sentences of failures that only a ring has.
FAILURES = {
    "not-implemented": "not-implemented-ring",
    "unsupported": "unsupported-ring",
    "ready-made": "own-wrong",
    **{kind: kind for kind in ("not-contiguous", "no-such-rank", "other-size")},
}
MOST = 100  # times the message: a rank that sends more than that is ended
OPEN = 1000  # messages that may wait to be received, or be waited for, at one time


class RankOutcome(NamedTuple):
    """What came of one rank."""

    # Errors are the largest of sums of numbers that no rank knows, over the largest sum.
    world: int
    rank: int
    counted: list[float]  # by element, the result where rank r starts from BASE**r
    even: float  # error where the ranks divide the elements
    uneven: float | None  # and where they do not
    why_uneven: Text | None  # what stopped the rank there
    sent: int  # bytes, for the even message
    receivers: list[int]  # the ranks it sent to

    @property
    def message(self) -> int:
        """Bytes of the even message."""
        return 4000 * self.world


class StoppedError(Exception):
    """Ranks failed (by rank: the kind, and what it is), or wait (by rank: the line)."""

    world = 0

    def __init__(self, failed: dict[int, tuple[str, Text]], waiting: dict[int, int]) -> None:
        super().__init__()
        self.failed, self.waiting = failed, waiting


class RingReply(Reply):
    """What comes from a rank."""

    id: int = 0
    to: int = 0
    peer: int = -1
    bytes: int = 0
    dtype: str = ""
    of: int = 0
    line: int = 0


class _Rank:
    """One rank as the grader sees it."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.begin()

    def begin(self) -> None:
        # To it: from whom, under which number, of what, and the bytes.
        self.mail: list[tuple[int, int, str, bytes]] = []
        self.open: dict[int, RingReply] = {}  # what it has begun to receive
        self.done: dict[int, tuple[dict[str, Any], bytes]] = {}
        self.waits: dict[int, int] = {}  # by number, the line that it waits in
        self.sent, self.receivers = 0, set[int]()
        self.ended: int = 0
        self.result = b""
        self.unfit: dict[str, Value] = {}  # of what came last and did not fit


class Ring:
    """The ranks of one world, one process each."""

    def __init__(self, session: Session, world: int) -> None:
        self.ranks = [
            _Rank(session.start("ring", rank, rank=rank, world=world)) for rank in range(world)
        ]
        self.handed: list[bytes] = []
        self._until_done()

    def reduce(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What each rank makes of its operand."""
        self.handed = [operand.astype(np.float32).tobytes() for operand in operands]
        for rank, handed in zip(self.ranks, self.handed, strict=True):
            number = rank.ended
            rank.begin()
            rank.learner.tell({"id": number}, handed)
        self._until_done()
        whole = [rank.result[: len(rank.result) // 4 * 4] for rank in self.ranks]
        results = [np.frombuffer(one, np.float32).astype(np.float64) for one in whole]
        first = operands[0]
        return [one if len(one) == len(first) else first * np.nan for one in results]

    def errors(self, count: int) -> list[float]:
        """Each rank's largest error of a sum of random numbers, over the largest sum."""
        rng = np.random.default_rng(secrets.randbits(128))
        operands = [rng.standard_normal(count, np.float32) for _ in self.ranks]
        wanted = np.sum(operands, axis=0, dtype=np.float64)
        with np.errstate(all="ignore"):
            results = self.reduce(operands)
            return [float(np.abs(got - wanted).max() / np.abs(wanted).max()) for got in results]

    def _until_done(self) -> None:
        quiet = time.monotonic()
        end = max(rank.learner.end for rank in self.ranks)
        while left := [rank for rank in self.ranks if not rank.ended]:
            readable = select.select([rank.learner for rank in left], [], [], 0.1)[0]
            for learner in readable:
                quiet = time.monotonic()
                rank = next(rank for rank in left if rank.learner is learner)
                try:
                    reply, payload = learner.hear(RingReply)
                    self._take(self.ranks.index(rank), rank, reply, payload)
                except EndedError:
                    raise self._failed(rank, "gone", learner.gone()) from None
            now = time.monotonic()
            stuck = not readable and now - quiet > STUCK and all(rank.waits for rank in left)
            if stuck or now > end:
                waiting = {}
                for rank in left:
                    line = next(iter(rank.waits.values()), 0) or rank.learner.stands()
                    waiting[self.ranks.index(rank)] = line
                raise StoppedError({}, waiting)

    def _failed(self, rank: _Rank, kind: str, why: Text) -> StoppedError:
        return StoppedError({self.ranks.index(rank): (kind, why)}, {})

    def _take(self, number: int, rank: _Rank, reply: RingReply, payload: bytes) -> None:
        if reply.op == "failed":
            more: dict[str, Value] = {"other": reply.failure.what, **rank.unfit}
            why = reply.failure.message(CALL, FAILURES, **more)
            raise self._failed(rank, reply.failure.kind, why)
        if reply.op == "done":
            rank.ended, rank.result = reply.id, payload
        elif reply.op == "send" and 0 <= reply.to < len(self.ranks):
            rank.sent += len(payload)
            rank.receivers.add(reply.to)
            most = MOST * max(len(self.handed[0]) if self.handed else 0, 1000)
            if rank.sent > most or len(self.ranks[reply.to].mail) > OPEN:
                raise self._failed(rank, "crash", message("endless", most=MOST))
            self.ranks[reply.to].mail.append((number, reply.id, reply.dtype, payload))
            self._match(reply.to)
        elif reply.op == "receive" and len(rank.open) < OPEN:
            rank.open[reply.id] = reply
            self._match(number)
        elif reply.op == "wait":
            rank.waits[reply.of] = reply.line
            self._answer(rank)
        else:
            raise self._failed(rank, "gone", message("unasked"))

    def _match(self, number: int) -> None:
        """Give a rank what has come for it, in order."""
        rank = self.ranks[number]
        for id_, wanted in list(rank.open.items()):
            found = next((one for one in rank.mail if wanted.peer in (-1, one[0])), None)
            if found is None:
                continue
            rank.mail.remove(found)
            del rank.open[id_]
            sender, sent, dtype, payload = found
            rank.done[id_] = {"id": id_, "from": sender}, payload
            if len(payload) != wanted.bytes or dtype != wanted.dtype:
                rank.unfit = {"came": len(payload), "came_format": dtype, "sender": sender}
                rank.unfit |= {"holds": wanted.bytes, "holds_format": wanted.dtype}
                rank.done[id_] = {"id": id_, "unfit": True}, b""
            self._answer(rank)
            self.ranks[sender].done[sent] = {"id": sent}, b""
            self._answer(self.ranks[sender])

    def _answer(self, rank: _Rank) -> None:
        for number in [number for number in rank.waits if number in rank.done]:
            del rank.waits[number]
            rank.learner.tell(*rank.done.pop(number))


def _observed(session: Session, world: int) -> list[RankOutcome]:
    """What comes of each rank of a world."""
    session.clear()
    try:
        ring = Ring(session, world)
        starts = [np.full(PER_RANK * world, float(BASE**rank)) for rank in range(world)]
        counted, even = ring.reduce(starts), ring.errors(1000 * world)
    except StoppedError as stopped:
        stopped.world = world
        raise
    sent = [(rank.sent, sorted(rank.receivers)) for rank in ring.ranks]
    uneven: Sequence[float | None] = [None] * world
    whys: dict[int, Text] = {}
    if all(error < RIGHT for error in even):
        try:
            uneven = ring.errors(100 * world + 1)
        except StoppedError as stopped:
            whys = {rank: why for rank, (_, why) in stopped.failed.items()}
    return [
        RankOutcome(world, i, one.tolist(), even[i], uneven[i], whys.get(i), *sent[i])
        for i, one in enumerate(counted)
    ]


def _judged(worlds: Iterator[list[RankOutcome]], session: Session) -> Iterator[Finding]:
    outcomes: list[RankOutcome] = []
    try:
        for outcome in worlds:
            outcomes += outcome
    except StoppedError as stopped:
        yield from _stopped(stopped, session)
        return
    yield _runs(WORLDS[-1])
    yield "ends", None
    yield "own", None
    for world in WORLDS:
        if wrong := next(_sum([one for one in outcomes if one.world == world]), None):
            yield "sum", wrong
            return
    yield "sum", None
    yield "uneven", _uneven(outcomes)
    yield _ring(outcomes)


def _runs(world: int) -> Verdict:
    tried = [str(number) for number in WORLDS if number >= world]
    return Verdict("runs", True, message("runs-ranks", ranks=tried))


def _stopped(stopped: StoppedError, session: Session) -> Iterator[Finding]:
    """What is wrong with the file itself, or what its ranks wait for."""
    if not stopped.failed:
        yield _runs(stopped.world)
        yield "ends", _waiting(session.path, stopped.waiting, session.limit)
        return
    rank, (kind, why) = next(iter(stopped.failed.items()))
    if kind == "ready-made":
        yield _runs(stopped.world)
        yield "own", why
        return
    if kind not in ("not-implemented", "no-function"):
        key = "rank-ended" if kind == "gone" else "rank-failed"
        why = message(key, rank=rank, world=stopped.world, why=why)
    yield "runs", why


def _waiting(path: Path, stood: dict[int, int], limit: float) -> Text:
    """What the ranks that never ended were waiting in: each one's last line of the file."""
    source = path.read_text(encoding="utf-8").splitlines()
    at = {rank: line for rank, line in sorted(stood.items()) if 0 < line <= len(source)}
    if not at:
        return message("none-ended", limit=Amount(limit, "s"))
    lines = {rank: source[line - 1].strip() for rank, line in at.items()}
    places = [
        message("waits-in", rank=rank, line=str(at[rank]), code=repr(line))
        for rank, line in lines.items()
    ]
    calls = {"all-send": r"\bsend\(", "all-receive": r"\brecv\("}
    every = (k for k, call in calls.items() if all(re.search(call, x) for x in lines.values()))
    why = message(next(every, "unmatched"))
    return message("waiting", limit=Amount(limit, "s"), places=places, why=why)


def _sum(outcomes: Sequence[RankOutcome]) -> Iterator[Text]:
    """What is wrong with the sums of one number of ranks."""
    if all(outcome.even < RIGHT for outcome in outcomes):
        return
    world = outcomes[0].world
    full = sum(BASE**rank for rank in range(world))
    values = [value for outcome in outcomes for value in outcome.counted]
    if all(set(outcome.counted) <= {float(BASE**outcome.rank)} for outcome in outcomes):
        yield message("sum-unchanged", world=world)
    if all(isclose(value, full / world, rel_tol=1e-9) for value in values):
        yield message("sum-average", world=world)
    counts = np.reshape([outcome.counted for outcome in outcomes], (-1, world, PER_RANK))
    whole = (counts == full).all(axis=2)  # by rank and chunk
    if (whole.sum(axis=1) == 1).all():
        where = enumerate(whole.argmax(axis=1).tolist())
        have = [message("has-chunk", rank=rank, chunk=chunk) for rank, chunk in where]
        yield message("sum-scattered", world=world, have=have)
    if not all(map(isfinite, values)):
        yield message("sum-not-finite", world=world)
    for outcome in outcomes:
        for i, value in enumerate(outcome.counted):
            if value != full and value == int(value) and 0 <= value < BASE**world:
                times = [int(value) // BASE**other % BASE for other in range(world)]
                odd = next(other for other, count in enumerate(times) if count != 1)
                key = "sum-repeated" if times[odd] else "sum-left-out"
                about = {"world": world, "chunk": i // PER_RANK, "rank": outcome.rank}
                remedy = message("chunk-indices")
                yield message(key, **about, other=odd, times=times[odd], remedy=remedy)
    worst = max(outcomes, key=lambda outcome: outcome.even)
    yield message("sum-astray", world=world, rank=worst.rank)


def _uneven(outcomes: Sequence[RankOutcome]) -> Text | None:
    wrong = [one for one in outcomes if one.uneven is None or not one.uneven < RIGHT]
    if not wrong:
        return None
    world = wrong[0].world
    about: dict[str, Value] = {"size": 100 * world + 1, "world": world}
    about["remedy"] = message("uneven-remedy")
    if why := next((outcome.why_uneven for outcome in wrong if outcome.why_uneven), None):
        return message("uneven-wrong-why", **about, why=why)
    return message("uneven-wrong", **about)


def _ring(outcomes: Sequence[RankOutcome]) -> Verdict:
    for outcome in outcomes:
        steps = {(outcome.rank + 1) % outcome.world, (outcome.rank - 1) % outcome.world}
        if not set(outcome.receivers) <= steps:
            to = [str(rank) for rank in outcome.receivers]
            about: dict[str, Value] = {"rank": outcome.rank, "world": outcome.world}
            return Verdict("ring", False, message("ring-strangers", **about, receivers=to))

    def due(outcome: RankOutcome) -> float:
        return float(network.cost("all-reduce", outcome.world).share) * outcome.message

    def share(outcome: RankOutcome) -> float:
        return outcome.sent / due(outcome)

    least, most = min(outcomes, key=share), max(outcomes, key=share)
    worst = least if share(least) < 0.95 else most
    about = {"world": worst.world, "sent": worst.sent, "message": worst.message}
    sent = message("ring-sent", **about, wanted=int(due(worst)))
    if share(worst) < 0.95:
        return Verdict("ring", False, message("ring-too-little", sent=sent))
    if share(worst) > 1.05:
        return Verdict("ring", False, message("ring-too-much", sent=sent))
    return Verdict("ring", True, sent)


RING = Lab(
    name="ring",
    criteria=("runs", "ends", "own", "sum", "uneven", "ring"),
    scenarios=WORLDS,
    observe=_observed,
    judge=_judged,
    limit=10.0,  # right ones take about one
    needs={"torch": ("needs-torch", "broken-torch")},
    preload=("torch",),
    apart=max(WORLDS),
)
