"""Report and figure of lab 04's kernels: bytes counted, least times on a chip, times taken."""

from collections.abc import Iterable, Sequence
from math import sqrt

from course_lib import ops
from course_lib.bench.rows import Manifest, Row, timed
from course_lib.core import Work, attainable
from course_lib.core import roofline as bounds
from course_lib.core.checks import CourseError
from course_lib.specs import chip, chip_of_device
from course_tools.campaigns.kernels import Step
from course_tools.measured.kernels import Counted, counts, step_of
from course_book.plot import LINES, Plot, roofline, tones
from course_book.reports.frame import missing, page, said
from course_book.text import Table, n, named, t, table

# Three chips of a rack, and one of a desk.
CHIPS = ("a100-sxm-80", "h100-sxm", "b200-sxm", "rtx-4090")


def title(kernel: str, *, causal: bool = False) -> str:
    """What a kernel is called."""
    if kernel == "fused":
        return " + ".join(named(one) for one in ("bias", "gelu", "dropout"))
    return named("causal attention" if causal else "vector addition" if kernel == "add" else kernel)


def report(rows: Sequence[Row], manifest: Manifest) -> str:
    """REPORT.md of lab 04: bytes counted, times taken, and the least times on four chips."""
    return page(rows, manifest, _section)


def counted(found: Iterable[Counted]) -> Table:
    """Bytes that each kernel was counted to move, by its blocks, and that memory must move."""
    cells = []
    for one in found:
        moved = [one.loaded, one.stored, one.loaded_sectors + one.stored_sectors]
        moved += [float(one.work.bytes), float(one.least.bytes)]
        about = [title(one.kernel, causal=one.causal), _sizes(one.sizes)]
        cells.append([*about, *(n(value, "B", digits=4) for value in moved)])
    header = ["kernel", "sizes", "loaded", "stored", "in-sectors", "by-blocks", "bytes-once"]
    return table([t(key) for key in header], cells, "llrrrrr")


def predicted(steps: Iterable[Step], chips: Sequence[str] = CHIPS) -> Table:
    """The least time of each kernel, each array read once, on some chips."""
    on = [chip(key) for key in chips]
    cells = []
    for step in steps:
        about = [title(step.kernel, causal=step.causal), _sizes(step.sizes)]
        times = [n(bounds(step.least, one).lower, "s") for one in on]
        cells.append([*about, n(step.least.intensity, "FLOP/B"), *times])
    header = [t("kernel"), t("sizes"), "I", *(one.short for one in on)]
    return table(header, cells, "ll" + "r" * (len(header) - 2))


def plot(steps: Sequence[Step], key: str, rows: Iterable[Row] = ()) -> Plot:
    """Each kernel on a chip's roofs: hollow at its bound, solid as `rows` measured it."""
    if not steps:
        raise CourseError("steps must hold a kernel at least: take bench.kernels.plan('cuda')")
    one = chip(key)

    def roof(work: Work) -> tuple[float, float]:
        return one.peak(work.dtype, work.unit), one.bandwidth

    marks = {(step.kernel, step.causal): step.least for step in steps}
    ordered = sorted((step.least for step in steps), key=lambda work: (work.unit, work.dtype))
    roofs = {f"{one.short}, {work.dtype}": roof(work) for work in ordered}
    reach = [float(work.intensity) for work in marks.values()]
    base = roofline(roofs, intensity=(min(reach) / 4, max(reach) * 6))
    axes = base.figure.axes[0]
    shown = tones([*roofs, *ops.KERNELS])[len(roofs) :]
    color = {kernel: LINES[tone] for kernel, tone in zip(ops.KERNELS, shown, strict=True)}
    for (kernel, causal), work in marks.items():
        x, rate = float(work.intensity), float(attainable(work.intensity, *roof(work)))
        axes.plot(x, rate, "o", color=color[kernel], markersize=7, fillstyle="none", zorder=4)
        base.name_dot(title(kernel, causal=causal), x, rate / sqrt(2), fontsize=8)
    for row, seconds in timed(rows).values():
        kernel, sizes, _, causal = step_of(row)
        work = ops.blocked(kernel, sizes, causal=causal)
        rate = float(work.flops) / seconds
        axes.plot(float(work.intensity), rate, "o", color=color[kernel], markersize=6, zorder=5)
        axes.set_ylim(bottom=min(axes.get_ylim()[0], rate / 2))
    return base


def _sizes(sizes: Sequence[int]) -> str:
    return " × ".join(n(size) for size in sizes)


def _section(rows: list[Row]) -> list[str]:
    parts = []
    if found := counts(rows):
        parts += [said("counted"), repr(counted(found))]
    if times := timed(rows):
        parts += [said("timed"), _times([row for row, _ in times.values()])]
    return [*parts, *missing(rows, lambda row: f"{row.op}, {row.settings}")]


def _times(rows: Sequence[Row]) -> str:
    on = chip_of_device(rows[0].device)
    cells = []
    for row in rows:
        kernel, sizes, block, causal = step_of(row)
        seconds, least, share = row.seconds_median or 0.0, "–", "–"
        if on is not None:
            lower = float(bounds(ops.blocked(kernel, sizes, causal=causal), on).lower)
            least, share = n(lower, "s"), n(lower / seconds, "%")
        about = [title(kernel, causal=causal), _sizes(sizes), _sizes(block)]
        rates = [n(seconds, "s"), n(1e9 * (row.achieved_bw_gbps or 0.0), "B/s")]
        cells.append([*about, *rates, least, share])
    header = [t("kernel"), t("sizes"), t("block"), said("median"), "B/s", said("predicted")]
    return repr(table([*header, said("of-roof")], cells, "lllrrrr"))
