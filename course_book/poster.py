"""Numbers to know by heart, and the sheet of paper that holds them."""

import io
import logging
import re
from collections.abc import Iterator
from textwrap import wrap
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import msgspec
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from course_lib.core.checks import known
from course_lib.core.dtypes import itemsize
from course_lib.specs import chip, load_toml, sources
from course_lib.specs.catalog import transformer
from course_lib.workloads.precision import formats
from course_lib.workloads.weights import cache_bytes
from course_tools import energy
from course_tools.files import read_rows
from course_book.files import DATA
from course_book.plot import INK, LINES
from course_book.plot.figure import GRID, STYLE
from course_book.plot.labels import MUTED, is_wide
from course_book.text import n, t

_LISTED = load_toml(DATA / "sheet.toml", dict)
# Files of fonts that have the letters which matplotlib's own lacks.
_WIDE = re.compile("NanumGothic.ttf|NotoSansCJK.*Regular|NotoSansKR|malgun.ttf|AppleSDGothicNeo")
# Where each block begins and how wide it is, as shares of the sheet.
_PLACES = [(0.03, 0.9, 0.94), (0.03, 0.49, 0.27), (0.03, 0.2, 0.27), (0.34, 0.49, 0.27),
           (0.34, 0.2, 0.27), (0.65, 0.49, 0.32)]  # fmt: skip


class Block(NamedTuple):
    """Numbers of one kind: the word for them, what the columns are, and rows by their names."""

    key: str
    header: list[str]
    rows: dict[str, list[str]]


def numbers() -> Iterator[Block]:
    """Numbers to know, each from the spec files or the library, in the page's language.

    Examples
    --------
    >>> [block.key for block in numbers()][:2]
    ['sheet-chips', 'sheet-formats']
    """
    header = [t(name) for name in ("chip", "year", "memory", "bandwidth")]
    header += ["bf16", "fp8", f"{t('ridge-point')} bf16", t("sheet-link"), t("power")]
    yield Block("sheet-chips", header, {key: _chip(key) for key in _LISTED["chips"]})
    sizes = {name: [name, f"{n(itemsize(name), digits=4)} B"] for name in _LISTED["formats"]}
    yield Block("sheet-formats", [t("format"), t("sheet-parameter")], sizes)
    h100 = chip("h100-sxm")
    seen = {"L1": h100.parts["l1_latency"], "L2": h100.parts["cache_latency"], "HBM": h100.latency}
    waits = {name: [name, n(took or 0, "s")] for name, took in seen.items()}
    yield Block("sheet-latencies", [h100.short, t("latency")], waits)
    read = read_rows(energy.FOLDER / "operations.csv", _Operation)
    said = {"add": t("energy-add"), "multiply": t("energy-multiply")}
    spent = {
        one.operation: [
            " ".join(said.get(w, w) for w in one.operation.split()) + f", {n(one.bits)} bit",
            n(one.picojoules * 1e-12, "J"),
        ]
        for one in read
        if one.nanometers == 7
    }
    yield Block("sheet-energy", [t("energy-operation"), "7 nm"], spent)
    held = {}
    for key in _LISTED["models"]:
        one = transformer(key)
        weights, token = n(2 * one.parameters, "B"), n(cache_bytes(one, formats()), "B")
        held[key] = [one.name, weights, token]
    yield Block("sheet-models", [t("model"), t("sheet-weights"), t("sheet-token")], held)
    yield Block(
        "sheet-rules", ["", ""], {key: [t(key), rule] for key, rule in _LISTED["rules"].items()}
    )


class _Operation(msgspec.Struct, frozen=True):
    operation: str
    nanometers: int
    picojoules: float
    least: str
    bits: int


def _chip(key: str) -> list[str]:
    one = chip(key)
    link = max((link.total_per_direction for link in one.links.values()), default=None)
    of = [one.figures.get(f"matrix.{dtype}") for dtype in ("bf16", "fp8")]
    peaks = [figure.si if figure and figure.native else None for figure in of]
    found = [(one.memory, "B"), (one.bandwidth, "B/s"), *((peak, "FLOP/s") for peak in peaks)]
    found += [(one.ridge("bf16"), "FLOP/B"), (link, "B/s"), (one.power, "W")]
    return [one.short, str(one.year), *(n(x, unit) if x else "" for x, unit in found)]


def sheet(form: Literal["svg", "pdf"] = "svg") -> bytes:
    """The numbers on one sheet of A3 with the sources of the chips, the same bytes each time.

    Examples
    --------
    >>> b"<svg" in sheet()
    True
    """
    known("form", form, ("svg", "pdf"))
    family, bold = [STYLE["font.family"]], {"fontweight": "bold"}
    if is_wide(t("sheet-title")[0]):
        bold = {}  # these files have one weight, and tables that a subset leaves out
        logging.getLogger("fontTools.subset").setLevel(logging.ERROR)
        for path in filter(_WIDE.search, font_manager.findSystemFonts()):
            font_manager.fontManager.addfont(path)
            family.append(font_manager.get_font(path).family_name)
    with mpl.rc_context({**STYLE, "font.family": family, "pdf.fonttype": 42}):
        figure = Figure(figsize=(16.54, 11.69), facecolor="white")

        def write(x: float, y: float, text: str, size: float = 10.5, **look: Any) -> None:
            figure.text(x, y, text.replace("$", r"\$"), fontsize=size, **{"color": INK, **look})

        write(0.03, 0.945, t("sheet-title"), 26, **bold)
        for (key, header, rows), (x, y, wide) in zip(numbers(), _PLACES, strict=True):
            write(x, y, t(key), 13, color=LINES[0], **bold)
            for i, row in enumerate([header, *rows.values()], 1):
                low = y - 0.006 - 0.0225 * i
                figure.add_artist(Line2D([x, x + wide], [low - 0.006] * 2, color=GRID, lw=0.6))
                step = wide / max(len(row) - 0.5, 2)
                for j, cell in enumerate(row):
                    look: dict[str, Any] = {
                        "ha": "right" if j else "left",
                        "color": MUTED if i == 1 else INK,
                    }
                    write(x + wide - step * (len(row) - 1 - j) if j else x, low, cell, **look)
        of = [
            (key, name)
            for key in _LISTED["chips"]
            for name in ("bandwidth", "matrix.bf16", "power")
        ]
        of += [("h100-sxm", name) for name in ("latency", "l1_latency", "cache_latency")]
        figures = [chip(key).figures[name] for key, name in of if name in chip(key).figures]
        used = {"jouppi2021"} | {one for figure in figures for one in figure.sources}
        titles = " · ".join(sorted(sources()[one].title for one in used if one in sources()))
        write(0.65, 0.17, "\n".join(wrap(t("sheet-symbols"), 62)), 9, color=MUTED, va="top")
        write(0.03, 0.015, "\n".join(wrap(f"{t('sources')}: {titles}", 330)), 5.5, color=MUTED)
        buffer, dates = io.BytesIO(), {"svg": "Date", "pdf": "CreationDate"}
        figure.savefig(buffer, format=form, metadata={dates[form]: None})
    return buffer.getvalue()
