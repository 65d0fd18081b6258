"""Exercises of the chapter *All about rooflines*."""

from typing import Any

from course_lib import ops
from course_lib.core import Work, critical_batch
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import above, headline, printed, sparse_ridge


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


def rooflines_trillion(chip: Accelerator, flops: float) -> Solution:
    peak, large = chip.peak("bf16"), headline(chip)
    wrong = {
        "sparse": large and flops / large,
        "doubled-flops": 2 * flops / peak,
        "power-of-ten": 1e-3 * flops / peak,
        "memory-rate": flops / chip.bandwidth,
    }
    return Solution(flops / peak, wrong)


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


def rooflines_local(sequences: int, length: int, chips: int) -> Solution:
    tokens = sequences * length
    wrong = {
        "total-batch": tokens,
        "counts-sequences": sequences / chips,
        "all-sequences": sequences,
    }
    return Solution(tokens / chips, wrong, {"tokens": tokens}, chips <= sequences)


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


def rooflines_tile(bm: int, bn: int, dtype: str) -> Solution:
    size = itemsize(dtype)
    wrong = {
        "forgot-2": bm * bn / (bm + bn) / size,
        "one-operand": 2 * bn / size,
        "per-number": 2 * bm * bn / (bm + bn),
    }
    return Solution(2 * bm * bn / (bm + bn) / size, wrong, {"size": size})


def rooflines_in_a_row(chip: Accelerator, work: tuple[float, ...]) -> Solution:
    flops1, moved1, flops2, moved2 = work
    one, two = max(_clocks(chip, flops1, moved1)), max(_clocks(chip, flops2, moved2))
    both = _clocks(chip, flops1 + flops2, moved1 + moved2)
    wrong = {"max-of-sums": max(both), "sum": sum(both), "longest-only": max(one, two)}
    figures = {"flops1": (flops1, "FLOP"), "moved1": (moved1, "B"), "first": (one, "s")}
    figures |= {"flops2": (flops2, "FLOP"), "moved2": (moved2, "B"), "second": (two, "s")}
    return Solution(one + two, wrong, {**figures, "ridge": (chip.ridge("bf16"), "FLOP/B")})
