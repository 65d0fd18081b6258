"""What a model costs on a chip, whichever way it was counted: from its sizes, or traced."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Unpack

from course_lib.core import Estimate
from course_lib.core.checks import CourseError, count, flag, shown, unfit
from course_lib.specs import Accelerator, Transformer, load_toml
from course_lib.specs.catalog import accelerator
from course_lib.specs.configurations import Declared, attending
from course_lib.workloads import block, llm
from course_lib.workloads.llm import Crossover, MemoryFit
from course_lib.workloads.precision import FormatOptions, Formats, of_model, recipe_of
from course_lib.workloads.weights import cache_bytes
from course_tools.counting import building, diffusion, estimates, passes, quantization
from course_tools.counting.rewriting import least
from course_tools.counting.sources import Named
from course_tools.files import DATA

# Tokens where none are asked for, and the model was made for no fewer.
_USUAL = 1024
_LEFT_OUT = load_toml(DATA / "counting" / "left-out.toml", dict[str, str])
_NEVER = tuple(_LEFT_OUT[name] for name in ("host", "runtime"))


@dataclass(frozen=True, slots=True)
class Fused:
    """What fusing saves of the bytes and of the lower bound, s, of a pass whose operators would run
    each by itself, with so many launches.
    """

    bytes: float
    kernels: float
    lower: float
    saved_bytes: float
    saved: float


@dataclass(frozen=True, slots=True)
class Costs:
    """What a model costs on a chip.

    Attributes
    ----------
    name, architecture : of the model, and of what was counted: a kind of `Transformer`, or a class.
    traced : whether it was traced rather than computed from its sizes.
    parameters, active : all, and those that one token meets; `None` where nobody counted these.
    step, headline : the pass that was asked for, operator by operator in the form of the least
        work, and which it is; its `speed_of_light` no program beats.
    as_written : the same as a traced module's own code does it; `None` where sizes were counted.
    decode, prefill : both passes; `None` where there is none, and `missing` says why.
    fused : what fusing saves in the step; `None` where it is not known.
    fit, crossover : memory, and the first compute-bound batch of decode; `None` where there is no
        such question.
    uncounted : operators of which FLOPs are not counted.
    not_modelled : what the numbers leave out.
    assumed : sizes that a configuration leaves to transformers.
    formats : of the step.
    said : these in words, with where they come from.
    batch, context : sequences, and tokens of each.
    """

    name: str
    architecture: str
    traced: bool
    parameters: int
    active: int | None
    step: Estimate
    headline: str
    decode: Estimate | None
    prefill: Estimate | None
    fit: MemoryFit
    formats: Formats
    batch: int
    context: int
    as_written: Estimate | None = None
    crossover: Crossover | None = None
    fused: Fused | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = ()
    assumed: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)

    @property
    def cached(self) -> float | None:
        """The step's speed of light without parameters and cache, s, where the last-level cache of
        the chip holds them from one call to the next; `None` where it does not.
        """
        found: float | None = llm.cached(self.step)
        return found


def ask(
    named: Named,
    chip: Accelerator | str,
    batch: int = 1,
    context: int | None = None,
    *,
    tp: int = 1,
    link: Any = None,
    prefill: bool = False,
    trace: bool = False,
    **formats: Unpack[FormatOptions],
) -> Costs:
    """What a model costs on a chip.

    A model of the table, and a configuration that a `Transformer` describes to the last parameter,
    is computed from its sizes. Anything else is traced: its own code runs on tensors without
    memory, and each operator is counted or named.

    Parameters
    ----------
    named : from `sources.named`.
    chip : an accelerator or its key.
    batch, context : sequences, and tokens in each; 1024 where not given, or fewer where the model
        was made for fewer.
    w, x, kv, compute, tp, link : as in `course_lib.llm.decode`: what a configuration declares of
        formats counts where they are not given.
    prefill : ask for the pass over the prompt; a model that does not decode has no other.
    trace : trace a configuration all the same.

    Examples
    --------
    >>> from course_tools.counting import named
    >>> answer = ask(named("llama-3-8b"), "h100-sxm", 1, 1024)
    >>> answer.parameters, answer.headline, answer.step.bound
    (8030261248, 'decode', 'memory-bound')
    """
    if not isinstance(named, Named):
        raise CourseError(f"named must be from counting.named (got {named!r})")
    on, many = accelerator(chip), count("batch", batch)
    prefill, trace = flag("prefill", prefill), flag("trace", trace)
    limit = named.limit
    length = min(_USUAL, limit or _USUAL) if context is None else count("context", context)
    if limit is not None and named.config is not None and length > limit:
        wanted = f"be at most the {limit} tokens that {named.name!r} was made for"
        remedy = "to ask what more would cost, raise that number in its config"
        raise unfit("context", wanted, length, remedy)
    one = named.model
    if (
        isinstance(one, Transformer)
        and not trace
        and (named.config is None or length <= one.context)
    ):
        fm = of_model(one, on, **formats)
        found = _described(named, one, on, many, length, fm, tp, link, prefill)
        return replace(found, said=told(fm, one.declared, on))
    if named.config is None and not named.function:
        llm.decode(named.name, on, many, length)  # says what is wrong with it
    if tp != 1 or link is not None:
        split = f"link {shown(link)}" if tp == 1 else f"tp {shown(tp)}"
        raise CourseError(
            f"{split} must be left out for a model that is traced: how its layers would be split "
            f"over chips is not known"
        )
    read = None if named.config is None else quantization.read(named.config)
    declared = None
    if read is not None:
        rest = {name: read[name] for name in ("x", "kv", "by", "unread")}
        declared = Declared(w=read["x"], **rest)
    only: Any = SimpleNamespace(declared=declared)
    fm = of_model(only, on, **formats)
    own = read if formats.get("w") is None else None
    found = _traced(named, on, many, length if context else None, fm, prefill, own)
    computes = None if own is None else [one["compute"] for one in own["rules"]]
    return replace(found, said=told(found.formats, declared, on, computes))


def told(
    fm: Formats, said: Declared | None, chip: Accelerator, computes: list[str] | None = None
) -> dict[str, str]:
    """The formats of a step in words, and where they come from.

    Parameters
    ----------
    fm, said, chip : of the step, what the model's file declares, and an accelerator.
    computes : of a model whose matrices were counted as the file declares one by one, the formats
        of arithmetic that it asks for.

    Examples
    --------
    >>> from course_lib import chip, llm
    >>> told(llm.formats("awq"), Declared(w="bf16", x="bf16", by="dtype"), chip("l4"))
    {'weights': 'awq as asked, not as the file declares'}
    """
    weights = fm.w.replace(",", ", ").replace("=", " ")
    instead = " and ".join(dict.fromkeys((*fm.products.values(), fm.attention)))
    if said is None:
        found = {"weights": weights, **({"cache": fm.kv} if fm.kv != fm.x else {})}
        if fm.x not in instead and f"matrix.{fm.x}" not in chip.peaks:
            found["arithmetic"] = f"{instead}: {chip.key} has no rate in {fm.x}"
        return found
    by = " as the file declares" if said.by else " as the file declares none"
    own = " as asked, not as the file declares" if said.by else " as asked"
    as_said = computes is not None or fm.w == said.w
    found = {"weights": weights + (by if as_said else own)}
    if said.kv or fm.kv != fm.x:
        found["cache"] = fm.kv + (by if fm.kv == said.kv else own if said.kv else " as asked")
    wanted = computes or list(recipe_of(said.compute or said.x).values())
    lacking = [one for one in wanted if one and f"matrix.{one}" not in chip.peaks]
    if lacking and as_said:
        found["arithmetic"] = f"{instead}: {chip.key} has no rate in {lacking[-1]}"
    return found


def _described(
    named: Named,
    one: Transformer,
    chip: Accelerator,
    batch: int,
    context: int,
    fm: Formats,
    tp: int,
    link: Any,
    prefill: bool,
) -> Costs:
    setup: dict[str, Any] = {"w": fm, "tp": tp}
    step = after = llm.prefill(one, chip, batch, context, link=link, **setup)
    decode = crossover = fused = None
    missing: dict[str, str] = {}
    if one.kind != "decoder":
        missing = dict.fromkeys(("decode", "crossover"), "its only pass is a prefill")
    else:
        decode = llm.decode(one, chip, batch, context, link=link, **setup)
        step = after if prefill else decode
        if tp == 1:
            crossover = llm.first_compute_bound_batch(one, chip, context, w=fm)
        else:
            missing["crossover"] = "it is of one chip: tp is more"
    headline = "prefill" if step is after else "decode"
    whole = cache_bytes(one, fm) * one.windowed / attending(one) * batch / 1e9
    reserved: tuple[str, ...] = ()
    if one.windowed and context > one.window:
        reserved = (
            f"what engines reserve: layers with a window must keep {whole * one.window:.3g} GB, "
            f"and pages for whole contexts would take {whole * context:.3g} GB",
        )
    other = one.experts or one.latent or one.qk_norm or one.windowed or one.recurrent
    if other or tp > 1 or {fm.w, fm.matmul} != {fm.x}:
        missing["fused"] = "known of one chip's dense blocks in one format only"
    else:
        new = context if headline == "prefill" else 1
        plain, joined = (
            block.estimate(
                block.operators(one, batch, new, context, w=fm.w, x=fm.x, fused=of), chip
            )
            for of in (False, True)
        )
        fused = _saved(plain, joined, one.layers)
    return Costs(
        name=named.name,
        # A layer with attention or a state only, or an MLP only, is one in files that have such.
        architecture=f"{one.kind} of {one.layers * (2 if one.bare else 1) - one.bare} layers",
        traced=False,
        parameters=one.parameters,
        active=one.active_parameters,
        step=step,
        headline=headline,
        decode=decode,
        prefill=after,
        fit=llm.fits(one, chip, batch, context, **setup),
        formats=fm,
        batch=batch,
        context=context,
        crossover=crossover,
        fused=fused,
        missing=missing,
        not_modelled=(
            _LEFT_OUT["between"],
            *((_LEFT_OUT["even"],) if one.experts else ()),
            *((_LEFT_OUT["senses"],) if {"vision", "senses"} & one.other.keys() else ()),
            *reserved,
            *_NEVER,
        ),
    )


def _saved(plain: Estimate, joined: Estimate, times: int = 1) -> Fused:
    saved = (plain.bytes - joined.bytes, plain.lower - joined.lower)
    return Fused(*(float(times * one) for one in (plain.bytes, plain.kernels, plain.lower, *saved)))


def _traced(
    named: Named,
    chip: Accelerator,
    batch: int,
    asked: int | None,
    fm: Formats,
    prefill: bool,
    said: dict[str, Any] | None,
) -> Costs:
    built, ran, context = _run(named, batch, asked)
    own = estimates.matrix_formats(built, ran.prompt, fm, chip, said)
    codes = (
        estimates.with_formats(ran.prompt, own),
        ran.step and estimates.with_formats(ran.step, own),
    )
    prompt, after = least(codes[0]), codes[1] and least(codes[1])
    headline = "decode" if after is not None and not prefill else "prefill"
    trace, code = (prompt, codes[0]) if after is None or prefill else (after, codes[1])
    assert code is not None
    step, plain = (estimates.estimate(trace, chip, fm, fused=fused) for fused in (True, False))
    fit = estimates.footprint(built, trace, ran.cache, chip, fm, batch, own)
    step = replace(step, room=lambda: fit.fits)
    missing: dict[str, str] = {}
    decode = crossover = None
    if after is None:
        missing = {"decode": ran.why, "crossover": ran.why}
    else:
        decode = step if trace is after else estimates.estimate(after, chip, fm)
        crossover = estimates.first_batch(after, chip, fm, batch, float(fit.max_batch))
    return Costs(
        name=named.name,
        architecture=built.name,
        traced=True,
        parameters=built.parameters,
        active=estimates.active(built, ran.prompt),
        step=step,
        as_written=replace(estimates.estimate(code, chip, fm), least=step.least),
        headline=headline,
        decode=decode,
        prefill=step if trace is prompt else estimates.estimate(prompt, chip, fm),
        fit=fit,
        formats=fm
        if said is None
        else replace(fm, w=",".join(estimates.parameter_formats(built, own, fm.x))),
        batch=batch,
        context=context,
        crossover=crossover,
        fused=_saved(plain, step),
        missing=missing,
        uncounted=tuple(dict.fromkeys(one for of in ran.traces for one in of.uncounted)),
        not_modelled=_left_out(named, built, ran),
        assumed=built.assumed,
    )


def _run(named: Named, batch: int, asked: int | None) -> tuple[building.Built, passes.Passes, int]:
    """Build and trace it, with attention as one kernel where its code lets others provide it."""
    if named.function:
        built = building.from_function(named.function)
        return built, passes.run(built, batch, asked or _USUAL), asked or _USUAL
    config = named.config or {}
    try:
        return _tried(config, batch, asked)
    except CourseError as error:
        if any(key in str(error) for key in config):
            raise
        which = f"more than one is wrong of config's {', '.join(config)}"
        for key, other in building.variants(config):  # transformers' own words: which was it?
            with suppress(CourseError):
                _tried(other, batch, asked)
                which = f"config's {key!r} is {shown(config[key])}"
                break
        raise CourseError(f"{error} ({which})") from error


def _tried(
    config: dict[str, Any], batch: int, asked: int | None
) -> tuple[building.Built, passes.Passes, int]:
    """Built and traced by the first way of attention that works; else the first one's refusal."""
    errors = []
    if config.get("model_type") == "flux":
        tokens = asked or diffusion.PICTURE
        built = diffusion.build(config, batch, tokens)
        return built, passes.run(built, batch, tokens), tokens
    for attention in building.ATTENTIONS:
        try:
            built = building.from_transformers(config, attention)
            context = asked or min(_USUAL, built.limit or _USUAL)
            return built, passes.run(built, batch, context), context
        except CourseError as error:  # code that wants a mask to look at, say
            errors.append(error)
    raise errors[0]


def _left_out(named: Named, built: building.Built, ran: passes.Passes) -> tuple[str, ...]:
    config = named.config or {}
    every = [one for of in ran.traces for one in of.operations]
    kinds, names = ({getattr(one, of) for one in every} for of in ("kind", "name"))
    routed, idle = any(one.routing for one in every), config.get("zero_expert_num")
    scores = "attention" not in kinds and not names.isdisjoint(("_softmax", "_safe_softmax"))
    others = any(isinstance(config.get(of), dict) for of in ("vision_config", "audio_config"))
    found = {
        "apart": True,
        "even": routed,
        "convolutions": "convolution" in kinds,
        "idle": idle and routed,
        "code": "auto_map" in config,
        "scores": scores,
        "senses": others and built.kind == "decoder",
        "cache": built.kind == "module",
        "draws": config.get("model_type") == "flux",
    }
    told = (_LEFT_OUT[name].format(idle=idle) for name, holds in found.items() if holds)
    return (*told, *_NEVER)
