"""Exercises of the chapter *Rooflines of the network*."""

from typing import Any

from course_lib import network
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import all_links, scaled


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
    return Solution(answer, wrong, {**scaled(chip, share), "link": (link, "B/s")})


def network_all_reduce(chip: Accelerator, n: int, message: float) -> Solution:
    link, together = chip.links["nvlink"], all_links(chip)
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
    return Solution(phases.lower, wrong, {**figures, "nvlink": (all_links(chip), "B/s")})


def network_latency(chip: Accelerator, n: int, latency: float) -> Solution:
    link, together = chip.links["nvlink"], all_links(chip)
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


def network_bus_bandwidth(n: int, message: float, rate: float) -> Solution:
    wrong = {
        "algorithm-bandwidth": rate,
        "one-half": rate * (n - 1) / n,
        "many-chips": 2 * rate,
        "bits": 8 * rate * 2 * (n - 1) / n,
    }
    figures = {"seconds": (message / rate, "s", 4), "algbw": (rate, "B/s")}
    return Solution(rate * 2 * (n - 1) / n, wrong, {**figures, "share": 2 * (n - 1) / n})


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
