"""What is measured on, what its driver says of it, and what is wrong with it."""

import contextlib
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np

from course_lib.core.checks import CourseError, count, known, positive, single, unfit
from course_lib.specs import Accelerator, chip_of_device, unreadable

CPU = Path("/sys/devices/system/cpu")
CPUINFO = Path("/proc/cpuinfo")
# Is there where Linux has loaded NVIDIA's driver, whether or not NVML can be asked.
DRIVER = Path("/proc/driver/nvidia/version")
# And this where it has loaded AMD's.
AMD_DRIVER = Path("/dev/kfd")
CGROUPS = Path("/sys/fs/cgroup")
POWERCAP = Path("/sys/class/powercap")
# What RAPL counts that no other counter includes: a package has its cores and graphics within, and
# "psys" all packages.
COUNTED = ("package", "dram")
# ROCm's torch calls a GPU "cuda" too; "mps" is that of an Apple chip.
DEVICES = ("cpu", "cuda", "mps")
# Why the clock is held down, by NVML's bits. Idling is no reason.
REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
# Bytes of last-level cache assumed where the system does not say: large enough to be safe for cold
# timing.
DEFAULT_CACHE = 64 * 2**20
# The share of main memory that the last-level cache is taken to have at most: measurements take
# twelve times as much as the cache, and a virtual machine may show its host's.
LARGEST_CACHE = 1 / 32
# The variable of the environment that says how much last-level cache this CPU has, in bytes, where
# the system tells too much: a virtual machine often shows all of a host that it shares.
CACHE = "COURSE_CACHE"
# Fused multiply-add units a core is taken to have. Some have one: the peak is then half of what is
# printed.
FMA_UNITS = 2

