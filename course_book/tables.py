"""The spec tables as the book's pages show them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from course_lib import specs
from course_lib.specs.provenance import UNITS
from course_lib.specs.ranges import PARTS
from course_tools.counting.sources import configurations
from course_book.text import Markdown, Shown, Span, Table, english, n, named, plain, t, table
from course_book.text.markdown import joined

# The formats of the matrix unit that the table of peaks has columns for.
MATRIX = ("fp64", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "fp4")
DISPUTED = "†"
# Figures that have a word of the page's language; others keep the name of the spec files.
_NAMED = (
    "bandwidth memory llc scratchpad power clock max_clock multiprocessors special lanes "
    "integer_lanes warps blocks registers shared_memory block_memory latency matrix vector host "
    "node node-chips"
)


class Cards(Table):
    """A table whose rows a phone shows as cards, with the last column folded."""


class Folded(Shown):
    """Tables, each with its name and its place on the page. A page may fold each under its name."""

    def __init__(self, tables: Sequence[tuple[str, str, Table]]) -> None:
        self.tables = tables

    def __repr__(self) -> str:
        return "\n\n".join(f"**{plain(name)}**\n\n{shown!r}" for name, _, shown in self.tables)


class Downloads(Shown):
    """Files that a page offers: their texts or bytes by name."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self.files = files

    def __repr__(self) -> str:
        return ", ".join(self.files)


