"""The command `course serve`: how long the users of a service wait, and what it costs."""

import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from course_lib import CourseError, n, serve, specs
from course_lib.counting import named, told
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.rental import quotes
from course_press.cli.console import out_console

app = typer.Typer()

_SAID = {
    "ttft": "to the first token",
    "tpot": "for each token after it",
    "e2e": "to the last token",
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
        return serve.drawn(at, requests, *lengths, burst=burst, spread=spread, seed=seed)

    if (arrivals is None) == (rate is None):
        raise CourseError("give the requests by --arrivals FILE or by --rate, one of them")
    if plan:
        if arrivals is not None or rate is None:
            raise CourseError("--plan needs --rate: it tries other rates, which a file has not")
        if not limits:
            raise CourseError("--plan needs --slo, as ttft=0.5,tpot=0.05")
        tps = (1, 2, 4, 8) if tp is None else (tp,)
        price = _price(on, usd)
        joins = _joins(on, link, max(*tps, ep or settings.ep), asked=False)

        def cheapest(**at: float) -> list[serve.ServingLayout]:
            return serve.plan(
                one,
                on,
                lambda share: drawn(share, at["prompt"], at["output"]),
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
            return told(made.formats, one.declared, on)

        _show_plan(cheapest, inputs, limits, as_json, formats)
        return
    joins = _joins(on, link, max(settings.tensor_parallel_size, ep or settings.ep))
    came = serve.read_requests(arrivals) if arrivals is not None else drawn(rate or 0.0)
    asked |= {"ep": ep, "replicas": replicas, "router": router}
    made = serve.service(one, on, engine_of=settings, link=joins, **asked)
    _show(made.run(came), limits, as_json, told(made.formats, one.declared, on))


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
    done: serve.Served, limits: Mapping[str, float], as_json: bool, formats: Mapping[str, str]
) -> None:
    found = _record(done, limits)
    if as_json:
        print(json.dumps({**found, "assumed": {"formats": formats}}, indent=1))  # noqa: T201
        return
    _say_formats(formats)
    out_console.print(
        f"{found['requests']} requests in {n(done.makespan, 's')}: {n(done.tokens_per_s)} tokens/s,"
        f" {found['preemptions']} preemptions, {n(done.cache_used, '%')} of the cache at most",
        soft_wrap=True,
    )
    table = Table("", *(f"p{share}" for share in serve.SHARES), box=None)
    for name, said in _SAID.items():
        if f"{name}_s" in found:
            table.add_row(said, *(n(time, "s") for time in found[f"{name}_s"].values()))
    out_console.print(table)
    if limits:
        share = found["goodput_per_s"] * done.makespan / found["requests"]
        out_console.print(f"{n(share, '%')} keep the limits")
    said = "likely times" if done.calibrated else "every step at its lower bound"
    out_console.print(f"{said}: {done.source}", style="dim", soft_wrap=True)


def _say_formats(said: Mapping[str, str]) -> None:
    out_console.print("; ".join(f"{name} {one}" for name, one in said.items()), soft_wrap=True)


def _show_plan(
    cheapest: Any,
    inputs: dict[str, float],
    limits: Any,
    as_json: bool,
    formats: Callable[[serve.ServingLayout], dict[str, str]],
) -> None:
    layouts = cheapest(**inputs)
    if not layouts:
        raise CourseError(
            "no layout keeps --slo, even one request at a time: allow more time, or take a faster "
            "chip, narrower weights or more of them with --tp"
        )
    best = layouts[0]

    def cost(**at: float) -> float:
        found = cheapest(**at)
        return found[0].usd_per_mtoken if found else math.inf

    moved = serve.sensitivity(cost, **inputs)
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
            "assumed": {"formats": formats(best)},
        }
        print(json.dumps(found, indent=1))  # noqa: T201
        return
    _say_formats(formats(best))
    table = Table("chips each", "replicas", "USD an hour", "USD a million tokens", box=None)
    for one in layouts:
        spread = f"{one.ep}, {one.tp} for attention" if one.ep > 1 else str(one.tp)
        table.add_row(spread, str(one.replicas), n(one.usd_per_hour), n(one.usd_per_mtoken))
    out_console.print(table)
    for name, by in moved.items():
        out_console.print(f"1 % more {name}: {by:+.2f} % of the price of a token", style="dim")
