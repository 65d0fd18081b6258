"""Exercises of *Measured against predicted*: from a bound to a time that somebody measures."""

from course_lib.specs import Accelerator
from course_lib.specs.catalog import transformer
from course_lib.workloads import llm
from course_tools import train
from course_book.exercises.problem import Solution
from course_book.exercises.shared import headline


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


def measured_claim(chip: Accelerator, llama: str, speed: float) -> Solution:
    excess = float(llm.check_claim(llama, chip, speed).excess)
    wrong = {"inverted": 1 / excess, "elements": excess / 2, "four-bytes": 2 * excess}
    needed = excess * chip.bandwidth
    figures = {"moved": (needed / speed, "B"), "needed": (needed, "B/s")}
    return Solution(excess, {**wrong, "bits": 8 * excess}, figures, excess > 1.2)
