"""Each mistake is told from every other, right solutions of any style pass, and a noisy computer
fails nobody.
"""

import textwrap
from pathlib import Path

import pytest

from course_press.grading import benchmark as grading_run
from course_press.grading.benchmark import BENCHMARK, HERE, Outcome
from course_press.grading.lab import Session
from course_press.grading.simulated import JITTER
from course_press.grading.verdict import Verdict, message
from tests.course_press.conftest import edited
from tests.course_press.grading.words import failures

LAB = Path(__file__).parents[3] / "labs" / "00-three-accelerators"
grade = BENCHMARK.grade
CRITERIA = [
    "runs",
    "keys",
    "operands",
    "warm-up",
    "synchronisation",
    "median",
    "flops",
    "unit",
    "this-computer",
]

WARMED = """    for _ in range(warmup):
        a @ b
    times = [once(a, b) for _ in range(iters)]
"""
EVENT_FIRST = """    if once is events_on_the_gpu:
        import torch

        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
    for _ in range(warmup):
        a @ b
    times = []
    for _ in range(iters):
        if once is clock_on_the_host:
            times.append(once(a, b))
            continue
        a @ b
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
        start.record()
"""

# By mistake: what it makes of the reference, the criterion that it fails, and what is said of it.
PLANTED = {
    "half the operations": (
        {"2 * M * N * K": "M * N * K"},
        "flops",
        "a multiply-accumulate is two operations",
    ),
    "the operations of a square": (
        {"2 * M * N * K": "2 * M**3"},
        "flops",
        "a product need not be square",
    ),
    "no warm-up": (
        {"    for _ in range(warmup):\n        a @ b\n": ""},
        "warm-up",
        "multiply once before the loop",
    ),
    "host clock that does not wait": (
        {"events_on_the_gpu if": "clock_on_the_host if"},
        "synchronisation",
        "call torch.cuda.synchronize() before you read the clock a second time",
    ),
    "events not waited for": (
        {"    end.synchronize()": "    pass"},
        "synchronisation",
        "before the GPU came to the events",
    ),
    "event before the warm-up": (
        {WARMED: EVENT_FIRST},
        "warm-up",
        "start the clock, or record the first event, after the warm-up",
    ),
    "milliseconds": (
        {"elapsed_time(end) / 1e3": "elapsed_time(end)"},
        "unit",
        "seconds is in milliseconds: convert (elapsed_time returns milliseconds)",
    ),
    "mean": ({"median": "fmean"}, "median", "seconds is the mean of the times"),
    "zeros": (
        {"rng.standard_normal(": "np.zeros(", "torch.randn": "torch.zeros"},
        "operands",
        "the operands hold zeros",
    ),
    "unit": ({"seconds / 1e12": "seconds / 1e9"}, "unit", "yours is in GFLOP/s, divide by 1e12"),
}

NUMPY = """
import time
import numpy as np

def measure(n, dtype="fp32", device="cpu", repeats=10):
    a = np.random.rand(n, n).astype(np.float32)
    b = np.random.rand(n, n).astype(np.float32)
    np.dot(a, b)
    times = np.empty(repeats)
    for i in range(repeats):
        t0 = time.time()
        np.dot(a, b)
        times[i] = time.time() - t0
    seconds = np.median(times)
    return {"seconds": seconds, "flops": 2 * n**3, "tflops": 2 * n**3 / seconds / 1e12}
"""

EVENTS = """
import statistics
import time
import torch

def measure(n, dtype="fp32", device="cpu", repeats=10):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    a = torch.rand(n, n, device=device, dtype=dtype) - 0.5
    b = torch.rand(n, n, device=device, dtype=dtype) - 0.5
    torch.matmul(a, b)
    times = []
    for _ in range(repeats):
        if device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            torch.matmul(a, b)
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        else:
            begin = time.perf_counter()
            torch.matmul(a, b)
            times.append(time.perf_counter() - begin)
    seconds = statistics.median(times)
    return dict(seconds=seconds, flops=2 * n * n * n, tflops=2 * n * n * n / seconds * 1e-12)
"""

NANOSECONDS = """
from time import perf_counter_ns

def wait(device):
    if device != "cpu":
        import torch
        torch.cuda.synchronize()

def measure(n, dtype="fp32", device="cpu", repeats=10):
    try:
        import torch
        a, b = torch.randn(2, n, n).to(device)
    except ImportError:
        import numpy as np
        a, b = np.random.default_rng(1).normal(size=(2, n, n)).astype("f4")
    for _ in range(2):
        a @ b
    wait(device)
    times = []
    for _ in range(repeats):
        start = perf_counter_ns()
        a @ b
        wait(device)
        times.append(perf_counter_ns() - start)
    times.sort()
    ns = times[len(times) // 2]
    return {"seconds": ns * 1e-9, "flops": 2.0 * n**3, "tflops": round(2 * n**3 / ns / 1e3, 4)}
"""


