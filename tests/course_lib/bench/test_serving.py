"""The small engine: what it computes is what transformers computes, whoever shares a step; requests
get their tokens in order, and rows outlive a run that was ended.
"""

import itertools

import numpy as np
import pytest

from course_lib import CourseError
from course_lib.bench import results
from course_lib.bench.rows import Manifest
from course_tools import serve
from course_tools.measured import serving
from course_book import reports

pytest.importorskip("torch")
pytest.importorskip("transformers")
from course_tools.campaigns.serving import EngineStep, SmallEngine, admitted, plan, replay, sweep

SIZES = {"max_num_seqs": 3, "max_num_batched_tokens": 24, "max_model_len": 64}
REQUESTS = [(0.0, 8, 3), (0.0, 10, 1), (0.0, 12, 5), (0.4, 6, 2), (0.41, 7, 4)]


@pytest.fixture(scope="module")
def engine():
    return SmallEngine(**SIZES)


def alone(engine, prompt, tokens):
    """The tokens that follow a prompt, as transformers finds them, all of it computed anew."""
    import torch

    model = engine._model
    model.config._attn_implementation = "eager"
    try:
        ids = list(prompt)
        with torch.inference_mode():
            for _ in range(tokens):
                ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
        return ids[len(prompt) :]
    finally:
        model.config._attn_implementation = "course-by-sequence"


def test_sequences_that_share_steps_get_the_tokens_that_each_would_get_alone(engine):
    prompts = {0: [5, 900, 17, 3], 2: [44, 1, 2, 3, 4, 5, 6]}
    made = {place: [token] for place, token in engine.step({0: prompts[0]}).items()}
    for turn in range(4):
        chunks = {place: made[place][-1:] for place in made}
        if turn == 1:  # a prompt beside one that decodes
            chunks[2] = prompts[2]
        for place, token in engine.step(chunks).items():
            made.setdefault(place, []).append(token)
    for place in (0, 2):
        engine.free(place)
        assert made[place] == alone(engine, prompts[place], len(made[place]))


def test_a_step_that_is_too_large_is_refused(engine):
    with pytest.raises(CourseError, match="chunks must have 1 to 24 tokens"):
        engine.step({0: [1] * 25})
    engine.lengths[1] = 63
    try:
        with pytest.raises(CourseError, match="makes a sequence of 65 tokens"):
            engine.step({1: [1, 2]})
    finally:
        engine.free(1)


def test_a_sweep_measures_each_step_once_and_keeps_what_it_has(engine, tmp_path):
    file, said = tmp_path / "results.csv", []
    ticks = itertools.count()
    left = sweep(engine, file, budget=2.5, say=said.append, clock=lambda: float(next(ticks)))
    kept = results.read(file)
    assert left == len(plan(engine)) - len(kept)
    assert 1 <= len(kept) < len(plan(engine))
    assert "are left for another run" in said[-1]
    sweep(engine, file, budget=1.0, say=lambda _: None)
    assert results.read(file)[: len(kept)] == kept
    assert engine.lengths == [0, 0, 0]


def test_what_a_step_reads_is_counted():
    assert EngineStep(4, 256, 64)[:] == (4, 256, 64)
    mixed = EngineStep(4, 256, 64)
    assert (mixed.tokens, mixed.seen, mixed.kind) == (68, 1088, "mixed")


