"""The form of a trace that needs the least work: no copies, no masks and no bookkeeping of integers
in memory, attention on latent vectors where that is less, and on chosen tokens alone.
"""

from dataclasses import replace
from typing import Any

from course_tools.counting.records import STEPS, Access, Operation, Trace
from course_tools.counting.rules import GATHERED, MOVES, SCATTERED, pairs

_COMPUTES = {"embedding", "scatter_add", "scatter_reduce", "index_add"}
# What a kernel before or after it may do on its way; rows of a table are looked up by one.
_MOVED = (MOVES | GATHERED | SCATTERED | {STEPS}) - _COMPUTES
# Arrays beyond which a copy of them is made, rather than each read where it lies.
_MANY = 2000
# Bytes; of the step's own formats no more than that fp32 is wider.
_WIDTHS = {"fp64": 8.0, "fp32": 4.0, "x": 3.0, "state": 3.0, "kv": 3.0, "w": 3.0}


def least(trace: Trace) -> Trace:
    """A trace as the operators that are left where each result is made once and read where it lies:
    no copies, and nothing that follows from no data or that nobody reads; products are always.
    """
    found, kept = _direct(trace)
    wanted = set(kept)
    live = []
    for one in reversed(found):
        if one.unit == "matrix" or any(each.storage in wanted for each in one.writes):
            live.append(one)
            wanted |= {each.storage for each in one.reads}
    return replace(trace, operations=tuple(reversed(live)), kept=kept)


def _direct(trace: Trace) -> tuple[list[Operation], dict[int, float]]:
    outer = trace.own.keys() | trace.cached | trace.given
    copies: dict[int, list[Access]] = {}  # by what was copied to
    held: dict[int, float] = {}  # how many elements a copy has
    made: set[int] = set()
    kept, found = dict(trace.kept), []

    def width(one: Access) -> float:
        return int(one.format) / 8 if one.format.isdigit() else _WIDTHS.get(one.format, 2.0)

    def direct(one: Access) -> list[Access]:
        if one.storage in copies:
            share = min(1.0, one.elements / held[one.storage]) if held[one.storage] else 1.0
            return [each.times(share) for each in copies[one.storage]]
        return [one]

    def chooses(one: Access) -> bool:
        """Whether integers, or what is true, are not themselves data."""
        inside = one.format.isdigit() and one.storage not in outer
        return inside and (one.storage in made or one.format != "8")

    every = (o for one in trace.operations for o in ([one] if one.instead is None else one.instead))
    for one in every:
        reads = [each for read in one.reads for each in direct(read)]
        if one.unit == "vector":
            reads = [each for each in reads if not chooses(each)]
        inner = [each for each in reads if each.storage not in outer]
        ends = any(each.storage in kept for each in one.writes)
        narrow = min(map(width, one.writes), default=0) < max(map(width, reads), default=0)
        grown = sum(each.elements for each in one.writes) / (sum(e.elements for e in reads) or 1.0)
        moves = one.name in _MOVED and not narrow
        if one.name == "where":  # a choice between two: whoever reads it would read both
            moves = moves and sum(each.elements > 1 for each in reads) < 2
        if ends:  # it is left there: whole, as nobody wrote it before
            moves = moves and bool(inner) and (grown <= 1.0 or one.name == STEPS)
        over = any(each.storage in made for each in one.writes)
        if one.unit == "vector" and (moves or not reads) and not over and len(reads) < _MANY:
            for each in inner if ends else ():
                size = each.elements * max(1.0, grown)
                kept[each.storage] = max(kept.get(each.storage, 0.0), size)
            for each in one.writes:
                if each.storage not in outer:
                    copies.setdefault(each.storage, []).extend(reads)
                    held[each.storage] = held.get(each.storage, 0.0) + each.elements
            continue
        for each in one.writes:
            copies.pop(each.storage, None)
            made.add(each.storage)
        found.append(replace(one, reads=tuple(reads)))
    return found, kept


