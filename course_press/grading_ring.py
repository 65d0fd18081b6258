"""Grades the learner's file of lab 01: an all-reduce from send and receive, in a few processes on this computer's CPU.

Rank r starts from 16^r, so that the digits of a result tell which ranks were counted in it, and how often: that is what tells
one mistake from another.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import isclose
from pathlib import Path

import msgspec

from course_lib import CourseError
from course_press.grading import Verdict
from course_press.grading_ring_run import BASE, PER_RANK, WORLDS, Outcome
from course_press.learner import environment, existing

LIMIT = 10.0
"""Seconds that the ranks may take together; right ones take about one."""
START = 60.0
"""Seconds for what is not the learner's: importing torch, on a busy computer."""
RIGHT = 1e-5
"""Relative error that fp32 sums in another order stay well below."""


def grade(path: Path, *, limit: float = LIMIT) -> list[Verdict]:
    """Grade a learner's `ring_all_reduce`.

    Parameters
    ----------
    path : the learner's file.
    limit : seconds after which ranks that wait for each other are ended.

    Returns
    -------
    One verdict a criterion: runs, ends, own, sum, uneven and ring. None that cannot be judged.

    Raises
    ------
    CourseError
        If there is no such file, or torch is not installed.

    Examples
    --------
    >>> grade(Path("nowhere.py"))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: path 'nowhere.py' is not a file: give the path of your ring_all_reduce.py
    """
    path = existing(path, "ring_all_reduce.py")
    with tempfile.TemporaryDirectory() as folder:
        log = _run(path, Path(folder), limit)
        outcomes = [msgspec.json.decode(file.read_bytes(), type=Outcome) for file in sorted(Path(folder).glob("*.json"))]
        stood = {file.stem: file.read_text(encoding="utf-8", errors="replace") for file in Path(folder).glob("*.log")}
        killed = {file.stem for file in Path(folder).glob("*.killed")}
    if not stood:
        raise CourseError(_not_started(log))
    if failed := _failed(outcomes):
        return [Verdict("runs", False, failed)]
    open_ = {name: text for name, text in stood.items() if name not in {f"{o.world}-{o.rank}" for o in outcomes}}
    runs = Verdict("runs", True, f"in {', '.join(sorted({name[0] for name in stood}, reverse=True))} ranks")
    if waiting := {name: text for name, text in open_.items() if "Timeout (" in text}:
        return [runs, Verdict("ends", False, _waiting(path, waiting, limit))]
    if gone := sorted(open_.keys() - killed):
        of, _, rank = gone[0].partition("-")
        said = "does the file call exit, or receive into a tensor that is too short or of another dtype?"
        return [Verdict("runs", False, f"rank {rank} of {of} ended without a result: {said}")]
    if lost := [outcome for outcome in outcomes if outcome.failure]:
        return [Verdict("runs", False, f"rank {lost[0].rank} of {lost[0].world} lost its neighbour: {lost[0].said}")]
    if open_:
        return [runs, Verdict("ends", False, f"no rank ended within {limit:g} s")]
    ready = sorted({name for outcome in outcomes for name in outcome.ready_made})
    said = f"it calls torch.distributed.{ready[0]}: use send, isend and recv only" if ready else "send and receive only"
    verdicts = [runs, Verdict("ends", True, "no rank waits forever"), Verdict("own", not ready, said)]
    for world in WORLDS:
        if wrong := _sum([outcome for outcome in outcomes if outcome.world == world]):
            return [*verdicts, Verdict("sum", False, wrong)]
    verdicts += [Verdict("sum", True, "what torch's own all-reduce gives"), _uneven(outcomes)]
    return verdicts if ready else [*verdicts, _ring(outcomes)]


def _run(path: Path, folder: Path, limit: float) -> str:
    """Run the file in its ranks; what they and their parent wrote to stderr."""
    command = [sys.executable, "-m", "course_press.grading_ring_run", str(path), str(folder), str(limit)]
    errors = folder / "stderr.txt"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            env={**environment(), "OMP_NUM_THREADS": "1"}, start_new_session=True,
        ) as process,
    ):  # fmt: skip
        try:
            process.wait(timeout=START + len(WORLDS) * limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # The ranks too: a file may have left processes of its own.
            with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
    return errors.read_text(encoding="utf-8", errors="replace")


def _not_started(log: str) -> str:
    if "No module named 'torch'" in log:
        return "grading lab 01 needs torch: make labs, or pip install -e '.[torch]'"
    last = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "nothing was printed")
    return f"the ranks could not be started ({last}): run it again, or on a computer that is less busy"


def _failed(outcomes: Sequence[Outcome]) -> str:
    """What is wrong with the file itself; empty if it runs. A rank that lost its neighbour is not the cause."""
    for outcome in outcomes:
        if outcome.failure == "not-implemented":
            return f"{outcome.said}: not implemented yet: your code goes here, and the stub's TODOs say what is needed"
        if outcome.failure == "no-function":
            return outcome.said
        if outcome.failure == "crash":
            return f"rank {outcome.rank} of {outcome.world}: {outcome.said}"
    return ""


