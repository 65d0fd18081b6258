"""Exercises of the chapter *Training rooflines*: memory, traffic, bubbles, and a run's cost."""

from math import ceil, sqrt

from course_lib import network
from course_lib.specs import Accelerator
from course_tools.train import bubble, checkpoint_interval
from course_book.exercises.problem import Solution
from course_book.exercises.shared import headline


def train_states(parameters: float, copies: int) -> Solution:
    wrong = {
        "sixteen-bits-alone": parameters * 2,
        "nothing-sharded": parameters * 18,
        "all-sharded": parameters * 18 / copies,
        "gradients-sharded-too": parameters * (2 + 16 / copies),
    }
    figures = {"kept": (parameters * 6, "B"), "cut": (parameters * 12 / copies, "B")}
    return Solution(parameters * (2 + 4 + 12 / copies), wrong, figures)


def train_recompute(hardware: float) -> Solution:
    wrong = {
        "nothing-recomputed": hardware,
        "recompute-inverted": hardware * 4 / 3,
        "recompute-half": hardware * 2 / 3,
    }
    return Solution(hardware * 3 / 4, wrong, {"passes": 4, "useful": 3})


def train_widest(chip: Accelerator, batch: int, length: int) -> Solution:
    def each(link: float = 400e9, grad: str = "fp32") -> float:
        """Tokens of a chip that hide the gradients' all-reduce over many nodes."""
        return float(network.data_parallel_tokens(chip.peak("bf16"), link, grad=grad))

    whole = batch * length
    wrong = {
        "one-port": whole // each(50e9),
        "gigabits": whole // each(3.2e12),
        "bf16-gradients": whole // each(grad="bf16"),
        "whole-step": whole * 6 // (4 * each()),
        "sequence-each": batch,
    }
    figures = {"together": (400e9, "B/s"), "each": each(), "whole": whole}
    return Solution(whole // each(), wrong, figures)


def train_shards(parameters: float, copies: int) -> Solution:
    array = 2 * parameters
    wrong = {
        "gathered-once": 2 * array * (copies - 1) / copies,
        "all-reduced-too": 4 * array * (copies - 1) / copies,
        "own-part-alone": 3 * array / copies,
    }
    figures = {"array": (array, "B"), "once": (array * (copies - 1) / copies, "B")}
    return Solution(3 * array * (copies - 1) / copies, wrong, figures)


def train_sums(layers: int, width: int, tokens: int, ways: int) -> Solution:
    array = 2 * width * tokens

    def sent(times: int, layers: int = layers) -> float:
        """Bytes that a chip sends: so many gathers or scatters of activations in every block."""
        return times * layers * array * (ways - 1) / ways

    wrong = {
        "forward-exchange-alone": sent(4),
        "one-block-alone": sent(8, 1),
        "shared-message": sent(8) / ways,
    }
    return Solution(sent(8), wrong, {"array": (array, "B"), "once": (sent(1, 1), "B")})


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