def lessen(recorder: Any, query: Any, key: Any, value: Any, out: Any) -> None:
    """Say how the attention that a recorder noted last needs less work: on latent vectors where
    that is less than to expand them, and on the tokens that an indexer chooses.
    """
    module, every = recorder.modules[-1], recorder.operations
    done, new, seen = every[-1], query.shape[2], key.shape[2]
    config = getattr(module, "config", None)
    most = getattr(config, "index_topk", None) if hasattr(module, "indexer") else None
    met, share = pairs(new, seen, causal=True, window=most), 1.0
    if most is not None:
        flops = 2.0 * query.shape[0] * query.shape[1] * (query.shape[-1] + value.shape[-1]) * met
        share = min(1.0, new * most / seen)
        tokens = {recorder.storage(key), recorder.storage(value)}
        reads = tuple(one.times(share) if one.storage in tokens else one for one in done.reads)
        done = replace(done, flops=flops, reads=reads)
        every[-1] = replace(every[-1], instead=(done,))
    fetched = recorder.fetched.get("update", ())
    if getattr(module, "kv_lora_rank", None) is None or len(fetched) < 2:
        return
    expands = f"{recorder.path[-1]}.kv_b_proj"
    for i in range(len(every) - 1, recorder.starts[-1] - 1, -1):
        if every[i].where == expands:
            found = _absorbed(recorder, done, every[i], query, out, fetched, share, met)
            if sum(one.flops for one in found) < done.flops + every[i].flops:
                every[i] = replace(every[i], instead=found[:1])
                every[-1] = replace(every[-1], instead=found[1:])
            return


def _absorbed(
    recorder: Any,
    done: Operation,
    expands: Operation,
    query: Any,
    out: Any,
    fetched: tuple[Any, ...],
    share: float,
    met: float,
) -> tuple[Operation, ...]:
    """What `course_lib.workloads` has for latent attention of new tokens: queries go to the latent
    space, attend there to a share of what the cache gave, and their results come back.
    """
    batch, heads, new, width = query.shape
    rank, rope = (one.shape[-1] for one in fetched[:2])
    latents = tuple(recorder.access(one).times(share) for one in fetched[:2])
    nope, value, rows = width - rope, out.shape[-1], float(batch * heads * new)
    weights = next(one for one in expands.reads if one.storage in recorder.own)
    inside, result = (Access(recorder.fresh(), rows * rank, "x") for _ in range(2))

    def product(name: str, inner: int, outer: int, read: Access, write: Access) -> Operation:
        return replace(
            expands,
            name=name,
            flops=2 * rows * inner * outer,
            reads=(replace(weights, elements=float(heads * inner * outer)), read),
            writes=(write,),
            shape=(rows, float(inner), float(outer), float(heads)),
        )

    asked = recorder.access(query)
    attends = replace(
        done,
        flops=2 * batch * heads * (2 * rank + rope) * met,
        reads=(inside, replace(asked, elements=rows * rope), *latents),
        writes=(result,),
        shape=(*done.shape[:4], 1.0) if done.shape else None,
    )
    into = product("absorb_k", nope, rank, replace(asked, elements=rows * nope), inside)
    return into, attends, product("absorb_v", rank, value, result, recorder.access(out))


def index(recorder: Any, module: Any, first: int, out: Any) -> None:
    """Say how an indexer chooses tokens with less work than its code: its scores never leave the
    chip, and reach back from each token only.
    """
    every, (keys, *_) = recorder.operations, recorder.fetched.get("update_indexer", (out,))
    heads = getattr(module, "n_heads", None)
    products = [i for i in range(first, len(every)) if every[i].kind == "matmul"]
    apart = (i for i in products if all(e.storage not in recorder.own for e in every[i].reads))
    scores = next(apart, None)
    if scores is None or not isinstance(heads, int) or keys.dim() != 3 or out.dim() < 2:
        return
    (batch, new), (_, seen, width) = out.shape[:2], keys.shape
    one = replace(
        every[scores],
        name="indexer",
        kind="attention",
        arithmetic="attention",
        flops=2.0 * batch * heads * (width + 1) * pairs(new, seen, causal=True),
        shape=tuple(float(size) for size in (batch, new, seen, heads, 1)),
        writes=(),
    )
    for i in range(scores, len(every)):
        if every[i].where == recorder.path[-1]:
            every[i] = replace(every[i], instead=(one,) if i == scores else ())
