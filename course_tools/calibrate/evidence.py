"""The published measurements that constants are fitted to, and which of them a fit never sees: a
quarter of the shapes of matrix products, one model of two, half of the messages.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from course_lib import ops
from course_lib.core import Estimate, roofline
from course_lib.network import all_reduce, between_nodes
from course_lib.specs import Accelerator, chip
from course_lib.workloads import llm
from course_tools.calibrate.constants import Calibration
from course_tools.calibrate.prediction import predict
from course_tools.measured import published
from course_tools.measured.published import best_published, table

REFERENCE = "a100-sxm-80"
DTYPE = "fp16"
SEED = 0
HELD_OUT = 0.25
MODEL = "llama-2-7b"
"""The model whose steps are fitted; all others are held out."""
NODES = (("a100_dgx", 2), ("a100_dgx", 4), ("a100_dgx", 8), ("a100_pairwise_nvlink", 2))
"""Where all-reduces went over NVLink alone: whole nodes with their chips, and a bridged pair."""


PAIRED = ("a100_pairwise_nvlink", 4, 4)
"""Where all-reduces crossed the PCIe links between two bridged pairs."""


PER_MACHINE = (1, 2, 4, 8)
"""Chips of each of two machines between which all-reduces were measured."""


NORMAL = 1.2816
"""Standard deviations of a normal distribution that an 80 % range reaches on either side."""


SWITCHES = {
    "h100-sxm": "8xH200 HGX",
    "h200-sxm": "8xH200 HGX",
    "b200-sxm": "8xB200 p6-b200",
    "b300-sxm": "8xB200 p6-b200",
    "gb200": "8xB200 p6-b200",
}
"""The node whose published all-reduces say what a chip's links and switch reach."""


class Products(NamedTuple):
    """Measured matrix products of one shape each: B, D, F and the median of their times, s."""

    sizes: NDArray[Any]
    seconds: NDArray[Any]

    def some(self, which: NDArray[np.bool_]) -> "Products":
        """Those that `which` marks."""
        return Products(self.sizes[which], self.seconds[which])

    def bound(self, on: Accelerator, dtype: str = DTYPE) -> Estimate:
        """The roofline's bound of all of them."""
        return roofline(ops.matmul(*self.sizes.T, x=dtype, w=dtype), on)


def products(name: str) -> Products:
    """The matrix products of a table of M, N, K and ms; one measured several times gives the
    median.

    Examples
    --------
    >>> len(products("matmul_a100_m_sweep").seconds)
    20
    """
    found: dict[tuple[int, ...], list[float]] = {}
    for row in table(name):
        found.setdefault(tuple(int(row[size]) for size in "MKN"), []).append(float(row["ms"]) / 1e3)
    shapes = sorted(found)
    return Products(np.array(shapes), np.array([np.median(found[shape]) for shape in shapes]))


def held_out(count: int, share: float = HELD_OUT, seed: int = SEED) -> NDArray[np.bool_]:
    """Which of so many are held out, by a fixed draw.

    Examples
    --------
    >>> int(held_out(100).sum())
    25
    """
    marks = np.zeros(count, dtype=bool)
    marks[np.random.default_rng(seed).permutation(count)[: int(share * count)]] = True
    return marks


class MeasuredStep(NamedTuple):
    """A measured step of inference: the run it was in, its bound, and what was measured, s."""

    run: published.PublishedRun
    bound: Estimate
    measured: float


@cache
def steps(kind: str, tables: tuple[str, ...] = published.TABLES) -> tuple[MeasuredStep, ...]:
    """Published steps of `tables` by kind: ``"decode"`` for tokens after the first, ``"prefill"``
    for first tokens.

    Examples
    --------
    >>> sorted({step.run.model for step in steps("prefill")})
    ['llama-2-70b', 'llama-2-7b']
    """
    found = []
    for name in tables:
        for run in published.runs(name):
            more: dict[str, Any] = {
                "w": run.w,
                "tp": run.tp,
                "link": "nvlink" if run.tp > 1 else None,
            }
            if kind == "decode" and run.token:
                bound = llm.decode(
                    run.model, run.chip, run.batch, run.prompt + run.output // 2, **more
                )
                found.append(MeasuredStep(run, bound, run.token))
            elif kind == "prefill" and run.first and run.table.startswith("prefill"):
                found.append(
                    MeasuredStep(
                        run,
                        llm.prefill(run.model, run.chip, run.batch, run.prompt, **more),
                        run.first,
                    )
                )
    return tuple(found)


class Messages(NamedTuple):
    """Measured all-reduces: byte, chips, s, and their bound."""

    size: NDArray[Any]
    chips: NDArray[Any]
    seconds: NDArray[Any]
    bound: NDArray[Any]


def messages(node: str, workers: int, per_node: int, over: str = "nvlink") -> Messages:
    """The all-reduces of one kind of node, against the reference chip's NVLink, its link to the
    ``"host"``, or the ports of its ``"nodes"``.

    Examples
    --------
    >>> some = messages("a100_dgx", 8, 8)
    >>> bool((some.seconds > some.bound).all())
    True
    """
    rows = [
        row
        for row in table("collectives_a100_allreduce")
        if (row["node"], int(row["num_workers"]), int(row["devices_per_node"]))
        == (node, workers, per_node)
    ]
    size = np.array([float(row["size_bytes"]) for row in rows])
    times = np.array([float(row["ms"]) / 1e3 for row in rows])
    on = chip(REFERENCE)
    nvlink = on.links["nvlink"]
    link = between_nodes(on.node, nvlink, per_node) if over == "nodes" else on.joins[over]
    bound = np.asarray(all_reduce(size, link, workers))
    return Messages(size, np.full(size.size, workers), times, bound)


