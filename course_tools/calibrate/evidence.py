"""The published measurements that constants are fitted to, which of them a fit never sees, and how
wrong the bound and the calibrated range are on those.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib import ops
from course_lib.core import Estimate, Work, roofline
from course_lib.core.dtypes import itemsize
from course_lib.network import all_reduce, between_nodes
from course_lib.network.collectives import seconds as bound_of
from course_lib.network.costs import cost
from course_lib.specs import Accelerator, chip, load_toml
from course_lib.workloads import llm
from course_tools.calibrate.constants import TYPICAL, Calibration, calibration, calibrations, lend
from course_tools.calibrate.errors import ELSEWHERE, FIT, LENT, TEST, FamilyErrors
from course_tools.calibrate.links import AT_ONCE, LARGE_MESSAGE, message_factors
from course_tools.calibrate.mixtures import FULL, MESSAGES, SENDERS, SENT
from course_tools.calibrate.prediction import Prediction, collective, family_of, predict
from course_tools.files import DATA
from course_tools.measured import published
from course_tools.measured.published import CHIPS, best_published, table

REFERENCE, DTYPE = "a100-sxm-80", "fp16"
SEED, HELD_OUT = 0, 0.25
# Chips whose operators one collector timed inside an engine, and the formats of its products beside
# bf16: some with a kernel before them that brings the activations into the format.
COLLECTED = ("h100-sxm", "b200-sxm")
NARROW = ("fp8", "fp8-block", "nvfp4")
# Chips of which products alone in bf16 were timed, and whether these are enough to hold half out.
OTHERS = {"rtx-a6000": True, "tpu-v7": False}
# Chips of which products alone in bf16, or elementwise kernels and softmaxes in fp32, test only
# what they are lent.
LENT_PRODUCTS, LENT_STREAMS = ("tpu-v6e",), ("m4-max", "rtx-4090", "v100-sxm2")
# Engines of which steps of the fitted model are published, and where.
ENGINES = {"gpt-fast": "decode_gptfast_bs1", "lmdeploy": "decode_lmdeploy_a100_static"}
MODEL = "llama-2-7b"  # the model whose steps are fitted; all others are held out
# Where all-reduces went over NVLink alone: whole nodes with their chips, and a bridged pair.
NODES = (("a100_dgx", 2), ("a100_dgx", 4), ("a100_dgx", 8), ("a100_pairwise_nvlink", 2))
# Where all-reduces crossed the PCIe links between two bridged pairs.
PAIRED = ("a100_pairwise_nvlink", 4, 4)
PER_MACHINE = (1, 2, 4, 8)  # chips of each of two machines between which they were measured
NORMAL = 1.2816  # standard deviations of a normal distribution that an 80 % range reaches
# The node whose published all-reduces say what a chip's links and switch reach.
SWITCHES: Mapping[str, str] = load_toml(DATA / "evidence.toml", dict)["switches"]


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


def _columns(name: str, *of: str, **where: str) -> list[NDArray[Any]]:
    """Columns of a table as numbers, nothing as 0: of the rows where columns say so."""
    rows = [row for row in table(name) if where.items() <= row.items()]
    return [np.array([float(row[one] or 0) for row in rows]) for one in of]


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


def of_others(key: str) -> tuple[Products, Products]:
    """The products of one of `OTHERS` that are fitted, and those that test it: where there are too
    few for that, none.
    """
    return halved(products("matmul_chips", chip=key), 0.5 if OTHERS[key] else 0.0)


@cache
def attentions(key: str, kind: str, compute: str) -> tuple[Estimate, NDArray[Any]]:
    """Attention that a collector timed on a chip, by its phase and the format of its arithmetic,
    which latent prompts have from their cache: bounds, and times, s.
    """
    where = {"chip": key, "phase": kind, "cache" if kind == "latent prompt" else "compute": compute}
    rows = [row for row in table("attention_engines") if where.items() <= row.items()]
    sizes = ("batch", "new", "length", "heads", "kv_heads")
    shape = np.array([[int(row[name]) for name in sizes] for row in rows]).T
    latent: dict[str, Any] = {
        "latent decode": {"value_dim": 512, "values_in_keys": True},
        "latent prompt": {"value_dim": 128},
    }.get(kind, {})
    works = [
        ops.attention(
            *(int(row[name]) for name in (*sizes, "head_dim")),
            causal=True,
            kv=None if kind == "latent prompt" else row["cache"],
            compute=compute,
            **latent,
        )
        for row in rows
    ]
    flops, moved = (np.array([getattr(one, of) for one in works]) for of in ("flops", "bytes"))
    work = Work(flops, moved, compute, "matrix", shape=tuple(shape), kind="attention")
    return roofline(work, chip(key)), np.array([float(row["ms"]) / 1e3 for row in rows])


# Which rows the constants of a phase are fitted to: those of the arithmetic's formats.
PHASES = {
    "prompt": tuple((kind, x) for kind in ("prompt", "latent prompt") for x in ("bf16", "fp8")),
    "decode": (("decode", "bf16"),),
    "latent": (("latent decode", "bf16"),),
}


@cache
def mixtures(key: str) -> tuple[tuple[tuple[Estimate, Estimate], NDArray[Any]], ...]:
    """Mixtures that a collector timed on a chip, by the format of their weights: bounds of their
    product in and of that out, and times, s; of the chips that share them, on the busiest.
    """
    every, found = [row for row in table("mixtures_engines") if row["chip"] == key], []
    names = ("tokens", "experts", "active", "ep", "width", "inner", "tp", "gated", "ms")
    for weights in sorted({row["weights"] for row in every}):
        rows = [row for row in every if row["weights"] == weights]
        sizes = np.array([[float(row[name]) for name in names] for row in rows])
        loads = [busiest(*one[:4], row["router"]) for one, row in zip(sizes, rows, strict=True)]
        tokens, _, active, _, width, inner, tp, gated, ms = sizes.T
        b, groups = np.array(loads).T
        x, pairs = "bf16" if weights == "bf16" else "fp8", tokens * active
        formats: Any = {"x": x, "w": weights, "out": "bf16", "compute": x, "routed": pairs}
        into, out = (
            roofline(ops.grouped_matmul(b, d, f, groups, **formats), chip(key))
            for d, f in ((width, (1 + gated) * inner / tp), (inner / tp, width))
        )
        found.append(((into, out), ms / 1e3))
    return tuple(found)


@cache
def busiest(
    tokens: float, experts: float, active: float, chips: float, router: str
) -> tuple[float, float]:
    """Pairs of a token and an expert on the busiest of the chips, and experts met there: with an
    even router as even as can be, else the mean of drawn ones.
    """
    own, pairs = int(experts / chips), tokens * active
    if router == "even":
        mean = max(np.round(pairs / chips), 1.0)
        return mean, min(own, mean)
    # How much experts are favored falls with a power between 1 and 0.8 of the tokens: none gets
    # more pairs than there are tokens.
    less, most = 1 - float(router), max(0.8 * tokens, 1.0)
    drawn = np.random.default_rng(SEED).random((16, int(experts)))
    loads = ((most**less - 1) * drawn + 1) ** (1 / less)
    for _ in range(4):
        loads = np.minimum(loads / loads.sum(axis=1, keepdims=True) * pairs, tokens)
    on_chips = loads.reshape(16, int(chips), own)
    on_busiest = on_chips[np.arange(16), on_chips.sum(axis=2).argmax(axis=1)]
    b = min(max(np.round(on_busiest.sum(axis=1).mean()), 1.0), pairs)
    # An expert is missed as the exponential of its mean says, if tokens choose on their own.
    met = (1 - np.exp(-on_busiest)).sum(axis=1).mean()
    return b, float(np.clip(met, min(b, 1.0), min(b, own)))


def engine_messages(key: str) -> dict[str, "Messages"]:
    """What engines' own kernels send, by the name of constants: dispatches and combines of experts
    among eight of a chip, where each token goes once to every chip that has an expert of its, in a
    byte and the scale of 128, and comes back in two; and short all-reduces, in which each chip
    sends all to each other, as much as gathers so many messages.
    """
    link = chip(key).links["nvlink"]
    size, n, ms = _columns("reduces_engines", "bytes", "n", "ms", chip=key)
    bound = np.asarray(bound_of("all-gather", n * size, link, n))
    found = {AT_ONCE: Messages(size, n, ms / 1e3, bound, "all-gather")}
    for name in MESSAGES:
        there, few = name.startswith("dispatch"), name.endswith("few")
        names = ("tokens", "width", "experts", "active", "multiprocessors")
        time, mode = "dispatch_us" if there else "combine_us", "small" if few else "large"
        every = _columns("messages_engines", *names, time, chip=key, mode=mode)
        tokens, width, experts, active, units, us = every
        pairs = zip(experts.astype(int).tolist(), active.astype(int).tolist(), strict=True)
        met = np.array([1 - math.comb(7 * e // 8, a) / math.comb(e, a) for e, a in pairs])
        size = 8 * tokens * width * met * (1 + 4 / 128 if there else 2)
        slower = np.maximum(FULL / experts if there else 1.0, 1.0)
        if not few:
            slower = np.maximum(SENDERS / units, SENT / link.total_per_direction)
        bound = np.asarray(bound_of("all-to-all", size, link, 8, "switched"))
        found[name] = Messages(size, np.full(size.size, 8), us / 1e6, bound * slower, "all-to-all")
    return found


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


Timed = TypeVar("Timed", Products, Messages)


def nccl(key: str) -> list[Messages]:
    """NCCL's collectives over a chip's links, by kind, each in fixed order."""
    found = []
    for kind in sorted({row["collective"] for row in table("collectives_nccl")}):
        size, n, ms = _columns("collectives_nccl", "bytes", "n", "ms", chip=key, collective=kind)
        way = "switched" if kind == "all-to-all" else None
        bound = np.asarray(bound_of(kind, size, chip(key).links["nvlink"], n, way))
        found.append(Messages(size, n, ms / 1e3, bound, kind))
    return found


def messages(node: str, workers: int, per_node: int, over: str = "nvlink") -> Messages:
    """The all-reduces of one kind of node, against the reference chip's NVLink, its link to the
    ``"host"``, or the ports of its ``"nodes"``.
    """
    where = {"node": node, "num_workers": str(workers), "devices_per_node": str(per_node)}
    size, ms = _columns("collectives_a100_allreduce", "size_bytes", "ms", **where)
    on = chip(REFERENCE)
    nvlink = on.links["nvlink"]
    link = between_nodes(on.node, nvlink, per_node) if over == "nodes" else on.joins[over]
    bound = np.asarray(all_reduce(size, link, workers))
    return Messages(size, np.full(size.size, workers), ms / 1e3, bound)


def halved(some: Timed, share: float = 0.5) -> tuple[Timed, Timed]:
    """Products or messages in two by a fixed random draw: some to fit, and a share to test."""
    out = held_out(some.seconds.size, share)
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


ENDS = ("low", "expected", "high")
LARGE = 8  # operands of so many last-level caches cannot be served from one


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
    m, n, rates = _columns("elementwise_a100", "M", "N", "throughput_Gelem_per_s")
    work = ops.elementwise((m * n,), flops=0, dtype=DTYPE)
    return roofline(work, chip(REFERENCE)), m * n / rates / 1e9


def broken(least: float = LARGE) -> tuple[int, int]:
    """How many measurements have operands of more than so many last-level caches, and how many of
    these are faster than their bound.
    """
    seconds, lower, caches, _ = (np.concatenate(part) for part in zip(*bounds(), strict=True))
    which = caches > least
    return int(which.sum()), int((seconds < lower)[which].sum())


def error_rows() -> list[FamilyErrors]:
    """Predicted against measured: products, steps of inference, collectives and streams."""
    timed = (_product_errors, _attention_errors, _step_errors, _message_errors, _mixture_errors)
    return [row for family in (*timed, _stream_errors) for row in family()]


def _errors(
    family: str, held: str, key: str, likely: Prediction, seconds: Any, which: Any = ...
) -> FamilyErrors:
    times = (seconds, likely.expected, likely.low, likely.high)
    return FamilyErrors(family, held, (key,), *(np.asarray(one)[which] for one in times))


def _product_errors() -> Iterator[FamilyErrors]:
    on = chip(REFERENCE)
    every = halved(products("matmul_a100_transformer_gemms"), HELD_OUT)
    for held, some in zip((FIT, TEST), every, strict=True):
        likely = predict(some.bound(on), on, state="sustained")
        yield _errors("products", held, on.key, likely, some.seconds)
    other = products("matmul_a100_m_sweep")
    long = other.some(other.seconds >= 1e-3)  # a call's own time no longer counts
    yield _errors("products", ELSEWHERE, on.key, predict(long.bound(on), on), long.seconds)
    for dtype in ("bf16", "fp8"):
        for key, best in best_published(dtype).items():
            if key in COLLECTED:
                one = one_product(best.shape[0], best.shape[2], best.shape[1], best.rate)
                likely = predict(one.bound(chip(key), dtype), key, dtype=dtype)
                yield _errors(family_of(dtype), ELSEWHERE, key, likely, one.seconds)
    for key in OTHERS:
        for held, some in zip((FIT, TEST), of_others(key), strict=True):
            if some.seconds.size:
                likely = predict(some.bound(chip(key), "bf16"), key)
                yield _errors("products", held, key, likely, some.seconds)
    for key in LENT_PRODUCTS:
        some = products("matmul_chips", chip=key)
        likely = predict(some.bound(chip(key), "bf16"), key)
        yield _errors(_of_vendor("products", key), LENT, key, likely, some.seconds)
    for key, other_key in (COLLECTED, COLLECTED[::-1]):
        on = chip(key)
        for dtype in ("bf16", *NARROW):
            some = cold(key, dtype)
            if not some.seconds.size:
                continue
            engine = before(dtype)
            for held, part in zip((FIT, TEST), halved(some), strict=True):
                bound = part.bound(on, dtype)
                likely = predict(bound, on, dtype=dtype, engine=engine)
                yield _errors(family_of(dtype), held, key, likely, part.seconds)
            if dtype != "nvfp4":
                lent = _lent(on, other_key, dtype, engine)
                likely = predict(some.bound(on, dtype), on, constants=lent, dtype=dtype)
                yield _errors(family_of(dtype), LENT, key, likely, some.seconds)


def _of_vendor(family: str, key: str) -> str:
    """A family of a vendor's chips alone, which says nothing about those of the reference."""
    vendor = chip(key).vendor
    return family if vendor == chip(REFERENCE).vendor else f"{family}, {vendor}"