# Processes that want a CPU, for each thread: above it, others were at work before we began.
BUSY = 0.5


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What a device's driver says; `None` or empty where it does not tell, and `note` where a
    reader can help it.
    """

    name: str = ""
    driver: str = ""
    power_limit_w: float | None = None
    power_w: float | None = None
    joules: float | None = None  # since the driver was loaded
    clock_mhz: float | None = None  # of the multiprocessors, now
    highest_mhz: float | None = None  # and at most
    temperature_c: float | None = None
    throttle: str = ""
    mig: bool = False  # whether it is cut into slices
    pids: tuple[int, ...] = ()  # of the processes that compute on it, as the driver numbers them
    note: str = ""


def observe(kind: str) -> Observed:
    """Clock, power, temperature and reasons for throttling now: of an NVIDIA GPU (``"cuda"``)
    through NVML, of a ``"cpu"`` the clock where Linux measures it, of ``"mps"`` nothing.

    Examples
    --------
    >>> observe("cpu").power_w is None
    True
    """
    if known("kind", kind, DEVICES) != "cuda":
        # Without either, as in most virtual machines, Linux prints the nominal clock for ever.
        live = "aperfmperf" in cpuinfo("flags").split() or (CPU / "cpu0" / "cpufreq").is_dir()
        return Observed(clock_mhz=clock_told() if live else None)
    if (torch := torch_or_none()) and _rocm(torch):
        return Observed(note="clock and power of an AMD GPU were not observed")
    return nvidia("clock and power were not observed")


def read_counters(kind: str = "cpu") -> tuple[dict[str, tuple[float, float]], str]:
    """J that the energy counters have counted of ``"cpu"``, all packages and their memory, or of
    ``"cuda"``, the GPU that CUDA calls 0, whichever programs ran, each with the J at which it
    begins again at zero; or why there are no counters.
    """
    if known("kind", kind, DEVICES) == "cuda":
        seen = observe(kind)
        if seen.joules is not None and not seen.mig:  # whose counter is the whole GPU's
            return {"GPU": (seen.joules, math.inf)}, ""
        return {}, seen.note or "this GPU's driver counts no energy"
    found, why = {}, "this machine shows no energy counters, as most virtual machines"
    for zone in sorted(POWERCAP.glob("intel-rapl:*")):  # so called of AMD's processors, too
        files = (zone / name for name in ("name", "energy_uj", "max_energy_range_uj"))
        try:
            name, now, most = (file.read_text(encoding="utf-8").strip() for file in files)
            if name.startswith(COUNTED):
                found[f"{zone.name} {name}"] = int(now) / 1e6, int(most) / 1e6 or math.inf
        except PermissionError:
            why = f"only root may read the counters in {POWERCAP}: sudo chmod a+r their energy_uj"
        except (OSError, ValueError):
            continue
    return found, "" if found else why


def joules_since(before: dict[str, tuple[float, float]], kind: str = "cpu") -> dict[str, float]:
    """J counted since `before`, by counter; several turns of one are told as less than one."""
    now, _ = read_counters(kind)
    gained = {at: (now[at][0] - was) % most for at, (was, most) in before.items() if at in now}
    # What ran backward without a turn says nothing.
    return {at: gain for at, gain in gained.items() if math.isfinite(gain)}


def nvidia(unasked: str = "the driver was not asked") -> Observed:
    """What the driver says of the NVIDIA GPU that CUDA calls 0, or what was not done, and why."""
    try:
        import pynvml as nvml
    except ImportError:
        return Observed(note=f"{unasked}: pip install nvidia-ml-py")
    try:
        nvml.nvmlInit()
        try:
            ask = _asker(nvml)
            reasons = int(ask("CurrentClocksThrottleReasons") or 0)
            return Observed(
                name=str(ask("Name") or ""),
                driver=str(nvml.nvmlSystemGetDriverVersion()),
                power_limit_w=_scaled(ask("EnforcedPowerLimit"), 1e3),
                power_w=_scaled(ask("PowerUsage"), 1e3),
                joules=_scaled(ask("TotalEnergyConsumption"), 1e3),
                clock_mhz=_scaled(ask("ClockInfo", nvml.NVML_CLOCK_SM)),
                highest_mhz=_scaled(ask("MaxClockInfo", nvml.NVML_CLOCK_SM)),
                temperature_c=_scaled(ask("Temperature", nvml.NVML_TEMPERATURE_GPU)),
                throttle=", ".join(name for bit, name in REASONS.items() if reasons & bit),
                mig=bool((ask("MigMode") or [0])[0]),
                pids=tuple(one.pid for one in ask("ComputeRunningProcesses") or ()),
            )
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        return Observed(note=f"{unasked}, NVML says: {error}")


def _asker(nvml: Any) -> Callable[..., Any]:
    """Asks the GPU that CUDA calls 0 one thing at a time, for some tell no power."""
    # CUDA_VISIBLE_DEVICES hides some from CUDA, and NVML sees all.
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    if first and not first.isdecimal():
        gpu = nvml.nvmlDeviceGetHandleByUUID(first)
    else:
        gpu = nvml.nvmlDeviceGetHandleByIndex(int(first or 0))
    # What an older driver has no function for is an error of another kind, and so is what an older
    # binding lacks.
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)

    def ask(name: str, *about: int) -> Any:
        with contextlib.suppress(nvml.NVMLError, mismatch, AttributeError):
            return getattr(nvml, f"nvmlDeviceGet{name}")(gpu, *about)
        return None

    return ask


def _scaled(told: float | None, scale: float = 1) -> float | None:
    return None if told is None else float(told) / scale


def cpuinfo(field: str) -> str:
    """What Linux says of the first core; empty elsewhere."""
    with contextlib.suppress(OSError):
        text = CPUINFO.read_text(encoding="utf-8")
        found = re.search(rf"^{field}\s*:\s*(.+)$", text, re.MULTILINE)
        return found[1].strip() if found else ""
    return ""


def clock_told() -> float | None:
    """MHz, the clock in /proc/cpuinfo: measured, or nominal where the system cannot measure it."""
    told = cpuinfo("cpu MHz")
    return float(told) if told else None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A device and what is known of it."""

    name: str  # as the runtime reports it
    kind: str  # one of `DEVICES`
    key: str | None = None  # of its chip in the spec table
    cache: float = DEFAULT_CACHE  # byte of last-level cache
    threads: int = 1  # of a CPU that the arithmetic may use
    multiprocessors: int | None = None  # of a GPU
    note: str = ""  # what a reader should know about its peak


