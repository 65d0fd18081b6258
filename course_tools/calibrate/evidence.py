"""The published measurements that constants are fitted to; which of them a fit never sees, a
quarter of the shapes of matrix products, one model of two, half of the messages; and how wrong the
bound and the calibrated range are on those.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib import ops
from course_lib.core import Estimate, roofline
from course_lib.core.dtypes import itemsize
from course_lib.network import all_reduce, between_nodes
from course_lib.network.collectives import seconds as bound_of
from course_lib.network.costs import cost
from course_lib.specs import Accelerator, chip
from course_lib.workloads import llm
from course_tools.calibrate.constants import Calibration, calibration
from course_tools.calibrate.links import LARGE_MESSAGE
from course_tools.calibrate.prediction import Prediction, collective, coverage, mean_error, predict
from course_tools.measured import published
from course_tools.measured.published import CHIPS, best_published, table

REFERENCE, DTYPE = "a100-sxm-80", "fp16"
SEED, HELD_OUT = 0, 0.25
# Chips whose operators one collector timed inside an engine, and the formats of its products beside
# bf16: some with a kernel before them that brings the activations into the format.
COLLECTED = ("h100-sxm", "b200-sxm")
NARROW = ("fp8", "fp8-block", "nvfp4")
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
        """The roofline's bound of all of them; those of narrow operands write 16 bits."""
        out = dtype if itemsize(dtype) >= 2 else "bf16"
        return roofline(ops.matmul(*self.sizes.T, x=dtype, w=dtype, out=out), on)


def products(name: str, **where: str) -> Products:
    """The matrix products of a table of M, N, K and ms, `where` columns say so; one measured
    several times gives the median.
    """
    found: dict[tuple[int, ...], list[float]] = {}
    for row in table(name):
        if where.items() <= row.items():
            shape = tuple(int(row[size]) for size in "MKN")
            found.setdefault(shape, []).append(float(row["ms"]) / 1e3)
    shapes = sorted(found)
    return Products(np.array(shapes), np.array([np.median(found[shape]) for shape in shapes]))


def cold(key: str, dtype: str) -> Products:
    """The products that a collector timed on a chip in one of `NARROW` or bf16, of operands that
    its last-level cache cannot hold: it repeats each call.
    """
    some, on = products("matmul_engines", chip=key, dtype=dtype), chip(key)
    if not some.seconds.size:
        return some
    return some.some(np.asarray(some.bound(on, dtype).bytes) > (on.llc or 0.0))


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
    """Measured collectives of a kind: byte, chips, s, and their bound."""

    size: NDArray[Any]
    chips: NDArray[Any]
    seconds: NDArray[Any]
    bound: NDArray[Any]
    kind: str = "all-reduce"

    @property
    def way(self) -> str | None:
        """By which algorithm it is bounded; its first where none is said."""
        return "switched" if self.kind == "all-to-all" else None

    def some(self, which: NDArray[np.bool_]) -> "Messages":
        """Those that `which` marks."""
        size, chips, seconds, bound = (part[which] for part in self[:4])
        return Messages(size, chips, seconds, bound, self.kind)


def nccl(key: str) -> list[Messages]:
    """NCCL's collectives over a chip's links, by kind, each in fixed order."""
    on, found = chip(key), []
    rows = [row for row in table("collectives_nccl") if row["chip"] == key]
    for kind in sorted({row["collective"] for row in rows}):
        some = [row for row in rows if row["collective"] == kind]
        size, n, ms = (
            np.array([float(row[name]) for row in some]) for name in ("bytes", "n", "ms")
        )
        way = "switched" if kind == "all-to-all" else None
        bound = np.asarray(bound_of(kind, size, on.links["nvlink"], n, way))
        found.append(Messages(size, n, ms / 1e3, bound, kind))
    return found


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
    return some.some(~out), some.some(out)


def laboratories(sustained: Calibration) -> dict[str, float]:
    """How many times as fast as the sustained constants say laboratories saw the reference chip's
    products, by their tables: the medians of products that take far longer than their overhead.
    """
    on, found = chip(REFERENCE), {}
    best = best_published("bf16")[REFERENCE]
    noise = next(row for row in table("matmul_data_dependence_a100") if row["input"] == "randn")
    cube = 8192.0
    # The table that was fitted, another one, a search for the best shape, and a single product.
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


