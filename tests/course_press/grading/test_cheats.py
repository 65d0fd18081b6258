"""Files that once ended their judge, kept it busy for ever, or passed without doing what was asked:
each has a verdict of its own now, and none passes.
"""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from course_press import grading
from course_press.grading import benchmark, learner
from course_press.grading.benchmark import Outcome
from course_press.grading.isolation import IsolatedCell, isolated
from course_press.grading.learner import Learner, Supervisor
from course_press.grading.ring import RING
from course_press.grading.sharding import SHARDING, TASKS
from course_press.grading.simulated import MANY, MOST, Asked, Sample, SimulatedMachine
from tests.course_press.conftest import edited, need
from tests.course_press.grading.hostile import FOLDERS
from tests.course_press.grading.test_benchmark import EVENTS, NUMPY
from tests.course_press.grading.test_diagnosis import REFERENCE as DIAGNOSIS
from tests.course_press.grading.words import failures

RANDOM = "np.random.rand(n, n).astype(np.float32)"
SPARSE = f"(lambda full: np.where(np.arange(n * n).reshape(n, n) % 61, 0, full))({RANDOM})"
ADD = edited(
    FOLDERS["04"] / "reference.py",
    {
        "x_step, mask=inside) + tl.load(y + at * y_step, mask=inside)": "x_step, mask=inside)"
        "\n    total += 0 * tl.load(y + at * y_step, mask=inside)"
    },
)
LAUNCH = "    add_kernel[(triton.cdiv(n, block),)](x, y, out, n,"
SHARDED = (FOLDERS["05"] / "reference.py").read_text(encoding="utf-8")
WRAPPED = """

class Wrapper:
    def __init__(self, of):
        self.of = of
    def lower(self, *given):
        return Wrapper(self.of.lower(*given))
    def compile(self):
        return Wrapper(self.of.compile())
    def as_text(self):
        return "HloModule jit_f, num_partitions=8\\n"
    def __call__(self, *given):
        return self.of(*given)
    input_shardings = [[5], {}]

tensor_parallel = lambda made=tensor_parallel(): Wrapper(made)
"""
INSTANCE = """

import functools
def tensor_parallel(task=tensor_parallel):
    made = task()
    lower = made.lower
    def lowered(*given):
        low = lower(*given)
        compiled = low.compile()
        compiled.as_text = lambda: "HloModule jit_f, num_partitions=1\\n"
        low.compile = lambda: compiled
        return low
    made.lower = lowered
    return made
"""

# By what it does: the lab, the file, the criterion that it fails, and what is said.
FILES = {
    "a number without end": ("02", f"DIAGNOSIS = 0x{'f' * 20_000}", "keys", "got int"),
    "half a letter": ("02", DIAGNOSIS.replace('"aten::mul"', '"\\ud800"'), "D", "\\ud800"),
    "a kind of error that is the grader's": (
        "01",
        'class E(Exception):\n    kind = "other-size"\n\ndef ring_all_reduce(tensor):\n    raise E',
        "runs",
        "… B of … came from rank …",
    ),
    "an array that lies about its shape": (
        "04",
        ADD.replace("    return out\n", "    return out[:3].as_subclass(T)\n", 1)
        + "\nclass T(torch.Tensor):\n    shape = property(lambda s: torch.Size([256]))\n",
        "runs",
        "returned float32[256], and the lab asks for float32[256]",
    ),
    "years between two events": (
        "00",
        EVENTS.replace("            start.record()", "            time.sleep(1.2e308)\n            "
                       "start.record(); time.sleep(1.2e308)"),
        "",
        "",
    ),
    "numbers beyond any rate": (
        "00",
        NUMPY.replace('"tflops": 2 * n**3 / seconds / 1e12', '"tflops": 1e308').replace(
            '"seconds": seconds', '"seconds": 5e-324'
        ),
        "unit",
        "flops / seconds / 1e12 is no finite number",
    ),
    "more products than are kept": (
        "00",
        NUMPY.replace("    times = np.empty", "    for _ in range(800):\n        t0 = time.time()\n"
                      "        np.dot(a[:9, :9], b[:9, :9])\n        time.time()\n"
                      "    times = np.empty"),
        "",
        "",
    ),
    "zeros where nobody looked": ("00", NUMPY.replace(RANDOM, SPARSE), "operands", "mostly one"),
    "one product for all": (
        "00",
        NUMPY.replace("    times = np.empty", "    if type(np).__name__ != '_NumPy':\n"
                      "        t0 = time.time()\n        np.dot(a, b)\n        s = time.time() - t0\n"
                      "        return {'seconds': s, 'flops': 2 * n**3, 'tflops': 2 * n**3 / s / 1e12}\n"
                      "    times = np.empty"),
        "this-computer",
        "do not fit",
    ),
    "NumPy's sum after the launch": (
        "04",
        ADD.replace("    return out\n", "    out.numpy()[:] = x.numpy() + y.numpy()\n    return out\n", 1),
        "own",
        "something other than a kernel has written to",
    ),
    "NumPy's sum before the launch": (
        "04",
        ADD.replace(
            LAUNCH,
            "    z = torch.empty(n)\n    z.numpy()[:] = x.numpy() + y.numpy()\n"
            + LAUNCH.replace("(x, y,", "(z, y,"),
        ),
        "own",
        "something other than a kernel has written to",
    ),
    "an object like a program": ("05", SHARDED + WRAPPED, "runs", "returns a Wrapper"),
}  # fmt: skip


