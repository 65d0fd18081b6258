"""Links between chips, the collective operations over them, and matrix products spread over chips.

Bandwidths are per direction, and a plain number stands for a link without latency. The size of a
message is counted as NCCL's tests count it: `bytes` is the larger of the buffers that one chip
sends from and receives into. That is the whole array, as each chip has it, after an all-gather,
before a reduce-scatter, and in an all-reduce; and one chip's array in an all-to-all.

Every time is a lower bound: hops one after another, and the bytes on the busiest link. What a
library adds comes on top; `fit` finds a link's constants as a library sees them.

>>> from course_lib import chip, network
>>> network.all_reduce(1e9, chip("h100-sxm").links["nvlink"], 8)
0.003888...
"""

from course_lib.core.links import Link
from course_lib.network.collectives import (
    Nodes,
    all_gather,
    all_reduce,
    all_to_all,
    between_nodes,
    bus_bandwidth,
    fewest_nodes,
    latency_bound_size,
    phases,
    reduce_scatter,
    resolve_link,
    send,
)
from course_lib.network.costs import ALGORITHMS, cost
from course_lib.network.fitting import LinkFit, fit
from course_lib.network.sharding import (
    SCHEMES,
    Sharded,
    critical_contraction,
    data_parallel_tokens,
    sharded_matmul,
    sharded_mlp,
    tensor_parallel_tokens,
    tensor_parallel_width,
)

__all__ = [
    "ALGORITHMS",
    "SCHEMES",
    "Link",
    "LinkFit",
    "Nodes",
    "Sharded",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "between_nodes",
    "bus_bandwidth",
    "cost",
    "critical_contraction",
    "data_parallel_tokens",
    "fewest_nodes",
    "fit",
    "latency_bound_size",
    "phases",
    "reduce_scatter",
    "resolve_link",
    "send",
    "sharded_matmul",
    "sharded_mlp",
    "tensor_parallel_tokens",
    "tensor_parallel_width",
]
