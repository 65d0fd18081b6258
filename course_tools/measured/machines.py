"""What is odd about a machine, by its measured rows, and how two runs on it compare."""

from collections.abc import Iterable, Sequence
from typing import Any

from course_lib.bench import results
from course_lib.bench.others import lost
from course_lib.bench.rows import Row
from course_lib.specs import Accelerator

# Two runs agree where their times differ by less.
AGREE = 0.05
# Shares of the time from which it is told that others took it, and of a published bandwidth below
# which a cause is looked for.
LOST, FAR = 0.05, 0.6
# What a product in fp32 reaches of the computed peak of a CPU at least, by any tuned library.
TUNED = 0.15
# byte/s of one channel, DDR4-3200: 8 bytes a transfer. A core alone may not fill one, four can.
CHANNEL, CORES = 8 * 3.2e9, 4


def best(rows: Iterable[Row], *names: str, dtype: str = "") -> Row | None:
    """The fastest of the measured rows of some operators, in one format if it is named."""
    found = [one for one in rows if one.op in names and one.status == "ok" and one.seconds_median]
    own = [one for one in found if dtype in ("", one.dtype)]
    rate = "achieved_tflops" if "matmul" in names else "achieved_bw_gbps"
    return max(own, key=lambda one: getattr(one, rate) or 0.0, default=None)


def doubts(rows: Sequence[Row], chip: Accelerator | None, cores: int) -> dict[str, dict[str, Any]]:
    """What is odd about measured rows, each with figures and their units; `chip` where known."""
    made: dict[str, dict[str, Any]] = {}
    for name in ("waited", "stolen"):
        most = max(rows, key=lambda row: lost(row).get(name, 0.0), default=None)
        if most and (share := lost(most).get(name, 0.0)) > LOST:
            made[name] = {"share": (share, "%"), "op": most.op}
    if held := next((row for row in rows if row.throttle), None):
        made["throttled"] = {"why": held.throttle, "clock": (1e6 * (held.clock_mhz or 0), "Hz")}
    # Of what others disturbed, a rate tells nothing about the machine.
    quiet = [row for row in rows if all(share <= LOST for share in lost(row).values())]
    stream, wide = best(quiet, "copy", "triad"), best(quiet, "matmul", dtype="fp32")
    if stream:
        rate = 1e9 * (stream.achieved_bw_gbps or 0.0)
        if chip and rate < FAR * chip.bandwidth:
            made["stream"] = {"share": (rate / chip.bandwidth, "%")}
        elif not chip and stream.kind == "cpu" and cores >= CORES and rate < CHANNEL:
            made["channel"] = {"rate": (rate, "B/s"), "channel": (CHANNEL, "B/s")}
    if wide and wide.kind == "cpu" and wide.mfu and wide.mfu < TUNED:
        made["products"] = {"share": (wide.mfu, "%")}
    return made


def drifts(before: Sequence[Row], after: Sequence[Row]) -> list[dict[str, Any]]:
    """What two runs both measured: how many times as long it took, and where that is more than
    `AGREE` apart, why: "versions", "clock", "others", "noise" or "unknown".
    """
    was, now = ({row.key: row for row in rows} for rows in (before, after))
    made = []
    for one in results.compare(before, after):
        old, new = was[one.key], now[one.key]
        clocks = [row.clock_mhz or 0.0 for row in (old, new)]
        why = {
            "": abs(one.ratio - 1) < AGREE,
            "versions": old.backend != new.backend,
            "clock": old.throttle != new.throttle or max(clocks) > (1 + AGREE) * min(clocks) > 0,
            "others": max([0.0, *lost(old).values(), *lost(new).values()]) > LOST,
            "noise": old.noisy or new.noisy or one.beyond_noise is False,
            "unknown": True,
        }
        first = next(reason for reason, holds in why.items() if holds)
        made.append({"op": new.op, "dtype": new.dtype, "ratio": one.ratio, "why": first})
    return made
