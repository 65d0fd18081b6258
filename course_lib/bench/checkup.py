"""Measures a whole machine within minutes: streams, products, a decode step, a launch; and says
what is odd about it.

Each row is on disk before the next one is begun, so a run that was killed goes on where it stopped.
"""

import contextlib
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from course_lib import ops
from course_lib.bench import products, record, results
from course_lib.bench.budget import within
from course_lib.bench.device import CGROUPS, DEVICES, Machine, machine
from course_lib.bench.operands import arrays
from course_lib.bench.rows import Row
from course_lib.core import Work
from course_lib.core.checks import known
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator

# By device the formats, widest use first, and the side of the square products.
FORMATS = {"cpu": ("fp32", "bf16", "int8"), "cuda": ("bf16", "fp16", "fp8", "int8", "fp32")}
FORMATS["mps"] = ("fp16", "bf16", "fp32")
SIDES = {"cpu": 1024, "cuda": 8192, "mps": 4096}
# Of the layer whose decode step is measured: its width, and that within its feed-forward network.
LAYER = 2048, 5632
DECODED = {"cpu": "fp32", "cuda": "fp16", "mps": "fp16"}
LAUNCHES = 100  # in a row, between two readings of a clock
LONGEST = 30.0  # seconds that one measurement gets at most
AGREE = 0.05  # two runs agree where their times differ by less

TASKS = Path("/proc/self/task")
STAT = Path("/proc/stat")
# Shares of the time from which it is told that others took it, and of a published rate below which
# a cause is looked for.
LOST, FAR = 0.05, 0.6
# What a product in fp32 reaches of the computed peak of a CPU at least, by any tuned library.
TUNED = 0.15
# byte/s of one channel, DDR4-3200: 8 bytes a transfer. A core alone may not fill one, four can.
CHANNEL, CORES = 8 * 3.2e9, 4


class Doubt(msgspec.Struct, frozen=True):
    """Something odd that the rows show: which, and the figures that show it, in SI units."""

    key: str
    figures: dict[str, float | str] = {}


class Drift(msgspec.Struct, frozen=True):
    """One measurement in two runs: how many times as long it took, and why, where that is more than
    `AGREE` apart.
    """

    op: str
    dtype: str
    shape: str
    ratio: float
    why: str = ""  # "versions", "clock", "others", "noise" or "unknown"