class Time:
    """A clock that only moves when it is read, or slept by."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1e-3
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_requests_are_served_in_order_and_kept(engine, tmp_path):
    file, time, said = tmp_path / "results.csv", Time(), []
    how = {"clock": time, "sleep": time.sleep, "say": said.append}
    replay(engine, file, REQUESTS, **how)
    (run,) = serving.replays(results.read(file))
    times = np.array([run.arrived, run.scheduled, run.first, run.last])
    assert (np.diff(times, axis=0) >= 0).all()
    assert (np.diff(times[1]) >= 0).all()  # first come, first served
    assert times[2, 1] == times[3, 1]  # one token: the first is the last
    # 8 + 10 tokens fill the first step: the third prompt waits for the next one.
    assert times[1, 0] == times[1, 1] < times[1, 2]
    assert engine.lengths == [0, 0, 0]

    replay(engine, file, REQUESTS, **how)
    assert said[-1] == "5 requests were served already"
    assert len(results.read(file)) == 5
    replay(engine, file, REQUESTS, rule="other", **how)
    assert [one.rule for one in serving.replays(results.read(file))] == ["own", "other"]


def test_a_run_that_was_ended_counts_for_nothing(engine, tmp_path):
    file, time = tmp_path / "results.csv", Time()
    how = {"clock": time, "sleep": time.sleep, "say": lambda _: None}
    replay(engine, file, REQUESTS, **how)
    text = file.read_text().splitlines(keepends=True)
    file.write_text("".join(text[:-1]) + text[-1][:20])
    assert serving.replays(results.read(file)) == []
    replay(engine, file, REQUESTS, **how)
    assert len(serving.replays(results.read(file))) == 1


@pytest.mark.parametrize(
    ("admit", "said"),
    [
        (lambda p, *_: len(p) + 1, "admit must return how many of 3 join, and 3 places are free"),
        (lambda *_: 0, "admit let nobody in though nothing runs, and 3 wait"),
        (lambda *_: None, "admit must return"),
        (lambda p, *_: len(p), "chunks must have 1 to 24 tokens.*admit fewer"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused(admit, said, tmp_path):
    small = SmallEngine(**SIZES)
    with pytest.raises(CourseError, match=said):
        replay(small, tmp_path / "results.csv", REQUESTS, admit=admit, clock=Time(), sleep=None)
    assert not (tmp_path / "results.csv").exists()


def test_a_request_that_does_not_fit_is_refused(engine, tmp_path):
    with pytest.raises(CourseError, match=r"request 0 has 30 \+ 2 tokens"):
        replay(engine, tmp_path / "results.csv", [(0.0, 30, 2)])


def test_the_own_rule_is_the_graders():
    from course_press.grading import serving as asked

    rng = np.random.default_rng(0)
    for _ in range(300):
        prompts = rng.integers(1, 120, rng.integers(0, 9)).tolist()
        limits = int(rng.integers(0, 9)), 8, int(rng.integers(20, 300))
        assert admitted(prompts, *limits) == asked.admit(prompts, *limits)


def rows_of(constants, device="cpu"):
    """Steps that take exactly what three constants give, and requests that the simulator served."""
    about = {"device": device, "kind": "cpu", "dtype": "fp32", "timing": "warm", "data": "random"}
    found = []
    for n in (1, 4, 8):
        for context in (64, 512):
            step = {"op": "step", "shape": f"{n}x{n * context}", "settings": "decode"}
            took = float(constants.seconds(n, n * context))
            found.append(results.Row(**about, **step, status="ok", seconds_median=took))
    return found


def test_a_report_sets_a_run_beside_both_predictions(engine, tmp_path):
    constants = serving.StepFit(2e-3, 1e-4, 1e-6)
    file, time = tmp_path / "results.csv", Time()
    replay(engine, file, REQUESTS, clock=time, sleep=time.sleep, say=lambda _: None)
    rows = [*rows_of(constants, results.read(file)[0].device), *results.read(file)]
    own = dict.fromkeys(reports.serving.FELT, 1.0)
    text = reports.serving.report(rows, Manifest(lab="03", command="course lab run 03"), own)
    for word in ("2 ms", "your prediction", "simulator", "time to first token, p99", "5 requests"):
        assert word in text
    assert reports.serving.plot(rows).svg().startswith("<")
    (run,) = serving.replays(rows)
    done = reports.serving.simulated(run, serving.fit(rows))
    assert done.first[0] == pytest.approx(float(constants.seconds(18, 18)))
    assert isinstance(done, serve.Served)


def test_negative_constants_are_no_answer():
    rows = rows_of(serving.StepFit(2e-3, 1e-4, 0.0))
    shorter = [row for row in rows if row.shape.endswith("x64")]
    assert serving.fit(rows).seen == pytest.approx(0, abs=1e-12)
    with pytest.raises(CourseError, match="four steps or more"):
        serving.fit(shorter)
