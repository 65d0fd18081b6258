"""Exercises of the chapter *Rooflines of the network*."""

from typing import Any

from course_lib import network
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution, ask
from course_book.exercises.shared import headline

_NVLINK = "h100-sxm a100-sxm-80 b200-sxm h200-sxm a100-sxm-40 b300-sxm"
# What part of its peak a chip reaches. A page asks of the whole peak.
_REACHED = (1.0, *(percent / 100 for percent in range(30, 96, 3)))
_MESSAGES = (1e9, 16e9, 140e9, 2e8, 5e8, 2e9, 4e9, 8e9, 26e9, 60e9)


def _all_links(chip: Accelerator) -> float:
    """Bytes/s of all NVLinks of a chip, in one direction."""
    return float(chip.links["nvlink"].total_per_direction)


def _scaled(chip: Accelerator, share: float) -> dict[str, Any]:
    return {"scaled": (share * chip.peak("bf16"), "FLOP/s", 4)}


@ask("", chip="tpu-v5e tpu-v5p tpu-v6e tpu-v7 tpu-v4 tpu-v3", share=_REACHED, tolerance=0.01)
def network_two_chips(chip: Accelerator, share: float) -> Solution:
    peak, link = chip.peak("bf16"), chip.links["ici"].per_direction
    answer, classic = network.critical_contraction(share * peak, link), chip.classic.get("link")
    wrong = {
        "bidirectional": answer / 2,
        "whole-product": answer / 2,
        "elements": answer / 2,
        "gigabits": answer * 8,
        "classic-link": classic and network.critical_contraction(share * peak, classic.si),
        "memory-ridge": share * chip.ridge("bf16"),
        "all-of-the-peak": network.critical_contraction(peak, link) if share < 1 else None,
    }
    return Solution(answer, wrong, {**_scaled(chip, share), "link": (link, "B/s")})


@ask("s", chip=_NVLINK, n=(8, 4, 6), message=_MESSAGES)
def network_all_reduce(chip: Accelerator, n: int, message: float) -> Solution:
    link, together = chip.links["nvlink"], _all_links(chip)
    seconds = network.all_reduce(message, link, n)
    wrong = {
        "one-half": seconds / 2,
        "bidirectional": seconds / 2,
        "many-chips": 2 * message / together,
        "one-pass": message / together,
        "one-link": network.all_reduce(message, link.per_direction, n),
        "power-of-ten": 1e-3 * seconds,
    }
    figures = {"each": (link.per_direction, "B/s"), "link": (together, "B/s")}
    return Solution(seconds, wrong, {**figures, "count": link.count, "share": 2 * (n - 1) / n})


@ask("", chip=_NVLINK, share=_REACHED)
def network_tokens_nvlink(chip: Accelerator, share: float) -> Solution:
    peak, link, large = chip.peak("bf16"), _all_links(chip), headline(chip)
    tokens, each = (
        network.data_parallel_tokens(share * peak, rate)
        for rate in (link, chip.links["nvlink"].per_direction)
    )
    wrong = {
        "bidirectional": tokens / 2,
        "one-half": tokens / 2,
        "forward-only": tokens * 2,
        "whole-step": tokens * 2 / 3,
        "sparse": large and share * large / link,
        "one-link": each,
        "all-of-the-peak": network.data_parallel_tokens(peak, link) if share < 1 else None,
    }
    return Solution(tokens, wrong, {**_scaled(chip, share), "link": (link, "B/s")})


@ask(
    "",
    chip="h100-sxm b200-sxm mi300x h200-sxm a100-sxm-80 mi325x b300-sxm a100-sxm-40",
    gigabits=(400, 200, 100, 50, 800),
    ports=(8, 4, 2, 6),
)
def network_tokens_ethernet(chip: Accelerator, gigabits: int, ports: int) -> Solution:
    port, link = gigabits * 1e9 / 8, ports * gigabits * 1e9 / 8
    peak, large = chip.peak("bf16"), headline(chip)
    tokens = network.data_parallel_tokens(peak, link)
    wrong = {
        "one-port": network.data_parallel_tokens(peak, port),
        "gigabits": network.data_parallel_tokens(peak, ports * gigabits * 1e9),
        "one-half": tokens / 2,
        "forward-only": tokens * 2,
        "sparse": large and large / link,
        "whole-step": tokens * 2 / 3,
    }
    # Less than what all links of a chip to those of its machine carry in one direction.
    inside = max((float(one.total_per_direction) for one in chip.links.values()), default=0.0)
    return Solution(tokens, wrong, {"port": (port, "B/s"), "link": (link, "B/s")}, link < inside)