def _attention_errors() -> Iterator[FamilyErrors]:
    for key, other in (COLLECTED, COLLECTED[::-1]):
        lent = _lent(chip(key), other, "bf16")
        for kind, parts in PHASES.items():
            family = "attention, prompts" if kind == "prompt" else "attention, decoding"
            for part in parts:
                bound, seconds = attentions(key, *part)
                out = held_out(seconds.size, 0.5)
                for held, which, given in ((FIT, ~out, None), (TEST, out, None), (LENT, ..., lent)):
                    likely = predict(bound, key, constants=given)
                    yield _errors(family, held, key, likely, seconds, which)


def before(dtype: str) -> str:
    """The engine whose kernel before products in a format the collector timed with them."""
    return {"bf16": TYPICAL, "fp8": "tensorrt-llm"}.get(dtype, f"tensorrt-llm-{dtype}")


def _lent(on: Accelerator, like: str, dtype: str, engine: str = TYPICAL) -> Calibration:
    """Another chip's constants, as a chip of the same collector is lent them."""
    found = calibration(like, dtype, engine)
    # As the files of chips say that a collected one lends, in the same laboratory, and the
    # reference to any other.
    alike = calibration("h200-sxm").log_sigma ** 2 - found.log_sigma**2
    apart = found.chips if like == REFERENCE else math.sqrt(alike)
    return lend(msgspec.structs.replace(found, log_sigma=apart), chip(like), on)


