"""Requests as a replica keeps them, and the blocks of its cache: who holds them, and what those
that are free still hold.

Blocks that are given back keep their keys and values until they are needed: those that hold nothing
are taken first, then what was given back first. A sequence that was preempted, and one whose prompt
begins like another's, find what is left of it.
"""

from collections import deque
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


@dataclass(slots=True, eq=False)
class _Freed:
    """Blocks given back, of which so many still hold what they held."""

    blocks: int


@dataclass(slots=True, eq=False)
class _Beginning:
    """The blocks of a prompt's beginning, and how many sequences hold them."""

    blocks: int
    holders: int
    kept: _Freed


class Blocks:
    """So many blocks of so many tokens each: how many are `free`, and the `fewest` that ever were;
    with `again`, what is still held is used again.
    """

    def __init__(self, blocks: int, size: int, again: bool) -> None:
        self.blocks, self.size, self._again = blocks, size, again
        self.free = self.fewest = blocks
        self._freed: deque[_Freed] = deque()
        self._kept = 0  # blocks that are free and still hold something
        self._begun: dict[int, _Beginning] = {}

    def needed(self, tokens: int) -> int:
        """Blocks for so many tokens."""
        return -(-tokens // self.size)

    def lacks(self, one: Sequence, chunk: int) -> int:
        """Blocks that a sequence needs for so many tokens more."""
        return self.needed(one.cached + chunk) - one.blocks

    def grow(self, one: Sequence, chunk: int) -> None:
        """Give a sequence the blocks for so many tokens more."""
        self.take(self.lacks(one, chunk))
        one.cached += chunk
        one.blocks = self.needed(one.cached)

    def take(self, blocks: int) -> None:
        """Take blocks that hold nothing, then what was given back first."""
        self.free -= blocks
        self.fewest = min(self.fewest, self.free)
        while self._kept > self.free:
            oldest = self._freed[0]
            taken = min(oldest.blocks, self._kept - self.free)
            oldest.blocks -= taken
            self._kept -= taken
            if not oldest.blocks:
                self._freed.popleft()

    def holds(self, one: Sequence) -> bool:
        """Whether there is room for all tokens of a sequence that waits."""
        found = self._beginning(one)
        lent = self.held(one) // self.size if found is not None and found.holders else 0
        return self.needed(one.goal) - lent <= self.free

    def held(self, one: Sequence) -> int:
        """Tokens of a sequence that waits whose keys and values are here, or come with it."""
        if one.brought and not one.preempted:
            return one.brought
        found, there = self._beginning(one), 0
        if found is not None:
            whole = found.blocks if found.holders else found.kept.blocks
            there = min(whole, one.shared // self.size)
        elif self._again and one.kept is not None:
            there = one.kept.blocks
        return min(there, (one.goal - 1) // self.size) * self.size

    def _beginning(self, one: Sequence) -> _Beginning | None:
        return self._begun.get(one.group) if self._again and one.group >= 0 else None

    def start(self, one: Sequence) -> None:
        """Give a sequence that waited what `held` counted."""
        tokens, found = self.held(one), self._beginning(one)
        one.cached, one.blocks, one.lent = tokens, self.needed(tokens), 0
        if one.brought and not one.preempted:
            self.take(one.blocks)
        elif found is not None and tokens:
            one.lent = one.blocks
            if not found.holders:
                found.blocks = one.blocks
                self._reclaim(found.kept, one.blocks)
            found.holders += 1
        elif one.kept is not None:
            self._reclaim(one.kept, one.blocks)
        one.kept = None

    def _reclaim(self, kept: _Freed, blocks: int) -> None:
        """Take back what is still held; the rest of it counts as holding nothing."""
        if kept.blocks:
            self._freed.remove(kept)
            self._kept -= kept.blocks
            kept.blocks = 0
        self.take(blocks)

    def share(self, one: Sequence) -> None:
        """Let others use the beginning of a prompt that is computed now."""
        blocks, found = one.shared // self.size, self._begun.get(one.group)
        if one.group < 0 or not self._again or not blocks or one.lent:
            return
        if found is None or not (found.holders or found.kept.blocks):
            self._begun[one.group] = _Beginning(blocks, 1, _Freed(0))
            one.lent = blocks

    def give_back(self, one: Sequence) -> None:
        """Free the blocks of a sequence; a beginning when its last holder leaves."""
        one.kept = self._let(one.blocks - one.lent)
        if one.lent:
            found = self._begun[one.group]
            found.holders -= 1
            if not found.holders:
                found.kept = self._let(found.blocks)
        one.blocks = one.lent = 0

    def _let(self, blocks: int) -> _Freed:
        freed = _Freed(blocks)
        if blocks:
            self.free += blocks
            self._kept += blocks
            self._freed.append(freed)
        return freed