def _waiting(path: Path, stood: dict[str, str], limit: float) -> str:
    """What the ranks that never ended were waiting in: each one's last line of the learner's file."""
    source = path.read_text(encoding="utf-8").splitlines()
    at = {}
    for name, text in stood.items():
        if found := re.search(rf'File "{re.escape(str(path))}", line (\d+)', text):
            number = int(found[1])
            at[int(name.partition("-")[2])] = (number, source[number - 1].strip() if number <= len(source) else "")
    if not at:
        return f"no rank ended within {limit:g} s"
    places = "; ".join(f"rank {rank} in line {number}: {line!r}" for rank, (number, line) in sorted(at.items()))
    said = f"the ranks wait for each other, {limit:g} s were not enough. {places}"
    calls = [line for _, line in at.values()]
    if all(re.search(r"\bsend\(", line) for line in calls):
        said += ". All wait in send, which returns when the other side receives, and none gets to its recv: "
        said += "begin with isend, then recv, then wait(); or let every second rank receive first"
    elif all(re.search(r"\brecv\(", line) for line in calls):
        said += ". All wait in recv and nobody sends: begin with isend, then recv, then wait()"
    else:
        said += ". Some rank sends or receives more often than its neighbour: both phases take world - 1 steps in every rank"
    return said


def _sum(outcomes: Sequence[Outcome]) -> str:
    """What is wrong with the sums of one number of ranks; empty where they are right."""
    if not outcomes or all(outcome.even < RIGHT for outcome in outcomes):
        return ""
    world = outcomes[0].world
    full = sum(BASE**rank for rank in range(world))
    where = f"with {world} ranks "
    if all(outcome.counted == [float(BASE**outcome.rank)] * len(outcome.counted) for outcome in outcomes):
        return f"{where}the tensor is as it was before: write into it, what the function returns is not looked at"
    if all(isclose(value, full / world, rel_tol=1e-9) for outcome in outcomes for value in outcome.counted):
        return f"{where}the result is the average: an all-reduce adds, it does not divide by world"
    complete = {outcome.rank: [_whole(outcome, chunk, full) for chunk in range(world)] for outcome in outcomes}
    if all(sum(chunks) == 1 for chunks in complete.values()):
        have = ", ".join(f"rank {rank} chunk {chunks.index(True)}" for rank, chunks in complete.items())
        return (
            f"{where}each rank has only one complete chunk ({have}): the reduce-scatter is right and the all-gather is missing."
            " Send the complete chunks round the ring once more, world - 1 steps, replacing and not adding"
        )
    for outcome in outcomes:
        for i, value in enumerate(outcome.counted):
            if value != full and value == int(value) and 0 <= value < BASE**world:
                return where + _miscounted(outcome.rank, i // PER_RANK, int(value), world)
    worst = max(outcomes, key=lambda outcome: outcome.even)
    return f"{where}every rank is counted once but the numbers are in the wrong places (rank {worst.rank}): a chunk went astray"


def _whole(outcome: Outcome, chunk: int, full: int) -> bool:
    return all(value == full for value in outcome.counted[chunk * PER_RANK : (chunk + 1) * PER_RANK])


def _miscounted(rank: int, chunk: int, value: int, world: int) -> str:
    times = [value // BASE**other % BASE for other in range(world)]
    odd = next(other for other, count in enumerate(times) if count != 1)
    how = "is missing" if times[odd] == 0 else f"is counted {times[odd]} times"
    return (
        f"chunk {chunk} of rank {rank} is wrong: what rank {odd} started from {how}. Look at the chunk indices: in step s of the"
        " reduce-scatter a rank sends chunk (rank - s) and adds what arrives to chunk (rank - s - 1); in step s of the all-gather"
        " it sends chunk (rank + 1 - s) and replaces chunk (rank - s), all modulo world"
    )


def _uneven(outcomes: Sequence[Outcome]) -> Verdict:
    wrong = [outcome for outcome in outcomes if outcome.uneven is None or not outcome.uneven < RIGHT]
    if not wrong:
        return Verdict("uneven", True, "also where the ranks do not divide the elements")
    size = 100 * wrong[0].world + 1
    why = next((f" ({outcome.said_uneven})" for outcome in wrong if outcome.said_uneven), "")
    remedy = "cut with tensor_split(world), and receive into a tensor as long as the chunk that comes, not the one you send"
    return Verdict("uneven", False, f"wrong for {size} elements in {wrong[0].world} ranks{why}: {remedy}")


def _ring(outcomes: Sequence[Outcome]) -> Verdict:
    for outcome in outcomes:
        steps = {(outcome.rank + 1) % outcome.world, (outcome.rank - 1) % outcome.world}
        if not set(outcome.receivers) <= steps:
            said = f"rank {outcome.rank} of {outcome.world} sends to ranks {outcome.receivers}: in a ring only to a neighbour"
            return Verdict("ring", False, said)
    most = max(outcomes, key=lambda outcome: outcome.sent * outcome.world / (outcome.world - 1) / outcome.message)
    wanted = 2 * (most.world - 1) * most.message // most.world
    said = f"a rank of {most.world} sends {most.sent} B for a message of {most.message} B, and 2(n - 1)/n of it is {wanted} B"
    if most.sent > 1.05 * wanted:
        return Verdict("ring", False, f"{said}: send one chunk a step, not the whole tensor")
    return Verdict("ring", True, said)
