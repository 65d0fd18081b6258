"""Exercises of the chapter *Training rooflines*: memory, traffic, bubbles, and a run's cost."""

from math import ceil, sqrt

from course_lib import network
from course_lib.specs import Accelerator
from course_tools.train import bubble, checkpoint_interval
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import headline

CHAPTER = "training"
RATIO = 20
"""Tokens for each parameter that the exercise on a budget assumes."""


def _tokens(chip: Accelerator, each: float = 400e9, grad: str = "fp32") -> float:
    """Tokens of a chip that hide the gradients' all-reduce over many nodes."""
    return float(network.data_parallel_tokens(chip.peak("bf16"), each, grad=grad))


def _sent(layers: int, width: int, tokens: int, ways: int, times: int) -> float:
    """Bytes that a chip sends: so many gathers or scatters of bf16 activations in every block."""
    return times * layers * 2 * width * tokens * (ways - 1) / ways


def _work(chip: Accelerator, hours: float, used: float) -> float:
    return 3600 * hours * used * chip.peak("bf16")


SIZES = (8e9, 13e9, 3e9, 2e9, 5e9, 1e9, 4e9, 7e9, 9e9, 14e9, 20e9, 32e9)
COPIES = (64, 32, 128, 16, 8, 24, 48, 96, 256, 512)

