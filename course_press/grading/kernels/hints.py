"""What a wrong result of a kernel looks like: each usual mistake is made here on purpose, in
float64, and the one that a learner's result agrees with names the remedy.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from course_press.grading.kernels.steps import (
    DROPPED,
    TOLERANCE,
    Given,
    exact,
    gelu,
    scores,
    softmax,
    wrong,
)
from course_press.grading.verdict import Amount, Said, Value, said

Arrays: TypeAlias = Sequence[np.ndarray]
Readings: TypeAlias = Iterator[tuple[str, np.ndarray]]
ENOUGH = 0.2
"""Share of the elements that a reading must explain: where it reads past the end it explains none,
and beyond what it explains nothing may be known.
"""


def hint(step: str, got: np.ndarray, operands: Arrays, case: Given) -> Said | None:
    """The mistake that gives this result, if it is one of the usual ones."""
    wide = [one.astype(np.float64) for one in operands]
    right = exact(step, operands, case)
    with np.errstate(all="ignore"):
        for key, would in READINGS[step](wide, case):
            known = (
                np.isfinite(would) & np.isfinite(got) & ((got != 0) if step == "fused" else True)
            )
            agrees = np.abs(got - would) <= TOLERANCE[step] * np.abs(right).max()
            # It must tell itself apart from what is right.
            apart = wrong(step, would, right) & known
            if known.mean() > ENOUGH and agrees[known].all() and apart.any():
                return said(key)
    return None


def where(step: str, got: np.ndarray, wanted: np.ndarray) -> dict[str, Value]:
    """The first element that is wrong: its place, what stands there, and what should."""
    at = tuple(int(one[0]) for one in np.nonzero(wrong(step, got, wanted)))
    place = "[" + ", ".join(map(str, at)) + "]"
    return {"place": place, "given": shown(got[at]), "wanted": shown(wanted[at])}


def shown(value: float) -> Value:
    """A number, or what stands for none."""
    return Amount(float(value), digits=4) if np.isfinite(value) else str(float(value))


def _of_add(wide: Arrays, _: Given) -> Readings:
    x, y = wide
    yield "hint-add-one", x
    yield "hint-add-one", y
    yield "hint-add-other", x - y
    yield "hint-add-other", x * y


def _of_fused(wide: Arrays, _: Given) -> Readings:
    x, bias = wide
    kept = gelu(x + bias)
    for scale in (1 / (1 - DROPPED), 1.0, 1 / DROPPED, 1 - DROPPED):
        yield "hint-gelu-first", scale * (gelu(x) + bias)
        yield "hint-gelu-first", scale * gelu(x)
    for scale in (1.0, 1 / DROPPED, 1 - DROPPED):
        yield "hint-dropout-scale", scale * kept


def _of_softmax(wide: Arrays, case: Given) -> Readings:
    (x,) = wide
    yield "hint-rescale", _one_pass(x, case.blocks[0], last=False)
    yield "hint-rescale", _one_pass(x, case.blocks[0], last=True)
    yield "hint-not-divided", np.exp(x - x.max(axis=1, keepdims=True))


def _one_pass(x: np.ndarray, block: int, *, last: bool) -> np.ndarray:
    """Softmax by an online normalizer that forgets to rescale, or all but the last block."""
    top, total = np.full((len(x), 1), -np.inf), np.zeros((len(x), 1))
    for start in range(0, x.shape[1], block):
        part = x[:, start : start + block]
        higher = np.maximum(top, part.max(axis=1, keepdims=True))
        total = np.exp(part - higher).sum(axis=1, keepdims=True) + (0 if last else total)
        top = higher
    return np.asarray(np.exp(x - top) / total)


def _of_matmul(wide: Arrays, case: Given) -> Readings:
    a, b = wide
    M, N, K = case.sizes
    along = K // case.blocks[2] * case.blocks[2]
    if along < K:
        yield "hint-last-inner", a[:, :along] @ b[:along]
    for step in {M, N, 1} - {K}:
        yield "hint-stride", _misread(a, step) @ b
    for step in {M, K, 1} - {N}:
        yield "hint-stride", a @ _misread(b, step)
    yield "hint-stride", _misread(a, N) @ _misread(b, K)
    yield "hint-block-only", a[:, -case.blocks[2] :] @ b[-case.blocks[2] :]


def _misread(x: np.ndarray, stride: int) -> np.ndarray:
    """An array read with another row's stride; what is past its end is not a number."""
    flat = np.append(x.reshape(-1), np.nan)
    rows, columns = np.indices(x.shape)
    at = rows * stride + columns
    return np.asarray(flat[np.minimum(at, x.size)])


def _of_attention(wide: Arrays, case: Given) -> Readings:
    q, k, v = wide
    root = np.sqrt(q.shape[1])
    found = scores(q, k, causal=case.causal)
    yield "hint-scale", softmax(found * root) @ v
    yield "hint-scale", softmax(found / root) @ v
    yield "hint-scale", softmax(found * root * root) @ v
    for of in ("result", "total", "both"):
        yield "hint-rescale", _online(found, v, case.blocks[1], of)
    yield "hint-not-divided", softmax(found) @ v * _sums(found)
    if case.causal:
        every, seen = scores(q, k, causal=False), np.tri(len(q)) > 0
        sides = {"hint-causal-side": seen.T, "hint-causal-none": np.ones_like(seen)}
        for key, side in {**sides, "hint-causal-self": seen & ~np.eye(len(q), dtype=bool)}.items():
            yield key, softmax(np.where(side, every, -np.inf)) @ v
    keys = len(k) // case.blocks[1] * case.blocks[1]
    if 0 < keys < len(k):
        yield "hint-last-inner", softmax(found[:, :keys]) @ v[:keys]


def _sums(found: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(found - found.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))


def _online(found: np.ndarray, v: np.ndarray, block: int, forgets: str) -> np.ndarray:
    """Attention block by block, where something is not rescaled to the new maximum."""
    rows = len(found)
    top, total, result = np.full((rows, 1), -np.inf), np.zeros((rows, 1)), np.zeros(v.shape)[:1]
    for start in range(0, found.shape[1], block):
        part = found[:, start : start + block]
        higher = np.maximum(top, part.max(axis=1, keepdims=True))
        rescale = np.nan_to_num(np.exp(top - higher))
        weight = np.nan_to_num(np.exp(part - higher))
        total = total * (1 if forgets in ("total", "both") else rescale)
        result = result * (1 if forgets in ("result", "both") else rescale)
        total = total + weight.sum(axis=1, keepdims=True)
        result = result + weight @ v[start : start + block]
        top = higher
    return np.asarray(result / total)


READINGS: dict[str, Callable[[Arrays, Given], Readings]] = {
    "add": _of_add,
    "fused": _of_fused,
    "softmax": _of_softmax,
    "matmul": _of_matmul,
    "attention": _of_attention,
}
