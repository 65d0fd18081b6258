"""Exercises of the chapter *Training rooflines*: memory, traffic, bubbles, and a run's cost."""

from math import ceil, sqrt

from course_lib import network
from course_lib.specs import Accelerator
from course_tools.train import bubble, checkpoint_interval
from course_book.exercises.problem import Solution, ask
from course_book.exercises.shared import headline

_SIZES = (8e9, 13e9, 3e9, 2e9, 5e9, 1e9, 4e9, 7e9, 9e9, 14e9, 20e9, 32e9)


@ask("B", parameters=(2e9, *_SIZES), copies=(16, 32, 8, 64, 24, 48, 4, 12, 40, 20))
def train_states(parameters: float, copies: int) -> Solution:
    wrong = {
        "sixteen-bits-alone": parameters * 2,
        "nothing-sharded": parameters * 18,
        "all-sharded": parameters * 18 / copies,
        "gradients-sharded-too": parameters * (2 + 16 / copies),
    }
    figures = {"kept": (parameters * 6, "B"), "cut": (parameters * 12 / copies, "B")}
    return Solution(parameters * (2 + 4 + 12 / copies), wrong, figures)


@ask("%", hardware=(0.52, 0.44, *(half / 200 for half in range(51, 160))))
def train_recompute(hardware: float) -> Solution:
    wrong = {
        "nothing-recomputed": hardware,
        "recompute-inverted": hardware * 4 / 3,
        "recompute-half": hardware * 2 / 3,
    }
    return Solution(hardware * 3 / 4, wrong, {"passes": 4, "useful": 3})


@ask(
    "",
    chip="h100-sxm b200-sxm mi300x h200-sxm a100-sxm-80",
    batch=(2048, 1024, 512, 768, 1536, 3072, 4096),
    length=(4096, 8192, 2048, 16384),
    whole=True,
)
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


@ask("B", parameters=_SIZES, copies=(64, 32, 128, 16, 8, 24, 48, 96, 256, 512))
def train_shards(parameters: float, copies: int) -> Solution:
    array = 2 * parameters
    wrong = {
        "gathered-once": 2 * array * (copies - 1) / copies,
        "all-reduced-too": 4 * array * (copies - 1) / copies,
        "own-part-alone": 3 * array / copies,
    }
    figures = {"array": (array, "B"), "once": (array * (copies - 1) / copies, "B")}
    return Solution(3 * array * (copies - 1) / copies, wrong, figures)


@ask(
    "B",
    layers=(32, 80, 40, 48, 60),
    width=(4096, 8192, 5120, 6144),
    tokens=(8192, 4096, 16384, 2048),
    ways=(8, 4, 2),
)
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


@ask(
    "%",
    stages=(8, 4, 16, 12, 6, 10),
    pieces=(24, 8, 48, 12, 16, 32, 36, 40, 64),
    parts=(2, 4, 3, 5),
)
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


@ask(
    "",
    stages=(8, 4, 16, 12, *range(5, 25)),
    most=(0.1, 0.05, 0.2, 0.15, 0.25, 0.08, 0.04),
    whole=True,
)
def train_pieces(stages: int, most: float) -> Solution:
    idle = stages - 1
    wrong = {
        "of-the-work": ceil(idle / most - 1e-9),
        "as-many-as-stages": stages,
        "all-stages": ceil(stages * (1 - most) / most - 1e-9),
    }
    return Solution(ceil(idle * (1 - most) / most - 1e-9), wrong, {"idle": idle})


@ask(
    "B",
    layer=(0.25e9, 0.4e9, 0.15e9, 0.3e9, 0.35e9, 0.45e9),
    layers=(32, 64, 96, 48, 80),
    stages=(4, 8, 16),
    pieces=(32, 64, 128),
)
def train_flight(layer: float, layers: int, stages: int, pieces: int) -> Solution:
    piece = layer * layers / stages
    wrong = {
        "one-in-flight": piece,
        "all-in-flight": piece * pieces,
        "whole-model-each": layer * layers * stages,
    }
    return Solution(piece * stages, wrong, {"held": layers // stages, "piece": (piece, "B")})


@ask(
    "s",
    chips=(4096, 1024, 16384, 2048, 8192, 512),
    hours=(50000, 35000, 90000, 40000, 60000),
    save=(40, 15, 90, 20, 30, 60),
)
def train_save(chips: int, hours: int, save: int) -> Solution:
    between = hours * 3600 / chips
    wrong = {
        "one-chip-fails": checkpoint_interval(save, hours * 3600),
        "between-failures": between,
        "saved-without-two": sqrt(save * hours * 3600 / chips),
    }
    return Solution(checkpoint_interval(save, between), wrong, {"between": (between, "s")})


@ask(
    "",
    chip="h100-sxm a100-sxm-80 b200-sxm h200-sxm mi300x",
    hours=(1e6, 2e5, 4e6, 5e5, 3e6, 8e5),
    used=(0.4, 0.5, 0.3, 0.35, 0.45),
)
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
