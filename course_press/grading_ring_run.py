"""What grading lab 01 runs in a process of its own: a learner's all-reduce, in a few ranks on this computer's CPU.

`python -m course_press.grading_ring_run FILE FOLDER SECONDS`: FOLDER receives what each rank found as WORLD-RANK.json, or, from a
rank that did not end in SECONDS, where it stood as WORLD-RANK.log; WORLD-RANK.killed marks those that were ended.
"""

import faulthandler
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import msgspec

from course_press.learner import where

WORLDS = (4, 3, 2)
"""Numbers of ranks that are tried: in 4 most mistakes show, an odd number breaks tricks with pairs, 2 is the smallest ring."""
BASE = 16
"""Rank r starts from BASE**r everywhere: the digits of the result tell how often each rank was counted."""
PER_RANK = 3
POINT_TO_POINT = ("send", "isend")
GRACE = 2.0
"""Seconds that the other ranks have to end, once one has failed."""
WRITING = 0.3
"""Seconds for the last rank to finish saying where it stands."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank found.

    Attributes
    ----------
    failure : none, or one of not-implemented, no-function, crash, lost (its neighbour had ended).
    counted : by element, the result where rank r starts from ``BASE**r``.
    even, uneven : largest error against torch's own all-reduce, where the ranks divide the elements and where they do not.
    sent, message : byte that the rank sent for the even message, and byte of that message.
    receivers : the ranks it sent to.
    said_uneven : what was raised there.
    ready_made : collectives of torch that the file called.
    """

    world: int
    rank: int
    failure: str = ""
    said: str = ""
    counted: list[float] = []
    even: float = 0.0
    uneven: float | None = None
    said_uneven: str = ""
    sent: int = 0
    message: int = 0
    receivers: list[int] = []
    ready_made: list[str] = []


class _Watched:
    """Counts what a file sends, and notices ready-made collectives."""

    def __init__(self, dist: Any) -> None:
        self.sent, self.receivers, self.ready_made = 0, set[int](), set[str]()
        self.own_all_reduce = dist.all_reduce
        # Where the functions are looked up: by a learner's file, and by torch's own batch_isend_irecv.
        places = (dist, sys.modules["torch.distributed.distributed_c10d"])
        names = [name for name in vars(dist) if name.startswith(("all_", "reduce", "broadcast", "gather", "scatter"))]
        for name in (*POINT_TO_POINT, *names):
            function = getattr(dist, name)
            if callable(function) and not isinstance(function, type):
                wrapped = self._sending(function) if name in POINT_TO_POINT else self._noticed(name, function)
                for place in places:
                    setattr(place, name, wrapped)

    def _sending(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(tensor: Any, dst: int | None = None, *rest: Any, **named: Any) -> Any:
            to = dst if dst is not None else named.get("group_dst")
            self.sent += tensor.numel() * tensor.element_size()
            self.receivers |= {to} if to is not None else set()
            return function(tensor, dst, *rest, **named)

        return call

    def _noticed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self.ready_made.add(name)
            return function(*given, **named)

        return call


def one_rank(path: Path, folder: Path, seconds: float, rank: int, world: int) -> None:
    """Run the file in one rank, and write what came of it."""
    place = folder / f"{world}-{rank}"
    with place.with_suffix(".log").open("w") as log:
        # It goes on waiting: a rank that ended would make its neighbours fail before they say where they stand.
        faulthandler.dump_traceback_later(seconds, file=log)
        outcome = _attempt(path, folder, rank, world, seconds)
        faulthandler.cancel_dump_traceback_later()
    _save(folder, outcome)
    # Leaving torch properly would wait for a neighbour that failed.
    os._exit(1 if outcome.failure else 0)


def _save(folder: Path, outcome: Outcome) -> None:
    aside = folder / f"{outcome.world}-{outcome.rank}.part"
    aside.write_bytes(msgspec.json.encode(outcome))
    aside.replace(aside.with_suffix(".json"))


def _attempt(path: Path, folder: Path, rank: int, world: int, seconds: float) -> Outcome:
    import torch
    import torch.distributed as dist

    try:
        meeting = (folder / f"meet-{world}").as_uri()
        # Longer than the limit: the limit then says where the rank stood.
        patience = timedelta(seconds=seconds + 60)
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world, timeout=patience)
        watched = _Watched(dist)
        scope: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)  # noqa: S102
        learned = scope.get("ring_all_reduce")
        if not callable(learned):
            said = "the file defines no function ring_all_reduce(tensor): keep its name"
            return Outcome(world=world, rank=rank, failure="no-function", said=said)
        counted = torch.full((PER_RANK * world,), float(BASE**rank))
        learned(counted)
        watched.sent, watched.receivers = 0, set()
        even = _error(torch, learned, watched, 1000 * world, rank)
        sent, receivers = watched.sent, sorted(watched.receivers)
        found = Outcome(
            world=world, rank=rank, counted=counted.tolist(), even=even, sent=sent, message=4000 * world, receivers=receivers,
            ready_made=sorted(watched.ready_made),
        )  # fmt: skip
        if not even < 1e-5:
            return found
        # A receive that is too short may end the process: what was found so far must be safe.
        _save(folder, found)
        try:
            return msgspec.structs.replace(found, uneven=_error(torch, learned, watched, 100 * world + 1, rank))
        except Exception as error:  # noqa: BLE001
            return msgspec.structs.replace(found, said_uneven=_explain(error, path)[1])
    except (Exception, SystemExit) as error:  # noqa: BLE001
        kind, said = _explain(error, path)
        return Outcome(world=world, rank=rank, failure=kind, said=said)


