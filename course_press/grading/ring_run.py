"""Runs a learner's all-reduce in a few ranks, carries their messages, and counts them."""

import contextlib
import secrets
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from course_lib import CourseError
from course_press.grading.isolation import isolating
from course_press.grading.learner import EndedError, Failure, Learner, Warden
from course_press.grading.verdict import Said, Value, said

WORLDS = (4, 3, 2)
"""Numbers of ranks that are tried: in 4 most mistakes show, an odd number breaks tricks with pairs,
2 is the smallest ring.
"""
BASE = 16
"""Rank r starts from BASE**r: the digits of the result tell how often each rank was counted."""
PER_RANK = 3
STUCK = 1.0
"""Seconds without a message after which ranks that all wait are waiting for each other."""
CALL = "ring_all_reduce(tensor)"
FAILURES = {
    "not-implemented": "not-implemented-ring",
    "unsupported": "unsupported-ring",
    "ready-made": "own-wrong",
    "not-contiguous": "not-contiguous",
    "no-such-rank": "no-such-rank",
    "other-size": "other-size",
}
"""The sentences of failures that only a ring has."""
MOST = 100
"""Times the message: a rank that sends more than that is ended."""
OPEN = 1000
"""Messages that may wait to be received, or be waited for, at one time."""


class RankOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one rank.

    Attributes
    ----------
    counted : by element, the result where rank r starts from ``BASE**r``.
    even, uneven : largest error of a sum of numbers that no rank knows beforehand, where the ranks
        divide the elements and where they do not; over the largest sum.
    sent, message : byte that the rank sent for the even message, and byte of that message.
    receivers : the ranks it sent to.
    """

    world: int
    rank: int
    counted: list[float] = []
    even: float = 0.0
    uneven: float | None = None
    said_uneven: Said | None = None
    sent: int = 0
    message: int = 0
    receivers: list[int] = []


class StoppedError(Exception):
    """The ranks did not come to an end: one failed, or they wait."""

    def __init__(
        self,
        *,
        failed: dict[int, tuple[str, Said]] | None = None,
        waiting: dict[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.failed, self.waiting = failed or {}, waiting or {}
        """By rank: the kind of failure with what is said of it, and the line that it waits in."""


class Told(msgspec.Struct):
    """What comes from a rank."""

    op: str
    id: int = 0
    to: int = 0
    peer: int = -1
    bytes: int = 0
    dtype: str = ""
    of: int = 0
    line: int = 0
    failure: Failure = Failure()


class _Rank:
    """One rank as the grader sees it."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.begin()

    def begin(self) -> None:
        self.mail: list[
            tuple[int, int, str, bytes]
        ] = []  # to it: from whom, under which number, of what, and the bytes
        self.open: dict[int, Told] = {}  # what it has begun to receive
        self.done: dict[int, tuple[dict[str, Any], bytes]] = {}
        self.waits: dict[int, int] = {}  # by number, the line that it waits in
        self.sent, self.receivers = 0, set[int]()
        self.ended: int = 0
        self.result = b""
        self.unfit: Mapping[str, Value] = {}  # of what came last and did not fit


