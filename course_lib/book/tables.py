"""The spec tables: as rows for files and commands, and as the tables that the book's pages show."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from course_lib.book.text import Markdown, Shown, Span, Table, n, plain, t, table
from course_lib.core.checks import known
from course_lib.specs.accelerators import Accelerator, chip, chips
from course_lib.specs.configurations import Transformer, model, models
from course_lib.specs.provenance import DATA, Figure, Source, sources

__all__ = [
    "DISPUTED",
    "MATRIX",
    "Cards",
    "ChipTables",
    "Downloads",
    "Price",
    "as_csv",
    "as_json",
    "chip_rows",
    "chip_table",
    "dispute_table",
    "figure_name",
    "figure_rows",
    "figure_tables",
    "link_table",
    "model_rows",
    "model_table",
    "peak_table",
    "price_table",
    "prices",
    "source_table",
]

MATRIX = ("fp64", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "fp4")
"""The formats of the matrix unit that the table of peaks has columns for."""
DISPUTED = "†"
_OWN_UNITS = {"TFLOP/s": 1e12, "TB/s": 1e12, "GB/s": 1e9}


class Price(msgspec.Struct, frozen=True):
    """What an hour of a chip cost to rent, and when: prices age."""

    chip: str
    provider: str
    usd_per_hour: float
    date: str
    source: str
    note: str = ""


def prices() -> list[Price]:
    """Rental prices of `data/prices.csv`, the newest last.

    Examples
    --------
    >>> prices()[0].date
    '2023-08-16'
    """
    with (DATA / "prices.csv").open(encoding="utf-8", newline="") as file:
        found = [msgspec.convert(row, Price, strict=False) for row in csv.DictReader(file)]
    for price in found:
        known("chip", price.chip, chips(), "data/prices.csv")
        known("source", price.source, sources(), "data/prices.csv")
    return sorted(found, key=lambda price: price.date)


def chip_rows(keys: Iterable[str] | None = None) -> list[dict[str, str | int | float | None]]:
    """One row a chip in SI units, with the same columns for all; what is unpublished is `None`.

    Examples
    --------
    >>> row = chip_rows(["h100-sxm"])[0]
    >>> row["bandwidth"], row["matrix.bf16"], row["matrix.int4"]
    (3350000000000.0, 989400000000000.0, None)
    """
    found = [chip(key) for key in (chips() if keys is None else keys)]
    peaks = sorted({name for key in chips() for name in chip(key).peaks})
    plain = (
        "memory",
        "bandwidth",
        "llc",
        "scratchpad",
        "power",
        "clock",
        "max_clock",
        "multiprocessors",
        "lanes",
        "integer_lanes",
    )
    return [
        {
            "key": one.key,
            "name": one.name,
            "vendor": one.vendor,
            "year": one.year,
            **{name: getattr(one, name) for name in plain},
            **{name: one.peaks.get(name) for name in peaks},
            "links": "; ".join(f"{link.count} x {link.name}" for link in one.links.values())
            or None,
            "links_per_direction": sum(link.total_per_direction for link in one.links.values())
            or None,
            "host_per_direction": one.host.per_direction if one.host else None,
            "node_per_direction": one.node.ports.total_per_direction if one.node else None,
        }
        for one in found
    ]


def figure_rows(one: Accelerator) -> list[dict[str, Any]]:
    """One row for each figure of a chip: as printed, in SI units, with status, sources and what
    others print.

    Examples
    --------
    >>> figure_rows(chip("t4"))[0]["figure"]
    'bandwidth'
    """
    return [
        {"chip": one.key, "figure": name, "si": f.si, **msgspec.to_builtins(f)}
        for name, f in one.figures.items()
    ]


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    r"""Rows as CSV; an unpublished figure is an empty field.

    Examples
    --------
    >>> as_csv([{"chip": "t4", "fp8": None}])
    'chip,fp8\nt4,\n'
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_json(keys: Iterable[str] | None = None) -> str:
    """Chips with every figure's provenance as JSON, and the sources that they cite.

    Examples
    --------
    >>> as_json(["t4"])[:22]
    '{"chips":[{"figures":['
    """
    found = [chip(key) for key in (chips() if keys is None else keys)]
    cited = {id_: source for one in found for id_, source in one.sources.items()}
    body = {
        "chips": [{"key": one.key, "name": one.name, "figures": figure_rows(one)} for one in found],
        "sources": cited,
    }
    return msgspec.json.encode(body, order="sorted").decode()


def model_rows() -> list[dict[str, str | int | float]]:
    """One row a model: its configuration, its computed parameters and the published count.

    Examples
    --------
    >>> model_rows()[0]["key"]
    'bert-large'
    """
    found = [model(key) for key in models()]
    return [
        {
            "key": m.key,
            "name": m.name,
            "vendor": m.vendor,
            "year": m.year,
            "parameters": m.parameters,
            "active_parameters": m.active_parameters,
            "published": m.published.si,
        }
        for m in found
    ]


