"""What a device is, what its driver says, and what is said where neither is known."""

import os
import sys
from types import SimpleNamespace

import pytest

from course_lib import CourseError, bench
from course_lib.bench import device
from course_lib.bench.device import Observed
from tests.course_lib.bench.fakes import FakeArrays


def test_a_cpus_peak_is_the_product_of_its_assumptions():
    assert bench.cpu_peak(8, 3e9, 512) == 8 * 16 * 2 * 2 * 3e9
    assert bench.cpu_peak(1, 1e9, 256, bits=64, fma_units=1) == 4 * 2 * 1e9


def test_the_clock_now_replaces_the_highest(monkeypatch):
    monkeypatch.setattr(device, "_simd_bits", lambda: 256)
    monkeypatch.setattr(device, "_cpu_clock", lambda: (4e9, "which may drop under load"))
    monkeypatch.setattr(device, "_cores", lambda: 2)
    (most, assumed), (now, _) = bench.cpu_peak_here(), bench.cpu_peak_here(clock=2e9)
    assert most == 2 * now
    assert assumed == "2 cores x 256 bit x 2 FMA units x 4.00 GHz, which may drop under load"


def test_an_unknown_cpu_has_no_peak_and_says_what_to_do(monkeypatch):
    monkeypatch.setattr(device, "_simd_bits", lambda: 0)
    peak, why = bench.cpu_peak_here()
    assert peak is None
    assert "compute a peak with cpu_peak" in why


@pytest.fixture
def cpu(tmp_path, monkeypatch):
    """A Linux machine whose /proc and /sys say what the test says."""

    def says(cpuinfo, **files):
        monkeypatch.setattr(device, "CPUINFO", tmp_path / "cpuinfo")
        for module in (device,):
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
    assert assumed == "2 cores x 512 bit x 2 FMA units x 4.00 GHz, which may drop under load"
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


