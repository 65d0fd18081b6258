"""Requests, engines, a fleet, plans and the queues' closed forms; and a published log beside them."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, chip, llm
from course_lib.workloads.weights import cache_bytes
from course_tools import serve
from course_tools.calibrate.errors import error_table
from course_tools.serve import evidence
from tests.course_lib.workloads import mixing

FEW = serve.synthetic_workload(4.0, 60, 400, 60, spread=0.7)


def simulated(requests=FEW, **how):
    return serve.simulate("llama-3-8b", "h100-sxm", requests, **how)


class TestRequests:
    @given(st.floats(0.5, 3), st.floats(0.1, 100))
    def test_a_rate_only_moves_them_together(self, burst, rate):
        slow, fast = (
            serve.synthetic_workload(at, 80, 300, 50, burst=burst) for at in (rate, 2 * rate)
        )
        assert slow.arrived == pytest.approx(2 * fast.arrived)
        assert np.array_equal(slow.prompt, fast.prompt)

    def test_moments_are_those_that_were_asked_for(self):
        many = serve.synthetic_workload(5.0, 40_000, 300, 50, burst=2.0, spread=0.5)
        between = np.diff(many.arrived)
        assert between.mean() == pytest.approx(0.2, rel=0.05)
        assert between.std() / between.mean() == pytest.approx(2.0, rel=0.05)
        assert many.prompt.mean() == pytest.approx(300, rel=0.02)
        assert many.prompt.std() / many.prompt.mean() == pytest.approx(0.5, rel=0.02)
        assert many.rate == pytest.approx(5.0, rel=0.05)

    def test_lists_of_lengths_are_drawn_together(self):
        found = serve.synthetic_workload(1.0, 50, [10, 20, 30], [1, 2, 3])
        assert np.array_equal(found.prompt, 10 * found.output)

    def test_a_beginning_is_a_part_of_the_prompt(self):
        found = serve.synthetic_workload(1.0, 50, 100, 10, groups=3, shared=64)
        assert set(found.group) == {0, 1, 2}
        assert set(found.prompt) == {164}
        with pytest.raises(CourseError, match="shared must be given for groups 3"):
            serve.synthetic_workload(1.0, 50, 100, 10, groups=3)

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            ([], "has no request"),
            (["{"], "line 1: Input data was truncated .got"),
            (["3"], "line 1: Expected `object`, got `int`"),
            ([{}], "line 1: Object missing required field `arrival_time` .got '{}'.: write a JSON"),
            ([(1, 5, 5), (0.5, 5, 5)], r"line 2: arrival_time 0.5 is before 1 of the line above"),
            ([(-1, 5, 5)], r"line 1: Expected `float` >= 0.0 - at `\$.arrival_time` .got"),
            ([(math.nan, 5, 5)], "line 1: JSON is malformed.*NaN, .*arrival_time in s"),
            ([("soon", 5, 5)], "line 1: Expected `float`, got `str`"),
            ([(0, 5.5, 5)], r"line 1: Expected `int`, got `float` - at `\$.input_toks`"),
            (
                [(0, 5, 0)],
                r"line 1: Expected `int` >= 1 - at `\$.output_toks`.*: write a JSON object",
            ),
            ([(0, 10**20, 5)], r"line 1: Expected `int` <= 9\d+ - at `\$.input_toks`"),
            ([(0, 5, True)], r"line 1: Expected `int`, got `bool` - at `\$.output_toks`"),
        ],
    )
    def test_a_file_with_a_fault_names_the_line(self, tmp_path, lines, said):
        names = ("arrival_time", "input_toks", "output_toks")
        rows = [
            one
            if isinstance(one, str)
            else json.dumps(dict(zip(names, one, strict=False)) if isinstance(one, tuple) else one)
            for one in lines
        ]
        file = tmp_path / "requests.jsonl"
        file.write_text("\n".join(rows))
        with pytest.raises(CourseError, match=said):
            serve.read_requests(file)

    def test_a_file_is_read_from_its_first_arrival(self, tmp_path):
        file = tmp_path / "requests.jsonl"
        line = {"arrival_time": 7.5, "input_toks": 9, "output_toks": 2}
        more = {**line, "arrival_time": 8.0, "prefix_id": "a", "prefix_toks": 4}
        file.write_text(f"{json.dumps(line)}\n\n{json.dumps(more)}\n")
        found = serve.read_requests(file)
        assert (list(found.arrived), list(found.group), list(found.shared)) == (
            [0.0, 0.5],
            [-1, 0],
            [0, 4],
        )

    @pytest.mark.parametrize(
        ("text", "arrived", "prompt", "output", "shared"),
        [
            (
                "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
                "2023-11-16 18:17:04.4799600,110,27\n",
                [0, 0.5], [4808, 110], [10, 27], [0, 0],
            ),
            (
                "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                "5,ChatGPT,472,18,490,Conversation log\n6,GPT-4,9,0,9,API log\n"
                "45.5,GPT-4,1087,230,1317,Conversation log\n",
                [0, 40.5], [472, 1087], [18, 230], [0, 0],
            ),
            (
                '{"timestamp": 1000, "input_length": 900, "output_length": 5, "hash_ids": [7, 8]}\n'
                '{"timestamp": 1250, "input_length": 400, "output_length": 6, "hash_ids": [7]}\n',
                [0, 0.25], [900, 400], [5, 6], [512, 400],
            ),
        ],
        ids=["azure", "burstgpt", "mooncake"],
    )  # fmt: skip
    def test_public_logs_are_read(self, tmp_path, text, arrived, prompt, output, shared):
        file = tmp_path / "log"
        file.write_text(text)
        found = serve.read_requests(file)
        assert found.arrived == pytest.approx(arrived, abs=1e-6)
        assert (list(found.prompt), list(found.output)) == (prompt, output)
        assert list(found.shared) == shared
        file.write_text(text.replace("110,27", "x,27").replace("1087", "1e3").replace("400", '"4"'))
        with pytest.raises(CourseError, match=r"line [234]"):
            serve.read_requests(file)


class TestEngine:
    def test_a_log_says_its_own_settings(self):
        found = serve.engine(evidence.LOG.with_suffix(".json"))
        assert (found.num_gpu_blocks, found.block_size, found.max_num_batched_tokens) == (
            2588,
            16,
            2048,
        )
        assert (found.dtype, found.async_scheduling, found.memory) == ("bf16", True, 25250627584)
        assert found.bandwidth == serve.engine("vllm").bandwidth

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("{", "is not JSON"),
            ("[]", "must hold an object"),
            ('{"max_num_seqs": "many"}', "Expected `int`, got `str` - at `\\$.max_num_seqs`"),
            ('{"max_num_seqs": 0}', r"engine\.json' max_num_seqs must be"),
            ('{"gpu_memory_utilization": 1.5}', "gpu_memory_utilization must be at most 1"),
            ('{"max_num_batched_tokens": 8, "max_num_seqs": 9}', "must be at least max_num_seqs 9"),
            ('{"name": "fast"}', r"unknown engine .*engine\.json': name 'fast'"),
            ('{"source": "\\ud800"}', r"engine\.json': source must be text"),
            ('{"block_size": 1000000000}', "block_size must be at most 1048576"),
        ],
    )
    def test_settings_that_are_none_are_refused(self, tmp_path, content, said):
        file = tmp_path / "engine.json"
        file.write_text(content)
        with pytest.raises(CourseError, match=said):
            serve.engine(file)

    def test_an_unknown_name_lists_the_known_ones(self):
        with pytest.raises(
            CourseError, match=r"engine must be one of sglang, trtllm, vllm or a \.json file"
        ):
            serve.engine("fast")
        with pytest.raises(CourseError, match="unknown engine setting 'max_seqs'"):
            serve.engine("vllm", max_seqs=4)

    def test_blocks_are_what_memory_leaves(self):
        on, how = chip("h100-sxm"), serve.engine("vllm", tensor_parallel_size=2)
        blocks = serve.cache_blocks("llama-3-70b", on, how)
        fm = llm.formats()
        model = serve.fleet.decoder("llama-3-70b")
        held = blocks * 16 * cache_bytes(model, fm, tp=2)
        weights = llm.weight_bytes(model, fm, tp=2)
        one = serve.pool("llama-3-70b", on, "vllm", tp=2)
        reserved = sum(one.reserved.values())
        assert 0 <= one.total - weights - reserved - held < 16 * cache_bytes(model, fm, tp=2)
        with pytest.raises(CourseError, match="leaves no room for a cache on 1 x h100-sxm"):
            serve.cache_blocks("llama-3-70b", on)

    @pytest.mark.parametrize("on", ["h100-sxm", "rtx-4090"])
    def test_blocks_of_which_the_chip_has_no_room_are_refused(self, on):
        with pytest.raises(
            CourseError, match=rf"num_gpu_blocks must be at most \d+, what {on} .*got 1000000000"
        ) as refused:
            serve.cache_blocks("llama-3-8b", on, serve.engine("vllm", num_gpu_blocks=10**9))
        most = int(str(refused.value).split()[6].strip(","))
        how = serve.engine("vllm", num_gpu_blocks=most)
        assert serve.cache_blocks("llama-3-8b", on) < serve.cache_blocks("llama-3-8b", on, how)
        model = serve.fleet.decoder("llama-3-8b")
        held = most * 16 * cache_bytes(model, llm.formats())
        weights = llm.weight_bytes(model, llm.formats())
        total = serve.pool("llama-3-8b", on, "vllm").total
        assert 0.999 < (held + weights) / total <= 1

    def test_a_step_whose_times_no_table_holds_is_refused(self):
        wide = serve.engine("vllm", max_num_batched_tokens=10**9)
        with pytest.raises(CourseError, match=r"1048576 tokens at most: .*got 1000000000"):
            serve.step_times("llama-3-8b", "h100-sxm", wide)


class TestExperts:
    """Experts spread over the chips of a replica."""

    MANY = serve.synthetic_workload(40.0, 60, 400, 60, spread=0.7)

    def served(self, ep=None, **how):
        settings = serve.engine("vllm", **how)
        return serve.service("mixtral-8x7b", "h200-sxm", engine_of=settings, ep=ep, link="nvlink")

    def test_one_chip_is_as_before(self):
        one, same = (
            serve.simulate("mixtral-8x7b", "h200-sxm", self.MANY, ep=ep) for ep in (None, 1)
        )
        assert np.array_equal(one.last, same.last)

    def test_what_is_tabulated_is_the_bound_of_the_step(self):
        for tp, ep in ((1, 4), (2, 2), (2, 8)):
            how = {"w": "bf16", "link": "nvlink"}
            settings = serve.engine("vllm", tensor_parallel_size=tp, skew=1.2)
            one = serve.service(
                "mixtral-8x7b", "h200-sxm", engine_of=settings, ep=ep, calibrated=False, **how
            )
            took = one.steps.seconds(70, 7, 6 * 900 + 64 * 65 / 2, 70, 6 * 900 + 64)
            new, seen = [1] * 6 + [64], [900] * 6 + [64]
            step = mixing.mixed(
                "mixtral-8x7b", "h200-sxm", new, seen, tp=tp, ep=ep, skew=1.2, **how
            )
            assert took == pytest.approx(step.lower, rel=1e-9)

    def test_a_record_of_vllm_says_so_itself_and_groups_work_as_one(self, tmp_path):
        file = tmp_path / "engine.json"
        kwargs = {
            "tensor_parallel_size": 2,
            "data_parallel_size": 4,
            "enable_expert_parallel": True,
        }
        file.write_text(json.dumps({"engine_kwargs": kwargs}))
        read = serve.engine(file)
        assert (read.ep, read.groups) == (8, 4)
        one, two = self.served(**kwargs), self.served(ep=8, tensor_parallel_size=2)
        assert one.engine.max_num_seqs == two.engine.max_num_seqs == 4 * 1024
        assert one.blocks == two.blocks == 4 * serve.cache_blocks("mixtral-8x7b", "h200-sxm", read)
        assert np.array_equal(one.run(self.MANY).last, two.run(self.MANY).last)
        apart = self.served(tensor_parallel_size=2, data_parallel_size=4)
        assert (apart.replicas, apart.engine.max_num_seqs) == (4, 1024)

    def test_more_chips_make_shorter_steps_and_favored_ones_longer(self):
        done = [self.served(ep=ep).run(self.MANY) for ep in (2, 8)]
        assert np.median(done[0].tpot) > np.median(done[1].tpot)
        crowded = self.served(ep=8, skew=3.0).run(self.MANY)
        assert np.mean(crowded.ttft) > np.mean(done[1].ttft)

    def test_a_plan_pays_for_all_its_chips(self):
        slo, how = {"tpot": 0.05}, {"usd_per_hour": 1.0, "link": "nvlink", "tps": (1, 2, 3)}
        found = serve.plan("mixtral-8x7b", "h200-sxm", chat, 4.0, slo, ep=4, **how)
        assert {(one.tp, one.ep, one.chips) for one in found} == {(1, 4, 4), (2, 4, 4)}
        assert {one.usd_per_hour for one in found} == {4.0}

    def test_what_cannot_be_is_refused(self):
        with pytest.raises(CourseError, match=r"ep must be a multiple of tp 2, or 1 .got 3"):
            self.served(ep=3, tensor_parallel_size=2)
        with pytest.raises(CourseError, match="draft must be None with ep 2"):
            serve.service("mixtral-8x7b", "h200-sxm", ep=2, link="nvlink", draft="llama-3-8b")
        few = self.served(ep=4, num_gpu_blocks=20)
        with pytest.raises(CourseError, match="needs 26 blocks of the cache, and a replica has 20"):
            few.run(serve.synthetic_workload(1.0, 2, 400, 2))


class TestFleet:
    def test_bounds_are_never_slower(self):
        likely, least = simulated(), simulated(calibrated=False)
        for name in serve.LATENCIES:
            assert np.median(getattr(likely, name)) > np.median(getattr(least, name))
        assert not least.calibrated
        assert least.source == "lower bounds from datasheets"

    def test_little_holds(self):
        done = simulated(serve.synthetic_workload(20.0, 2000, 400, 60))
        inside = serve.in_system(len(done.arrived) / done.makespan, float(np.mean(done.e2e)))
        at = np.linspace(0, done.makespan, 5000)
        counted = (at[:, None] >= done.arrived).sum(1) - (at[:, None] >= done.last).sum(1)
        assert counted.mean() == pytest.approx(inside, rel=0.02)

    @pytest.mark.parametrize("router", serve.ROUTERS)
    def test_every_router_serves_all_and_two_replicas_wait_less(self, router):
        busy = serve.synthetic_workload(60.0, 300, 800, 60, groups=6, shared=256)
        one, two = (simulated(busy, replicas=many, router=router) for many in (1, 2))
        assert set(two.replica) == {0, 1}
        assert np.sum(two.output) == np.sum(busy.output)
        assert np.mean(two.ttft) < np.mean(one.ttft)

    def test_a_router_that_knows_beginnings_computes_each_once(self):
        busy = serve.synthetic_workload(40.0, 200, 100, 20, groups=24, shared=4000)
        known, blind = (
            simulated(busy, replicas=4, router=router) for router in ("prefix", "round-robin")
        )
        assert np.mean(known.ttft) < 0.8 * np.mean(blind.ttft)

    def test_prompts_apart_leave_decode_steps_alone_and_caches_travel(self):
        busy = serve.synthetic_workload(12.0, 300, 2000, 60)
        mixed = simulated(busy, replicas=2)
        apart = simulated(busy, prefill_replicas=1, transfer=50e9)
        slow = simulated(busy, prefill_replicas=1, transfer=1e9)
        assert np.percentile(apart.tpot, 99) < np.percentile(mixed.tpot, 99)
        assert np.mean(slow.e2e) > np.mean(apart.e2e)
        with pytest.raises(CourseError, match="transfer must be given with prefill_replicas"):
            simulated(busy, prefill_replicas=1)

    def test_a_draft_costs_time(self):
        how = serve.engine("vllm", num_speculative_tokens=4, acceptance=0.7)
        free, paid = (simulated(engine_of=how, draft=draft) for draft in (None, "qwen2.5-0.5b"))
        assert np.median(simulated().tpot) > np.median(paid.tpot) > np.median(free.tpot)

    def test_a_log_is_of_one_replica_and_changes_nothing(self):
        one, log = serve.service("llama-3-8b", "h100-sxm"), []
        done = one.run(FEW, log)
        assert done.last == pytest.approx(one.run(FEW).last)
        assert len(log) == done.steps
        assert log[-1].end == done.last.max()
        two = serve.service("llama-3-8b", "h100-sxm", replicas=2)
        with pytest.raises(CourseError, match="replicas=1"):
            two.run(FEW, log)

    def test_more_than_a_simulation_ends_is_refused_with_the_most(self, tmp_path, monkeypatch):
        with pytest.raises(CourseError, match=r"requests must be at most 1000000 \(got 10000000"):
            serve.synthetic_workload(5.0, 10**7, 512, 128)
        for name in ("replicas", "prefill_replicas"):
            with pytest.raises(CourseError, match=rf"{name} must be at most 10000 \(got 1000000"):
                simulated(**{name: 10**8}, transfer=1e9)
        monkeypatch.setattr(serve.requests, "MOST", 1)
        file = tmp_path / "two.jsonl"
        file.write_text('{"arrival_time": 0, "input_toks": 9, "output_toks": 2}\n' * 2)
        with pytest.raises(CourseError, match=r"two\.jsonl': requests must be at most 1 \(got 2"):
            serve.read_requests(file)

    def test_a_long_run_says_how_far_it_is(self):
        said = []
        serve.service("llama-3-8b", "h100-sxm").run(
            serve.synthetic_workload(9.0, 250, 9, 2), say=said.append
        )
        assert said == [0, 100, 200]

    def test_times_that_hide_a_step_are_refused(self):
        with pytest.raises(CourseError, match=r"must come within 1e\+10 s.*raise the rate"):
            simulated(serve.synthetic_workload(1e-12, 3, 9, 2))

    def test_requests_beyond_the_model_are_refused(self):
        with pytest.raises(
            CourseError, match="request 0 has 9010 tokens, and llama-3-8b takes 8192"
        ):
            simulated(serve.synthetic_workload(1.0, 3, 9000, 10))

        longer = serve.engine("vllm", max_model_len=16384)
        assert simulated(serve.synthetic_workload(1.0, 3, 9000, 10), engine_of=longer).steps > 10

    def test_more_users_and_fewer_looks_for_them_never_bring_first_tokens_sooner(self):
        def waits(users, every):
            how = serve.engine("sglang", scheduler_recv_interval=every)
            return simulated(serve.closed_workload(users, 400, 60, least=0.5), engine_of=how)

        done = [waits(*one) for one in ((4, 1), (4, 30), (32, 30))]
        first = [float(np.mean(one.ttft)) for one in done]
        assert first[0] < first[1] < first[2]
        assert first[1] - first[0] < 30 * np.max(done[1].tpot)

    def test_only_a_mixture_launches_more_for_its_products(self):
        for model, grows in (("llama-3-8b", False), ("mixtral-8x7b", True)):
            few, many = (
                serve.step_times(model, "b200-sxm", serve.engine("sglang", routed=by)).prompt
                for by in (1, 8)
            )
            assert (many > few) == grows

    def test_goodput_counts_who_keeps_the_limits(self):
        done = simulated()
        limit = float(np.median(done.e2e))
        assert done.goodput({"e2e": limit}) == pytest.approx(30 / done.makespan)
        assert done.goodput({"ttft": 1e-6}) == 0
        with pytest.raises(CourseError, match="unknown slo 'speed'"):
            done.meets({"speed": 1})


def chat(rate):
    return serve.synthetic_workload(rate, 60, 400, 40, spread=0.5)


def cheapest(rate=30.0, ttft=0.4, tpot=0.06):
    slo = {"ttft": ttft, "tpot": tpot}
    return serve.plan("llama-3-8b", "l40s", chat, rate, slo, usd_per_hour=1.0, tps=[1])[0]


class TestPlan:
    def test_more_requests_and_tighter_limits_never_need_fewer(self):
        rates = [cheapest(rate=rate).replicas for rate in (1.0, 100.0)]
        waits = [cheapest(ttft=ttft).replicas for ttft in (0.15, 5.0)]
        steps = [cheapest(tpot=tpot).replicas for tpot in (0.03, 0.5)]
        assert rates == sorted(rates)
        assert waits == sorted(waits, reverse=True)
        assert steps == sorted(steps, reverse=True)
        assert rates[0] < rates[-1]
        assert waits[0] > waits[-1]

    def test_a_plan_keeps_its_limits_and_adds_up(self):
        one = cheapest()
        assert one.outcome.percentiles("ttft")["p99"] <= 0.4
        assert one.outcome.percentiles("tpot")["p99"] <= 0.06
        assert one.usd_per_hour == one.chips == one.replicas
        made = one.tokens_per_s * 3600 / 1e6
        assert one.usd_per_mtoken == pytest.approx(one.usd_per_hour / made)

    def test_layouts_without_room_or_link_are_left_out(self):
        slo = {"tpot": 1.0}
        how = {"usd_per_hour": 1.0, "tps": (1, 2, 4)}
        found = serve.plan("llama-3-70b", "h100-sxm", chat, 1.0, slo, link="nvlink", **how)
        assert {one.tp for one in found} == {2, 4}
        assert serve.plan("llama-3-70b", "h100-sxm", chat, 1.0, slo, **how) == []
        assert serve.plan("llama-3-8b", "h100-sxm", chat, 1.0, {"tpot": 1e-5}, **how) == []


class TestQueues:
    @given(st.floats(0.05, 0.95), st.floats(0, 2))
    def test_a_queue_of_one_server_waits_as_pollaczek_says(self, busy, spread):
        expected = busy / (2 * (1 - busy)) * (1 + spread**2)
        assert serve.wait(busy, 1.0, spread) == pytest.approx(expected)

    def test_waits_are_those_of_a_queue_run_through(self):
        dice = np.random.default_rng(5)
        between, took = dice.exponential(1.0, 200_000), dice.exponential(0.7, 200_000)
        free, waited = 0.0, 0.0
        for arrived, service in zip(np.cumsum(between), took, strict=True):
            start = max(arrived, free)
            waited, free = waited + start - arrived, start + service
        assert serve.wait(1.0, 0.7, 1.0) == pytest.approx(waited / took.size, rel=0.05)

    def test_guesses_are_accepted_up_to_the_first_that_is_wrong(self):
        dice = np.random.default_rng(5)
        right = dice.random((100_000, 4)) < 0.8
        counted = np.cumprod(right, axis=1).sum(1) + 1
        assert serve.speculated(0.8, 4) == pytest.approx(counted.mean(), rel=0.01)
        assert serve.speedup(1.0, 4, 0.0) == 5
        with pytest.raises(CourseError, match="acceptance must be at most 1"):
            serve.speculated(1.2, 3)


class TestPublishedLog:
    """vLLM on an RTX 4090: fitted to the first third of the requests, tested on the rest."""

    def test_the_rest_is_within_the_targets(self, record_property):
        found = evidence.errors()
        for name, off in found.items():
            record_property(name, off)
        assert abs(found["makespan"]) < 0.10
        assert abs(found["tpot p50"]) < 0.15
        assert abs(found["tpot p99"]) < 0.15

    def test_bounds_are_never_slower_than_measured(self):
        assert max(evidence.errors(calibrated=False).values()) < 0

    @pytest.mark.parametrize(
        ("names", "many"),
        [
            (("vllm",), evidence.MANY // 2),
            pytest.param(tuple(serve.engines()), evidence.MANY, marks=pytest.mark.exhaustive),
        ],
    )
    def test_percentiles_and_services_lie_in_their_range(self, names, many, monkeypatch):
        monkeypatch.setattr(evidence, "engines", lambda: names)
        monkeypatch.setattr(evidence, "MANY", many)
        for row in error_table(evidence.error_rows()):
            assert row.inside >= 0.75 or row.chip, row.family
            if row.family == "services, vllm, time per token" and not row.chip:
                assert row.median <= 0.10

    @pytest.mark.parametrize(
        ("key", "seqs", "tokens"),
        [("h100-sxm", 1024, 8192), ("a100-sxm-80", 256, 2048), ("rtx-4090", 256, 2048)],
    )
    def test_places_depend_on_the_card(self, key, seqs, tokens):
        found = serve.service("llama-3-8b", key).engine
        assert (found.max_num_seqs, found.max_num_batched_tokens) == (seqs, tokens)

    def test_users_ask_again_when_they_are_answered(self):
        done = serve.simulate("llama-3-8b", "h100-sxm", serve.closed_workload(8, 512, 64))
        for at in done.arrived:
            assert np.sum((done.arrived <= at) & (done.last > at)) <= 8

    def test_without_its_constant_every_step_is_too_slow(self):
        log = evidence.read_log()
        older = serve.engine(evidence.LOG.with_suffix(".json"), bandwidth=1.0)
        done = serve.simulate("llama-3-8b", "rtx-4090", log.requests, engine_of=older)
        assert done.makespan > 1.03 * log.makespan


def test_the_same_simulation_is_kept_and_cannot_be_changed():
    asked = [serve.service("llama-3-8b", "h100-sxm").run(serve.synthetic_workload(4.0, 20, 100, 9))
             for _ in range(2)]  # fmt: skip
    assert asked[0] is asked[1]
    with pytest.raises(ValueError, match="read-only"):
        asked[0].last[0] = 0.0