def _step_errors() -> Iterator[FamilyErrors]:
    for kind, family in (("decode", "decode"), ("prefill", "first tokens")):
        every = steps(kind)
        other = list(steps(kind, published.UNSEEN))
        yield from _of_steps(family, FIT, [one for one in every if one.run.model == MODEL])
        yield from _of_steps(family, TEST, [one for one in every if one.run.model != MODEL])
        own = [one for one in other if one.run.chip in calibrations()]
        yield from _of_steps(family, ELSEWHERE, own)
        yield from _of_steps(family, LENT, [one for one in other if one.run.chip != REFERENCE])


def _of_steps(family: str, held: str, some: list[MeasuredStep]) -> Iterator[FamilyErrors]:
    keys = tuple(one.run.chip for one in some)
    likely = []
    for one, key in zip(some, keys, strict=True):
        lends = held == LENT and key in calibrations()  # else they are lent anyway
        constants = _lent(chip(key), REFERENCE, DTYPE) if lends else None
        engine = engine_of(one.run)
        likely.append(predict(one.bound, key, constants=constants, engine=engine))
    if some:
        low, expected, high = (np.array([float(getattr(of, end)) for of in likely]) for end in ENDS)
        measured = [one.measured for one in some]
        yield FamilyErrors(family, held, keys, measured, expected, low, high)


