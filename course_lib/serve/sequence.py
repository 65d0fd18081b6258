"""A request as a replica keeps it."""

from dataclasses import dataclass
from typing import Any

__all__ = ["DECODING", "DONE", "PROMPT", "WAITING", "Sequence"]

WAITING, PROMPT, DECODING, DONE = range(4)


@dataclass(slots=True, eq=False)
class Sequence:
    """A request at a replica.

    Attributes
    ----------
    number : its place among the requests.
    arrived : s, when it came to this replica.
    prompt, output : tokens.
    group, shared : which beginning its prompt shares with others, -1 where none, and its tokens.
    brought : tokens whose keys and values come with it, from a replica that computes prompts.
    made : tokens that it has been given.
    cached, blocks : tokens of it that the cache holds, and in how many blocks.
    lent : of these blocks, those that it shares.
    kept : what is left in the cache of what it gave back.
    state : what it does: `WAITING`, `PROMPT`, `DECODING` or `DONE`.
    joined, ends, remainder : counts of tokens of its replica: when it began to decode, when it
        ends, and when it needs a block.
    scheduled, first, last : s, when its first step was planned, and when its first and its last
        token came; -1 before.
    preempted : how often its blocks were taken.
    """

    number: int
    arrived: float
    prompt: int
    output: int
    group: int = -1
    shared: int = 0
    brought: int = 0
    made: int = 0
    cached: int = 0
    blocks: int = 0
    lent: int = 0
    kept: Any = None
    state: int = WAITING
    joined: int = 0
    ends: int = -1
    remainder: int = 0
    scheduled: float = -1.0
    first: float = -1.0
    last: float = -1.0
    preempted: int = 0

    @property
    def goal(self) -> int:
        """Tokens that must be in the cache before the next one can be made."""
        return self.prompt + self.made
