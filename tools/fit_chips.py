"""Fits the constants of `course_tools.calibrate` to `course_tools.calibrate.evidence`, and writes
`data/calibration`: ``make calibrate`` runs it.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from course_lib.core import Estimate
from course_lib.core.checks import CourseError
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, chip
from course_tools.calibrate import evidence
from course_tools.calibrate.attention import AttentionConstants, attention_seconds
from course_tools.calibrate.constants import (
    CALLS,
    FOLDER,
    LENT,
    OF_LINKS,
    TYPICAL,
    Calibration,
    CalibrationFile,
    cooling,
    engines,
    to_toml,
)
from course_tools.calibrate.constants import ENGINES as ENGINES_FILE
from course_tools.calibrate.kernels import Constants, EngineConstants, Kernel, quantizing, seconds
from course_tools.calibrate.links import AT_ONCE, LARGE_MESSAGE, InSwitch, LinkConstants, Range
from course_tools.calibrate.mixtures import MixtureConstants, lent_link, mixture_seconds
from course_tools.calibrate.own import least_absolute
from course_tools.calibrate.prediction import mean_error, predict
from course_tools.calibrate.timing import COMPUTE, MEMORY
from course_tools.measured.published import CHIPS, best_published, table

TENTH = 0.1  # a range leaves out as much on either side
START = {"compute": 0.75, "bandwidth": 0.8, "overhead": 4e-6, "overlap": 4.0, "reload": 12.0}
MOST = {"compute": 1.0, "bandwidth": 1.0}
# Cards that meet in a root complex share it, or reach each other beside it: the root of their
# number is the middle of the two.
CROWDING = 0.5
SURE = Range(1.0, 1.0)


def nvlink_messages() -> list[evidence.Messages]:
    """Half of all that went over NVLink alone: the half that is fitted."""
    return [evidence.halved(evidence.messages(node, n, n))[0] for node, n in evidence.NODES]


def node_messages() -> evidence.Messages:
    """All that went between two machines, whatever part of their chips took part."""
    every = [
        evidence.messages(evidence.NODES[0][0], 2 * each, each, over="nodes")
        for each in evidence.PER_MACHINE
    ]
    size, chips, times, bound = (np.concatenate([one[i] for one in every]) for i in range(4))
    return evidence.Messages(size, chips, times, bound)


def misalignment() -> float:
    """How much longer products with misaligned rows take: one hidden size of a gated MLP against
    its neighbors.
    """
    rates = {
        int(row["d_ff"]): float(row["tflops"]) for row in table("matmul_swiglu_alignment_h100")
    }
    aligned = [rate for size, rate in rates.items() if size % 8 == 0]
    return float(np.median(aligned) / min(rates.values()))


def between_chips() -> float:
    """How far chips' best published fractions of the peak lie apart: a logarithm, as wide as an 80
    % range on either side.
    """
    best = best_published("bf16")
    shares = [best[key].rate / chip(key).peak("bf16") for key in best]
    return float(evidence.NORMAL * np.std(np.log(shares), ddof=1))


def fit_products(
    measured: evidence.Products,
    on: Accelerator,
    others: Constants,
    dtype: str = evidence.DTYPE,
    start: dict[str, float] = START,
    engine: dict[str, float] | None = None,
) -> tuple[Constants, dict[str, float]]:
    """The constants of products that `start` names, and what `engine` names of kernels before."""
    bound, before = measured.bound(on, dtype), engine or {}
    kernel = Kernel(bound, bound.work)

    def residuals(given: dict[str, float]) -> Any:
        c = structs.replace(others, **{name: given[name] for name in start})
        times = _with_quantizing(kernel, on, c, {name: given[name] for name in before})
        return np.log(times / measured.seconds)

    found = least_absolute(residuals, {**start, **before}, MOST)
    c = structs.replace(others, **{name: found[name] for name in start})
    return c, {name: found[name] for name in before}


def predict_steps(some: Iterable[evidence.MeasuredStep], given: Calibration) -> NDArray[Any]:
    """Expected times of steps, s."""
    times = []
    for step in some:
        repeats = engines()[evidence.engine_of(step.run)].repeats
        one = structs.replace(given, engine=structs.replace(given.engine, repeats=repeats))
        times.append(float(predict(step.bound, step.run.chip, constants=one).expected))
    return np.array(times)


def fit_engine(
    given: Calibration, model: str = evidence.MODEL, of: str | None = None
) -> Calibration:
    """The constants that only whole steps show, from those of one model: all engines together, or
    the gap of one by the name of its table.
    """
    decode, prefill = (
        [step for step in evidence.steps(kind) if step.run.model == model]
        for kind in ("decode", "prefill")
    )
    wide = [step for step in decode if step.run.w in ("bf16", "fp16")]
    narrow = [step for step in decode if step not in wide]
    parts = [("gap", wide, 2e-6), ("launch", prefill, 1e-5), ("unpack", narrow, 0.05)]
    if of is not None:
        parts = [("gap", [step for step in wide if step.run.table == of], 2e-6)]
    for name, some, start in parts:

        def put(c: dict[str, float], before: Calibration = given) -> Calibration:
            return structs.replace(before, engine=structs.replace(before.engine, **c))

        def residuals(c: dict[str, float], some: Any = some, put: Any = put) -> Any:
            return np.log(predict_steps(some, put(c)) / [step.measured for step in some])

        given = put(least_absolute(residuals, {name: start}))
    return given


def _ratios(
    link: LinkConstants, some: list[evidence.Messages]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """How many times as long as expected messages took, and which of them are large."""
    size = np.concatenate([one.size for one in some])
    times = [one.seconds / link.seconds(one.kind, one.bound, one.chips, one.way) for one in some]
    return np.concatenate(times), size > LARGE_MESSAGE


def _fit_link(
    link: LinkConstants, some: list[evidence.Messages], start: dict[str, float]
) -> LinkConstants:
    """A link with constants fitted to these collectives."""

    def residuals(given: dict[str, float]) -> NDArray[Any]:
        ratios, _ = _ratios(structs.replace(link, **given), some)
        return np.asarray(-np.log(ratios))

    found = least_absolute(residuals, start, {"bandwidth": 1.0, "waits": 1.0})
    return structs.replace(link, **found)


def _ranged(link: LinkConstants, some: list[evidence.Messages]) -> LinkConstants:
    ratios, large = _ratios(link, some)
    return structs.replace(link, range=_range(ratios[large]), small=_range(ratios[~large]))


def fit_links(some: list[evidence.Messages], switch: InSwitch | None = None) -> LinkConstants:
    """What collectives over a chip's links reach: rings and exchanges of every size, and the switch
    from so many chips on as the library lets it add.
    """
    start = {"latency": 1e-5, "hop": 1e-6, "bandwidth": 0.8}
    link = LinkConstants(latency=0.0, hop=0.0, bandwidth=1.0, range=SURE, small=SURE)
    if switch is None:
        # Two kinds of nodes that agree on large messages alone.
        rings = [one.some(one.size > LARGE_MESSAGE) for one in some]
        return _ranged(_fit_link(link, rings, start), some)
    adds = [(one.chips >= switch.chips) & (one.kind == "all-reduce") for one in some]
    rings = [one.some(~by) for one, by in zip(some, adds, strict=True)]
    link = _fit_link(link, rings, {**start, "ends": 0.3, "waits": 0.6})
    added = [one.some(by & (one.size > LARGE_MESSAGE)) for one, by in zip(some, adds, strict=True)]
    large = next(one for one in added if one.size.size)

    def residuals(given: dict[str, float]) -> NDArray[Any]:
        one = structs.replace(link, in_switch=structs.replace(switch, **given))
        times = one.seconds(large.kind, large.bound, large.chips, in_switch=True)
        return np.asarray(np.log(times / large.seconds))

    rate = least_absolute(residuals, {"bandwidth": switch.bandwidth}, {"bandwidth": 1.0})
    return _ranged(structs.replace(link, in_switch=structs.replace(switch, **rate)), some)


def fit_host(some: evidence.Messages, inside: LinkConstants) -> LinkConstants:
    """What messages over the host's links reach, whose call costs no less than over a chip's own:
    the share of the bandwidth on the one machine measured, where two pairs of cards met nowhere.
    """
    # How many cards share a root complex, and whether they reach each other, no row says.
    alone = structs.replace(inside, ends=0.0, in_switch=None)
    found = _ranged(_fit_link(alone, [some], {"bandwidth": 0.7}), [some])
    return structs.replace(found, crowding=CROWDING)


def fit_nodes(some: evidence.Messages, inside: LinkConstants) -> LinkConstants:
    """The latency of a call between machines, and how much longer than ports allow it took."""
    # The only machines measured reached a small part of their ports, and no two groups of chips the
    # same. So ports are expected to reach what links inside do, and the range reaches from there to
    # what was measured.
    between = structs.replace(inside, hop=0.0, ends=0.0, in_switch=None)
    few = some.some(some.size <= LARGE_MESSAGE)
    found = _ranged(_fit_link(between, [few], {"latency": 5e-5}), [some])
    return structs.replace(found, range=Range(inside.range.low, found.range.high))


def _range(ratios: NDArray[Any]) -> Range:
    low, high = np.quantile(ratios, (TENTH, 1 - TENTH))
    return Range(float(min(low, 1.0)), float(max(high, 1.0)))


def product_ranges(some: Iterable[tuple[NDArray[Any], Estimate]]) -> dict[str, Range]:
    """The ranges of products by the side of the ridge, from how many times as long as expected each
    took, and their bounds.
    """
    every = list(some)
    ratios = np.concatenate([one for one, _ in every])
    side = np.concatenate([np.asarray(bound.t_math / bound.t_memory) for _, bound in every])
    sides = {
        "memory": side < MEMORY,
        "ridge": (side >= MEMORY) & (side < COMPUTE),
        "compute": side >= COMPUTE,
    }
    # Where none lies on a side, that of all.
    return {name: _range(ratios[which] if which.any() else ratios) for name, which in sides.items()}


def _step_range(given: Calibration) -> Range:
    """The range of whole steps: of each model's, with an engine's constants from the other."""
    ratios = []
    every = [*evidence.steps("decode"), *evidence.steps("prefill")]
    for model in sorted({step.run.model for step in every}):
        others = [step for step in every if step.run.model != model]
        refitted = fit_engine(given, model)
        ratios.append([step.measured for step in others] / predict_steps(others, refitted))
    return _range(np.concatenate(ratios))


def _reference(date: str) -> tuple[CalibrationFile, dict[str, EngineConstants]]:
    """The constants of the reference chip, with their error on the products held out, and those of
    engines.
    """
    on = chip(evidence.REFERENCE)
    every = evidence.products("matmul_a100_transformer_gemms")
    fitted, test = evidence.halved(every, evidence.HELD_OUT)
    start = Constants(**START, misaligned=misalignment(), burst=1.0, stream=START["bandwidth"])
    (constants, _), bound = fit_products(fitted, on, start), fitted.bound(on)
    constants = structs.replace(constants, stream=constants.bandwidth)
    takes = seconds(Kernel(bound, bound.work), on, constants)
    sides = product_ranges([(fitted.seconds / takes, bound)])
    nvlink = fit_links(nvlink_messages())
    links = {
        "nvlink": nvlink,
        "nodes": fit_nodes(node_messages(), nvlink),
        "host": fit_host(
            evidence.halved(evidence.messages(*evidence.PAIRED, over="host"))[0], nvlink
        ),
    }
    one = fit_engine(
        Calibration(
            constants=constants,
            ranges={**sides, "step": Range(1.0, 1.0)},
            links=links,
            engine=EngineConstants(gap=2e-6, launch=1e-5, unpack=0.05, source=""),
            log_sigma=0.0,
            source="",
        )
    )
    burst, labs = evidence.centre(evidence.laboratories(one).values())
    constants = structs.replace(constants, burst=burst)
    repository = table("matmul_a100_transformer_gemms")[0]["source"].partition(":data")[0]
    expected = predict(test.bound(on), on, constants=one, state="sustained").expected
    flops = 2 * fitted.sizes.astype(float).prod(axis=1)
    runs = [step.run for step in (*evidence.steps("decode"), *evidence.steps("prefill"))]
    batches, contexts = ([run.batch for run in runs], [run.prompt + run.output for run in runs])
    file = CalibrationFile(
        date=date,
        source=f"matrix products of {repository}, steps of TensorRT-LLM, LMDeploy and gpt-fast",
        points=len(fitted.seconds),
        held_out=len(test.seconds),
        held_out_error=mean_error(expected, test.seconds),
        labs=labs,
        chips=between_chips(),
        region={
            "product": (float(flops.min()), float(flops.max())),
            "batch": (float(min(batches)), float(max(batches))),
            "context": (1.0, float(max(contexts))),
        },
        constants={"bf16": constants, "fp16": constants},
        ranges={**sides, "step": _step_range(one)},
        links=links,
    )
    together = "TensorRT-LLM, LMDeploy and gpt-fast together"
    engines = {TYPICAL: structs.replace(one.engine, source=together)}
    for name, of in evidence.ENGINES.items():
        source = f"{table(of)[0]['source']}; launch and unpack are the typical engine's"
        own = fit_engine(one, of=of).engine
        # Its steps grow with the context by more than their cache, and by about as much more as
        # the A100's last-level cache is slower than so many reads of memory.
        engines[name] = structs.replace(own, source=source, repeats=name == "lmdeploy")
    return file, engines


# What a format has of its own beside bf16's constants: a fraction of the peak, and where blocks are
# scaled how well that hides. Of fp8 in blocks the fraction is that of fp8: where the matrix unit
# does not scale, one multiplication and addition scales the sum of so many.
BLOCK = 128
OWN = {
    "fp8": {"compute": 0.7},
    "fp8-block": {"overlap": 2.0},
    "nvfp4": {"compute": 0.5, "overlap": 2.0, "bandwidth": 0.7},
}
BOTH = ("fp8", "fp8-block")  # narrow formats that both collected chips have
BEFORE = {"quantize": 5e-6, "requantize": 4.0}
# Where a few large products and copies were timed, those do not tell tiles apart.
ALONE = {"tpu-v7": ("compute", "overhead", "overlap")}
LONG = 1e-2  # s: a product alone that takes as long runs at the clock of a step


def _alone(key: str, like: Constants) -> tuple[dict[str, Constants], dict[str, Any]]:
    """The constants of products alone on a chip whose operators a collector timed inside an engine,
    from half of them, by format; and what its kernels before narrow ones take.
    """
    on, before = chip(key), {}
    wide, _ = fit_products(
        evidence.halved(evidence.cold(key, "bf16"))[0], on, structs.replace(like, burst=1.0), "bf16"
    )
    found = {"bf16": wide}
    for dtype in evidence.NARROW:
        if (some := evidence.cold(key, dtype)).seconds.size:
            given = structs.replace(found.get("fp8", wide), scales=1 / BLOCK)
            given, half = given if dtype == "fp8-block" else wide, evidence.halved(some)[0]
            found[dtype], before[dtype] = fit_products(half, on, given, dtype, OWN[dtype], BEFORE)
    return found, before


def _expected(
    key: str, dtype: str, some: evidence.Products, given: Any, before: Any
) -> NDArray[Any]:
    """What products in a format take on a chip with its kernels before them."""
    on, bound = chip(key), some.bound(chip(key), dtype)
    return _with_quantizing(Kernel(bound, bound.work), on, given[dtype], before.get(dtype, {}))


def _with_quantizing(kernel: Kernel, on: Accelerator, c: Constants, before: Any) -> NDArray[Any]:
    engine = EngineConstants(gap=0.0, launch=0.0, unpack=0.0, source="", **before)
    return np.asarray(seconds(kernel, on, c) + quantizing(kernel, on, c, engine))


def _collected(fitted: CalibrationFile) -> tuple[dict[str, CalibrationFile], dict[str, Any], float]:
    """The files of the chips that a collector timed, and the engines' kernels before narrow
    products, geometric means over chips; and how far generations lie apart.
    """
    alone = {key: _alone(key, fitted.constants["bf16"]) for key in evidence.COLLECTED}
    long = []
    for key in evidence.COLLECTED:
        some = evidence.cold(key, "bf16")
        long.append((some.seconds / _expected(key, "bf16", some, *alone[key]))[some.seconds > LONG])
    burst = float(np.median(np.concatenate(long)))
    # What one chip's constants, cooled, make of the other's products: how far generations lie.
    lent, narrow = [], []
    for key, other in (evidence.COLLECTED, evidence.COLLECTED[::-1]):
        for dtype in ("bf16", *BOTH):
            c, before = alone[other]
            share = cooling(chip(key), chip(other))
            given = {dtype: structs.replace(c[dtype], compute=min(c[dtype].compute * share, 1.0))}
            some = evidence.cold(key, dtype)
            ratios = some.seconds / _expected(key, dtype, some, given, before)
            lent += [np.median(ratios)] if dtype in ("bf16", "fp8") else []
            narrow += [(ratios, other)] if dtype in BOTH else []
    # And what a search for the best product found on the same chips: how far laboratories do.
    best = [
        np.log(_reached(dtype, key, alone[key][0][dtype]))
        for key in evidence.COLLECTED
        for dtype in ("bf16", "fp8")
    ]
    chips = float(evidence.NORMAL * np.sqrt(np.mean(np.log(lent) ** 2)))
    labs = float(
        evidence.NORMAL * np.sqrt(np.mean(np.square(best))) / 2
    )  # a laboratory is half way there
    files = {}
    for key in evidence.COLLECTED:
        c, before = alone[key]
        parts = {dtype: evidence.halved(evidence.cold(key, dtype)) for dtype in c}
        ratios = {
            dtype: [some.seconds / _expected(key, dtype, some, c, before) for some in two]
            for dtype, two in parts.items()
        }
        missed = np.concatenate([1 / test - 1 for _, test in ratios.values()])
        sides = product_ranges(
            (ratios[dtype][0], fit.bound(chip(key), dtype)) for dtype, (fit, _) in parts.items()
        )
        sizes = np.concatenate([fit.sizes.astype(float) for fit, _ in parts.values()])
        flops = 2 * sizes.prod(axis=1)
        steady = {
            "fp4" if dtype == "nvfp4" else dtype: structs.replace(
                one,
                compute=one.compute / burst,
                burst=burst,
                stream=one.bandwidth,
                # What steps reach, none of these rows is.
                bandwidth=min(c["bf16"].bandwidth, fitted.constants["bf16"].bandwidth),
            )
            for dtype, one in c.items()
        }
        halves = [evidence.halved(some)[0] for some in evidence.nccl(key)]
        # From so many chips on the library lets a chip's switch add.
        way, every = ("NVLS", evidence.SWITCHES[key]), table("collectives_ml_engineering")
        adds = [float(row["n_gpus"]) for row in every if (row["algo"], row["node"]) == way]
        switch = InSwitch(bandwidth=0.6, chips=int(min(adds)))
        files[key] = structs.replace(
            fitted,
            source=f"products and collectives of TensorRT-LLM 1.3 and NCCL 2.29 on {key}, by "
            f"aiconfigurator 0.12; unpacking, steps and what else is not of products "
            f"{evidence.REFERENCE}'s",
            points=len(sizes),
            held_out=missed.size,
            held_out_error=float(np.mean(np.abs(missed))),
            log_sigma=labs,
            labs=0.0,
            region=fitted.region | {"product": (float(flops.min()), float(flops.max()))},
            constants={**steady, "fp16": steady["bf16"]},
            ranges={**sides, "step": fitted.ranges["step"]},
            links={**fitted.links, "nvlink": fit_links(halves, switch), **_fit_messages(key)},
            attention=_fit_attention(key),
            mixtures=_fit_mixtures(key),
        )
    tightest = {
        key: min(one.ranges.values(), key=lambda range_: range_.high / range_.low)
        for key, one in files.items()
    }
    near = [(ratios, Range(*tightest[other].factors(chips))) for ratios, other in narrow]
    lent_doubts = {"narrow": _doubt(near)} | _between_generations(files)
    files = {key: structs.replace(one, lent=lent_doubts) for key, one in files.items()}
    means = {
        dtype: {
            name: float(
                np.exp(np.mean([np.log(b[dtype][name]) for _, b in alone.values() if dtype in b]))
            )
            for name in BEFORE
        }
        for dtype in evidence.NARROW
    }
    return files, means, chips


def _others(like: CalibrationFile) -> dict[str, CalibrationFile]:
    """The files of the chips of which products alone were timed: all else is another's, in as much
    more doubt as what is lent.
    """
    rates = [float(row["gbps"]) * 1e9 for row in table("stream_tpu_v7")]
    copies, calls = {"tpu-v7": max(rates) / chip("tpu-v7").bandwidth}, like.lent[CALLS]
    links = {
        name: structs.replace(
            link,
            range=Range(*link.range.factors(float(np.hypot(like.lent["links"], calls)))),
            small=Range(*link.small.factors(float(np.hypot(like.lent["small"], calls)))),
        )
        for name, link in like.links.items()
    }
    files = {}
    for key in evidence.OTHERS:
        on, (fit, test) = chip(key), evidence.of_others(key)
        start = {name: value for name, value in START.items() if name in ALONE.get(key, START)}
        given = structs.replace(like.constants["bf16"], burst=1.0)
        given = structs.replace(given, bandwidth=copies.get(key, given.bandwidth))
        c = fit_products(fit, on, given, "bf16", start)[0]
        c = structs.replace(c, stream=c.bandwidth)
        ratios = fit.seconds / _expected(key, "bf16", fit, {"bf16": c}, {})
        sides, missed = dict.fromkeys(("memory", "ridge", "compute"), _range(ratios)), None
        if test.seconds.size:
            sides = product_ranges([(ratios, fit.bound(on, "bf16"))])
            missed = mean_error(_expected(key, "bf16", test, {"bf16": c}, {}), test.seconds)
        flops = 2 * fit.sizes.astype(float).prod(axis=1)
        source = next(row["source"] for row in table("matmul_chips") if row["chip"] == key)
        files[key] = structs.replace(
            like,
            source=f"products of {source} on {key}; all else {evidence.REFERENCE}'s, in wider "
            f"ranges",
            points=ratios.size,
            held_out=test.seconds.size,
            held_out_error=missed,
            log_sigma=like.labs,
            labs=0.0,
            region=like.region | {"product": (float(flops.min()), float(flops.max()))},
            constants={"bf16": c, "fp16": c},
            ranges={**sides, "step": Range(*like.ranges["step"].factors(like.chips))},
            links=links,
        )
    # What is lent to others of a vendor is in as much doubt as their products show.
    lender, ends = files["tpu-v7"], files["tpu-v7"].ranges["memory"]
    off = []
    for key in evidence.LENT_PRODUCTS:
        some, c = evidence.products("matmul_chips", chip=key), lender.constants["bf16"]
        share = cooling(chip(key), chip("tpu-v7"))
        c = structs.replace(c, compute=min(c.compute * share, 1.0))
        off.append((some.seconds / _expected(key, "bf16", some, {"bf16": c}, {}), ends))
    files["tpu-v7"] = structs.replace(lender, chips=_doubt(off))
    return files


def _between_generations(files: dict[str, CalibrationFile]) -> dict[str, float]:
    """How much wider ranges must be to hold what one collected chip's constants make of another's
    attention and messages.
    """
    found: dict[str, list[tuple[NDArray[Any], Range]]] = {name: [] for name in LENT[1:]}
    calls = [files[key].links[AT_ONCE].latency for key in evidence.COLLECTED]
    for key, other in (evidence.COLLECTED, evidence.COLLECTED[::-1]):
        lender, ours = files[other], files[key].links
        rates = [chip(one).links["nvlink"].total_per_direction for one in (key, other)]
        for kind, parts in evidence.PHASES.items():
            c = lender.attention[kind]
            for bound, taken in (evidence.attentions(key, *part) for part in parts):
                expected = attention_seconds(Kernel(bound, bound.work), chip(key), c)
                found[kind].append((taken / expected, c.range))
        sent = {name: [some] for name, some in evidence.engine_messages(key).items()}
        for name, some in {"nvlink": evidence.nccl(key), **sent}.items():
            link = lent_link(name, lender.links, ours, *rates)
            large, small = OF_LINKS.get(name, ("links", "small"))
            ratios, is_large = _ratios(link, some)
            found[large].append((ratios[is_large], link.range))
            found[small].append((ratios[~is_large], link.small))
        if of_experts := lender.mixtures:
            every = _mixture_ratios(key, of_experts)
            found["mixtures"] += [(ratios, of_experts.range) for ratios, _ in every]
    doubts = {name: _doubt(some) for name, some in found.items()}
    return {**doubts, CALLS: abs(float(np.log(calls[0] / calls[1])))}


def _doubt(some: Iterable[tuple[NDArray[Any], Range]]) -> float:
    """The least doubt, a logarithm, with which four in five of such ratios lie in their range."""
    needed = []
    for ratios, given in some:
        ends: Any = np.where(ratios > 1, np.log(given.high), np.log(given.low))
        off = np.asarray(np.log(ratios))
        needed.append(np.sqrt(np.maximum(off**2 - ends**2, 0.0)))
    return float(np.quantile(np.concatenate(needed), 1 - 2 * TENTH))


def _mixture_ratios(key: str, c: MixtureConstants) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """How many times as long as expected mixtures took, and those of them that are fitted."""
    for bounds, taken in evidence.mixtures(key):
        kernels = [Kernel(bound, bound.work) for bound in bounds]
        ratios = taken / sum(mixture_seconds(one, chip(key), c) for one in kernels)
        yield ratios, ratios[~evidence.held_out(taken.size, 0.5)]


def _fit_mixtures(key: str) -> MixtureConstants:
    """What a chip achieves in the two products of mixtures, from half of what was timed on it."""
    start = {"overhead": 1e-5, "routing": 5e-10, "compute": 0.6, "bandwidth": 0.8}
    start |= {"waves": 0.5, "moved": 2.0}

    def residuals(given: dict[str, float]) -> NDArray[Any]:
        c = MixtureConstants(**given, range=SURE)
        return np.asarray(-np.log(np.concatenate([fit for _, fit in _mixture_ratios(key, c)])))

    best = least_absolute(residuals, start, MOST)
    return MixtureConstants(**best, range=_range(np.exp(-residuals(best))))


def _fit_messages(key: str) -> dict[str, LinkConstants]:
    """What a chip's links achieve in the messages of engines' own kernels, from half of each
    kind.
    """
    link = LinkConstants(latency=0.0, hop=0.0, bandwidth=1.0, waits=0.0, range=SURE, small=SURE)
    found, start = {}, {"latency": 2e-5, "bandwidth": 0.6}
    for name, every in evidence.engine_messages(key).items():
        some = [evidence.halved(every)[0]]
        more = {"hop": 1e-7} if name == AT_ONCE else {"waits": 0.2}
        found[name] = _ranged(_fit_link(link, some, start | more), some)
    return found


# What of attention is fitted, by phase, and where from.
DECODES = {"overhead": 8e-6, "block": 4e-6, "compute": 0.7, "bandwidth": 0.85, "heads": 0.02}
DECODES |= {"doubling": 3e-7}
ATTENDS: dict[str, dict[str, float]] = {
    "prompt": {"overhead": 1e-5, "block": 2e-6, "elements": 6.0, "narrow": 1.5},
    "decode": DECODES | {"elements": 12.0, "older": 2e-6, "wide": 2.0},
    "latent": DECODES,
}


def _fit_attention(key: str) -> dict[str, AttentionConstants]:
    """What a chip achieves in attention alone, from half of what a collector timed on it."""
    on, found = chip(key), {}
    for kind, parts in evidence.PHASES.items():
        every = [evidence.attentions(key, *part) for part in parts]

        def residuals(given: dict[str, float], every: Any = every) -> NDArray[Any]:
            c = AttentionConstants(**given, range=SURE)
            likely = [attention_seconds(Kernel(bound, bound.work), on, c) for bound, _ in every]
            off = [np.log(one / taken) for one, (_, taken) in zip(likely, every, strict=True)]
            return np.concatenate([one[~evidence.held_out(one.size, 0.5)] for one in off])

        best = least_absolute(residuals, ATTENDS[kind], MOST)
        found[kind] = AttentionConstants(**best, range=_range(np.exp(-residuals(best))))
    return found


def _scaled(lender: CalibrationFile, like: str, key: str, apart: float) -> CalibrationFile:
    """Constants of a chip of which one product is published: another's, with the fraction of the
    peak in proportion.
    """
    # The best that somebody reached on either chip, beside what is expected of its shape, says how
    # much more of its peak one gives; all else is taken over.
    shares, sources = {}, []
    for dtype in ("bf16", "fp8"):
        best = best_published(dtype)
        # The table says of its H100 row in bf16 that the H200 is the same.
        alike = "h100-sxm" if key == "h200-sxm" and dtype == "bf16" else key
        if alike in best and like in best and f"matrix.{dtype}" in chip(key).peaks:
            of_lender = lender.constants[dtype if dtype in lender.constants else "bf16"]
            shares[dtype] = _reached(dtype, alike, of_lender) / _reached(dtype, like, of_lender)
            sources.append(f"{dtype} {best[alike].rate / 1e12:g} TFLOP/s")
    found = {}
    for dtype, ours in lender.constants.items():
        share = shares.get(
            dtype, shares["bf16"] if itemsize(dtype) > 1 else shares.get("fp8", shares["bf16"])
        )
        # The best of a search is where a burst ends: it is lent within one collector's chips only.
        burst = ours.burst if like in evidence.COLLECTED else 1.0
        found[dtype] = structs.replace(ours, compute=min(ours.compute * share, 1.0), burst=burst)
    if like not in evidence.COLLECTED:
        apart = float(np.hypot(lender.labs, np.log(lender.constants["bf16"].burst)))
    return structs.replace(
        lender,
        source=f"best published products ({', '.join(sources)}; "
        f"{table('matmul_mamf')[0]['source']}) against {like}'s, all else {like}'s",
        points=len(sources),
        held_out=0,
        held_out_error=None,
        log_sigma=float(np.hypot(lender.log_sigma, apart)),
        constants=found,
    )


def _reached(dtype: str, key: str, constants: Constants) -> float:
    """How many times as fast as these constants say a chip's best published product ran."""
    best, on = best_published(dtype)[key], chip(key)
    some = evidence.one_product(best.shape[0], best.shape[2], best.shape[1], best.rate)
    bound = some.bound(on, dtype)
    return float((seconds(Kernel(bound, bound.work), on, constants) / some.seconds)[0])