def cards(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> Cards:
    """A `table` as cards."""
    made = table(header, rows, align)
    return Cards(made.header, made.rows, made.align)


def chip_table() -> Table:
    """Every chip: memory, bandwidth, dense bf16 (fp16 where there is none), ridge, cache and power.

    Examples
    --------
    >>> chip_table().rows[0][0]
    'A100-40'
    """
    header = _header(
        "chip vendor year memory/GiB bandwidth/GB/s ridge-point/FLOP/B cache/MiB power/W"
    )
    header.insert(5, "bf16 (TFLOP/s)")
    rows = []
    for one in map(specs.chip, specs.chips()):
        dtype = next((d for d in ("bf16", "fp16") if f"matrix.{d}" in one.peaks), None)
        name = f"matrix.{dtype}" if dtype else "vector.fp32"
        other = "" if dtype == "bf16" else f" ({dtype or 'fp32'})"
        peak = plain(_linked(one, name, "TFLOP/s"), other)
        ridge = n(one.peaks[name] / one.bandwidth)
        about = [Span(plain(one.short), to=f"#{_place(one)}"), one.vendor, str(one.year)]
        memory = [_linked(one, "memory", "GiB"), _linked(one, "bandwidth", "GB/s")]
        rest = [_linked(one, "llc", "MiB"), _linked(one, "power", "W")]
        rows.append([*about, *memory, peak, ridge, *rest])
    return table(header, rows, "ll" + "r" * (len(header) - 2))


def peak_table() -> Table:
    """Dense peaks in TFLOP/s or TOP/s: the matrix unit by format, and the vector unit in fp32."""
    names = [*(f"matrix.{dtype}" for dtype in MATRIX), "vector.fp32"]
    rows = [
        [one.short, *(_linked(one, name, "TFLOP/s") for name in names)]
        for one in map(specs.chip, specs.chips())
    ]
    return table([t("chip"), *MATRIX, f"{t('vector')} fp32"], rows)


def link_table() -> Table:
    """Links between chips: one link in one direction, in both together, and all of a chip's."""
    header = _header(
        "chip link count one-direction/GB/s both-directions/GB/s all-one-direction/GB/s "
        "host-link/GB/s"
    )
    rows = []
    for one in map(specs.chip, specs.chips()):
        host = _linked(one, "host.per_direction", "GB/s") if one.host else ""
        for key, link in one.links.items():
            total = n(link.total_per_direction / UNITS["GB/s"][1], digits=4)
            ways = ("per_direction", "bidirectional")
            each = [_linked(one, f"{key}.{way}", "GB/s") for way in ways]
            rows.append([one.short, named(link.name), str(link.count), *each, total, host])
        if not one.links and one.host:
            rows.append([one.short, *[""] * 5, host])
    return table(header, rows, "ll" + "r" * 5)


def figure_tables() -> Folded:
    """Every figure of every chip with its status, sources, and what other sources print."""
    header = _header("figure value status sources")
    found = []
    for one in map(specs.chip, specs.chips()):
        rows = [_figure_cells(one, name, figure) for name, figure in one.figures.items()]
        found.append((named(one.name), _place(one), table(header, rows, "lrll")))
    return Folded(found)


def dispute_table(page: str = "") -> Cards:
    """Figures that sources disagree about, ours and theirs; `page` holds `figure_tables`."""
    rows = [
        [
            one.short,
            figure_name(name),
            Span(plain(_printed(f)), to=f"{page}#{_place(one, name)}"),
            plain(_others(one, f), ". ", english(f.note or "")),
        ]
        for one in map(specs.chip, specs.chips())
        for name, f in one.figures.items()
        if f.status == "disputed"
    ]
    return cards(_header("chip figure value others-print"), rows, "llrl")


def price_table() -> Table:
    """Rental prices with provider and date."""
    rows = []
    for p in specs.prices():
        about = [specs.chip(p.chip).short, p.provider, n(p.usd_per_hour, digits=4), p.date]
        rows.append([*about, _source(specs.sources()[p.source]), named(p.note)])
    return table(_header("chip provider price date source note"), rows, "llrlll")


def every_model() -> list[Any]:
    """Models with sizes and those that are traced, by vendor, the latest first."""
    every = [*map(specs.model, specs.listed_models()), *configurations().values()]
    latest = {one.vendor: -one.year for one in sorted(every, key=lambda one: one.year)}
    by = {one.key: (latest[one.vendor], one.vendor, -one.year, one.parameters) for one in every}
    return sorted(every, key=lambda one: by[one.key])


def model_table() -> Table:
    """Every model: its shape, its computed parameters, and how far the published are from them."""
    header = _header(
        "model year parameters active-parameters published difference layers width heads mlp "
        "vocabulary context"
    )
    rows = []
    for m in every_model():
        published = getattr(m.published, "si", m.published)
        counted = [n(value) for value in (m.parameters, m.active_parameters, published)]
        counted.append(n(m.parameters / published - 1, "%", digits=2))
        shape = [""] * 6
        if isinstance(m, specs.Transformer):
            heads = f"{m.heads} ({m.kv_heads})"
            shape = [str(m.layers), n(m.width), heads, *map(n, (m.ffn, m.vocab, m.context))]
        rows.append([named(m.name), str(m.year), *counted, *shape])
    return table(header, rows)


def source_table() -> Cards:
    """Every source of the tables: who printed it, where, and what of it could not be read again."""
    rows = [
        [_source(source), english(source.title), english(source.note or "")]
        for source in specs.sources().values()
    ]
    return cards(_header("source title note"), rows, "lll")


def figure_name(name: str) -> str:
    """A figure's name in words of the page: ``"matrix.bf16"`` is *matrix bf16*."""
    first, _, rest = name.replace("node.chips", "node-chips").partition(".")
    ways = {"per_direction": t("one-direction"), "bidirectional": t("both-directions")}
    shown = t(first.replace("_", "-")) if first in {*_NAMED.split(), *PARTS} else first
    return f"{shown}, {ways[rest]}" if rest in ways else f"{shown} {rest}".strip()


def _header(names: str) -> list[str]:
    """Words by their keys, each with the unit of its column."""
    parted = (name.partition("/") for name in names.split())
    return [t(key) + (f" ({unit})" if unit else "") for key, _, unit in parted]


def _printed(figure: specs.Figure) -> str:
    """The value as its source prints it, in the page's way of writing numbers."""
    whole = float(figure.value).is_integer()
    value = n(int(figure.value)) if whole else n(figure.value, digits=6)
    return value if figure.unit == "1" else f"{value} {figure.unit}"


def _figure_cells(one: specs.Accelerator, name: str, f: specs.Figure) -> list[str]:
    said = [Markdown(", ".join(_source(one.sources[id_]) for id_ in f.sources))]
    if f.conflicts:
        said.append(plain(f"{t('others-print')}: ", _others(one, f)))
    if f.sparse is not None:
        said.append(plain(f"{t('sparse-headline')}: {n(f.sparse)}"))
    said += [english(text.rstrip(".")) for text in (f.conditions, f.note) if text]
    place = Span(plain(figure_name(name)), id=_place(one, name))
    return [place, _printed(f), t(f.status), plain(*joined(". ", said), ".")]


def _others(one: specs.Accelerator, f: specs.Figure) -> Markdown:
    said: Iterable[str] = (
        plain(f"{n(c.value, digits=6)} {c.unit} (", _source(one.sources[c.source]), ")")
        for c in f.conflicts
    )
    return Markdown(", ".join(said))


def _source(source: specs.Source) -> Markdown:
    if not (source.URL and source.URL.startswith(("https://", "http://"))):
        return plain(source.id)
    address = re.sub(r"[\s()<>\\]", lambda match: f"%{ord(match[0]):02X}", source.URL)
    return Markdown(f"[{plain(source.id)}]({address})")


def _linked(one: specs.Accelerator, name: str, unit: str) -> str:
    """A chip's figure in its column's unit, linked to its source, marked where disputed."""
    figure = one.figures.get(name)
    if not figure:
        return ""
    text = n(figure.si / UNITS[unit][1], digits=4)
    link = Span(plain(text), to=f"#{_place(one, name)}", value=f"{figure.si:.12g}")
    return plain(link, DISPUTED if figure.status == "disputed" else "")


def _place(one: specs.Accelerator, name: str = "") -> str:
    """Where a chip's figures, or one of them, stand."""
    return re.sub(r"[^a-z0-9-]", "-", f"spec-{one.key}-{name}".rstrip("-"))
