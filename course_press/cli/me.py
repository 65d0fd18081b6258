"""The command `course me`: is my machine all right?"""

import json
from pathlib import Path

import msgspec
import typer

from course_lib import CourseError, bench, specs
from course_lib.bench import results
from course_lib.bench.device import unused_gpu
from course_lib.bench.rows import Row
from course_tools.campaigns import checkup
from course_book import t
from course_book.answers import checked
from course_book.answers.checkup import measured
from course_book.text import in_language, language, retold
from course_press.cli import console
from course_press.cli.console import AsJson, Budget, command, tell, tell_json, tell_table
from course_press.cli.labs import Lang, chosen
from course_press.outputs.checkup import cells, page
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
        on = device or bench.fastest()
        here, setup = bench.machine(on), bench.inspect(on)
        if not device:
            faults = (*setup.faults, *unused_gpu())
            setup = msgspec.structs.replace(setup, faults=faults)
        known = specs.chip(chip) if chip else specs.chip_of_device(here.name)
        with console.progress(t("me-title")):
            left = checkup.run(out, on, budget=budget, said=_said, say=_say)
        *earlier, last = map(results.read, checkup.runs(out))
        before = next((one for one in reversed(earlier) if one and one[0].device == here.name), ())
        answer = checked(setup, last, before, known)
        record = answer.as_json()
        swap_in(out / "me.json", json.dumps(record, ensure_ascii=False, indent=1) + "\n")
        try:
            from course_book.reports import products  # draws, and takes long to import

            roofline = products.plot(last)
        except CourseError:  # no peak or no stream is known: there is no roof
            roofline = None
        swap_in(out / "me.html", page(answer, roofline))
        if as_json:
            tell_json(record)
            return
        tell(answer.answer[language()], style="bold")
        heads = ("measurement", "measured", "roof", "of-roof", "best")
        tell_table([t(f"me-{head}") for head in heads], map(cells, record["measured"]), left=1)
        for odd in record["odd"]:
            tell(f"- {odd[language()]}")
        if not known:
            tell(t("me-no-chip"), style="dim")
        if left:
            tell(t("me-left").format(count=left))
        tell(t("me-wrote").format(page=out / "me.html", data=out / "me.json"))


def _said(row: Row) -> str:
    return ": ".join(cells(measured(row, None))[:2])


def _say(line: str) -> None:
    console.err_console.print(retold(line), soft_wrap=True)
