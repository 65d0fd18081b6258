"""FLOPs of training on a token, and what share of a chip's peak a published speed makes of them.

The convention is that of the tables it is checked against: two FLOPs a multiply-accumulate, every
parameter that a token meets multiplied once in the forward pass and twice in the backward, and
attention's two products besides. Whether attention counts the causal half or the whole square is
said in every call, because published figures differ in it.

>>> round(mfu("mpt-7b", "a100-sxm-80", 4096, 2048), 3)
0.567
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import (
    CourseError,
    Numbers,
    flag,
    known,
    plain,
    positive,
    shown,
    together,
    whole,
)
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, transformer

Recompute = Literal["none", "selective", "full"]
PASSES = {"none": 3, "selective": 3, "full": 4}
"""Forward passes that a step is worth: the backward one is worth two, and recomputing all
activations adds a forward one. Recomputing what no product made adds no product.
"""


def flops(
    model: Transformer | str,
    sequence: ArrayLike,
    *,
    causal: bool = False,
    recompute: Recompute = "none",
    parameters: ArrayLike | None = None,
) -> Numbers:
    """FLOPs of training on one token: 6 for each parameter, and attention.

    Parameters
    ----------
    model : a transformer or its key.
    sequence : tokens that are trained on together. Broadcasts.
    causal : count only the pairs that a token sees, (sequence + 1) / 2 each, rather than the whole
        square.
    recompute : ``"full"`` adds the second forward pass of activation checkpointing;
        ``"selective"`` adds no product. A model's own FLOPs, for the MFU, have none.
    parameters : counted instead of the model's active ones: the embedding's are in those, as in the
        rule 6ND. Broadcasts.

    Returns
    -------
    FLOP per token.

    References
    ----------
    [austin2025] chapter 4.

    Examples
    --------
    >>> round(flops("llama-3-8b", 8192) / 1e9, 1), round(flops("llama-3-8b", 8192,
    ...     causal=True) / 1e9, 1)
    (61.1, 54.6)
    """
    one = transformer(model)
    tokens = whole("sequence", sequence)
    met = positive("parameters", one.active_parameters if parameters is None else parameters)
    together(sequence=tokens, parameters=met)
    seen = (tokens + 1) / 2 if flag("causal", causal) else tokens
    products = one.heads * (_key(one) + _value(one)) * one.layers * seen
    return plain(PASSES[known("recompute", recompute, PASSES)] * 2 * (met + products))


def _key(model: Transformer) -> int:
    return model.latent.nope + model.latent.rope if model.latent else model.head_dim


def _value(model: Transformer) -> int:
    return model.latent.value if model.latent else model.head_dim


def mfu(
    model: Transformer | str,
    chip: Accelerator | str,
    tokens_per_second: ArrayLike,
    sequence: ArrayLike,
    *,
    causal: bool = False,
    dtype: str = "bf16",
    parameters: ArrayLike | None = None,
) -> Numbers:
    """Model FLOPs utilisation: the share of the peak that the model's own FLOPs make, whatever was
    computed twice.

    Parameters
    ----------
    model, chip : a transformer and an accelerator, or their keys.
    tokens_per_second : of one chip: of the whole machine divided by its chips. Broadcasts.
    sequence, causal, parameters : as in `flops`.
    dtype : format whose peak it is a share of.

    Returns
    -------
    A fraction. Above 1 the claim is impossible, or its FLOPs are counted another way.

    References
    ----------
    [austin2025] chapter 4.

    Examples
    --------
    >>> whole_square = mfu("llama-2-7b", "a100-sxm-80", 3500, 4096)
    >>> round(whole_square, 3), round(mfu("llama-2-7b", "a100-sxm-80", 3500, 4096, causal=True), 3)
    (0.526, 0.49)
    """
    return hfu(
        model,
        chip,
        tokens_per_second,
        sequence,
        recompute="none",
        causal=causal,
        dtype=dtype,
        parameters=parameters,
    )


def hfu(
    model: Transformer | str,
    chip: Accelerator | str,
    tokens_per_second: ArrayLike,
    sequence: ArrayLike,
    *,
    recompute: Recompute,
    causal: bool = False,
    dtype: str = "bf16",
    parameters: ArrayLike | None = None,
) -> Numbers:
    """Hardware FLOPs utilisation: as the MFU, with the FLOPs that were recomputed counted too.

    Parameters
    ----------
    recompute : what was: ``"none"`` or ``"selective"``, where it is the MFU, or ``"full"``.
    model, chip, tokens_per_second, sequence, causal, dtype, parameters : as in `mfu`.

    Returns
    -------
    A fraction.

    Examples
    --------
    >>> hfu("mpt-7b", "a100-sxm-80", 3000, 2048, recompute="full") / mfu("mpt-7b", "a100-sxm-80",
    ...     3000, 2048)
    1.333...
    """
    work = flops(model, sequence, causal=causal, recompute=recompute, parameters=parameters)
    speed = positive("tokens_per_second", tokens_per_second)
    together(sequence=work, tokens_per_second=speed)
    return plain(np.asarray(work * speed) / accelerator(chip).peak(dtype))


def utilisation(
    flops_per_second: ArrayLike, chip: Accelerator | str, *, dtype: str = "bf16"
) -> Numbers:
    """The share of a chip's dense peak that a rate is.

    Parameters
    ----------
    flops_per_second : FLOP/s of one chip. Broadcasts.
    chip : an accelerator or its key.
    dtype : format of the peak.

    Returns
    -------
    A fraction.

    Examples
    --------
    >>> round(utilisation(120e12, "tpu-v5e"), 2)
    0.61
    """
    return plain(
        np.asarray(positive("flops_per_second", flops_per_second)) / accelerator(chip).peak(dtype)
    )


def tokens_per_second(
    model: Transformer | str,
    chip: Accelerator | str,
    utilised: ArrayLike,
    sequence: ArrayLike,
    *,
    causal: bool = False,
    dtype: str = "bf16",
) -> Numbers:
    """Speed of training on one chip at a given MFU: `mfu` the other way round.

    Parameters
    ----------
    utilised : the MFU, a fraction: 0.4 for 40 %. Broadcasts.
    model, chip, sequence, causal, dtype : as in `mfu`.

    Returns
    -------
    token/s of one chip.

    Examples
    --------
    >>> round(mfu("llama-3-8b", "h100-sxm", tokens_per_second("llama-3-8b", "h100-sxm", 0.4,
    ...     8192), 8192), 6)
    0.4
    """
    peak, share = accelerator(chip).peak(dtype), positive("utilised", utilised)
    if np.any(np.asarray(share) > 1):
        raise CourseError(
            f"utilised must be a fraction, at most 1 (got {shown(utilised)}): 40 % is 0.4"
        )
    work = flops(model, sequence, causal=causal)
    together(utilised=share, sequence=work)
    return plain(share * np.asarray(peak) / work)
