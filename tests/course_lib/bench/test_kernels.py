"""Running lab 04's kernels: counted rows, what goes on where it stopped, what is refused. They run
in a process of their own, for triton settles when it is imported whether it interprets.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_lib import CourseError, chip, ops
from course_lib.bench import Machine
from course_lib.bench.operands import TorchArrays
from course_lib.bench.record import Case, Ready, blank
from course_lib.bench.record import measure as measured
from course_lib.bench.rows import Manifest, Row
from course_tools.campaigns import kernels
from course_tools.campaigns.kernels import Step, load, measure, plan, run
from course_tools.measured.kernels import OPS, WAYS, counts, step_of
from course_book import reports

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[3]
LAB = ROOT / "labs" / "04-kernels"
SMALL = [
    Step("add", (100,), (32,)),
    Step("fused", (5, 40), (4, 32)),
    Step("softmax", (3, 70), (32,)),
    Step("matmul", (20, 40, 30), (16, 16, 16)),
    Step("attention", (20, 20, 16), (16, 16)),
    Step("attention", (20, 20, 16), (16, 16), causal=True),
]
PROGRAM = """
import json, sys, tempfile
from pathlib import Path
from course_lib import CourseError
from course_lib.bench import results
from course_tools.campaigns import kernels
from course_tools.campaigns.kernels import Step
from course_tools.measured.kernels import counts
small = [Step(*given) for given in {small!r}]
said, folder = [], Path(tempfile.mkdtemp())
whole, stub = (kernels.load(f"labs/04-kernels/{{name}}.py") for name in ("reference", "kernels"))
file = folder / "results.csv"
found = {{
    "stub": kernels.run(small, stub, file, say=said.append),
    "none": len(results.read(file)),
    "some": kernels.run(small[:2], whole, file, say=said.append),
    "all": kernels.run(small, whole, file, say=said.append),
    "spent": kernels.run(small, whole, folder / "other.csv", budget=1, say=said.append,
        clock=iter([0.0, 0.5] + [9.0] * 9).__next__),
}}
rows = results.read(file)
found["rows"] = len(rows)
found["right"] = [one.loaded == one.work.loaded and one.stored == one.work.stored for one in counts(rows)]
found["times"] = [row.seconds_median for row in rows if row.seconds_median is not None]
found["errors"] = max(row.error for row in rows)
found["row"] = [rows[0].settings, rows[0].note, rows[0].backend]
whole.add_kernel = whole.softmax_kernel
def wrong(x, y, block):
    return x
whole.add = wrong
for why in (lambda: kernels.measure(small[0], whole), lambda: kernels.load("labs/04-kernels/reference.py", "cuda")):
    try:
        why()
    except CourseError as error:
        said.append(str(error))
found["said"] = said
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    if find_spec("triton") is None:
        pytest.skip("triton is not here: no kernel is run")
    small = [(one.kernel, one.sizes, one.block, one.causal) for one in SMALL]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("TRITON_INTERPRET", None)
    text = PROGRAM.format(small=small)
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_step_leaves_a_row_for_all_that_is_counted_and_no_time(found):
    assert found["rows"] == len(WAYS) * len(SMALL)
    assert found["right"] == [True] * len(SMALL)
    assert found["times"] == []
    assert found["errors"] < 1e-2
    settings, note, backend = found["row"]
    assert settings == "path=triton block=32 count=loaded"
    assert "no time there measures anything" in note
    assert backend.startswith("triton ")


def test_a_run_goes_on_where_it_stopped(found):
    assert (found["some"], found["all"]) == (0, 0)
    assert sum("measured already" in one for one in found["said"]) == 2
    assert found["spent"] == len(SMALL) - 1


def test_steps_not_written_yet_are_passed_over(found):
    assert (found["stub"], found["none"]) == (len(SMALL), 0)
    assert sum("not implemented yet" in one for one in found["said"]) == len(SMALL)


def test_a_wrong_kernel_leaves_no_row(found):
    assert "add is wrong at 100 (relative error" in found["said"][-2]


