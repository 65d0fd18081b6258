"""How long the users of a service wait, as one record."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from course_tools import serve
from course_tools.energy import EnergyUse
from course_tools.serve.fleet import Service
from course_book.answers import energies
from course_book.answers.record import Answer, Interval, Remedy, Term, fields, in_each_language, top
from course_book.answers.steps import narrower
from course_book.text import n, t

# Requests of which each change is simulated: the first ones.
_SIMULATED = 500


def measures(done: serve.Served, limits: Mapping[str, float]) -> dict[str, Any]:
    """What requests met, in SI units: percentiles of each latency that they have."""
    felt = [name for name in serve.LATENCIES if getattr(done, name).size]
    found: dict[str, Any] = {"requests": len(done.arrived), "makespan_s": done.makespan}
    found |= {f"{name}_s": done.percentiles(name) for name in felt}
    found |= fields(done, "tokens_per_s preemptions cache_used steps calibrated source")
    return {**found, "goodput_per_s": done.goodput(limits)} if limits else found


def served(
    done: serve.Served,
    limits: Mapping[str, float],
    formats: Mapping[str, str],
    ends: tuple[serve.Served, serve.Served] | None,
    then: tuple[Remedy, ...] = (),
    use: EnergyUse | None = None,
) -> Answer:
    """What was served; `ends` are the same at either end of the range of its steps,
    and `then` is what `changes` gave.
    """
    found = measures(done, limits)
    ranges: dict[str, dict[str, list[float]]] = {}
    for name in serve.LATENCIES if ends else ():
        if f"{name}_s" in found:
            both = [one.percentiles(name) for one in (ends or ())]
            ranges[name] = {share: [of[share] for of in both] for share in both[0]}
    first = ranges.get("ttft", {}).get("p50")
    found["joules_per_token"] = use and use.joules / float(np.sum(done.output))
    whole = float(np.mean(done.e2e))
    spans = {
        "queue": done.scheduled - done.arrived,
        "first step": done.first - done.scheduled,
        "decode": done.last - done.first,
    }
    means = {name: float(np.mean(of)) for name, of in spans.items()}
    return Answer(
        question="serve",
        answer=in_each_language(lambda: f"{_sentence(found)} {energies.in_words(use)}."),
        values=found,
        assumed={"formats": dict(formats)},
        because=tuple(Term(name, of, "s", of / whole) for name, of in means.items()),
        next=then,
        sources=(done.source,) if done.source else (),
        range=None if first is None else Interval(first[0], first[1], "s", done.evidence),
        energy=use,
        more={f"{name}_range_s": of for name, of in ranges.items()} | {"evidence": done.evidence},
    )


def _sentence(found: Mapping[str, Any]) -> str:
    of = {"requests": n(found["requests"]), "rate": n(found["tokens_per_s"])}
    for name in serve.LATENCIES:
        times = found.get(f"{name}_s", {})
        of |= {f"{name}{share}": n(time, "s") for share, time in times.items()}
    return t("say-served" if "tpot_s" in found else "say-served-one").format(**of)


def changes(
    came: serve.Requests, limits: Mapping[str, float], now: Service, again: Callable[..., Service]
) -> tuple[Remedy, ...]:
    """What would shorten the wait most, or where limits are missed keep them for most requests,
    each simulated anew; `again` makes the service with other options.
    """
    some = came.take(slice(max(_SIMULATED, 2 * came.users)))
    first = now.run(some)
    short = bool(limits) and first.goodput(limits) * first.makespan < len(some) - 0.5

    def worth(of: serve.Served) -> float:
        return of.goodput(limits) * of.makespan if short else 1 / float(np.mean(of.e2e))

    def gain(**change: Any) -> float:
        return worth(again(**change).run(some)) / max(worth(first), 1.0 if short else 0.0)

    how = now.engine
    chunk = how.max_num_batched_tokens // how.groups
    sizes = [("tp", 2 * how.tensor_parallel_size), ("replicas", 2 * now.replicas)]
    sizes += [("tokens", 2 * chunk), ("tokens", chunk // 2)]
    tried: list[tuple[str, dict[str, Any]]] = [(option, {option: to}) for option, to in sizes]
    return top([*tried, *narrower(now.formats)], gain, "kept" if short else "wait")


def planned(
    layouts: list[serve.ServingLayout],
    moved: Mapping[str, float],
    limits: Mapping[str, float],
    formats: Mapping[str, str],
    use: EnergyUse | None = None,
) -> Answer:
    """The cheapest layout; `moved` is what inputs do to its price, `use` what one replica takes."""
    best = layouts[0]
    tokens = float(np.sum(best.outcome.output))
    found = fields(best, "replicas usd_per_mtoken usd_per_hour") | {"rate_per_replica": best.rate}
    found["joules_per_token"] = use and use.joules / tokens

    def say() -> str:
        usd = {"usd": n(best.usd_per_hour), "tokens": n(best.usd_per_mtoken)}
        said = t("say-planned").format(chips=n(best.chips), **usd)
        return f"{said}; {energies.in_words(use, tokens)}."

    return Answer(
        question="serve",
        answer=in_each_language(say),
        values=found,
        assumed={"formats": dict(formats)},
        sources=(best.outcome.source,) if best.outcome.source else (),
        energy=use,
        more={
            "layout": fields(best, "tp ep replicas chips"),
            "sensitivity": {k: v if math.isfinite(v) else None for k, v in moved.items()},
            "others": [fields(one, "tp replicas usd_per_mtoken") for one in layouts[1:]],
            "replica": measures(best.outcome, limits),
        },
    )
