"""What a device's driver says: how the device is set up, and what it does while it works."""

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from course_lib.core.checks import known

T = TypeVar("T")

CPU = Path("/sys/devices/system/cpu")
CPUINFO = Path("/proc/cpuinfo")
DRIVER = Path("/proc/driver/nvidia/version")
"""Is there where Linux has loaded NVIDIA's driver, whether or not NVML can be asked."""
REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
"""Why the clock is held down, by NVML's bits. Idling is no reason."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What was observed; `None` or empty where nothing was, and `note` where a reader can help
    it.
    """

    clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: str = ""
    driver: str = ""
    note: str = ""


class Nvidia(msgspec.Struct, frozen=True, kw_only=True):
    """How the driver has an NVIDIA GPU set up; `None` or empty where it does not tell, and `note`
    where there is nothing to ask.
    """

    name: str = ""
    driver: str = ""
    power_limit_w: float | None = None
    clock_mhz: float | None = None  # of the multiprocessors, now
    highest_mhz: float | None = None  # and at most
    mig: bool = False  # whether it is cut into slices
    pids: tuple[int, ...] = ()  # of the processes that compute on it, as the driver numbers them
    note: str = ""


def nvidia() -> Nvidia:
    """How the NVIDIA GPU of this machine is set up, by its driver; of several, the one that CUDA
    calls 0.
    """
    return _with_nvml(_settings, lambda why: Nvidia(note=f"the driver was not asked{why}"))


def observe(kind: str) -> Observed:
    """Clock, power, temperature and reasons for throttling now: of an NVIDIA GPU (``"cuda"``)
    through NVML, of a ``"cpu"`` the clock where Linux measures it.

    Examples
    --------
    >>> observe("cpu").power_w is None
    True
    """
    if known("kind", kind, ("cpu", "cuda")) == "cpu":
        # Without either, as in most virtual machines, Linux prints the nominal clock for ever.
        live = "aperfmperf" in cpuinfo("flags").split() or (CPU / "cpu0" / "cpufreq").is_dir()
        return Observed(clock_mhz=clock_told() if live else None)
    return _with_nvml(_asked, lambda why: Observed(note=f"clock and power were not observed{why}"))


def _with_nvml(ask: Callable[[Any], T], otherwise: Callable[[str], T]) -> T:
    """What the driver answers, or what stands for it where it does not, told why."""
    try:
        import pynvml
    except ImportError:
        return otherwise(": pip install nvidia-ml-py")
    try:
        pynvml.nvmlInit()
        try:
            return ask(pynvml)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return otherwise(f", NVML says: {error}")


def _asker(nvml: Any) -> Callable[..., Any]:
    """Asks the GPU that CUDA calls 0 one thing at a time: one tells no power, another no reasons,
    and the rest is worth having.
    """
    # CUDA_VISIBLE_DEVICES hides some from CUDA, and NVML sees all.
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    if first and not first.isdecimal():
        gpu = nvml.nvmlDeviceGetHandleByUUID(first)
    else:
        gpu = nvml.nvmlDeviceGetHandleByIndex(int(first or 0))
    # What an older driver has no function for is an error of another kind.
    silent = nvml.NVMLError, getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)

    def ask(name: str, *about: int) -> Any:
        with contextlib.suppress(*silent):
            return getattr(nvml, f"nvmlDeviceGet{name}")(gpu, *about)
        return None

    return ask


def _scaled(told: float | None, scale: float = 1) -> float | None:
    return None if told is None else float(told) / scale


def _settings(nvml: Any) -> Nvidia:
    ask = _asker(nvml)
    return Nvidia(
        name=str(ask("Name") or ""),
        driver=str(nvml.nvmlSystemGetDriverVersion()),
        power_limit_w=_scaled(ask("EnforcedPowerLimit"), 1e3),
        clock_mhz=_scaled(ask("ClockInfo", nvml.NVML_CLOCK_SM)),
        highest_mhz=_scaled(ask("MaxClockInfo", nvml.NVML_CLOCK_SM)),
        mig=bool((ask("MigMode") or [0])[0]),
        pids=tuple(one.pid for one in ask("ComputeRunningProcesses") or ()),
    )


def _asked(nvml: Any) -> Observed:
    ask = _asker(nvml)
    reasons = int(ask("CurrentClocksThrottleReasons") or 0)
    return Observed(
        clock_mhz=_scaled(ask("ClockInfo", nvml.NVML_CLOCK_SM)),
        power_w=_scaled(ask("PowerUsage"), 1e3),
        temperature_c=_scaled(ask("Temperature", nvml.NVML_TEMPERATURE_GPU)),
        throttle=", ".join(name for bit, name in REASONS.items() if reasons & bit),
        driver=str(nvml.nvmlSystemGetDriverVersion()),
    )


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
