"""Replicas behind a router: `simulate` runs requests through them, event by event, and `plan` says
how many a service needs, of how many chips each, and what a million tokens cost.
"""

import itertools
import pickle
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import ceil, inf, log, sqrt
from typing import Any, Unpack

import numpy as np

from course_lib.core.checks import CourseError, count, known, positive, unfit
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, decoder
from course_lib.workloads.precision import FormatOptions, Formats, of_model
from course_lib.workloads.weights import cache_bytes, not_divisible
from course_tools.counting import Named
from course_tools.serve.batching import DONE, Replica, Sequence
from course_tools.serve.clock import StepTimeModel, step_times
from course_tools.serve.memory import pool
from course_tools.serve.queues import usd_per_mtoken
from course_tools.serve.requests import LATENCIES, LoggedStep, Requests, Served
from course_tools.serve.settings import EngineSettings, engine, spread

MOST = 10_000  # engines of one simulation: each request that comes looks at all of them
OFTEN = 100  # requests that come between two words on how many there were
# S that requests may come for: from here on a float holds no microsecond beside the time.
LONGEST = 1e10
# In turn; to whoever has fewest requests; or to the replica of the prompt's beginning.
ROUTERS = ("round-robin", "least-loaded", "prefix")


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """Replicas of a model behind a router: `service` makes one, with what `steps` of the model and
    of a `draft` take, and the `blocks` of each replica's cache.
    """

    model: Transformer
    engine: EngineSettings
    formats: Formats
    steps: StepTimeModel
    draft: StepTimeModel | None
    blocks: int
    replicas: int
    prefill_replicas: int
    transfer: float
    router: str
    more: int = 0  # blocks that each sequence takes however long it is

    def run(
        self,
        requests: Requests,
        log: list[LoggedStep] | None = None,
        say: Callable[[int], None] | None = None,
    ) -> Served:
        """Serve requests, and see when each got its tokens; a log gets the steps of one replica,
        and `say` is told from time to time how many requests have come.
        """
        if log is None and say is None:
            return _run_once(pickle.dumps((self, requests)))
        return self._simulate(requests, log, say or (lambda _: None))

    def ends(self, requests: Requests) -> tuple[Served, Served]:
        """The same requests at both ends of the range of times: four in five measurements of a
        percentile are expected between those of the two.
        """
        low, high = (
            replace(self, steps=steps, draft=draft).run(requests)
            for steps, draft in zip(
                self.steps.ends(), self.draft.ends() if self.draft else (None, None), strict=True
            )
        )
        return low, high

    def _simulate(
        self, requests: Requests, log: list[LoggedStep] | None, say: Callable[[int], None]
    ) -> Served:
        """`run`, whether or not the same was run before."""
        _check_lengths(self.model, self.engine, requests)
        if log is not None and self.replicas + self.prefill_replicas > 1:
            raise CourseError("log must be of one replica: make the service with replicas=1")
        pool, fleet = (
            [
                Replica(self.steps, self.engine, self.blocks, self.draft, self.more)
                for _ in range(many)
            ]
            for many in (self.prefill_replicas, self.replicas)
        )
        line = _line(requests, self.steps.first)
        if pool:
            first = _line(requests, self.steps.first)
            for one in first:
                one.output = 1
            _serve(first, pool, self.router, say)
            token = float(cache_bytes(self.model, self.formats)) / self.transfer
            line = _carry_caches(line, first, token)
        fleet[0].log = log
        placed = _serve(line, fleet, self.router, say, requests.users)
        return _outcome(requests, line, placed, [*fleet, *pool], self.steps)


@lru_cache(maxsize=256)
def _run_once(given: bytes) -> Served:
    """What a service makes of requests, kept: plans and other languages' pages ask for it again."""
    one, requests = pickle.loads(given)  # noqa: S301 - written by `Service.run`
    done: Served = one._simulate(requests, None, lambda _: None)
    for each in fields(done):
        if isinstance(array := getattr(done, each.name), np.ndarray):
            array.flags.writeable = False  # a reader's change would reach whoever asks next
    return done


