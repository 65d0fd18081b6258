"""A whole machine's rows: which are measured, what they say of it, and how two runs compare."""

from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace

import msgspec
import pytest

from course_lib import chip
from course_lib.bench import device, products, results
from course_lib.bench.rows import Row
from course_tools.campaigns import campaign, checkup
from course_tools.measured.machines import doubts, drifts

NOW = datetime(2026, 5, 1, 23, 59, 59, tzinfo=UTC)
TODAY = NOW.isoformat()


def row(op="copy", *, kind="cpu", dtype="fp32", shape="64x64x64", seconds=1e-3, **more):
    about = {"timing": "cold", "data": "random", "status": "ok"}
    shown = shape if op == "matmul" else "64"
    more = {"date": TODAY, "seconds_median": seconds, "ci_low": seconds, "ci_high": seconds, **more}
    return Row(device="one", kind=kind, op=op, dtype=dtype, shape=shown, **about, **more)


def keys(rows, one=None, cores=8):
    return list(doubts(rows, one, cores))


@pytest.mark.parametrize("kind", device.DEVICES)
def test_both_roofs_come_first_and_nothing_twice(kind):
    cases = checkup.probes(kind)
    assert len(set(cases)) == len(cases)
    assert {"copy", "triad", "matmul", "layer", "launch"} == {case.op for case in cases}
    assert [case.op for case in cases[:3]] == ["copy", "triad", "matmul"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where runs are kept of a machine whose measurements take no time, on one day."""
    here = device.Machine(name="one", kind="cpu")
    for module in (checkup, campaign):
        monkeypatch.setattr(module, "machine", lambda kind: here)
    monkeypatch.setattr(checkup, "datetime", SimpleNamespace(now=lambda zone: NOW))
    monkeypatch.setattr(checkup, "arrays", lambda kind: SimpleNamespace(label="fake"))
    return tmp_path


def measure(folder, *, fails_at=None, backend="fake", date=TODAY):
    seen = []

    def one(case, kind, *, budget, seed):
        if len(seen) == fails_at:
            raise KeyboardInterrupt
        seen.append((case.op, case.dtype, case.size))
        shape = "x".join([str(case.size)] * 3)
        return row(case.op, dtype=case.dtype, shape=shape, backend=backend, date=date)

    how = {"measure": one, "said": lambda row: row.op, "say": lambda text: None}
    with suppress(KeyboardInterrupt):
        assert checkup.run(folder, "cpu", budget=60, **how) == 0
    return seen


@pytest.mark.parametrize("first", range(len(checkup.probes("cpu"))))
def test_a_run_that_was_stopped_anywhere_goes_on_and_measures_nothing_twice(folder, first):
    done = measure(folder, fails_at=first)
    assert sorted([*done, *measure(folder)]) == sorted(
        (case.op, case.dtype, case.size) for case in checkup.probes("cpu")
    )
    assert len(checkup.runs(folder)) == 1
    assert len(measure(folder)) == len(checkup.probes("cpu"))
    assert [file.name for file in checkup.runs(folder)] == ["run-1.csv", "run-2.csv"]


@pytest.mark.parametrize("other", [{"backend": "fake 2"}, {"date": "2020-01-01T00:00:00+00:00"}])
def test_another_day_or_library_is_another_run(folder, other):
    measure(folder, fails_at=3, **other)
    assert len(measure(folder)) == len(checkup.probes("cpu"))
    assert len(checkup.runs(folder)) == 2


def test_ten_runs_are_in_their_order(tmp_path):
    for number in range(1, 12):
        (tmp_path / f"run-{number}.csv").touch()
    assert [file.stem[4:] for file in checkup.runs(tmp_path)] == [str(i) for i in range(1, 12)]


def test_what_others_took_is_told_and_nothing_else_is_read_off_disturbed_rows():
    slow = row("matmul", mfu=0.01, achieved_tflops=1e-3, note="a; waited=0.400 stolen=0.000")
    stream = row(achieved_bw_gbps=1.0, note="waited=0.300 stolen=0.080")
    assert keys([slow, stream]) == ["waited", "stolen"]
    quiet = [msgspec.structs.replace(one, note="waited=0.001") for one in (slow, stream)]
    assert keys(quiet) == ["channel", "products"]
    assert keys(quiet[1:], cores=1) == []  # one core fills no channel


def test_a_known_chip_is_held_against_its_own_bandwidth():
    h100 = chip("h100-sxm")
    rates = {share: share * h100.bandwidth / 1e9 for share in (0.4, 0.9)}
    assert keys([row(kind="cuda", achieved_bw_gbps=rates[0.4])], h100) == ["stream"]
    assert keys([row(kind="cuda", achieved_bw_gbps=rates[0.9])], h100) == []


def test_a_driver_that_throttles_is_told_with_its_reason():
    held = row("launch", kind="cuda", throttle="power cap", clock_mhz=1200.0)
    assert doubts([row(kind="cuda", achieved_bw_gbps=1.0), held], None, 8) == {
        "throttled": {"why": "power cap", "clock": (1.2e9, "Hz")}
    }


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ({}, {"seconds": 1.04e-3}, ""),
        ({"backend": "torch 1"}, {"backend": "torch 2"}, "versions"),
        ({"clock_mhz": 2000.0}, {"clock_mhz": 1500.0}, "clock"),
        ({}, {"throttle": "thermal"}, "clock"),
        ({}, {"note": "waited=0.200"}, "others"),
        ({"noisy": True}, {}, "noise"),
        ({}, {}, "unknown"),
    ],
)
def test_two_runs_that_differ_say_why(was, now, why):
    after = row(**{"seconds": 1.2e-3, **now})
    (one,) = drifts([row(**was)], [after])
    assert (one["why"], one["ratio"]) == (why, pytest.approx(after.seconds_median / 1e-3))


def test_a_build_that_lacks_an_operator_is_a_row(monkeypatch):
    def lacks(*args, **how):
        raise RuntimeError("not implemented for this device: /home/someone/torch.so")

    monkeypatch.setattr(products, "matmul", lacks)
    case = next(case for case in checkup.probes("cpu") if case.op == "matmul")
    found = checkup.measure(case, "cpu", budget=0.1)
    assert (found.status, found.note) == ("unsupported", "RuntimeError")


def test_real_rows_are_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv(device.CACHE, str(2**20))
    monkeypatch.setattr(products, "LAYER", (64, 128))
    monkeypatch.setitem(campaign.SIZES, "cpu", (128, 64))
    monkeypatch.setattr(checkup, "LONGEST", 0.02)
    how = {"said": lambda row: row.op, "say": lambda text: None}
    assert checkup.run(tmp_path, "cpu", budget=60, **how) == 0
    rows = results.read(checkup.runs(tmp_path)[0])
    assert [one.op for one in rows] == [case.op for case in checkup.probes("cpu")]
    layer = next(one for one in rows if one.op == "layer")
    assert layer.status == "ok"
    assert layer.bytes > 4 * (64 * (4 * 64 + 2 * 128) + 128 * 64)  # the weights, and vectors


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
    ],
)
def test_the_limit_of_a_control_group_is_a_fault(files, quota, tmp_path, monkeypatch):
    monkeypatch.setattr(device, "CGROUPS", tmp_path)
    monkeypatch.setattr(device, "_cpus", lambda: [0, 1])
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    told = [one for one in device.inspect("cpu").faults if "control group" in one]
    assert [one for one in told if f"use {quota:g} of 2 CPUs" in one] == told if quota else not told


def test_a_gpu_that_torch_cannot_use_is_a_fault(tmp_path, monkeypatch):
    version = SimpleNamespace(hip=None, cuda=None)
    torch = SimpleNamespace(version=version, __version__="2", get_num_threads=lambda: 1, cuda=None)
    monkeypatch.setattr(device, "torch_or_none", lambda: torch)
    monkeypatch.setattr(device, "fastest", lambda: "cpu")
    monkeypatch.setattr(device, "DRIVER", tmp_path / "none")
    for driver, told in ((tmp_path / "none", 0), (tmp_path, 1)):
        monkeypatch.setattr(device, "AMD_DRIVER", driver)
        faults = [one for one in device.inspect("cpu").faults if "an AMD GPU is here" in one]
        assert len(faults) == told
    monkeypatch.setattr(device, "fastest", lambda: "cuda")
    assert not [one for one in device.inspect("cpu").faults if "an AMD GPU" in one]


def test_a_cache_larger_than_memory_bears_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.delenv(device.CACHE, raising=False)
    monkeypatch.setattr(device, "CPU", tmp_path)
    (tmp_path / "cpu0/cache/index3").mkdir(parents=True)
    (tmp_path / "cpu0/cache/index3/size").write_text("266240K")
    monkeypatch.setattr(device, "_memory", lambda: 2e9)
    assert device.machine("cpu").cache == 2e9 / 32
    monkeypatch.setattr(device, "_memory", lambda: None)
    assert device.machine("cpu").cache == 266240 * 2**10
