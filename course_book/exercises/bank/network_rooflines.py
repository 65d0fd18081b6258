"""Exercises of the chapter *Rooflines of the network*."""

from typing import Any

from course_lib import network
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import headline


def _all_links(chip: Accelerator) -> float:
    """Bytes/s of all NVLinks of a chip, in one direction."""
    return float(chip.links["nvlink"].total_per_direction)


def _scaled(chip: Accelerator, share: float) -> dict[str, Any]:
    return {"scaled": (share * chip.peak("bf16"), "FLOP/s", 4)}


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


MEMORY, LINKS = 8e12, 900e9  # byte/s that a chip of a rack reads, and sends to the others


def net_hidden(peak: float, path: float, there: int, back: int) -> Solution:
    width = (there + back) * peak / (6 * path)
    wrong = {
        "dispatch-alone": there * peak / (6 * path),
        "no-gate": (there + back) * peak / (4 * path),
        "forgot-2": (there + back) * peak / (3 * path),
    }
    return Solution(width, wrong, {"ratio": peak / path, "bytes": there + back})


def net_places(
    limit: float, weights: float, layers: int, fixed: float, cache: float, sent: float
) -> Solution:
    read, waits = weights / MEMORY, 2 * layers * fixed
    each, left = cache / MEMORY + sent / LINKS, limit - read - waits
    wrong = {
        "messages-free": (left + waits) // each,
        "message-a-layer": (left + waits / 2) // each,
        "exchange-hidden": left // (cache / MEMORY),
    }
    figures = {"memory": (MEMORY, "B/s"), "links": (LINKS, "B/s"), "read": (read, "s")}
    figures |= {"waits": (waits, "s"), "one": (each, "s"), "left": (left, "s")}
    return Solution(left // each, wrong, figures, 0.02 < left / each % 1 < 0.98 and left > 0)
