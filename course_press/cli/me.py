"""The command `course me`: is my machine all right?"""

import json
from pathlib import Path
from typing import Any

import typer

from course_lib import bench, specs
from course_lib.bench import results
from course_lib.bench.device import fastest
from course_lib.bench.rows import Row
from course_tools.campaigns.checkup import run, runs
from course_book import n, t
from course_book.answers import checked
from course_book.text import in_language, language, retold
from course_press.cli import console
from course_press.cli.console import AsJson, Budget, command, tell, tell_json
from course_press.cli.labs import Lang, chosen
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
    """Is my machine all right? Ten minutes, and a page to send.

    Example: `course me --budget 120`
    """
    with in_language(chosen(lang)):
        on = device or fastest()
        here, setup = bench.machine(on), bench.inspect(on)
        known = specs.chip(chip) if chip else specs.chip_of_device(here.name)
        show: Any = lambda line: console.err_console.print(retold(line), soft_wrap=True)  # noqa: E731
        with console.progress(t("me-title")):
            left = run(out, on, budget=budget, said=_said, say=show)
        *earlier, last = map(results.read, runs(out))
        before = next((one for one in reversed(earlier) if one and one[0].device == here.name), ())
        answer = checked(setup, last, before, known)
        record = answer.as_json()
        swap_in(out / "me.json", json.dumps(record, ensure_ascii=False, indent=1) + "\n")
        from course_press.outputs.checkup import page  # draws, and takes long to import

        swap_in(out / "me.html", page(answer, last))
        if as_json:
            tell_json(record)
            return
        tell(answer.answer[language()], style="bold")
        for odd in record["odd"]:
            tell(f"- {odd[language()]}")
        if not known:
            tell(t("me-no-chip"), style="dim")
        if left:
            tell(t("me-left").format(count=left))
        tell(t("me-wrote").format(page=out / "me.html", data=out / "me.json"))


def _said(row: Row) -> str:
    """One row, as soon as it is measured."""
    time = n(row.seconds_median, "s") if row.seconds_median else f"{t('me-absent')} ({row.note})"
    return f"{t(f'me-{row.op}')}, {row.dtype}, {row.shape}: {time}"