ASKED = (
    "ClockInfo",
    "PowerUsage",
    "Temperature",
    "CurrentClocksThrottleReasons",
    "Name",
    "TotalEnergyConsumption",
    "EnforcedPowerLimit",
    "MaxClockInfo",
    "MigMode",
    "ComputeRunningProcesses",
)


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

        module = SimpleNamespace(
            NVMLError=_NVMLError,
            NVML_CLOCK_SM=1,
            NVML_TEMPERATURE_GPU=0,
            nvmlInit=ask("Init"),
            nvmlShutdown=lambda: log.append("shut down"),
            nvmlSystemGetDriverVersion=lambda: "550.54.15",
            nvmlDeviceGetHandleByIndex=lambda i: f"GPU {i}",
            nvmlDeviceGetHandleByUUID=lambda uuid: f"GPU {uuid}",
            **{f"nvmlDeviceGet{name}": ask(name) for name in ASKED},
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


def test_an_old_binding_that_lacks_a_function_leaves_a_blank(nvml, monkeypatch):
    nvml(**SOUND, PowerUsage=398550)
    monkeypatch.delattr(sys.modules["pynvml"], "nvmlDeviceGetTotalEnergyConsumption")
    seen = device.nvidia()
    assert (seen.power_w, seen.joules) == (398.55, None)


def test_energy_is_told_in_joules(nvml):
    nvml(**SOUND, TotalEnergyConsumption=12_345_678)
    assert device.nvidia().joules == 12_345.678


def test_cuda_counts_gpus_as_their_driver_does(monkeypatch):
    """Unless told so, it calls the fastest one 0, and NVML the first on the bus."""
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    device.torch_or_none()
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    device.torch_or_none()
    assert os.environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


def test_of_an_amd_gpu_nothing_is_asked_of_nvidias_driver(nvml, torch):
    log = nvml(**SOUND)
    torch("AMD Instinct MI300X", cuda=None, hip="6.4.43482")
    assert bench.observe("cuda").note == "clock and power of an AMD GPU were not observed"
    assert log == []
    setup = bench.inspect("cuda")
    assert setup.cuda == "ROCm 6.4.43482"
    assert not [fault for fault in setup.faults if "nvidia" in fault or "CUDA" in fault]


@pytest.mark.parametrize(("told", "cache"), [(4 * 2**20, 256 * 2**20), (512 * 2**20, 512 * 2**20)])
def test_what_is_to_come_from_memory_outgrows_the_largest_cache(torch, told, cache):
    """ROCm tells the second level of each die, behind which an MI300X has one of 256 MiB."""
    one = torch("AMD Instinct MI300X", cuda=None, hip="6.4")
    one.cuda.get_device_properties = lambda _: SimpleNamespace(
        L2_cache_size=told, multi_processor_count=304
    )
    assert bench.machine("cuda").cache == pytest.approx(cache, rel=0.05)


def test_the_binding_has_every_name_that_is_asked_for():
    real = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    assert (real.NVML_CLOCK_SM, real.NVML_TEMPERATURE_GPU) == (1, 0)
    for name in ASKED:
        assert callable(getattr(real, f"nvmlDeviceGet{name}"))
    seen = bench.observe("cuda")
    assert seen.driver or "NVML says" in seen.note


SOUND = {
    "Init": None,
    "Name": "NVIDIA H100 80GB HBM3",
    "EnforcedPowerLimit": 700_000,
    "ClockInfo": 345,
    "MaxClockInfo": 1980,
    "MigMode": [0, 0],
    "ComputeRunningProcesses": [],
}


@pytest.fixture
def torch(monkeypatch):
    """A torch that has a GPU, or lacks one in the way that the test says."""

    def says(
        name="NVIDIA H100 80GB HBM3",
        *,
        cuda="12.6",
        hip=None,
        available=True,
        started=False,
        fails="",
    ):
        def ones(size, device):
            if fails:
                raise RuntimeError(fails)
            return SimpleNamespace(add=lambda more: SimpleNamespace(item=lambda: 2.0))

        there = SimpleNamespace(
            is_available=lambda: available,
            is_initialized=lambda: started,
            get_device_name=lambda _: name,
            get_device_properties=lambda _: SimpleNamespace(total_memory=80e9),
        )
        one = SimpleNamespace(
            __version__="2.9.0",
            version=SimpleNamespace(cuda=cuda, hip=hip),
            cuda=there,
            ones=ones,
            backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False)),
            get_num_threads=lambda: 4,
        )
        monkeypatch.setattr(device, "torch_or_none", lambda: one)
        return one

    return says


def test_a_sound_set_up_is_told_in_full(nvml, torch):
    nvml(**SOUND)
    torch()
    setup = bench.inspect("cuda")
    assert setup.faults == ()
    assert (setup.torch, setup.cuda, setup.driver) == ("2.9.0", "12.6", "550.54.15")
    assert (setup.power_limit_w, setup.power_w) == (700.0, 700.0)
    lines = str(setup).splitlines()
    assert lines[4:] == [
        "device         NVIDIA H100 80GB HBM3",
        "energy         this GPU's driver counts no energy",
        "power limit    700 W, the datasheet has 700 W",
        "clock now      345 MHz, at most 1980 MHz",
        "nothing wrong was found",
    ]


STRANGERS = [SimpleNamespace(pid=7), SimpleNamespace(pid=8)]
NO_GPU = {"available": False}


