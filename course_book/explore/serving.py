"""The calculator: a model on some chips, and what serving it takes at least and probably.

Everything is asked of the rest of the library. A page asks the same functions, translated to
JavaScript, for the states that a reader chooses; `advice` and `limits`, which only the calculator
needs, keep to what can be translated.

>>> one = calculator()
>>> one.answer().most
130.0
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from msgspec import to_builtins

from course_lib import network, specs
from course_lib.core import CourseError, formulas
from course_lib.core.checks import known
from course_lib.workloads import llm
from course_lib.workloads.precision import of_model as of_model
from course_lib.workloads.weights import not_divisible
from course_tools import calibrate, energy
from course_tools.counting import from_config
from course_book.explore.choices import listed
from course_book.explore.grid import NONE
from course_book.files import DATA
from course_book.text import Shown, Table, n, t, table

OWN = "own"  # The model of a pasted configuration
COUNTS = (1, 2, 4, 8, 16, 32, 64)
# What can be chosen of formats, the state at first, and what is told of one, with its unit; and
# what of that is told where the model does not fit, and so has neither speed nor price
_GIVEN: Mapping[str, Any] = specs.load_toml(DATA / "calculator.toml", dict)
FORMATS, START, ROWS, ALWAYS = (_GIVEN[key] for key in ("formats", "start", "rows", "always"))
MOST = 2**20  # Sequences, and tokens, beyond which nothing is offered
# Share of the expected time that the bound falls below where kernels that wait for each other are
# what to work on
LAUNCHES = 0.4


class Calculated(NamedTuple):
    """What the calculator says of a state, in base units; `None` where there is nothing to say.

    Why there is no answer, as a key, and what that is about; of the model its parameters; on each
    chip the bytes needed and there, and for how many sequences that would be enough; s of a step
    and of a prompt as long as the context: at the speed of light, operator by operator, and as
    expected from low to high; tokens a second of one sequence and of all; dollars for a million
    tokens that are written and read; the first compute-bound batch; what most of a step goes to,
    how much of it, and what to do, as a key.
    """

    refused: str
    about: str = ""
    parameters: Any = None
    weights: Any = None
    cache: Any = None
    activations: Any = None
    needed: Any = None
    available: Any = None
    fits: Any = None
    most: Any = None
    decode_light: Any = None
    decode: Any = None
    decode_low: Any = None
    decode_likely: Any = None
    decode_high: Any = None
    prefill_light: Any = None
    prefill: Any = None
    prefill_low: Any = None
    prefill_likely: Any = None
    prefill_high: Any = None
    user: Any = None
    all: Any = None
    user_low: Any = None
    user_likely: Any = None
    user_high: Any = None
    all_low: Any = None
    all_likely: Any = None
    all_high: Any = None
    usd: Any = None
    usd_least: Any = None
    usd_prompt: Any = None
    joules: Any = None
    first: Any = None
    binds: str = ""
    share: Any = None
    advice: str = ""


def limits(step: Any) -> dict[str, float]:
    """Seconds of a step, operator by operator, by what takes them: reading ``"weights"`` and what
    goes with them, reading the ``"cache"``, ``"compute"`` and the ``"network"``.

    Examples
    --------
    >>> found = limits(llm.decode("llama-3-8b", "h100-sxm", 1, 1024))
    >>> bool(found["weights"] > 10 * found["cache"])
    True
    """
    found = {"compute": 0.0, "weights": 0.0, "cache": 0.0, "network": 0.0}
    for name, part in step.parts.items():
        every = list(part.parts.values())
        for one in every if len(every) > 0 else [part]:
            longest = max(one.t_math, one.t_memory, one.t_network)
            kind = "cache" if name == "attention" else "weights"
            if one.t_math >= longest:
                kind = "compute"
            elif one.t_memory < longest or name == "all_reduce":
                kind = "network"
            found[kind] = found[kind] + longest
    return found


def advice(binds: str, answer: Any) -> str:
    """What to do, as a key, where so much is known of an answer.

    Examples
    --------
    >>> advice("weights", Calculated("", fits=False, weights=3.0, available=2.0))
    'too-large'
    """
    if answer.fits is False:
        return "too-large" if answer.weights > answer.available else "too-many"
    if answer.decode < LAUNCHES * answer.decode_likely:
        return "launches"
    return binds


class Calculator(Shown):
    """The calculator: on a page a form, elsewhere a table of its first state."""

    name = "calculator"

    def __init__(self, *, brief: bool = False) -> None:
        self.brief = brief

    @property
    def start(self) -> dict[str, Any]:
        """The state at first."""
        return dict(START)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are offered: those that decode, in the order of every list."""
        every = map(specs.model, specs.listed_models())
        return tuple(
            one.key for one in every if isinstance(one, specs.Transformer) and one.kind == "decoder"
        )

    @property
    def chips(self) -> tuple[str, ...]:
        """The chips that are offered: those of a published memory, in the order of every list."""
        return listed(key for key in specs.chips() if specs.chip(key).memory)

    def answer(self, config: Mapping[str, Any] | None = None, **chosen: Any) -> Calculated:
        """What the library says of a state; `config` is Hugging Face's, of the model ``"own"``."""
        for name in chosen:
            known("state", name, START)
        at = {**START, **chosen}
        try:
            one = from_config(config or {}) if at["model"] == OWN else specs.model(at["model"])
        except CourseError as error:
            return Calculated("config", str(error))
        assert isinstance(one, specs.Transformer)
        on, tp = specs.chip(at["chip"]), at["tp"]
        link = link_of(on, tp, at["link"])
        if bad := not_divisible(one, tp):
            return Calculated("tp", str(bad[0]))
        if tp > 1 and not link:
            return Calculated("link", on.short)
        return _answer(at, one, on, link)

    def table(self) -> Table:
        """What it says of its first state."""
        return table([t("calc-quantity"), t("value")], rows(self.answer()), "lr")

    def static_bundle(self) -> dict[str, Any]:
        """The MIME bundle that needs no kernel."""
        return self.table().static_bundle()


