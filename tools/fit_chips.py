"""Fits the constants of `course_tools.calibrate` to `course_tools.calibrate.evidence`, and writes
`data/calibration`: ``make calibrate`` runs it.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from course_lib.core import Estimate
from course_lib.core.checks import CourseError
from course_lib.network.costs import cost
from course_lib.specs import Accelerator, chip
from course_tools.calibrate.constants import ENGINES as ENGINES_FILE
from course_tools.calibrate.constants import FOLDER, TYPICAL, Calibration, CalibrationFile, to_toml
from course_tools.calibrate.evidence import (
    DTYPE,
    MODEL,
    NODES,
    NORMAL,
    PAIRED,
    PER_MACHINE,
    REFERENCE,
    SWITCHES,
    MeasuredStep,
    Messages,
    Products,
    centre,
    halved,
    held_out,
    laboratories,
    messages,
    one_product,
    products,
    steps,
)
from course_tools.calibrate.kernels import Constants, EngineConstants, Kernel, seconds
from course_tools.calibrate.links import LARGE_MESSAGE, InSwitch, LinkConstants, Range
from course_tools.calibrate.own import least_absolute
from course_tools.calibrate.prediction import mean_error, predict
from course_tools.calibrate.timing import COMPUTE, MEMORY
from course_tools.measured.published import CHIPS, best_published, table

TENTH = 0.1  # a range leaves out as much on either side
START = {"compute": 0.75, "bandwidth": 0.8, "overhead": 4e-6, "overlap": 4.0, "reload": 12.0}
# Engines of which steps of the fitted model are published, and where.
ENGINES = {"gpt-fast": "decode_gptfast_bs1", "lmdeploy": "decode_lmdeploy_a100_static"}
# Chips whose streams are those of an H100 PCIe card, of their generation or the one before, for of
# theirs none are published.
AFTER_AMPERE = ("h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "gb200")
MOST = {"compute": 1.0, "bandwidth": 1.0}


def nvlink_messages() -> Messages:
    """Half of all that went over NVLink alone: the half that is fitted."""
    halves = [halved(messages(node, n, n))[0] for node, n in NODES]
    return Messages(*(np.concatenate(part) for part in zip(*halves, strict=True)))


def node_messages() -> Messages:
    """All that went between two machines, whatever part of their chips took part."""
    every = [messages(NODES[0][0], 2 * each, each, over="nodes") for each in PER_MACHINE]
    return Messages(*(np.concatenate(part) for part in zip(*every, strict=True)))


def misalignment() -> float:
    """How much longer products with misaligned rows take: one hidden size of a gated MLP against
    its neighbors.
    """
    rates = {
        int(row["d_ff"]): float(row["tflops"]) for row in table("matmul_swiglu_alignment_h100")
    }
    aligned = [rate for size, rate in rates.items() if size % 8 == 0]
    return float(np.median(aligned) / min(rates.values()))


def streams() -> float:
    """The fraction of its datasheet's bandwidth that the median streaming kernel of a Hopper card
    reaches.
    """
    rows = table("stream_h100pcie")
    return float(np.median([float(row["GBps"]) / float(row["spec_GBps"]) for row in rows]))


def between_chips() -> float:
    """How far chips' best published fractions of the peak lie apart: a logarithm, as wide as an 80
    % range on either side.
    """
    best = best_published("bf16")
    shares = [best[key].rate / chip(key).peak("bf16") for key in best]
    return float(NORMAL * np.std(np.log(shares), ddof=1))


def fit_products(
    measured: Products, on: Accelerator, others: Constants, dtype: str = DTYPE
) -> Constants:
    """The constants of matrix products, the others as given."""
    bound = measured.bound(on, dtype)
    kernel = Kernel(bound, bound.work)

    def residuals(given: dict[str, float]) -> Any:
        return np.log(seconds(kernel, on, structs.replace(others, **given)) / measured.seconds)

    return structs.replace(others, **least_absolute(residuals, START, MOST))


def predict_steps(some: Iterable[MeasuredStep], given: Calibration) -> NDArray[Any]:
    """Expected times of steps, s."""
    return np.array(
        [float(predict(step.bound, step.run.chip, constants=given).expected) for step in some]
    )


def fit_engine(given: Calibration, model: str = MODEL, of: str | None = None) -> Calibration:
    """The constants that only whole steps show, from those of one model: all engines together, or
    the gap of one by the name of its table.
    """
    decode, prefill = (
        [step for step in steps(kind) if step.run.model == model] for kind in ("decode", "prefill")
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


def _fit_link(
    link: LinkConstants,
    some: Messages,
    which: NDArray[np.bool_],
    start: dict[str, float],
    most: dict[str, float] | None = None,
) -> tuple[LinkConstants, NDArray[Any]]:
    """A link with constants fitted to some of these all-reduces, and how many times as long as
    expected each took.
    """

    def times(c: dict[str, float]) -> NDArray[Any]:
        one = structs.replace(link, **c)
        return np.asarray(one.seconds("all-reduce", some.bound, some.chips))

    found = least_absolute(lambda c: np.log(times(c)[which] / some.seconds[which]), start, most)
    return structs.replace(link, **found), some.seconds / times(found)


def fit_links(some: Messages) -> LinkConstants:
    """Latency, hops and share of the bandwidth of all-reduces over a chip's links."""
    start: dict[str, Any] = {"latency": 1e-5, "hop": 1e-6, "bandwidth": 0.7}
    sure = Range(1.0, 1.0)
    large = some.size > LARGE_MESSAGE
    link = LinkConstants(**start, range=sure, small=sure)
    found, ratios = _fit_link(link, some, large, start, {"bandwidth": 1.0})
    return structs.replace(found, range=_range(ratios[large]), small=_range(ratios[~large]))


