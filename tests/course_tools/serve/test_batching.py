"""A replica: tokens are conserved, blocks suffice, order is kept, and steps that are reckoned
together are those that would have been taken one by one."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError
from course_tools import serve
from course_tools.serve import batching
from course_tools.serve.batching import DECODING, DONE, PROMPT, Replica, Sequence

STEPS = serve.step_times(
    "llama-3-8b", "rtx-4090", serve.engine("vllm", max_num_batched_tokens=512), calibrated=False
)


def settings(**more):
    return serve.engine("vllm", max_num_batched_tokens=512, **more)


class Watched(Replica):
    """Looks at everything after every step."""

    def _step(self, until):
        super()._step(until)
        held = [one for one in self.all if one.state in (PROMPT, DECODING)]
        own = sum(self._own(one) for one in held) + sum(
            one.blocks - one.lent for one in self._later
        )
        begun = [one for one in self.cache._begun.values() if one.holders]
        assert own + sum(one.blocks for one in begun) + self.cache.free == self.cache.blocks
        assert 0 <= self.cache.free <= self.cache.blocks
        assert len(held) <= self.engine.max_num_seqs
        assert self._seen == sum(self._cached(one) for one in held if one.state == DECODING)

    def _cached(self, one):
        return one.cached + (self._clock - one.joined if one.state == DECODING else 0)

    def _own(self, one):
        return self.cache.needed(self._cached(one)) - one.lent


def served(requests, blocks, cls=Watched, **more):
    replica = cls(STEPS, settings(**more), blocks)
    replica.all = [Sequence(number, *one) for number, one in enumerate(requests)]
    for one in replica.all:
        replica.run(one.arrived)
        replica.offer(one)
    replica.run()
    return replica


REQUESTS = st.lists(
    st.tuples(st.floats(0, 2), st.integers(1, 700), st.integers(1, 90), st.integers(-1, 2)),
    min_size=1,
    max_size=25,
).map(
    lambda every: [
        (at, prompt, output, group, min(prompt, 100) if group >= 0 else 0)
        for at, prompt, output, group in sorted(every)
    ]
)


@given(REQUESTS, st.booleans(), st.sampled_from([3, 256]))
def test_a_log_has_every_step_every_token_and_the_same_times(requests, ahead, most):
    how = {"enable_prefix_caching": False, "async_scheduling": ahead, "max_num_seqs": most}
    silent, log = served(requests, 60, Replica, **how), []
    told = served(requests, 60, type("Told", (Replica,), {"log": property(
        lambda _: log, lambda *_: None)}), **how)  # fmt: skip
    assert len(log) == told.steps == silent.steps
    assert all(a.start < a.end <= b.start < b.end for a, b in pairwise(log))
    for one, same in zip(told.all, silent.all, strict=True):
        assert [one.first, one.last] == pytest.approx([same.first, same.last])
        mine = [step for step in log if one.number in step.cached]
        assert mine[-1].end == one.last
        chunks = sum(step.chunks.get(one.number, 0) for step in mine)
        decoded = [step for step in mine if one.number in step.decoding]
        # Each round of a prompt ends with a token, and all others come in decode.
        rounds = one.preempted + 1
        assert one.output - rounds <= len(decoded) <= one.output - 1
        if not one.preempted:
            assert (chunks, len(decoded)) == (one.prompt, one.output - 1)
        assert chunks >= one.prompt
        assert mine[-1].cached[one.number] == one.prompt + one.output - 1


@given(REQUESTS, st.booleans(), st.booleans(), st.sampled_from([3, 256]), st.sampled_from([0, 7]))
def test_all_are_served_blocks_suffice_and_come_back(requests, again, ahead, most, hold):
    how = {"enable_prefix_caching": again, "async_scheduling": ahead, "max_num_seqs": most}
    how["hold"] = hold
    done = served(requests, 60, **how)
    for one in done._later:
        done.cache.give_back(one)
    assert done.cache.free == done.cache.blocks
    assert done.preemptions == sum(one.preempted for one in done.all)
    for one in done.all:
        assert (one.state, one.made) == (DONE, one.output)
        assert one.arrived <= one.scheduled < one.first <= one.last <= done.now
        least = (one.output - 1) * STEPS.seconds(1, 1, 1, 1, 1)
        assert one.last - one.first >= least * (1 - 1e-9)


@given(st.integers(1, 20), st.integers(1, 60))
def test_a_prompt_that_alone_comes_while_others_decode_waits_as_long_as_it_may(hold, at):
    first, second = (0.0, 10, 90), (at * STEPS.seconds(1, 1, 10, 1, 10), 10, 5)
    at_once, held = (served([first, second], 1000, Replica, hold=h).all[1] for h in (0, hold))
    step = STEPS.seconds(1, 1, 60, 1, 60)
    late = (held.scheduled - at_once.scheduled) / step
    assert min(hold, 25) - 1.5 <= late <= hold + 0.5


@given(REQUESTS)
def test_who_comes_first_is_planned_first(requests):
    done = served(requests, 60)
    times = [one.scheduled for one in done.all]
    assert times == sorted(times)


@given(REQUESTS)
def test_steps_reckoned_together_are_those_taken_one_by_one(requests):
    with pytest.MonkeyPatch.context() as changed:
        together = served(requests, 60)
        changed.setattr(batching, "_MANY", 10**9)
        apart = served(requests, 60)
    assert together.steps == apart.steps
    assert together.preemptions == apart.preemptions
    for one, other in zip(together.all, apart.all, strict=True):
        assert (one.first, one.last) == pytest.approx((other.first, other.last), rel=1e-9)


def test_a_request_alone_takes_its_prompt_and_its_steps():
    done = served([(5.0, 512, 11, -1, 0)], 60)
    one = done.all[0]
    assert one.first - 5.0 == pytest.approx(STEPS.seconds(512, 1, 512 * 513 / 2, 512, 512))
    steps = sum(STEPS.seconds(1, 1, 512 + k, 1, 512 + k) for k in range(1, 11))
    assert one.last - one.first == pytest.approx(steps)
    assert done.steps == 11


def test_a_prompt_longer_than_a_step_is_cut_or_has_a_step_to_itself():
    assert served([(0.0, 1200, 1, -1, 0)], 100).steps == 3
    assert served([(0.0, 500, 1, -1, 0)] * 2, 100, enable_chunked_prefill=False).steps == 2
    whole = serve.engine("vllm", max_num_batched_tokens=512, enable_chunked_prefill=False)
    long = serve.synthetic_workload(1.0, 2, 1200, 1)
    assert serve.simulate("llama-3-8b", "rtx-4090", long, engine_of=whole).steps == 2
    assert served([(0.0, 500, 1, -1, 0)] * 2, 100).steps == 2


def test_what_comes_while_a_step_runs_waits_for_one_more_where_steps_are_planned_ahead():
    every = [(0.0, 400, 50, -1, 0), (0.001, 10, 5, -1, 0)]
    ahead, behind = (served(every, 60, async_scheduling=planned) for planned in (True, False))
    assert ahead.all[1].first > behind.all[1].first


def test_whoever_came_last_gives_way_and_finds_what_is_left_of_it():
    every = [(0.0, 200, 60, -1, 0), (0.0, 200, 60, -1, 0)]
    kept, lost = (served(every, 30, enable_prefix_caching=again) for again in (True, False))
    for done in (kept, lost):
        assert done.all[0].preempted == 0 < done.all[1].preempted
        assert done.all[0].last < done.all[1].last
    assert kept.now < lost.now


def test_a_beginning_that_was_computed_is_not_computed_again():
    every = [(0.0, 400, 3, 0, 320), (9.0, 400, 3, 0, 320), (18.0, 400, 3, 1, 320)]
    done = served(every, 60)
    waits = [one.first - one.arrived for one in done.all]
    assert waits[1] < 0.5 * waits[0]
    assert waits[2] == pytest.approx(waits[0])


def test_speculation_gives_its_tokens_and_costs_its_draft():
    every = [(0.0, 100, 64, -1, 0)]
    guessed = {"num_speculative_tokens": 3, "acceptance": 0.8}
    plain, fast = served(every, 60), served(every, 60, **guessed)
    assert fast.all[0].made == 64
    assert plain.steps / fast.steps == pytest.approx(serve.speculated(0.8, 3), rel=0.1)
    paid = Replica(STEPS, settings(**guessed), 60, STEPS)
    one = Sequence(0, *every[0])
    paid.offer(one)
    paid.run()
    assert one.last > plain.all[0].last


def test_a_request_that_no_cache_holds_is_refused():
    with pytest.raises(CourseError, match="needs 70 blocks of the cache, and a replica has 60"):
        served([(0.0, 1100, 20, -1, 0)], 60)


def test_random_numbers_are_those_of_the_seed():
    one, same, other = (
        serve.synthetic_workload(2.0, 50, 300, 40, spread=1.0, seed=seed) for seed in (3, 3, 4)
    )
    assert np.array_equal(one.arrived, same.arrived)
    assert np.array_equal(one.prompt, same.prompt)
    assert not np.array_equal(one.prompt, other.prompt)