@pytest.mark.parametrize(
    ("driver", "installed", "said"),
    [
        ({"MigMode": [1, 1]}, {}, ["MIG is on", "ask for a whole GPU"]),
        ({}, {"name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}, ["not in the spec table", "MIG is on"]),
        ({"ComputeRunningProcesses": STRANGERS}, {}, ["other processes compute on the GPU (2)"]),
        (
            {"ComputeRunningProcesses": STRANGERS},
            {"started": True},
            ["other processes compute on the GPU (1)"],
        ),
        (
            {"EnforcedPowerLimit": 500_000},
            {},
            ["the power limit is 500 W, below the datasheet's 700 W", "nvidia-smi -pl 700"],
        ),
        ({}, {**NO_GPU, "cuda": None}, ["torch was built without CUDA", "get-started/locally"]),
        (
            {},
            {**NO_GPU, "cuda": "13.0"},
            ["built for CUDA 13.0, cannot use the GPU with driver 550.54.15", "update the driver"],
        ),
        ({}, {"name": "NVIDIA H900"}, ["'NVIDIA H900' is not in the spec table", "COURSE_CHIPS"]),
        (
            {},
            {"fails": "CUDA error: no kernel image is available\nCompile with TORCH_USE_CUDA_DSA"},
            [
                "torch cannot use this GPU (CUDA error: no kernel image is available): end",
                "install another build",
            ],
        ),
    ],
)
def test_a_fault_is_named_with_its_remedy(nvml, torch, driver, installed, said):
    nvml(**{**SOUND, **driver})
    torch(**installed)
    setup = bench.inspect("cuda")
    told = " ".join(setup.faults)
    assert [part for part in said if part not in told] == []
    assert len(setup.faults) == (2 if " MIG " in installed.get("name", "") else 1)
    assert str(setup).count("WRONG: ") == len(setup.faults)


def test_this_process_is_none_of_the_others(nvml, torch):
    nvml(**{**SOUND, "ComputeRunningProcesses": [SimpleNamespace(pid=os.getpid())]})
    torch(started=True)
    assert bench.inspect("cuda").faults == ()


def test_a_machine_without_a_gpu_is_told_what_to_do(nvml, torch, monkeypatch, tmp_path):
    nvml()
    monkeypatch.setattr(device, "DRIVER", tmp_path / "none")
    torch(**NO_GPU, cuda=None)
    (fault,) = bench.inspect("cuda").faults
    assert fault.startswith("no GPU is here, or no driver for it")
    assert "NVML says: Not Supported" in fault
    assert "measure the CPU with device 'cpu'" in fault
    # Without NVIDIA's binding, Linux still says that a driver is loaded.
    monkeypatch.setitem(sys.modules, "pynvml", None)
    (tmp_path / "version").write_text("NVRM version")
    monkeypatch.setattr(device, "DRIVER", tmp_path / "version")
    (fault,) = bench.inspect("cuda").faults
    assert fault.startswith("torch was built without CUDA")


def test_what_cannot_be_seen_is_a_fault_of_a_gpu_that_is_there(torch, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    torch()
    setup = bench.inspect("cuda")
    (fault,) = setup.faults
    assert "pip install nvidia-ml-py" in fault
    assert "power limit    not told" in str(setup)


def test_a_busy_cpu_and_a_missing_torch_are_faults(monkeypatch):
    monkeypatch.setattr(device, "torch_or_none", lambda: None)
    monkeypatch.setattr(device.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(device.os, "getloadavg", lambda: (0.9, 5.0, 5.0), raising=False)
    (fault,) = bench.inspect("cpu").faults
    assert fault.startswith("torch is not installed")
    monkeypatch.setattr(device.os, "getloadavg", lambda: (1.1, 0.0, 0.0), raising=False)
    assert "busy in the last minute (1.1 processes for 2 CPUs)" in bench.inspect("cpu").faults[1]


@pytest.mark.parametrize(
    ("visible", "asked"), [("", 0), ("3,1", 3), (" 2", 2), ("GPU-8f2a", "GPU-8f2a")]
)
def test_the_gpu_that_cuda_sees_first_is_asked(nvml, monkeypatch, visible, asked):
    nvml(**SOUND)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    named = []
    monkeypatch.setattr(sys.modules["pynvml"], "nvmlDeviceGetName", named.append)
    device.nvidia()
    assert named == [f"GPU {asked}"]


def test_a_shared_cache_is_what_its_owner_says(monkeypatch):
    monkeypatch.setenv(device.CACHE, "1048576")
    assert bench.machine("cpu").cache == 2**20
    monkeypatch.setenv(device.CACHE, "")
    assert bench.machine("cpu").cache > 0
    for wrong in ("1e6", "-4", "0", "32 MB"):
        monkeypatch.setenv(device.CACHE, wrong)
        with pytest.raises(CourseError, match=f"COURSE_CACHE must be .* 33554432.*{wrong}"):
            bench.machine("cpu")
