"""One replica of a server: continuous batching with a paged cache, step by step.

A step takes one token of every sequence that decodes, and fills what its token budget leaves with
prompts, first come, first served, cut where they do not fit. Each sequence holds whole blocks of
the cache; where a step lacks a block, the sequence that came last gives all of its own back and
waits, first in line, to be computed anew. Blocks that are given back keep their keys and values
until they are needed: those that hold nothing are taken first, then what was given back first.

A step that changes nothing costs a constant, however many sequences it has: who needs a block, and
who ends, is known from the count of tokens.
"""

import heapq
from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Any

from course_lib.core.checks import CourseError
from course_lib.workloads.transformer import looked_at
from course_tools.serve.clock import StepTimeModel
from course_tools.serve.requests import LoggedStep
from course_tools.serve.settings import EngineSettings

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

    # A sequence takes so many `more` for what it keeps however long it is: windows, and states.
    def __init__(self, blocks: int, size: int, again: bool, more: int = 0) -> None:
        self.blocks, self.size, self._again, self._more = blocks, size, again, more
        self.free = self.fewest = blocks
        self._freed: deque[_Freed] = deque()
        self._kept = 0  # blocks that are free and still hold something
        self._begun: dict[int, _Beginning] = {}

    def needed(self, tokens: int) -> int:
        """Blocks for so many tokens."""
        return -(-tokens // self.size) + self._more

    def lacks(self, one: Sequence, chunk: int) -> int:
        """Blocks that a sequence needs for so many tokens more."""
        return self.needed(one.cached + chunk) - one.blocks

    def grow(self, one: Sequence, chunk: int) -> None:
        """Give a sequence the blocks for so many tokens more."""
        one.cached += chunk
        blocks = self.needed(one.cached)
        self.take(blocks - one.blocks)
        one.blocks = blocks

    def take(self, blocks: int) -> None:
        """Take blocks that hold nothing, then what was given back first."""
        self.free -= blocks
        if self.free < self.fewest:
            self.fewest = self.free
        while self._kept > self.free:
            oldest = self._freed[0]
            taken = min(oldest.blocks, self._kept - self.free)
            oldest.blocks -= taken
            self._kept -= taken
            if not oldest.blocks:
                self._freed.popleft()

    def holds(self, one: Sequence, held: int) -> bool:
        """Whether there is room for all tokens of a sequence that waits, so many of them `held`."""
        found = self._beginning(one) if held else None
        lent = held // self.size if found is not None and found.holders else 0
        return self.needed(one.prompt + one.made) - lent <= self.free

    def held(self, one: Sequence) -> int:
        """Tokens of a sequence that waits whose keys and values are here, or come with it."""
        if one.brought and not one.preempted:
            return one.brought
        if one.group < 0 and one.kept is None:
            return 0
        found, there = self._beginning(one), 0
        if found is not None:
            whole = found.blocks if found.holders else found.kept.blocks
            there = min(whole, one.shared // self.size)
        elif self._again and one.kept is not None:
            there = one.kept.blocks
        return min(there, (one.goal - 1) // self.size) * self.size if there else 0

    def _beginning(self, one: Sequence) -> _Beginning | None:
        return self._begun.get(one.group) if self._again and one.group >= 0 else None

    def start(self, one: Sequence, tokens: int) -> None:
        """Give a sequence that waited the tokens that `held` counted."""
        found = self._beginning(one)
        one.cached, one.blocks, one.lent = tokens, self.needed(tokens) - self._more, 0
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
        if one.group < 0 or not self._again or one.lent or not (blocks := one.shared // self.size):
            return
        found = self._begun.get(one.group)
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


_MANY = 4  # steps from which it pays to reckon them together

Chunks = list[tuple[Sequence, int]]


class Replica:
    """An engine with its own chips, a cache of so many blocks, and a queue; what its steps take,
    and where it speculates, those of a draft.
    """

    def __init__(
        self,
        taken: StepTimeModel,
        engine: EngineSettings,
        blocks: int,
        draft: StepTimeModel | None = None,
        more: int = 0,
    ) -> None:
        self.taken, self.engine, self._draft = taken, engine.on(), draft
        self.cache = Blocks(blocks, engine.block_size, engine.enable_prefix_caching, more)
        self.now = self._planned = 0.0  # s, the end of its last step, and when that was planned
        self.steps = self.preemptions = 0
        self.waiting: deque[Sequence] = deque()
        self.after: deque[Sequence] = deque()  # of whom one comes whenever another is done
        self.log: list[LoggedStep] | None = None  # gets each step, where somebody wants them
        self._held = 0  # its count of steps when the first came that waits
        self._looks = 0  # and from which it looks again who has come
        self._looked = 0.0  # s, when it last did
        self._clock = 0  # tokens that each decoding sequence was given
        self._owed = 0.0  # of the tokens that speculation yields, what is no whole one yet
        self._order: list[Sequence] = []  # as they were admitted, with some that have left
        self._prompts: list[Sequence] = []
        self._decoding = 0
        self._seen = 0  # tokens in the caches of those that decode
        # What layers with a window read of them in the next step, how many of them read more in
        # each step, and the count of tokens until which that holds.
        self._near = self._rising = 0
        self._holds = 0.0
        self._needs = [0] * engine.block_size  # who needs a block at a count of this remainder
        self._ends: list[tuple[int, int, Sequence]] = []
        self._later: list[Sequence] = []

    @property
    def load(self) -> int:
        """Sequences that wait or run."""
        return len(self.waiting) + self._decoding + len(self._prompts)

    def offer(self, one: Sequence) -> None:
        """Put a request in line."""
        most = self.cache.needed(one.prompt + one.output - 1)
        if most > (there := self.cache.blocks // self.engine.groups):
            raise CourseError(
                f"request {one.number} needs {most} blocks of the cache, and a replica has "
                f"{there}: share the model over more chips"
            )
        if not self.load:
            self.now = max(self.now, one.arrived)
        self.waiting.append(one)

    def run(self, until: float = inf) -> None:
        """Run steps until one ends at `until` or later, or nothing is left to do."""
        while self.now < until and self.load:
            self._step(until)

    def _step(self, until: float) -> None:
        busy = self._decoding or self._prompts
        # A step that is planned while another runs knows what had come when that one began.
        known = self._planned if self.engine.async_scheduling and busy else self.now
        if (every := self.engine.scheduler_recv_interval) > 1 and busy:
            if self.steps >= self._looks:
                self._looked, self._looks = known, self.steps + every
            known = self._looked
        if self.engine.hold and busy:  # those who came wait for others to fill a step with them
            tokens = sum(one.goal for one in self.waiting if one.arrived <= known)
            self._held = self._held if tokens else self.steps
            if tokens < self.engine.max_num_batched_tokens:
                known = -inf if self.steps - self._held < self.engine.hold else known
        late, self._later = self._later, []
        preempted, alone = self.preemptions, not self.engine.enable_mixed_chunk
        gained = 0 if alone else self._gained()
        chunks = self._plan(known, gained)
        if alone and not chunks:
            gained = self._gained()
            chunks = self._plan(known, gained)
        for one in late:
            self.cache.give_back(one)
        self._planned = self.now
        if not chunks and not self._decoding:
            if self.waiting:  # for the blocks that came back just now, or to be read
                self.now = max(self.now, self.waiting[0].arrived)
            return
        # Whoever waits may be admitted next: by blocks that came back, or by having come.
        came_back = late or self.preemptions > preempted
        soon = self.waiting and (came_back or self.waiting[0].arrived > known)
        if self.taken.windowed and self._clock >= self._holds:
            self._look()
        start = self.now
        one_by_one = self.log is not None or chunks or gained != 1 or soon
        steps = 1 if one_by_one else self._alike()
        if steps > _MANY:
            looks = self._seen + self._decoding, steps, self._near, self._rising
            times = self.taken.decoding(self._decoding, *looks).cumsum()
            steps = min(steps, int(times.searchsorted(until - self.now)) + 1)
            self._planned += float(times[steps - 2]) if steps > 1 else 0.0
            self.now += float(times[steps - 1])
            self.cache.take(self._due(steps - 1, 1))
        else:
            steps = 1
            self.now += self._seconds(chunks, 0 if alone and chunks else self._decoding)
        self.steps += steps
        if chunks:
            self._looks = self.steps
        self._clock += steps * gained
        self._seen += steps * gained * self._decoding
        self._near += steps * gained * self._rising
        if self.log is not None:
            self.log.append(self._record(start, chunks, gained > 0))
        self._finish(chunks)

    def _record(self, start: float, chunks: Chunks, decoded: bool) -> LoggedStep:
        """The step that has just been taken, before anyone leaves."""
        decoding = [one for one in self._order if one.state == DECODING]
        cached = {one.number: one.cached for one in self._prompts}
        cached |= {one.number: one.cached + self._clock - one.joined for one in decoding}
        new = {one.number: chunk for one, chunk in chunks}
        gained = tuple(one.number for one in decoding if decoded)
        return LoggedStep(start, self.now, new, gained, cached)

    def _gained(self) -> int:
        """Tokens that a step gives each sequence that decodes: on average what guesses yield."""
        if not self.engine.num_speculative_tokens:
            return 1
        self._owed += self.engine.tokens_per_step
        whole = int(self._owed)
        self._owed -= whole
        return whole

    def _seconds(self, chunks: Chunks, decoding: int) -> float:
        guesses = self.engine.num_speculative_tokens
        tried = decoding * (1 + guesses)
        seen = self._seen + decoding if decoding else 0
        new, pairs, looked = tried, float(seen * (1 + guesses)), float(seen)
        close = self._near if decoding else 0
        near, read, passes = float(close * (1 + guesses)), float(close), 2.0 * decoding
        for one, chunk in chunks:
            new, looked = new + chunk, looked + one.cached
            pairs += chunk * (one.cached - chunk) + chunk * (chunk + 1) / 2
            passes += 1 + (one.cached > chunk)
            if self.taken.windowed:
                some, paired = looked_at(self.taken, chunk, one.cached)
                near, read = near + float(paired), read + float(some)
        sequences, close_by = tried + len(chunks), (near, read)
        time = self.taken.seconds(new, sequences, pairs, new, looked, close_by, passes)
        if chunks:
            time = max(time, self.taken.prompt)
        if self._draft is not None and (many := decoding):
            time += guesses * self._draft.seconds(many, many, seen, many, seen)
        return time

    def _look(self) -> None:
        """Count anew what layers with a window read for those that decode."""
        self._order = [one for one in self._order if one.state in (PROMPT, DECODING)]
        size, chunked = self.taken.window, self.taken.chunked
        self._near, self._rising, self._holds = 0, 0, inf
        for one in self._order:
            if one.state == DECODING:
                seen = one.cached + self._clock - one.joined + 1
                near = (seen - 1) % size + 1 if chunked else min(seen, size)
                self._near += near
                if chunked or near < size:
                    self._rising += 1
                    self._holds = min(self._holds, self._clock + size - near + chunked)

    def _alike(self) -> int:
        """How many steps follow before one ends a sequence, or lacks a block."""
        while self._ends[0][2].state != DECODING or self._ends[0][0] != self._ends[0][2].ends:
            heapq.heappop(self._ends)
        most = int(min(self._ends[0][0], self._holds or inf)) - self._clock
        # The first of them has taken its blocks already.
        if self._due(most - 1, 1) <= self.cache.free:
            return most
        left, found = self.cache.free, 1
        while (due := self._due(1, found)) <= left:
            left, found = left - due, found + 1
        return found

    def _due(self, tokens: int, ahead: int = 0) -> int:
        """Blocks that so many tokens for each that decodes need, so many tokens after the next."""
        size = self.engine.block_size
        rounds, rest = divmod(tokens, size)
        first, found = self._clock + 1 + ahead, rounds * self._decoding
        for count in range(first, first + rest):
            found += self._needs[count % size]
        return found

    def _plan(self, known: float, gained: int) -> Chunks:
        """Who runs in the next step: takes blocks, and gives them up where they do not suffice."""
        before = self.preemptions
        while (due := self._due(gained)) > self.cache.free:
            self._preempt()
        self.cache.take(due)
        tried = self._decoding * (1 + self.engine.num_speculative_tokens) if gained else 0
        budget = max(self.engine.max_num_batched_tokens - tried, 0)
        chunks: Chunks = []
        for one in list(self._prompts):
            chunk = min(one.goal - one.cached, budget)
            while one.state == PROMPT and self.cache.lacks(one, chunk) > self.cache.free:
                self._preempt()
            if one.state == PROMPT and chunk:
                self.cache.grow(one, chunk)
                budget -= chunk
                chunks.append((one, chunk))
        if self.preemptions == before:
            self._admit(chunks, budget, known)
        return [(one, chunk) for one, chunk in chunks if one.state == PROMPT]

    def _admit(self, chunks: Chunks, budget: int, known: float) -> None:
        places = self.engine.max_num_seqs - self._decoding - len(self._prompts)
        while self.waiting and budget and places > 0:
            one = self.waiting[0]
            if one.arrived > known:
                return
            found = self.cache.held(one)
            if not self.cache.holds(one, found):
                return
            chunk = left = one.prompt + one.made - found
            # A prompt longer than the budget has a step to itself where it isn't cut.
            if left > budget and self.engine.enable_chunked_prefill:
                chunk = budget
            elif left > budget and (chunks or self._decoding):
                return
            self.waiting.popleft()
            if found or one.kept is not None:
                self.cache.start(one, found)
            self.cache.grow(one, chunk)
            budget, places = max(budget - chunk, 0), places - 1
            one.state = PROMPT
            if one.scheduled < 0:
                one.scheduled = self.now
            self._order.append(one)
            self._prompts.append(one)
            chunks.append((one, chunk))

    def _preempt(self) -> None:
        """Whoever came last gives its blocks back, and is first in line."""
        while (one := self._order.pop()).state not in (PROMPT, DECODING):
            pass
        if one.state == DECODING:
            self._leave(one)
        else:
            self._prompts.remove(one)
        self.cache.give_back(one)
        one.state, one.cached = WAITING, 0
        one.preempted += 1
        self.preemptions += 1
        self.waiting.appendleft(one)

    def _leave(self, one: Sequence) -> None:
        """Bring what was only counted up to date, and take it out of the counts."""
        done = self._clock - one.joined
        one.made, one.cached = min(one.made + done, one.output), one.cached + done
        one.blocks = self.cache.needed(one.cached)
        self._count(one, -1)

    def _count(self, one: Sequence, by: int) -> None:
        self._needs[one.remainder] += by
        self._decoding += by
        self._holds = 0.0  # what windows hold is counted anew
        self._seen += by * one.cached

    def _finish(self, chunks: Chunks) -> None:
        while self._ends and self._ends[0][0] <= self._clock:
            ends, _, one = heapq.heappop(self._ends)
            if one.state == DECODING and one.ends == ends:
                self._leave(one)
                self._done(one)
        for one, _ in chunks:
            if one.cached < one.goal:
                continue
            self._prompts.remove(one)
            self.cache.share(one)
            one.made += 1
            one.first = one.first if one.first >= 0 else self.now
            if one.made >= one.output:
                self._done(one)
                continue
            one.state, one.joined = DECODING, self._clock
            one.ends = self._clock + one.output - one.made
            one.remainder = (self._clock + 1 - one.cached) % self.engine.block_size
            self._count(one, 1)
            heapq.heappush(self._ends, (one.ends, one.number, one))

    def _done(self, one: Sequence) -> None:
        one.state, one.last = DONE, self.now
        if self.after:
            self.after[0].arrived = self.now + self.taken.first
            self.waiting.append(self.after.popleft())
        if self.engine.async_scheduling:
            self._later.append(one)
        else:
            self.cache.give_back(one)
