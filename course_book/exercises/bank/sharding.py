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