def chip_table() -> Table:
    """Every chip: memory, bandwidth, dense bf16 (fp16 where there is none), ridge, cache and power.

    Examples
    --------
    >>> chip_table().rows[0][0]
    'A100-40'
    """
    header = [
        t("chip"),
        t("vendor"),
        t("year"),
        t("memory"),
        t("bandwidth"),
        "bf16",
        t("ridge-point"),
        t("cache"),
        t("power"),
    ]
    rows = []
    for one in map(chip, chips()):
        dtype = next((d for d in ("bf16", "fp16") if f"matrix.{d}" in one.peaks), None)
        name = f"matrix.{dtype}" if dtype else "vector.fp32"
        peak = plain(_linked(one, name), "" if dtype == "bf16" else f" ({dtype or 'fp32'})")
        ridge = n(one.peaks[name] / one.bandwidth)
        rest = [_linked(one, "llc"), _linked(one, "power")]
        rows.append(
            [
                Span(plain(one.short), to=f"#{_place(one)}"),
                one.vendor,
                str(one.year),
                *(_linked(one, x) for x in ("memory", "bandwidth")),
                peak,
                ridge,
                *rest,
            ]
        )
    return table(header, rows, "ll" + "r" * (len(header) - 2))


def peak_table() -> Table:
    """Dense peaks in TFLOP/s or TOP/s: the matrix unit by format, and the vector unit in fp32.

    Examples
    --------
    >>> peak_table().rows[0][0]
    'A100-40'
    """
    header = [t("chip"), *MATRIX, f"{t('vector')} fp32"]
    rows = []
    for one in map(chip, chips()):
        names = [*(f"matrix.{dtype}" for dtype in MATRIX), "vector.fp32"]
        rows.append([one.short, *(_linked(one, name, unit="TFLOP/s") for name in names)])
    return table(header, rows)


def link_table() -> Table:
    """Links between chips: one link in one direction, in both together, and all of a chip's.

    Examples
    --------
    >>> link_table().rows[0][0]
    'A100-40'
    """
    header = [
        t("chip"),
        t("link"),
        t("count"),
        t("one-direction"),
        t("both-directions"),
        t("all-one-direction"),
        t("host-link"),
    ]
    rows = []
    for one in map(chip, chips()):
        host = _linked(one, "host.per_direction") if one.host else ""
        for key, link in one.links.items():
            total = n(link.total_per_direction, "B/s")
            each = [_linked(one, f"{key}.{way}") for way in ("per_direction", "bidirectional")]
            rows.append([one.short, link.name, str(link.count), *each, total, host])
        if not one.links and one.host:
            rows.append([one.short, "", "", "", "", "", host])
    return table(header, rows, "ll" + "r" * 5)


def figure_tables() -> "ChipTables":
    """Every figure of every chip with its status, sources, and what other sources print.

    Examples
    --------
    >>> figure_tables().chips[0][:2]
    ('NVIDIA A100 SXM4 40 GB', 'spec-a100-sxm-40')
    """
    header = [t("figure"), t("value"), t("status"), t("sources")]
    found = []
    for one in map(chip, chips()):
        rows = [[*_figure_cells(one, name, figure)] for name, figure in one.figures.items()]
        found.append((one.name, _place(one), table(header, rows, "lrll")))
    return ChipTables(found)


def dispute_table(page: str = "") -> Table:
    """Every figure that sources disagree about: ours, theirs, and why we keep ours.

    Parameters
    ----------
    page : the page that holds `figure_tables`, if it is another one.

    Examples
    --------
    >>> dispute_table().rows[0][0]
    'A100-40'
    """
    header = [t("chip"), t("figure"), t("value"), t("others-print")]
    rows = []
    for one in map(chip, chips()):
        for name, f in one.figures.items():
            if f.status == "disputed":
                rows.append(
                    [
                        one.short,
                        figure_name(name),
                        Span(plain(_printed(f)), to=f"{page}#{_place(one, name)}"),
                        plain(_others(one, f), f". {f.note}"),
                    ]
                )
    return _cards(header, rows, "llrl")


def price_table() -> Table:
    """Rental prices with provider and date.

    Examples
    --------
    >>> price_table().rows[0][:4]
    ['A100-40', 'Lambda', '1.1', '2023-08-16']
    """
    header = [t("chip"), t("provider"), t("price"), t("date"), t("source"), t("note")]
    rows = [
        [
            chip(p.chip).short,
            p.provider,
            n(p.usd_per_hour, digits=4),
            p.date,
            _source(sources()[p.source]),
            p.note,
        ]
        for p in prices()
    ]
    return table(header, rows, "llrlll")


