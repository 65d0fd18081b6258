"""The command `course fits`: will it serve, how long a context, how many users."""

from typing import Any

import typer

from course_lib import CourseError, specs
from course_book import n, t
from course_book.answers import fits
from course_book.text import language, retold
from course_press.cli.console import AsJson, command, meant, tell, tell_json, tell_next, tell_table

app = typer.Typer()


@command(app, "fits")
def fits_command(
    model: str,
    chip: str,
    engine: str | None = None,
    users: int = 1,
    context: int | None = None,
    method: str | None = None,
    tp: int = 1,
    weights: str | None = None,
    cache: str | None = None,
    memory: float | None = None,
    utilization: float | None = None,
    tokens: int | None = None,
    sequences: int | None = None,
    as_json: AsJson = False,
) -> None:
    """Does it fit, for how many users? Exits with 1 if it does not.

    Example: `course fits llama-3-8b h100-sxm --engine vllm@0.11.1 --users 16 --context 8192`
    """
    if memory is not None and not 0 < memory < 1e9:
        raise CourseError(f"--memory must be a number of GB above 0 (got {memory:g})")
    how: dict[str, Any] = {"tp": tp, "utilization": utilization, "tokens": tokens}
    how |= {"sequences": sequences, "total": memory and 1e9 * memory, "w": weights, "kv": cache}
    given = {name: value for name, value in how.items() if value is not None}
    on = specs.chip(chip)
    found = fits(meant(model), on, engine, users=users, context=context, method=method, **given)
    if as_json:
        tell_json(found.as_json())
    else:
        tell(found.answer[language()])
        rows = [
            (t(f"fits-{one.name}"), n(one.value, "B"), n(one.share or 0.0, "%"))
            for one in found.because
        ]
        tell_table((t("memory"), t("bytes"), t("share")), rows, left=1)
        if found.range is not None:
            low, high = n(found.range.low, "B"), n(found.range.high, "B")
            pool = n(found.values["pool_bytes"], "B")
            tell(t("fits-range").format(bytes=pool, low=low, high=high))
        tell_next(found.next, "then")
        if engine is None and method is None:
            tell(t("fits-only").format(engine="vllm@0.11.1"))
        for name, value in found.assumed.items():
            of = value if isinstance(value, dict) else {"value": value}
            shown = {
                key: retold(one) if isinstance(one, str) else n(one) for key, one in of.items()
            }
            tell(t("fits-taken").format(what=t(f"fits-taken-{name}").format(**shown)), style="dim")
        for source in found.sources:
            tell(source, style="dim")
    if not found.values["fits"]:
        raise typer.Exit(1)
