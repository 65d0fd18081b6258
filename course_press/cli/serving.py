"""The command `course serve`: how long the users of a service wait, and what it costs."""

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from course_lib import CourseError, specs
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.rental import quotes
from course_tools import serve
from course_tools.counting import named
from course_tools.counting import told as told_formats
from course_book import n, t
from course_book.text import language
from course_press.cli.console import (
    columns,
    formats_in_words,
    out_console,
    progress,
    tell,
    tell_json,
    told,
)

app = typer.Typer()

_NAMES = {
    "rate": "srv-rate",
    "prompt": "srv-input-prompt",
    "output": "srv-input-output",
    "usd": "srv-input-price",
}


@app.command("serve")
def serve_command(
    model: Annotated[
        str, typer.Argument(help="Key of a model, a config.json, or - for one on standard input.")
    ],
    chip: Annotated[str, typer.Argument(help="Key of a chip; course chips lists them.")],
    arrivals: Annotated[
        Path | None,
        typer.Option(
            help="Requests to replay: a JSON object a line, arrival_time in s, "
            "input_toks, output_toks."
        ),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second, at random.")] = None,
    users: Annotated[
        int | None,
        typer.Option(help="In place of a rate, users who each ask again when they are answered."),
    ] = None,
    requests: Annotated[int, typer.Option(help="How many, with --rate.")] = 1000,
    prompt: Annotated[int, typer.Option(help="Mean tokens of a prompt, with --rate.")] = 512,
    output: Annotated[int, typer.Option(help="Mean tokens of an answer, with --rate.")] = 128,
    spread: Annotated[
        float, typer.Option(help="Standard deviation over mean of these; 0 for all the same.")
    ] = 0.5,
    burst: Annotated[
        float, typer.Option(help="The same of the time between requests; 1 is a Poisson process.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    engine: Annotated[
        str, typer.Option(help="Name of an engine, or a .json file with its settings.")
    ] = "vllm",
    tp: Annotated[
        int | None, typer.Option(help="Chips that share the model; the engine's setting, or 1.")
    ] = None,
    ep: Annotated[
        int | None,
        typer.Option(help="Chips that a mixture's experts are spread over, a multiple of --tp."),
    ] = None,
    link: Annotated[
        str | None, typer.Option(help="Link between them, by its name; the chip's first.")
    ] = None,
    replicas: Annotated[int, typer.Option(help="Engines behind a router.")] = 1,
    router: Annotated[
        str, typer.Option(help="round-robin, least-loaded or prefix.")
    ] = "round-robin",
    weights: Annotated[
        str | None,
        typer.Option(help="Format of the weights; as the config.json declares, or the engine's."),
    ] = None,
    cache: Annotated[str | None, typer.Option(help="Format of keys and values.")] = None,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Each step at its lower bound, not its likely time.")
    ] = False,
    slo: Annotated[str | None, typer.Option(help="Limits in s: ttft=0.5,tpot=0.05,e2e=20.")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Find the cheapest layout that keeps --slo.")
    ] = False,
    usd: Annotated[
        float | None, typer.Option(help="USD for an hour of a chip; the recorded price.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="In SI units, as JSON.")] = False,
) -> None:
    """Simulate a service: times to tokens, throughput, preemptions; or plan one.

    Example: `course serve llama-3-8b h100-sxm --rate 10 --slo ttft=0.5,tpot=0.05 --plan`
    """
    one, on = _described(model), specs.chip(chip)
    settings = serve.engine(engine, **({} if tp is None else {"tensor_parallel_size": tp}))
    limits = _limits(slo)
    asked: dict[str, Any] = {"w": weights, "kv": cache, "calibrated": not bounds}

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

        def cheapest(**at: float) -> list[serve.ServingLayout]:
            def tried(share: float) -> serve.Requests:
                say(f"planning: {requests} requests, {share:.3g} a second")
                return drawn(share, at["prompt"], at["output"])

            return serve.plan(
                one,
                on,
                tried,
                at["rate"],
                {name: at[name] for name in limits},
                usd_per_hour=at["usd"],
                tps=tps,
                ep=ep,
                engine_of=settings,
                link=joins,
                **asked,
            )

        inputs = {"rate": rate, "prompt": prompt, "output": output, "usd": price, **limits}

        def formats(best: serve.ServingLayout) -> dict[str, str]:
            each = serve.engine(engine, tensor_parallel_size=best.tp)
            joined = joins if max(best.tp, best.ep) > 1 else None
            made = serve.service(one, on, engine_of=each, ep=ep, link=joined, **asked)
            return told_formats(made.formats, one.declared, on)

        with progress("planning") as say:
            planned = _planned(cheapest, inputs)
        _show_plan(*planned, limits, as_json, formats(planned[0][0]))
        return
    joins = _joins(on, link, max(settings.tensor_parallel_size, ep or settings.ep))
    with progress("reading the requests") as say:
        if users is not None:
            came = serve.closed_workload(users, prompt, output, least=0.8, rounds=10, seed=seed)
        else:
            came = serve.read_requests(arrivals) if arrivals is not None else drawn(rate or 0.0)
        asked |= {"ep": ep, "replicas": replicas, "router": router}
        made = serve.service(one, on, engine_of=settings, link=joins, **asked)
        done = made.run(came, say=lambda come: say(f"{come} of {len(came)} requests have come"))
        ends = made.ends(came) if done.calibrated else None
    _show(done, limits, as_json, told_formats(made.formats, one.declared, on), ends)


def _described(given: str) -> Transformer:
    found = named(given, sys.stdin.read() if given == "-" else None)
    if not isinstance(found.model, Transformer):
        raise CourseError(
            f"model {given!r} is none whose steps are known by its sizes: course predict can trace "
            f"it, but a service has too many steps to trace"
        )
    return found.model


def _joins(on: Accelerator, link: str | None, chips: int, *, asked: bool = True) -> Any:
    """What joins the chips of a replica; nothing where it has one."""
    if chips == 1:
        return None
    if link is not None:
        return link
    if not on.joins:
        if asked:
            raise CourseError(f"{on.key} has no link in its file: add one, or take --tp 1")
        return None
    return next(iter(on.joins))


def _limits(given: str | None) -> dict[str, float]:
    found = {}
    for part in (given or "").split(",") if given else []:
        name, _, value = part.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise CourseError(
                f"--slo must be name=seconds, as ttft=0.5,tpot=0.05 (got {part!r})"
            ) from None
    return found


def _price(on: Accelerator, usd: float | None) -> float:
    if usd is not None:
        return usd
    known_prices = quotes(on.key)
    if not known_prices:
        raise CourseError(f"no price of {on.key} is recorded: pass --usd, for an hour of a chip")
    return known_prices[0].usd_per_hour


def _record(done: serve.Served, limits: Mapping[str, float]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "requests": len(done.arrived),
        "makespan_s": done.makespan,
        **{f"{name}_s": done.percentiles(name) for name in serve.LATENCIES if _any(done, name)},
        "tokens_per_s": done.tokens_per_s,
        "preemptions": done.preemptions,
        "cache_used": done.cache_used,
        "steps": done.steps,
        "calibrated": done.calibrated,
        "source": done.source,
    }
    return {**found, "goodput_per_s": done.goodput(limits)} if limits else found


def _any(done: serve.Served, name: str) -> bool:
    return bool(getattr(done, name).size)


def _show(
    done: serve.Served,
    limits: Mapping[str, float],
    as_json: bool,
    formats: Mapping[str, str],
    ends: tuple[serve.Served, serve.Served] | None,
) -> None:
    """What was served, and of each percentile the range that four measurements in five are in."""
    found = _record(done, limits)
    ranges: dict[str, dict[str, list[float]]] = {}
    for name in serve.LATENCIES if ends else ():
        if f"{name}_s" in found:
            both = [one.percentiles(name) for one in (ends or ())]
            ranges[name] = {share: [of[share] for of in both] for share in both[0]}
    found |= {f"{name}_range_s": of for name, of in ranges.items()}
    if as_json:
        tell_json({**found, "assumed": {"formats": formats}})
        return
    tell(formats_in_words(formats))
    of = {"requests": n(found["requests"]), "time": n(done.makespan, "s")}
    of |= {"rate": n(done.tokens_per_s), "preemptions": n(done.preemptions)}
    tell(told("served", share=n(done.cache_used, "%"), **of))
    table = columns("", *(f"p{share}" for share in serve.SHARES))
    for name in serve.LATENCIES:
        if f"{name}_s" in found:
            table.add_row(told(name), *(n(time, "s") for time in found[f"{name}_s"].values()))
        if name in ranges:
            each = (f"{n(low, 's')} – {n(high, 's')}" for low, high in ranges[name].values())
            table.add_row("", *each, style="dim")
    out_console.print(table)
    if limits:
        share = found["goodput_per_s"] * done.makespan / found["requests"]
        tell(told("limits", share=n(share, "%")))
    said = told("expected") if done.calibrated else told("bounds")
    # Where a constant is from is told in English only, as the data has it; --json has it always.
    tell(f"{said}: {done.source}" if language() == "en" else said, style="dim")


def _planned(
    cheapest: Callable[..., list[serve.ServingLayout]], inputs: dict[str, float]
) -> tuple[list[serve.ServingLayout], dict[str, float]]:
    """Layouts, the cheapest first, and by how many per cent each input moves a token's price."""
    layouts = cheapest(**inputs)
    if not layouts:
        raise CourseError(
            "no layout keeps --slo, even one request at a time: allow more time, or take a faster "
            "chip, narrower weights or more of them with --tp"
        )

    def cost(**at: float) -> float:
        found = cheapest(**at)
        return found[0].usd_per_mtoken if found else math.inf

    return layouts, serve.sensitivity(cost, **inputs)


def _show_plan(
    layouts: list[serve.ServingLayout],
    moved: dict[str, float],
    limits: Any,
    as_json: bool,
    formats: Mapping[str, str],
) -> None:
    best = layouts[0]
    if as_json:
        found = {
            "layout": {name: getattr(best, name) for name in ("tp", "ep", "replicas", "chips")},
            "replicas": best.replicas,
            "usd_per_mtoken": best.usd_per_mtoken,
            "usd_per_hour": best.usd_per_hour,
            "rate_per_replica": best.rate,
            "sensitivity": {k: v if math.isfinite(v) else None for k, v in moved.items()},
            "others": [
                {"tp": one.tp, "replicas": one.replicas, "usd_per_mtoken": one.usd_per_mtoken}
                for one in layouts[1:]
            ],
            "replica": _record(best.outcome, limits),
            "assumed": {"formats": formats},
        }
        tell_json(found)
        return
    tell(formats_in_words(formats))
    table = columns(*map(t, ("srv-gpus-each", "srv-replicas", "srv-usd-hour", "srv-usd")))
    for one in layouts:
        spread = told("spread", ep=one.ep, tp=one.tp) if one.ep > 1 else str(one.tp)
        table.add_row(spread, str(one.replicas), n(one.usd_per_hour), n(one.usd_per_mtoken))
    out_console.print(table)
    for name, by in moved.items():
        of = t(_NAMES[name]) if name in _NAMES else f"{t('srv-limit')} {name}"
        tell(told("sensitivity", name=of, by=n(by / 100, "%")), style="dim")
