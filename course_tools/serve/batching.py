"""One replica of a server: continuous batching with a paged cache, step by step.

A step takes one token of every sequence that decodes, and fills what its token budget leaves with
prompts, first come, first served, cut where they do not fit. Each sequence holds whole blocks of
the cache; where a step lacks a block, the sequence that came last gives all of its own back and
waits, first in line, to be computed anew. A step that changes nothing costs a constant, however
many sequences it has: who needs a block, and who ends, is known from the count of tokens.
"""

import heapq
from collections import deque
from math import inf

from course_lib.core.checks import CourseError
from course_tools.serve.blocks import DECODING, DONE, PROMPT, WAITING, Blocks, Sequence
from course_tools.serve.clock import StepTimeModel
from course_tools.serve.outcome import LoggedStep
from course_tools.serve.settings import EngineSettings

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
    ) -> None:
        self.taken, self.engine, self._draft = taken, engine, draft
        self.cache = Blocks(blocks, engine.block_size, engine.enable_prefix_caching)
        self.now = self._planned = 0.0  # s, the end of its last step, and when that was planned
        self.steps = self.preemptions = 0
        self.waiting: deque[Sequence] = deque()
        self.log: list[LoggedStep] | None = None  # gets each step, where somebody wants them
        self._clock = 0  # tokens that each decoding sequence was given
        self._owed = 0.0  # of the tokens that speculation yields, what is no whole one yet
        self._order: list[Sequence] = []  # as they were admitted, with some that have left
        self._prompts: list[Sequence] = []
        self._decoding = 0
        self._seen = 0  # tokens in the caches of those that decode
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
        late, self._later = self._later, []
        gained, preempted = self._gained(), self.preemptions
        chunks = self._plan(known, gained)
        for one in late:
            self.cache.give_back(one)
        self._planned = self.now
        if not chunks and not self._decoding:
            return  # what waits needs the blocks that came back just now
        # Whoever waits may be admitted next: by blocks that came back, or by having come.
        came_back = late or self.preemptions > preempted
        soon = self.waiting and (came_back or self.waiting[0].arrived > known)
        start = self.now
        one_by_one = self.log is not None or chunks or gained != 1 or soon
        steps = 1 if one_by_one else self._alike()
        if steps > _MANY:
            times = self.taken.decoding(self._decoding, self._seen + self._decoding, steps).cumsum()
            steps = min(steps, int(times.searchsorted(until - self.now)) + 1)
            self._planned += float(times[steps - 2]) if steps > 1 else 0.0
            self.now += float(times[steps - 1])
            self.cache.take(self._due(steps - 1, 1))
        else:
            steps = 1
            self.now += self._seconds(chunks)
        self.steps += steps
        self._clock += steps * gained
        self._seen += steps * gained * self._decoding
        if self.log is not None:
            self.log.append(self._record(start, chunks))
        self._finish(chunks)

    def _record(self, start: float, chunks: Chunks) -> LoggedStep:
        """The step that has just been taken, before anyone leaves."""
        decoding = [one for one in self._order if one.state == DECODING]
        cached = {one.number: one.cached for one in self._prompts}
        cached |= {one.number: one.cached + self._clock - one.joined for one in decoding}
        new = {one.number: chunk for one, chunk in chunks}
        return LoggedStep(start, self.now, new, tuple(one.number for one in decoding), cached)

    def _gained(self) -> int:
        """Tokens that a step gives each sequence that decodes: on average what guesses yield."""
        if not self.engine.num_speculative_tokens:
            return 1
        self._owed += self.engine.tokens_per_step
        whole = int(self._owed)
        self._owed -= whole
        return whole

    def _seconds(self, chunks: Chunks) -> float:
        guesses = self.engine.num_speculative_tokens
        tried = self._decoding * (1 + guesses)
        seen = self._seen + self._decoding
        new, pairs, looked = tried, float(seen * (1 + guesses)), float(seen)
        for one, chunk in chunks:
            new, looked = new + chunk, looked + one.cached
            pairs += chunk * (one.cached - chunk) + chunk * (chunk + 1) / 2
        time = self.taken.seconds(new, tried + len(chunks), pairs, new, looked)
        if self._draft is not None and (many := self._decoding):
            time += guesses * self._draft.seconds(many, many, seen, many, seen)
        return time

    def _alike(self) -> int:
        """How many steps follow before one ends a sequence, or lacks a block."""
        while self._ends[0][2].state != DECODING or self._ends[0][0] != self._ends[0][2].ends:
            heapq.heappop(self._ends)
        most = self._ends[0][0] - self._clock
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
        while self._due(gained) > self.cache.free:
            self._preempt()
        self.cache.take(self._due(gained))
        tried = self._decoding * (1 + self.engine.num_speculative_tokens)
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
            if one.arrived > known or not self.cache.holds(one):
                return
            found = self.cache.held(one)
            chunk = min(one.goal - found, budget)
            if chunk < one.goal - found and not self.engine.enable_chunked_prefill:
                if chunks or self._decoding:
                    return
                chunk = one.goal - found  # a prompt longer than the budget has a step to itself
            self.waiting.popleft()
            self.cache.start(one)
            self.cache.grow(one, chunk)
            budget, places = max(budget - chunk, 0), places - 1
            one.state, one.scheduled = PROMPT, one.scheduled if one.scheduled >= 0 else self.now
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

    def _join(self, one: Sequence) -> None:
        one.state, one.joined = DECODING, self._clock
        one.ends = self._clock + one.output - one.made
        one.remainder = (self._clock + 1 - one.cached) % self.engine.block_size
        self._count(one, 1)
        heapq.heappush(self._ends, (one.ends, one.number, one))

    def _count(self, one: Sequence, by: int) -> None:
        self._needs[one.remainder] += by
        self._decoding += by
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
            else:
                self._join(one)

    def _done(self, one: Sequence) -> None:
        one.state, one.last = DONE, self.now
        if self.engine.async_scheduling:
            self._later.append(one)
        else:
            self.cache.give_back(one)
