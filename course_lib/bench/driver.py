"""What a device's driver says while the device works."""

import contextlib
import re
from pathlib import Path
from typing import Any

import msgspec

from course_lib.core.checks import known

__all__ = ["Observed", "observe"]

CPU = Path("/sys/devices/system/cpu")
CPUINFO = Path("/proc/cpuinfo")
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


def observe(kind: str) -> Observed:
    """Clock, power, temperature and reasons for throttling now: of an NVIDIA GPU through NVML, of a
    CPU the clock where Linux measures it.

    Parameters
    ----------
    kind : ``"cpu"`` or ``"cuda"``.

    Examples
    --------
    >>> observe("cpu").power_w is None
    True
    """
    if known("kind", kind, ("cpu", "cuda")) == "cpu":
        return Observed(clock_mhz=clock_told() if _live() else None)
    try:
        import pynvml
    except ImportError:
        return Observed(note="clock and power were not observed: pip install nvidia-ml-py")
    try:
        pynvml.nvmlInit()
        try:
            return _asked(pynvml)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return Observed(note=f"clock and power were not observed, NVML says: {error}")


def _asked(nvml: Any) -> Observed:
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)

    def ask(name: str, *about: int) -> float | None:
        # One GPU tells no power, another no reasons: the rest is worth having.
        with contextlib.suppress(nvml.NVMLError):
            return float(getattr(nvml, f"nvmlDeviceGet{name}")(gpu, *about))
        return None

    power, reasons = ask("PowerUsage"), int(ask("CurrentClocksThrottleReasons") or 0)
    return Observed(
        clock_mhz=ask("ClockInfo", nvml.NVML_CLOCK_SM),
        power_w=None if power is None else power / 1e3,
        temperature_c=ask("Temperature", nvml.NVML_TEMPERATURE_GPU),
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


def _live() -> bool:
    # Without either, as in most virtual machines, Linux prints the nominal clock for ever.
    return "aperfmperf" in cpuinfo("flags").split() or (CPU / "cpu0" / "cpufreq").is_dir()
