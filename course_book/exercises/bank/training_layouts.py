"""Exercises of *Layouts and a run*: bubbles, checkpoints, and a budget."""

from math import ceil, sqrt

from course_lib.specs import Accelerator
from course_tools.train import bubble, checkpoint_interval
from course_book.exercises.problem import Solution
from course_book.exercises.shared import headline


def train_bubble(stages: int, pieces: int, parts: int) -> Solution:
    idle, busy = stages - 1, parts * pieces
    wrong = {
        "no-parts": bubble(stages, pieces, 1),
        "of-the-work": idle / busy,
        "all-stages": stages / (busy + stages),
        "one-in-so-many": 1 - 1 / stages,
    }
    answer = bubble(pp=stages, acc=pieces, interleave=parts)
    return Solution(answer, wrong, {"idle": idle, "busy": busy})


def train_pieces(stages: int, most: float) -> Solution:
    idle = stages - 1
    wrong = {
        "of-the-work": ceil(idle / most - 1e-9),
        "as-many-as-stages": stages,
        "all-stages": ceil(stages * (1 - most) / most - 1e-9),
    }
    return Solution(ceil(idle * (1 - most) / most - 1e-9), wrong, {"idle": idle})


def train_flight(layer: float, layers: int, stages: int, pieces: int) -> Solution:
    piece = layer * layers / stages
    wrong = {
        "one-in-flight": piece,
        "all-in-flight": piece * pieces,
        "whole-model-each": layer * layers * stages,
    }
    return Solution(piece * stages, wrong, {"held": layers // stages, "piece": (piece, "B")})


def train_save(chips: int, hours: int, save: int) -> Solution:
    between = hours * 3600 / chips
    wrong = {
        "one-chip-fails": checkpoint_interval(save, hours * 3600),
        "between-failures": between,
        "saved-without-two": sqrt(save * hours * 3600 / chips),
    }
    return Solution(checkpoint_interval(save, between), wrong, {"between": (between, "s")})


def train_budget(chip: Accelerator, hours: float, used: float) -> Solution:
    def parameters(work: float, each: int = 6) -> float:
        """With twenty tokens for each parameter (Hoffmann et al., 2022)."""
        return sqrt(work / (each * 20))

    peak, large = chip.peak("bf16"), headline(chip)
    work = 3600 * hours * used * peak
    wrong = {
        "tokens-asked": 20 * parameters(work),
        "forward-pass-only": parameters(work, 2),
        "all-of-the-peak": parameters(3600 * hours * 1.0 * peak),
        "sparse": large and parameters(3600 * hours * used * large),
    }
    figures = {"peak": (peak, "FLOP/s"), "work": (work, "FLOP")}
    return Solution(parameters(work), wrong, figures)


def train_quantize(peak: float, factor: float, bandwidth: float, size: float) -> Solution:
    moved, saved = 4 * (1 + size), 6 / peak * (1 - 1 / factor)
    width = moved / bandwidth / saved
    figures = {"moved": (moved, "B"), "saved": (1 - 1 / factor, "%")}
    figures["ridge"] = (peak / bandwidth, "FLOP/B")
    wrong = {
        "one-copy": 2 * (2 + size) / bandwidth / saved,
        "one-operand": width / 2,
        "forward-product": 3 * width,
        "all-saved": width * (1 - 1 / factor),
    }
    return Solution(width, wrong, figures)


def train_share(used: float, share: float, factor: float, quantized: float) -> Solution:
    left = 1 - share + share / factor + quantized
    wrong = {
        "old-peak": used / left,
        "all-faster": used,
        "quantizing-free": used / factor / (left - quantized),
        "speed-alone": 1 / left,
    }
    figures = {"left": (left, "%"), "gain": (1 / left, "×")}
    return Solution(used / left / factor, wrong, figures)
