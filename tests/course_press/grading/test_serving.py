"""The grader of lab 03: right solutions pass, and each planted mistake fails its own criterion."""

import re
from pathlib import Path

import numpy as np
import pytest

from course_tools import serve
from course_book.text import in_language
from course_press.grading import serving
from course_press.grading.learner import Supervisor
from tests.course_press.conftest import edited
from tests.course_press.grading.words import failures, written

LAB = Path(__file__).parents[3] / "labs" / "03-serving"
grade = serving.SERVING.grade
REFERENCE = LAB / "reference.py"
SEEN = "        seen = sum(requests[i].prompt + made[i] for i in running + new)\n"
TOKENS = "        tokens = len(running) + sum(requests[i].prompt for i in new)\n"
TPOT = "(time.last - time.first) / (one.output - 1)"
P99 = "float(np.percentile(ttft, 99))"
COLUMNS = "np.stack([np.ones_like(tokens), tokens, seen], axis=1)"
ADMIT = "        if running + joined >= max_num_seqs or prompt > left:\n            break\n"
LATER = "        for i in running:\n            made[i] += 1\n"

MISTAKES = {
    "fit without the fixed part": (
        {COLUMNS: "np.stack([0 * tokens, tokens, seen], axis=1)"},
        "fit",
        "the column of ones is missing",
    ),
    "fit without the caches": (
        {COLUMNS: "np.stack([np.ones_like(tokens), tokens, 0 * seen], axis=1)"},
        "fit",
        "the tokens read from caches are missing",
    ),
    "fit without the new tokens": (
        {COLUMNS: "np.stack([np.ones_like(tokens), 0 * tokens, seen], axis=1)"},
        "fit",
        "the new tokens are missing",
    ),
    "fit in another order": (
        {"in np.maximum(found, 0.0)": "in np.maximum(found, 0.0)[::-1]"},
        "fit",
        "another order",
    ),
    "fit in milliseconds": (
        {"float(one) for one": "1e3 * float(one) for one"},
        "fit",
        "keep to seconds",
    ),
    "fit weighted on one side": (
        {"np.ones_like(seconds), rcond": "seconds, rcond"},
        "fit",
        "divide both",
    ),
    "a step without its fixed part": (
        {"return step + token": "return token"},
        "step",
        "what every step costs is missing",
    ),
    "a step that reads nothing": (
        {" + read * seen": ""},
        "step",
        "the reading of the caches is missing",
    ),
    "a whole step for each token": (
        {"step + token * tokens": "(step + token) * tokens"},
        "step",
        "share the first constant",
    ),
    "a step of one token": ({"token * tokens": "token"}, "step", "only one new token"),
    "the longer part": (
        {"token * tokens + read * seen": "max(token * tokens, read * seen)"},
        "step",
        "so add them",
    ),
    "no places": ({"running + joined >= max_num_seqs or ": ""}, "admission", "max_num_seqs is not"),
    "all places free": (
        {"running + joined >=": "joined >="},
        "admission",
        "those that run have places too",
    ),
    "no budget": ({" or prompt > left:": ":"}, "admission", "max_num_batched_tokens is not"),
    "decode for free": (
        {"left = max_num_batched_tokens - running": "left = max_num_batched_tokens"},
        "admission",
        "take their tokens of the budget first",
    ),
    "a short prompt overtakes": ({ADMIT: ADMIT.replace("break", "continue")}, "admission", "overt"),
    "beyond the budget": ({"prompt > left": "left <= 0"}, "admission", "goes beyond the budget"),
    "not to the last token": ({"prompt > left": "prompt >= left"}, "admission", "with <="),
    "static batching": (
        {"    joined = 0\n": "    joined = 0\n    if running:\n        return 0\n"},
        "admission",
        "static batching",
    ),
    "everyone": ({"    return joined\n": "    return len(prompts)\n"}, "admission", "two limits"),
    "prompts for free": (
        {TOKENS: "        tokens = len(running)\n"},
        "loop",
        "ride with those that decode for free",
    ),
    "a prompt is one token": (
        {TOKENS: "        tokens = len(running) + len(new)\n"},
        "loop",
        "counts as one new token",
    ),
    "the cache does not grow": (
        {SEEN: SEEN.replace(" + made[i]", "")},
        "loop",
        "each grows by one token a step",
    ),
    "the cache has its last length": (
        {SEEN: SEEN.replace("made[i]", "requests[i].output")},
        "loop",
        "last length from the beginning",
    ),
    "prompts are not read": (
        {SEEN: SEEN.replace("running + new", "running")},
        "loop",
        "of a prompt that joins are missing",
    ),
    "caches are not read": (
        {SEEN: SEEN.replace("running + new", "new")},
        "loop",
        "those that decode are not read",
    ),
    "arrivals are ignored": (
        {"requests[come:] if one.arrived <= now": "requests[come:]"},
        "loop",
        "nobody joins before arriving",
    ),
    "no batching": (
        {"joined = admit(waiting, len(running)": "joined = admit(waiting[:1], 99 * len(running)"},
        "loop",
        "one request runs after another",
    ),
    "nobody joins": (
        {
            "[one.prompt for one in requests[come:]": "[one.prompt for one in requests[come:] * (not running)"
        },
        "loop",
        "ask admit before every step",
    ),
    "the first token is late": (
        {
            LATER: "        for i in running:\n            made[i] += 1\n            if i in new:\n                made[i] = 0\n"
        },
        "loop",
        "a step too late",
    ),
    "one token more": (
        {
            "made[i] == requests[i].output": "made[i] == requests[i].output + 1",
            "made[i] < requests[i].output": "made[i] < requests[i].output + 1",
        },
        "loop",
        "a token too many",
    ),
    "TTFT from scheduling": (
        {"time.first - one.arrived": "time.first - time.scheduled"},
        "ttft",
        "a user waits",
    ),
    "TTFT without the prompt": (
        {"time.first - one.arrived": "time.scheduled - one.arrived"},
        "ttft",
        "computes the prompt counts too",
    ),
    "TTFT on the clock": (
        {"time.first - one.arrived": "time.first"},
        "ttft",
        "take the arrival off",
    ),
    "a mean for a percentile": (
        {"float(np.percentile(ttft, 50))": "float(np.mean(ttft))"},
        "ttft",
        "a mean hides the slow requests",
    ),
    "the slowest": ({P99: "max(ttft)"}, "ttft", "it is the slowest request"),
    "another rank": (
        {P99: "sorted(ttft)[int(len(ttft) * 0.99)]"},
        "ttft",
        "slowest request|another rule",
    ),
    "a scaled mean": ({P99: "0.99 * float(np.mean(ttft))"}, "ttft", "found by sorting"),
    "milliseconds": ({P99: f"1e3 * {P99}"}, "ttft", "it is in milliseconds"),
    "TPOT with the first token": (
        {TPOT: "(time.last - time.first) / one.output"},
        "tpot",
        "divide by output - 1",
    ),
    "TPOT from the arrival": (
        {TPOT: "(time.last - one.arrived) / one.output"},
        "tpot",
        "it begins at the arrival",
    ),
    "TPOT of one token": (
        {TPOT: "(time.last - time.first) / max(one.output - 1, 1)", " if one.output > 1]": "]"},
        "tpot",
        "count as zero",
    ),
    "TPOT of all tokens": ({TPOT: "time.last - time.first"}, "tpot", "together: divide"),
    "prompts as output": (
        {"sum(one.output for": "sum(one.prompt + one.output for"},
        "throughput",
        "prompts are counted too",
    ),
    "requests a second": (
        {"sum(one.output for one in requests)": "len(requests)"},
        "throughput",
        "it is requests a second",
    ),
    "from zero": (
        {" - min(one.arrived for one in requests)": ""},
        "throughput",
        "begin at the first arrival",
    ),
}


