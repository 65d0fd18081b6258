"""The commands that show the spec tables."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from course_lib import CourseError, specs
from course_book import n
from course_press.cli.console import columns, err_console, out_console, tell

app = typer.Typer()


@app.command()
def chips(
    as_json: Annotated[
        bool, typer.Option("--json", help="Every figure with its provenance, as JSON.")
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="One row a chip in SI units, as CSV.")
    ] = False,
    vendor: Annotated[str | None, typer.Option(help="Only this vendor's.")] = None,
    year: Annotated[int | None, typer.Option(help="Only this year's.")] = None,
) -> None:
    """List the chips of the spec table.

    Example: `course chips --csv > chips.csv`
    """
    keys = specs.chips(vendor=vendor, year=year)
    if as_json and as_csv:
        raise CourseError("--json and --csv exclude each other: give one of them")
    if as_json:
        out_console.print(specs.as_json(keys), soft_wrap=True)
    elif as_csv:
        out_console.print(specs.as_csv(specs.chip_rows(keys)), end="", soft_wrap=True)
    else:
        found = columns("key", "name", "year", "bandwidth", "bf16 or fp16", "disputed figures")
        for one in map(specs.chip, keys):
            peak = next(
                (
                    one.figures[f"matrix.{d}"]
                    for d in ("bf16", "fp16")
                    if f"matrix.{d}" in one.figures
                ),
                None,
            )
            disputed = sum(figure.status == "disputed" for figure in one.figures.values())
            rate = _printed(peak) if peak else ""
            found.add_row(
                one.key,
                one.name,
                str(one.year),
                _printed(one.figures["bandwidth"]),
                rate,
                str(disputed or ""),
            )
        out_console.print(found)
    for why in specs.unreadable().values():
        err_console.print(f"passed over {why}", style="yellow", markup=False, soft_wrap=True)


@app.command()
def models() -> None:
    """List the models of the table by their keys; any other is a config.json.

    Example: `course models`
    """
    found = columns("key", "name", "kind", "year", "parameters", "active", "tokens", left=3)
    for one in map(specs.model, specs.models()):
        active = getattr(one, "active_parameters", one.parameters)
        found.add_row(
            one.key,
            one.name,
            getattr(one, "kind", "convnet"),
            str(one.year),
            n(one.parameters),
            n(active) if active != one.parameters else "",
            n(one.context) if isinstance(one, specs.Transformer) else "",
        )
    out_console.print(found)


@app.command()
def chip(
    key: Annotated[str, typer.Argument(help="Key of a chip; course chips lists them.")],
    new: Annotated[
        bool, typer.Option("--new", help="Begin a file of this key for a chip of your own.")
    ] = False,
) -> None:
    """Show every figure of a chip with its sources and disputes, or begin the file of another.

    Example: `course chip h100-sxm`
    """
    if new:
        _begin(key)
        return
    one = specs.chip(key)
    tell(f"{one.name} ({one.vendor}, {one.year})", style="bold")
    for name, figure in one.figures.items():
        line = f"{name:24} {_printed(figure):>16}  {figure.status}: {', '.join(figure.sources)}"
        tell(line)
        for conflict in figure.conflicts:
            others = f"{'':24} {_printed(conflict):>16}  by {conflict.source}"
            tell(others, style="yellow")
        if figure.note:
            tell(f"{'':24} {figure.note}", style="dim")
    for source in one.sources.values():
        tell(f"{source.id}: {source.title}. {source.URL or ''} {source.note or ''}")


@app.command()
def compare(
    one: Annotated[str, typer.Argument(help="Key of a chip.")],
    other: Annotated[str, typer.Argument(help="Key of another chip.")],
) -> None:
    """Compare two chips figure by figure: both values and the second over the first.

    Example: `course compare a100-sxm-80 h100-sxm`
    """
    first, second = specs.chip(one), specs.chip(other)
    found = columns("figure", first.key, second.key, "ratio")
    for name in dict.fromkeys((*first.figures, *second.figures)):
        pair = [(c.figures.get(name), _links(c, name)) for c in (first, second)]
        rates = [figure.si * links for figure, links in pair if figure]
        ratio = _number(rates[1] / rates[0], 3) if len(rates) == 2 else ""
        found.add_row(name, *(_printed(f, links) if f else "" for f, links in pair), ratio)
    shared = [
        d
        for d in ("bf16", "fp16", "fp8", "int8")
        if all(f"matrix.{d}" in c.peaks for c in (first, second))
    ]
    for dtype in shared:
        ridges = [c.ridge(dtype) for c in (first, second)]
        found.add_row(
            f"ridge {dtype}",
            *(f"{_number(ridge, 4)} FLOP/B" for ridge in ridges),
            _number(ridges[1] / ridges[0], 3),
        )
    out_console.print(found)


def _number(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}g}"


def _printed(figure: Any, links: int = 1) -> str:
    """A figure in the unit in which it is printed; of several links, all together and of each."""
    all_ = f"{_number(links * figure.value)} {figure.unit}".removesuffix(" 1")
    return all_ if links == 1 else f"{all_} ({links} × {_number(figure.value)})"


def _links(on: specs.Accelerator, name: str) -> int:
    """How many links there are, each of which has the figure of this name; 1 of what is no link."""
    of = {**on.joins, **({"node": on.node.ports} if on.node else {})}.get(name.partition(".")[0])
    return int(float(of.count)) if of and of.count is not None else 1


def _begin(key: str) -> None:
    """Write the skeleton of a chip's file where `COURSE_CHIPS` says, or here."""
    if key in specs.chips() or not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", key):
        raise CourseError(
            f"key of a new chip must be one that no other has, of lower-case letters, digits and "
            f"hyphens (got {key!r})"
        )
    folder = os.environ.get(specs.FOLDER)
    file = Path(folder or ".") / f"{key}.toml"
    if file.exists():
        raise CourseError(f"{str(file)!r} exists: fill it in, or choose another key")
    file.write_text((specs.DATA / "own-chip.toml").read_text("utf-8").replace("KEY", key), "utf-8")
    told = f"fill in {file}, then course chip {key}"
    tell(told if folder else f"{told}; before that, export {specs.FOLDER}={Path.cwd()}")
