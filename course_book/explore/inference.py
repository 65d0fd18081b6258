"""Explorers of inference: a step of decoding, and an upgrade to another chip.

Each function says what can be chosen and asks the rest of the library for every choice; none has a
formula of its own. On the site a plot is drawn from the table that was computed here;
elsewhere it is a picture of its first state, and in a notebook with a live kernel a set of widgets
that take any number.

>>> from course_book import explore
>>> explore.decode().shown(batch=1, context=1024)[0]
['latency', '4.52 ms']
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_lib.core import formulas
from course_lib.specs import Transformer, chip, model, models
from course_lib.specs.catalog import transformer
from course_lib.workloads import llm
from course_book.explore.choices import (
    CHIPS,
    Choices,
    bounds,
    format_of,
    names,
    other_chips,
    peak_of,
    places,
    shape,
    vendors,
    with_matrix_unit,
)
from course_book.explore.grid import Axis, ChartLayer, Field, TableRow
from course_book.explore.views import Endless, Explorer
from course_book.plot import PATHS
from course_book.text import named, t

MODELS = ("llama-2-7b", "llama-3-8b", "llama-2-13b", "mixtral-8x7b", "llama-3-70b")
CONTEXT = 1024
"""Tokens in the cache of each sequence where nothing else is said."""
BATCHES = range(1, 1025)
CONTEXTS = tuple(
    size
    for size in sorted(
        {2**i for i in range(18)} | {first * 10**i for first in range(10, 100) for i in range(5)}
    )
    if 128 <= size <= 2**17
)
"""Whole numbers of two digits, and the powers of two."""
LINE = tuple(map(int, np.unique(np.geomspace(1, BATCHES[-1], 110).round())))
"""The batches of which a line is drawn."""


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
    """How much faster one chip decodes than another, against the ratios of their speed and of their
    bandwidth.

    Formats are bf16 (fp16 where a chip has no bf16), each sequence has 1024 tokens of context, and
    what does not fit into a chip's memory says so.

    Parameters
    ----------
    first, to : chips at first, of `course_book.explore.CHIPS`.
    on : the model at first.

    Returns
    -------
    Explorer

    Raises
    ------
    CourseError
        If a chip or the model is not offered.

    Examples
    --------
    >>> [row[1] for row in upgrade().shown(batch=1)[2:]]
    ['2.39×', '2.27×', '2.39×']
    """
    by_vendor, more = vendors(CHIPS), other_chips()
    axes = {
        "chip": Axis(CHIPS, t("from-chip"), names(CHIPS), first, groups=by_vendor, more=more),
        "to": Axis(CHIPS, t("to-chip"), names(CHIPS), to, groups=by_vendor, more=more),
        "model": _models(on),
        "batch": Axis(tuple(2**i for i in range(12)), t("batch"), start=1),
    }

    def compute(at: Choices) -> Mapping[str, Field]:
        sizes = np.asarray(at["batch"], dtype=float)
        time, to_time = (_steps(at[side], at["model"], sizes) for side in ("chip", "to"))
        rates, to_rates = (
            np.asarray([peak_of(chip(key)) for key in at[side]]) for side in ("chip", "to")
        )
        widths, to_widths = (
            np.asarray([chip(key).bandwidth for key in at[side]]) for side in ("chip", "to")
        )
        pair = ("chip", "to")
        return {
            "batch": Field(("batch",), sizes),
            "gain": Field((*pair, "model", "batch"), time[0][:, None] / to_time[0][None], "×"),
            "rates": Field(pair, to_rates / rates[:, None], "×"),
            "widths": Field(pair, to_widths / widths[:, None], "×"),
            "time": Field(("chip", "model", "batch"), time[0], "s"),
            "to_time": Field(("to", "model", "batch"), to_time[0], "s"),
            "bound": bounds(("chip", "model", "batch"), time[1]),
            "to_bound": bounds(("to", "model", "batch"), to_time[1]),
            "fit": _fit(("chip", "model", "batch"), at["chip"], at["model"], sizes, CONTEXT),
            "to_fit": _fit(("to", "model", "batch"), at["to"], at["model"], sizes, CONTEXT),
        }

    return Explorer(
        "upgrade",
        axes,
        compute,
        [
            ChartLayer("level", "", "rates", color=PATHS["math"], name="FLOP/s"),
            ChartLayer("level", "", "widths", color=PATHS["memory"], name="B/s"),
            ChartLayer("line", "batch", "gain", ("batch",), color=0, name="T/T′"),
            ChartLayer("dot", "batch", "gain", color=0),
        ],
        [
            TableRow(("@chip", "time", "bound", "fit")),
            TableRow(("@to", "to_time", "to_bound", "to_fit")),
            TableRow((f"={t('speed-up')}", "gain", "=", "="), color=0),
            TableRow((f"={t('peak-ratio')}", "rates", "=", "="), color=PATHS["math"]),
            TableRow((f"={t('bandwidth-ratio')}", "widths", "=", "="), color=PATHS["memory"]),
        ],
        head=("", "T", t("bound"), t("memory")),
        x_label="B",
        y_label="T/T′",
    )


def decode(on: str = "llama-3-8b", key: str = "h100-sxm", *, batch: int = 32) -> Decode:
    """Tokens per second against the time of a step, as the batch grows, up to what the chip's
    memory holds.

    Weights, cache and arithmetic are in bf16 (fp16 where a chip has no bf16). The line is dashed
    where the batch does not fit; upright is the step's time at the largest batch that does.

    Parameters
    ----------
    on, key : the model and the chip at first.
    batch : sequences at first, up to 1024.

    Returns
    -------
    Decode

    Raises
    ------
    CourseError
        If the model, the chip or the batch is not offered.

    Examples
    --------
    >>> decode().shown(batch=1, context=1024)[:2]
    [['latency', '4.52 ms'], ['throughput', '221 tokens/s']]
    """
    keys = tuple(key for key in with_matrix_unit() if chip(key).memory)
    axes = {
        "chip": Axis(keys, t("chip"), names(keys), key, groups=vendors(keys)),
        "model": _models(on),
        "batch": Axis(BATCHES, t("batch"), start=batch, fine=True),
        "context": Axis(CONTEXTS, t("context-length"), start=2048, fine=True),
        "line": Axis(LINE, fine=True),
    }

    def compute(at: Choices) -> Mapping[str, Field]:
        of, by, along = (
            ("chip", "model", "context", *more) for more in ((), ("batch",), ("line",))
        )
        time, bound, needed, fit = (np.full(shape(at, *by), np.nan) for _ in range(4))
        reach, inside = (np.full(shape(at, *along), np.nan) for _ in range(2))
        most, limit = (np.full(shape(at, *of), np.nan) for _ in range(2))
        available = np.asarray([chip(key).memory for key in at["chip"]], dtype=float)
        sizes, line = (np.asarray(at[name], dtype=float) for name in ("batch", "line"))
        contexts = np.asarray(at["context"], dtype=float)
        for i, where in enumerate(map(chip, at["chip"])):
            for j, what in enumerate(at["model"]):
                form = format_of(where)
                # The control goes to contexts that some models were not released for: what they
                # would cost is shown all the same.
                longer = transformer(what).extended(int(np.max(contexts)))
                step = llm.decode(longer, where, sizes, contexts[:, None], w=form)
                room = llm.fits(what, where, sizes, contexts[:, None], w=form)
                time[i, j], bound[i, j] = step.lower, places(step)
                needed[i, j], fit[i, j] = room.needed, room.fits
                most[i, j] = np.asarray(room.max_batch)[:, 0]
                reach[i, j] = llm.decode(longer, where, line, contexts[:, None], w=form).lower
                inside[i, j] = llm.fits(what, where, line, contexts[:, None], w=form).fits
                some = (most[i, j] >= 1) & (most[i, j] <= line[-1])
                if some.any():
                    limit[i, j, some] = llm.decode(
                        longer, where, most[i, j, some], contexts[some], w=form
                    ).lower
        rates, ends = formulas.throughput(line, reach), (most < line[-1]) & (most >= 1)
        rate_unit = t("token-rate")
        return {
            "time": Field(by, time, "s"),
            "rate": Field(by, formulas.throughput(sizes, time), rate_unit),
            "bound": bounds(by, bound),
            "needed": Field(by, needed, "B"),
            "available": Field(("chip",), available, "B"),
            "fit": Field(by, fit, words=(t("does-not-fit"), t("fits"))),
            "most": Field(of, most),
            "limit": Field(of, limit, "s"),
            "reach": Field(along, reach, "s"),
            "inside": Field(along, np.where(inside == 1, rates, np.nan), rate_unit),
            "outside": Field(along, np.where(inside == 1, np.nan, rates), rate_unit),
            # Where the line begins to be dashed.
            "end": Field(of, np.where(ends, limit, np.nan), "s"),
            "end_rate": Field(
                of, np.where(ends, formulas.throughput(most, limit), np.nan), rate_unit
            ),
        }

    end = ("end", "end_rate")
    return Decode(
        "decode",
        axes,
        compute,
        [
            ChartLayer("rule", "limit", color="muted", name=t("largest-batch-short")),
            ChartLayer("line", "reach", "inside", ("line",), {}, "@chip", "@chip", end),
            ChartLayer("dash", "reach", "outside", ("line",), {}, "@chip", t("does-not-fit"), end),
            ChartLayer("dot", "time", "rate", color="@chip"),
        ],
        [
            TableRow((f"={t('latency')}", "time"), color="@chip"),
            TableRow((f"={t('throughput')}", "rate"), color="@chip"),
            TableRow((f"={t('bound')}", "bound")),
            TableRow((f"={t('memory-needed')}", "needed")),
            TableRow((f"={t('memory')}", "available")),
            TableRow((f"={t('in-memory')}", "fit")),
            TableRow((f"={t('largest-batch')}", "most"), color="muted"),
        ],
        x_label="T (s)",
        y_label=f"P ({t('token-rate')})",
    )


def _models(start: str) -> Axis:
    decoders = [
        one
        for one in map(model, models())
        if isinstance(one, Transformer) and one.kind == "decoder"
    ]
    more = tuple((one.key, named(one.name)) for one in decoders if one.key not in MODELS)
    return Axis(MODELS, t("model"), tuple(model(key).name for key in MODELS), start, more=more)


def _steps(
    keys: Sequence[str], names: Sequence[str], sizes: NDArray[np.float64]
) -> tuple[Any, Any]:
    """Seconds of a decode step, and the place of its bound, by chip, model and batch."""
    steps = [
        [llm.decode(name, key, sizes, CONTEXT, w=format_of(chip(key))) for name in names]
        for key in keys
    ]
    times = np.asarray([[step.lower for step in row] for row in steps])
    return times, np.asarray([[places(step) for step in row] for row in steps])


def _fit(
    by: tuple[str, ...],
    keys: Sequence[str],
    names: Sequence[str],
    sizes: NDArray[np.float64],
    context: int,
) -> Field:
    inside = [
        [llm.fits(name, key, sizes, context, w=format_of(chip(key))).fits for name in names]
        for key in keys
    ]
    return Field(by, np.asarray(inside, dtype=float), words=(t("does-not-fit"), t("fits")))
