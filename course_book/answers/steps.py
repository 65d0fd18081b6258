"""What a step of inference takes on a chip, as one record: bound, expected, why, what next."""

import math
from collections.abc import Callable
from typing import Any

from course_lib.core import RATES, Estimate, sensitivity
from course_lib.core.dtypes import BITS, element
from course_lib.specs import Accelerator
from course_lib.specs.rental import prices, quotes
from course_lib.workloads.precision import Formats
from course_tools import calibrate, energy
from course_tools.counting import Costs
from course_book.answers import energies
from course_book.answers.record import (
    Answer,
    Interval,
    Remedy,
    Term,
    cited,
    expected,
    fields,
    in_each_language,
    range_in_words,
    top,
)
from course_book.text import n, named, t

# The rates of a chip as what a step may be bound by.
CEILINGS = dict(zip(RATES, ("compute-bound", "memory-bound", "communication-bound"), strict=True))
# Terms of an answer: those that matter.
_TERMS = 6
# Formats that weights and cache are narrowed to, widest first: what engines serve.
_NARROWER = {"weights": ("fp8", "awq"), "cache": ("fp8",)}


def operators(step: Estimate) -> list[tuple[str, str, Estimate]]:
    """Every operator of a pass, with the part that it belongs to."""
    found = []
    for name, part in step.parts.items():
        found += [(name, of, one) for of, one in part.parts.items()] or [(name, name, part)]
    return found


def predicted(
    answer: Costs, chip: Accelerator, asked: dict[str, Any], again: Callable[..., Costs], **how: Any
) -> Answer:
    """What a step takes; `again` asks anew with some of `asked` replaced, `how` is `predict`'s."""
    step = answer.step
    found, spread, why = expected(step, chip, **how)
    tokens = tokens_of(answer)
    times = {name: float(getattr(step, name)) for name in ("speed_of_light", "lower", "upper")}
    likely = None if found is None else float(found.expected)
    values = {
        **{f"{name}_s": seconds for name, seconds in times.items()},
        "expected_s": likely,
        "tokens_per_s": None if likely is None else tokens / likely,
        "most_tokens_per_s": tokens / times["speed_of_light"],
        "fits": bool(answer.fit.fits),
    }
    terms = sorted(operators(step), key=lambda one: -float(one[2].lower))[:_TERMS]
    named_terms = [(f"{of}: {name}" if of != name else name, one) for of, name, one in terms]
    constants = [found.source] if found is not None else []
    use = None if found is None else energy_used(answer, chip, found, asked["tp"])
    values["joules_per_token"] = use and use.joules / tokens
    rent = None if likely is None else rented(answer, chip, asked["tp"], likely)
    values["usd_per_mtoken"] = rent and rent[0]
    said = answer, chip, asked["tp"], values, spread
    return Answer(
        question="predict",
        answer=in_each_language(lambda: f"{_sentence(*said)}; {energies.in_words(use)}"),
        values=values,
        assumed={**answer.assumed, "formats": dict(answer.said), **(rent[1] if rent else {})},
        because=tuple(
            Term(name, float(one.lower), "s", float(one.lower / step.lower))
            for name, one in named_terms
        ),
        next=changes(answer, asked, again),
        sources=(*cited(chip, f"matrix.{answer.formats.matmul}", "bandwidth"), *constants),
        range=spread,
        energy=use,
        more=_record(answer, chip, found, why, how),
    )


def tokens_of(answer: Costs) -> int:
    """Tokens that a step takes in, or makes."""
    return answer.batch * (answer.context if answer.headline == "prefill" else 1)


def rented(
    answer: Costs, chip: Accelerator, tp: int, seconds: float
) -> tuple[float, dict[str, Any]] | None:
    """USD of a million tokens on so many chips at the least that an hour of one costs to rent, and
    that price; `None` where none is on record.
    """
    every = quotes(chip.key) if chip.key in {one.chip for one in prices()} else ()
    if not every:
        return None
    price = every[0]
    usd = 1e6 * price.usd_per_hour * tp * seconds / 3600 / tokens_of(answer)
    return usd, fields(price, "usd_per_hour provider date")


def energy_used(answer: Costs, chip: Accelerator, likely: Any, tp: int) -> Any:
    """What so many chips take for the step in its expected time; `None` where nobody knows."""
    return energies.known(energy.of_step, answer.step, chip, likely, chips=tp)


def _sentence(
    answer: Costs, chip: Accelerator, tp: int, values: dict[str, Any], spread: Interval | None
) -> str:
    layout = named(chip.short) if tp == 1 else f"{tp} × {named(chip.short)}"
    of = {"model": answer.name, "chip": layout, "run": t(f"tell-{answer.headline}")}
    of |= {"lower": n(values["lower_s"], "s"), "bound": t(str(answer.step.bound))}
    said = [t("say-predict").format(**of)]
    if spread is not None:
        rate = t("say-rate").format(rate=n(values["tokens_per_s"]))
        said += [range_in_words(values["expected_s"], spread), rate]
    if not values["fits"]:
        room = {name: n(getattr(answer.fit, name), "B") for name in ("needed", "available")}
        said.append(t("tell-too-large").format(model=answer.name, chip=layout, **room))
    return "; ".join(said)