def _error(torch: Any, learned: Callable[[Any], Any], watched: _Watched, count: int, rank: int) -> float:
    given = torch.randn(count, generator=torch.Generator().manual_seed(rank))
    wanted = given.clone()
    watched.own_all_reduce(wanted)
    learned(given)
    return float((given - wanted).abs().max() / wanted.abs().max())


def _explain(error: BaseException, path: Path) -> tuple[str, str]:
    at = f"{line}: " if (line := where(error, path)) else ""
    if isinstance(error, SyntaxError):
        return "crash", f"{at}{error.msg}"
    if isinstance(error, NotImplementedError):
        return "not-implemented", f"{at}NotImplementedError"
    lost = isinstance(error, RuntimeError) and any(
        word in str(error) for word in ("closed by peer", "reset by peer", "Broken pipe")
    )
    return "lost" if lost else "crash", f"{at}{type(error).__name__}: {error}"


def _stands(log: Path) -> bool:
    return log.is_file() and log.stat().st_size > 0


def main(file: str, folder: str, seconds: str) -> None:
    """Try each number of ranks, until one fails."""
    import torch  # noqa: F401  # once, before the ranks part: importing it takes longer than all they do

    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    path = Path(file)
    sys.path.insert(0, str(path.parent))
    for world in WORLDS:
        given = (path, Path(folder), float(seconds))
        ranks = [
            context.Process(target=one_rank, args=(*given, rank, world), name=f"{world}-{rank}", daemon=True)
            for rank in range(world)
        ]
        for process in ranks:
            process.start()
        running, end = {process.sentinel: process for process in ranks}, time.monotonic() + float(seconds) + GRACE
        while running and time.monotonic() < end:
            for sentinel in wait(list(running), timeout=0.1):
                process = running.pop(sentinel)
                if process.exitcode or not (Path(folder) / f"{process.name}.json").is_file():
                    end = min(end, time.monotonic() + GRACE)
            if running and all(_stands(Path(folder) / f"{process.name}.log") for process in running.values()):
                end = min(end, time.monotonic() + WRITING)
        for process in running.values():
            (Path(folder) / f"{process.name}.killed").touch()
            process.kill()
        if running or any(process.exitcode for process in ranks):
            break


if __name__ == "__main__":
    main(*sys.argv[1:])
