"""How many replicas a service needs, of how many chips each, and what a million tokens cost."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import Any

import numpy as np

from course_lib.core.checks import CourseError, count, known, positive
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, decoder
from course_tools.serve.fleet import Service, formats_of, free_blocks, service
from course_tools.serve.outcome import LATENCIES, Served
from course_tools.serve.queues import usd_per_mtoken
from course_tools.serve.requests import Requests
from course_tools.serve.settings import EngineSettings, engine, spread

PERCENTILE = "p99"  # of each latency, what must stay within its limit
# Requests a second between which a replica's rate is sought, and in how many steps.
SLOWEST, FASTEST, HALVINGS = 1 / 256, 1024.0, 14
# Requests at a rate, always the same ones: `lambda rate: synthetic_workload(rate, 1000, 512, 128)`.
Workload = Callable[[float], Requests]


@dataclass(frozen=True, slots=True, eq=False)
class ServingLayout:
    """A way to serve."""

    # tp, ep, replicas: chips that share a replica, those that its experts are spread over, and how
    # many replicas
    tp: int
    ep: int
    replicas: int
    # rate, outcome: requests a second that a replica serves within the limits at most, and how
    rate: float
    # tokens_per_s, usd_per_hour, usd_per_mtoken: tokens for all users, what all chips cost, and a
    # million tokens made
    tokens_per_s: float
    usd_per_hour: float
    usd_per_mtoken: float
    outcome: Served

    @property
    def chips(self) -> int:
        """Of all replicas."""
        return max(self.tp, self.ep) * self.replicas


def plan(
    model: Transformer | str,
    chip: Accelerator | str,
    workload: Workload,
    rate: float,
    slo: Mapping[str, float],
    *,
    usd_per_hour: float,
    tps: Iterable[int] = (1, 2, 4, 8),
    ep: int | None = None,
    engine_of: EngineSettings | str = "vllm",
    link: Any = None,
    **how: Any,
) -> list[ServingLayout]:
    """Layouts that keep the 99th percentile of each latency within its limit, the cheapest first:
    none where no layout keeps it even for one request at a time.

    A replica is filled until it just keeps the limits, by simulation of its share of the requests;
    then as many replicas are taken as the rate needs. So a higher rate, or a tighter limit, never
    needs fewer.

    Parameters
    ----------
    model, chip, engine_of, link, how : as in `service`; more than one chip needs a link.
    workload : requests at a rate, always the same ones.
    rate : requests a second of the whole service.
    slo : limits on `ttft`, `tpot` and `e2e`, s.
    usd_per_hour : of one chip.
    tps : counts of chips that may share a replica.
    ep : chips over which its experts are spread, as in `service`: `tps` that do not divide it are
        left out.

    Examples
    --------
    >>> from course_tools.serve import synthetic_workload
    >>> def chat(rate):
    ...     return synthetic_workload(rate, 200, 512, 128)
    >>> slo = {"ttft": 0.5, "tpot": 0.05}
    >>> few, many = (plan("llama-3-8b", "h100-sxm", chat, rate, slo, usd_per_hour=2.0, tps=[1])[0]
    ...     for rate in (5.0, 500.0))
    >>> few.replicas < many.replicas
    True
    """
    on, wanted = accelerator(chip), float(positive("rate", rate))
    price = float(positive("usd_per_hour", usd_per_hour))
    limits = {
        known("slo", name, LATENCIES): float(positive(f"slo {name}", limit))
        for name, limit in slo.items()
    }
    if not limits:
        raise CourseError("slo must limit ttft, tpot or e2e: {'ttft': 0.5, 'tpot': 0.05}")
    few = workload(1.0)
    longest, found = int(np.max(few.prompt + few.output)), []
    wide = engine(engine_of).ep if ep is None else count("ep", ep)
    for tp in tps:
        chips = max(tp, wide)
        if (chips > 1 and link is None) or (wide > 1 and wide % tp):
            continue
        settings = spread(engine(engine_of, tensor_parallel_size=tp), wide)
        asked = (how.get(name) for name in ("w", "x", "kv", "compute"))
        fm = formats_of(decoder(model), on, settings, *asked)
        if free_blocks(decoder(model), on, settings, fm) * settings.block_size < longest:
            continue
        one = service(model, on, engine_of=settings, link=link if chips > 1 else None, **how)

        def kept(share: float, one: Service = one) -> bool:
            done = one.run(workload(share))
            return all(done.percentiles(name)[PERCENTILE] <= most for name, most in limits.items())

        if not kept(SLOWEST):
            continue
        # The highest rate that keeps the limits, of steps that no rate or limit moves.
        share, high = SLOWEST, FASTEST
        for _ in range(HALVINGS):
            middle = sqrt(share * high)
            share, high = (middle, high) if kept(middle) else (share, middle)
        replicas, done = ceil(wanted / share), one.run(workload(share))
        made, cost = wanted * float(done.output.mean()), replicas * chips * price
        usd = float(usd_per_mtoken(cost, made))
        found.append(ServingLayout(tp, wide, replicas, share, made, cost, usd, done))
    return sorted(found, key=lambda one: (one.usd_per_hour, one.tp))


def sensitivity(cost: Callable[..., float], **inputs: float) -> dict[str, float]:
    """By how many per cent a cost, of inputs by their names, rises where one of them does by one:
    each is raised and lowered by a tenth.

    Examples
    --------
    >>> found = sensitivity(lambda rate, price: price / rate**2, rate=5.0, price=2.0)
    >>> {name: round(by, 6) for name, by in found.items()}
    {'rate': -2.0, 'price': 1.0}
    """
    found = {}
    for name, value in inputs.items():
        up, down = (cost(**inputs | {name: value * by}) for by in (1.1, 1 / 1.1))
        found[name] = log(up / down) / log(1.21)
    return found