def changes(
    answer: Costs, asked: dict[str, Any], again: Callable[..., Costs]
) -> tuple[Remedy, ...]:
    """What would give most tokens a second, counted anew by the bound, unless it was traced."""
    if answer.traced:
        return ()

    def gain(**change: Any) -> float:
        other = again(**change)
        now, then = (float(tokens_of(of) / of.step.lower) for of in (answer, other))
        return then / now if other.fit.fits else 0.0

    sizes = {"batch": 2 * answer.batch, "tp": 2 * asked["tp"]}
    tried = [(option, {option: to}) for option, to in sizes.items()]
    return top([*tried, *narrower(answer.formats)], gain, "rate")


def narrower(now: Formats) -> list[tuple[str, dict[str, Any]]]:
    """Formats of weights and cache that are narrower than those of a step."""
    found = []
    for option, wide in (("weights", now.w), ("cache", now.kv)):
        bits = BITS[element(wide.partition(",")[0])]
        found += [(option, {option: to}) for to in _NARROWER[option] if BITS[element(to)] < bits]
    return found


def _record(
    answer: Costs,
    chip: Accelerator,
    found: calibrate.Prediction | None,
    why: str,
    how: dict[str, Any],
) -> dict[str, Any]:
    """Everything that is known of a model's cost on a chip, in SI units."""
    step = answer.step
    passes = {"decode": answer.decode, "prefill": answer.prefill}
    fit, times_of = answer.fit, {"reason": why}
    if found is not None:
        times_of = {
            **floats(found, "expected low high", "{}_s"),
            **fields(found, "state engine"),
            "lender": found.source_chip,
            **fields(found, "source evidence"),
        }
    by_unit = {"matrix": 0.0, "vector": 0.0}
    for _, _, one in operators(step):
        if one.work is not None:
            by_unit[one.work.unit] += float(one.flops)
    memory = floats(fit, "needed available") | floats(fit.memory, "weights")
    memory |= {"cache": float(fit.memory.kv), **floats(fit.memory, "activations")}
    most = float(fit.max_batch)
    crossover: dict[str, Any] = {"batch": None, "reason": answer.missing.get("crossover", "")}
    if (met := answer.crossover) is not None:
        crossover = fields(met, "batch reason limit_intensity ridge weights_only_batch")
    fusing: dict[str, Any] = {"reason": answer.missing.get("fused", "")}
    if (fused := answer.fused) is not None:
        fusing = {f"unfused_{name}": getattr(fused, name) for name in ("bytes", "kernels")}
        fusing |= {"unfused_lower_s": fused.lower, **fields(fused, "saved_bytes")}
        fusing["saved_s"] = fused.saved
    return {
        "model": answer.name,
        "architecture": answer.architecture,
        "counted_from": "a trace of its code" if answer.traced else "its sizes",
        "chip": chip.key,
        "pass": answer.headline,
        "batch": answer.batch,
        "context": answer.context,
        "formats": fields(answer.formats, "w x kv matmul attention"),
        "parameters": answer.parameters,
        "active_parameters": answer.active,
        "as_written_s": None if answer.as_written is None else float(answer.as_written.lower),
        "cached_s": None if answer.cached is None else float(answer.cached),
        **_times(step),
        "flops_by_unit": by_unit,
        "uncounted": list(answer.uncounted),
        "expected": times_of,
        "memory": memory | {"largest_batch": int(most) if math.isfinite(most) else None},
        "crossover": crossover,
        "share_by_bound": {
            CEILINGS[rate]: float(share) for rate, share in sensitivity(step).items()
        },
        "fusing": fusing,
        **{name: _pass(one, answer, name, chip, how) for name, one in passes.items()},
        "not_modelled": list(answer.not_modelled),
        "roofline": [_line(*one, step, chip) for one in operators(step)],
        "parts": _parts(step),
    }


def floats(found: Any, names: str, key: str = "{}") -> dict[str, Any]:
    """Some of a record's numbers: what JSON holds is never an array."""
    return {key.format(name): float(getattr(found, name)) for name in names.split()}


def _times(step: Estimate) -> dict[str, Any]:
    """A pass as numbers."""
    return {
        **floats(step, "lower upper", "{}_s"),
        "bound": str(step.bound),
        **floats(step, "t_math t_memory t_network", "{}_s"),
        **floats(step, "flops bytes"),
        "kernels": int(float(step.kernels)),
    }


def _parts(step: Estimate) -> dict[str, Any]:
    return {name: {**_times(part), "parts": _parts(part)} for name, part in step.parts.items()}


def _pass(
    one: Estimate | None, answer: Costs, name: str, chip: Accelerator, how: dict[str, Any]
) -> dict[str, Any]:
    """One of the two passes, or why the model has none."""
    if one is None:
        return {"reason": answer.missing.get(name, "")}
    found, _, why = expected(one, chip, **how)
    likely = {"expected_s": None if found is None else float(found.expected)}
    light = {"speed_of_light_s": float(one.speed_of_light)}
    return {**light, **_times(one), **likely, **({"reason": why} if why else {})}


def _line(part: str, name: str, one: Estimate, step: Estimate, chip: Accelerator) -> dict[str, Any]:
    work = one.work
    known = work is not None and f"{work.unit}.{work.dtype}" in chip.peaks
    return {
        "part": part,
        "operator": name,
        "unit": work.unit if work is not None else None,
        "dtype": work.dtype if work is not None else None,
        "kernels": int(float(one.kernels)),
        **floats(one, "flops bytes intensity"),
        "ridge": chip.ridge(work.dtype, work.unit) if work is not None and known else None,
        "bound": str(one.bound),
        "seconds": float(one.lower),
        "share": float(one.lower / step.lower),
    }
