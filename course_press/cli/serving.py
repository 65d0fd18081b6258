"""The command `course serve`: how long the users of a service wait, and what it costs."""

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from course_lib import CourseError, specs
from course_lib.specs import Accelerator
from course_lib.specs.rental import quotes
from course_tools import serve
from course_tools.amounts import amount
from course_tools.counting import told as told_formats
from course_tools.serve.fleet import Service
from course_book import n, t
from course_book.answers import Answer, energies, services
from course_book.text import language
from course_press.cli import console
from course_press.cli.console import formats_in_words, progress, tell, tell_json, tell_table, told

app = typer.Typer()

_NAMES = {
    "rate": "srv-rate",
    "prompt": "srv-input-prompt",
    "output": "srv-input-output",
    "usd": "srv-input-price",
}


@console.command(app, "serve")
def serve_command(
    model: str,
    chip: str,
    arrivals: Path | None = None,
    rate: float | None = None,
    users: int | None = None,
    requests: int = 1000,
    prompt: int = 512,
    output: int = 128,
    spread: float = 0.5,
    burst: float = 1.0,
    seed: int = 0,
    engine: str = "vllm",
    tp: int | None = None,
    tokens: int | None = None,
    ep: int | None = None,
    link: str | None = None,
    replicas: int = 1,
    router: str = "round-robin",
    weights: str | None = None,
    cache: str | None = None,
    bounds: bool = False,
    slo: str | None = None,
    plan: bool = False,
    usd: float | None = None,
    as_json: console.AsJson = False,
) -> None:
    """How long do users wait? Simulates a service, or plans one.

    Example: `course serve llama-3-8b h100-sxm --rate 10 --slo ttft=0.5,tpot=0.05 --plan`
    """
    one, on = console.meant(model).sized, specs.chip(chip)
    settings = _engine(engine, tp, tokens)
    limits = _limits(slo)
    asked: dict[str, Any] = {"w": weights, "kv": cache, "calibrated": not bounds, "ep": ep}

    def again(tp: int | None = None, tokens: int | None = None, **other: Any) -> Service:
        own = _engine(settings, tp, tokens)
        joins = _joins(on, link, max(own.tensor_parallel_size, ep or own.ep))
        how = {{"weights": "w", "cache": "kv"}.get(key, key): to for key, to in other.items()}
        return serve.service(one, on, engine_of=own, link=joins, **asked | how)

    @functools.cache
    def drawn(at: float, prompt: float = prompt, output: float = output) -> serve.Requests:
        lengths = round(prompt), round(output)
        return serve.synthetic_workload(
            at, requests, *lengths, burst=burst, spread=spread, seed=seed
        )

    if sum(given is not None for given in (arrivals, rate, users)) != 1:
        raise CourseError("give the requests by --arrivals FILE, --rate or --users, one of them")
    if plan:
        if arrivals is not None or rate is None:
            raise CourseError("--plan needs --rate: it tries other rates, which a file has not")
        if not limits:
            raise CourseError("--plan needs --slo, as ttft=0.5,tpot=0.05")
        tps = (1, 2, 4, 8) if tp is None else (tp,)
        price = _price(on, usd)
        joins = _joins(on, link, max(*tps, ep or settings.ep), asked=False)

        def cheapest(tps: tuple[int, ...], **at: float) -> list[serve.ServingLayout]:
            def tried(share: float) -> serve.Requests:
                say(f"planning: {requests} requests, {share:.3g} a second")
                return drawn(share, at["prompt"], at["output"])

            allowed, usd_at = {name: at[name] for name in limits}, at["usd"]
            how = {"usd_per_hour": usd_at, "tps": tps, "engine_of": settings, **asked}
            return serve.plan(one, on, tried, at["rate"], allowed, link=joins, **how)

        def cost(**at: float) -> float:  # of the same layout
            found = cheapest((layouts[0].tp,), **at)
            return found[0].usd_per_mtoken if found else math.inf

        inputs = {"rate": rate, "prompt": prompt, "output": output, "usd": price, **limits}
        with progress("planning") as say:
            if not (layouts := cheapest(tps, **inputs)):
                raise CourseError(
                    "no layout keeps --slo, even one request at a time: allow more time, or take "
                    "a faster chip, narrower weights or more of them with --tp"
                )
            moved = serve.sensitivity(cost, **inputs)  # per cent of a token's price, by input
        made = again(layouts[0].tp)  # the cheapest
        formats = told_formats(made.formats, one.declared, on)
        joins = _joins(on, link, max(layouts[0].tp, layouts[0].ep))
        use = energies.of_requests(layouts[0].outcome, made, on, joins)
        if as_json:
            tell_json(services.planned(layouts, moved, limits, formats, use).as_json())
        else:
            _show_plan(layouts, moved, formats)
            tell(energies.in_words(use, float(layouts[0].outcome.output.sum())))
        return
    with progress("reading the requests") as say:
        if users is not None:
            came = serve.closed_workload(users, prompt, output, least=0.8, rounds=10, seed=seed)
        else:
            came = serve.read_requests(arrivals) if arrivals is not None else drawn(rate or 0.0)
        asked |= {"replicas": replicas, "router": router}
        made = again()
        done = made.run(came, say=lambda come: say(f"{come} of {len(came)} requests have come"))
        ends = made.ends(came) if done.calibrated else None
        then = services.changes(came, limits, made, again)
    joins = _joins(on, link, max(made.engine.tensor_parallel_size, ep or made.engine.ep))
    use = energies.of_requests(done, made, on, joins)
    formats = told_formats(made.formats, one.declared, on)
    answer = services.served(done, limits, formats, ends, then, use)
    if as_json:
        tell_json(answer.as_json())
    else:
        _show(done, limits, formats, answer)


