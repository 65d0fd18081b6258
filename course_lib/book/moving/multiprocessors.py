"""Waves of tiles over the multiprocessors of a chip: the last one takes as long as a full one."""

from math import ceil

from course_lib.book.moving.scene import NARROW, WIDE, Moving, Scene
from course_lib.book.text import n, t
from course_lib.core.checks import CourseError
from course_lib.measured import Row, gaps
from course_lib.specs import Accelerator

__all__ = ["waves"]

ACROSS = 12
"""Multiprocessors in a row of the picture."""
PITCH = 24.0
"""From one multiprocessor to the next, px."""
MOST = 180
"""Multiprocessors for which there is room on a phone."""


def waves(chip: Accelerator) -> Moving:
    """Tiles of a product in waves over the multiprocessors, as `measured.gaps.waves` counts them:
    a full wave, one tile more, half a wave more, and two full ones.

    Parameters
    ----------
    chip : with a published number of multiprocessors.

    Examples
    --------
    >>> from course_lib import chip
    >>> list(waves(chip("a100-sxm-80")).scenes)
    ['108', '109', '162', '216']
    """
    units = int(chip.multiprocessors or 0)
    if not 2 <= units <= MOST:
        raise CourseError(
            f"chip must have 2 to {MOST} multiprocessors, so that each is seen (got {chip.key!r} "
            f"with {chip.multiprocessors})"
        )
    scenes = {
        n(tiles): (_waves(WIDE, chip, units, tiles), _waves(NARROW, chip, units, tiles))
        for tiles in (units, units + 1, units + units // 2, 2 * units)
    }
    return Moving("waves", scenes, label=t("tiles"), start=n(units + 1), still=4)


def _waves(width: float, chip: Accelerator, units: int, many: int) -> Scene:
    tiles, turns, full = _counted(chip, units, many)
    rows = ceil(units / ACROSS)
    low = 26 + PITCH * rows
    scene = Scene(width, low + 24, "", 2.4)
    left, x, y, end = 14.0, 350.0, 40.0, 708.0
    if scene.narrow:
        scene.height = low + 190
        left, x, y, end = 36.0, 16.0, low + 24, 344.0
    busy = []
    for tone, opacity in (("grid", 0.8), ("math", 0.0)):
        for i in range(rows):
            places = min(ACROSS, units - ACROSS * i)
            at = 26 + PITCH * (i + 0.5)
            bar = scene.line(
                left, at, left + PITCH * places - 4, at, line=tone, thick=PITCH - 4,
                dash=f"{PITCH - 4:g} 4", opacity=opacity, **{"stroke-linecap": "butt"},
            )  # fmt: skip
            if tone == "math":
                busy.append(bar)
    named = t("moving-waves-chip").format(chip=chip.short, units=n(units))
    scene.text(left, 14, named, tone="muted", size=12.5)
    scene.text(x, y, t("moving-waves-filled"), tone="muted")
    filled = scene.text(x, y + 32, n(0, "%"), bold=True, size=26)
    taken = []
    scale = (end - x) / units
    for i in range(2):
        top = y + 68 + 46 * i
        there = 1.0 if i < turns else 0.0
        name = t("moving-waves-wave").format(i=n(i + 1))
        scene.text(x, top - 7, name, tone="muted", opacity=there)
        scene.rect(x, top, end - x, 14, tone="grid", opacity=0.6 * there, round=3)
        bar = scene.rect(x, top, 0, 14, tone="math", round=3)
        taken.append((bar, scene.text(end, top - 7, "", anchor="end", bold=True)))
    for wave in range(turns):
        here = min(units, tiles - wave * units)
        says = "moving-waves-full" if here == units else "moving-waves-part"
        begins = t(says).format(i=n(wave + 1), here=n(here), idle=n(units - here))
        if wave:
            scene.step(begins, 2.4)
        else:
            scene.says[0] = begins
        for i, bar in enumerate(busy):
            places = max(0, min(ACROSS, here - ACROSS * i))
            bar.to(x2=left + max(PITCH * places - 4, 0), opacity=0.35 if places else 0)
        taken[wave][1].to(text=f"{n(here)} / {n(units)}")
        scene.step(t("moving-waves-done"), 1.2)
        for i, bar in enumerate(busy):
            bar.to(opacity=1 if here > ACROSS * i else 0)
        taken[wave][0].to(width=here * scale)
        so_far = _counted(chip, units, wave * units + here)
        filled.to(text=n(so_far[2], "%", digits=2))
    key = "moving-waves-end" if full < 1 else "moving-waves-end-full"
    scene.step(t(key).format(tiles=n(tiles), turns=n(turns), full=n(full, "%", digits=2)))
    return scene


def _counted(chip: Accelerator, units: int, tiles: int) -> tuple[int, int, float]:
    """Tiles, waves and how full these are, of a product one tile high."""
    row = Row(
        device=chip.key, kind="cuda", op="matmul", dtype="bf16", timing="warm", data="random",
        status="ok", shape=f"{gaps.TILE}x{gaps.TILE}x{tiles * gaps.TILE}",
    )  # fmt: skip
    return gaps.waves(row, units)
