"""Explorers of inference: a step of decoding, and an upgrade to another chip.

Each function says what can be chosen and asks the rest of the library for every choice; none has a
formula of its own. On the site a plot is drawn from the table that was computed here;
elsewhere it is a picture of its first state, and in a notebook with a live kernel a set of widgets
that take any number.

>>> from course_book import explore
>>> explore.decode().shown(batch=1, context=1024)[0]
['latency', '4.52 ms']
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from course_lib.core import formulas
from course_lib.specs import Accelerator, Transformer, chip, listed_models, model
from course_lib.specs.catalog import transformer
from course_lib.workloads import llm
from course_book.explore import choices
from course_book.explore.choices import CHIPS, format_of, names, peak_of, places, tabulated
from course_book.explore.grid import Axis, Field, drawn
from course_book.explore.views import Endless, Explorer
from course_book.text import named, t

MODELS = ("qwen3-8b", "qwen3-30b-a3b", "llama-3-8b", "llama-3-70b", "mixtral-8x7b")
# Tokens in the cache of each sequence where nothing else is said.
CONTEXT = 1024
BATCHES = range(1, 1025)
# Whole numbers of two digits, and the powers of two
CONTEXTS = tuple(
    size
    for size in sorted(
        {2**i for i in range(18)} | {first * 10**i for first in range(10, 100) for i in range(5)}
    )
    if 128 <= size <= 2**17
)
# The batches of which a line is drawn
LINE = tuple(map(int, np.unique(np.geomspace(1, BATCHES[-1], 110).round())))


class Decode(Endless):
    """The explorer of a decode step, whose time a page sums up over its operators."""

    @property
    def steps(self) -> list[llm.StepTerms]:
        """A step of each model as numbers. Every 16-bit format has the same ones."""
        return [llm.coefficients(key) for key in self.values("model")]

    @property
    def peaks(self) -> list[dict[str, float]]:
        """For each chip, by the unit, the peak of a step's arithmetic in its 16-bit format."""
        key = self.values("model")[0]
        forms = {form: llm.coefficients(key, w=form).operators for form in ("bf16", "fp16")}
        return [
            {one.unit: one.peak(on) for one in forms[format_of(on)]}
            for on in map(chip, self.values("chip"))
        ]


def upgrade(first: str = "h100-sxm", to: str = "b200-sxm", *, on: str = "llama-3-8b") -> Explorer:
    """How much faster one chip decodes than another, beside the ratios of speed and bandwidth.

    In bf16 (fp16 where a chip has no bf16), with 1024 tokens of context; what does not fit says so.

    Parameters
    ----------
    first, to : chips at first, of `course_book.explore.CHIPS`.
    on : the model at first.

    Examples
    --------
    >>> [row[1] for row in upgrade().shown(batch=1)[2:]]
    ['2.39×', '2.27×', '2.39×']
    """
    by_vendor, more = choices.vendors(CHIPS), choices.other_chips()
    axes = {
        "chip": Axis(CHIPS, t("from-chip"), names(CHIPS), first, groups=by_vendor, more=more),
        "to": Axis(CHIPS, t("to-chip"), names(CHIPS), to, groups=by_vendor, more=more),
        "model": _models(on),
        "batch": Axis(tuple(2**i for i in range(12)), t("batch"), start=1),
    }

    def ask(model: str, batch: Any, **side: str) -> dict[str, Field]:
        axis = "to" if isinstance(side["to"], str) else "chip"
        key, by, sizes = side[axis], (axis, "model", "batch"), batch.astype(float)
        form = format_of(chip(key))
        step = llm.decode(model, key, sizes, CONTEXT, w=form)
        room = llm.fits(model, key, sizes, CONTEXT, w=form)
        return {
            "time": Field(by, step.lower, "s"),
            "bound": choices.bounds(by, places(step)),
            "fit": choices.fit(by, room.fits),
        }

    def compute(at: Mapping[str, Sequence[Any]]) -> Mapping[str, Field]:
        sides = {
            prefix: tabulated((side, "model"), ask)(at)
            for prefix, side in (("", "chip"), ("to_", "to"))
        }
        time, to_time = (one["time"].values for one in sides.values())
        pair = ("chip", "to")
        first, second = ([chip(key) for key in at[side]] for side in pair)

        def ratio(rate: Callable[[Accelerator], float]) -> Field:
            rates = [[rate(two) / rate(one) for two in second] for one in first]
            return Field(pair, np.asarray(rates), "×")

        return {
            "batch": Field(("batch",), np.asarray(at["batch"], float)),
            "gain": Field((*pair, "model", "batch"), time[:, None] / to_time[None], "×"),
            "rates": ratio(peak_of),
            "widths": ratio(lambda one: one.bandwidth),
            **{f"{to}{name}": sides[to][name] for name in sides[""] for to in sides},
        }

    return Explorer("upgrade", axes, compute, **drawn("upgrade"))