# Its `power_w` is the datasheet's, and its `note` says why no energy is counted.
class Setup(Observed, frozen=True, kw_only=True):
    """What a measurement would run on, and what is wrong with it; printed, a line for each."""

    python: str
    torch: str
    cuda: str = ""  # for which torch was built
    cores: int = 0  # that this process may use
    memory: float | None = None  # byte, of the device
    blas: str = ""  # the library of linear algebra that NumPy was built with
    faults: tuple[str, ...] = ()  # what would spoil a measurement, each with its remedy

    def __str__(self) -> str:
        limit, clock = self.power_limit_w, self.clock_mhz
        stated = "" if self.power_w is None else f", the datasheet has {self.power_w:g} W"
        most = "" if self.highest_mhz is None else f", at most {self.highest_mhz:g} MHz"
        lines = {
            "Python": self.python,
            "torch": self.torch or "not installed",
            "CUDA of torch": self.cuda or "none",
            "driver": self.driver or "none",
            "device": self.name or "none",
            "energy": self.note or "counted",
            "power limit": "not told" if limit is None else f"{limit:g} W{stated}",
            "clock now": "not told" if clock is None else f"{clock:g} MHz{most}",
        }
        wrong = [f"WRONG: {one}" for one in self.faults] or ["nothing wrong was found"]
        return "\n".join([*(f"{what:<14} {value}" for what, value in lines.items()), *wrong])


def inspect(device: str = "cpu") -> Setup:
    """Look at the set-up of a device before anything is measured: versions, the device, its limits,
    and what is wrong with a remedy. It raises nothing where a device is
    missing: that is what it tells.

    Examples
    --------
    >>> setup = inspect("cpu")
    >>> setup.name == machine("cpu").name, str(setup).splitlines()[0].split()[0]
    (True, 'Python')
    """
    torch, built = torch_or_none(), cast("Any", np.show_config(mode="dicts"))
    blas = built.get("Build Dependencies", {}).get("blas", {})
    about: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": str(torch.__version__) if torch else "",
        "cuda": str(torch.version.cuda or _rocm(torch)) if torch else "",
        "cores": _cores(),
        "blas": f"{blas.get('name', '')} {blas.get('version', '')}".strip(),
    }
    if known("device", device, DEVICES) != "cuda":
        about |= {"name": _cpu_name(), "clock_mhz": clock_told(), "memory": _memory()}
        about["note"] = read_counters(device)[1]
        return Setup(**about, faults=tuple(_cpu_faults(torch)))
    usable = bool(torch and torch.cuda.is_available())
    # The driver of ROCm's GPU is not NVIDIA's, which another may have.
    gpu = Observed() if torch and usable and _rocm(torch) else nvidia()
    # In a container the driver numbers this process otherwise than the system does. Asking torch
    # for the name, below, may make it one of those that use the GPU.
    own = os.getpid() in gpu.pids or bool(torch and torch.cuda.is_initialized())
    name = str(torch.cuda.get_device_name(0)) if torch and usable else gpu.name
    found = chip_of_device(name) if name else None
    faults = [] if usable else [*_torch_faults(torch, gpu)]
    if torch and usable:
        about["memory"] = float(torch.cuda.get_device_properties(0).total_memory)
        try:
            torch.ones(1, device="cuda").add(1).item()
        except RuntimeError as failure:  # no kernels for so new or so old a GPU, say
            said = f"torch cannot use this GPU ({str(failure).partition(chr(10))[0]})"
            remedy = "install another build, as pytorch.org/get-started/locally says"
            faults.append(f"{said}: end what holds it, or {remedy}")
    if name:
        faults += _gpu_faults(gpu, name, found, others=len(gpu.pids) - own)
    about |= {"note": read_counters(device)[1], "name": name, "faults": tuple(faults)}
    about["power_w"] = found.power if found else None
    return Setup(**msgspec.structs.asdict(gpu) | about)


def machine(device: str = "cpu") -> Machine:
    """Find out what ``"cpu"``, ``"cuda"`` or ``"mps"`` is.

    Examples
    --------
    >>> machine("cpu").kind
    'cpu'
    """
    more: dict[str, Any]
    if known("device", device, DEVICES) != "cuda":
        name, more = _cpu_name(), {"cache": _cpu_cache(), "threads": _threads()}
    else:
        torch = torch_or_none()
        if torch is None or not torch.cuda.is_available():
            raise CourseError(
                "device 'cuda' is not here: use 'cpu', or install torch with CUDA on a "
                "machine with a GPU"
            )
        gpu, name = torch.cuda.get_device_properties(0), torch.cuda.get_device_name(0)
        cache = getattr(gpu, "L2_cache_size", 0)
        more = {"cache": cache, "multiprocessors": gpu.multi_processor_count}
    found = chip_of_device(name)
    # An AMD GPU tells its second level, behind which stands a larger one.
    if found and found.llc and device == "cuda":
        more["cache"] = max(more["cache"], found.llc)
    more["cache"] = float(more["cache"] or (found and found.llc) or DEFAULT_CACHE)
    return Machine(
        name=name, kind=device, key=found.key if found else None, note=_missing(found), **more
    )