def engine_of(run: published.PublishedRun) -> str:
    """The engine of a run whose constants are its own."""
    return next((name for name, of in ENGINES.items() if of == run.table), TYPICAL)


def _message_errors() -> Iterator[FamilyErrors]:
    for node, n in NODES:
        for held, some in zip((FIT, TEST), halved(messages(node, n, n)), strict=True):
            yield from _sized(held, REFERENCE, some)
    for key, other in (COLLECTED, COLLECTED[::-1]):
        for every in nccl(key):
            for held, some in zip((FIT, TEST), halved(every), strict=True):
                yield from _sized(held, key, some)
            yield from _sized(LENT, key, every, _lent(chip(key), other, "bf16"))
    # All-reduces of gigabytes of another laboratory, by the switch and by rings.
    for key in ("h200-sxm", "b200-sxm"):
        where = {"node": SWITCHES[key], "collective": "all-reduce"}
        for column, way in (("busbw_GBps", None), ("busbw_no_nvls_GBps", False)):
            ranks, rates = _columns("collectives_ml_engineering", "n_gpus", column, **where)
            likely = collective("all-reduce", 8 * 2.0**30, key, ranks, in_switch=way)
            share = np.asarray(cost("all-reduce", ranks).share)
            yield _errors("collectives", ELSEWHERE, key, likely, share * 8 * 2.0**30 / rates / 1e9)