def decode(on: str = "llama-3-8b", key: str = "h100-sxm", *, batch: int = 32) -> Decode:
    """Tokens per second against a step's time as the batch grows, as far as memory goes.

    In bf16 (fp16 where a chip has no bf16); dashed where the batch does not fit.

    Parameters
    ----------
    on, key : the model and the chip at first.
    batch : sequences at first, up to 1024.

    Examples
    --------
    >>> decode().shown(batch=1, context=1024)[:2]
    [['latency', '4.52 ms'], ['throughput', '221 tokens/s']]
    """
    keys = tuple(key for key in choices.with_matrix_unit() if chip(key).memory)
    axes = {
        "chip": Axis(keys, t("chip"), names(keys), key, groups=choices.vendors(keys)),
        "model": _models(on),
        "batch": Axis(BATCHES, t("batch"), start=batch, fine=True),
        "context": Axis(CONTEXTS, t("context-length"), start=2048, fine=True),
        "line": Axis(LINE, fine=True),
    }

    of, rate_unit = ("chip", "model", "context"), t("token-rate")
    by, along = (*of, "batch"), (*of, "line")

    def ask(model: str, batch: Any, line: Any, context: Any, **on: str) -> dict[str, Field]:
        sizes, line, contexts = (one.astype(float) for one in (batch, line, context))
        where, each = chip(on["chip"]), contexts[:, None]
        form = format_of(where)
        # The control goes to contexts that some models were not released for: what they would cost
        # is shown all the same.
        longer = transformer(model).extended(int(np.max(contexts)))
        step = llm.decode(longer, where, sizes, each, w=form)
        room = llm.fits(model, where, sizes, each, w=form)
        reach = llm.decode(longer, where, line, each, w=form).lower
        inside = llm.fits(model, where, line, each, w=form).fits
        most = np.asarray(room.max_batch)[:, 0]
        limit, some = np.full(most.shape, np.nan), (most >= 1) & (most <= line[-1])
        if some.any():
            limit[some] = llm.decode(longer, where, most[some], contexts[some], w=form).lower
        rates = formulas.throughput(line, reach)
        # Where the line begins to be dashed.
        end = np.where((most < line[-1]) & (most >= 1), limit, np.nan)
        return {
            "time": Field(by, step.lower, "s"),
            "rate": Field(by, formulas.throughput(sizes, step.lower), rate_unit),
            "bound": choices.bounds(by, places(step)),
            "needed": Field(by, room.needed, "B"),
            "available": Field(of[:1], where.memory, "B"),
            "fit": choices.fit(by, room.fits),
            "most": Field(of, most),
            "limit": Field(of, limit, "s"),
            "reach": Field(along, reach, "s"),
            "inside": Field(along, np.where(inside, rates, np.nan), rate_unit),
            "outside": Field(along, np.where(inside, np.nan, rates), rate_unit),
            "end": Field(of, end, "s"),
            "end_rate": Field(of, formulas.throughput(most, end), rate_unit),
        }

    return Decode("decode", axes, tabulated(of[:2], ask), **drawn("decode"))


def _models(start: str) -> Axis:
    decoders = [
        one
        for one in map(model, listed_models())
        if isinstance(one, Transformer) and one.kind == "decoder" and not one.windowed
    ]
    more = tuple((one.key, named(one.name)) for one in decoders if one.key not in MODELS)
    return Axis(MODELS, t("model"), tuple(model(key).name for key in MODELS), start, more=more)
