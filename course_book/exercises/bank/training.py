"""Exercises of the chapter *Training rooflines*: memory, traffic, bubbles, and a run's cost."""

from course_lib import network
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution


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