@pytest.fixture(scope="module")
def supervisor():
    with Supervisor(["numpy"]) as one:
        yield one


@pytest.mark.parametrize("name", MISTAKES)
def test_each_planted_mistake_fails_for_its_own_reason(name, tmp_path, supervisor):
    edits, criterion, why = MISTAKES[name]
    file = written(tmp_path, edited(REFERENCE, edits))
    verdicts = grade(file, supervisor=supervisor)
    assert list(failures(verdicts)) == [criterion]
    assert re.search(why, failures(verdicts)[criterion]), failures(verdicts)[criterion]
    told = [one for one in verdicts if not one.passed]
    for lang in ("es", "ko"):
        with in_language(lang):
            assert told[0].text


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"    return joined\n": "    return None\n"}, "returned None"),
        ({"    return joined\n": "    return [1, 2]\n"}, "of the size 2 x 1, and 1 x 1"),
        ({'"tpot_p99"': '"p99_tpot"'}, "must return a dict with ttft_p50"),
        ({"return step + token": "return float('nan') + token"}, "not finite"),
        ({"import numpy as np": "import numpy as np\nimport course_lib"}, "course_lib"),
        ({"    return joined\n": "    return joined.nowhere\n"}, "AttributeError"),
        ({"def fit(": "def fitted("}, "fit"),
    ],
)
def test_what_cannot_be_judged_is_told(edits, why, tmp_path, supervisor):
    found = failures(grade(written(tmp_path, edited(REFERENCE, edits)), supervisor=supervisor))
    assert list(found) == ["runs"]
    assert re.search(why, found["runs"]), found["runs"]


def test_a_file_that_never_ends_is_ended(tmp_path, supervisor):
    file = written(
        tmp_path,
        edited(REFERENCE, {"    left = max": "    while True:\n        pass\n    left = max"}),
    )
    assert "runs" in failures(grade(file, supervisor=supervisor, limit=2.0))


def test_the_loop_that_is_asked_for_is_the_librarys():
    """One engine, twice: as the grader has it, and as `course_tools.serve` simulates it."""
    for seed in range(20):
        asked, constants, most, budget = serving.drawn_requests(np.random.default_rng(seed))
        columns = np.array([one.arrived for one in asked]), np.array([one[1:] for one in asked])
        none = np.full(len(asked), -1)
        requests = serve.Requests(columns[0], *columns[1].T, none, 0 * none)
        how = serve.engine(
            "vllm",
            max_num_seqs=most,
            max_num_batched_tokens=budget,
            enable_chunked_prefill=False,
            enable_prefix_caching=False,
            async_scheduling=False,
        )
        done = serve.on_one_replica(requests, serve.linear_step_times(*constants, budget), how)
        found = np.array(serving.serve(asked, constants, most, budget))
        assert np.allclose(found, np.stack([done.scheduled, done.first, done.last], axis=1))


def test_slips_are_told_apart_whatever_is_drawn():
    """No two slips give the same, and none gives what is right."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        asked, constants, most, budget = serving.drawn_requests(rng)
        times = {
            slip: serving.serve(asked, constants, most, budget, slip)
            for slip in ("", *serving.LOOP_SLIPS)
        }
        names = list(times)
        for i, one in enumerate(names):
            for other in names[:i]:
                assert not np.allclose(times[one], times[other], rtol=1e-6, atol=0), (one, other)
        pairs = serving.drawn_times(rng)
        right = serving.summary(pairs)
        for key in serving.KEYS:
            for slip, value in serving.summary_slips(key, pairs):
                assert abs(value / right[key] - 1) > 1e-5, (key, slip)
