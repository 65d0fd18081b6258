"""Explorers of single operators: the roofline, a product's batch, a product split over chips."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from course_lib import network as net
from course_lib import ops
from course_lib.core import BOUNDS, Estimate, Work, attainable, critical_batch, formulas, ridge
from course_lib.core import roofline as bound_of
from course_lib.core.checks import known
from course_lib.network import Link
from course_lib.specs import Accelerator, chip
from course_lib.specs import chip as accelerator
from course_tools.counting.attention import MODELS, attention_layer
from course_book.explore import choices
from course_book.explore.choices import CHIPS, format_of, names, peak_of, places, tabulated
from course_book.explore.grid import Axis, Field, drawn
from course_book.explore.views import Explorer
from course_book.text import n, named, t

DTYPES = ("bf16", "fp16", "fp8", "int8", "fp4")
INTENSITIES = (0.1, 10_000.0)
# Share of idling below which neither resource is called the limit.
BALANCED = 0.005


class Roofline(Explorer):
    """The explorer whose dot, roof and slope a reader can move on a page."""

    @property
    def works(self) -> dict[str, dict[str, Work]]:
        """The work of each operator that it offers, by the format of its operands."""
        kernels = _kernels()
        return {
            key: {format_: kernels[key][1](format_) for format_ in self.values("dtype")}
            for key in self.values("kernel")
        }

    def met(self) -> Estimate | None:
        """The operator on the chip of the first state; `None` where no peak is published."""
        at = self.state()
        picked = {name: self.values(name)[at[name]] for name in self.controls}
        work, on = self.works[picked["kernel"]][picked["dtype"]], chip(picked["chip"])
        return bound_of(work, on) if f"{work.unit}.{work.dtype}" in on.peaks else None

    def sentence(self) -> str:
        """What limits the first state, and how long the other resource idles."""
        step, texts = self.met(), {name: self.texts(name)[at] for name, at in self.state().items()}
        if step is None:
            text = t("live-no-format")
            return text.replace("{chip}", texts["chip"]).replace("{format}", texts["dtype"])
        share = float(formulas.idle(step.t_math, step.t_memory))
        word = "memory-limits" if step.t_math < step.t_memory else "math-limits"
        shown = n(share, "%", digits=2)
        return t("live-balanced" if share < BALANCED else f"live-{word}").replace("{share}", shown)


def roofline(
    first: str = "h100-sxm",
    other: str = "a100-sxm-80",
    *,
    dtype: str = "bf16",
    kernel: str = "matmul-256",
) -> Roofline:
    """Two chips' rooflines for a number format, with an operator on them.

    Operators of the matrix unit meet the roof of that unit; elementwise ones that of the vector
    unit, in fp32. Matrix products are of B tokens by 8192 by 8192; attention has 8192 tokens, 32
    heads and 8 heads of keys and values; the elementwise operators take 4096 vectors of 8192.

    Parameters
    ----------
    first, other : the chips shown at first, by key.
    dtype : the format of the operands shown at first.
    kernel : the operator shown at first, ``"matmul-16"`` say.

    Examples
    --------
    >>> figure = roofline()
    >>> figure.shown(kernel="matmul-16")[0]
    ['H100', '295 FLOP/B', '15.9 FLOP/B', '53.4 TFLOP/s', '40.2 µs', 'memory-bound']
    """
    keys = choices.with_matrix_unit()
    for key in (first, other):
        known("chip", key, keys, "those with a matrix unit")
    known("dtype", dtype, DTYPES)
    kernels = _kernels()
    axes = {
        "chip": Axis(keys, t("chip"), names(keys), first, groups=choices.vendors(keys)),
        "other": Axis((), t("other-chip"), start=other, of="chip"),
        "dtype": Axis(DTYPES, t("format"), start=dtype),
        "kernel": Axis(
            tuple(kernels),
            t("operator"),
            tuple(label for label, _ in kernels.values()),
            known("kernel", kernel, kernels),
        ),
        "corner": Axis((0, 1, 2)),
    }

    work_of = cache(lambda kernel, dtype: kernels[kernel][1](dtype))  # on any chip

    def ask(chip: str, dtype: str, kernel: str, **_: Any) -> dict[str, Field]:
        work, on = work_of(kernel, dtype), accelerator(chip)
        unknown: list[Any] = [np.nan] * 6
        bend, rate, time, bound, x, y = unknown
        if peak := on.peaks.get(f"{work.unit}.{work.dtype}"):
            step, bend = bound_of(work, on), float(ridge(peak, on.bandwidth))
            rate, time, bound = step.attainable, step.lower, BOUNDS.index(step.bound)
            x = np.array([INTENSITIES[0], bend, INTENSITIES[1]])
            y = attainable(x, peak, on.bandwidth)
        return {
            "ridge": Field(by, bend, "FLOP/B"),
            "I": Field(by, work.intensity, "FLOP/B"),
            "rate": Field(by, rate, "FLOP/s"),
            "time": Field(by, time, "s"),
            "x": Field((*by, "corner"), x, "FLOP/B"),
            "y": Field((*by, "corner"), y, "FLOP/s"),
            "bound": choices.bounds(by, bound),
        }

    by = ("chip", "dtype", "kernel")
    return Roofline("roofline", axes, tabulated(by, ask), **drawn("roofline"))


def batch(
    keys: Sequence[str] = ("a100-sxm-80", "h100-sxm", "b200-sxm", "tpu-v5e"), *, B: int = 64
) -> Explorer:
    """Attainable speed of X[B, D] W[D, F] against B, and the first batch that is compute-bound.

    X and the result are in the format of the arithmetic.

    Parameters
    ----------
    keys : chips, at most six.
    B : the batch at first, a power of two up to 8192.

    Examples
    --------
    >>> batch().shown(B=256)[3]
    ['TPU v5e', '197 TFLOP/s', '174 µs', 'compute-bound', '256']
    """
    sizes = (512, 2048, 8192, 16384)
    axes = {
        "chip": Axis(tuple(keys), "", names(keys)),
        "B": Axis(tuple(2**i for i in range(14)), "B", start=B),
        "D": Axis(sizes, "D", start=8192),
        "F": Axis(sizes, "F", start=8192),
        "w": Axis(("bf16", "int8", "int4"), t("weights"), start="bf16"),
        "compute": Axis(("bf16", "fp8", "int8"), t("arithmetic-in"), start="bf16"),
    }

    by = ("chip", "D", "F", "w", "compute", "B")

    def ask(chip: str, w: str, compute: str, B: Any, D: Any, F: Any) -> dict[str, Field]:
        on, how = accelerator(chip), {"x": compute, "w": w, "compute": compute}
        all_B, all_D, all_F = np.broadcast_arrays(B, D[:, None, None], F[:, None])
        unknown: list[Any] = [np.nan] * 5
        rate, time, bound, first, peak = unknown
        if f"matrix.{compute}" in on.peaks:
            step = bound_of(ops.matmul(all_B, all_D, all_F, **how), on)
            rate, time, bound = step.attainable, step.lower, places(step)
            first = critical_batch(lambda B: ops.matmul(B, all_D[..., 0], all_F[..., 0], **how), on)
            peak = np.where(np.isinf(first), np.nan, on.peak(compute))
        return {
            "size": Field(("B",), B),
            "rate": Field(by, rate, "FLOP/s"),
            "time": Field(by, time, "s"),
            "bound": choices.bounds(by, bound),
            "first": Field(by[:-1], first),
            "peak": Field(by[:-1], peak, "FLOP/s"),
        }

    return Explorer("batch", axes, tabulated(("chip", "w", "compute"), ask), **drawn("batch"))


def network(*, B: int = 512) -> Explorer:
    """The three times of X[B, D] W[D, F], D split over chips, against B, in a 16-bit format.

    D = F; an all-reduce over a ring adds the results. The tables publish no latency: choose one.

    Parameters
    ----------
    B : the batch at first, a power of two up to 32768.

    Examples
    --------
    >>> network().shown(B=1024)[0]
    ['compute time', '69.5 µs']
    """
    links = _links()
    axes = {
        "link": Axis(
            tuple(links), t("link"), tuple(label for label, _ in links.values()), "h100-sxm.nvlink"
        ),
        "chips": Axis((2, 4, 8, 16, 32, 64), t("chips"), start=8),
        "latency": Axis(
            (0.0, 1e-6, 1e-5), t("latency-of-a-hop"), ("0", n(1e-6, "s"), n(1e-5, "s")), 1e-6
        ),
        "D": Axis((2048, 8192, 16384, 32768), "D = F", start=16384),
        "B": Axis(tuple(2**i for i in range(3, 16)), "B", start=B),
    }

    by, halves = ("link", "chips", "D", "B"), {"D": "X"}

    def ask(link: str, chips: int, latency: float, D: Any, B: Any) -> dict[str, Field]:
        on, name = links[link][1], link.partition(".")[2]
        form, joins = format_of(on), _link(on, name, chips, latency)
        B, wide = np.broadcast_arrays(B, D[:, None])
        step = net.sharded_matmul(
            B, wide, wide, on, joins, {"X": chips}, x=form, w=form, x_axes=halves, w_axes=halves
        ).estimate
        width = net.critical_contraction(peak_of(on), _link(on, name, chips, 0.0), chips)
        return {
            "size": Field(("B",), B[0]),
            "math": Field(by, step.t_math, "s"),
            "memory": Field(by, step.t_memory, "s"),
            "comms": Field(("latency", *by), step.t_network, "s"),
            "bound": choices.bounds(("latency", *by), places(step)),
            "width": Field(by[:2], width),
        }

    computed = tabulated(("link", "chips", "latency"), ask)
    return Explorer("network", axes, computed, **drawn("network"))


def attention(*, S: int = 32768) -> Explorer:
    """What a layer of each kind of attention reads for one new token, against the context.

    Parameters
    ----------
    S : tokens in view at first, a power of two from 512 to 1,048,576.

    Examples
    --------
    >>> attention().shown(S=131072)[4]
    ['sparse', '168 MB', '20.0 MB', '2.73 GFLOP', '137 FLOP/B']
    """
    kinds = tuple(key for key in MODELS if key != "linear")  # of which hybrid ones are made
    axes = {
        "kind": Axis(kinds, "", tuple(t(f"attention-{key}") for key in kinds)),
        "kv": Axis(("bf16", "fp8"), t("attention-cache-in"), start="bf16"),
        "S": Axis(tuple(2**i for i in range(9, 21)), "S", start=S),
    }

    def ask(kind: str, kv: str, S: Any) -> dict[str, Field]:
        one, by = attention_layer(kind, S, kv), tuple(axes)
        return {
            "size": Field(("S",), S),
            "kept": Field(by, one.kept, "B"),
            "read": Field(by, one.bytes, "B"),
            "flops": Field(by, one.flops, "FLOP"),
            "I": Field(by, one.flops / one.bytes, "FLOP/B"),
        }

    return Explorer("attention", axes, tabulated(("kind", "kv"), ask), **drawn("attention"))


def _kernels() -> dict[str, tuple[str, Callable[[str], Work]]]:
    """Operators by key: what they are called, and their work on operands of a format."""

    def product(B: int) -> Callable[[str], Work]:
        return lambda d: ops.matmul(B, 8192, 8192, x=d, w=d, compute=d)

    found: dict[str, tuple[str, Callable[[str], Work]]] = {
        "dot": (t("dot-product"), lambda d: ops.dot(2**20, x=d)),
        "gelu": ("GELU", lambda d: ops.elementwise((4096, 8192), flops=10, dtype=d)),
        "norm": ("RMSNorm", lambda d: ops.norm(4096, 8192, x=d)),
    }
    for B in (1, 16, 64, 256, 1024, 4096):
        found[f"matmul-{B}"] = (f"{t('matmul')}, B = {n(B)}", product(B))
    for key, q in (("decode", 1), ("prefill", 8192)):
        shape = (1, q, 8192, 32, 8, 128)
        found[f"attention-{key}"] = (
            f"{t('attention')}, {t(key)}",
            lambda d, shape=shape: ops.attention(*shape, causal=True, x=d, kv=d, compute=d),  # type: ignore[misc]
        )
    return found


def _links() -> dict[str, tuple[str, Accelerator]]:
    """Links by key: what each is called, and the chip that it belongs to."""
    found = {
        f"{one.key}.{name}": (f"{one.short}: {named(link.name)}", one)
        for one in map(chip, CHIPS)
        for name, link in one.links.items()
    }
    h100 = chip("h100-sxm")
    rate = f"{h100.figures['node.per_direction'].value:g} {h100.figures['node.per_direction'].unit}"
    found[f"{h100.key}.nodes"] = (f"{h100.short}: {t('two-nodes-or-more')}, {rate}", h100)
    return found


def _link(on: Accelerator, name: str, count: int, latency: float) -> Link:
    """What joins so many chips: all links of a kind, or the ports of two nodes or more."""
    if name == "nodes":
        inside = replace(on.links["nvlink"], latency=latency)
        return replace(net.fewest_nodes(on.node, inside, count, least=2), crossing=latency)
    return Link(on.links[name].total_per_direction, latency=latency)
