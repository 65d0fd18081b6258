"""What a transformer's inference keeps in a chip's memory, and whether it fits."""

from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import formulas
from course_lib.core.checks import (
    CourseError,
    Numbers,
    count,
    nonnegative,
    plain,
    positive,
    together,
    wholes,
)
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, transformer
from course_lib.workloads.precision import Formats, of_model
from course_lib.workloads.weights import (
    activation_bytes,
    cache_bytes,
    cached_tokens,
    layout,
    weight_bytes,
)


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What lies in the memory of each chip, byte. Broadcasts.

    Attributes
    ----------
    weights, kv, activations : parameters, keys and values, and what the tokens in flight leave
        between operators.
    """

    weights: Numbers
    kv: Numbers
    activations: Numbers

    @property
    def total(self) -> Numbers:
        """All of them together."""
        return self.weights + self.kv + self.activations


@dataclass(frozen=True, slots=True, eq=False)
class MemoryFit:
    """Whether a model, its cache and its activations fit. Broadcasts.

    Attributes
    ----------
    fits : whether `needed` is at most `available`.
    needed, available : byte on each chip.
    max_batch : most sequences of this length that would fit; 0 where not even one does.
    memory : what is needed, by what it is.
    """

    fits: Any
    needed: Numbers
    available: Numbers
    max_batch: Numbers
    memory: Memory


class MemoryOptions(TypedDict, total=False):
    """Formats and chips as in `course_lib.llm.decode`, and tokens in flight, whose activations
    count: the batch in decode, a chunk of the prompt in prefill; 0 leaves activations out.
    """

    w: str | Formats | None
    x: str | None
    kv: str | None
    tp: int
    ep: int
    tokens: ArrayLike


def memory(
    model: Transformer | str,
    batch: ArrayLike,
    context: ArrayLike,
    *,
    tp: int = 1,
    ep: int = 1,
    tokens: ArrayLike = 0,
    w: str | Formats | None = None,
    x: str | None = None,
    kv: str | None = None,
) -> Memory:
    """Bytes that weights, cache and activations take on each chip, with so many sequences and
    tokens in the cache of each; the rest is as `MemoryOptions` says. Broadcasts.

    Examples
    --------
    >>> memory("llama-3-8b", 16, 4096).kv / 2**30
    8.0
    """
    # Nothing is computed here: formats that leave the arithmetic open are as good as others.
    one, chips = transformer(model, windows=True), count("tp", tp)
    fm = of_model(one, None, w, x, kv, "fp32")
    sequences, length = wholes(batch=batch, context=context)
    in_flight = nonnegative("tokens", tokens)
    together(batch=sequences, context=length, tokens=in_flight)
    each = cache_bytes(one, fm, tp=chips) if one.kind == "decoder" else 0
    cached = sequences * cached_tokens(one, length) * each
    _, wide, groups = layout(one, chips, ep)
    active = in_flight * activation_bytes(one, 1, fm, tp=chips)
    return Memory(weight_bytes(one, fm, tp=chips, ep=wide), cached / groups, active / groups)


def fits(
    model: Transformer | str,
    chip: Accelerator | str,
    batch: ArrayLike,
    context: ArrayLike,
    *,
    capacity: ArrayLike | None = None,
    **given: Unpack[MemoryOptions],
) -> MemoryFit:
    """Whether a model serves so many sequences of this length from the memory of its chips.

    Parameters
    ----------
    model, chip : a transformer and an accelerator, or their keys.
    capacity : byte on each chip; the spec table's when not given, all of it. Runtimes leave less:
        say how much. "80 GB" is 80 GiB in the table; a count with 80e9 comes out smaller.
        Broadcasts.
    batch, context, **given : as in `memory`.

    Examples
    --------
    >>> fits("llama-3-8b", "h100-sxm", 1, 1024, capacity=80e9).max_batch
    476.0
    """
    on = accelerator(chip)
    if capacity is None and on.memory is None:
        raise CourseError(
            f"{on.key} has no published memory capacity: pass capacity= in bytes, or --memory in GB"
        )
    available = positive("capacity", on.memory if capacity is None else capacity)
    needed = memory(model, batch, context, **given)
    sequences, _ = wholes(batch=batch, context=context)
    together(batch=needed.kv, tokens=needed.activations, capacity=available)
    left = np.asarray(available - needed.weights - needed.activations)
    sequence = np.asarray(needed.kv) / sequences
    some = formulas.largest(left, np.where(sequence > 0, sequence, 1.0))
    most = plain(np.where(left < 0, 0.0, np.where(sequence > 0, some, np.inf)))
    inside: Any = plain(np.asarray(needed.total) <= available)
    return MemoryFit(inside, needed.total, available, most, needed)
