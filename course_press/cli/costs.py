"""What `course predict` prints for readers."""

import math
from collections.abc import Mapping

from rich.table import Table

from course_lib.core import Estimate, sensitivity, summed
from course_lib.specs import Accelerator
from course_tools.counting import Costs
from course_book import n, t
from course_book.answers.steps import CEILINGS, operators
from course_book.text import retold
from course_press.cli.console import formats_in_words, out_console, tell, tell_table, told

# Share of the time below which an operator of a trace has no row of its own.
FOLDED = 0.01
# Operators with a name on the roofline: more would lie on one another.
_NAMED = 6


def show(answer: Costs, layout: str, every: bool = False) -> None:
    """Tell of a pass, with `every` operator of a trace, or those that take little in a row."""
    step, fit = answer.step, answer.fit
    first = {"model": answer.name, "chip": layout, "run": told(answer.headline)}
    tell(f"{told('predict', bound=t(step.bound), **first)}; {formats_in_words(answer.said)}")
    what = retold(answer.architecture)
    sizes = {
        "what": told("traced", name=what) if answer.traced else what,
        "parameters": n(answer.parameters),
        "batch": n(answer.batch),
        "context": n(answer.context),
    }
    if answer.active in (None, answer.parameters):
        tell(told("model", **sizes))
    else:
        tell(told("model-active", active=n(answer.active), **sizes))
    times = Table.grid(padding=(0, 2))
    times.add_column(no_wrap=True)
    times.add_column(no_wrap=True, justify="right")
    times.add_column(overflow="fold")
    written = None if answer.as_written is None else answer.as_written.lower
    for name, seconds, said in (
        ("from-cache", answer.cached, "cached"),
        ("speed-of-light", step.speed_of_light, "light"),
        ("operator-by-operator", step.lower, "operators"),
        ("as-written", written, "written"),
        ("no-overlap", step.upper, "upper"),
    ):
        if seconds is not None:
            times.add_row(t(name), n(float(seconds), "s"), t(f"times-{said}"))
    out_console.print(times)
    network = bool(float(step.t_network))
    heads = [t("time"), told("compute"), t("memory"), *([told("network")] * network)]
    least = 0.0 if every or not answer.traced else FOLDED * float(step.lower)
    rows = []
    for name, part in folded(step.parts, least).items():
        rows.append(_row(name, part, network))
        inner = folded(part.parts, least) if name in step.parts else {}
        for label, operator in inner.items() if len(inner) > 1 else ():
            rows.append(_row(f"  {label}", operator, network))
    tell_table((t("operator"), told("bound"), *heads, "FLOP", told("byte")), rows, left=2)
    most = float(fit.max_batch)
    of = {"needed": n(fit.needed, "B"), "available": n(fit.available, "B")}
    tell(told("memory", **of) + (told("most", most=n(most)) if math.isfinite(most) else ""))
    shares = {CEILINGS[rate]: share for rate, share in sensitivity(step).items() if share}
    said = ", ".join(f"{n(float(share), '%')} {t(name)}" for name, share in shares.items())
    tell(told("time", shares=said))
    if (crossover := answer.crossover) is not None:
        tell(told("crossover", why=retold(crossover.reason)))
    if (fused := answer.fused) is not None:
        saved = {"time": n(fused.saved, "s"), "bytes": n(fused.saved_bytes, "B")}
        tell(told("fused", all=n(fused.bytes, "B"), **saved))
    for name in ("decode", "prefill"):
        one = getattr(answer, name)
        if one is not None and name != answer.headline:
            of = {"light": n(one.speed_of_light, "s"), "lower": n(one.lower, "s")}
            tell(told("same", run=told(name), bound=t(one.bound), **of))
        elif name in answer.missing:
            tell(told("no-pass", run=told(name), why=retold(answer.missing[name])))
    if answer.assumed:
        left = ", ".join(f"{name} {size}" for name, size in answer.assumed.items())
        tell(told("left", sizes=left))
    if answer.uncounted:
        tell(told("uncounted", names=", ".join(answer.uncounted)))
    tell(told("left-out", what="; ".join(map(retold, answer.not_modelled))))


def folded(parts: Mapping[str, Estimate], least: float) -> dict[str, Estimate]:
    """Parts that take so many seconds, and a last one for all others where these are several."""
    small = {name: part for name, part in parts.items() if float(part.lower) < least}
    if len(small) < 2:
        return dict(parts)
    large = {name: part for name, part in parts.items() if name not in small}
    return {**large, told("more", n=n(len(small))): summed(small)}


def _row(name: str, part: Estimate, network: bool) -> list[str]:
    seconds = (part.lower, part.t_math, part.t_memory, *((part.t_network,) if network else ()))
    times = (n(float(time), "s") for time in seconds)
    counts = ((part.flops, "FLOP"), (part.bytes, "B"))
    shown = (n(float(value), unit).removesuffix(unit) for value, unit in counts)
    bound = part.bound.removesuffix("-bound")
    return [name, t(bound) if bound == "memory" else told(bound), *times, *shown]


def picture(answer: Costs, chip: Accelerator, form: str) -> bytes:
    """The roofline with every operator on it, those that take longest by their names."""
    from course_book import plot  # takes long to import

    placed = [
        (name, float(one.intensity), float(one.attainable), float(one.lower))
        for _, name, one in operators(answer.step)
        if float(one.intensity) > 0 and float(one.lower) > 0
    ]
    peak = chip.peak(answer.formats.matmul)
    ends = [one[1] for one in placed] + [0.1, chip.ridge(answer.formats.matmul)]
    span = (min(ends) / 2, 4 * max(ends))
    drawn = plot.roofline({chip.short: (peak, chip.bandwidth)}, intensity=span)
    axes = drawn.figure.axes[0]
    for _, intensity, reached, _ in placed:
        axes.plot(intensity, reached, "o", color=plot.INK, markersize=5, alpha=0.5, zorder=5)
    low = min([reached for _, _, reached, _ in placed], default=peak)
    axes.set_ylim(bottom=min(low / 3, axes.get_ylim()[0]))
    named: dict[str, None] = {}
    for name, intensity, reached, _ in sorted(placed, key=lambda one: -one[3]):
        if len(named) < _NAMED and f"{intensity:.0e}" not in named:
            named[f"{intensity:.0e}"] = None  # one name for those that lie on one another
            drawn.name_dot(name, intensity, reached, fontsize=9)
    if form == "png":
        return drawn.png()
    xml = '<?xml version="1.0" encoding="utf-8"?>\n'
    return (xml + drawn.svg()).encode()
