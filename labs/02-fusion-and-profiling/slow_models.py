"""Lab 02: five patients. Four of them are slow, each for its own reason. Look at their traces
before you read this file.

All five compute the same step: an MLP with GELU, whose output is added to its input. `build`
returns a patient that is ready to call.
"""

from collections.abc import Callable

import torch
from torch.nn import functional

TOKENS, WIDTH, HIDDEN = 1024, 32, 4096
PATIENTS = ("A", "B", "C", "D", "E")


def build(name: str, device: str = "cpu", seed: int = 0) -> Callable[[], torch.Tensor]:
    """A patient with its operands in place; each call is one step."""
    generator = torch.Generator(device).manual_seed(seed)

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device=device, generator=generator) / sizes[0] ** 0.5

    x, up, down = random(TOKENS, WIDTH), random(WIDTH, HIDDEN), random(HIDDEN, WIDTH)
    step = {"A": _a, "B": _b, "C": _c, "D": _d, "E": _e}[name]
    return lambda: step(x, up, down)


def _a(x, up, down):
    return (
        x
        + _by_feature_and_back(functional.gelu(_by_feature_and_back(x @ up), approximate="tanh"))
        @ down
    )


def _by_feature_and_back(h):
    return h.t().contiguous().t().contiguous()


def _b(x, up, down):
    return torch.cat(
        [row + functional.gelu(row @ up, approximate="tanh") @ down for row in x.split(1)]
    )


def _c(x, up, down):
    return x + functional.gelu(x @ up, approximate="tanh") @ down


def _d(x, up, down):
    h = x @ up
    bent = 0.5 * h * (1 + torch.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
    return x + bent @ down


def _e(x, up, down):
    return x + _safe(functional.gelu(_safe(x @ up), approximate="tanh")) @ down


def _safe(h):
    # So that nothing overflows, says a comment that nobody has looked at for years.
    return h.cpu().to(h.device) if h.is_cuda else h.double().float()