# Whose constants a chip's are in proportion to, the reference's where none is named.
LENDERS = {"h200-sxm": "h100-sxm", "b300-sxm": "b200-sxm", "gb200": "b200-sxm"}
QUANTIZES = (
    "a kernel of TensorRT-LLM 1.3 for itself before each narrow product (aiconfigurator 0.12); "
    "gap, launch and unpack are the typical engine's"
)
ENGINE = "tensorrt-llm"  # whose kernels before narrow products were collected


def fit_and_write(folder: Path = FOLDER, date: str | None = None) -> list[Path]:
    """Fit everything and write its files, under a date (ISO 8601), today's if not given."""
    if not folder.is_dir():
        raise CourseError(
            f"folder {str(folder)!r} does not exist: make it first, for a fit takes a while"
        )
    fitted, engines = _reference(date or datetime.now(tz=UTC).date().isoformat())
    files, before, apart = _collected(fitted)
    # Attention of the reference was not collected: a later chip's, in doubt as chips differ.
    lent = {
        kind: structs.replace(one, range=Range(*one.range.factors(fitted.chips)))
        for kind, one in files[evidence.COLLECTED[0]].attention.items()
    }
    doubts, mixed = files[evidence.COLLECTED[0]].lent, files[evidence.COLLECTED[0]].mixtures
    if mixed:
        mixed = structs.replace(mixed, range=Range(*mixed.range.factors(doubts["mixtures"])))
    own = structs.replace(fitted, attention=lent, mixtures=mixed, lent=doubts)
    files = {evidence.REFERENCE: own} | files | _others(own)
    for key in sorted({*CHIPS.values()} - {*files}):
        like = LENDERS.get(key, evidence.REFERENCE)
        files[key] = _scaled(files[like], like, key, apart)
    for dtype, given in before.items():
        name = ENGINE if dtype == "fp8" else f"{ENGINE}-{dtype}"
        engines[name] = structs.replace(engines[TYPICAL], **given, source=QUANTIZES)
    contents: dict[str, Any] = {ENGINES_FILE: engines}
    contents |= {f"{key}.toml": file for key, file in files.items()}
    for name, content in contents.items():
        text = f"# Written by make calibrate: see tools/fit_chips.py.\n{to_toml(content)}"
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in contents]