def fit_nodes(some: Messages, inside: LinkConstants) -> LinkConstants:
    """The latency of a call between machines, and how much longer than ports allow it took."""
    # The only machines measured reached a small part of their ports, and no two groups of chips the
    # same. So ports are expected to reach what links inside do, and the range reaches from there to
    # what was measured.
    large = some.size > LARGE_MESSAGE
    between = structs.replace(inside, hop=0.0, in_switch=None)
    found, ratios = _fit_link(between, some, ~large, {"latency": 5e-5})
    wide = Range(inside.range.low, _range(ratios[large]).high)
    return structs.replace(found, range=wide, small=_range(ratios[~large]))


def _range(ratios: NDArray[Any]) -> Range:
    low, high = np.quantile(ratios, (TENTH, 1 - TENTH))
    return Range(float(min(low, 1.0)), float(max(high, 1.0)))


def product_ranges(measured: Products, bound: Estimate, expected: NDArray[Any]) -> dict[str, Range]:
    """The ranges of products by the side of the ridge, from what was fitted."""
    side = np.asarray(bound.t_math / bound.t_memory)
    sides = {
        "memory": side < MEMORY,
        "ridge": (side >= MEMORY) & (side < COMPUTE),
        "compute": side >= COMPUTE,
    }
    ratios = measured.seconds / expected
    return {name: _range(ratios[which]) for name, which in sides.items()}


def _step_range(given: Calibration) -> Range:
    """The range of whole steps: of each model's, with an engine's constants from the other."""
    ratios = []
    every = [*steps("decode"), *steps("prefill")]
    for model in sorted({step.run.model for step in every}):
        others = [step for step in every if step.run.model != model]
        refitted = fit_engine(given, model)
        ratios.append([step.measured for step in others] / predict_steps(others, refitted))
    return _range(np.concatenate(ratios))


