"""Exercises of the chapter *Rooflines of the network*."""

from typing import Any

from course_lib import network
from course_lib.specs import Accelerator
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import headline

CHAPTER = "network-rooflines"
_NVLINK = ("h100-sxm", "a100-sxm-80", "b200-sxm", "h200-sxm", "a100-sxm-40", "b300-sxm")
_TPUS = ("tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7", "tpu-v4", "tpu-v3")
_REACHED = (1.0, *(percent / 100 for percent in range(30, 96, 3)))
"""What part of its peak a chip reaches. A page asks of the whole peak."""
_MESSAGES = (1e9, 16e9, 140e9, 2e8, 5e8, 2e9, 4e9, 8e9, 26e9, 60e9)


def _all_links(chip: Accelerator) -> float:
    return float(chip.links["nvlink"].total_per_direction)


def _reduced(chip: Accelerator, message: float, n: int, *, link: float | None = None) -> Any:
    return network.all_reduce(message, link or chip.links["nvlink"], n)


def _contraction(chip: Accelerator, share: float, link: float | None = None) -> Any:
    return network.critical_contraction(
        share * chip.peak("bf16"), link or chip.links["ici"].per_direction
    )


def _tokens(chip: Accelerator, link: float, share: float = 1.0) -> Any:
    return network.data_parallel_tokens(share * chip.peak("bf16"), link)


def _inside(chip: Accelerator) -> float:
    """What all links of a chip to those of its machine carry in one direction, bytes/s."""
    return max((float(one.total_per_direction) for one in chip.links.values()), default=0.0)


def _legs(chip: Accelerator, message: float, nodes: int) -> network.Phases:
    between = network.between_nodes(chip.node, chip.links["nvlink"])
    return network.phases("all-reduce", message, between, int(nodes * between.each))


def _one_ring(chip: Accelerator, message: float, nodes: int) -> Any:
    """Through all chips and one port of each node."""
    assert chip.node is not None
    port = chip.node.ports.per_direction
    return network.all_reduce(message, port, nodes * chip.node.chips)


def _latency_size(chip: Accelerator, n: int, latency: float, count: int | None = None) -> Any:
    link = chip.links["nvlink"]
    wires = network.Link(link.per_direction, count or link.count, latency)
    return network.latency_bound_size(wires, n)


def _summed(n: int, ring: float, switch: float) -> Any:
    """How much faster the switch is, where each way reaches a part of what links carry."""
    in_ring = network.all_reduce(1.0, ring, n)
    return in_ring / network.all_reduce(1.0, switch, n, algorithm="in-switch")