def test_triton_does_not_change_its_mind(found):
    assert "needs TRITON_INTERPRET=0 before triton is imported: restart Python" in found["said"][-1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_plan_has_every_kernel_and_its_rows_say_which(device):
    planned = plan(device)
    assert {step.kernel for step in planned} == set(ops.KERNELS)
    keys = set()
    for step in planned:
        row = blank(
            Machine(name="small", kind=device), Case(step.op, step.dtype, timing="warm"),
            step.shape, step.least, settings=step.settings, backend="",
        )  # fmt: skip
        assert step_of(row) == (step.kernel, step.sizes, step.block, step.causal)
        keys.add(row.key)
    assert len(keys) == len(planned)


def test_the_second_half_of_what_is_counted_fits_no_block():
    planned = plan("cpu")
    half = len(planned) // 2
    for one, other in zip(planned[:half], planned[half:], strict=True):
        assert (one.kernel, one.causal, one.block) == (other.kernel, other.causal, other.block)
        cut = {"softmax": slice(1, 2), "attention": slice(0, 2)}.get(one.kernel, slice(None))
        assert not any(size % part for size, part in zip(one.sizes[cut], one.block, strict=True))
        assert any(size % part for size, part in zip(other.sizes[cut], one.block, strict=True))


@pytest.mark.parametrize("step", SMALL, ids=lambda step: f"{step.kernel} {step.causal}")
def test_results_are_checked_against_float64(step):
    arrays = kernels.operands(torch, step, "cpu", 0)
    wide = [one.double() for one in arrays]
    if step.kernel == "add":
        right = wide[0] + wide[1]
    elif step.kernel == "fused":
        right = torch.nn.functional.gelu(wide[0] + wide[1], approximate="tanh") / 0.9
    elif step.kernel == "softmax":
        right = torch.softmax(wide[0], -1)
    elif step.kernel == "matmul":
        right = wide[0] @ wide[1]
    else:
        right = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=step.causal)
    assert kernels.error(torch, step, arrays, right) < 1e-12
    assert kernels.error(torch, step, arrays, right * 1.5) > 0.1


def timed_row(step, budget=1.0):
    here = Machine(name=chip("h100-sxm").device_names[0], kind="cuda", key="h100-sxm")
    row = blank(
        here, Case(step.op, step.dtype, timing="warm"), step.shape, step.least,
        settings=step.settings, backend="triton",
    )  # fmt: skip
    x = torch.ones(1000)
    on_cpu, library = Machine(name=here.name, kind="cpu"), TorchArrays(torch, "cpu")

    def prepare():
        return Ready([lambda: x + x], min(library.timed(lambda: x + x, 1)), 1e-4)

    return measured(row, on_cpu, library, prepare, budget=budget, seed=0)


def test_on_a_gpu_a_step_is_timed_beside_the_least_that_it_moves():
    step = plan("cuda")[0]
    row = timed_row(step)
    assert row.seconds_median > 0
    assert row.achieved_bw_gbps * 1e9 == pytest.approx(step.least.bytes / row.seconds_median)
    assert row.error == 1e-4
    assert timed_row(step, budget=1e-9).status == "over-budget"


def test_the_report_says_what_was_timed_and_the_plot_shows_it():
    rows = [timed_row(step) for step in plan("cuda")]
    text = reports.kernels.report(rows, Manifest(lab="04", command="course lab run 04"))
    assert "Times on this device." in text
    assert "causal attention" in text
    assert counts(rows) == []
    bare, full = (reports.kernels.plot(plan("cuda"), "h100-sxm", of) for of in ([], rows))
    dots = [len(one.figure.axes[0].lines) for one in (bare, full)]
    assert dots[1] - dots[0] == len(rows)


def test_a_row_of_another_lab_is_no_kernel():
    about = {
        "device": "cpu",
        "kind": "cpu",
        "dtype": "fp32",
        "timing": "warm",
        "data": "random",
        "status": "ok",
    }
    row = Row(**about, op="softmax", shape="8x8", settings="path=eager")
    assert counts([row]) == []
    with pytest.raises(CourseError, match="path=triton and a block"):
        step_of(row)
    assert set(OPS) == set(ops.KERNELS)


def test_a_product_on_a_path_of_its_own_is_another_measurement():
    about = {
        "device": "cpu",
        "kind": "cpu",
        "dtype": "fp16",
        "timing": "warm",
        "data": "random",
        "status": "ok",
    }
    library = Row(**about, op="matmul", shape="8x8x8", settings="threads=2")
    other = Row(**about, op="matmul", shape="8x8x8", settings="path=triton block=4x4x4")
    assert library.key != other.key
    assert library.key == Row(**about, op="matmul", shape="8x8x8", settings="threads=8").key


def test_without_triton_the_way_out_is_said(monkeypatch):
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CourseError, match="on Windows use WSL, on macOS Colab or a container"):
        load(LAB / "reference.py")


@pytest.mark.parametrize("path", ["nowhere.py", 7, None])
def test_a_file_that_is_not_there_is_refused(path):
    with pytest.raises(CourseError, match="is not a file"):
        load(path)


def test_what_runs_out_of_memory_says_so(monkeypatch):
    def full(*_):
        raise MemoryError("cannot allocate")

    monkeypatch.setattr(kernels, "operands", full)
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3"))
    (row,) = measure(SMALL[0], SimpleNamespace())
    assert row.status == "out-of-memory"
    assert kernels._said([row]).startswith("out-of-memory")


def test_nothing_to_run():
    assert run([], None, Path("results.csv")) == 0