def nvlink_messages() -> Messages:
    """Half of all that went over NVLink alone: the half that is fitted.

    Examples
    --------
    >>> sorted({int(n) for n in nvlink_messages().chips})
    [2, 4, 8]
    """
    halves = [halved(messages(node, n, n))[0] for node, n in NODES]
    return Messages(*(np.concatenate(part) for part in zip(*halves, strict=True)))


def node_messages() -> Messages:
    """All that went between two machines, whatever part of their chips took part.

    Examples
    --------
    >>> some = node_messages()
    >>> sorted({int(n) for n in some.chips})
    [2, 4, 8, 16]
    >>> bool((some.seconds > some.bound).all())
    True
    """
    every = [messages(NODES[0][0], 2 * each, each, over="nodes") for each in PER_MACHINE]
    return Messages(*(np.concatenate(part) for part in zip(*every, strict=True)))


def halved(some: Messages) -> tuple[Messages, Messages]:
    """The messages in two halves by a fixed random draw: one to fit, the other to test.

    Examples
    --------
    >>> fitted, unseen = halved(messages("a100_dgx", 8, 8))
    >>> fitted.size.size, unseen.size.size
    (26, 26)
    """
    out = held_out(some.size.size, 0.5)
    fitted, unseen = (
        Messages(*(np.asarray(part)[which] for part in some)) for which in (~out, out)
    )
    return fitted, unseen


def misalignment() -> float:
    """How much longer products with misaligned rows take: one hidden size of a gated MLP against
    its neighbors.

    Examples
    --------
    >>> round(misalignment(), 2)
    1.45
    """
    rates = {
        int(row["d_ff"]): float(row["tflops"]) for row in table("matmul_swiglu_alignment_h100")
    }
    aligned = [rate for size, rate in rates.items() if size % 8 == 0]
    return float(np.median(aligned) / min(rates.values()))


def streams() -> float:
    """The fraction of its datasheet's bandwidth that the median streaming kernel of a Hopper card
    reaches.

    Examples
    --------
    >>> round(streams(), 2)
    0.87
    """
    rows = table("stream_h100pcie")
    return float(np.median([float(row["GBps"]) / float(row["spec_GBps"]) for row in rows]))


def between_chips() -> float:
    """How far chips' best published fractions of the peak lie apart: a logarithm, as wide as an 80
    % range on either side.

    Examples
    --------
    >>> 0.1 < between_chips() < 0.4
    True
    """
    best = best_published("bf16")
    shares = [best[key].rate / chip(key).peak("bf16") for key in best]
    return float(NORMAL * np.std(np.log(shares), ddof=1))


def laboratories(sustained: Calibration) -> dict[str, float]:
    """How many times as fast as the sustained constants say laboratories saw the reference chip's
    products, by their tables: the medians of products that take far longer than their overhead.

    The table that was fitted is one of them. A search for the best shape and a single product on
    random data are two more.

    Examples
    --------
    >>> from course_tools.calibrate import calibration
    >>> found = laboratories(calibration(chip(REFERENCE), DTYPE))
    >>> min(found.values()) > 0.9, max(found.values()) < 1.3
    (True, True)
    """
    on, found = chip(REFERENCE), {}
    best = best_published("bf16")[REFERENCE]
    noise = next(row for row in table("matmul_data_dependence_a100") if row["input"] == "randn")
    cube = 8192.0
    some = {
        "matmul_a100_transformer_gemms": products("matmul_a100_transformer_gemms"),
        "matmul_a100_m_sweep": products("matmul_a100_m_sweep"),
        "matmul_mamf": one_product(best.shape[0], best.shape[2], best.shape[1], best.rate),
        "matmul_data_dependence_a100": one_product(cube, cube, cube, 1e12 * float(noise["tflops"])),
    }
    for name, measured in some.items():
        bound = measured.bound(on)
        expected = np.asarray(predict(bound, on, constants=sustained, state="sustained").expected)
        large = np.asarray(bound.t_math > bound.t_memory)
        large &= expected > 50 * sustained.constants.overhead
        found[name] = float(np.median((expected / measured.seconds)[large]))
    return found


def one_product(b: float, d: float, f: float, rate: float) -> Products:
    """A product that ran at so many FLOP/s.

    Examples
    --------
    >>> float(one_product(10, 10, 10, 2e3).seconds[0])
    1.0
    """
    return Products(np.array([[b, d, f]]), np.array([2 * b * d * f / rate]))


def centre(ratios: Iterable[float]) -> tuple[float, float]:
    """The middle of several laboratories, and how far one lies from it: a logarithm, as wide as an
    80 % range on either side.

    Examples
    --------
    >>> middle, apart = centre([1.0, 1.2, 1.2])
    >>> round(middle, 2), round(apart, 2)
    (1.13, 0.13)
    """
    logs = np.log(list(ratios))
    return float(np.exp(logs.mean())), float(NORMAL * logs.std(ddof=1))


def from_others(ratios: Mapping[str, float]) -> dict[str, float]:
    """How far the centre of the other laboratories misses each: above zero, too fast.

    Examples
    --------
    >>> missed = from_others({"one": 1.0, "two": 1.2, "three": 1.2})
    >>> round(missed["one"], 3)
    0.2
    """
    return {
        name: centre(other for of, other in ratios.items() if of != name)[0] / ratio - 1
        for name, ratio in ratios.items()
    }