LARGE = 8  # operands of so many last-level caches cannot be served from one
# What part of the measurements an 80 % range should hold: where there are few of them, and in a
# family of forty or more.
WITHIN, EDGES = (0.75, 0.85), (0.75, 0.9)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    key: str  # by which to find it
    what: str  # that was predicted, in words
    points: int  # how many measurements
    # A count of violations, where it is a whole number; else a mean absolute percentage error or a
    # share within the range, as fractions.
    value: int | float
    # The most that was asked of the value, or least and most; `None` where nothing was.
    target: float | tuple[float, float] | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is, or `None` where nothing was asked."""
        if self.target is None:
            return None
        least, most = self.target if isinstance(self.target, tuple) else (0.0, self.target)
        return least <= self.value <= most


class Bounded(NamedTuple):
    """Measured times beside their bounds, s."""

    seconds: NDArray[Any]
    lower: NDArray[Any]
    caches: NDArray[Any]  # the operands' bytes in last-level caches
    chips: NDArray[Any]  # keys


def bounds() -> list[Bounded]:
    """Every published measurement whose operands are known, beside its bound with the peak at the
    maximum clock; each for itself, the fastest of its repeats where that is printed.
    """
    on, found = chip(REFERENCE), []
    for name in ("matmul_a100_transformer_gemms", "matmul_a100_m_sweep"):
        rows = table(name)
        times = np.array([float(row.get("ms_min") or row["ms"]) / 1e3 for row in rows])
        found.append(_bounded(_multiply(rows, DTYPE, on), times, on))
    for row in table("matmul_mamf"):
        key = CHIPS.get(row["accelerator"])
        if key and f"matrix.{row['dtype']}" in chip(key).peaks:
            estimate = _multiply([row], row["dtype"], chip(key))
            rate = float(row["mamf_tflops"]) * 1e12
            found.append(_bounded(estimate, np.asarray(estimate.flops) / rate, chip(key)))
    found.append(_bounded(*elementwise(), on))
    runs = [run for name in published.TABLES + published.UNSEEN for run in published.runs(name)]
    caches = np.array(
        [run.predicted * chip(run.chip).bandwidth / (chip(run.chip).llc or np.inf) for run in runs]
    )
    measured, predicted, keys = (
        np.array([getattr(r, name) for r in runs]) for name in ("measured", "predicted", "chip")
    )
    return [*found, Bounded(measured, predicted, caches, keys)]


def _multiply(rows: Iterable[Any], dtype: str, on: Accelerator) -> Estimate:
    shapes = np.array([[int(row[size]) for size in "MKN"] for row in rows])
    return roofline(ops.matmul(*shapes.T, x=dtype, w=dtype), on)


def _bounded(estimate: Estimate, seconds: NDArray[Any], on: Accelerator) -> Bounded:
    # Peaks are stated at a clock that some chips exceed.
    faster = on.max_clock / on.clock if on.max_clock and on.clock else 1.0
    lower = np.maximum(estimate.t_math / faster, estimate.t_memory)
    caches = np.asarray(estimate.bytes) / (on.llc or np.inf)
    return Bounded(seconds, lower, caches, np.full(seconds.shape, on.key))


def elementwise() -> tuple[Estimate, NDArray[Any]]:
    """The published elementwise kernels as bounds, and their times, s: each element read once and
    written once.
    """
    rows = table("elementwise_a100")
    elements = np.array([int(row["M"]) * int(row["N"]) for row in rows])
    work = ops.elementwise((elements,), flops=0, dtype=DTYPE)
    rates = np.array([float(row["throughput_Gelem_per_s"]) * 1e9 for row in rows])
    return roofline(work, chip(REFERENCE)), elements / rates


def calibrate_report() -> list[Result]:
    """Predicted against measured, on what was held out of the fit: the bound, matrix products,
    steps of inference, all-reduces, in the order of the chapter.
    """
    return [*_bound_lines(), *_product_lines(), *_step_lines(), *_message_lines()]


def _error(
    key: str, what: str, expected: ArrayLike, measured: ArrayLike, target: float | None = None
) -> Result:
    error, points = mean_error(expected, measured), np.size(measured)
    return Result(key=key, what=what, points=points, value=error, target=target)


def _share(key: str, what: str, inside: Any, target: Any = None) -> Result:
    """What part of measurements is within its range."""
    value = float(np.mean(inside))
    return Result(key=key, what=what, points=np.size(inside), value=value, target=target)


def _bound_lines() -> list[Result]:
    seconds, lower, caches, _ = (np.concatenate(part) for part in zip(*bounds(), strict=True))
    large, broken = caches > LARGE, seconds < lower
    return [
        Result(
            key="bound",
            what=f"bound broken, operands above {LARGE} last-level caches",
            points=int(large.sum()),
            value=int(broken[large].sum()),
            target=0,
        ),
        Result(
            key="bound-all", what="bound broken, all", points=seconds.size, value=int(broken.sum())
        ),
    ]


def _product_lines() -> list[Result]:
    on = chip(REFERENCE)
    every = products("matmul_a100_transformer_gemms")
    unseen = every.some(held_out(len(every.seconds)))
    bound, seconds = unseen.bound(on), unseen.seconds
    likely = predict(bound, on, state="sustained")
    expected, names = np.asarray(likely.expected), np.asarray(bound.bound)
    what = "matrix products on A100, shapes not fitted, same laboratory"
    return [
        _error("products", what, expected, seconds, 0.08),
        _share(
            "products-range", "of these within the 80 % range", _within(likely, seconds), WITHIN
        ),
        *(
            _error(f"products-{name}", f"of these {name}", expected[which], seconds[which])
            for name in np.unique(names)
            for which in [names == name]
        ),
        *_laboratory_lines(),
        *_other_lab(on),
    ]


def _within(likely: Prediction, seconds: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((seconds >= likely.low) & (seconds <= likely.high))


def _laboratory_lines() -> list[Result]:
    """Products timed alone, of each laboratory with the centre of the others: medians."""
    known = calibration(REFERENCE, DTYPE)
    ratios = laboratories(known)
    missed = from_others(ratios)
    every = "products alone on A100, each laboratory from the others"
    away = np.abs(np.log(np.array(list(ratios.values())) / known.constants.burst))
    return [
        _share("labs", every, np.abs(list(missed.values())), 0.08),
        *(
            Result(key=f"lab-{name}", what=f"of these {name}", points=1, value=abs(error))
            for name, error in missed.items()
        ),
        _share("labs-range", "laboratories within the doubt of one", away <= known.labs),
    ]


def _other_lab(on: Accelerator) -> list[Result]:
    other = products("matmul_a100_m_sweep")
    expected, seconds = np.asarray(predict(other.bound(on), on).expected), other.seconds
    long = seconds >= 1e-3  # a call's own time, some 30 microseconds there, no longer counts
    estimate, times = elementwise()
    moved = np.asarray(predict(estimate, on).expected)
    streams = np.asarray(estimate.bytes) > LARGE * (on.llc or 0)
    every = "matrix products on A100, another laboratory"
    slow = "of these that take a millisecond or more"
    alone = "elementwise kernels on A100 that stream, another laboratory"
    return [
        _error("other-lab-all", every, expected, seconds),
        _error("other-lab", slow, expected[long], seconds[long]),
        _error("other-lab-streams", alone, moved[streams], times[streams]),
    ]


def _step_lines() -> list[Result]:
    decode, prefill = (
        [step for step in steps(kind) if step.run.model != MODEL] for kind in ("decode", "prefill")
    )
    wide = [step for step in decode if step.run.w in ("bf16", "fp16")]
    narrow = [step for step in decode if step not in wide]
    lines = [
        _step_error("decode", "decode, time per token, models not fitted", decode, 0.08),
        _step_error("decode-wide", "of these with weights in 16 bits", wide),
        _step_error("decode-narrow", "of these with weights in 8 or 4 bits", narrow),
        _step_error("prefill", "prefill, models not fitted", prefill, 0.12),
        _step_error("prefill-all", "prefill, all models", steps("prefill"), 0.12),
    ]
    for key, what, some, target in (
        ("steps-range", "models not fitted within their range", [*decode, *prefill], WITHIN),
        ("steps-all", "all models within their range", [*steps("decode"), *steps("prefill")], None),
    ):
        lines.append(_share(key, f"steps of {what}", _steps_within(some), target))
    # An engine whose rows neither a constant nor a range was drawn from.
    every = steps("decode", published.UNSEEN)
    for key in sorted({step.run.chip for step in every}):
        of, name = [step for step in every if step.run.chip == key], chip(key).short
        line = f"engine-{name.lower()}"
        lines += [
            _step_error(line, f"decode on {name}, another engine", of),
            _share(f"{line}-range", f"of these on {name} within their range", _steps_within(of)),
        ]
    return lines


def _step_error(
    key: str, what: str, some: Sequence[MeasuredStep], target: float | None = None
) -> Result:
    expected = [float(predict(one.bound, one.run.chip).expected) for one in some]
    return _error(key, what, expected, [one.measured for one in some], target)


def _steps_within(some: Sequence[MeasuredStep]) -> list[float]:
    return [coverage(predict(one.bound, one.run.chip), one.measured) for one in some]


def _large(some: Messages) -> Messages:
    return some.some(some.size > LARGE_MESSAGE)


def _message_lines() -> list[Result]:
    lines, expected, seconds, inside = [], [], [], []
    for node, n in NODES:
        large = _large(halved(messages(node, n, n))[1])
        likely = collective("all-reduce", large.size, REFERENCE, n)
        expected.append(np.asarray(likely.expected))
        seconds.append(large.seconds)
        inside.append(_within(likely, large.seconds))
        what = f"of these {n} chips of {node}"
        lines.append(_error(f"all-reduce-{node}-{n}", what, expected[-1], large.seconds))
    every = "all-reduce over NVLink above 1 MiB"
    held = "of these within the 80 % range"
    apart = _large(halved(messages(*PAIRED, over="host"))[1])
    likely = collective("all-reduce", apart.size, REFERENCE, PAIRED[1], link="host")
    across = "all-reduce across PCIe above 1 MiB"
    return [
        _error("all-reduce", every, np.concatenate(expected), np.concatenate(seconds), 0.15),
        *lines,
        _share("all-reduce-range", held, np.concatenate(inside), EDGES),
        *map(_switch_line, ("h200-sxm", "b200-sxm")),
        _error("all-reduce-host", across, likely.expected, apart.seconds),
        *_node_lines(),
    ]


def _switch_line(key: str) -> Result:
    """All-reduces of gigabytes on later chips: by the switch, and rings, each against constants
    that its own row helped to set.
    """
    expected, seconds, size = [], [], 8 * 2.0**30
    for row in table("collectives_ml_engineering"):
        if row["node"] != SWITCHES[key] or row["collective"] != "all-reduce":
            continue
        n = int(float(row["n_gpus"]))
        for column, way in (("busbw_GBps", None), ("busbw_no_nvls_GBps", False)):
            likely = collective("all-reduce", size, key, n, in_switch=way)
            expected.append(float(likely.expected))
            share = float(cost("all-reduce", n).share)
            seconds.append(share * size / (1e9 * float(row[column])))
    name = chip(key).short
    what = f"all-reduces of 8 GiB on {name}, fitted"
    return _error(f"switch-{name.lower()}", what, expected, seconds, 0.15)


def _node_lines() -> list[Result]:
    """All-reduces between two machines: their range was fitted to them, nothing else was."""
    on, expected, seconds, inside = chip(REFERENCE), [], [], []
    for each in PER_MACHINE:
        large = _large(messages(NODES[0][0], 2 * each, each, over="nodes"))
        link = between_nodes(on.node, on.links["nvlink"], each)
        likely = collective("all-reduce", large.size, on, 2 * each, link=link)
        expected.append(np.asarray(likely.expected))
        seconds.append(large.seconds)
        inside.append(coverage(likely, large.seconds))
    what = "all-reduce between two machines above 1 MiB, range fitted"
    error = _error("all-reduce-nodes", what, np.concatenate(expected), np.concatenate(seconds))
    within = _share("all-reduce-nodes-range", "of these within the 80 % range", inside)
    return [error, msgspec.structs.replace(within, points=error.points)]