def fastest() -> str:
    """The device that torch measures here: a GPU where it can use one, else ``"cpu"``."""
    torch = torch_or_none()
    if torch and torch.cuda.is_available():
        return "cuda"
    return "mps" if torch and torch.backends.mps.is_available() else "cpu"


def torch_or_none() -> Any:
    """The module torch, or `None` where it is not installed."""
    # CUDA counts the fastest GPU first, unless it is told to count as NVML and nvidia-smi do.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    try:
        import torch
    except ImportError:
        return None
    return torch


def cpu_peak(
    cores: int, clock: float, simd_bits: int, *, bits: int = 32, fma_units: int = FMA_UNITS
) -> float:
    """Peak of a CPU by multiplication: cores × lanes × fused multiply-add units × 2 operations ×
    clock, FLOP/s.

    Every factor is an assumption about what the cores (two hyperthreads share one's units) do at
    once and at which `clock`, Hz; print them beside the result.

    Examples
    --------
    >>> cpu_peak(4, 1.6e9, 256) / 1e9
    204.8
    """
    lanes = count("simd_bits", simd_bits) / count("bits", bits)
    units = count("cores", cores) * lanes * count("fma_units", fma_units)
    return units * 2 * single("clock", positive("clock", clock))


def cpu_peak_here(bits: int = 32, clock: float | None = None) -> tuple[float | None, str]:
    """The peak of this CPU for a format of so many bits, at the highest clock that the system tells
    or at this one (Hz), and the assumptions it rests on; `None` where the system does not say
    enough.

    Examples
    --------
    >>> peak, assumed = cpu_peak_here()
    >>> peak is None or "cores" in assumed
    True
    """
    count("bits", bits)
    simd, (told, doubt) = _simd_bits(), _cpu_clock()
    hz = told if clock is None else single("clock", positive("clock", clock))
    if not simd or not hz:
        return (
            None,
            "this system does not tell the width of its vector registers or its clock: "
            "compute a peak with cpu_peak",
        )
    cores = _cores()
    assumed = f"{cores} cores x {simd} bit x {FMA_UNITS} FMA units x {hz / 1e9:.2f} GHz, {doubt}"
    return cpu_peak(cores, hz, simd, bits=bits), assumed


def _cpu_faults(torch: Any) -> Iterator[str]:
    if torch is None:
        yield "torch is not installed, and NumPy lacks most formats: pip install torch"
    elif fastest() == "cpu" and (DRIVER.exists() or AMD_DRIVER.exists()):
        yield from _torch_faults(torch, nvidia())
    if (allowed := _quota()) and allowed < (all_ := len(_cpus())):
        said = f"a control group lets this process use {allowed:g} of {all_} CPUs"
        yield f"{said}: raise the container's limit"
    if sys.platform == "darwin" and _sysctl("sysctl.proc_translated") == "1":
        yield "Python is built for another processor and translated: install one for arm64"
    # The load is that of the whole machine, also where this process may use a part of it.
    with contextlib.suppress(OSError, AttributeError):
        if (busy := os.getloadavg()[0]) > BUSY * (cpus := os.cpu_count() or 1):
            yield (
                f"the CPU was busy in the last minute ({busy:.1f} processes for {cpus} CPUs): end "
                f"other work, or rows will be noisy"
            )


def _torch_faults(torch: Any, gpu: Observed) -> Iterator[str]:
    """What keeps torch from a GPU."""
    if torch is None:
        yield "torch is not installed: pip install -e '.[torch]'"
    if torch and AMD_DRIVER.exists() and not _rocm(torch):
        build = "install a build with ROCm, as pytorch.org/get-started/locally says"
        yield f"an AMD GPU is here, and torch was built without ROCm: {build}"
    elif not gpu.driver and not DRIVER.exists():
        yield (
            f"no GPU is here, or no driver for it ({gpu.note}): choose a machine or a Colab "
            f"runtime with a GPU, or measure the CPU with device 'cpu'"
        )
    elif torch and not torch.version.cuda:
        yield (
            "torch was built without CUDA, and would measure the CPU: install a build with CUDA, "
            "as pytorch.org/get-started/locally says"
        )
    elif torch:
        yield (
            f"torch, built for CUDA {torch.version.cuda}, cannot use the GPU with driver "
            f"{gpu.driver or 'not told'}: update the driver, or install a build for an older CUDA"
        )