class Ring:
    """The ranks of one world, one process each."""

    def __init__(self, wardens: Sequence[Warden], path: Path, world: int, limit: float) -> None:
        self.ranks = [
            _Rank(wardens[rank % len(wardens)].start("ring", path, limit, rank=rank, world=world))
            for rank in range(world)
        ]
        self.limit = limit
        self.handed: list[bytes] = []
        self._until_done()

    def reduce(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Hand each rank its operand, and return what each makes of it.

        Raises
        ------
        StoppedError
            If a rank fails, or they wait for each other or longer than the limit.
        """
        self.handed = [operand.astype(np.float32).tobytes() for operand in operands]
        for rank, handed in zip(self.ranks, self.handed, strict=True):
            number = rank.ended
            rank.begin()
            rank.learner.tell({"id": number}, handed)
        self._until_done()
        results = [
            np.frombuffer(rank.result[: len(rank.result) // 4 * 4], np.float32)
            for rank in self.ranks
        ]
        return [
            one.astype(np.float64) if len(one) == len(operands[0]) else operands[0] * np.nan
            for one in results
        ]

    def _until_done(self) -> None:
        quiet = time.monotonic()
        end = max(rank.learner.end for rank in self.ranks)
        while left := [rank for rank in self.ranks if not rank.ended]:
            readable = select.select([rank.learner for rank in left], [], [], 0.1)[0]
            for learner in readable:
                quiet = time.monotonic()
                rank = next(rank for rank in left if rank.learner is learner)
                try:
                    told, payload = learner.hear(Told)
                    self._take(self.ranks.index(rank), rank, told, payload)
                except EndedError:
                    raise self._failed(rank, "gone", learner.gone()) from None
            now = time.monotonic()
            if not readable and now - quiet > STUCK and all(rank.waits for rank in left):
                raise StoppedError(waiting=self._lines(left))
            if now > end:
                raise StoppedError(waiting=self._lines(left))

    def _lines(self, left: Sequence[_Rank]) -> dict[int, int]:
        return {
            self.ranks.index(rank): next(iter(rank.waits.values()), 0) or rank.learner.stands()
            for rank in left
        }

    def _failed(self, rank: _Rank, kind: str, why: Said) -> StoppedError:
        return StoppedError(failed={self.ranks.index(rank): (kind, why)})

    def _take(self, number: int, rank: _Rank, told: Told, payload: bytes) -> None:
        if told.op == "failed":
            why = told.failure.said(CALL, FAILURES)
            more = {"other": told.failure.what, **rank.unfit}
            raise self._failed(rank, told.failure.kind, said(why.key, **why.values, **more))
        if told.op == "done":
            rank.ended, rank.result = told.id, payload
        elif told.op == "send" and 0 <= told.to < len(self.ranks):
            rank.sent += len(payload)
            rank.receivers.add(told.to)
            most = MOST * max(len(self.handed[0]) if self.handed else 0, 1000)
            if rank.sent > most or len(self.ranks[told.to].mail) > OPEN:
                raise self._failed(rank, "crash", said("endless", most=MOST))
            self.ranks[told.to].mail.append((number, told.id, told.dtype, payload))
            self._match(told.to)
        elif told.op == "receive" and len(rank.open) < OPEN:
            rank.open[told.id] = told
            self._match(number)
        elif told.op == "wait":
            rank.waits[told.of] = told.line
            self._answer(rank)
        else:
            raise self._failed(rank, "gone", said("unasked"))

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
            if len(payload) != wanted.bytes or dtype != wanted.dtype:
                rank.unfit = {
                    "came": len(payload),
                    "came_format": dtype,
                    "sender": sender,
                    "holds": wanted.bytes,
                    "holds_format": wanted.dtype,
                }
                rank.done[id_] = {"id": id_, "unfit": True}, b""
            else:
                rank.done[id_] = {"id": id_, "from": sender}, payload
            self._answer(rank)
            self.ranks[sender].done[sent] = {"id": sent}, b""
            self._answer(self.ranks[sender])

    def _answer(self, rank: _Rank) -> None:
        for number in [number for number in rank.waits if number in rank.done]:
            del rank.waits[number]
            rank.learner.tell(*rank.done.pop(number))


def run(
    path: Path, limit: float, warden: Warden | None = None
) -> tuple[list[RankOutcome], int, StoppedError | None]:
    """Try each number of ranks, until one fails: the outcomes, the last number, and what stopped
    it.

    Parameters
    ----------
    path : the learner's file.
    limit : s for each number of ranks.
    warden : one that has imported torch, which takes longer than the rest.

    Raises
    ------
    CourseError
        If torch is not installed.
    """
    found: list[RankOutcome] = []
    with contextlib.ExitStack() as stack:
        wardens = [warden] if warden else []
        if not warden:
            # In a cell of its own a rank shares no file with another one.
            wardens = [Warden(["torch"]) for _ in range(max(WORLDS) if isolating() else 1)]
            for one in wardens:  # all import at the same time
                stack.push(one)
            for one in wardens:
                one.__enter__()
        if why := wardens[0].missing.get("torch"):
            absent = "No module named 'torch'" in why
            raise CourseError(
                str(said("needs-torch") if absent else said("broken-torch", what=why))
            )
        for world in WORLDS:
            try:
                found += _world(wardens, path, world, limit)
            except StoppedError as stopped:
                return found, world, stopped
            finally:
                for one in wardens:
                    one.clear()
    return found, WORLDS[-1], None


def _world(wardens: Sequence[Warden], path: Path, world: int, limit: float) -> list[RankOutcome]:
    ring = Ring(wardens, path, world, limit)
    counted = ring.reduce([np.full(PER_RANK * world, float(BASE**rank)) for rank in range(world)])
    even = _errors(ring, 1000 * world)
    found = [
        RankOutcome(
            world=world,
            rank=number,
            counted=counted[number].tolist(),
            even=even[number],
            sent=rank.sent,
            message=4000 * world,
            receivers=sorted(rank.receivers),
        )
        for number, rank in enumerate(ring.ranks)
    ]
    if not all(error < 1e-5 for error in even):
        return found
    try:
        uneven = _errors(ring, 100 * world + 1)
    except StoppedError as stopped:
        whys = {rank: why for rank, (_, why) in stopped.failed.items()}
        return [msgspec.structs.replace(one, said_uneven=whys.get(one.rank)) for one in found]
    return [
        msgspec.structs.replace(one, uneven=error) for one, error in zip(found, uneven, strict=True)
    ]


def _errors(ring: Ring, count: int) -> list[float]:
    rng = np.random.default_rng(secrets.randbits(128))
    operands = [rng.standard_normal(count, np.float32) for _ in ring.ranks]
    wanted = np.sum(operands, axis=0, dtype=np.float64)
    with np.errstate(all="ignore"):
        return [
            float(np.abs(got - wanted).max() / np.abs(wanted).max())
            for got in ring.reduce(operands)
        ]