SLOW = ("NumPy's sum before the launch", "more products than are kept", "years between two events")


@pytest.mark.parametrize(
    "what",
    [pytest.param(one, marks=[pytest.mark.exhaustive] if one in SLOW else []) for one in FILES],
)
def test_a_file_that_ended_its_judge_or_passed_has_the_verdict_it_deserves(
    what, tmp_path, supervised
):
    lab, text, criterion, said = FILES[what]
    need({"01": "torch", "04": "triton", "05": "jax"}.get(lab, "numpy"))
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    began = time.monotonic()
    name = grading.grading(FOLDERS[lab]).grader

    def judged():
        if name not in ("ring", "kernels", "sharding"):
            return failures(grading.grade(FOLDERS[lab], tmp_path / "mine.py"))
        with np.errstate(all="ignore"):  # those import for seconds
            supervisor, first = supervised(name), TASKS[:1] if lab == "05" else None
            return failures(
                grading.GRADERS[name].grade(tmp_path / "mine.py", first, supervisor=supervisor)
            )

    found = judged()
    # Lab 00 is judged by a clock, which a busy machine holds up: seldom three times in a row.
    for _ in range(2):
        if lab == "00" and criterion not in ("", *found):
            found = judged()
    assert time.monotonic() - began < 200
    assert said in found[criterion] if criterion else not found


def test_what_a_file_makes_of_a_compiled_program_is_not_what_is_read(tmp_path, jax_supervisor):
    (tmp_path / "mine.py").write_text(SHARDED + INSTANCE, encoding="utf-8")
    verdicts = SHARDING.grade(tmp_path / "mine.py", TASKS[:1], supervisor=jax_supervisor)
    assert "devices" not in failures(verdicts)


def test_a_diagnosis_with_a_byte_order_mark_is_read(tmp_path):
    (tmp_path / "mine.py").write_text(DIAGNOSIS, encoding="utf-8-sig")
    assert failures(grading.grade(FOLDERS["02"], tmp_path / "mine.py")) == {}


def test_samples_are_bounded_and_read_in_time():
    samples = [Sample(1e-3 * (1 + at / 7), 1e-3, 1, at == 0) for at in range(MOST)]
    outcome = Outcome(
        device="cuda", seconds=3.3, machine=SimpleNamespace(samples=samples, event_samples=samples)
    )
    began = time.process_time()
    assert benchmark._reading(outcome) is None
    assert time.process_time() - began < 5
    machine = SimulatedMachine()
    multiply = Asked("multiply", device="cpu", shapes=((1, 1), (1, 1)))
    for _ in range(2 * MOST):
        machine.answer(multiply, np.ones(2).tobytes())
        machine.answer(Asked("read"), b"")
    assert len(machine.samples) == MOST
    machine.calls *= MANY
    with pytest.raises(EOFError):
        machine.answer(multiply, np.ones(2).tobytes())