def _engine(
    given: serve.EngineSettings | str, tp: int | None = None, tokens: int | None = None
) -> serve.EngineSettings:
    """An engine with what was said of it in place of its own."""
    said = {"tensor_parallel_size": tp, "max_num_batched_tokens": tokens}
    return serve.engine(given, **{name: to for name, to in said.items() if to is not None})


def _joins(on: Accelerator, link: str | None, chips: int, *, asked: bool = True) -> Any:
    """What joins the chips of a replica; nothing where it has one."""
    found = None if chips == 1 else link or on.usual_link(chips)
    if asked and chips > 1 and not found:
        raise CourseError(f"{on.key} has no link in its file: add one, or take --tp 1")
    return found


def _limits(given: str | None) -> dict[str, float]:
    found = {}
    for part in given.split(",") if given else ():
        name, _, value = part.partition("=")
        try:
            found[name.strip()] = amount(value, "s")
        except CourseError:
            said = f"--slo must be name=seconds, as ttft=0.5,tpot=0.05 (got {part!r})"
            raise CourseError(said) from None
    return found


def _price(on: Accelerator, usd: float | None) -> float:
    if usd is not None:
        return usd
    if recorded := quotes(on.key):
        return recorded[0].usd_per_hour
    raise CourseError(f"no price of {on.key} is recorded: pass --usd, for an hour of a chip")


def _show(done: serve.Served, limits: Any, formats: Mapping[str, str], answer: Answer) -> None:
    """What was served, and of each percentile the range that four measurements in five are in."""
    found = answer.values
    tell(formats_in_words(formats))
    of = {"requests": n(found["requests"]), "time": n(done.makespan, "s")}
    of |= {"rate": n(done.tokens_per_s), "preemptions": n(done.preemptions)}
    tell(told("served", share=n(done.cache_used, "%"), **of))
    rows: list[tuple[str, ...]] = []
    for name in serve.LATENCIES:
        if times := found.get(f"{name}_s"):
            rows.append((told(name), *(n(time, "s") for time in times.values())))
        if times := answer.more.get(f"{name}_range_s"):
            each = (f"{n(low, 's')} – {n(high, 's')}" for low, high in times.values())
            rows.append(("", *each))
    tell_table(("", *(f"p{share}" for share in serve.SHARES)), rows)
    if limits:
        share = found["goodput_per_s"] * done.makespan / found["requests"]
        tell(told("limits", share=n(share, "%")))
    tell(energies.in_words(answer.energy))
    said = told("expected") if done.calibrated else told("bounds")
    # Where a constant is from is told in English only, as the data has it; --json has it always.
    tell(f"{said}: {done.source}" if language() == "en" else said, style="dim")
    if done.evidence:
        tell(console.tested_in_words(done.evidence), style="dim")
    console.tell_next(answer.next, "then")


def _show_plan(layouts: list[Any], moved: dict[str, float], formats: Mapping[str, str]) -> None:
    tell(formats_in_words(formats))
    rows = []
    for one in layouts:
        spread = told("spread", ep=one.ep, tp=one.tp) if one.ep > 1 else str(one.tp)
        rows.append((spread, str(one.replicas), n(one.usd_per_hour), n(one.usd_per_mtoken)))
    tell_table(map(t, ("srv-gpus-each", "srv-replicas", "srv-usd-hour", "srv-usd")), rows)
    for name, by in moved.items():
        of = t(_NAMES[name]) if name in _NAMES else f"{t('srv-limit')} {name}"
        tell(told("sensitivity", name=of, by=n(by / 100, "%")), style="dim")
