"""The page of `course me`: one file that holds all it needs, to be kept or sent."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from course_book.answers import Answer
from course_book.plot import Plot
from course_book.text import language, n, t
from course_press.outputs.figure import html

ASSETS = Path(__file__).parents[1] / "assets"
_UNITS = {"cores": "", "memory": "B", "clock_hz": "Hz", "power_limit_w": "W"}
_NAMES = ("python", "torch", "cuda", "driver", "blas")


def page(answer: Answer, roofline: Plot | None) -> str:
    """The answer as a page in the reader's language, with its figure where there is one."""
    loader = FileSystemLoader(ASSETS)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    lang, found = language(), answer.values
    measured = [cells(one) for one in found["measured"]]
    numbers = [(t(f"me-{name}"), found[name], unit) for name, unit in _UNITS.items()]
    facts = [(name, n(value, unit)) for name, value, unit in numbers if value]
    return made.get_template("checkup.html.j2").render(
        lang=lang,
        t=t,
        n=n,
        figure=html(roofline) if roofline else "",
        answer=answer.answer[lang],
        facts=[*facts, *((name, found[name]) for name in _NAMES if found[name])],
        measured=measured,
        best=any(best for *_, best in measured),
        odd=[one[lang] for one in answer.more["odd"]],
        because=answer.because,
        found=found,
        sources=answer.sources,
    )


def cells(one: dict[str, Any]) -> tuple[str, ...]:
    """One measurement: what, the rate or time, its roof, the share of it, the best published."""
    what = f"{t('me-' + one['op'])}, {one['dtype']}"
    if one["op"] == "matmul":
        what = f"{what}, {one['shape'].partition('x')[0]}³"  # all are square
    if one["status"] != "ok":
        return what, t("me-absent"), "", "", ""
    timed = one["op"] in ("layer", "launch")
    said = n(one["seconds"], "s") if timed else n(one["value"], one["unit"])
    roof, best = (
        n(one[key], one["unit"]) if one[key] else "" for key in ("roof", "best_published")
    )
    share = n(one["of_roof"], "%", digits=2) if one["of_roof"] else ""
    return what, f"≈ {said}" if one["noisy"] else said, roof, share, best
