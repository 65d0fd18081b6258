"""The commands that run, compare and rent for labs, and that check what readers measured."""

from pathlib import Path
from typing import Annotated

import typer

from course_lib import CourseError
from course_lib.bench import results
from course_tools.measured import contributed
from course_book import n, t
from course_book.text import in_language, language, languages
from course_press.cli.console import columns, counted, err_console, out_console, tell
from course_press.labs import cloud as rented
from course_press.labs import run as labs

app = typer.Typer()
lab = typer.Typer(help="Run labs: here, on a rented GPU; compare results.", no_args_is_help=True)
app.add_typer(lab, name="lab")
measured = typer.Typer(help="Rows that readers measured, for the book.", no_args_is_help=True)
app.add_typer(measured, name="results")
Lang = Annotated[
    str | None,
    typer.Option("--lang", help="Language of what is printed; COURSE_LANG's when not given."),
]


def chosen(lang: str | None) -> str:
    """The language that was asked for; raise where the book has none of it."""
    if lang is None:
        return language()
    if lang not in languages():
        raise CourseError(
            f"--lang {lang!r} is not a language of the book: choose from {', '.join(languages())}"
        )
    return lang


@lab.command("run")
def lab_run(
    number: Annotated[str, typer.Argument(help="Number of the lab.")],
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    budget: Annotated[float, typer.Option(min=1, help="Seconds for all measurements.")] = 120,
    sku: Annotated[str, typer.Option(help="What was rented.")] = "",
    usd_per_hour: Annotated[float | None, typer.Option(help="What it costs, USD an hour.")] = None,
    price_source: Annotated[str, typer.Option(help="Where you found that price.")] = "",
    lang: Lang = None,
) -> None:
    """Run a lab's notebook with papermill; run again, it picks up where it left off.

    Example: `course lab run 00 --device cpu --budget 60`
    """
    done = labs.run_lab(
        Path.cwd(),
        number,
        device=device,
        budget=budget,
        lang=chosen(lang),
        usd_per_hour=usd_per_hour,
        say=err_console.print,
        sku=sku,
        price_source=price_source,
    )
    if done.error:
        err_console.print(
            f"a cell failed with {done.error}: see {done.notebook}",
            style="red",
            soft_wrap=True,
            markup=False,
        )
        raise typer.Exit(1)
    kept = sorted(file.name for file in done.notebook.parent.iterdir() if file.suffix != ".ipynb")
    tell(f"{done.notebook.parent}: {', '.join(kept)}")


@lab.command("compare")
def lab_compare(
    before: Annotated[Path, typer.Argument(help="A results.csv.")],
    after: Annotated[Path, typer.Argument(help="Another one.")],
    lang: Lang = None,
) -> None:
    """Say which measurements differ by more than noise.

    Example: `course lab compare before.csv after.csv`
    """
    for file in (before, after):
        if not file.is_file():
            raise CourseError(f"{str(file)!r} does not exist: give two results.csv")
    from course_book.reports.frame import said  # draws too, and takes long to import

    differences = results.compare(results.read(before), results.read(after))
    with in_language(chosen(lang)):
        header = [t("operator"), t("format"), said("shape"), said("timing")]
        header += [said("before"), said("after"), t("ratio"), said("beyond-noise")]
        found = columns(*header)
        for d in differences:
            verdict = said({True: "yes", False: "no", None: "unknown"}[d.beyond_noise])
            times = [n(seconds, "s", digits=4) for seconds in (d.before, d.after)]
            ratio, style = n(d.ratio, digits=4), "bold" if d.beyond_noise else None
            found.add_row(*d.key[1:5], *times, ratio, verdict, style=style)
    out_console.print(found)


@lab.command("cloud")
def lab_cloud(
    number: Annotated[str, typer.Argument(help="Number of the lab.")],
    gpu: Annotated[str, typer.Option(help=f"One of {', '.join(rented.GPUS)}.")],
    cloud: Annotated[str, typer.Option(help=f"One of {', '.join(rented.CLOUDS)}.")] = "runpod",
    budget: Annotated[float, typer.Option(min=1, help="Seconds for all measurements.")] = 600,
    max_cost: Annotated[
        float, typer.Option(min=0, help="USD above which nothing is rented.")
    ] = 5.0,
    usd_per_hour: Annotated[
        float | None, typer.Option(help="What the provider asks, if no dated price is known.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run and its cost.")
    ] = False,
) -> None:
    """Rent one GPU, run a lab on it, copy the results back, and give the GPU back.

    Example: `course lab cloud 00 --gpu A100-80GB --dry-run`
    """
    root = Path.cwd()
    made = rented.plan(
        root,
        number,
        gpu=gpu,
        cloud=cloud,
        budget=budget,
        max_cost=max_cost,
        usd_per_hour=usd_per_hour,
    )
    price = made.price
    tell(rented.shown(made))
    cost = (
        f"about {made.usd:.2f} USD: {made.minutes:.0f} min at {price.usd_per_hour:g} USD an "
        f"hour ({price.provider}, {price.date})"
    )
    tell(cost)
    limits = (
        f"SkyPilot rents no machine above {made.ceiling:g} USD an hour, and nothing runs on it "
        f"for more than {made.minutes:.0f} min"
    )
    tell(limits)
    copied = (
        f"SkyPilot copies your key to the rented machine ({made.key}), where its owner could "
        f"read it, so give the key a spending limit"
    )
    tell(f"{copied}, and replace it afterward")
    if not dry_run:
        tell(f"results in {rented.launch(root, number, made)}")


@measured.command("check")
def results_check(
    folder: Annotated[Path, typer.Argument(help="Holds results.csv and manifest.json.")],
) -> None:
    """Check measured rows before you give them to the book: schema, manifest, roofs, repeats.

    Example: `course results check labs/00-three-accelerators/results/local`
    """
    findings = contributed.review(folder)
    for finding in findings:
        tell(finding)
    if findings:
        err_console.print(counted(len(findings), "finding"), style="red")
        raise typer.Exit(1)
    rows = len(results.read(folder / "results.csv"))
    tell(f"{counted(rows, 'row')} ready to send: CONTRIBUTING.md says how")
