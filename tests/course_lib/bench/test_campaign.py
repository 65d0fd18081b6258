import ast
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lib import bench
from course_lib.bench import products, results
from course_tools.campaigns import campaign as planning
from course_tools.campaigns.campaign import Case, plan, run
from course_tools.measured import ladder

HERE = bench.machine("cpu").name


def row(case, device="cpu", *, budget=1.0, seed=0, status="ok"):
    shapes = {
        "matmul": (case.size,) * 3,
        "outer": products.outer_shape(bench.machine("cpu"), case.dtype),
    }
    shape = "x".join(map(str, shapes.get(case.op, (4096,))))
    return results.Row(
        device=HERE,
        kind="cpu",
        op=case.op,
        dtype=case.dtype,
        shape=shape,
        timing=case.timing,
        data=case.data,
        status=status,
        achieved_tflops=1.0,
        achieved_bw_gbps=1.0,
        seconds_median=1.0,
    )


def test_no_module_of_the_room_uses_anothers_private_names():
    found = []
    for file in sorted(Path(bench.__file__).parent.glob("*.py")):
        tree, ours = ast.parse(file.read_text(encoding="utf-8")), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_lib"):
                ours |= {name.asname or name.name for name in node.names}
        found += [f"{file.name}: {name}" for name in ours if name.startswith("_")]
        found += [
            f"{file.name}: {ast.unparse(node)}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ours
            and node.attr.startswith("_")
        ]
    assert found == []


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_plan_has_no_case_twice_and_begins_with_what_matters(device):
    cases = plan(device)
    assert len(set(cases)) == len(cases)
    assert [case.op for case in cases[:3]] == ["copy", "triad", "matmul"]
    assert {(case.timing, case.data) for case in cases} == {
        ("cold", "random"),
        ("warm", "random"),
        ("cold", "zeros"),
    }
    largest_first = next(case.size for case in cases if case.op == "matmul")
    assert largest_first == {"cpu": 1024, "cuda": 8192}[device]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_plan_climbs_every_rung_from_the_naive_product_to_fp8(device):
    cases = {(case.op, case.dtype) for case in plan(device)}
    assert set(ladder.RUNGS) <= cases


def test_a_naive_product_is_measured_once(tmp_path, monkeypatch):
    here = bench.Machine(name="small", kind="cpu", cache=2**16)
    for module in (planning, products):
        monkeypatch.setattr(module, "machine", lambda device: here)
    file, said = tmp_path / "results.csv", []
    assert run([Case("outer", "fp32")], file, budget=4, say=said.append) == 0
    (row,) = results.read(file)
    assert (row.op, row.status, row.shape) == ("outer", "ok", "1024x16x1024")
    assert said == [
        f"outer fp32 1024x16x1024 cold random: {row.achieved_bw_gbps:.1f} GB/s"
        + (", noisy" if row.noisy else "")
    ]
    run([Case("outer", "fp32")], file, budget=4, say=said.append)
    assert said[1] == "1 of 1 are measured already"


def test_every_row_is_on_disk_before_the_next_is_begun(tmp_path):
    file = tmp_path / "results.csv"
    there = []

    def measure(case, device, **about):
        there.append(len(results.read(file)))
        return row(case)

    assert run(plan("cpu")[:5], file, "cpu", budget=60, measure=measure, say=lambda _: None) == 0
    assert there == [0, 1, 2, 3, 4]


def test_a_rerun_measures_only_what_is_missing(tmp_path):
    file, cases, said = tmp_path / "results.csv", plan("cpu"), []
    for case in cases[:4]:
        results.append(file, row(case, status="unsupported" if case is cases[2] else "ok"))
    results.append(file, row(cases[4], status="over-budget"))
    measured = []
    run(
        cases,
        file,
        "cpu",
        budget=60,
        measure=lambda case, *_, **__: measured.append(case) or row(case),
        say=said.append,
    )
    assert measured == cases[4:]
    assert said[0] == f"4 of {len(cases)} are measured already"
    assert run(cases, file, "cpu", budget=60, measure=None, say=said.append) == 0


def test_rows_of_another_device_are_no_reason_to_skip(tmp_path, monkeypatch):
    file, measured = tmp_path / "results.csv", []
    results.append(file, row(Case("copy", "fp32")))
    monkeypatch.setattr(planning, "machine", lambda device: _Named("another"))
    run(
        [Case("copy", "fp32")],
        file,
        "cpu",
        budget=1,
        measure=lambda case, *_, **__: measured.append(case) or row(case),
    )
    assert measured


class _Named:
    def __init__(self, name):
        self.name = name


def test_the_budget_is_shared_and_what_it_does_not_reach_is_said(tmp_path):
    now, shares, said = [0.0], [], []

    def measure(case, device, *, budget, seed):
        shares.append(budget)
        now[0] += 10.0
        return row(case)

    cases = plan("cpu")[:6]
    left = run(
        cases,
        tmp_path / "r.csv",
        "cpu",
        budget=30,
        measure=measure,
        clock=lambda: now[0],
        say=said.append,
    )
    assert left == 3
    assert shares == [5.0, 4.0, 2.5]
    assert said[-1] == "the budget is spent: 3 of 6 are left for another run"


def test_a_row_that_failed_does_not_stop_the_run(tmp_path):
    file = tmp_path / "results.csv"
    statuses = iter(["out-of-memory", "ok", "unsupported"])
    run(
        plan("cpu")[:3],
        file,
        "cpu",
        budget=9,
        measure=lambda case, *_, **__: row(case, status=next(statuses)),
    )
    assert [one.status for one in results.read(file)] == ["out-of-memory", "ok", "unsupported"]


KILLED = """
import sys
from pathlib import Path
from course_tools.campaigns.campaign import Case, run
run([Case("matmul", "fp32", size) for size in range(32, 400)], Path(sys.argv[1]), "cpu", budget=40)
"""


def test_a_killed_run_loses_the_row_in_flight_and_goes_on(tmp_path):
    file = tmp_path / "results.csv"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file)], stdout=subprocess.DEVNULL, cwd=Path.cwd()
    )
    deadline = time.monotonic() + 60
    while len(results.read(file)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = results.read(file)
    assert len(kept) >= 3
    sizes = range(32, 32 + len(kept) + 2)
    assert run([Case("matmul", "fp32", size) for size in sizes], file, "cpu", budget=60) == 0
    assert [one.shape for one in results.read(file)] == [f"{size}x{size}x{size}" for size in sizes]
    assert results.read(file)[: len(kept)] == kept