def verdict(of: Calculated) -> str:
    """Whether it fits, in a sentence."""
    key = "fits" if of.fits else advice("", of)
    values = {name: n(getattr(of, name), "B") for name in ("needed", "available", "weights")}
    return t(f"calc-{key}").format(most=n(of.most), **values)


def counsel(of: Calculated, batch: int) -> str:
    """What binds, and what to do about it, in a sentence; nothing of what does not fit."""
    said = t(f"calc-{of.advice}") if of.fits else ""
    return said.format(share=n(of.share, "%", digits=2), batch=n(batch))


def rows(of: Calculated) -> list[list[str]]:
    """An answer in words, a quantity a row."""
    return [[t(f"calc-{name}"), shown(of, name)] for name in ROWS]


def shown(of: Calculated, name: str) -> str:
    """A quantity as it is written, an expected time with its range; speeds only of what fits."""
    value = getattr(of, name) if of.fits or name in ALWAYS else None
    if value is None:
        return t("never") if name == "first" and of.fits else NONE
    text = n(value, ROWS[name])
    if name.endswith("_likely"):
        low, high = (getattr(of, name.replace("_likely", end)) for end in ("_low", "_high"))
        text = f"{text} ({n(low, ROWS[name])} – {n(high, ROWS[name])})"
    return text


def link_of(on: specs.Accelerator, tp: int, wanted: str) -> str:
    """The link asked for, else the fastest that joins so many; nothing where there is none."""
    every = ways(on, tp)
    return wanted if wanted in every else next(iter(every), "")


def ways(on: specs.Accelerator, tp: int) -> tuple[str, ...]:
    """The links that can join so many of a chip, the fastest first."""
    if tp == 1:
        return ()
    within = on.node is None or tp <= on.node.chips
    own = [name for name in on.joins if within or name not in on.links]
    if on.node is not None and on.links and (within or tp % on.node.chips == 0):
        own.insert(1 if within else 0, "nodes")
    return tuple(own)