@pytest.fixture
def numpy_supervisor(supervised):
    return supervised("benchmark")


@pytest.fixture
def graded(tmp_path, numpy_supervisor, lent):
    """Grades a text: what failed, and what was said."""

    def failed(text, **more):
        file = tmp_path / "mine.py"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return failures(grade(file, supervisor=numpy_supervisor, **more))

    return failed


def body(lines):
    """A measure that does everything right on NumPy but for what `lines` make of it."""
    return NUMPY.replace("    seconds = ", f"    {lines}\n    seconds = ")


def test_stub_is_told_kindly_that_it_is_not_implemented_yet():
    (verdict,) = grade(LAB / "matmul_bench.py")
    assert verdict.criterion == "runs"
    assert not verdict.passed
    assert "not implemented yet, and everybody starts there: do TODO 1 to 5" in verdict.text
    assert "error" not in verdict.text.replace("NotImplementedError", "")


def test_stub_and_chapter_agree_on_five_things_to_do():
    stub = (LAB / "matmul_bench.py").read_text(encoding="utf-8")
    assert [f"TODO {i}:" in stub for i in range(1, 7)] == [True] * 5 + [False]


# Every other mistake is left to make exhaustive: each is graded in a process of its own.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] if at % 2 else [])
        for at, name in enumerate(PLANTED)
    ],
)
def test_planted_mistake_fails_its_own_criterion_and_no_other(name, tmp_path, numpy_supervisor):
    edits, criterion, said = PLANTED[name]
    file = tmp_path / "planted.py"
    file.write_text(edited(LAB / "reference.py", edits), encoding="utf-8")
    verdicts = grade(file, supervisor=numpy_supervisor)
    failed = failures(verdicts)
    assert set(failed) == {criterion}
    assert said in failed[criterion]
    # A product that is no square is asked for where all else is right, after this computer.
    asked = CRITERIA if name == "the operations of a square" else CRITERIA[:-1]
    assert sorted(verdict.criterion for verdict in verdicts) == sorted(asked)


@pytest.mark.parametrize(
    "text",
    [NUMPY, EVENTS, pytest.param(NANOSECONDS, marks=pytest.mark.exhaustive)],
    ids=["numpy", "events", "nanoseconds"],
)
def test_natural_solutions_pass(graded, text):
    assert graded(text) == {}


def test_events_read_too_early_are_a_missing_synchronisation(graded):
    (said,) = graded(EVENTS.replace("            torch.cuda.synchronize()\n", "")).values()
    assert "before the GPU came to the events (line 18" in said
    assert "call torch.cuda.synchronize()" in said


def test_a_host_clock_that_waits_is_as_right_as_events(tmp_path, numpy_supervisor, lent):
    file = tmp_path / "mine.py"
    waited = "    torch.cuda.synchronize()\n"
    text = edited(
        LAB / "reference.py",
        {
            "    start = torch.cuda.Event(enable_timing=True)\n": waited,
            "    end = torch.cuda.Event(enable_timing=True)\n": "",
            "    start.record()\n": "    start = time.perf_counter()\n",
            "    end.record()\n": "",
            "    end.synchronize()": "    torch.cuda.synchronize()",
            "start.elapsed_time(end) / 1e3": "time.perf_counter() - start",
        },
    )
    file.write_text(text, encoding="utf-8")
    assert "Event" not in text
    assert failures(grade(file, supervisor=numpy_supervisor)) == {}


def test_an_event_that_is_recorded_once_makes_intervals_that_grow(graded):
    once = EVENTS.replace("            start.record()\n", "").replace(
        "    times = []\n",
        "    times = []\n"
        '    if device == "cuda":\n'
        "        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
        "        start.record()\n",
    )
    once = once.replace(
        "            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n", "", 1
    )
    assert set(failed := graded(once)) == {"median"}
    assert "record the first event anew before each product" in failed["median"]


def test_hanging_file_is_ended_and_its_line_named(graded):
    failed = graded(
        "def measure(n, dtype, device, repeats):\n    while True:\n        n += 1\n", limit=3
    )
    assert set(failed) == {"runs"}
    assert failed["runs"].startswith(
        ("it did not end within 3 s, in line 2:", "it did not end within 3 s, in line 3:")
    )


def test_crash_names_the_learners_line(graded):
    failed = graded(
        "import math\ndef measure(n, dtype, device, repeats):\n    return math.sqrt(-n)\n"
    )
    assert failed == {
        "runs": "it stopped with an error in line 3: 'return math.sqrt(-n)': ValueError: math "
        "domain error"
    }


def test_crash_on_the_gpu_alone_says_so(graded):
    failed = graded(EVENTS.replace("enable_timing=True", ""))
    assert failed["runs"].startswith("it stopped with an error in line 19")
    assert failed["runs"].endswith('(with device="cuda")')


