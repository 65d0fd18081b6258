"""What all reports share: words, heading, a section for each device, a roofline's dots."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from course_lib.bench.rows import Manifest, Row
from course_lib.core.checks import known
from course_lib.specs import load_toml
from course_book.files import DATA
from course_book.text import language, n, plain


def said(key: str, **figures: str) -> str:
    """What a report says for a key of `data/reports.<language>.toml`, with its figures."""
    texts = _texts(language())
    return texts[known("key", key, texts)].format(**figures)


@cache
def _texts(lang: str) -> Mapping[str, str]:
    found: Mapping[str, str] = load_toml(DATA / f"reports.{lang}.toml", dict)
    return found


def number(value: float | None, unit: str, scale: float = 1) -> str:
    """A quantity as text, or that it was not measured."""
    return said("absent") if value is None else n(value * scale, unit)


def opening(manifest: Manifest) -> list[str]:
    """How every report begins: the lab, and how it was run."""
    took, cost = number(manifest.wall_seconds, "s"), number(manifest.cost_usd, "USD")
    started = manifest.started or said("unrecorded")
    run = said("started", command=manifest.command, started=started, took=took, cost=cost)
    return [f"# {manifest.lab}", run]


def page(
    rows: Iterable[Row],
    manifest: Manifest,
    section: Callable[[list[Row]], Iterable[str]],
    heading: Callable[[Row], str] = lambda row: plain(row.device),
) -> str:
    """REPORT.md: what was run, and a section for all rows of one heading, or device."""
    parts = opening(manifest)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(heading(row), []).append(row)
    for title, here in groups.items():
        parts += [f"## {title}", *section(here)]
    return "\n\n".join(parts if groups else [*parts, said("nothing")]) + "\n"


def missing(rows: Iterable[Row], name: Callable[[Row], str]) -> list[str]:
    """A sentence for each measurement that came to nothing in the end."""
    last = {row.key: row for row in rows}.values()
    return [f"{name(row)}: {said(row.status)}, {row.note}." for row in last if row.status != "ok"]


def dots(rows: Iterable[Row]) -> list[tuple[Row, float, float]]:
    """Rows that have a place on a roofline, their intensity in FLOP/B and their FLOP/s."""
    return [
        (row, row.intensity, row.achieved_tflops * 1e12)
        for row in rows
        if row.intensity and row.achieved_tflops
    ]
