"""Has the engine serve requests as they come, and keeps when each got its tokens."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course_lib.bench.results import Row, append, read
from course_lib.core.checks import CourseError, count, shown
from course_tools.campaigns.serving.engine import VOCABULARY, SmallEngine
from course_tools.measured import serving

Admit = Callable[[list[int], int, int, int], int]


def admitted(
    prompts: list[int], running: int, max_num_seqs: int, max_num_batched_tokens: int
) -> int:
    """How many of those that wait join the next step: first come, first served, whole prompts, as
    long as there is a place and the step's budget of tokens lasts.

    Parameters
    ----------
    prompts : tokens of those that wait, in the order in which they came.
    running : sequences that decode: each has a place, and one token of the step.
    max_num_seqs, max_num_batched_tokens : the most sequences, and new tokens, of a step.

    Examples
    --------
    >>> admitted([100, 100, 100], 6, 8, 256), admitted([300, 10], 1, 8, 256)
    (2, 0)
    """
    left, joined = max_num_batched_tokens - running, 0
    for prompt in prompts[: max(max_num_seqs - running, 0)]:
        if prompt > left:
            break
        left, joined = left - prompt, joined + 1
    return joined


def replay(
    engine: SmallEngine,
    file: Path,
    requests: Sequence[tuple[float, int, int]],
    *,
    admit: Admit = admitted,
    rule: str = "own",
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = print,
) -> None:
    """Serve requests at the times at which they come, and append a row for each; one that the file
    holds already, with the same rule, is not served again.

    Parameters
    ----------
    engine : all of whose places are free.
    file : results.csv.
    requests : when each comes, s from the start, and the tokens of its prompt and of its output; in
        the order in which they come.
    admit : who joins the next step, as in `admitted`.
    rule : a name for `admit`, without blanks: another rule is another measurement.
    seed : of the prompts.
    clock, sleep : tell the time and wait.
    say : is told what was served.

    Raises
    ------
    CourseError
        If a request does not fit, or `admit` lets in more than there are or have room, or nobody
        where nothing runs.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     small = SmallEngine(max_num_seqs=1, max_num_batched_tokens=16, max_model_len=64)
    ...     replay(small, Path(folder, "results.csv"), [(0.0, 8, 2), (0.001, 8, 1)], say=print)
    2 requests served
    """
    requests = [
        (float(arrived), count("prompt", prompt), count("output", output))
        for arrived, prompt, output in requests
    ]
    if " " in rule or not rule:
        raise CourseError(f"rule must be a name without blanks (got {shown(rule)})")
    for number, (_, prompt, output) in enumerate(requests):
        if prompt > engine.max_num_batched_tokens or prompt + output > engine.max_model_len:
            raise CourseError(
                f"request {number} has {prompt} + {output} tokens, and the engine takes prompts of "
                f"{engine.max_num_batched_tokens} and sequences of {engine.max_model_len}: draw "
                f"shorter ones"
            )
    rows = [_row(engine, requests, number, rule) for number in range(len(requests))]
    kept = serving.replays(read(file))
    if any(one.same(rows) for one in kept):
        say(f"{len(requests)} requests were served already")
        return
    times = _served(engine, requests, admit, seed, clock, sleep)
    run = f"run={datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    for row, told in zip(rows, times, strict=True):
        append(file, serving.kept(row, run, *told))
    say(f"{len(requests)} requests served")


def _row(engine: SmallEngine, requests: Sequence[Any], number: int, rule: str) -> Row:
    arrived, prompt, output = requests[number]
    settings = (
        f"rule={rule} seqs={engine.max_num_seqs} tokens={engine.max_num_batched_tokens} "
        f"of={len(requests)} request={number} arrived={arrived:.6f}"
    )
    return engine.row("request", (prompt, output), settings)


def _served(
    engine: SmallEngine,
    requests: Sequence[Any],
    admit: Admit,
    seed: int,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> list[tuple[float, float, float]]:
    """When each was scheduled, and got its first and its last token, s."""
    if any(engine.lengths):
        raise CourseError("engine must be idle: free its places, or make a new one")
    most, budget = engine.max_num_seqs, engine.max_num_batched_tokens
    times = [[-1.0, -1.0, -1.0] for _ in requests]
    made = [0] * len(requests)
    come = 0  # requests that were admitted
    running: dict[int, int] = {}  # by place, which request
    tokens: dict[int, int] = {}  # by place, the token that came last
    begin = clock()
    while come < len(requests) or running:
        now = clock() - begin
        waiting = [one[1] for one in requests[come:] if one[0] <= now]
        joined = _asked(admit, waiting, len(running), most, budget)
        if not running and not joined:
            if waiting:
                raise CourseError(
                    f"admit let nobody in though nothing runs, and {len(waiting)} wait: the first "
                    f"must join"
                )
            sleep(max(requests[come][0] - now, 0.0))
            continue
        chunks: dict[int, list[int]] = {place: [tokens[place]] for place in running}
        places = (place for place in range(most) if place not in chunks)
        for number in range(come, come + joined):
            place = next(places)
            running[place] = number
            chunks[place] = _prompt(requests[number][1], seed + number)
            times[number][0] = now
        come += joined
        tokens |= engine.step(chunks)
        now = clock() - begin
        for place in chunks:
            number = running[place]
            made[number] += 1
            if made[number] == 1:
                times[number][1] = now
            if made[number] == requests[number][2]:
                times[number][2] = now
                engine.free(place)
                del running[place]
    return [(scheduled, first, last) for scheduled, first, last in times]


def _asked(admit: Admit, waiting: list[int], running: int, most: int, budget: int) -> int:
    if not waiting:
        return 0
    joined = admit(list(waiting), running, most, budget)
    room = min(len(waiting), most - running)
    if isinstance(joined, bool) or not isinstance(joined, int) or not 0 <= joined <= room:
        raise CourseError(
            f"admit must return how many of {len(waiting)} join, and {most - running} places are "
            f"free (got {shown(joined)})"
        )
    return joined


def _prompt(tokens: int, seed: int) -> list[int]:
    """Tokens that look random, the same for the same seed."""
    return [(7919 * (seed + 1) + 104729 * i) % VOCABULARY for i in range(tokens)]
