"""What is measured on: the device's exact name, its chip in the spec table, its caches, clocks and
power.
"""

import contextlib
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from course_lib.core.checks import (
    CourseError,
    count,
    known,
    nonnegative,
    positive,
    shown,
    single,
    text,
)
from course_lib.measured.results import Manifest
from course_lib.specs import Accelerator, chip_of_device, unreadable

__all__ = [
    "DEFAULT_CACHE",
    "FMA_UNITS",
    "Machine",
    "Observed",
    "Start",
    "cpu_peak",
    "cpu_peak_here",
    "git_commit",
    "machine",
    "manifest",
    "observe",
    "start",
    "torch_or_none",
]

DEFAULT_CACHE = 64 * 2**20
"""Bytes of last-level cache assumed where the system does not say: large enough to be safe for cold
timing.
"""
FMA_UNITS = 2
"""Fused multiply-add units a core is taken to have. Some have one: the peak is then half of what is
printed.
"""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A device and what is known of it.

    Attributes
    ----------
    name, kind : as the runtime reports it; ``"cpu"`` or ``"cuda"``.
    key : of its chip in the spec table; `None` where the table lists no such name.
    cache : byte of last-level cache.
    threads : of a CPU that the arithmetic may use.
    multiprocessors : of a GPU.
    note : what a reader should know about its peak.
    """

    name: str
    kind: str
    key: str | None = None
    cache: float = DEFAULT_CACHE
    threads: int = 1
    multiprocessors: int | None = None
    note: str = ""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What the device's driver said while it worked; `None` or empty where it says nothing."""

    clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: str = ""
    driver: str = ""


def machine(device: str = "cpu") -> Machine:
    """Find out what a device is.

    Parameters
    ----------
    device : ``"cpu"`` or ``"cuda"``.

    Raises
    ------
    CourseError
        If the device is another one, or there is no CUDA device.

    Examples
    --------
    >>> machine("cpu").kind
    'cpu'
    """
    if known("device", device, ("cpu", "cuda")) == "cpu":
        name = _cpu_name()
        found = chip_of_device(name)
        key = found.key if found else None
        return Machine(
            name=name,
            kind="cpu",
            key=key,
            cache=_cpu_cache(),
            threads=_threads(),
            note=_missing(found),
        )
    torch = torch_or_none()
    if torch is None or not torch.cuda.is_available():
        raise CourseError(
            "device 'cuda' is not here: use 'cpu', or install torch with CUDA on a "
            "machine with a GPU"
        )
    properties = torch.cuda.get_device_properties(0)
    name = torch.cuda.get_device_name(0)
    found = chip_of_device(name)
    cache = float(
        getattr(properties, "L2_cache_size", 0)
        or (found.llc if found and found.llc else DEFAULT_CACHE)
    )
    return Machine(
        name=name,
        kind="cuda",
        key=found.key if found else None,
        cache=cache,
        note=_missing(found),
        multiprocessors=int(properties.multi_processor_count),
    )


def torch_or_none() -> Any:
    """The module torch, or `None` where it is not installed.

    Examples
    --------
    >>> torch_or_none() is None or hasattr(torch_or_none(), "matmul")
    True
    """
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

    Every factor is an assumption about what the cores do at once and at which clock; print them
    beside the result.

    Raises
    ------
    CourseError
        If a count is not one positive whole number, or the clock not positive.

    Examples
    --------
    >>> cpu_peak(4, 1.6e9, 256) / 1e9
    204.8
    """
    lanes = count("simd_bits", simd_bits) / count("bits", bits)
    return (
        count("cores", cores)
        * lanes
        * count("fma_units", fma_units)
        * 2
        * single("clock", positive("clock", clock))
    )


def cpu_peak_here(bits: int = 32, clock: float | None = None) -> tuple[float | None, str]:
    """The peak of this CPU and the assumptions it rests on; `None` where the system does not say
    enough.

    Parameters
    ----------
    bits : width of the format.
    clock : Hz; the highest that the system tells when not given.

    Examples
    --------
    >>> peak, assumed = cpu_peak_here()
    >>> peak is None or "cores" in assumed
    True
    """
    count("bits", bits)
    simd, clock = (
        _simd_bits(),
        _cpu_clock() if clock is None else single("clock", positive("clock", clock)),
    )
    if not simd or not clock:
        return (
            None,
            "this system does not tell the width of its vector registers or its clock: "
            "compute a peak with cpu_peak",
        )
    cores = _threads()
    assumed = (
        f"{cores} cores x {simd} bit x {FMA_UNITS} FMA units x {clock / 1e9:.2f} GHz, which "
        f"load may lower"
    )
    return cpu_peak(cores, clock, simd, bits=bits), assumed


def observe(kind: str) -> Observed:
    """Clock, power, temperature and reasons for throttling of an NVIDIA GPU now, through NVML or
    nvidia-smi.

    Examples
    --------
    >>> observe("cpu").power_w is None
    True
    """
    if known("kind", kind, ("cpu", "cuda")) != "cuda":
        clock = _cpu_clock_now()
        return Observed(clock_mhz=clock / 1e6 if clock else None)
    asked = "clocks.sm,power.draw,temperature.gpu,clocks_throttle_reasons.active,driver_version"
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader,nounits", "--id=0"]
        out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
        sm_clock, power, temperature, reasons, driver = (
            field.strip() for field in out.splitlines()[0].split(",")
        )
        return Observed(
            clock_mhz=float(sm_clock),
            power_w=float(power),
            temperature_c=float(temperature),
            throttle=_reasons(int(reasons, 16)),
            driver=driver,
        )
    return Observed()


def _reasons(mask: int) -> str:
    """Why the clock is held down, in words of NVML's bit mask. Idling is no reason."""
    names = {
        0x4: "power cap",
        0x8: "hardware slowdown",
        0x20: "thermal",
        0x40: "hardware thermal",
        0x80: "power brake",
    }
    return ", ".join(name for bit, name in names.items() if mask & bit)


