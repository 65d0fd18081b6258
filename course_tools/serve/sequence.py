"""A request as a replica keeps it."""

from dataclasses import dataclass
from typing import Any

WAITING, PROMPT, DECODING, DONE = range(4)


@dataclass(slots=True, eq=False)
class Sequence:
    """A request at a replica; its times are -1 before they come."""

    number: int  # its place among the requests
    arrived: float  # s, when it came to this replica
    prompt: int
    output: int
    group: int = -1  # which beginning its prompt shares with others, -1 where none
    shared: int = 0  # tokens of that beginning
    brought: int = 0  # tokens whose keys and values come with it, from a replica for prompts
    made: int = 0  # tokens that it has been given
    cached: int = 0  # tokens of it that the cache holds
    blocks: int = 0  # in how many blocks
    lent: int = 0  # of these, those that it shares
    kept: Any = None  # what is left in the cache of what it gave back
    state: int = WAITING
    joined: int = 0  # its replica's count of tokens when it began to decode
    ends: int = -1  # when it ends
    remainder: int = 0  # and, over the size of a block, when it needs one
    scheduled: float = -1.0  # s, when its first step was planned
    first: float = -1.0  # when its first token came
    last: float = -1.0  # and its last
    preempted: int = 0  # how often its blocks were taken

    @property
    def goal(self) -> int:
        """Tokens that must be in the cache before the next one can be made."""
        return self.prompt + self.made