def model_table() -> Table:
    """Every model: its shape, its computed parameters, and how far the published count is from
    them.

    Examples
    --------
    >>> model_table().rows[0][0]
    'BERT-large, uncased'
    """
    header = [
        t("model"),
        t("year"),
        t("parameters"),
        t("active-parameters"),
        t("published"),
        t("difference"),
        t("layers"),
        t("width"),
        t("heads"),
        t("mlp"),
        t("vocabulary"),
        t("context"),
    ]
    rows = []
    for m in map(model, models()):
        counted = [
            n(m.parameters),
            n(m.active_parameters),
            n(m.published.si),
            n(m.parameters / m.published.si - 1, "%", digits=2),
        ]
        shape = [""] * 6
        if isinstance(m, Transformer):
            shape = [
                str(m.layers),
                n(m.width),
                f"{m.heads} ({m.kv_heads})",
                n(m.ffn),
                n(m.vocab),
                n(m.context),
            ]
        rows.append([m.name, str(m.year), *counted, *shape])
    return table(header, rows)


def source_table() -> Table:
    """Every source of the tables: who printed it, where, and what of it could not be read again.

    Examples
    --------
    >>> len(source_table().rows) == len(sources())
    True
    """
    header = [t("source"), t("title"), t("note")]
    rows = [[_source(source), source.title, source.note or ""] for source in sources().values()]
    return _cards(header, rows, "lll")


def _cards(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> "Cards":
    made = table(header, rows, align)
    return Cards(made.header, made.rows, made.align)


class Cards(Table):
    """A table whose rows a phone shows as cards, with the last column folded."""


class ChipTables(Shown):
    """A table for each chip: its name, its place on the page and the table. A page may fold each
    under the chip's name.
    """

    def __init__(self, chips: Sequence[tuple[str, str, Table]]) -> None:
        self.chips = chips

    def __repr__(self) -> str:
        return "\n\n".join(f"**{plain(name)}**\n\n{shown!r}" for name, _, shown in self.chips)


class Downloads(Shown):
    """Files that a page offers: their texts by name."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def __repr__(self) -> str:
        return ", ".join(self.files)


def figure_name(name: str) -> str:
    """A figure's name in words of the page: ``"matrix.bf16"`` is *matrix bf16*.

    Examples
    --------
    >>> figure_name("matrix.bf16"), figure_name("nvlink.per_direction")
    ('matrix bf16', 'nvlink, one direction')
    """
    first, _, rest = name.partition(".")
    ways = {"per_direction": t("one-direction"), "bidirectional": t("both-directions")}
    known_words = {
        "bandwidth",
        "memory",
        "llc",
        "scratchpad",
        "power",
        "clock",
        "max_clock",
        "multiprocessors",
        "special",
        "lanes",
        "integer_lanes",
        "matrix",
        "vector",
        "host",
        "node",
    }
    shown = t(first.replace("_", "-")) if first in known_words else first
    return f"{shown}, {ways[rest]}" if rest in ways else f"{shown} {rest}".strip()


def _printed(figure: Figure) -> str:
    """The value as its source prints it, in the page's way of writing numbers."""
    value = (
        n(figure.value, digits=6) if not float(figure.value).is_integer() else n(int(figure.value))
    )
    return value if figure.unit == "1" else f"{value} {figure.unit}"


def _figure_cells(one: Accelerator, name: str, f: Figure) -> Iterable[str]:
    yield Span(plain(figure_name(name)), id=_place(one, name))
    yield _printed(f)
    yield t(f.status)
    said = [Markdown(", ".join(_source(one.sources[id_]) for id_ in f.sources))]
    if f.conflicts:
        said.append(plain(f"{t('others-print')}: ", _others(one, f)))
    if f.sparse is not None:
        said.append(plain(f"{t('sparse-headline')}: {n(f.sparse)}"))
    yield Markdown(
        ". ".join([*said, *(plain(text.rstrip(".")) for text in (f.conditions, f.note) if text)])
        + "."
    )


def _others(one: Accelerator, f: Figure) -> Markdown:
    said = (
        plain(f"{n(c.value, digits=6)} {c.unit} (", _source(one.sources[c.source]), ")")
        for c in f.conflicts
    )
    return Markdown(", ".join(said))


def _source(source: Source) -> Markdown:
    if not (source.URL and source.URL.startswith(("https://", "http://"))):
        return plain(source.id)
    address = re.sub(r"[\s()<>\\]", lambda match: f"%{ord(match[0]):02X}", source.URL)
    return Markdown(f"[{plain(source.id)}]({address})")


def _linked(one: Accelerator, name: str, unit: str = "") -> str:
    """A chip's figure, leading to the row that says where it is from; marked where sources
    disagree.
    """
    figure = one.figures.get(name)
    if not figure:
        return ""
    text = n(figure.si / _OWN_UNITS[unit], digits=4) if unit else _printed(figure)
    # Columns sort by value, whatever the unit.
    link = Span(plain(text), to=f"#{_place(one, name)}", value=f"{figure.si:.12g}")
    return plain(link, DISPUTED if figure.status == "disputed" else "")


def _place(one: Accelerator, name: str = "") -> str:
    """Where a chip's figures, or one of them, stand."""
    return re.sub(r"[^a-z0-9-]", "-", f"spec-{one.key}-{name}".rstrip("-"))
