"""The commands that show the spec tables."""

from typing import Annotated, Any

import typer
from typer import Option

from course_lib import CourseError, specs
from course_book import n
from course_book.tables import every_model
from course_press.cli.console import command, complain, out_console, tell, tell_table

app = typer.Typer()


@command(app)
def chips(
    as_json: Annotated[bool, Option("--json")] = False,
    as_csv: Annotated[bool, Option("--csv")] = False,
    vendor: str | None = None,
    year: int | None = None,
) -> None:
    """List chips by their keys, the latest of each vendor first.

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
        from course_book.explore.choices import listed  # draws too, and takes long to import

        rows = []
        for one in map(specs.chip, listed(keys)):
            peak = one.figures.get("matrix.bf16") or one.figures.get("matrix.fp16")
            disputed = sum(figure.status == "disputed" for figure in one.figures.values())
            rates = _printed(one.figures["bandwidth"]), _printed(peak) if peak else ""
            rows.append((one.key, one.name, str(one.year), *rates, str(disputed or "")))
        tell_table(("key", "name", "year", "bandwidth", "bf16 or fp16", "disputed figures"), rows)
    for why in specs.unreadable().values():
        complain(f"passed over {why}", "yellow")


@app.command()
def models() -> None:
    """List models by their keys, the latest of each vendor first.

    Any other is a config.json.

    Example: `course models`
    """
    rows = []
    for one in every_model():
        kind, active = getattr(one, "kind", "convnet"), getattr(one, "active_parameters", None)
        sizes = n(one.parameters), n(active) if active not in (None, one.parameters) else ""
        context = n(one.context) if isinstance(one, specs.Transformer) else ""
        rows.append((one.key, one.name, kind, str(one.year), *sizes, context))
    heads = ("key", "name", "kind", "year", "parameters", "active", "tokens")
    tell_table(heads, rows, left=3)


@command(app)
def chip(key: str) -> None:
    """Show a chip's figures, their sources and disputes.

    Example: `course chip h100-sxm`
    """
    one = specs.chip(key)
    tell(f"{one.name} ({one.vendor}, {one.year})", style="bold")
    for name, figure in one.figures.items():
        tell(f"{name:24} {_printed(figure):>16}  {figure.status}: {', '.join(figure.sources)}")
        for conflict in figure.conflicts:
            tell(f"{'':24} {_printed(conflict):>16}  by {conflict.source}", style="yellow")
        if figure.note:
            tell(f"{'':24} {figure.note}", style="dim")
    for source in one.sources.values():
        tell(f"{source.id}: {source.title}. {source.URL or ''} {source.note or ''}")


@command(app)
def compare(one: str, other: str) -> None:
    """Compare two chips figure by figure.

    Example: `course compare a100-sxm-80 h100-sxm`
    """
    first, second = specs.chip(one), specs.chip(other)
    rows = []
    for name in dict.fromkeys((*first.figures, *second.figures)):
        pair = [(c.figures.get(name), _links(c, name)) for c in (first, second)]
        rates = [figure.si * links for figure, links in pair if figure]
        ratio = _number(rates[1] / rates[0], 3) if len(rates) == 2 else ""
        rows.append((name, *(_printed(f, links) if f else "" for f, links in pair), ratio))
    for dtype in ("bf16", "fp16", "fp8", "int8"):
        if all(f"matrix.{dtype}" in c.peaks for c in (first, second)):
            ridges = [c.ridge(dtype) for c in (first, second)]
            each = (f"{_number(ridge, 4)} FLOP/B" for ridge in ridges)
            rows.append((f"ridge {dtype}", *each, _number(ridges[1] / ridges[0], 3)))
    tell_table(("figure", first.key, second.key, "ratio"), rows)


def _number(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}g}"


def _printed(figure: Any, links: int = 1) -> str:
    """A figure in the unit in which it is printed; of several links, all together and of each."""
    all_ = f"{_number(links * figure.value)} {figure.unit}".removesuffix(" 1")
    return all_ if links == 1 else f"{all_} ({links} × {_number(figure.value)})"


def _links(on: specs.Accelerator, name: str) -> int:
    """How many links there are, each of which has the figure of this name; 1 of what is no link."""
    first, _, of_each = name.partition(".")
    of = {**on.joins, **({"node": on.node.ports} if on.node else {})}.get(first)
    return int(float(of.count)) if of and of.count and of_each != "chips" else 1