EXERCISES = (
    Exercise(
        "network-two-chips",
        CHAPTER,
        "",
        {"chip": _TPUS, "share": _REACHED},
        answer=_contraction,
        misconceptions={
            "bidirectional": lambda chip, share: _contraction(chip, share) / 2,
            "whole-product": lambda chip, share: _contraction(chip, share) / 2,
            "elements": lambda chip, share: _contraction(chip, share) / 2,
            "gigabits": lambda chip, share: _contraction(chip, share) * 8,
            "classic-link": lambda chip, share: (
                _contraction(chip, share, chip.classic["link"].si)
                if "link" in chip.classic
                else None
            ),
            "memory-ridge": lambda chip, share: share * chip.ridge("bf16"),
            "all-of-the-peak": lambda chip, share: _contraction(chip, 1.0) if share < 1 else None,
        },
        units={"share": "%"},
        facts=lambda chip, share: {
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "scaled": (share * chip.peak("bf16"), "FLOP/s", 4),
            "link": (chip.links["ici"].per_direction, "B/s"),
        },
        tolerance=0.01,
    ),
    Exercise(
        "network-all-reduce",
        CHAPTER,
        "s",
        {"chip": _NVLINK, "n": (8, 4, 6), "message": _MESSAGES},
        answer=_reduced,
        misconceptions={
            "one-half": lambda chip, n, message: _reduced(chip, message, n) / 2,
            "bidirectional": lambda chip, n, message: _reduced(chip, message, n) / 2,
            "many-chips": lambda chip, message: 2 * message / _all_links(chip),
            "one-pass": lambda chip, message: message / _all_links(chip),
            "one-link": lambda chip, n, message: _reduced(
                chip, message, n, link=chip.links["nvlink"].per_direction
            ),
            "power-of-ten": lambda chip, n, message: 1e-3 * _reduced(chip, message, n),
        },
        units={"message": "B"},
        facts=lambda chip, n: {
            "count": (chip.links["nvlink"].count, ""),
            "each": (chip.links["nvlink"].per_direction, "B/s"),
            "link": (_all_links(chip), "B/s"),
            "share": (2 * (n - 1) / n, ""),
        },
    ),
    Exercise(
        "network-tokens-nvlink",
        CHAPTER,
        "",
        {"chip": _NVLINK, "share": _REACHED},
        answer=lambda chip, share: _tokens(chip, _all_links(chip), share),
        misconceptions={
            "bidirectional": lambda chip, share: _tokens(chip, _all_links(chip), share) / 2,
            "one-half": lambda chip, share: _tokens(chip, _all_links(chip), share) / 2,
            "forward-only": lambda chip, share: _tokens(chip, _all_links(chip), share) * 2,
            "whole-step": lambda chip, share: _tokens(chip, _all_links(chip), share) * 2 / 3,
            "sparse": lambda chip, share: (
                (peak := headline(chip)) and share * peak / _all_links(chip)
            ),
            "one-link": lambda chip, share: _tokens(
                chip, chip.links["nvlink"].per_direction, share
            ),
            "all-of-the-peak": lambda chip, share: (
                _tokens(chip, _all_links(chip)) if share < 1 else None
            ),
        },
        units={"share": "%"},
        facts=lambda chip, share: {
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "scaled": (share * chip.peak("bf16"), "FLOP/s", 4),
            "link": (_all_links(chip), "B/s"),
        },
    ),
    Exercise(
        "network-tokens-ethernet",
        CHAPTER,
        "",
        {
            "chip": (
                "h100-sxm",
                "b200-sxm",
                "mi300x",
                "h200-sxm",
                "a100-sxm-80",
                "mi325x",
                "b300-sxm",
                "a100-sxm-40",
            ),
            "gigabits": (400, 200, 100, 50, 800),
            "ports": (8, 4, 2, 6),
        },
        answer=lambda chip, gigabits, ports: _tokens(chip, ports * gigabits * 1e9 / 8),
        misconceptions={
            "one-port": lambda chip, gigabits: _tokens(chip, gigabits * 1e9 / 8),
            "gigabits": lambda chip, gigabits, ports: _tokens(chip, ports * gigabits * 1e9),
            "one-half": lambda chip, gigabits, ports: _tokens(chip, ports * gigabits * 1e9 / 8) / 2,
            "forward-only": lambda chip, gigabits, ports: (
                _tokens(chip, ports * gigabits * 1e9 / 8) * 2
            ),
            "sparse": lambda chip, gigabits, ports: (
                (peak := headline(chip)) and peak / (ports * gigabits * 1e9 / 8)
            ),
            "whole-step": lambda chip, gigabits, ports: (
                _tokens(chip, ports * gigabits * 1e9 / 8) * 2 / 3
            ),
        },
        facts=lambda chip, gigabits, ports: {
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "port": (gigabits * 1e9 / 8, "B/s"),
            "link": (ports * gigabits * 1e9 / 8, "B/s"),
        },
        fits=lambda chip, gigabits, ports: ports * gigabits * 1e9 / 8 < _inside(chip),
    ),
    Exercise(
        "network-nodes",
        CHAPTER,
        "s",
        {
            "chip": ("h100-sxm", "a100-sxm-80", "b200-sxm", "h200-sxm"),
            "nodes": (16, 2, 4, 8, 32, 64, 128),
            "message": (4e9, *(size for size in _MESSAGES if size != 4e9)),
        },
        answer=lambda chip, message, nodes: _legs(chip, message, nodes).lower,
        misconceptions={
            "legs-in-turn": lambda chip, message, nodes: _legs(chip, message, nodes).in_turn,
            "shorter-leg": lambda chip, message, nodes: min(_legs(chip, message, nodes)[:2]),
            "one-port": _one_ring,
            "one-half": lambda chip, message, nodes: _legs(chip, message, nodes).lower / 2,
            "bidirectional": lambda chip, message, nodes: _legs(chip, message, nodes).lower / 2,
            "power-of-ten": lambda chip, message, nodes: 1e-3 * _legs(chip, message, nodes).lower,
        },
        units={"message": "B"},
        facts=lambda chip, message, nodes: {
            "each": (chip.node.chips, ""),
            "nvlink": (_all_links(chip), "B/s"),
            "gigabits": (chip.node.ports.per_direction * 8e-9, ""),
            "port": (chip.node.ports.per_direction, "B/s"),
            "inside": (_legs(chip, message, nodes).inside, "s"),
            "across": (_legs(chip, message, nodes).across, "s"),
        },
    ),
    Exercise(
        "network-latency",
        CHAPTER,
        "B",
        {
            "chip": _NVLINK,
            "n": (8, 4, 6),
            "latency": (1e-6, 2e-6, 5e-7, 8e-7, 1.2e-6, 1.5e-6, 2.5e-6, 3e-6),
        },
        answer=_latency_size,
        misconceptions={
            "one-hop": lambda chip, latency: latency * _all_links(chip),
            "bidirectional": lambda chip, n, latency: 2 * _latency_size(chip, n, latency),
            "one-half": lambda chip, n, latency: _latency_size(chip, n, latency) / 2,
            "one-link": lambda chip, n, latency: _latency_size(chip, n, latency, 1),
            "many-chips": lambda chip, n, latency: (n - 1) * latency * _all_links(chip),
        },
        units={"latency": "s"},
        facts=lambda chip, n, latency: {
            "link": (_all_links(chip), "B/s"),
            "hops": (2 * (n - 1), ""),
            "share": (2 * (n - 1) / n, ""),
            "waiting": (2 * (n - 1) * latency, "s"),
        },
    ),
    Exercise(
        "network-bus-bandwidth",
        CHAPTER,
        "B/s",
        {
            "n": (8, 4, 16, 32, 6),
            "message": (1e9, 4e9, 2e9, 8e9, 16e9, 5e8),
            "rate": (264e9, 205e9, 230e9, 150e9, 180e9, 120e9),
        },
        answer=lambda n, rate: rate * 2 * (n - 1) / n,
        misconceptions={
            "algorithm-bandwidth": lambda rate: rate,
            "one-half": lambda n, rate: rate * (n - 1) / n,
            "many-chips": lambda rate: 2 * rate,
            "bits": lambda n, rate: 8 * rate * 2 * (n - 1) / n,
        },
        units={"message": "B"},
        facts=lambda n, message, rate: {
            "seconds": (message / rate, "s", 4),
            "algbw": (rate, "B/s"),
            "share": (2 * (n - 1) / n, ""),
        },
    ),
    Exercise(
        "network-in-switch",
        CHAPTER,
        "×",
        {
            "n": (8, 4, 16, 32, 6, 12, 24, 64, 72),
            "ring": (1.0, 0.95, 0.9, 0.85, 0.8, 0.75),
            "switch": (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7),
        },
        answer=_summed,
        misconceptions={
            "many-chips": lambda ring, switch: 2.0 * switch / ring,
            "one-half": lambda n, ring, switch: _summed(n, ring, switch) / 2,
            "inverted": lambda n, ring, switch: 1 / _summed(n, ring, switch),
            "as-many-as-chips": lambda n: 1.0 * n,
        },
        units={"ring": "%", "switch": "%"},
        facts=lambda n: {"sent": (2 * (n - 1) / n, "")},
        tolerance=0.01,
    ),
)