def _reference(date: str) -> tuple[CalibrationFile, dict[str, EngineConstants]]:
    """The constants of the reference chip, with their error on the products held out, and those of
    engines.
    """
    on = chip(REFERENCE)
    every = products("matmul_a100_transformer_gemms")
    unseen = held_out(len(every.seconds))
    fitted, test = every.some(~unseen), every.some(unseen)
    start = Constants(**START, misaligned=misalignment(), burst=1.0, stream=START["bandwidth"])
    constants, bound = fit_products(fitted, on, start), fitted.bound(on)
    constants = structs.replace(constants, stream=constants.bandwidth)
    sides = product_ranges(fitted, bound, seconds(Kernel(bound, bound.work), on, constants))
    nvlink = fit_links(nvlink_messages())
    links = {
        "nvlink": nvlink,
        "nodes": fit_nodes(node_messages(), nvlink),
        "host": fit_links(halved(messages(*PAIRED, over="host"))[0]),
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
    burst, labs = centre(laboratories(one).values())
    constants = structs.replace(constants, burst=burst)
    repository = table("matmul_a100_transformer_gemms")[0]["source"].partition(":data")[0]
    expected = predict(test.bound(on), on, constants=one, state="sustained").expected
    flops = 2 * fitted.sizes.astype(float).prod(axis=1)
    runs = [step.run for step in (*steps("decode"), *steps("prefill"))]
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
    for name, of in ENGINES.items():
        source = f"{table(of)[0]['source']}; launch and unpack are the typical engine's"
        own = fit_engine(one, of=of).engine
        # Its steps grow with the context by more than their cache: a quarter, where it is long.
        engines[name] = structs.replace(own, source=source, repeats=name == "lmdeploy")
    return file, engines


def _scaled(fitted: CalibrationFile, key: str) -> CalibrationFile:
    """Constants of a chip of which one product is published: the reference's, with the fraction of
    the peak in proportion.
    """
    # The best that somebody reached on either chip, beside what is expected of its shape, says how
    # much more of its peak one gives; streams are those of the chip's generation, links those of
    # its switch, and all else is taken over.
    found, sources = {}, []
    ours = fitted.constants["bf16"]
    of_reference = _reached("bf16", REFERENCE, ours)
    for dtype in ("bf16", "fp8"):
        # The table says of its H100 row in bf16 that the H200 is the same.
        alike = "h100-sxm" if key == "h200-sxm" and dtype == "bf16" else key
        best = best_published(dtype).get(alike)
        if best is None or f"matrix.{dtype}" not in chip(key).peaks:
            continue
        share = _reached(dtype, alike, ours) / of_reference
        found[dtype] = structs.replace(ours, compute=min(ours.compute * share, 1.0))
        sources.append(f"{dtype} {best.rate / 1e12:g} TFLOP/s")
    if "bf16" in found and "matrix.fp16" in chip(key).peaks:
        found["fp16"] = found["bf16"]
    lent = "all else"
    reached = streams()
    memory = np.log(reached / ours.bandwidth)  # how far two generations' memories lie apart
    if key in AFTER_AMPERE:
        found = {name: structs.replace(one, stream=reached) for name, one in found.items()}
        lent = f"streams of {table('stream_h100pcie')[0]['gpu']}, all else"
    source = (
        f"best published products ({', '.join(sources)}; {table('matmul_mamf')[0]['source']}) "
        f"against {REFERENCE}'s, {lent} {REFERENCE}'s"
    )
    return structs.replace(
        fitted,
        source=source,
        points=len(sources),
        held_out=0,
        held_out_error=None,
        log_sigma=float(np.hypot(fitted.labs, NORMAL * memory)),
        constants=found,
        links=_switched(fitted.links, key),
    )


def _reached(dtype: str, key: str, constants: Constants) -> float:
    """How many times as fast as these constants say a chip's best published product ran."""
    best, on = best_published(dtype)[key], chip(key)
    some = one_product(best.shape[0], best.shape[2], best.shape[1], best.rate)
    bound = some.bound(on, dtype)
    return float((seconds(Kernel(bound, bound.work), on, constants) / some.seconds)[0])


def _switched(links: dict[str, LinkConstants], key: str) -> dict[str, LinkConstants]:
    """The links with what rings and the switch of the chip's node reach, where published."""
    rows = [
        row
        for row in table("collectives_ml_engineering")
        if row["node"] == SWITCHES.get(key) and row["collective"] == "all-reduce"
    ]
    if not rows:
        return links
    whole = float(chip(key).links["nvlink"].total_per_direction) / 1e9
    rings = [float(row["busbw_no_nvls_GBps"]) / whole for row in rows]
    added = [row for row in rows if row["algo"] == "NVLS"]
    # Bus bandwidth counts what a ring would send; the switch is sent the array once.
    rates = [
        float(row["busbw_GBps"])
        / whole
        / float(cost("all-reduce", int(float(row["n_gpus"]))).share)
        for row in added
    ]
    least = min(int(float(row["n_gpus"])) for row in added)
    nvlink = structs.replace(
        links["nvlink"],
        bandwidth=float(np.median(rings)),
        in_switch=InSwitch(bandwidth=float(np.median(rates)), chips=least),
    )
    return {**links, "nvlink": nvlink}


def fit_and_write(folder: Path = FOLDER, date: str | None = None) -> list[Path]:
    """Fit everything and write its files, under a date (ISO 8601), today's if not given."""
    if not folder.is_dir():
        raise CourseError(
            f"folder {str(folder)!r} does not exist: make it first, for a fit takes a while"
        )
    fitted, engines = _reference(date or datetime.now(tz=UTC).date().isoformat())
    scaled = {key: _scaled(fitted, key) for key in sorted({*CHIPS.values()} - {REFERENCE})}
    contents: dict[str, Any] = {ENGINES_FILE: engines, f"{REFERENCE}.toml": fitted}
    contents |= {f"{key}.toml": file for key, file in scaled.items()}
    for name, content in contents.items():
        text = f"# Written by make calibrate: see tools/fit_chips.py.\n{to_toml(content)}"
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in contents]
