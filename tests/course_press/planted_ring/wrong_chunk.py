"""Lab 01, planted mistake: adds what arrives to the chunk it has just sent. A ring all-reduce from send and receive."""

import torch
import torch.distributed as dist


def exchange(outgoing: torch.Tensor, incoming: torch.Tensor, right: int, left: int) -> None:
    """Send to the right and receive from the left at the same time."""
    sending = dist.isend(outgoing, right)
    dist.recv(incoming, left)
    sending.wait()


def ring_all_reduce(tensor: torch.Tensor) -> None:
    """Replace a flat tensor by the sum of all ranks' tensors, in place, in every rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world, (rank - 1) % world
    chunks = tensor.tensor_split(world)
    for step in range(world - 1):
        mine = chunks[(rank - step) % world]
        arrived = torch.empty_like(mine)
        exchange(chunks[(rank - step) % world], arrived, right, left)
        mine += arrived
    for step in range(world - 1):
        exchange(chunks[(rank + 1 - step) % world], chunks[(rank - step) % world], right, left)
