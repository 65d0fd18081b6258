"""A loaded engine by averages: how long its steps take, how many users it bears within limits, and
how many chips a rate needs.

The functions keep to what `course_press.outputs.translate` can say in JavaScript: pages ask them
for every state that a reader chooses.
"""

from typing import Any, NamedTuple

import numpy as np

from course_lib.core import formulas
from course_tools.calibrate.kernels import overlapped

# The largest batch that is shown.
USERS = 1024
# Batches to which a prompt is added, and by which a sequence's share of a step is found.
SOME, MANY = 64, 256
# Steps before the one with a prompt: half of that which runs, and the one planned meanwhile.
WAITED = 1.5
# Hours: a twelfth of 365 days.
MONTH = 730
HALVINGS = 40


class StepCounts(NamedTuple):
    """The counts of tokens and of sequences at which times are held; straight lines between."""

    tokens: Any
    heads: Any


class StepTimes(NamedTuple):
    """A `serve.StepTimeModel` in so few numbers that a page can hold them.

    Attributes
    ----------
    tokens, heads : s that all but attention and the head take, and the head, at `StepCounts`.
    rest : s that each step takes beside these.
    pair, sequence, token : s of attention for each pair of tokens, new token and token in a cache.
    order : how well attention's arithmetic hides its traffic.
    room : tokens that the cache has room for.
    admits : sequences that the engine decodes at once on the chip.
    """

    tokens: Any
    heads: Any
    rest: Any
    pair: Any
    sequence: Any
    token: Any
    order: Any
    room: Any
    admits: Any


class Load(NamedTuple):
    """What requests do to a replica.

    Attributes
    ----------
    fixed, each, adds : s of a step whatever the batch, more of each sequence, and of a prompt.
    most : requests a second that no batch passes.
    output : tokens of an answer.
    places : sequences that can be in decode: those that the engine admits, or fewer where memory
        is full.
    admits : as `StepTimes` has it.
    """

    fixed: Any
    each: Any
    adds: Any
    most: Any
    output: Any
    places: Any
    admits: Any


def step_time(of: Any, counts: Any, decoding: Any, chunk: Any, seen: Any) -> Any:
    """Expected s of a step: sequences in decode, tokens of a prompt, tokens in view of each."""
    cached = decoding * seen
    attention = overlapped(
        of.pair * (cached + chunk * (chunk + 1) / 2),
        of.sequence * (decoding + chunk) + of.token * (cached + chunk),
        of.order,
    )
    dense = formulas.between(counts.tokens, of.tokens, decoding + chunk)
    head = formulas.between(counts.heads, of.heads, decoding + np.minimum(chunk, 1))
    return dense + head + of.rest + attention


def crowd(
    of: Any, counts: Any, batch: Any, chunk: Any, seen: Any, limit: Any, line: Any
) -> dict[str, Any]:
    """A step of a batch under a limit in s, and the largest batches that keep it and that fit."""
    allowed, beyond = 0, USERS + 1
    while beyond - allowed > 1:
        middle = (allowed + beyond) // 2
        if step_time(of, counts, middle, chunk, seen) <= limit:
            allowed = middle
        else:
            beyond = middle
    most = np.floor(of.room / seen)
    end = most if most >= 1 and most < USERS else np.nan
    turn = allowed if allowed >= 1 and allowed < USERS else np.nan
    time = step_time(of, counts, batch, chunk, seen)
    reach = step_time(of, counts, line, chunk, seen)
    last = step_time(of, counts, end, chunk, seen) if end >= 1 else np.nan
    ended = 0 if most >= 1 and allowed <= most else 1
    return {
        "batch": batch,
        "time": time,
        "all": formulas.throughput(batch, time),
        "each": 1 / time,
        "wanted": 1 / limit,
        "within": 1 if time <= limit else 0,
        "fits": 1 if batch <= most else 0,
        "allowed": allowed,
        "most": most,
        "binds": np.nan if allowed >= USERS and most >= USERS else ended,
        "turn": turn,
        "turn_rate": 1 / step_time(of, counts, turn, chunk, seen) if turn >= 1 else np.nan,
        "end": end,
        "end_all": formulas.throughput(end, last),
        "end_each": 1 / last,
        "line": line,
        "all_in": formulas.throughput(line, reach) if line <= most else np.nan,
        "all_out": np.nan if line <= most else formulas.throughput(line, reach),
        "each_in": 1 / reach if line <= most else np.nan,
        "each_out": np.nan if line <= most else 1 / reach,
    }


def load(of: Any, counts: Any, prompt: Any, output: Any) -> Load:
    """What requests of so many tokens do to a replica, on average."""
    seen = prompt + output / 2
    one = step_time(of, counts, 1, 0, seen)
    each = (step_time(of, counts, MANY, 0, seen) - one) / (MANY - 1)
    some = step_time(of, counts, SOME, 0, seen)
    adds = step_time(of, counts, SOME, prompt, seen) - some
    return Load(
        fixed=one - each,
        each=each,
        adds=adds,
        most=formulas.ceiling(adds, output, each),
        output=output,
        places=np.minimum(of.admits, np.floor(of.room / seen)),
        admits=of.admits,
    )


def _tpot(of: Any, rate: Any) -> Any:
    """Seconds of an output token at a rate."""
    return formulas.loaded(of.fixed, rate / of.most)


def _users(of: Any, rate: Any) -> Any:
    """Sequences in decode at a rate: Little's law."""
    return rate * of.output * _tpot(of, rate)


def _first(of: Any, rate: Any) -> Any:
    """Seconds to the first token where nobody stands in line: its step, and those before it."""
    return WAITED * _tpot(of, rate) + of.fixed + of.each * _users(of, rate) + of.adds


def _strains(of: Any, rate: Any, first: Any, tpot: Any) -> list[Any]:
    """How much of each limit a rate takes up."""
    return [
        _tpot(of, rate) / tpot,
        _first(of, rate) / first,
        _users(of, rate) / np.maximum(of.places, 1),
    ]


def fleet(
    of: Any, first: Any, tpot: Any, share: Any, rate: Any, gpus: Any, price: Any, line: Any
) -> dict[str, Any]:
    """Replicas that bear a rate, each filled up to a share of what limits in s allow averages."""
    kept, beyond = 0.0, of.most
    for _i in range(HALVINGS):
        middle = (kept + beyond) / 2
        if max(_strains(of, middle, first, tpot)) <= 1:
            kept = middle
        else:
            beyond = middle
    none = kept <= 0 or of.places < 1
    strains = _strains(of, kept, first, tpot)
    tight = max(strains)
    full = 3 if of.places < of.admits else 2
    limit = 0 if strains[0] >= tight else 1 if strains[1] >= tight else full
    replicas = np.inf if none else np.ceil(rate / (share * kept))
    own = np.nan if none else rate / replicas
    cost = np.inf if none else replicas * gpus * price
    return {
        "most": of.most,
        "kept": 0.0 if none else kept,
        "binds": 4 if of.places < 1 else limit,
        "rate": np.nan if none else share * kept,
        "replicas": replicas,
        "gpus": replicas * gpus,
        "load": own,
        "used": own / of.most,
        "tpot": _tpot(of, own),
        "first": _first(of, own),
        "users": _users(of, own),
        "usd": formulas.dollars(cost, rate * of.output),
        "month": cost * MONTH / 1000,
        "wanted": tpot,
        "turn_tpot": np.nan if none else _tpot(of, kept),
        "line_rate": line * of.most,
        "line_tpot": _tpot(of, line * of.most),
    }
