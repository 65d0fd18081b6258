"""What a device is, what its driver says, and what is said where neither is known."""

import sys
from types import SimpleNamespace

import pytest

from course_lib import bench
from course_lib.bench import device, driver
from course_lib.bench.driver import Observed
from tests.course_lib.bench.fakes import FakeArrays


def test_a_cpus_peak_is_the_product_of_its_assumptions():
    assert bench.cpu_peak(8, 3e9, 512) == 8 * 16 * 2 * 2 * 3e9
    assert bench.cpu_peak(1, 1e9, 256, bits=64, fma_units=1) == 4 * 2 * 1e9


def test_the_clock_now_replaces_the_highest(monkeypatch):
    monkeypatch.setattr(device, "_simd_bits", lambda: 256)
    monkeypatch.setattr(device, "_cpu_clock", lambda: (4e9, "which load may lower"))
    monkeypatch.setattr(device, "_cores", lambda: 2)
    (most, assumed), (now, _) = bench.cpu_peak_here(), bench.cpu_peak_here(clock=2e9)
    assert most == 2 * now
    assert assumed == "2 cores x 256 bit x 2 FMA units x 4.00 GHz, which load may lower"


def test_an_unknown_cpu_has_no_peak_and_says_what_to_do(monkeypatch):
    monkeypatch.setattr(device, "_simd_bits", lambda: 0)
    peak, why = bench.cpu_peak_here()
    assert peak is None
    assert "compute a peak with cpu_peak" in why


@pytest.fixture
def cpu(tmp_path, monkeypatch):
    """A Linux machine whose /proc and /sys say what the test says."""

    def says(cpuinfo, **files):
        monkeypatch.setattr(driver, "CPUINFO", tmp_path / "cpuinfo")
        for module in (device, driver):
            monkeypatch.setattr(module, "CPU", tmp_path)
        monkeypatch.setattr(device, "_threads", lambda: 4)
        monkeypatch.setattr(device, "_cpus", lambda: [0, 1, 2, 3])
        monkeypatch.setattr(device, "_sysctl", lambda name: "")
        (tmp_path / "cpuinfo").write_text(cpuinfo)
        for path, text in files.items():
            file = tmp_path / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    return says


AVX = "model name\t: a CPU\ncpu MHz\t\t: 2600.0\nflags\t\t: fma avx512f"


def test_hyperthreads_share_their_cores_multiply_add_units(cpu):
    pairs = {f"cpu{i}__topology__thread_siblings_list": f"{i % 2},{i % 2 + 2}" for i in range(4)}
    cpu(AVX, cpu0__cpufreq__cpuinfo_max_freq="4000000", **pairs)
    peak, assumed = bench.cpu_peak_here()
    assert peak == bench.cpu_peak(2, 4e9, 512)
    assert assumed == "2 cores x 512 bit x 2 FMA units x 4.00 GHz, which load may lower"
    one_each = {f"cpu{i}__topology__thread_siblings_list": str(i) for i in range(4)}
    cpu(AVX, **one_each)
    assert bench.cpu_peak_here()[0] == bench.cpu_peak(4, 4e9, 512)


def test_a_nominal_clock_is_called_so_and_is_no_observation(cpu):
    cpu(AVX)
    assert bench.observe("cpu") == Observed()
    assert (
        "2.60 GHz, the clock now or a nominal one, which cores may exceed"
        in (bench.cpu_peak_here()[1])
    )
    cpu(AVX + " aperfmperf")
    assert bench.observe("cpu").clock_mhz == 2600.0
    cpu("")
    assert bench.observe("cpu") == Observed()
    assert bench.cpu_peak_here()[0] is None


class _NVMLError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch):
    """An NVML that says what the test says; a missing answer is an NVMLError, as of a GPU that
    cannot tell.
    """

    def says(**answers):
        log = []

        def ask(name):
            def answer(*about):
                log.append((name, *about[1:]))
                if name not in answers:
                    raise _NVMLError("Not Supported")
                return answers[name]

            return answer

        names = ("ClockInfo", "PowerUsage", "Temperature", "CurrentClocksThrottleReasons")
        module = SimpleNamespace(
            NVMLError=_NVMLError,
            NVML_CLOCK_SM=1,
            NVML_TEMPERATURE_GPU=0,
            nvmlInit=ask("Init"),
            nvmlShutdown=lambda: log.append("shut down"),
            nvmlSystemGetDriverVersion=lambda: "550.54.15",
            nvmlDeviceGetHandleByIndex=lambda i: f"GPU {i}",
            **{f"nvmlDeviceGet{name}": ask(name) for name in names},
        )
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return log

    return says


def test_the_driver_is_asked_for_clock_power_temperature_and_reasons(nvml):
    log = nvml(
        Init=None,
        ClockInfo=1410,
        PowerUsage=398550,
        Temperature=61,
        CurrentClocksThrottleReasons=0x24,
    )
    assert bench.observe("cuda") == Observed(
        clock_mhz=1410.0,
        power_w=398.55,
        temperature_c=61.0,
        throttle="power cap, thermal",
        driver="550.54.15",
    )
    assert ("ClockInfo", 1) in log  # of the multiprocessors
    assert log[-1] == "shut down"


def test_a_driver_that_does_not_answer_leaves_blanks(nvml):
    log = nvml(Init=None, ClockInfo=1410, Temperature=61)
    assert bench.observe("cuda") == Observed(
        clock_mhz=1410.0, temperature_c=61.0, driver="550.54.15"
    )
    assert log[-1] == "shut down"


def test_idling_is_no_reason(nvml):
    nvml(Init=None, CurrentClocksThrottleReasons=0x1)
    assert bench.observe("cuda").throttle == ""


def test_a_gpu_that_nothing_observes_is_measured_and_the_row_says_why(nvml, monkeypatch, fake):
    nvml()
    assert bench.observe("cuda") == Observed(
        note="clock and power were not observed, NVML says: Not Supported"
    )
    monkeypatch.setitem(sys.modules, "pynvml", None)
    missing = bench.observe("cuda")
    assert missing == Observed(note="clock and power were not observed: pip install nvidia-ml-py")
    fake(FakeArrays(), seen=missing)
    row = bench.matmul(64, 64, 64, "bf16", "cuda", budget=1.0)
    assert (row.status, row.clock_mhz, row.power_w) == ("ok", None, None)
    assert missing.note in row.note


def test_the_binding_has_every_name_that_is_asked_for():
    real = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    assert (real.NVML_CLOCK_SM, real.NVML_TEMPERATURE_GPU) == (1, 0)
    for name in ("ClockInfo", "PowerUsage", "Temperature", "CurrentClocksThrottleReasons"):
        assert callable(getattr(real, f"nvmlDeviceGet{name}"))
    seen = bench.observe("cuda")
    assert seen.driver or "NVML says" in seen.note
