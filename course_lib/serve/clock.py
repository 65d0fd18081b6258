"""How long an engine's steps take: one model of a step, `llm.mixed`, tabulated so that a simulation
may ask for millions of them.

Everything but attention depends on the count of tokens alone, and the head on the count of
sequences; attention depends on how many tokens look at how many. So a step is two looks into a
table and one product.
"""

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib.calibrate import Calibration, calibration
from course_lib.calibrate.kernels import kernels_of, overlapped
from course_lib.calibrate.timing import sums
from course_lib.core import Estimate, Work, summed
from course_lib.serve.settings import EngineSettings
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, decoder
from course_lib.workloads import llm
from course_lib.workloads.precision import Formats, formats
from course_lib.workloads.transformer import operators

__all__ = ["Pace", "pace"]

_HEAD = "head"
_ATTENTION = "attention"


@dataclass(frozen=True, slots=True, eq=False)
class Pace:
    """The time of an engine's steps.

    Attributes
    ----------
    tokens : s that all but attention and the head take, by count of tokens; from 0.
    heads : s that the head takes, by count of sequences; from 0.
    launches : s that attention's kernels take beside their work.
    math, memory : s of a FLOP and of a byte of attention.
    order : how well attention's arithmetic hides its traffic, as a norm; infinite in a bound.
    flops : FLOP of attention for each pair of a token and one that it looks at.
    sequence, token : byte of attention that each new token moves, and each token in a cache.
    step : s that the engine adds to each step.
    calibrated : whether these are likely times; else they are lower bounds.
    source : where the constants are from.
    """

    tokens: NDArray[np.float64]
    heads: NDArray[np.float64]
    launches: float
    math: float
    memory: float
    order: float
    flops: float
    sequence: float
    token: float
    step: float
    calibrated: bool
    source: str

    def seconds(self, tokens: int, sequences: int, pairs: float, new: float, seen: float) -> float:
        """A step of so many tokens and sequences.

        Parameters
        ----------
        tokens, sequences : new tokens, and sequences that they belong to.
        pairs : tokens times what each looks at, summed.
        new : new tokens, as attention counts them.
        seen : tokens in the caches that are read.
        """
        busy = self.math * self.flops * pairs
        moved = self.memory * (self.sequence * new + self.token * seen)
        attention = overlapped(busy, moved, self.order)
        return float(
            self.tokens[tokens] + self.heads[sequences] + self.launches + attention + self.step
        )

    def decoding(self, sequences: int, seen: float, steps: int) -> NDArray[np.float64]:
        """So many decode steps one after another, each with one token more in every cache.

        Parameters
        ----------
        sequences : that decode.
        seen : tokens in their caches in the first step, the new ones included.
        steps : how many.
        """
        reads = seen + sequences * np.arange(steps)
        busy = self.math * self.flops * reads
        moved = self.memory * (self.sequence * sequences + self.token * reads)
        fixed = self.tokens[sequences] + self.heads[sequences] + self.launches + self.step
        return np.asarray(fixed + overlapped(busy, moved, self.order))


def pace(
    model: Transformer | str,
    chip: Accelerator | str,
    engine: EngineSettings,
    *,
    calibrated: bool = True,
    w: str = "bf16",
    x: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
    link: Any = None,
) -> Pace:
    """The steps of a model on a chip, or on several that share it.

    Latent attention works on the latent vectors in every step.

    Parameters
    ----------
    model, chip : a transformer that decodes and an accelerator, or their keys.
    engine : how many tokens and sequences a step may have, over how many chips, and what it adds.
    calibrated : likely times, with the constants of the chip and of the engine; ``False`` gives
        lower bounds.
    w, x, kv, compute, link : as in `llm.decode`.

    Examples
    --------
    >>> from course_lib.serve.settings import engine
    >>> steps = pace("llama-3-8b", "h100-sxm", engine("vllm"), calibrated=False)
    >>> step = llm.mixed("llama-3-8b", "h100-sxm", [1] * 63 + [512], [1024] * 63 + [512])
    >>> pairs = 63 * 1024 + 512 * 513 / 2
    >>> took = steps.seconds(63 + 512, 64, pairs, 63 + 512, 63 * 1024 + 512)
    >>> abs(took / step.lower - 1) < 1e-9
    True
    """
    one, on, fm = decoder(model), accelerator(chip), formats(w, x, kv, compute)
    shared = engine.tensor_parallel_size
    how: dict[str, Any] = {"w": fm.w, "x": fm.x, "kv": fm.kv, "compute": fm.matmul}
    counts = np.arange(1.0, max(engine.max_num_batched_tokens, engine.max_num_seqs) + 1)
    step = llm.decode(one, on, counts, 1, **how, tp=shared, link=link)
    parts = dict(step.parts)
    parts.pop(_ATTENTION)
    head = parts.pop(_HEAD)
    found = _constants(on, fm, engine) if calibrated else None
    work = _attention(one, fm, shared)
    flops, sequence, token = _coefficients(one, fm, shared)
    alone = bounded(work, on)
    math_, memory = float(alone.t_math / alone.flops), 1 / on.bandwidth
    if found is None:
        launches, order, extra, source = 0.0, math.inf, 0.0, "lower bounds from datasheets"
    else:
        c = found.constants
        math_, memory, order = math_ / c.compute, memory / c.bandwidth, c.overlap
        launches = float(work.kernels) * (c.overhead + found.engine.gap)
        extra, source = engine.step, f"{engine.source}; {found.source}"
    return Pace(
        tokens=_from_zero(_times(summed(parts), on, found)),
        heads=_from_zero(_times(summed({_HEAD: head}), on, found)),
        launches=launches,
        math=math_,
        memory=memory,
        order=order,
        flops=flops,
        sequence=sequence,
        token=token,
        step=extra,
        calibrated=found is not None,
        source=source,
    )


def _constants(chip: Accelerator, fm: Formats, engine: EngineSettings) -> Calibration:
    """The chip's constants with the engine's put in."""
    found = calibration(chip, fm.matmul)
    reached = min(found.constants.bandwidth * engine.bandwidth, 1.0)
    constants = msgspec.structs.replace(found.constants, bandwidth=reached)
    return msgspec.structs.replace(found, constants=constants)


def _times(estimate: Estimate, chip: Accelerator, found: Calibration | None) -> Any:
    """What the kernels of an estimate take, replayed as a whole where constants are given."""
    if found is None:
        return estimate.lower
    time = sums(kernels_of(estimate), chip, found, found.engine.gap, True)[0]
    return np.maximum(time, estimate.lower)


def _from_zero(times: Any) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.atleast_1d(times)])


def _attention(model: Transformer, fm: Formats, tp: int) -> Work:
    return operators(model, 1, 1, 2, fm, tp=tp)[_ATTENTION][_ATTENTION]


def _coefficients(model: Transformer, fm: Formats, tp: int) -> tuple[float, float, float]:
    """FLOP of a pair; byte of a new token, and of one that is looked at."""
    seen = operators(model, 1, 1, np.array([1.0, 2.0]), fm, tp=tp)[_ATTENTION][_ATTENTION]
    flops, moved = np.asarray(seen.flops), np.asarray(seen.bytes)
    token = float(moved[1] - moved[0])
    return float(flops[1] - flops[0]), float(moved[0] - token), token
