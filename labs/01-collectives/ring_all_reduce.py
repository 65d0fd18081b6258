"""Lab 01: write the all-reduce yourself, from send and receive.

Fill in `ring_all_reduce`, then have it graded:

    course grade 01 labs/01-collectives/ring_all_reduce.py
"""

import torch


def exchange(outgoing: torch.Tensor, incoming: torch.Tensor, right: int, left: int) -> None:
    """Send to the right and receive from the left at the same time."""
    # TODO 1: dist.send returns when the other side has begun to receive. If every rank sends
    #         first, nobody ever receives. Begin the sending with dist.isend, then dist.recv, then
    #         wait() for what isend returned. (import torch.distributed as dist)
    raise NotImplementedError


def ring_all_reduce(tensor: torch.Tensor) -> None:
    """Replace a flat tensor by the sum of all ranks' tensors, in place, in every rank."""
    # TODO 2: ask dist.get_rank() and dist.get_world_size(). Who is to your right, who to your
    #         left? The ring is closed: take numbers modulo world.
    # TODO 3: cut the tensor into one chunk a rank with tensor.tensor_split(world). Chunks are
    #         views: writing into one writes into the tensor. They may differ in length by one.
    # TODO 4: reduce-scatter, world - 1 steps. In step s send chunk (rank - s) to the right; add
    #         what comes from the left to chunk (rank - s - 1). Both modulo world. Receive into a
    #         new tensor, of the length of the chunk that it will be added to. At the end chunk
    #         (rank + 1) holds the sum over all ranks.
    # TODO 5: all-gather, world - 1 steps. In step s send chunk (rank + 1 - s), and let what comes
    #         from the left replace chunk (rank - s).
    raise NotImplementedError