def test_no_statistic_changes_by_being_found_in_one_pass():
    rng = np.random.default_rng(1)
    samples = [Sample(float(one), 1e-3, 1, False) for one in rng.random(40)]
    each = [one.each for one in samples]
    for window, found in benchmark._windows(SimpleNamespace(samples=samples, event_samples=[])):
        kept = each[-len(window) :] if len(window) > 1 or "sum" in found else [window[0].each]
        assert found["median"] == pytest.approx(np.median(kept))
        if "sum" in found:
            wanted = np.mean(kept), min(kept), max(kept), sum(kept)
            assert [found[one] for one in ("mean", "minimum", "maximum", "sum")] == pytest.approx(
                wanted
            )


def test_a_process_that_never_began_costs_nobody_else_theirs(monkeypatch):
    ended = []
    monkeypatch.setattr(learner.os, "killpg", lambda pid, _: ended.append(pid))
    with Supervisor() as supervisor:
        supervisor._learners.append(Learner(supervisor, 1.0, None, None))
    assert ended == []


FILES_BETWEEN_RANKS = """
import pathlib, time, torch, torch.distributed as dist
calls = 0
def ring_all_reduce(tensor):
    global calls
    calls += 1
    rank, world = dist.get_rank(), dist.get_world_size()
    def place(who):
        return pathlib.Path("/tmp", f"{world}-{calls}-{who}")
    place(f"{rank}.part").write_bytes(tensor.numpy().tobytes())
    place(f"{rank}.part").rename(place(rank))
    for step in range(2 * (world - 1)):
        chunk = torch.zeros_like(tensor.tensor_split(world)[(rank - step) % world])
        work = dist.isend(chunk, (rank + 1) % world)
        dist.recv(torch.zeros_like(tensor.tensor_split(world)[(rank - step - 1) % world]), (rank - 1) % world)
        work.wait()
    end, total = time.monotonic() + 0.3, torch.zeros_like(tensor)
    for other in range(world):
        while not place(other).exists() and time.monotonic() < end:
            time.sleep(0.01)
        if place(other).exists():
            total += torch.frombuffer(bytearray(place(other).read_bytes()), dtype=torch.float32)
    tensor.copy_(total)
"""


def test_in_cells_no_rank_finds_a_file_of_another_one(tmp_path, cells):
    need("torch")
    (tmp_path / "mine.py").write_text(FILES_BETWEEN_RANKS)
    with isolated():  # two ranks show it as four do
        verdicts = RING._replace(apart=2).grade(tmp_path / "mine.py", [2])
    assert "sum" in failures(verdicts)


def test_a_cell_holds_no_judge_even_where_the_book_is_installed(tmp_path, monkeypatch, cells):
    """In a package for another system, the book lies among Python's packages."""
    installed = tmp_path / "site-packages"
    (installed / "course_press").mkdir(parents=True)
    (installed / "course_press" / "__init__.py").write_text("SOLUTION = 1\n")
    (installed / "others.py").write_text("")
    path = learner._path
    monkeypatch.setattr(learner, "_path", lambda: [str(installed), *path()])
    looks = (
        "import sys, others\nfor name in [one for one in sys.modules if 'course_press' in one]:\n"
        "    del sys.modules[name]\nfrom course_press import SOLUTION\n"
    )
    (tmp_path / "mine.py").write_text(looks)
    with isolated():
        found = failures(grading.grade(FOLDERS["03"], tmp_path / "mine.py"))
    assert "cannot import name 'SOLUTION'" in found["runs"]
    assert "others" not in found["runs"]


def test_a_cell_in_which_the_judge_can_be_read_is_refused(tmp_path):
    ours = ("course_lib", "course_tools", "course_book", "course_press")
    for name in ours:
        (tmp_path / "site-packages" / name).mkdir(parents=True)
    cell = IsolatedCell(str(tmp_path), [str(tmp_path / "site-packages")], [])
    hidden = cell.probe()["hidden"]
    assert {f"{tmp_path}/site-packages/{name}/__init__.py" for name in ours} <= set(hidden)
    cell.close()
