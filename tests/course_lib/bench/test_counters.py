"""Joules that a machine counts by itself, on machines that a folder or a fake driver plays."""

import os
import stat
from itertools import count

import pytest

from course_lib import CourseError, bench
from course_lib.bench import device, record
from course_lib.bench.device import Observed, joules_since, read_counters
from course_tools.energy import constants, of_row
from tests.course_lib.bench.fakes import FakeArrays

PACKAGE = "intel-rapl:0 package-0"


@pytest.fixture
def rapl(tmp_path, monkeypatch):
    """A Linux machine whose zones have counted what the test says, in J."""

    def says(most=100.0, **zones):
        for place, (name, joules) in zones.items():
            zone = tmp_path / place.replace("__", ":").replace("_", "-", 1)
            zone.mkdir(exist_ok=True)
            (zone / "name").write_text(f"{name}\n")
            (zone / "energy_uj").write_text(f"{joules * 1e6:.0f}\n")
            (zone / "max_energy_range_uj").write_text(f"{most * 1e6:.0f}\n")

    monkeypatch.setattr(device, "POWERCAP", tmp_path)
    return says


def test_packages_and_their_memory_count_and_nothing_twice(rapl):
    """A package's cores are part of it, and "psys" is all of them; `mmio` is the package again."""
    rapl(
        intel_rapl__0=("package-0", 10),
        intel_rapl__0__0=("core", 7),
        intel_rapl__0__1=("dram", 2),
        intel_rapl__1=("package-1", 20),
        intel_rapl__2=("psys", 40),
        intel_rapl_mmio__0=("package-0", 10),
    )
    found, why = read_counters()
    assert why == ""
    assert {name: joules for name, (joules, _) in found.items()} == {
        PACKAGE: 10,
        "intel-rapl:0:1 dram": 2,
        "intel-rapl:1 package-1": 20,
    }


@pytest.mark.parametrize(("was", "now", "took"), [(10, 35, 25), (90, 15, 25), (7, 7, 0)])
def test_a_counter_that_began_again_is_followed(rapl, was, now, took):
    rapl(intel_rapl__0=("package-0", was))
    before, _ = read_counters()
    rapl(intel_rapl__0=("package-0", now))
    assert joules_since(before) == {PACKAGE: pytest.approx(took)}


def test_without_its_range_what_ran_backward_says_nothing(rapl):
    rapl(most=0, intel_rapl__0=("package-0", 90), intel_rapl__1=("package-1", 5))
    before, _ = read_counters()
    rapl(most=0, intel_rapl__0=("package-0", 15), intel_rapl__1=("package-1", 6))
    assert joules_since(before) == {"intel-rapl:1 package-1": 1}


def test_a_counter_that_is_gone_says_nothing(rapl, tmp_path):
    rapl(intel_rapl__0=("package-0", 1))
    before, _ = read_counters()
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert joules_since(before) == {}


def test_what_only_root_may_read_is_told_with_its_remedy(rapl, tmp_path, monkeypatch):
    rapl(intel_rapl__0=("package-0", 1))
    file = tmp_path / "intel-rapl:0" / "energy_uj"
    file.chmod(stat.S_IWUSR)
    if os.access(file, os.R_OK):  # to root nothing is refused

        def refuse(self, *args, **how):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(type(file), "read_text", refuse)
    found, why = read_counters()
    assert found == {}
    assert why.startswith("only root may read ")
    assert "chmod a+r" in why


@pytest.mark.parametrize("text", ["", "n/a"])
def test_a_damaged_counter_is_none(rapl, tmp_path, text):
    rapl(intel_rapl__0=("package-0", 1))
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text(text)
    assert read_counters() == (
        {},
        "this machine shows no energy counters, as most virtual machines",
    )


def test_a_machine_without_counters_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "POWERCAP", tmp_path / "none")
    for kind in ("cpu", "mps"):
        found, why = read_counters(kind)
        assert found == {}
        assert why.startswith("this machine shows no energy counters")
    with pytest.raises(CourseError, match="kind 'gpu'"):
        read_counters("gpu")


def test_a_gpu_counts_where_its_driver_does(monkeypatch):
    for seen, why in (
        (Observed(driver="550"), "this GPU's driver counts no energy"),
        (Observed(note="NVML says: Not Found"), "NVML says: Not Found"),
        # A slice would be told what the others take, too.
        (Observed(joules=5.0, mig=True), "this GPU's driver counts no energy"),
    ):
        monkeypatch.setattr(device, "observe", lambda kind, seen=seen: seen)
        assert read_counters("cuda") == ({}, why)
    told = (Observed(joules=100.0 + 30 * turn) for turn in count())
    monkeypatch.setattr(device, "observe", lambda kind: next(told))
    before, why = read_counters("cuda")
    assert why == ""
    assert joules_since(before, "cuda") == {"GPU": 30.0}


@pytest.fixture
def clock(monkeypatch):
    """A clock that fakes turn on, and that each look at it moves a little."""
    library = FakeArrays(rate=1e9)

    def now():
        library.now += 1e-6
        return library.now

    monkeypatch.setattr(record.time, "perf_counter", now)
    return library


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_power_is_the_mean_that_was_counted_under_load(fake, clock, monkeypatch, kind):
    fake(clock, here=device.Machine(name="one", kind=kind), seen=Observed(power_w=7.0))
    monkeypatch.setattr(record, "read_counters", lambda kind: ({"one": (120 * clock.now, 1e9)}, ""))
    monkeypatch.setattr(
        record,
        "joules_since",
        lambda before, kind: {at: 120 * clock.now - was for at, (was, _) in before.items()},
    )
    row = bench.matmul(64, 64, 64, "fp32", kind, budget=10.0, timing="warm")
    assert row.power_w == pytest.approx(120, rel=0.01)
    # Where the budget is short, nothing is added to it, and the driver's word stands.
    short = bench.matmul(64, 64, 64, "fp32", kind, budget=1.5, timing="warm")
    assert short.power_w == 7.0


def test_without_counters_no_power_is_made_up(fake, monkeypatch):
    fake(FakeArrays())
    monkeypatch.setattr(record, "read_counters", lambda kind: ({}, "none"))
    assert bench.matmul(64, 64, 64, "fp32", "cpu", budget=10.0).power_w is None


def test_what_a_row_should_have_taken_lies_between_waiting_and_the_limit(fake):
    fake(FakeArrays(rate=4e14))
    row = bench.matmul(512, 512, 512, "bf16", "cuda", budget=1.0)
    of = of_row(row, "h100-sxm")
    idle = constants("h100-sxm").idle
    assert idle * row.seconds_median < of.joules <= 700 * row.seconds_median
    assert device.Observed().joules is None
