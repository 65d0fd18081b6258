"""Exercises of *Measured against predicted*: from a bound to a time that somebody measures."""

from course_lib.specs import Accelerator
from course_lib.specs.catalog import transformer
from course_lib.workloads import llm
from course_tools import train
from course_book.exercises.problem import Solution, ask
from course_book.exercises.shared import SIXTEEN_BIT, headline, led


@ask(
    "%",
    chip="h100-sxm a100-sxm-80 h200-sxm h100-pcie l4 mi300x mi325x rtx-4090 a100-sxm-40",
    slow=(0.75, 0.7, 0.8, 0.65, 0.85),
    reached=(0.88, 0.92, 0.84, 0.8, 0.86, 0.78, 0.73, 0.75, 0.82, 0.9, 0.94, 0.69),
    tolerance=0.01,
)
def measured_clock(chip: Accelerator, slow: float, reached: float) -> Solution:
    clock, large = chip.figures["matrix.bf16"].clock or 0.0, headline(chip)
    peak = chip.peak("bf16", clock=slow * clock)
    wrong = {
        "stated-clock": reached * slow,
        "clock-inverted": reached * slow**2,
        "sparse": large and reached * peak / (large * slow),
        "complement": 1 - reached,
    }
    figures = {"clock": (clock, "Hz", 4), "now": (slow * clock, "Hz", 4)}
    figures |= {"rate": (reached * peak, "FLOP/s", 4), "scaled": (peak, "FLOP/s", 4)}
    return Solution(reached, wrong, figures)


@ask(
    "s",
    chip=led("a100-sxm-80", SIXTEEN_BIT),
    moved=(15e9, 8e9, 27e9, 13e9, 6e9),
    share=(0.8, 0.75, 0.85, 0.7, 0.9),
)
def measured_stream(chip: Accelerator, moved: float, share: float) -> Solution:
    bound = moved / chip.bandwidth
    wrong = {
        "datasheet-bandwidth": bound,
        "multiplied": bound * share,
        "complement": bound / (1 - share),
        "power-of-ten": 1e3 * moved / chip.bandwidth / share,
    }
    return Solution(bound / share, wrong, {"bound": (bound, "s")})


@ask(
    "s",
    chip="h100-sxm h200-sxm b200-sxm mi300x a100-sxm-80",
    moved=(15e9, 8e9, 13e9, 6e9),
    share=(0.8, 0.75, 0.85),
    kernels=(250, 300, 400, 350),
    each=(6e-6, 8e-6, 5e-6),
)
def measured_gaps(
    chip: Accelerator, moved: float, share: float, kernels: int, each: float
) -> Solution:
    bound, gaps = moved / chip.bandwidth, kernels * each
    wrong = {
        "no-gaps": bound / share,
        "datasheet-bandwidth": bound + gaps,
        "multiplied": bound / (1 / share) + gaps,
        "gaps-only": gaps,
    }
    figures = {"streamed": (bound / share, "s"), "gaps": (gaps, "s")}
    return Solution(bound / share + gaps, wrong, figures)


@ask(
    "%",
    chip="h100-sxm h200-sxm a100-sxm-80 mi300x h100-pcie tpu-v5p",
    speed=(9000.0, 10_000.0, 3200.0, 7500.0, 2500.0, 4000.0, 5500.0, 8200.0, 12_000.0),
    llama="llama-3-8b llama-2-7b llama-2-13b mistral-7b",
    length=(8192, 4096, 6144, 2048),
)
def measured_mfu(chip: Accelerator, llama: str, speed: float, length: int) -> Solution:
    one, peak, large = transformer(llama), chip.peak("bf16"), headline(chip)
    mfu, each = float(train.mfu(llama, chip, speed, length)), train.flops(llama, length)
    wrong = {
        "no-attention": 6 * one.parameters * speed / peak,
        "causal-half": train.mfu(llama, chip, speed, length, causal=True),
        "forward-pass-only": mfu / 3,
        "sparse": large and mfu * peak / large,
    }
    figures = {name: getattr(one, name) for name in ("parameters", "layers", "width")}
    figures |= {"each": (each, "FLOP"), "rate": (each * speed, "FLOP/s")}
    # What teams report, and the share of attention large enough to be seen.
    return Solution(mfu, wrong, figures, 0.2 < mfu < 0.65)


@ask(
    "×",
    chip="h100-sxm a100-sxm-80 h200-sxm b200-sxm mi300x mi325x",
    llama="llama-2-70b llama-2-13b llama-3-70b",
    speed=(600, 900, 1500, 750, 1200, 2000, 2500, 3000),
)
def measured_claim(chip: Accelerator, llama: str, speed: float) -> Solution:
    excess = float(llm.check_claim(llama, chip, speed).excess)
    wrong = {"inverted": 1 / excess, "elements": excess / 2, "four-bytes": 2 * excess}
    needed = excess * chip.bandwidth
    figures = {"moved": (needed / speed, "B"), "needed": (needed, "B/s")}
    return Solution(excess, {**wrong, "bits": 8 * excess}, figures, excess > 1.2)