def _missing(found: Accelerator | None) -> str:
    if found:
        return ""
    said = (
        "not in the spec table under this name: its datasheet peak is left blank; add a file "
        "with device_names to COURSE_CHIPS"
    )
    return "; ".join([said, *(f"passed over {why}" for why in unreadable().values())])


def _threads() -> int:
    torch = torch_or_none()
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(int(torch.get_num_threads()), available) if torch is not None else available


def _cpuinfo(field: str) -> str:
    with contextlib.suppress(OSError):
        found = re.search(
            rf"^{field}\s*:\s*(.+)$",
            Path("/proc/cpuinfo").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        return found[1].strip() if found else ""
    return ""


def _sysctl(name: str) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            ["sysctl", "-n", name], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    return ""


def _cpu_name() -> str:
    return (
        _cpuinfo("model name")
        or _sysctl("machdep.cpu.brand_string")
        or platform.processor()
        or platform.machine()
    )


def _simd_bits() -> int:
    flags = _cpuinfo("flags").split()
    if "avx512f" in flags:
        return 512
    if "fma" in flags:
        return 256
    return 128 if platform.machine() in ("arm64", "aarch64") else 0


def _cpu_clock() -> float:
    """Hz at most, or now where the system does not tell the most; 0 where it tells neither."""
    with contextlib.suppress(OSError, ValueError):
        return (
            float(
                Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").read_text(
                    encoding="utf-8"
                )
            )
            * 1e3
        )
    with contextlib.suppress(ValueError):
        return float(_sysctl("hw.cpufrequency_max"))
    return _cpu_clock_now()


def _cpu_clock_now() -> float:
    with contextlib.suppress(ValueError):
        return float(_cpuinfo("cpu MHz")) * 1e6
    return 0.0


def _cpu_cache() -> float:
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = file.read_text(encoding="utf-8").strip()
            sizes.append(float(text[:-1]) * {"K": 2**10, "M": 2**20}[text[-1]])
    return max(sizes, default=DEFAULT_CACHE)


class Start(NamedTuple):
    """When a run began: by the calendar, and by a clock that nobody sets back."""

    at: datetime
    clock: float


def start() -> Start:
    """The beginning of a run, for its manifest.

    Examples
    --------
    >>> start().at.tzname()
    'UTC'
    """
    return Start(datetime.now(UTC), time.monotonic())


def manifest(
    lab: str,
    command: str,
    here: Machine,
    started: Start,
    *,
    seed: int = 0,
    sku: str = "",
    usd_per_hour: float | None = None,
    price_source: str = "",
    host: Mapping[str, str | int | float | bool | None] | None = None,
) -> Manifest:
    """What a run was made of, collected now: commit, versions, device, clocks, duration and cost.

    Parameters
    ----------
    lab, command : which lab, and how it was started.
    here : the device, from `machine`.
    started : from `start`, before the measuring.
    seed : of the operands.
    sku, usd_per_hour, price_source : what was rented, its price, and where the price was printed.
    host : what else is known of the machine.

    Raises
    ------
    CourseError
        If `started` does not come from `start`, or the price is negative.

    Examples
    --------
    >>> manifest("00", "python", machine("cpu"), start()).lab
    '00'
    """
    if not isinstance(here, Machine):
        raise CourseError(f"here must be a Machine, from machine('cpu') (got {shown(here)})")
    if not isinstance(started, Start):
        raise CourseError(
            f"started must be what start() gave at the beginning of the run (got {shown(started)})"
        )
    for name, value in (
        ("lab", lab),
        ("command", command),
        ("sku", sku),
        ("price_source", price_source),
    ):
        text(name, value)
    seed = count("seed", seed, 0)
    price = (
        None
        if usd_per_hour is None
        else single("usd_per_hour", nonnegative("usd_per_hour", usd_per_hour))
    )
    seen, wall = observe(here.kind), time.monotonic() - started.clock
    packages = {}
    for name in ("course-lib", "numpy", "torch", "papermill"):
        with contextlib.suppress(PackageNotFoundError):
            packages[name] = version(name)
    return Manifest(
        lab=lab,
        command=command,
        git_commit=git_commit(),
        seed=seed,
        python=platform.python_version(),
        packages=packages,
        device=here.name,
        driver=seen.driver,
        clocks={"now": seen.clock_mhz} if seen.clock_mhz else {},
        sku=sku,
        usd_per_hour=price,
        price_source=price_source,
        started=started.at.isoformat(timespec="seconds"),
        finished=(started.at + timedelta(seconds=wall)).isoformat(timespec="seconds"),
        wall_seconds=wall,
        cost_usd=wall / 3600 * price if price is not None else None,
        host={
            "system": platform.system(),
            "machine": platform.machine(),
            "threads": here.threads,
            "cache_bytes": here.cache,
            **(host or {}),
        },
    )


def git_commit() -> str:
    """The commit of the book's repository, with a plus where files were changed; empty outside of
    one.

    Examples
    --------
    >>> len(git_commit()) in (0, 40, 41)
    True
    """
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        folder = Path(__file__).parent
        asked = [
            "git",
            "-C",
            str(folder),
            "describe",
            "--always",
            "--abbrev=40",
            "--dirty=+",
            "--exclude=*",
        ]
        return subprocess.run(
            asked, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    return ""