def test_syntax_error_names_the_line(graded):
    failed = graded("def measure(n):\n    return (n\n")
    assert set(failed) == {"runs"}
    assert failed["runs"].startswith("syntax error in line 2: 'return (n'")


def test_process_that_ends_itself_is_no_success(graded):
    failed = graded("import os\ndef measure(n, dtype, device, repeats):\n    os._exit(0)\n")
    assert set(failed) == {"runs"}
    assert (
        "the process ended with exit status 0 before it was done: take out os._exit"
        in failed["runs"]
    )


@pytest.mark.parametrize(
    ("text", "criterion", "said"),
    [
        ("x = 1", "runs", "defines no function measure"),
        (
            EVENTS.replace("torch.rand(n", "torch.poisson(n"),
            "runs",
            "torch.poisson is not known to the grader",
        ),
        (
            "def measure(n, dtype, device, repeats): pass",
            "keys",
            "measure returned nothing: is a return missing?",
        ),
        (NUMPY.replace('"tflops"', '"TFLOPS"'), "keys", "'tflops' missing"),
        (
            NUMPY.replace("np.dot(a, b)", "np.add(a, b)"),
            "runs",
            "no multiplication of matrices reached torch or NumPy",
        ),
        (
            EVENTS.replace("device=device, ", ""),
            "synchronisation",
            "create the operands with device=device",
        ),
        (EVENTS.replace(" / 1e3", ""), "unit", "seconds is in milliseconds"),
        (body("times = times[4:5]"), "median", "a single run says nothing about the next one"),
        (
            NUMPY.replace("np.median(times)", "0.5"),
            "median",
            "not the median of what the clock showed",
        ),
    ],
)
def test_other_mistakes_are_named(graded, text, criterion, said):
    assert said in graded(text)[criterion]


def test_several_mistakes_are_told_apart(graded):
    text = NUMPY.replace("np.random.rand(n, n)", "np.ones((n, n))").replace("np.median", "np.min")
    failed = graded(
        text.replace("2 * n**3", "2 * n**2").replace("    np.dot(a, b)\n    times", "    times")
    )
    assert set(failed) == {"operands", "median", "flops"}
    assert "the operands hold ones" in failed["operands"]
    assert "seconds is the minimum of the times" in failed["median"]
    assert "each of the n^2 results needs n multiply-accumulates" in failed["flops"]


def test_torch_is_not_needed_on_this_computer(tmp_path, monkeypatch):
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "torch.py").write_text(
        "raise ModuleNotFoundError('No module named torch', name='torch')"
    )
    monkeypatch.syspath_prepend(tmp_path / "without")
    file = tmp_path / "mine.py"
    file.write_text(EVENTS)
    verdicts = grade(file)
    assert failures(verdicts) == {}
    assert verdicts[-1].text.startswith("not run here, a package is missing (line 4")


def test_numbers_that_hold_on_the_simulated_machine_alone_fail_on_this_computer(graded):
    failed = graded(body('times *= 1 if type(np).__name__ == "_NumPy" else 1000'))
    assert set(failed) == {"this-computer"}
    assert "more than a factor of 3 apart" in failed["this-computer"]


def test_a_busy_moment_is_tried_again_and_widens_what_is_allowed(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(NUMPY)
    theirs, ours = iter([50.0, 9.0]), iter([[1.0, 1.2], [1.1, 1.3], [1.0, 4.0]])
    monkeypatch.setattr(grading_run, "_own_seconds", lambda own: next(ours))
    monkeypatch.setattr(
        grading_run,
        "_outcome",
        lambda learner, device, size, **_: Outcome(device=device, seconds=next(theirs)),
    )
    outcome = grading_run._observed(Session(tmp_path / "mine.py", 30.0, []), HERE)
    assert outcome.seconds == 9.0
    assert outcome.ours == [1.0, 1.2, 1.1, 1.3, 1.0, 4.0]
    assert outcome.close


def test_a_stall_excuses_no_factor_of_a_thousand():
    stalled = Outcome(device="cpu", seconds=1000.0, ours=[1.0, 1.2, 1.1, 900.0])
    assert not stalled.close


def test_simulated_times_tell_every_statistic_apart():
    # Whatever eleven in a row a learner keeps.
    for start in range(len(JITTER)):
        kept = [JITTER[(start + i) % len(JITTER)] for i in range(grading_run.REPEATS)]
        median, mean = sorted(kept)[len(kept) // 2], sum(kept) / len(kept)
        assert len({median, mean, min(kept), max(kept), kept[0], sum(kept)} - {kept[0]}) >= 4
        assert mean > 1.2 * median > 1.1 * min(kept)


def test_verdict_is_a_record():
    with pytest.raises(AttributeError):
        Verdict("runs", True, message("benchmark-keys-right")).passed = False
