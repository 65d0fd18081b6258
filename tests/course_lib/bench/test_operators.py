"""Measuring operators: on a small machine for real, and what is said where a path, a compiler or
memory is missing.
"""

import math
from types import SimpleNamespace

import msgspec
import pytest

from course_lib import CourseError, ops
from course_lib.bench import Machine, products, results
from course_lib.bench.rows import Manifest, Row
from course_tools.campaigns import campaign, operators
from course_tools.campaigns.campaign import Case, run
from course_tools.campaigns.operators import CHAINS, measure, plan, work
from course_tools.measured.operators import roofs, speedups
from course_book import reports

torch = pytest.importorskip("torch")
CACHE = 2**16
ABOUT = {
    "device": "small",
    "kind": "cpu",
    "dtype": "fp32",
    "timing": "cold",
    "data": "random",
    "status": "ok",
}
OWN = [case for case in plan("cpu") if case.op not in ("copy", "triad", "matmul")]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A CPU with a small cache: its arrays are small, and all else is real."""
    for module in (operators, campaign):
        monkeypatch.setattr(
            module, "machine", lambda device: Machine(name="small", kind=device, cache=CACHE)
        )
    monkeypatch.setattr(operators, "ATTENTION", {"cpu": (1, 2, 64, 16), "cuda": (4, 16, 4096, 128)})


def row(op, settings="", seconds=1.0, **more):
    return Row(
        **{
            **ABOUT,
            "op": op,
            "shape": "8x8",
            "settings": settings,
            "seconds_median": seconds,
            **more,
        }
    )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_plan_begins_with_the_roofs_and_ends_with_what_must_be_compiled(device):
    cases = plan(device)
    assert len(set(cases)) == len(cases)
    assert [case.op for case in cases[:3]] == ["copy", "triad", "matmul"]
    compiled = [case.path == "compiled" for case in cases]
    assert compiled == sorted(compiled)
    assert {case.path for case in cases if case.op == "attention"} == set(operators.PATHS[device])
    eager = {(case.op, case.name) for case in cases if case.path == "eager"}
    assert all((case.op, case.name) in eager for case in cases if case.path == "compiled")


def test_arrays_are_beyond_the_cache_and_bytes_are_those_of_ops():
    here = operators.machine("cpu")
    for case in OWN:
        amount, shape = work(case, here)
        sizes = [int(size) for size in shape.split("x")]
        if case.op == "attention":
            continue
        assert math.prod(sizes) * 4 >= products.CACHES * CACHE
        assert amount.bytes >= 2 * math.prod(sizes) * 4
        assert amount.unit == "vector"


@pytest.mark.parametrize(("chain", "ratio"), [(CHAINS[0], 3.0), (CHAINS[1], 7 / 3)])
def test_what_fusion_saves_is_foretold_from_bytes(chain, ratio):
    here = operators.machine("cpu")
    eager, compiled = (
        work(Case("chain", "fp32", name=chain, path=path), here)[0]
        for path in ("eager", "compiled")
    )
    assert eager.bytes / compiled.bytes == pytest.approx(ratio, rel=0.03)
    assert eager.flops == compiled.flops
    assert (eager.kernels, compiled.kernels) == (3, 1)


def test_attention_that_stores_its_scores_moves_them_four_times():
    here = operators.machine("cuda")
    (math_, shape), (flash, same) = (
        work(Case("attention", "bf16", path=path), here) for path in ("math", "flash")
    )
    batch, heads, tokens, dim = (int(size) for size in shape.split("x"))
    assert shape == same
    assert math_.bytes - flash.bytes == 4 * batch * heads * tokens**2 * 2
    assert math_.flops == flash.flops == 4 * batch * heads * tokens**2 * dim
    assert (
        flash.bytes == ops.attention(batch, tokens, tokens, heads, heads, dim, causal=False).bytes
    )


@pytest.mark.parametrize(
    "case",
    [case for case in OWN if case.path != "compiled"],
    ids=lambda case: f"{case.op} {case.settings}",
)
def test_each_operator_is_measured_and_its_result_checked(case):
    found = measure(case, "cpu", budget=1)
    assert (found.status, found.op, found.dtype, found.device) == ("ok", case.op, "fp32", "small")
    assert found.error < 1e-5
    assert found.settings == case.settings
    assert found.timing == ("warm" if case.op == "attention" else "cold")
    amount, shape = work(case, operators.machine("cpu"))
    assert (found.shape, found.bytes, found.flops) == (shape, amount.bytes, amount.flops)
    assert found.achieved_bw_gbps * 1e9 == pytest.approx(amount.bytes / found.seconds_median)
    assert found.achieved_tflops * 1e12 == pytest.approx(amount.flops / found.seconds_median)
    assert campaign.is_measured(case, operators.machine("cpu"), {found.key})


def test_a_roof_is_measured_as_in_lab_00(monkeypatch):
    asked = []
    monkeypatch.setattr(products, "matmul", lambda *sizes, **more: asked.append((sizes, more)))
    monkeypatch.setattr(products, "bandwidth", lambda *about, **more: asked.append((about, more)))
    roofs = [case for case in plan("cpu") if case.op in ("matmul", "copy")]
    for case in roofs:
        campaign.measure(case, "cpu", budget=2, seed=3)
    side = operators.PRODUCT["cpu"]
    assert [about for about, _ in asked] == [("cpu", "copy"), (side, side, side, "fp32", "cpu")]
    assert all((more["budget"], more["seed"]) == (2, 3) for _, more in asked)


def test_a_wrong_result_shows_in_its_error(monkeypatch):
    case = Case("softmax", "fp32")
    right = torch.softmax
    monkeypatch.setattr(
        torch, "softmax", lambda x, dim: right(x, dim) * (1.5 if x.dtype == torch.float32 else 1)
    )
    assert measure(case, budget=1).error == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("kept", [1.0, 0.5])
def test_a_dropout_that_drops_too_little_or_too_much_is_an_error(monkeypatch, kept):
    monkeypatch.setattr(
        torch.nn.functional,
        "dropout",
        lambda x, p, training: x * (torch.arange(x.shape[-1]) < kept * x.shape[-1]) / (1 - p),
    )
    assert measure(Case("chain", "fp32", name=CHAINS[0]), budget=1).error > 0.9


def test_compiled_work_counts_its_fused_bytes(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    found = measure(Case("chain", "fp32", name=CHAINS[1], path="compiled"), budget=1)
    assert (found.status, found.settings) == ("ok", f"{CHAINS[1]} path=compiled")
    assert (
        found.bytes
        == work(Case("chain", "fp32", name=CHAINS[1], path="compiled"), operators.machine("cpu"))[
            0
        ].bytes
    )
    assert found.note.startswith("compiling and the first call took")


def raises(failure):
    def call(*_, **__):
        raise failure

    return call


def test_where_nothing_compiles_the_row_says_so(monkeypatch):
    monkeypatch.setattr(
        torch,
        "compile",
        lambda *_, **__: raises(RuntimeError("InvalidCxxCompiler: no compiler found\nmore")),
    )
    found = measure(Case("norm", "fp32", name="rms", path="compiled"), budget=1)
    assert found.status == "unsupported"
    assert (
        found.note
        == "torch.compile does not work here: RuntimeError: InvalidCxxCompiler: no compiler found"
    )


@pytest.mark.parametrize(
    ("message", "status", "note"),
    [
        (
            "No available kernel. Aborting execution.",
            "unsupported",
            "this device has no flash attention in fp32",
        ),
        (
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to",
            "out-of-memory",
            "can't allocate",
        ),
    ],
)
def test_what_a_device_lacks_is_said(monkeypatch, message, status, note):
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", raises(RuntimeError(message))
    )
    found = measure(Case("attention", "fp32", path="flash"), budget=1)
    assert found.status == status
    assert note in found.note


def test_any_other_failure_is_raised(monkeypatch):
    monkeypatch.setattr(torch, "softmax", raises(RuntimeError("the device went away")))
    with pytest.raises(RuntimeError, match="went away"):
        measure(Case("softmax", "fp32"), budget=1)


def test_what_does_not_fit_the_budget_is_not_begun(monkeypatch):
    monkeypatch.setattr("course_lib.bench.record.sample", raises(AssertionError("was begun")))
    found = measure(Case("softmax", "fp32"), budget=1e-6)
    assert found.status == "over-budget"
    assert "the budget is 1e-06 s" in found.note


def test_pages_stay_with_the_process_only_while_it_measures():
    from course_tools.campaigns import pages

    told = []
    original, pages._tell = pages._tell, lambda parameters: told.append(dict(parameters)) or True
    try:
        with pytest.raises(KeyError), pages.kept():
            raise KeyError
    finally:
        pages._tell = original
    assert told == [{pages.MMAP_MAX: 0, pages.TRIM_THRESHOLD: -1}, pages.DEFAULTS]


def test_a_run_goes_on_where_it_stopped(tmp_path):
    file, now, said, shares = tmp_path / "results.csv", [0.0], [], []
    cases = [case for case in OWN if case.path != "compiled"]

    def fake(case, device, *, budget, seed):
        shares.append(budget)
        now[0] += 10.0
        shape = work(case, operators.machine(device))[1]
        return row(case.op, case.settings, shape=shape, timing=case.timing, achieved_bw_gbps=1.0)

    about = {"measure": fake, "clock": lambda: now[0], "say": said.append}
    assert run(cases, file, "cpu", budget=30, **about) == len(cases) - 3
    assert shares == [
        pytest.approx(30 / len(cases)),
        pytest.approx(20 / (len(cases) - 1)),
        pytest.approx(10 / (len(cases) - 2)),
    ]
    assert (
        said[-1]
        == f"the budget is spent: {len(cases) - 3} of {len(cases)} are left for another run"
    )
    said.clear()
    assert run(cases, file, "cpu", budget=1000, **about) == 0
    assert said[0] == f"3 of {len(cases)} are measured already"
    keys = [one.key for one in results.read(file)]
    assert len(set(keys)) == len(keys) == len(cases)


def test_eager_and_compiled_are_two_measurements():
    eager, compiled = row("chain", "a path=eager"), row("chain", "a path=compiled")
    assert eager.key != compiled.key
    assert row("copy", "threads=1").key == row("copy", "threads=2").key


def measured():
    """Rows of a device of 100 GFLOP/s and 10 GB/s, and operators that reach half of its roof."""
    made = [
        row("copy", achieved_bw_gbps=9.0),
        row("triad", achieved_bw_gbps=10.0, intensity=0.17, achieved_tflops=0.0017),
        row("matmul", shape="64x64x64", achieved_tflops=0.1, intensity=100.0),
    ]
    for op, which, path, moved, flops in (
        ("chain", CHAINS[0], "eager", 3e9, 2e9),
        ("chain", CHAINS[0], "compiled", 1e9, 2e9),
        ("softmax", "", "eager", 1e9, 1e9),
        ("attention", "", "math", 4e9, 4e9),
        ("attention", "", "flash", 1e9, 4e9),
    ):
        seconds = 2 * max(moved / 10e9, flops / 100e9)
        made.append(
            row(
                op,
                f"{which} path={path}".strip(),
                seconds,
                bytes=moved,
                flops=flops,
                intensity=flops / moved,
                error=1e-7,
                achieved_bw_gbps=moved / seconds / 1e9,
                achieved_tflops=flops / seconds / 1e12,
            )
        )
    return made


def test_roofs_gains_report_and_figure():
    rows = measured()
    assert roofs(rows) == (100e9, 10e9)
    gains = {(one.name, one.path): (one.predicted, one.measured) for one in speedups(rows)}
    assert gains == {
        (f"chain {CHAINS[0]}", "compiled"): (3.0, pytest.approx(3.0)),
        ("attention", "flash"): (4.0, pytest.approx(4.0)),
    }
    missing = msgspec.structs.replace(
        rows[4],
        settings="x path=compiled",
        status="unsupported",
        note="no compiler",
        seconds_median=None,
    )
    text = reports.operators.report(
        [*rows, missing], Manifest(lab="02", command="course lab run 02")
    )
    for line in (line for line in text.splitlines() if "| 1.0e-07 |" in line):
        assert "| 50" in line.replace("50.0", "50")
    assert text.count("| 1.0e-07 |") == 5
    assert "chain x, x path=compiled: unsupported, no compiler." in text
    axes = reports.operators.plot(rows).figure.axes[0]
    dots = {
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() == "o"
    }
    assert dots == {(one.intensity, one.achieved_tflops * 1e12) for one in rows[3:]}


def test_rows_that_cannot_be_compared_are_refused():
    rows = measured()
    for some in (rows[:2], rows[2:], [*rows, msgspec.structs.replace(rows[0], device="another")]):
        with pytest.raises(CourseError, match="rows must be of one device"):
            roofs(some)
    assert "softmax" in reports.operators.report(rows[3:], Manifest(lab="02", command=""))
    assert speedups(rows[:4]) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan("tpu"), "unknown device 'tpu'"),
        (lambda: measure(Case("softmax", "fp32"), budget=0), "budget must be positive"),
        (lambda: work(Case("copy", "fp32"), operators.machine("cpu")), "unknown op 'copy'"),
        (
            lambda: work(Case("chain", "fp32", name="bias+gelu"), operators.machine("cpu")),
            "unknown chain 'bias[+]gelu': did you mean 'bias",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(CourseError, match=message):
        call()


def test_without_torch_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(operators, "torch_or_none", lambda: None)
    with pytest.raises(CourseError, match="make labs"):
        measure(Case("softmax", "fp32"))


def test_a_format_that_the_device_lacks_is_recorded(monkeypatch):
    monkeypatch.setattr(
        operators,
        "TorchArrays",
        lambda *_: SimpleNamespace(
            supports=lambda dtype: f"no {dtype} here", settings=lambda dtype: "", label="torch"
        ),
    )
    found = measure(Case("softmax", "bf16"))
    assert (found.status, found.note) == ("unsupported", "no bf16 here")


def test_a_real_compiler_is_used_where_there_is_one():
    found = measure(Case("norm", "fp32", name="rms", path="compiled"), budget=1)
    if found.status == "unsupported":
        assert found.note.startswith("torch.compile does not work here: ")
        return
    assert found.status in ("ok", "over-budget")
    assert found.error is None or found.error < 1e-5