def _gpu_faults(gpu: Observed, name: str, one: Accelerator | None, *, others: int) -> Iterator[str]:
    """What would spoil a measurement on a GPU that is there."""
    power = one.power if one else None
    if gpu.note:
        yield f"clock, power and other processes cannot be seen: {gpu.note}"
    if why := _missing(one):
        yield f"{name!r} is {why}"
    if gpu.mig or " MIG " in name:
        yield (
            "MIG is on, and a slice would be held against the whole chip's peak: ask for a whole "
            "GPU, or turn MIG off with nvidia-smi -mig 0"
        )
    if others > 0:
        yield (
            f"other processes compute on the GPU ({others}): end them or wait until they are done, "
            f"nvidia-smi lists them"
        )
    if power and gpu.power_limit_w and gpu.power_limit_w < power - 1:
        yield (
            f"the power limit is {gpu.power_limit_w:g} W, below the datasheet's {power:g} W: "
            f"expect lower clocks, or raise it with nvidia-smi -pl {power:g}"
        )


def _missing(found: Accelerator | None) -> str:
    if found:
        return ""
    said = (
        "not in the spec table under this name: its datasheet peak is left blank; add a file "
        "with device_names to COURSE_CHIPS"
    )
    return "; ".join([said, *(f"passed over {why}" for why in unreadable().values())])


def _rocm(torch: Any) -> str:
    """Which ROCm torch was built for; empty where for none."""
    release = getattr(torch.version, "hip", None)
    return f"ROCm {release}" if release else ""


def _memory() -> float | None:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return None


def _quota() -> float | None:
    """CPUs that a control group of either version allows; `None` where there is no limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            said = " ".join((CGROUPS / name).read_text(encoding="utf-8") for name in names)
            quota, period = map(float, said.split())
            return quota / period if quota > 0 else None
    return None


def _cpus() -> list[int]:
    """The logical CPUs that this process may use."""
    every = range(os.cpu_count() or 1)
    return sorted(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else every)


def _threads() -> int:
    torch = torch_or_none()
    return min(int(torch.get_num_threads()), len(_cpus())) if torch else len(_cpus())


def _cores() -> int:
    siblings = set()
    for cpu in _cpus():
        with contextlib.suppress(OSError):
            siblings.add((CPU / f"cpu{cpu}/topology/thread_siblings_list").read_text())
    return min(_threads(), len(siblings) or int(_sysctl("hw.physicalcpu") or os.cpu_count() or 1))


def _sysctl(name: str) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            ["sysctl", "-n", name], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    return ""


def _cpu_name() -> str:
    return (
        cpuinfo("model name")
        or _sysctl("machdep.cpu.brand_string")
        or platform.processor()
        or platform.machine()
    )


def _simd_bits() -> int:
    flags = cpuinfo("flags").split()
    if "avx512f" in flags:
        return 512
    if "fma" in flags:
        return 256
    return 128 if platform.machine() in ("arm64", "aarch64") else 0


def _cpu_clock() -> tuple[float, str]:
    """Hz that the system tells, 0 where it tells none, and how the true clock may differ."""
    with contextlib.suppress(OSError, ValueError):
        highest = (CPU / "cpu0/cpufreq/cpuinfo_max_freq").read_text(encoding="utf-8")
        return float(highest) * 1e3, "which may drop under load"
    with contextlib.suppress(ValueError):
        return float(_sysctl("hw.cpufrequency_max")), "which may drop under load"
    return (clock_told() or 0.0) * 1e6, "the clock now or a nominal one, which cores may exceed"


def _cpu_cache() -> float:
    if told := os.environ.get(CACHE, ""):
        if not told.isdecimal() or not int(told):
            raise unfit(CACHE, "be a whole number of bytes, such as 33554432, or not be set", told)
        return float(told)
    sizes = []
    for file in (CPU / "cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = file.read_text(encoding="utf-8").strip()
            sizes.append(float(text[:-1]) * {"K": 2**10, "M": 2**20}[text[-1]])
    return min(max(sizes, default=0.0), LARGEST_CACHE * (_memory() or math.inf))