def service(
    model: Transformer | str,
    chip: Accelerator | str,
    *,
    engine_of: EngineSettings | str = "vllm",
    ep: int | None = None,
    replicas: int = 1,
    router: str = "round-robin",
    prefill_replicas: int = 0,
    transfer: float | None = None,
    draft: Transformer | str | None = None,
    calibrated: bool = True,
    link: Any = None,
    **formats: Unpack[FormatOptions],
) -> Service:
    """A service, to be asked with one set of requests after another.

    Parameters
    ----------
    model, chip : a transformer that decodes and an accelerator, or their keys.
    engine_of : an engine, or the name of one.
    ep : chips over which a replica's experts are spread, a multiple of `tensor_parallel_size`: as
        the engine says where not given. So many chips work as one, with sequences to all of them.
    replicas : engines, each with `tensor_parallel_size` chips, or `ep`.
    router : one of `ROUTERS`.
    prefill_replicas : engines beside them that compute prompts only; the cache then travels to a
        replica that decodes. 0 leaves both to all.
    transfer : byte/s at which it travels, needed with `prefill_replicas`.
    draft : the model that guesses, where the engine speculates; guesses are free without one.
    calibrated : likely times; ``False`` takes every step at its lower bound.
    w, x, kv, compute : formats; where not given the engine's, those that the model's file declares,
        or bf16.
    link : what joins the chips of a replica, as in `llm.decode`.

    Examples
    --------
    >>> service("llama-3-70b", "h100-sxm", w="fp8").blocks > 100
    True
    """
    one, on = decoder(model, windows=True), accelerator(chip)
    how = spread(engine(engine_of).on(on), ep)
    fm = formats_of(one, on, how, **formats)
    apart = count("prefill_replicas", prefill_replicas, 0)
    if apart and transfer is None:
        raise CourseError(
            "transfer must be given with prefill_replicas: byte/s at which a cache travels"
        )
    if draft is not None and how.ep > 1:
        raise CourseError(f"draft must be None with ep {how.ep}: where it would run is not modeled")
    blocks, all_ = how.groups * cache_blocks(one, on, how, w=fm), how.together()

    def steps_of(model: Transformer) -> StepTimeModel:
        own = formats_of(model, on, how, **formats)
        return step_times(model, on, all_, calibrated=calibrated, w=own, link=link)

    return Service(
        model=one,
        engine=all_,
        formats=fm,
        blocks=blocks,
        steps=steps_of(one),
        draft=steps_of(decoder(draft))
        if draft is not None and how.num_speculative_tokens
        else None,
        replicas=_few(count("replicas", replicas) * (how.data_parallel_size // how.groups)),
        prefill_replicas=_few(apart, "prefill_replicas"),
        transfer=float(positive("transfer", transfer)) if transfer is not None else inf,
        router=known("router", router, ROUTERS),
        more=free_blocks(one, on, how, fm)[1],
    )


def simulate(
    model: Transformer | str, chip: Accelerator | str, requests: Requests, **how: Any
) -> Served:
    """Serve requests, from `synthetic_workload` or `read_requests`, and see when each got its
    tokens; model, chip and how as in `service`.

    Examples
    --------
    >>> from course_tools.serve import synthetic_workload
    >>> requests = synthetic_workload(4.0, 200, 512, 128)
    >>> done = simulate("llama-3-8b", "h100-sxm", requests)
    >>> done.percentiles("tpot")["p50"] < 0.02 < done.percentiles("e2e")["p50"]
    True
    """
    return service(model, chip, **how).run(requests)


def on_one_replica(
    requests: Requests, steps: StepTimeModel, engine_of: EngineSettings | str = "vllm"
) -> Served:
    """Serve requests on one replica with steps of one's own, from `linear_step_times` or
    `step_times`, and as much cache as they need.

    Examples
    --------
    >>> from course_tools.serve import linear_step_times, synthetic_workload
    >>> steps = linear_step_times(2e-3, 1e-4, 1e-6, 2048)
    >>> done = on_one_replica(synthetic_workload(4.0, 20, 100, 10), steps)
    >>> round(done.percentiles("ttft")["p50"], 3)
    0.012
    """
    how = engine(engine_of).on()
    longest = int(np.max(requests.prompt + requests.output))
    blocks = how.num_gpu_blocks or (how.max_num_seqs + 1) * (longest // how.block_size + 1)
    line, one = _line(requests, steps.first), Replica(steps, how, blocks)
    placed = _serve(line, [one], "round-robin", users=requests.users)
    return _outcome(requests, line, placed, [one], steps)


def cache_blocks(
    model: Transformer | str,
    chip: Accelerator | str,
    engine_of: EngineSettings | str = "vllm",
    **formats: Unpack[FormatOptions],
) -> int:
    """Blocks of the cache: as many as the engine says, or as its `pool` has room for.

    Examples
    --------
    >>> cache_blocks("llama-3-8b", "rtx-4090") == pool("llama-3-8b", "rtx-4090", "vllm").blocks
    True
    """
    one, on = decoder(model, windows=True), accelerator(chip)
    how = engine(engine_of)
    found, more = free_blocks(one, on, how, formats_of(one, on, how, **formats))
    if found <= more:
        raise CourseError(
            f"{one.key or one.name} leaves no room for a cache on {how.tensor_parallel_size} x "
            f"{on.key}: share it over more chips with tensor_parallel_size, take narrower weights, "
            f"or lower max_num_batched_tokens"
        )
    return found


def free_blocks(
    one: Transformer, on: Accelerator, how: EngineSettings, fm: Formats
) -> tuple[int, int]:
    """Blocks of a cache as `cache_blocks` has them, none where weights leave no room; and those
    that a sequence takes however long it is.
    """
    how, given = how.on(on), how.num_gpu_blocks
    if how.memory is None and on.memory is None:
        if given is not None:
            return given, 0
        raise CourseError(f"{on.key} has no published memory: give the engine num_gpu_blocks")
    all_ = pool(
        Named(one.key, one),
        on,
        how.name,
        tp=how.tensor_parallel_size,
        ep=how.ep,
        total=how.memory,
        utilization=how.gpu_memory_utilization,
        tokens=how.max_num_batched_tokens,
        sequences=how.max_num_seqs,
        w=fm,
    )
    many, more = all_.blocks_of(how.block_size)
    if given is None:
        return many, more
    # An engine may have been told to take all of the memory, and the weights are there first.
    block = how.block_size * all_.kept.token
    most = max(int((all_.total - all_.kept.weights) // block), 0)
    if given > most:
        wanted = f"be at most {most}, what {on.key} has room for beside the weights of {one.key}"
        remedy = "lower it, leave it out, or share the model over more chips"
        raise unfit("engine num_gpu_blocks", wanted, given, remedy)
    return given, more


def formats_of(
    one: Transformer, on: Accelerator, how: EngineSettings, **formats: Unpack[FormatOptions]
) -> Formats:
    """An engine's dtype is that of activations, and of weights that no file has narrower."""
    found = formats.copy()
    own = None if how.dtype == "auto" else how.dtype
    cache = None if how.kv_cache_dtype == "auto" else how.kv_cache_dtype
    if found.get("w") is None and (one.declared is None or one.declared.w == one.declared.x):
        found["w"] = own
    found["x"] = own if found.get("x") is None else found["x"]
    found["kv"] = found.get("kv") or cache
    return of_model(one, on, **found)


def _check_lengths(model: Transformer, how: EngineSettings, requests: Requests) -> None:
    """Raise where a request is longer than the model or the engine takes, or comes too late."""
    if (last := float(requests.arrived[-1])) > LONGEST:
        raise CourseError(
            f"requests must come within {LONGEST:g} s, beside which a float holds no microsecond "
            f"(got {last:g} s): raise the rate, or write arrival_time in s"
        )
    most, total = how.max_model_len or model.context, requests.prompt + requests.output
    if np.any(total > most):
        first = int(np.argmax(total > most))
        raise CourseError(
            f"request {first} has {total[first]} tokens, and {model.key or model.name} takes "
            f"{most}: shorten it, or raise max_model_len"
        )


def _line(requests: Requests, late: float) -> list[Sequence]:
    """Requests as they come to an engine, so much after they were sent."""
    names = ("prompt", "output", "group", "shared")
    columns = ((requests.arrived + late).tolist(), *(getattr(requests, x).tolist() for x in names))
    return [Sequence(number, *row) for number, row in enumerate(zip(*columns, strict=True))]


def _few(replicas: int, name: str = "replicas") -> int:
    if replicas > MOST:
        why = "each request that comes looks at all of them"
        raise unfit(name, f"be at most {MOST}", replicas, why)
    return replicas


def _serve(
    line: Many[Sequence],
    pool: list[Replica],
    router: str,
    say: Callable[[int], None] = lambda _: None,
    users: int = 0,
) -> dict[int, int]:
    """Run the requests that are not done, as they come; which replica took each."""
    turn, placed = itertools.count(), dict[int, int]()

    def choose(one: Sequence) -> int:
        if router == "least-loaded":
            return min(range(len(pool)), key=lambda i: pool[i].load)
        own = router == "prefix" and one.group >= 0
        return (one.group if own else next(turn)) % len(pool)

    for one in line[users:] if users else ():
        placed[one.number] = chosen = one.number % users % len(pool)
        pool[chosen].after.append(one)
    for one in line[:users] if users else line:
        if one.state == DONE:
            continue
        for each in pool:
            each.run(one.arrived)
        if len(placed) % OFTEN == 0:
            say(len(placed))
        placed[one.number] = chosen = choose(one)
        pool[chosen].offer(one)
    for each in pool:
        each.run()
    return placed


def _carry_caches(line: Many[Sequence], first: Many[Sequence], token: float) -> list[Sequence]:
    """The requests as they come to those that decode, with their caches, after the first token."""
    for one, done in zip(line, first, strict=True):
        one.scheduled, one.first, one.made, one.brought = done.scheduled, done.first, 1, one.prompt
        one.arrived, one.group = done.first + one.prompt * token, -1
        if one.output == 1:
            one.state, one.last = DONE, done.first
    return sorted(line, key=lambda one: one.arrived)


def _outcome(
    requests: Requests,
    line: Many[Sequence],
    placed: dict[int, int],
    fleet: list[Replica],
    steps: StepTimeModel,
) -> Served:
    ordered = sorted(line, key=lambda one: one.number)
    names = ("scheduled", "first", "last", "preempted")
    found = {name: np.array([getattr(one, name) for one in ordered]) for name in names}
    arrived = requests.arrived
    if requests.users:
        arrived = np.array([one.arrived for one in ordered]) - steps.first
    # At the ends of a range all tokens come so much sooner or later.
    late = (steps.wait - 1) * (found["first"] - arrived)
    found["first"], found["last"] = found["first"] + late, found["last"] + late
    return Served(
        arrived=arrived,
        prompt=requests.prompt,
        output=requests.output,
        replica=np.array([placed.get(one.number, -1) for one in ordered]),
        steps=sum(each.steps for each in fleet),
        cache_used=max(1 - each.cache.fewest / each.cache.blocks for each in fleet),
        calibrated=steps.calibrated,
        source=steps.source,
        evidence=steps.evidence,
        **found,
    )


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
    few, whole = workload(1.0), decoder(model, windows=True)
    longest, found = int(np.max(few.prompt + few.output)), []
    wide = engine(engine_of).ep if ep is None else count("ep", ep)
    for tp in tps:
        chips = max(tp, wide)
        if (chips > 1 and link is None) or (wide > 1 and wide % tp):
            continue
        settings = spread(engine(engine_of, tensor_parallel_size=tp), wide)
        asked = {name: how[name] for name in FormatOptions.__annotations__ if name in how}
        if not_divisible(whole, tp) or (whole.experts and whole.experts.count % wide):
            continue
        fm = formats_of(whole, on, settings, **asked)
        blocks, more = free_blocks(whole, on, settings, fm)
        if (blocks - more) * settings.block_size < longest:
            continue
        one = service(model, on, engine_of=settings, link=link if chips > 1 else None, **how)

        def kept(share: float, one: Service = one) -> bool:
            done = one.run(workload(share))
            return all(done.percentiles(name)[PERCENTILE] <= most for name, most in limits.items())

        # The highest rate that keeps the limits, of steps that no rate or limit moves. Who keeps
        # them at one keeps them at each that is far slower, which takes the longest to simulate.
        share, high = SLOWEST, FASTEST
        for halving in range(HALVINGS):
            middle = sqrt(share * high)
            sure = not halving and kept(sqrt(middle * high))
            share, high = (middle, high) if sure or kept(middle) else (share, middle)
        if share == SLOWEST and not kept(share):
            continue
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
