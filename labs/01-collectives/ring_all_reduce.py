"""Lab 01: write the all-reduce yourself, from send and receive.

Copy this file to my_ring_all_reduce.py, do the five TODOs, and have your file graded:

    course grade 01 my_ring_all_reduce.py
"""

import torch


def exchange(outgoing: torch.Tensor, incoming: torch.Tensor, right: int, left: int) -> None:
    """Send to the right and receive from the left at the same time."""
    # TODO 1: dist.send returns only when the other side has begun to receive, so if every rank
    #         sends first, nobody ever receives. Start sending with dist.isend, call dist.recv, and
    #         then call wait() on what isend returned. (import torch.distributed as dist)
    raise NotImplementedError


def ring_all_reduce(tensor: torch.Tensor) -> None:
    """Replace a flat tensor by the sum of all ranks' tensors, in place, in every rank."""
    # TODO 2: get dist.get_rank() and dist.get_world_size(). Which rank is to your right, and which
    #         to your left? The ring is closed, so take the numbers modulo world.
    # TODO 3: cut the tensor into one chunk per rank with tensor.tensor_split(world). The chunks are
    #         views: writing into one writes into the tensor. They may differ in length by one.
    # TODO 4: reduce-scatter, in world - 1 steps. In step s, send chunk (rank - s) to the right, and
    #         add what comes from the left to chunk (rank - s - 1), both modulo world. Receive into
    #         a new tensor that is as long as the chunk that it will be added to. At the end, chunk
    #         (rank + 1) holds the sum over all ranks.
    # TODO 5: all-gather, in world - 1 steps. In step s, send chunk (rank + 1 - s), and let what
    #         comes from the left replace chunk (rank - s).
    raise NotImplementedError
