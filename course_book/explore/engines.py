"""Explorers of a serving engine: a batch under a limit, and the chips that a service needs.

Times are expected ones: the engine profile of `serve` with the chip's calibrated constants. A page
evaluates `averages` for every state, translated, at the few times of a step that it holds.

>>> from course_book import explore
>>> explore.slo().shown()[0]
['time of a step', '15.3 ms']
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from course_lib.core import CourseError
from course_lib.core.checks import count, positive
from course_lib.specs import chip, model
from course_tools import serve
from course_book.explore import averages
from course_book.explore.choices import names, tabulated, vendors
from course_book.explore.grid import Axis, Compute, Field, drawn
from course_book.explore.inference import CONTEXTS
from course_book.explore.inference import LINE as BATCHES
from course_book.explore.serving import link_of
from course_book.explore.views import Endless
from course_book.text import n, t

ENGINE = "vllm"
MODELS = ("llama-3-8b", "mixtral-8x7b", "llama-3-70b")
CHIPS = ("a100-sxm-80", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "l4", "rtx-4090")
GPUS = ("1", "2", "4", "8")
CHUNKS = ("0", "128", "256", "512", "1024")
# Tokens of a prompt, four to each doubling
PROMPTS = tuple(part * 2**power for power in range(2, 11) for part in (4, 5, 6, 7))[:-3]
# Whole numbers of two digits
SEVERAL = tuple(sorted({first * 10**i for first in range(10, 100) for i in range(4)}))
# Times jump where one more token begins another tile: they are held on both sides of that
TILE = 16
DIGITS = 5
_SOME, _MANY = averages.SOME, averages.MANY
# Where a page holds the times of steps of every batch and chunk
STEPS = averages.StepCounts(
    *(
        sorted({*range(1, TILE), *(TILE * i + j for i in range(1, most // TILE) for j in (0, 1))})
        for most in (2 * averages.USERS + TILE, averages.USERS + 2 * TILE)
    )
)
# Where it holds them for averages: exactly where these ask
LOADS = averages.StepCounts(
    sorted({1, _SOME, _MANY, *(_SOME + prompt for prompt in PROMPTS)}), [1, _SOME, _SOME + 1, _MANY]
)


class EngineExplorer(Endless):
    """An explorer of an engine's steps."""

    def given(self) -> dict[str, Any]:
        """What a page evaluates: the times of steps by model, chip and chips that share it."""
        shared = "gpus" in self.axes
        gpus, counts = (GPUS, LOADS) if shared else (GPUS[:1], STEPS)
        return {
            "counts": counts._asdict(),
            "steps": {
                name: {
                    key: {many: times(name, key, many, counts)._asdict() for many in gpus}
                    for key in self.values("chip")
                }
                for name in self.values("model")
            },
        }


@cache
def _pace(name: str, key: str, gpus: int) -> tuple[serve.StepTimeModel, int]:
    """Steps of a model on chips that share it, and the tokens that their cache has room for."""
    on = chip(key)
    how = serve.engine(ENGINE, tensor_parallel_size=gpus)
    longest = serve.engine(how, max_num_batched_tokens=max(STEPS.tokens + LOADS.tokens))
    pace = serve.step_times(name, on, longest, link=link_of(on, gpus, "") or None)
    try:
        return pace, serve.cache_blocks(name, on, how) * how.block_size
    except CourseError:  # the weights leave no room
        return pace, 0


def times(name: str, key: str, gpus: str, counts: averages.StepCounts) -> averages.StepTimes:
    """An engine's steps in a few numbers, of the digits that are held."""
    pace, room = _pace(name, key, int(gpus))

    def held(value: Any) -> float:
        return float(f"{value:.{DIGITS}g}")

    return averages.StepTimes(
        tokens=[held(pace.tokens[at]) for at in counts.tokens],
        heads=[held(pace.heads[at]) for at in counts.heads],
        rest=held(pace.launches + pace.step),
        pair=held(pace.math * pace.flops),
        sequence=held(pace.memory * pace.sequence),
        token=held(pace.memory * pace.token),
        order=pace.order,
        room=room,
        admits=serve.engine(ENGINE).on(chip(key)).max_num_seqs,
    )