def seconds_of_byte(on: specs.Accelerator, tp: int, link: str) -> float:
    """Seconds of an all-reduce for each of its bytes: the spec table's links have no latency."""
    return float(network.all_reduce(1.0, network.resolve_link(on, link, tp, name="tp"), tp))


def offers(key: str) -> tuple[specs.Price, ...]:
    """The prices of a chip, the cheapest first, what is out of date last."""
    return tuple(sorted((one for one in specs.quotes() if one.chip == key), key=specs.outdated))


def power_of(on: specs.Accelerator) -> Any:
    """A chip's watts and their limit, by name; nothing where no limit is published."""
    held = on.power and to_builtins(energy.constants(on))
    return held and SimpleNamespace(limit=on.power, **{name: held[name] for name in energy.PARTS})


def _answer(
    at: Mapping[str, Any], one: specs.Transformer, on: specs.Accelerator, link: str
) -> Calculated:
    tp, batch, context = at["tp"], at["batch"], at["context"]
    parameters, one = one.parameters, one.extended(context)
    asked = {"w": "weights", "x": "activations", "kv": "cache", "compute": "compute"}
    how: dict[str, Any] = {short: at[name] or None for short, name in asked.items()}
    if how["w"] is None and one.declared is not None and one.declared.unread:
        return Calculated("formats", one.declared.unread)
    try:
        fm = of_model(one, on, *how.values())
    except CourseError:
        return Calculated("unclear", f"{how['w']}, {how['x']}")
    try:
        step = llm.decode(one, on, batch, context, **how, tp=tp, link=link or None)
        read = llm.prefill(one, on, 1, context, **how, tp=tp, link=link or None)
    except CourseError:
        return Calculated("format", fm.matmul)
    first = llm.first_compute_bound_batch(one, on, context, **how, tp=tp).batch
    del how["compute"]
    room = llm.fits(one, on, batch, context, tokens=batch, **how, tp=tp)
    likely, soon = calibrate.predict(step, on), calibrate.predict(read, on)
    used = power_of(on)
    every, of, copies = offers(on.key), limits(step), at["count"] // tp
    rent = every[at["offer"]].usd_per_hour * copies * tp if every else None
    binds = max(of, key=of.__getitem__)

    def rate(many: int, seconds: Any) -> Any:
        return formulas.throughput(many, seconds)

    def usd(tokens: int, seconds: Any) -> Any:
        return rent and formulas.dollars(rent, rate(tokens * copies, seconds))

    times: dict[str, Any] = {}
    for name, bound, time in (("decode", step, likely), ("prefill", read, soon)):
        times |= {f"{name}_light": bound.speed_of_light, name: bound.lower}
        times |= {f"{name}_likely": time.expected}
        times |= {f"{name}_{end}": getattr(time, end) for end in ("low", "high")}
    for name, many in (("user", 1), ("all", batch * copies)):
        times[name] = rate(many, step.speed_of_light)
        for end, of_end in (("low", "high"), ("likely", "expected"), ("high", "low")):
            times[f"{name}_{end}"] = rate(many, getattr(likely, of_end))
    found = Calculated(
        "",
        parameters=parameters,
        cache=room.memory.kv,
        **{name: getattr(room.memory, name) for name in ("weights", "activations")},
        **{name: getattr(room, name) for name in ("needed", "available", "fits")},
        most=room.max_batch,
        **times,
        usd=usd(batch, likely.expected),
        usd_least=usd(batch, step.speed_of_light),
        usd_prompt=usd(context, soon.expected),
        joules=used and tp * energy.joules(used, step, likely.expected) / batch,
        first=first,
        binds=binds,
        share=float(of[binds] / step.lower),
    )
    return found._replace(advice=advice(binds, found))


def calculator(*, brief: bool = False) -> Calculator:
    """The calculator: choose a model, chips and formats, and read what serving takes; if `brief`,
    one sentence of it.

    Examples
    --------
    >>> calculator().answer(batch=1, context=1024).binds
    'weights'
    """
    return Calculator(brief=brief)
