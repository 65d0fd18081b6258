"""Exercises of the chapter *All about rooflines*."""

from itertools import product
from typing import Any

from course_lib import ops
from course_lib.core import Work, critical_batch
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution, ask
from course_book.exercises.shared import (
    INT8,
    SIXTEEN_BIT,
    VECTOR,
    above,
    headline,
    printed,
    sparse_ridge,
)


def _clocks(chip: Accelerator, flops: float, moved: float) -> tuple[float, float]:
    """Seconds of the arithmetic in bf16, and of the traffic."""
    return flops / chip.peak("bf16"), moved / chip.bandwidth


def _layer_batch(chip: Accelerator, D: int, F: int, unwritten: int = 0, **formats: Any) -> Any:
    """The batch from which a layer is compute-bound, some bytes of each result left out."""

    def layer(batch: Any) -> Work:
        full = ops.matmul(batch, D, F, **formats)
        return Work(full.flops, full.bytes - unwritten * batch * F, full.dtype)

    return critical_batch(layer, chip)


def _from_ridge(chip: Accelerator, D: int, F: int, size: float) -> bool:
    """Whether the ridge that the question shows gives the same batch as the ridge itself."""

    def batch(ridge: float) -> float | None:
        room = 2 * D * F - 2 * ridge * (D + F)
        return above(ridge * size * D * F / room) if room > 0 else None

    return batch(printed(chip.ridge("bf16"))) == batch(chip.ridge("bf16"))


@ask("s", chip=SIXTEEN_BIT, flops=(1e12, 2e12, 5e12, 4e11, 3e12, 8e12, 6e11))
def rooflines_trillion(chip: Accelerator, flops: float) -> Solution:
    peak, large = chip.peak("bf16"), headline(chip)
    wrong = {
        "sparse": large and flops / large,
        "doubled-flops": 2 * flops / peak,
        "power-of-ten": 1e-3 * flops / peak,
        "memory-rate": flops / chip.bandwidth,
    }
    return Solution(flops / peak, wrong)


@ask(
    "s",
    chip=SIXTEEN_BIT,
    flops=(2e12, 1e12, 4e11, 8e12, 5e12, 3e12),
    moved=(4e9, 9e9, 6e9, 5e9, 3e9, 12e9, 16e9),
)
def rooflines_which_clock(chip: Accelerator, flops: float, moved: float) -> Solution:
    (math, memory), large = _clocks(chip, flops, moved), headline(chip)
    wrong = {
        "shorter-clock": min(math, memory),
        "sum": math + memory,
        "sparse": large and max(flops / large, memory),
        "power-of-ten": 1e-3 * max(math, memory),
    }
    figures = {"math": (math, "s"), "memory": (memory, "s"), "both": (math + memory, "s")}
    figures["ridge"] = (chip.ridge("bf16"), "FLOP/B")
    figures["intensity"] = (flops / moved, "FLOP/B")
    return Solution(max(math, memory), wrong, figures)


@ask(
    "",
    chip=SIXTEEN_BIT,
    D__F=(
        *((4096, 14336), (8192, 28672), (5120, 13824), (4096, 11008), (8192, 8192)),
        *((3072, 8192), (4096, 12288), (5120, 20480), (6144, 16384), (7168, 18432)),
    ),
    whole=True,
)
def rooflines_layer_batch(chip: Accelerator, D: int, F: int) -> Solution:
    answer, ridge, sparse = _layer_batch(chip, D, F), chip.ridge("bf16"), sparse_ridge(chip)
    wrong = {
        "rule-of-thumb": above(ridge),
        "sparse": sparse and above(D * F / max(D * F / sparse - D - F, 1e-300)),
        "forgot-result": _layer_batch(chip, D, F, unwritten=2),
        "rounded-down": answer - 1,
    }
    figures = {"ridge": (ridge, "FLOP/B", 4), "rule": above(ridge)}
    return Solution(answer, wrong, figures, _from_ridge(chip, D, F, 2))


