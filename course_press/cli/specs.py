"""The commands that show the spec tables."""

from typing import Annotated

import typer
from rich.table import Table

from course_lib import CourseError, specs
from course_press.cli.console import err_console, out_console

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
        print(specs.as_json(keys))  # noqa: T201
    elif as_csv:
        print(specs.as_csv(specs.chip_rows(keys)), end="")  # noqa: T201
    else:
        found = Table(
            "key", "name", "year", "bandwidth", "bf16 or fp16", "disputed figures", box=None
        )
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
            rate = f"{peak.value:g} {peak.unit}" if peak else ""
            bandwidth = one.figures["bandwidth"]
            found.add_row(
                one.key,
                one.name,
                str(one.year),
                f"{bandwidth.value:g} {bandwidth.unit}",
                rate,
                str(disputed or ""),
            )
        out_console.print(found)
    for why in specs.unreadable().values():
        err_console.print(f"passed over {why}", style="yellow", markup=False, soft_wrap=True)


@app.command()
def chip(
    key: Annotated[str, typer.Argument(help="Key of a chip; course chips lists them.")],
) -> None:
    """Show every figure of a chip with its sources and disputes.

    Example: `course chip h100-sxm`
    """
    one = specs.chip(key)
    out_console.print(f"{one.name} ({one.vendor}, {one.year})", style="bold")
    for name, figure in one.figures.items():
        value = f"{figure.value:g} {figure.unit}".removesuffix(" 1")
        line = f"{name:24} {value:>16}  {figure.status}: {', '.join(figure.sources)}"
        out_console.print(line, soft_wrap=True)
        for conflict in figure.conflicts:
            others = f"{'':24} {conflict.value:>10g} {conflict.unit:5}  by {conflict.source}"
            out_console.print(others, soft_wrap=True, style="yellow")
        if figure.note:
            out_console.print(f"{'':24} {figure.note}", soft_wrap=True, style="dim")
    for source in one.sources.values():
        out_console.print(
            f"{source.id}: {source.title}. {source.URL or ''} {source.note or ''}", soft_wrap=True
        )


@app.command()
def compare(
    one: Annotated[str, typer.Argument(help="Key of a chip.")],
    other: Annotated[str, typer.Argument(help="Key of another chip.")],
) -> None:
    """Compare two chips figure by figure: both values and the second over the first.

    Example: `course compare a100-sxm-80 h100-sxm`
    """
    first, second = specs.chip(one), specs.chip(other)
    found = Table("figure", first.key, second.key, "ratio", box=None)
    for name in dict.fromkeys((*first.figures, *second.figures)):
        pair = [c.figures.get(name) for c in (first, second)]
        ratio = f"{pair[1].si / pair[0].si:.3g}" if pair[0] and pair[1] else ""
        found.add_row(name, *(f"{f.value:g} {f.unit}" if f else "" for f in pair), ratio)
    shared = [
        d
        for d in ("bf16", "fp16", "fp8", "int8")
        if all(f"matrix.{d}" in c.peaks for c in (first, second))
    ]
    for dtype in shared:
        ridges = [c.ridge(dtype) for c in (first, second)]
        found.add_row(
            f"ridge {dtype}",
            *(f"{ridge:.4g} FLOP/B" for ridge in ridges),
            f"{ridges[1] / ridges[0]:.3g}",
        )
    out_console.print(found)
