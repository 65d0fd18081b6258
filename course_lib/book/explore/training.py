"""The explorer of training layouts: which way of spreading a model is fastest, and which fit.

>>> from course_lib import explore
>>> explore.layouts().shown(tp=8, pp=1)[0]
['TP', '8', '1']
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from course_lib import train
from course_lib.book.explore.choices import Choices, shape
from course_lib.book.explore.grid import Axis, ChartLayer, Field, TableRow
from course_lib.book.explore.maps import Map
from course_lib.book.text import t
from course_lib.specs import model

__all__ = ["layouts"]

MODELS = ("llama-3-8b", "mpt-30b", "llama-3-70b")
COUNTS = (8, 64, 512)
BATCHES = (128, 512, 2048)
STAGES = ("0", "1", "2", "3")
SPREAD = (1, 2, 4, 8, 16)
"""Chips that share each layer, and stages of a pipeline."""
BY = ("model", "chips", "batch", "zero")
CELLS = (*BY, "tp", "pp")
RECOMPUTE = ("none", "selective", "full")
LIMITS = ("compute", "memory", "tp", "dp", "pp", "optimizer")
"""What can take most of a step, beside what is computed."""
QUANTITIES = {
    "dp": "",
    "mbs": "",
    "acc": "",
    "recompute": "",
    "needed": "B",
    "rate": "",
    "mfu": "%",
    "bubble": "%",
    "bound": "",
    "fit": "",
}
"""What is said of a layout, and in which unit."""


def layouts(
    on: str = "llama-3-8b",
    *,
    chips: int = 64,
    batch: int = 512,
    zero: str = "1",
    key: str = "h100-sxm",
    sequence: int = 4096,
) -> Map:
    """Tokens per second and chip of every tensor- and pipeline-parallel layout of a training step,
    each with the micro-batch and the recomputation that are fastest of those that fit; those that
    do not fit have the memory that they need at least.

    Parameters
    ----------
    on : the model at first.
    chips, batch, zero : at first: of the cluster, sequences of a step, and ZeRO's stage.
    key : of the chip.
    sequence : tokens of a sequence.

    Raises
    ------
    CourseError
        If one of them is not offered.
    """
    axes = {
        "model": Axis(MODELS, t("model"), tuple(model(one).name for one in MODELS), on),
        "chips": Axis(COUNTS, t("chips"), start=chips),
        "batch": Axis(BATCHES, t("layouts-batch"), start=batch),
        "zero": Axis(STAGES, t("layouts-zero"), STAGES, zero),
        "tp": Axis(SPREAD, "TP", start=8),
        "pp": Axis(SPREAD, "PP", start=1),
    }
    words = {
        "recompute": tuple(t(f"layouts-{one}") for one in RECOMPUTE),
        "bound": tuple(t(f"layouts-bound-{one}") for one in LIMITS),
        "fit": (t("does-not-fit"), t("fits")),
    }

    def compute(at: Choices) -> Mapping[str, Field]:
        cells = {name: np.full(shape(at, *CELLS), np.nan) for name in QUANTITIES}
        best = {name: np.full(shape(at, *BY), np.nan) for name in ("tp", "pp", *QUANTITIES)}
        for place in np.ndindex(shape(at, *BY)):
            chosen = dict(
                zip(BY, (at[by][i] for by, i in zip(BY, place, strict=True)), strict=True)
            )
            found = _found(chosen, at["tp"], at["pp"], key, sequence)
            for (i, j), one in found.items():
                for name, value in one.items():
                    cells[name][(*place, i, j)] = value
            fitting = {spread: one["rate"] for spread, one in found.items() if one["fit"]}
            if fitting:
                i, j = max(fitting, key=fitting.__getitem__)
                for name, value in {**found[i, j], "tp": at["tp"][i], "pp": at["pp"][j]}.items():
                    best[name][place] = value
        fits = cells["fit"] == 1
        over = np.where(cells["fit"] == 0, cells["needed"], np.nan)
        cells["rate"][~fits] = np.nan
        return {
            **{name: Field((name,), np.asarray(at[name], float)) for name in ("tp", "pp")},
            **{
                name: Field(CELLS, one, QUANTITIES[name], words.get(name, ()))
                for name, one in cells.items()
            },
            "over": Field(CELLS, over, "B"),
            **{
                f"best_{name}": Field(BY, one, QUANTITIES.get(name, ""), words.get(name, ()))
                for name, one in best.items()
            },
        }

    tip = ("=TP", "@tp", "=· PP", "@pp", "=·", "needed", "=·", "fit", "=·", "bound")
    return Map(
        "layouts",
        axes,
        compute,
        [
            ChartLayer("hatch", "tp", "pp", ("tp", "pp"), color="muted", shade="over", tip=tip),
            ChartLayer(
                "cell",
                "tp",
                "pp",
                ("tp", "pp"),
                {},
                0,
                t("layouts-row-rate"),
                shade="rate",
                tip=tip,
            ),
            ChartLayer("frame", "tp", "pp", color="muted"),
            ChartLayer("frame", "best_tp", "best_pp", color=1, name="★"),
        ],
        [
            TableRow((f"={label}", name, f"best_{name}"))
            for name, label in {"tp": "TP", "pp": "PP"}.items()
        ]
        + [TableRow((f"={t(f'layouts-row-{name}')}", name, f"best_{name}")) for name in QUANTITIES],
        head=("", t("layouts-chosen"), f"★ {t('layouts-best')}"),
        x_label=t("layouts-tp"),
        y_label=t("layouts-pp"),
    )


def _found(
    chosen: Mapping[str, Any], tps: Sequence[int], pps: Sequence[int], key: str, sequence: int
) -> dict[tuple[int, int], dict[str, float]]:
    """The fastest layout of each place of the map that fits, or the smallest where none does."""
    raise NotImplementedError
