"""The explorer of training layouts: which way of spreading a model is fastest, and which fit.

>>> from course_book import explore
>>> explore.layouts().shown(tp=8, pp=1)[0]
['TP', '8', '2']
"""

from functools import cache
from typing import Any

import numpy as np

from course_lib.core import CourseError
from course_lib.specs import model
from course_tools import train
from course_book.explore.choices import tabulated
from course_book.explore.grid import Axis, Field, drawn
from course_book.explore.maps import Map
from course_book.text import t

MODELS = ("llama-3-8b", "llama-3-70b", "llama-3-405b")
COUNTS = (8, 64, 512)
BATCHES = (128, 512, 2048)
STAGES = ("0", "1", "2", "3")
SPREAD = (1, 2, 4, 8, 16)  # Chips that share each layer, and stages of a pipeline
BY = ("model", "chips", "batch", "zero")
CELLS = (*BY, "tp", "pp")
RECOMPUTE = tuple(train.PASSES)
# What can take most of a step beside the arithmetic of its products and its attention
LOST = tuple(
    name for name in train.PARTS if name not in ("products", "attention", "context", "experts")
)
# What is said of a layout, and in which unit
QUANTITIES = dict.fromkeys(("dp", "mbs", "acc", "recompute"), "")
QUANTITIES |= {"needed": "B", "fit": "", "bound": "s", "expected": "s", "like": "s"}
QUANTITIES |= {"rate": "", "mfu": "%", "lost": "", "share": "%"}


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
    each with the microbatch and the recomputation that are fastest of those that fit; those that
    do not fit have the memory that they need at least.

    Parameters
    ----------
    on : the model at first.
    chips, batch, zero : at first: of the cluster, sequences of a step, and ZeRO's stage.
    key : of the chip.
    sequence : tokens of a sequence.

    Examples
    --------
    >>> figure = layouts("llama-3-70b")
    >>> len(list(figure.tiles(figure.layers[3], figure.state())))
    1
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
        "lost": tuple(t(f"layouts-lost-{one}") for one in LOST),
        "fit": (t("does-not-fit"), t("fits")),
    }

    def ask(model: str, chips: int, batch: int, zero: str, tp: Any, pp: Any) -> dict[str, Field]:
        cells = {name: np.full([len(tp), len(pp)], np.nan) for name in (*QUANTITIES, "over")}
        best: dict[str, float] = {"order": np.inf}
        for i, j in np.ndindex(cells["over"].shape):
            run, spread = (f"{chips}x{key}", batch, sequence), (int(tp[i]), int(pp[j]))
            here = _cell(model, run, int(zero), *spread) or {}
            for name in cells.keys() & here:
                cells[name][i, j] = here[name]
            if here and not here["fit"]:
                cells["over"][i, j] = here["needed"]
            elif here and here["order"] < best["order"]:
                best = {"tp": tp[i], "pp": pp[j], **here}
        best = best if "tp" in best else {}
        looks = {name: (unit, words.get(name, ())) for name, unit in QUANTITIES.items()}
        looks |= {"over": ("B", ())}
        return {
            "tp": Field(("tp",), tp),
            "pp": Field(("pp",), pp),
            **{name: Field(CELLS, cells[name], *look) for name, look in looks.items()},
            **{
                f"best_{name}": Field(BY, best.get(name, np.nan), *looks.get(name, ()))
                for name in ("tp", "pp", *QUANTITIES)
            },
        }

    return Map("layouts", axes, tabulated(BY, ask), **drawn("layouts"))


_Run = tuple[str, int, int]  # Chips as text, the sequences of a step, and the tokens of each


@cache
def _fastest(name: str, run: _Run) -> dict[tuple[int, int, int], dict[str, float]]:
    """The fastest layout that fits, by ZeRO's stage, tensor- and pipeline-parallel chips."""
    found: dict[tuple[int, int, int], dict[str, float]] = {}
    for one in train.layouts(name, *run, zeros=tuple(map(int, STAGES))):
        step, how = one.step, one.layout
        lost = max(LOST, key=lambda part: step.parts[part])
        said = {
            "dp": how.dp,
            "mbs": how.mbs,
            "acc": how.acc,
            "recompute": RECOMPUTE.index(how.recompute),
            "needed": float(step.memory.total),
            "fit": 1,
            "bound": step.bound_s,
            "expected": step.expected_s,
            "like": step.measured_s["nanotron"],
            "order": one.behind,
            "rate": step.tokens_per_s_per_chip,
            "mfu": step.mfu,
            "lost": LOST.index(lost),
            "share": step.parts[lost] / step.expected_s,
        }
        found.setdefault((how.zero, how.tp, how.pp), said)
    return found


@cache
def _cluster(chips: str) -> tuple[int, float]:
    """How many chips it is, and the bytes of each that a run can use."""
    on = train.cluster(chips)
    return on.count, train.constants().usable * float(on.chip.memory or 0)


@cache
def _cell(name: str, run: _Run, zero: int, tp: int, pp: int) -> dict[str, float] | None:
    """The fastest layout that fits, else that which needs least; a single copy has no ZeRO."""
    chips, batch, sequence = run
    count, room = _cluster(chips)
    dp, rest = divmod(count, tp * pp)
    if rest or not dp or batch % dp:
        return None
    zero = zero if dp > 1 else 0
    if found := _fastest(name, run).get((zero, tp, pp)):
        return found
    acc, least = batch // dp, RECOMPUTE[-1]
    try:
        how = train.Layout(dp=dp, tp=tp, pp=pp, zero=zero, acc=acc, recompute=least)
        needed = float(train.memory(name, how, sequence).total)
    except CourseError:  # the model does not divide
        return None
    if (zero > 1 and pp > 1) or needed <= room:
        return None
    said = {"dp": dp, "mbs": 1, "acc": acc, "recompute": RECOMPUTE.index(least)}
    return {**said, "needed": needed, "fit": 0}