@ask(
    "s",
    chip="h100-sxm a100-sxm-80 b200-sxm h200-sxm",
    nodes=(16, 2, 4, 8, 32, 64, 128),
    message=(4e9, *(size for size in _MESSAGES if size != 4e9)),
)
def network_nodes(chip: Accelerator, nodes: int, message: float) -> Solution:
    assert chip.node is not None
    node, port = chip.node.chips, chip.node.ports.per_direction
    between = network.between_nodes(chip.node, chip.links["nvlink"])
    phases = network.phases("all-reduce", message, between, int(nodes * between.each))
    wrong = {
        "legs-in-turn": phases.in_turn,
        "shorter-leg": min(phases[:2]),
        "one-port": network.all_reduce(message, port, nodes * node),
        "one-half": phases.lower / 2,
        "bidirectional": phases.lower / 2,
        "power-of-ten": 1e-3 * phases.lower,
    }
    figures = {"each": node, "gigabits": port * 8e-9, "port": (port, "B/s")}
    figures |= {"inside": (phases.inside, "s"), "across": (phases.across, "s")}
    return Solution(phases.lower, wrong, {**figures, "nvlink": (_all_links(chip), "B/s")})


@ask("B", chip=_NVLINK, n=(8, 4, 6), latency=(1e-6, 2e-6, 5e-7, 8e-7, 1.2e-6, 1.5e-6, 2.5e-6, 3e-6))
def network_latency(chip: Accelerator, n: int, latency: float) -> Solution:
    link, together = chip.links["nvlink"], _all_links(chip)
    size, single = (
        network.latency_bound_size(network.Link(link.per_direction, count, latency), n)
        for count in (link.count, 1)
    )
    wrong = {
        "one-hop": latency * together,
        "bidirectional": 2 * size,
        "one-half": size / 2,
        "one-link": single,
        "many-chips": (n - 1) * latency * together,
    }
    figures = {"link": (together, "B/s"), "hops": 2 * (n - 1), "share": 2 * (n - 1) / n}
    return Solution(size, wrong, {**figures, "waiting": (2 * (n - 1) * latency, "s")})


@ask(
    "B/s",
    n=(8, 4, 16, 32, 6),
    message=(1e9, 4e9, 2e9, 8e9, 16e9, 5e8),
    rate=(264e9, 205e9, 230e9, 150e9, 180e9, 120e9),
)
def network_bus_bandwidth(n: int, message: float, rate: float) -> Solution:
    wrong = {
        "algorithm-bandwidth": rate,
        "one-half": rate * (n - 1) / n,
        "many-chips": 2 * rate,
        "bits": 8 * rate * 2 * (n - 1) / n,
    }
    figures = {"seconds": (message / rate, "s", 4), "algbw": (rate, "B/s")}
    return Solution(rate * 2 * (n - 1) / n, wrong, {**figures, "share": 2 * (n - 1) / n})


@ask(
    "×",
    n=(8, 4, 16, 32, 6, 12, 24, 64, 72),
    ring=(1.0, 0.95, 0.9, 0.85, 0.8, 0.75),
    switch=(1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7),
    tolerance=0.01,
)
def network_in_switch(n: int, ring: float, switch: float) -> Solution:
    """How much faster the switch is, where each way reaches a part of what links carry."""
    in_ring = network.all_reduce(1.0, ring, n)
    faster: Any = in_ring / network.all_reduce(1.0, switch, n, algorithm="in-switch")
    wrong = {
        "many-chips": 2.0 * switch / ring,
        "one-half": faster / 2,
        "inverted": 1 / faster,
        "as-many-as-chips": 1.0 * n,
    }
    return Solution(faster, wrong, {"sent": 2 * (n - 1) / n})