def probes(device: str) -> list[record.Case]:
    """What is measured, what matters most first.

    Examples
    --------
    >>> [case.op for case in probes("cpu")][:3]
    ['copy', 'triad', 'matmul']
    """
    first, *others = FORMATS[known("device", device, DEVICES)]
    side = SIDES[device]
    return [
        *(record.Case(op, "fp32") for op in ("copy", "triad")),
        record.Case("matmul", first, side),
        record.Case("layer", DECODED[device]),
        record.Case("launch", "fp32"),
        *(record.Case("matmul", dtype, side) for dtype in others),
        record.Case("matmul", first, side // 2),
    ]


def layer(device: str, dtype: str, *, budget: float = 10.0, seed: int = 0) -> Row:
    """Measure what a decode step of one transformer layer does with its weights: a vector through
    four matrices, each waiting for the one before, from memory rather than from the cache.

    Examples
    --------
    >>> layer("cpu", "fp8").status
    'unsupported'
    """
    here, library = machine(device), arrays(device)
    D, F = LAYER
    shapes = (D, 3 * D), (D, D), (D, 2 * F), (F, D)
    each = [ops.matmul(1, *shape, x=dtype, w=dtype) for shape in shapes]
    work = Work(sum(one.flops for one in each), sum(one.bytes for one in each), dtype)
    row = _blank(here, library, record.Case("layer", dtype), f"{D}x{F}", work)
    if why := library.supports(dtype):
        return record.not_measured(row, "unsupported", why)

    def prepare() -> record.Ready:
        size = sum(math.prod(shape) for shape in shapes) * itemsize(dtype)
        layers = range(math.ceil(products.CACHES * here.cache / size) + 1)
        weights = [
            [library.operand(*shape, dtype, "random", seed + i) for shape in shapes] for i in layers
        ]
        x = library.operand(1, D, dtype, "random", seed)

        def step(matrices: Sequence[Any]) -> None:
            y = x
            for one in matrices:
                y = library.multiply(y[:, : one.shape[0]], one, dtype)

        return record.Ready([partial(step, matrices) for matrices in weights])

    return record.measure(row, here, library, prepare, budget=budget, seed=seed)


def launch(device: str, *, budget: float = 5.0, seed: int = 0) -> Row:
    """Measure what it takes to ask for work that is next to nothing, so many times in a row.

    Examples
    --------
    >>> launch("cpu", budget=0.1).shape == str(LAUNCHES)
    True
    """
    here, library = machine(device), arrays(device)
    work = Work(0.0, 8.0 * LAUNCHES, "fp32", unit="vector")
    row = _blank(here, library, record.Case("launch", "fp32"), str(LAUNCHES), work)

    def prepare() -> record.Ready:
        to, a = (library.operand(1, 1, "fp32", "random", seed + i) for i in range(2))

        def many() -> None:
            for _ in range(LAUNCHES):
                library.copy(to, a)

        return record.Ready([many])

    return record.measure(row, here, library, prepare, budget=budget, seed=seed)


def _blank(here: Machine, library: Any, case: record.Case, shape: str, work: Work) -> Row:
    how = {"settings": library.settings(case.dtype), "backend": library.label}
    return record.blank(here, case, shape, work, **how)


def measure(case: record.Case, device: str, *, budget: float, seed: int = 0) -> Row:
    """Measure one probe within `budget` s, and what others took meanwhile."""
    how: dict[str, Any] = {"budget": min(budget, LONGEST), "seed": seed}
    before = _taken()
    try:
        if case.op == "matmul":
            row = products.matmul(*(case.size,) * 3, case.dtype, device, **how)
        elif case.op == "layer":
            row = layer(device, case.dtype, **how)
        elif case.op == "launch":
            row = launch(device, **how)
        else:
            row = products.bandwidth(device, case.op, dtype=case.dtype, **how)
    except (RuntimeError, TypeError, ValueError) as failure:  # a build that lacks an operator
        here = machine(device)
        work = Work(1.0, 1.0, case.dtype)
        row = _blank(here, arrays(device), case, "x".join([str(case.size or 1)] * 3), work)
        return record.not_measured(row, "unsupported", type(failure).__name__)
    after = _taken()
    wall, ran, waited, stolen, limited = (b - a for a, b in zip(before, after, strict=True))
    shares = {
        "waited": waited / (ran + waited) if ran > 0 < waited else 0.0,
        "stolen": stolen / wall / (os.cpu_count() or 1),
        "limited": limited / wall,
    }
    told = " ".join(f"{name}={max(0.0, share):.3f}" for name, share in shares.items())
    return msgspec.structs.replace(row, note="; ".join(filter(None, (row.note, told))))


class _Taken(NamedTuple):
    """Seconds so far: by the clock, that our threads ran, that they waited for a core, that a host
    took from this machine, and that a control group held them.
    """

    wall: float
    ran: float
    waited: float
    stolen: float
    limited: float


def _taken() -> _Taken:
    ran = waited = stolen = limited = 0.0
    for file in TASKS.glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError):
            did, stood, _ = map(int, file.read_text(encoding="utf-8").split())
            ran, waited = ran + did / 1e9, waited + stood / 1e9
    with contextlib.suppress(OSError, ValueError, IndexError):
        stolen = int(STAT.read_text(encoding="utf-8").split()[8]) / os.sysconf("SC_CLK_TCK")
    for name, unit in (("cpu.stat", 1e6), ("cpu/cpu.stat", 1e9)):
        with contextlib.suppress(OSError):
            text = (CGROUPS / name).read_text(encoding="utf-8")
            if found := re.search(r"throttled_(?:usec|time) (\d+)", text):
                limited = int(found[1]) / unit
    return _Taken(time.perf_counter(), ran, waited, stolen, limited)


def lost(row: Row) -> dict[str, float]:
    """The shares of a measurement's time that others took, as its note keeps them.

    Examples
    --------
    >>> lost(launch("cpu", budget=0.1))
    {}
    """
    found = re.findall(r"(waited|stolen|limited)=(\d\.\d+)", row.note)
    return {name: float(share) for name, share in found}


