"""How long a product of a mixture's experts takes, with its part of what an engine does around it:
routing, bringing rows to their experts and back.

The functions keep to what `course_press.outputs.translate` can say in JavaScript: pages expect a
step's time by them.
"""

from typing import Any

import msgspec
import numpy as np

from course_tools.calibrate.kernels import count_of, overlapped, product
from course_tools.calibrate.links import AT_ONCE, Range, exchange_seconds

# Least and most rows that a tile has, by powers of two, and its columns.
LEAST_ROWS, MOST_ROWS, COLUMNS = 8, 256, 128
OVERLAP = 2.0  # the order of the norm in which arithmetic hides traffic
# Multiprocessors that send messages of experts, and byte/s that so many move at most on whatever
# chip: with fewer, messages take longer in proportion, the collected ones show, until links of
# fewer byte/s are full.
SENDERS, SENT = 20, 4.5e11
# Experts that a dispatch of few rows must have for that: one multiprocessor sends to each.
FULL = 64
# Links' constants for messages of experts: there and back, of many rows and of few, for which the
# library has kernels of their own.
MESSAGES = ("dispatch", "combine", "dispatch of few", "combine of few")


class MixtureConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a chip achieves in each of the two products of a mixture: into its experts, out of
    them.
    """

    overhead: float  # s beside its work: half of the kernels that route, gather and add up
    routing: float  # s for each pair of a token and an expert, on whatever chip that is
    compute: float  # fraction of the peak that full tiles reach
    bandwidth: float  # fraction of the memory bandwidth
    waves: float  # tiles' times that the first and last wave lose
    moved: float  # byte moved besides for each element of the rows in and out
    range: Range


def mixture_seconds(kernel: Any, chip: Any, c: Any) -> Any:
    """Time of all the products of a kind with a mixture's experts."""
    sizes: Any = product(kernel.work)
    bound, count = kernel.bound, count_of(kernel)
    units = chip.multiprocessors or 1
    # As if engines chose the rows of a tile by how many pairs all chips have for an expert of this
    # one, so that experts spread over many chips fill little of them: the B200's times step where
    # that number passes a power of two, not where an expert's own rows do. The H100's do not.
    per_expert = np.maximum(sizes.routed / sizes.groups, LEAST_ROWS)
    rows = np.minimum(2 ** np.ceil(np.log2(per_expert)), MOST_ROWS)
    # Some experts have more than the mean: half a tile is left empty on average.
    tiles = np.maximum(sizes.groups, sizes.B / rows + sizes.groups / 2)
    tiles = tiles * np.ceil(sizes.F / COLUMNS)
    one = rows * COLUMNS / (sizes.B * sizes.F) * bound.t_math / count * units / c.compute
    math = (tiles / units + c.waves) * one
    memory = bound.t_memory / count / c.bandwidth
    moves = c.moved * sizes.B * (sizes.D + sizes.F) / chip.bandwidth
    beside = c.overhead + c.routing * sizes.routed + moves
    return count * (beside + overlapped(math, memory, OVERLAP))


def message_seconds(links: Any, carrier: str, bound: Any, message: Any) -> Any:
    """Time of a message of experts, the mean of there and back, by the quicker of two ways: of
    bytes, chips and experts.
    """
    chips, experts = np.asarray(message[1]), message[2]
    if carrier != "nvlink" or "dispatch" not in links:
        return exchange_seconds(links[carrier], bound, chips)
    many = exchange_seconds(links["dispatch"], bound, chips)
    many = many + exchange_seconds(links["combine"], bound, chips)
    slower = bound * np.maximum(1.0, FULL / experts)
    few = exchange_seconds(links["dispatch of few"], slower, chips)
    few = few + exchange_seconds(links["combine of few"], bound, chips)
    return np.minimum(many, few) / 2


def lent_link(name: str, ours: Any, theirs: Any, rate: Any, rated: Any) -> Any:
    """A chip's links' constants as they stand for links of another generation, of `rate` byte/s
    instead of `rated`: a call costs so much more as `theirs` of the other kind of kernels show, the
    library's of engines' and engines' of the library's.
    """
    link, shows = ours[name], "nvlink" if name != "nvlink" else AT_ONCE
    call = theirs[shows].latency / ours[shows].latency
    # So many multiprocessors move as much on any chip: it is less of faster links.
    share = min(link.bandwidth * rated / rate, 1.0) if name in MESSAGES[:2] else link.bandwidth
    new = {"latency": call * link.latency, "hop": call * link.hop, "bandwidth": share}
    return msgspec.structs.replace(link, **new)