@ask("", chip=INT8, D=(8192, 4096, 16384, 2048, 3072, 5120, 6144, 7168, 10240, 12288), whole=True)
def rooflines_int8_weights(chip: Accelerator, D: int) -> Solution:
    answer, ridge = _layer_batch(chip, D, D, w="int8"), chip.ridge("bf16")
    wrong = {
        "rule-of-thumb": above(ridge / 2),
        "unchanged": _layer_batch(chip, D, D),
        "int8-peak": _layer_batch(chip, D, D, w="int8", compute="int8"),
        "rounded-down": answer - 1,
    }
    figures = {"ridge": (ridge, "FLOP/B", 4), "rule": above(ridge / 2)}
    return Solution(answer, wrong, figures, _from_ridge(chip, D, D, 1))


@ask(
    "",
    sequences=(1024, 512, 256, 2048, 4096, 128),
    length=(2048, 4096, 8192, 1024),
    chips=(512, 128, 64, 1024, 256, 32, 2048),
    whole=True,
)
def rooflines_local(sequences: int, length: int, chips: int) -> Solution:
    tokens = sequences * length
    wrong = {
        "total-batch": tokens,
        "counts-sequences": sequences / chips,
        "all-sequences": sequences,
    }
    return Solution(tokens / chips, wrong, {"tokens": tokens}, chips <= sequences)


@ask("FLOP/s", chip=f"{VECTOR} tpu-v5p", dtype="bf16 fp32 fp8 fp16 fp64 int8 fp4")
def rooflines_dot(chip: Accelerator, dtype: str) -> Solution:
    size, vector = itemsize(dtype), chip.peak("fp32", "vector")
    answer = chip.bandwidth / size
    wrong = {
        "matrix-peak": chip.peaks.get("matrix.bf16"),
        "vector-peak": vector,
        "one-operand": 2 * chip.bandwidth / size,
        "forgot-2": answer / 2,
        "per-number": chip.bandwidth if size != 1 else None,
    }
    figures = {"size": size, "intensity": (1 / size, "FLOP/B")}
    return Solution(answer, wrong, figures, answer < vector / 4)


@ask(
    "FLOP/B",
    bm=(128, 64, 256, 32, 96, 192),
    bn=(128, 256, 64, 96, 192, 160),
    dtype="bf16 fp8 fp32 fp16 int8",
)
def rooflines_tile(bm: int, bn: int, dtype: str) -> Solution:
    size = itemsize(dtype)
    wrong = {
        "forgot-2": bm * bn / (bm + bn) / size,
        "one-operand": 2 * bn / size,
        "per-number": 2 * bm * bn / (bm + bn),
    }
    return Solution(2 * bm * bn / (bm + bn) / size, wrong, {"size": size})


@ask(
    "s",
    chip="h100-sxm a100-sxm-80 h200-sxm mi300x tpu-v5p b200-sxm",
    work=[*product((4e12, 3e12, 6e12), (2e9, 1e9, 4e9), (2e11, 1e11), (8e9, 5e9))],
)
def rooflines_in_a_row(chip: Accelerator, work: tuple[float, ...]) -> Solution:
    flops1, moved1, flops2, moved2 = work
    one, two = max(_clocks(chip, flops1, moved1)), max(_clocks(chip, flops2, moved2))
    both = _clocks(chip, flops1 + flops2, moved1 + moved2)
    wrong = {"max-of-sums": max(both), "sum": sum(both), "longest-only": max(one, two)}
    figures = {"flops1": (flops1, "FLOP"), "moved1": (moved1, "B"), "first": (one, "s")}
    figures |= {"flops2": (flops2, "FLOP"), "moved2": (moved2, "B"), "second": (two, "s")}
    return Solution(one + two, wrong, {**figures, "ridge": (chip.ridge("bf16"), "FLOP/B")})
