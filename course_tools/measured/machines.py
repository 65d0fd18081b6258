"""What is odd about a machine, by its measured rows, and how two runs on it compare."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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


class Drift(NamedTuple):
    """One measurement in two runs: how many times as long it took, and where that is more than
    `AGREE` apart, why: "versions", "clock", "others", "noise" or "unknown".
    """

    op: str
    dtype: str
    ratio: float
    why: str


def best(rows: Iterable[Row], *names: str, dtype: str = "") -> Row | None:
    """The fastest of the measured rows of some operators, in one format if it is named."""
    found = [one for one in rows if one.op in names and one.status == "ok" and one.seconds_median]
    own = [one for one in found if dtype in ("", one.dtype)]
    rate = "achieved_tflops" if "matmul" in names else "achieved_bw_gbps"
    return max(own, key=lambda one: getattr(one, rate) or 0.0, default=None)


def doubts(rows: Sequence[Row], chip: Accelerator | None, cores: int) -> dict[str, dict[str, Any]]:
    """What is odd about measured rows, held against the `chip` where it is known."""
    made: dict[str, dict[str, Any]] = {}
    for name in ("waited", "stolen", "limited"):
        most = max(rows, key=lambda row: lost(row).get(name, 0.0), default=None)
        if most and (share := lost(most).get(name, 0.0)) > LOST:
            made[name] = {"share": share, "op": most.op}
    if held := next((row for row in rows if row.throttle), None):
        made["throttled"] = {"why": held.throttle, "clock": 1e6 * (held.clock_mhz or 0)}
    # Of what others disturbed, a rate tells nothing about the machine.
    quiet = [row for row in rows if all(share <= LOST for share in lost(row).values())]
    stream, wide = best(quiet, "copy", "triad"), best(quiet, "matmul", dtype="fp32")
    if stream:
        rate = 1e9 * (stream.achieved_bw_gbps or 0.0)
        if chip and rate < FAR * chip.bandwidth:
            made["stream"] = {"share": rate / chip.bandwidth}
        elif not chip and stream.kind == "cpu" and cores >= CORES and rate < CHANNEL:
            made["channel"] = {"rate": rate, "channel": CHANNEL}
    if wide and wide.kind == "cpu" and wide.mfu and wide.mfu < TUNED:
        made["products"] = {"share": wide.mfu}
    for dtype in ("bf16", "int8", "fp16", "fp8"):
        narrow = best(quiet, "matmul", dtype=dtype)
        if wide and narrow and (narrow.achieved_tflops or 0) < (wide.achieved_tflops or 0):
            share = (narrow.achieved_tflops or 0) / (wide.achieved_tflops or 1)
            made["format"] = {"dtype": dtype, "share": share}
    if noisy := sum(bool(row.noisy) for row in rows):
        made["noisy"] = {"count": noisy, "of": len(rows)}
    return made


def drifts(before: Sequence[Row], after: Sequence[Row]) -> list[Drift]:
    """What two runs both measured, by their medians, and why they do not agree."""
    was, now = ({row.key: row for row in rows} for rows in (before, after))
    made = []
    for one in results.compare(before, after):
        pair = was[one.key], now[one.key]
        why = "" if abs(one.ratio - 1) < AGREE else _why(*pair, one.beyond_noise)
        made.append(Drift(pair[1].op, pair[1].dtype, one.ratio, why))
    return made


def _why(was: Row, now: Row, beyond_noise: bool | None) -> str:
    clocks = [row.clock_mhz or 0.0 for row in (was, now)]
    if was.backend != now.backend:
        return "versions"
    if was.throttle != now.throttle or max(clocks) > (1 + AGREE) * min(clocks) > 0:
        return "clock"
    if any(share > LOST for row in (was, now) for share in lost(row).values()):
        return "others"
    return "noise" if was.noisy or now.noisy or beyond_noise is False else "unknown"