EXERCISES = (
    Exercise(
        "train-states",
        CHAPTER,
        "B",
        {"parameters": (2e9, *SIZES), "copies": (16, 32, 8, 64, 24, 48, 4, 12, 40, 20)},
        answer=lambda parameters, copies: parameters * (2 + 4 + 12 / copies),
        misconceptions={
            "sixteen-bits-alone": lambda parameters: parameters * 2,
            "nothing-sharded": lambda parameters: parameters * 18,
            "all-sharded": lambda parameters, copies: parameters * 18 / copies,
            "gradients-sharded-too": lambda parameters, copies: parameters * (2 + 16 / copies),
        },
        units={"parameters": "", "copies": ""},
        facts=lambda parameters, copies: {
            "kept": (parameters * 6, "B"),
            "cut": (parameters * 12 / copies, "B"),
        },
    ),
    Exercise(
        "train-recompute",
        CHAPTER,
        "%",
        {"hardware": (0.52, 0.44, *(half / 200 for half in range(51, 160)))},
        answer=lambda hardware: hardware * 3 / 4,
        misconceptions={
            "nothing-recomputed": lambda hardware: hardware,
            "recompute-inverted": lambda hardware: hardware * 4 / 3,
            "recompute-half": lambda hardware: hardware * 2 / 3,
        },
        units={"hardware": "%"},
        facts=lambda: {"passes": (4, ""), "useful": (3, "")},
    ),
    Exercise(
        "train-widest",
        CHAPTER,
        "",
        {
            "chip": ("h100-sxm", "b200-sxm", "mi300x", "h200-sxm", "a100-sxm-80"),
            "batch": (2048, 1024, 512, 768, 1536, 3072, 4096),
            "length": (4096, 8192, 2048, 16384),
        },
        answer=lambda chip, batch, length: batch * length // _tokens(chip),
        misconceptions={
            "one-port": lambda chip, batch, length: batch * length // _tokens(chip, each=50e9),
            "gigabits": lambda chip, batch, length: batch * length // _tokens(chip, each=3.2e12),
            "bf16-gradients": lambda chip, batch, length: (
                batch * length // _tokens(chip, grad="bf16")
            ),
            "whole-step": lambda chip, batch, length: batch * length * 6 // (4 * _tokens(chip)),
            "sequence-each": lambda batch: batch,
        },
        units={"batch": "", "length": ""},
        facts=lambda chip, batch, length: {
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "together": (400e9, "B/s"),
            "each": (_tokens(chip), ""),
            "whole": (batch * length, ""),
        },
        whole=True,
    ),
    Exercise(
        "train-shards",
        CHAPTER,
        "B",
        {"parameters": SIZES, "copies": COPIES},
        answer=lambda parameters, copies: 3 * 2 * parameters * (copies - 1) / copies,
        misconceptions={
            "gathered-once": lambda parameters, copies: 2 * 2 * parameters * (copies - 1) / copies,
            "all-reduced-too": lambda parameters, copies: (
                4 * 2 * parameters * (copies - 1) / copies
            ),
            "own-part-alone": lambda parameters, copies: 3 * 2 * parameters / copies,
        },
        units={"parameters": "", "copies": ""},
        facts=lambda parameters, copies: {
            "array": (2 * parameters, "B"),
            "once": (2 * parameters * (copies - 1) / copies, "B"),
        },
    ),
    Exercise(
        "train-sums",
        CHAPTER,
        "B",
        {
            "layers": (32, 80, 40, 48, 60),
            "width": (4096, 8192, 5120, 6144),
            "tokens": (8192, 4096, 16384, 2048),
            "ways": (8, 4, 2),
        },
        answer=lambda layers, width, tokens, ways: _sent(layers, width, tokens, ways, 8),
        misconceptions={
            "forward-exchange-alone": lambda layers, width, tokens, ways: _sent(
                layers, width, tokens, ways, 4
            ),
            "one-block-alone": lambda width, tokens, ways: _sent(1, width, tokens, ways, 8),
            "shared-message": lambda layers, width, tokens, ways: (
                _sent(layers, width, tokens, ways, 8) / ways
            ),
        },
        units={"layers": "", "width": "", "tokens": "", "ways": ""},
        facts=lambda width, tokens, ways: {
            "array": (2 * width * tokens, "B"),
            "once": (_sent(1, width, tokens, ways, 1), "B"),
        },
    ),
    Exercise(
        "train-bubble",
        CHAPTER,
        "%",
        {
            "stages": (8, 4, 16, 12, 6, 10),
            "pieces": (24, 8, 48, 12, 16, 32, 36, 40, 64),
            "parts": (2, 4, 3, 5),
        },
        answer=lambda stages, pieces, parts: bubble(pp=stages, acc=pieces, interleave=parts),
        misconceptions={
            "no-parts": lambda stages, pieces: bubble(stages, pieces, 1),
            "of-the-work": lambda stages, pieces, parts: (stages - 1) / (parts * pieces),
            "all-stages": lambda stages, pieces, parts: stages / (parts * pieces + stages),
            "one-in-so-many": lambda stages: 1 - 1 / stages,
        },
        units={"stages": "", "pieces": "", "parts": ""},
        facts=lambda stages, pieces, parts: {
            "idle": (stages - 1, ""),
            "busy": (parts * pieces, ""),
        },
    ),
    Exercise(
        "train-pieces",
        CHAPTER,
        "",
        {"stages": (8, 4, 16, 12, *range(5, 25)), "most": (0.1, 0.05, 0.2, 0.15, 0.25, 0.08, 0.04)},
        answer=lambda stages, most: ceil((stages - 1) * (1 - most) / most - 1e-9),
        misconceptions={
            "of-the-work": lambda stages, most: ceil((stages - 1) / most - 1e-9),
            "as-many-as-stages": lambda stages: stages,
            "all-stages": lambda stages, most: ceil(stages * (1 - most) / most - 1e-9),
        },
        units={"stages": "", "most": "%"},
        facts=lambda stages: {"idle": (stages - 1, "")},
        whole=True,
    ),
    Exercise(
        "train-flight",
        CHAPTER,
        "B",
        {
            "layer": (0.25e9, 0.4e9, 0.15e9, 0.3e9, 0.35e9, 0.45e9),
            "layers": (32, 64, 96, 48, 80),
            "stages": (4, 8, 16),
            "pieces": (32, 64, 128),
        },
        answer=lambda layer, layers, stages: layer * layers / stages * stages,
        misconceptions={
            "one-in-flight": lambda layer, layers, stages: layer * layers / stages,
            "all-in-flight": lambda layer, layers, stages, pieces: layer * layers / stages * pieces,
            "whole-model-each": lambda layer, layers, stages: layer * layers * stages,
        },
        units={"layer": "B", "layers": "", "stages": "", "pieces": ""},
        facts=lambda layer, layers, stages: {
            "held": (layers // stages, ""),
            "piece": (layer * layers / stages, "B"),
        },
    ),
    Exercise(
        "train-save",
        CHAPTER,
        "s",
        {
            "chips": (4096, 1024, 16384, 2048, 8192, 512),
            "hours": (50000, 35000, 90000, 40000, 60000),
            "save": (40, 15, 90, 20, 30, 60),
        },
        answer=lambda chips, hours, save: checkpoint_interval(save, hours * 3600 / chips),
        misconceptions={
            "one-chip-fails": lambda hours, save: checkpoint_interval(save, hours * 3600),
            "between-failures": lambda chips, hours: hours * 3600 / chips,
            "saved-without-two": lambda chips, hours, save: sqrt(save * hours * 3600 / chips),
        },
        units={"chips": "", "hours": "", "save": "s"},
        facts=lambda chips, hours: {"between": (hours * 3600 / chips, "s")},
    ),
    Exercise(
        "train-budget",
        CHAPTER,
        "",
        {
            "chip": ("h100-sxm", "a100-sxm-80", "b200-sxm", "h200-sxm", "mi300x"),
            "hours": (1e6, 2e5, 4e6, 5e5, 3e6, 8e5),
            "used": (0.4, 0.5, 0.3, 0.35, 0.45),
        },
        answer=lambda chip, hours, used: sqrt(_work(chip, hours, used) / (6 * RATIO)),
        misconceptions={
            "tokens-asked": lambda chip, hours, used: (
                RATIO * sqrt(_work(chip, hours, used) / (6 * RATIO))
            ),
            "forward-pass-only": lambda chip, hours, used: sqrt(
                _work(chip, hours, used) / (2 * RATIO)
            ),
            "all-of-the-peak": lambda chip, hours: sqrt(_work(chip, hours, 1.0) / (6 * RATIO)),
            "sparse": lambda chip, hours, used: (
                (peak := headline(chip)) and sqrt(3600 * hours * used * peak / (6 * RATIO))
            ),
        },
        units={"hours": "", "used": "%"},
        facts=lambda chip, hours, used: {
            "peak": (chip.peak("bf16"), "FLOP/s"),
            "work": (_work(chip, hours, used), "FLOP"),
        },
    ),
)
