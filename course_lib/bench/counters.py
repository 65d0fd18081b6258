"""Joules that a machine counts by itself: RAPL of its processors, NVML of its NVIDIA GPU."""

from math import inf, isfinite
from pathlib import Path

from course_lib.bench.device import DEVICES, observe
from course_lib.core.checks import known

POWERCAP = Path("/sys/class/powercap")
# A package includes its cores and graphics, and "psys" the packages; memory stands beside them.
APART = ("package", "dram")


def counted(kind: str = "cpu") -> tuple[dict[str, tuple[float, float]], str]:
    """J that the energy counters have counted of ``"cpu"``, all packages and their memory, or of
    ``"cuda"``, the GPU that CUDA calls 0, whichever programs ran, each with the J at which it
    begins again at zero; or why there are no counters.

    Examples
    --------
    >>> before, why = counted()
    >>> bool(before) != bool(why)
    True
    """
    if known("kind", kind, DEVICES) == "cuda":
        seen = observe(kind)
        why = seen.note or "this GPU's driver counts no energy"
        return ({}, why) if seen.joules is None else ({"GPU": (seen.joules, inf)}, "")
    found, why = {}, "this machine shows no energy counters, as most virtual machines"
    for zone in sorted(POWERCAP.glob("intel-rapl:*")):  # so called of AMD's processors, too
        files = (zone / name for name in ("name", "energy_uj", "max_energy_range_uj"))
        try:
            name, now, most = (file.read_text(encoding="utf-8").strip() for file in files)
            if name.startswith(APART):
                found[f"{zone.name} {name}"] = int(now) / 1e6, int(most) / 1e6 or inf
        except PermissionError:
            why = f"only root may read {POWERCAP}/*/energy_uj: sudo chmod a+r them"
        except (OSError, ValueError):
            continue
    return found, "" if found else why


def joules_since(before: dict[str, tuple[float, float]], kind: str = "cpu") -> dict[str, float]:
    """J counted since `before`, by counter; several turns of one are told as less than one."""
    now, _ = counted(kind)
    gained = {at: (now[at][0] - was) % most for at, (was, most) in before.items() if at in now}
    # What ran backward without a turn says nothing.
    return {at: gain for at, gain in gained.items() if isfinite(gain)}
