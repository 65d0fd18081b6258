"""Exercises of *Sharding*: the tokens that hide an all-reduce."""

from course_lib import network
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import all_links, headline, scaled


def network_tokens_nvlink(chip: Accelerator, share: float) -> Solution:
    peak, link, large = chip.peak("bf16"), all_links(chip), headline(chip)
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
    return Solution(tokens, wrong, {**scaled(chip, share), "link": (link, "B/s")})


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
