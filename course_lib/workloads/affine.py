"""A decode step as numbers: what each operator takes once, for each sequence and for each token in
its cache, so that `core.formulas` alone says its time at any batch and context, on a page too.
"""

from dataclasses import dataclass
from math import inf
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from course_lib.core import Unit, Work
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, decoder
from course_lib.workloads.footprint import memory
from course_lib.workloads.precision import FormatOptions, of_model
from course_lib.workloads.transformer import operators
from course_lib.workloads.weights import active_copies, matrices

MANY = 2**20
"""Sequences that leave no expert untouched, of which all bytes are still whole numbers."""
_BATCHES, _CONTEXTS = np.array([1, 2, 1, MANY, 2 * MANY]), np.array([1, 1, 2, 1, 1])

Parts = tuple[float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class StepTerm:
    """An operator of a step over all layers.

    Attributes
    ----------
    part, name : the part of the step that it belongs to, and what it is called there.
    unit, dtype : where its arithmetic runs, and in which format.
    flops, bytes : as `core.formulas.amount` takes them.
    """

    part: str
    name: str
    unit: Unit
    dtype: str
    flops: Parts
    bytes: Parts

    def peak(self, chip: Accelerator | str) -> float:
        """FLOP/s that it meets on a chip; `inf` where its arithmetic takes no time there."""
        on = accelerator(chip)
        met = bounded(Work(1.0, 1.0, self.dtype, self.unit), on)
        return on.peak(self.dtype, met.work.unit) if met.work and met.t_math else inf


@dataclass(frozen=True, slots=True)
class StepTerms:
    """A decode step of a model: `operators` in the order in which they run, and bytes of `memory`
    that weights and cache take, as `core.formulas.amount` takes them.
    """

    operators: tuple[StepTerm, ...]
    memory: Parts


def coefficients(model: Transformer | str, **given: Unpack[FormatOptions]) -> StepTerms:
    """What `decode` and `fits` sum up for one chip, at every batch and context, as numbers.

    They are found by asking for a few steps, none by counting anew. Contexts that the model was not
    released for are not refused.

    Parameters
    ----------
    model : a transformer that decodes, or its key.
    **given : formats w, x, kv and compute, as in `course_lib.llm.decode`.

    Examples
    --------
    >>> from course_lib.core import formulas
    >>> step = coefficients("llama-3-8b")
    >>> formulas.amount(step.memory, 16, 4096) == memory("llama-3-8b", 16, 4096).total
    True
    """
    one = decoder(model)
    fm = of_model(one, None, **given)
    # The share of the routed experts that one sequence leaves untouched.
    left = {
        (each.part, each.name): 1 - active_copies(each, 1) / each.copies
        for each in matrices(one)
        if each.routed
    }
    terms = [
        StepTerm(
            part,
            name,
            work.unit,
            work.dtype,
            _parts(work.flops),
            _parts(work.bytes, left.get((part, name), 0.0)),
        )
        for part, works in operators(one, _BATCHES, 1, _CONTEXTS, fm).items()
        for name, work in works.items()
    ]
    return StepTerms(tuple(terms), _parts(memory(one, _BATCHES, _CONTEXTS, w=fm).total))


def _parts(asked: Any, left: float = 0.0) -> Parts:
    """The parts of an amount from its values at `_BATCHES` and `_CONTEXTS`; `left` is the share of
    the routed experts that a sequence leaves untouched, where there are any.
    """
    values: NDArray[np.float64] = np.broadcast_to(asked, _BATCHES.shape)
    one, two, longer, many, twice = values.tolist()
    token = longer - one
    if not left:
        sequence = two - one
        return one - sequence, sequence - token, token, 0.0, 0.0
    # A large batch touches all experts: what one sequence lacks of that, it leaves.
    sequence = (twice - many) / MANY
    once = many - sequence * MANY
    experts = (once + sequence - one) / left
    return once - experts, sequence - token, token, experts, left
