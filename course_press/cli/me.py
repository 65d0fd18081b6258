"""The command `course me`: is my machine all right?"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import typer

from course_lib import CourseError, bench, specs
from course_lib.bench import checkup, results
from course_lib.bench.device import unused_gpu
from course_lib.bench.rows import Row
from course_book import t
from course_book.answers import checked
from course_book.answers.checkup import measured
from course_book.plot import Plot
from course_book.text import in_language, language, retold
from course_press.cli.console import AsJson, Budget, command, progress, tell, tell_json, tell_table
from course_press.cli.console import err_console as errors
from course_press.cli.labs import Lang, chosen
from course_press.outputs.checkup import cells, drifts, page
from course_press.source.files import swap_in

app = typer.Typer()


@command(app)
def me(
    budget: Budget = 600,
    device: str | None = None,
    chip: str | None = None,
    out: Path = Path("course-me"),
    lang: Lang = None,
    as_json: AsJson = False,
) -> None:
    """Is my machine all right? Takes ten minutes at most, and writes a page to keep or send.

    Example: `course me --budget 120`
    """
    with in_language(chosen(lang)):
        where = device or bench.fastest()
        here, setup = bench.machine(where), bench.inspect(where)
        if not device:
            faults = (*setup.faults, *unused_gpu())
            setup = msgspec.structs.replace(setup, faults=faults)
        known = specs.chip(chip) if chip else specs.chip_of_device(here.name)
        with progress(t("me-title")):
            say: Any = lambda text: errors.print(retold(text), soft_wrap=True)  # noqa: E731
            left = checkup.run(out, where, budget=budget, told=_told, say=say)
        *earlier, last = map(results.read, checkup.runs(out))
        before = next((one for one in reversed(earlier) if one and one[0].device == here.name), ())
        answer = checked(setup, last, before, known)
        swap_in(out / "me.json", json.dumps(answer.as_json(), ensure_ascii=False, indent=1) + "\n")
        swap_in(out / "me.html", page(answer, _roofline(last)))
        if as_json:
            tell_json(answer.as_json())
            return
        tell(answer.answer[language()], style="bold")
        heads = ("measurement", "measured", "roof", "of-roof", "best")
        rows = [cells(one) for one in answer.values["measured"]]
        tell_table([t(f"me-{head}") for head in heads], rows, left=1)
        for one in (*(odd[language()] for odd in answer.more["odd"]), *drifts(answer.values)):
            tell(f"- {one}")
        if not known:
            tell(t("me-no-chip"), style="dim")
        if left:
            tell(t("me-left").format(count=left))
        tell(t("me-wrote").format(page=out / "me.html", data=out / "me.json"))


def _told(row: Row) -> str:
    """One row, as soon as it is measured."""
    return ": ".join(cells(measured(row, None))[:2])


def _roofline(rows: Sequence[Row]) -> Plot | None:
    from course_book.reports import products  # draws, and takes long to import

    try:
        return products.plot(rows)
    except CourseError:  # no peak or no stream is known: there is no roof
        return None