def run(
    folder: Path,
    device: str = "cpu",
    *,
    budget: float,
    told: Callable[[Row], str],
    say: Callable[[str], None] = print,
    measure: Callable[..., Row] = measure,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Measure what the last run of today left, or all again in a new file ``run-N.csv`` beside the
    earlier ones; how many probes are left for another run. `told` puts a row into words.
    """
    cases = probes(device)
    earlier = runs(folder)
    file = folder / f"run-{len(earlier) + 1}.csv"
    there: set[tuple[str, str, int]] = set()
    if earlier:
        rows = results.read(earlier[-1])
        found = set(map(_measured, rows))
        if found < {_about(case) for case in cases} and _goes_on(rows, machine(device), device):
            file, there = earlier[-1], found
    left = [case for case in cases if _about(case) not in there]

    def one(case: record.Case, share: float) -> Row:
        return measure(case, device, budget=share)

    return within(left, len(cases), file, one, told, budget=budget, say=say, clock=clock)


def runs(folder: Path) -> list[Path]:
    """The files of all runs in a folder, the oldest first."""
    return sorted(folder.glob("run-*.csv"), key=lambda file: (len(file.name), file.name))


def _goes_on(rows: Sequence[Row], here: Machine, device: str) -> bool:
    """Whether today's machine is that of the rows, with the same libraries."""
    same = here.name, arrays(device).label, f"{datetime.now(UTC):%Y-%m-%d}"
    return all((row.device, row.backend, row.date[:10]) == same for row in rows)


def _about(case: record.Case) -> tuple[str, str, int]:
    return case.op, case.dtype, case.size


def _measured(row: Row) -> tuple[str, str, int]:
    return row.op, row.dtype, row.sizes[0] if row.op == "matmul" else 0


def best(rows: Iterable[Row], *names: str, dtype: str = "") -> Row | None:
    """The fastest of the measured rows of some operators, in one format if it is named."""
    found = [one for one in rows if one.op in names and one.status == "ok" and one.seconds_median]
    own = [one for one in found if dtype in ("", one.dtype)]
    rate = "achieved_tflops" if "matmul" in names else "achieved_bw_gbps"
    return max(own, key=lambda one: getattr(one, rate) or 0.0, default=None)


def doubts(rows: Sequence[Row], chip: Accelerator | None, cores: int) -> list[Doubt]:
    """What is odd about measured rows, held against the `chip` where it is known."""
    made = []
    for name in ("waited", "stolen", "limited"):
        most = max(rows, key=lambda row: lost(row).get(name, 0.0), default=None)
        if most and (share := lost(most).get(name, 0.0)) > LOST:
            made.append(Doubt(name, {"share": share, "op": most.op}))
    if held := next((row for row in rows if row.throttle), None):
        made.append(
            Doubt("throttled", {"why": held.throttle, "clock": 1e6 * (held.clock_mhz or 0)})
        )
    # Of what others disturbed, a rate tells nothing about the machine.
    quiet = [row for row in rows if all(share <= LOST for share in lost(row).values())]
    stream, wide = best(quiet, "copy", "triad"), best(quiet, "matmul", dtype="fp32")
    if stream:
        rate = 1e9 * (stream.achieved_bw_gbps or 0.0)
        if chip and rate < FAR * chip.bandwidth:
            made.append(Doubt("stream", {"share": rate / chip.bandwidth}))
        elif not chip and stream.kind == "cpu" and cores >= CORES and rate < CHANNEL:
            made.append(Doubt("channel", {"rate": rate, "channel": CHANNEL}))
    if wide and wide.kind == "cpu" and wide.mfu and wide.mfu < TUNED:
        made.append(Doubt("products", {"share": wide.mfu}))
    for dtype in ("bf16", "int8", "fp16", "fp8"):
        narrow = best(quiet, "matmul", dtype=dtype)
        if wide and narrow and (narrow.achieved_tflops or 0) < (wide.achieved_tflops or 0):
            share = (narrow.achieved_tflops or 0) / (wide.achieved_tflops or 1)
            made.append(Doubt("format", {"dtype": dtype, "share": share}))
    if noisy := sum(bool(row.noisy) for row in rows):
        made.append(Doubt("noisy", {"count": noisy, "of": len(rows)}))
    return made


def drifts(before: Sequence[Row], after: Sequence[Row]) -> list[Drift]:
    """What two runs both measured, by their medians, and why they do not agree."""
    was, now = ({row.key: row for row in rows} for rows in (before, after))
    made = []
    for one in results.compare(before, after):
        pair = was[one.key], now[one.key]
        why = "" if abs(one.ratio - 1) < AGREE else _why(*pair, one.beyond_noise)
        _, op, dtype, shape, *_ = one.key
        made.append(Drift(op, dtype, shape.partition(" ")[0], one.ratio, why))
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
