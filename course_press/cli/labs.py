"""The commands that run, compare and rent for labs, and that check what readers measured."""

import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from course_lib import CourseError
from course_lib.bench import results
from course_tools.calibrate.frozen import releases
from course_tools.measured import contributed, given
from course_book import n, t
from course_book.text import in_language, language, languages
from course_press.cli import console
from course_press.cli.console import Budget, command, err_console, fail_with, tell, tell_table
from course_press.labs import cloud as rented
from course_press.labs import run as labs
from course_press.source.errors import choose

app = typer.Typer()
lab = typer.Typer(help="Run labs: here, on a rented GPU; compare results.", no_args_is_help=True)
app.add_typer(lab, name="lab")
measured = typer.Typer(help="Rows that readers measured, for the book.", no_args_is_help=True)
app.add_typer(measured, name="results")
Lang = Annotated[
    str | None, Option("--lang", help="Language of what is printed; COURSE_LANG's when not given.")
]


def chosen(lang: str | None) -> str:
    """The language that was asked for; raise where the book has none of it."""
    if lang is not None:
        choose(lang, languages(), f"--lang {lang!r} is not a language of the book")
    return lang or language()


@command(lab, "run")
def lab_run(
    number: str,
    device: str = "cpu",
    budget: Budget = 120,
    sku: str = "",
    usd_per_hour: float | None = None,
    price_source: str = "",
    lang: Lang = None,
) -> None:
    """Run a lab's notebook with papermill; run again, it picks up where it left off.

    Example: `course lab run 00 --device cpu --budget 60`
    """
    how: dict[str, Any] = {"device": device, "budget": budget, "usd_per_hour": usd_per_hour}
    how |= {"sku": sku, "price_source": price_source, "lang": chosen(lang)}
    done = labs.run_lab(Path.cwd(), number, say=err_console.print, **how)
    if done.error:
        console.complain(f"a cell failed with {done.error}: see {done.notebook}")
        raise typer.Exit(1)
    kept = sorted(file.name for file in done.notebook.parent.iterdir() if file.suffix != ".ipynb")
    tell(f"{done.notebook.parent}: {', '.join(kept)}")


@command(lab, "compare")
def lab_compare(before: Path, after: Path, lang: Lang = None) -> None:
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
        rows = []
        for d in differences:
            verdict = said({True: "yes", False: "no", None: "unknown"}[d.beyond_noise])
            times = [n(seconds, "s", digits=4) for seconds in (d.before, d.after)]
            rows.append((*d.key[1:5], *times, n(d.ratio, digits=4), verdict))
        styles = ["bold" if d.beyond_noise else None for d in differences]
        tell_table(header, rows, styles=styles)


@command(lab, "cloud")
def lab_cloud(
    number: str,
    gpu: Annotated[str, Option(help=f"One of {', '.join(rented.GPUS)}.")],
    cloud: Annotated[str, Option(help=f"One of {', '.join(rented.CLOUDS)}.")] = "runpod",
    budget: Budget = 600,
    max_cost: Annotated[float, Option(min=0)] = 5.0,
    usd_per_hour: float | None = None,
    dry_run: bool = False,
) -> None:
    """Rent one GPU, run a lab on it, copy the results back, and give the GPU back.

    Example: `course lab cloud 00 --gpu A100-80GB --dry-run`
    """
    root = Path.cwd()
    how: dict[str, Any] = {"gpu": gpu, "cloud": cloud, "usd_per_hour": usd_per_hour}
    made = rented.plan(root, number, budget=budget, max_cost=max_cost, **how)
    tell(rented.shown(made))
    for note in console.SAID["lab_cloud"]["notes"]:
        tell(note.format(made=made))
    if dry_run:
        return
    began = time.monotonic()
    try:
        tell(f"results in {rented.launch(root, number, made)}")
    finally:
        took = (time.monotonic() - began) / 60
        tell(f"bill: about {took / 60 * made.price.usd_per_hour:.2f} USD for {took:.0f} min")


@command(lab, "merge")
def lab_merge(number: str, folder: Path) -> None:
    """Add what another machine measured, copied here, to your own results.

    Example: `course lab merge 00 pod`
    """
    if not (folder / "results.csv").is_file():
        raise CourseError(f"folder {str(folder)!r} has no results.csv: copy results/local there")
    local = labs.folder(Path.cwd(), number) / labs.LOCAL
    kept = rented.merge(folder, local, folder.resolve().name)
    tell(f"{console.counted(kept, 'new row')} in {local / 'results.csv'}")


@command(measured, "check")
def results_check(place: Path) -> None:
    """Check measured rows before the book takes them: schema, manifest, roofs, repeats, a seal.

    Example: `course results check labs/00-three-accelerators/results/local`
    """
    frozen = {one.sha256: one.frozen for one in releases()}
    fail_with(contributed.review(place, frozen=frozen))
    rows, *_ = contributed.taken(place)
    tell(f"{console.counted(len(rows), 'row')} ready to send: CONTRIBUTING.md says how")


@command(measured, "give")
def results_give(folder: Path, out: Path = Path()) -> None:
    """Write one file to send: rows, manifest, and which frozen predictions were there before.

    Example: `course results give labs/00-three-accelerators/results/local`
    """
    fail_with(contributed.review(folder))
    rows, about, _ = contributed.taken(folder)
    name = "-".join(re.findall("[a-z0-9]+", f"{about.device} {about.started[:16]}".lower()))
    file = out / f"lab-{about.lab}-{name}.json"
    before = [one.sha256 for one in releases() if one.frozen < about.started]
    given.write(file, rows, about, "".join(before[-1:]))
    tell(f"{file}: put it into course_tools/data/measured/lab-{about.lab}, and open a pull request")