def _mixture_errors() -> Iterator[FamilyErrors]:
    for key, other in (COLLECTED, COLLECTED[::-1]):
        own, lent = calibration(key, "bf16"), _lent(chip(key), other, "bf16")
        for bounds, seconds in mixtures(key):
            out = held_out(seconds.size, 0.5)
            for held, which, given in ((FIT, ~out, None), (TEST, out, None), (LENT, ..., lent)):
                both = [predict(one, key, constants=given) for one in bounds]
                low, expected, high = (
                    np.sum([getattr(one, end) for one in both], axis=0)[which] for end in ENDS
                )
                yield FamilyErrors("mixtures", held, (key,), seconds[which], expected, low, high)
        for name, sent in engine_messages(key).items():
            fit, test = halved(sent)
            for held, some, of in ((FIT, fit, own), (TEST, test, own), (LENT, sent, lent)):
                link = of.links[name]
                times = np.asarray(link.seconds(some.kind, some.bound, some.chips, some.way))
                least, most = message_factors(link, some.size, some.chips, of.log_sigma)
                ends = times, least * times, most * times
                family = "dispatch and combine" if name in MESSAGES else "all-reduces of engines"
                yield FamilyErrors(family, held, (key,), some.seconds, *ends)


def _sized(held: str, key: str, some: Messages, given: Any = None) -> Iterator[FamilyErrors]:
    """Large messages and small ones apart."""
    large = some.size > LARGE_MESSAGE
    for family, which in (("collectives", large), ("small collectives", ~large)):
        if np.any(which):
            one = some.some(which)
            likely = collective(one.kind, one.size, key, one.chips, constants=given)
            yield _errors(family, held, key, likely, one.seconds)


def _stream_errors() -> Iterator[FamilyErrors]:
    estimate, seconds = elementwise()
    streams = np.asarray(estimate.bytes) > LARGE * (chip(REFERENCE).llc or 0)
    likely = predict(estimate, REFERENCE)
    yield _errors("elementwise", ELSEWHERE, REFERENCE, likely, seconds, streams)
    for key in LENT_STREAMS:
        elements, ms = _columns("elementwise_mlx", "elements", "ms", chip=key)
        estimate = roofline(ops.elementwise((elements,), flops=0, dtype="fp32"), chip(key))
        cold = np.asarray(estimate.bytes) > (chip(key).llc or 0)
        yield _errors(
            _of_vendor("elementwise", key), LENT, key, predict(estimate, key), ms / 1e3, cold
        )