def slo(
    on: str = "llama-3-8b", key: str = "h100-sxm", *, seen: int = 1152, limit: int = 30
) -> EngineExplorer:
    """Tokens per second of all users and of each against the batch, and a limit on each one.

    Parameters
    ----------
    on, key : the model and the chip at first.
    seen : tokens in view of each sequence at first.
    limit : on the time per output token at first, ms.

    Examples
    --------
    >>> slo().shown(batch=64)[:2]
    [['time of a step', '11.0 ms'], ['tokens/s, all users', '5,800']]
    """
    axes = {
        **_machine(on, key),
        "batch": Axis(range(1, averages.USERS + 1), t("batch"), start=128, fine=True),
        "seen": _fine(t("slo-seen"), sorted({*CONTEXTS, count("seen", seen)}), seen),
        "limit": _fine(t("slo-limit"), SEVERAL, limit),
        "chunk": Axis(CHUNKS, t("srv-chunk"), _counted(CHUNKS), "0"),
        "line": Axis(BATCHES, fine=True),
    }

    def ask(at: Mapping[str, Any]) -> dict[str, Any]:
        of = times(at["model"], at["chip"], GPUS[0], STEPS)
        limit, chunk = at["limit"] / 1000, int(at["chunk"])
        return averages.crowd(of, STEPS, at["batch"], chunk, at["seen"], limit, at["line"])

    words = {
        "within": (t("slo-over"), t("slo-within")),
        "fits": (t("does-not-fit"), t("fits")),
        "binds": (t("slo-limit-short"), t("memory")),
    }
    lined = ("line", "all_in", "all_out", "each_in", "each_out")
    computed = _asking(ask, {"time": "s"}, words, lined)
    return EngineExplorer("slo", axes, computed, **drawn("slo"))


def capacity(
    on: str = "llama-3-8b",
    key: str = "h100-sxm",
    *,
    rate: int = 100,
    prompt: int = 1024,
    output: int = 256,
    ttft: int = 500,
    tpot: int = 30,
    price: float = 4.0,
    share: int = 90,
) -> EngineExplorer:
    """GPUs that a service needs and what they cost, by averages, and the time per output token.

    Parameters
    ----------
    on, key : the model and the chip at first.
    rate : requests a second of the whole service.
    prompt, output : tokens of a request.
    ttft, tpot : limits, ms.
    price : USD an hour for a GPU.
    share : per cent of the rate at which an average reaches its limit, up to which a replica is
        filled: tails break before.

    Examples
    --------
    >>> [row[1] for row in capacity().shown(rate=200) if row[0] == "GPUs"]
    ['11']
    """
    tenths = [round(value / 10, 1) for value in range(2, 201)]
    axes = {
        **_machine(on, key),
        "gpus": Axis(GPUS, t("srv-gpus-each"), _counted(GPUS), GPUS[0]),
        "price": _fine(t("cap-price"), sorted({*tenths, float(positive("price", price))}), price),
        "rate": _fine(t("srv-rate"), (*range(1, 10), *(one for one in SEVERAL if one < 1e4)), rate),
        "share": _fine(t("cap-share"), range(30, 101), share),
        "prompt": _fine(t("srv-input-prompt"), PROMPTS, prompt),
        "output": _fine(t("srv-input-output"), PROMPTS, output),
        "ttft": _fine(t("cap-ttft"), SEVERAL, ttft),
        "tpot": _fine(t("slo-limit"), SEVERAL, tpot),
        "line": Axis(tuple(1 - np.geomspace(0.97, 0.01, 60)), fine=True),
    }

    def ask(at: Mapping[str, Any]) -> dict[str, Any]:
        of = times(at["model"], at["chip"], at["gpus"], LOADS)
        one = averages.load(of, LOADS, at["prompt"], at["output"])
        limits = at["ttft"] / 1000, at["tpot"] / 1000, at["share"] / 100
        return averages.fleet(one, *limits, at["rate"], int(at["gpus"]), at["price"], at["line"])

    units = {"tpot": "s", "first": "s", "used": "%"}
    limits = tuple(map(t, ("slo-limit-short", "cap-ttft-short", "cap-places", "memory")))
    words = {"binds": (*limits, t("does-not-fit"))}
    computed = _asking(ask, units, words, ("line_rate", "line_tpot"))
    return EngineExplorer("capacity", axes, computed, **drawn("capacity"))


def _machine(on: str, key: str) -> dict[str, Axis]:
    return {
        "chip": Axis(CHIPS, t("chip"), names(CHIPS), key, groups=vendors(CHIPS)),
        "model": Axis(MODELS, t("model"), tuple(model(one).name for one in MODELS), on),
    }


def _fine(label: str, values: Sequence[float], start: float) -> Axis:
    return Axis(tuple(values), label, start=start, fine=True)


def _counted(keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(n(int(key)) for key in keys)


# What computes the fields of an answer for every state; `lined` go along the line too.
def _asking(
    ask: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    units: Mapping[str, str],
    words: Mapping[str, tuple[str, ...]],
    lined: Sequence[str],
) -> Compute:

    def each(**one: Any) -> dict[str, Field]:
        axes = tuple(one)
        return {
            name: Field(axes if name in lined else axes[:-1], value, units.get(name, ""),
                        words.get(name, ()))
            for name, value in ask(one).items()
        }  # fmt: skip

    return lambda at: tabulated(tuple(at), each)(at)
