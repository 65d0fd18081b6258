"""What is measured on: the device's exact name, its chip in the spec table, its cache, and a CPU's
peak by multiplication.
"""

import contextlib
import os
import platform
import subprocess
from typing import Any

import msgspec

from course_lib.bench.driver import CPU, clock_told, cpuinfo
from course_lib.core.checks import CourseError, count, known, positive, single
from course_lib.specs import Accelerator, chip_of_device, unreadable

__all__ = [
    "DEFAULT_CACHE",
    "FMA_UNITS",
    "Machine",
    "cpu_peak",
    "cpu_peak_here",
    "machine",
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


def machine(device: str = "cpu") -> Machine:
    """Find out what a device is.

    Parameters
    ----------
    device : ``"cpu"`` or ``"cuda"``.

    Examples
    --------
    >>> machine("cpu").kind
    'cpu'
    """
    more: dict[str, Any]
    if known("device", device, ("cpu", "cuda")) == "cpu":
        name, more = _cpu_name(), {"cache": _cpu_cache(), "threads": _threads()}
    else:
        torch = torch_or_none()
        if torch is None or not torch.cuda.is_available():
            raise CourseError(
                "device 'cuda' is not here: use 'cpu', or install torch with CUDA on a "
                "machine with a GPU"
            )
        gpu, name = torch.cuda.get_device_properties(0), torch.cuda.get_device_name(0)
        more = {
            "cache": getattr(gpu, "L2_cache_size", 0),
            "multiprocessors": gpu.multi_processor_count,
        }
    found = chip_of_device(name)
    more["cache"] = float(more["cache"] or (found and found.llc) or DEFAULT_CACHE)
    return Machine(
        name=name, kind=device, key=found.key if found else None, note=_missing(found), **more
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

    Parameters
    ----------
    cores : with multiply-add units of their own: two hyperthreads share one's.
    clock : Hz.
    simd_bits, bits : width of a vector register and of the format.
    fma_units : of a core.

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


def _missing(found: Accelerator | None) -> str:
    if found:
        return ""
    said = (
        "not in the spec table under this name: its datasheet peak is left blank; add a file "
        "with device_names to COURSE_CHIPS"
    )
    return "; ".join([said, *(f"passed over {why}" for why in unreadable().values())])


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
        return float(highest) * 1e3, "which load may lower"
    with contextlib.suppress(ValueError):
        return float(_sysctl("hw.cpufrequency_max")), "which load may lower"
    return (clock_told() or 0.0) * 1e6, "the clock now or a nominal one, which cores may exceed"


def _cpu_cache() -> float:
    sizes = []
    for file in (CPU / "cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = file.read_text(encoding="utf-8").strip()
            sizes.append(float(text[:-1]) * {"K": 2**10, "M": 2**20}[text[-1]])
    return max(sizes, default=0.0)
