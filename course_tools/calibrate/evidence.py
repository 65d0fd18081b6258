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

REFERENCE, DTYPE = "a100-sxm-80", "fp16"
SEED, HELD_OUT = 0, 0.25
MODEL = "llama-2-7b"  # the model whose steps are fitted; all others are held out
# Where all-reduces went over NVLink alone: whole nodes with their chips, and a bridged pair.
NODES = (("a100_dgx", 2), ("a100_dgx", 4), ("a100_dgx", 8), ("a100_pairwise_nvlink", 2))
# Where all-reduces crossed the PCIe links between two bridged pairs.
PAIRED = ("a100_pairwise_nvlink", 4, 4)
PER_MACHINE = (1, 2, 4, 8)  # chips of each of two machines between which they were measured
NORMAL = 1.2816  # standard deviations of a normal distribution that an 80 % range reaches
# The node whose published all-reduces say what a chip's links and switch reach.
SWITCHES = {
    "h100-sxm": "8xH200 HGX",
    "h200-sxm": "8xH200 HGX",
    "b200-sxm": "8xB200 p6-b200",
    "b300-sxm": "8xB200 p6-b200",
    "gb200": "8xB200 p6-b200",
}


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
    """
    found: dict[tuple[int, ...], list[float]] = {}
    for row in table(name):
        found.setdefault(tuple(int(row[size]) for size in "MKN"), []).append(float(row["ms"]) / 1e3)
    shapes = sorted(found)
    return Products(np.array(shapes), np.array([np.median(found[shape]) for shape in shapes]))


def held_out(count: int, share: float = HELD_OUT, seed: int = SEED) -> NDArray[np.bool_]:
    """Which of so many are held out, by a fixed draw."""
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
    """
    found = []
    for run in (run for name in tables for run in published.runs(name)):
        link = "nvlink" if run.tp > 1 else None
        given: dict[str, Any] = {"w": run.w, "tp": run.tp, "link": link}
        at = run.model, run.chip, run.batch
        if kind == "decode" and run.token:
            bound = llm.decode(*at, run.prompt + run.output // 2, **given)
            found.append(MeasuredStep(run, bound, run.token))
        elif kind == "prefill" and run.first and run.table.startswith("prefill"):
            bound = llm.prefill(*at, run.prompt, **given)
            found.append(MeasuredStep(run, bound, run.first))
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


def halved(some: Messages) -> tuple[Messages, Messages]:
    """The messages in two halves by a fixed random draw: one to fit, the other to test."""
    out = held_out(some.size.size, 0.5)
    fitted, unseen = (
        Messages(*(np.asarray(part)[which] for part in some)) for which in (~out, out)
    )
    return fitted, unseen


def laboratories(sustained: Calibration) -> dict[str, float]:
    """How many times as fast as the sustained constants say laboratories saw the reference chip's
    products, by their tables: the medians of products that take far longer than their overhead.

    The table that was fitted is one of them. A search for the best shape and a single product on
    random data are two more.
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
    """A product that ran at so many FLOP/s."""
    return Products(np.array([[b, d, f]]), np.array([2 * b * d * f / rate]))


def centre(ratios: Iterable[float]) -> tuple[float, float]:
    """The middle of several laboratories, and how far one lies from it: a logarithm, as wide as an
    80 % range on either side.
    """
    logs = np.log(list(ratios))
    return float(np.exp(logs.mean())), float(NORMAL * logs.std(ddof=1))


def from_others(ratios: Mapping[str, float]) -> dict[str, float]:
    """How far the centre of the other laboratories misses each: above zero, too fast."""
    return {
        name: centre(other for of, other in ratios.items() if of != name)[0] / ratio - 1
        for name, ratio in ratios.items()
    }
