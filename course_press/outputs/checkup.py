"""The page of `course me`: one file that holds all it needs, to be kept or sent."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from course_book.answers import Answer
from course_book.plot import Plot
from course_book.text import language, n, t
from course_press.outputs.figure import html

ASSETS = Path(__file__).parents[1] / "assets"


def page(answer: Answer, roofline: Plot | None) -> str:
    """The answer as a page in the reader's language, with its figure where there is one."""
    loader = FileSystemLoader(ASSETS)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    lang, measured = language(), [cells(one) for one in answer.values["measured"]]
    return made.get_template("checkup.html.j2").render(
        lang=lang,
        t=t,
        n=n,
        figure=html(roofline) if roofline else "",
        answer=answer.answer[lang],
        facts=facts(answer.values),
        measured=measured,
        best=any(best for *_, best in measured),
        odd=[one[lang] for one in answer.more["odd"]],
        because=answer.because,
        drifts=drifts(answer.values),
        found=answer.values,
        sources=answer.sources,
    )


def named(one: dict[str, Any]) -> str:
    """What was measured, and in which format."""
    return f"{t('me-' + one['op'])}, {one['dtype']}"


def cells(one: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """One measurement: what, the rate or time, its roof, the share of it, the best published."""
    what = named(one)
    if one["op"] == "matmul":
        what = f"{what}, {one['shape'].partition('x')[0]}³"  # all are square
    if one["status"] != "ok":
        return what, t("me-absent"), "", "", ""
    value, time = one["value"], one["seconds"]
    if one["op"] == "launch":
        time /= int(one["shape"])
    said = n(time, "s") if value is None else n(value, one["unit"])
    if one["op"] == "layer":
        said = f"{n(time, 's')} ({said})"
    roof = n(one["roof"], one["unit"]) if one["roof"] else ""
    share = n(one["of_roof"], "%", digits=2) if one["of_roof"] else ""
    best = n(one["best_published"], one["unit"]) if one["best_published"] else ""
    return what, f"≈ {said}" if one["noisy"] else said, roof, share, best


def drifts(found: dict[str, Any]) -> list[str]:
    """What differs from the run before, and why, a sentence for each."""
    return [
        t("me-drift").format(
            what=named(one), ratio=n(one["ratio"], "×"), why=t("me-why-" + one["why"])
        )
        for one in found["drifts"]
        if one["why"]
    ]


def facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What the machine is, as far as it tells."""
    told = {
        "device": found["device"],
        "cores": n(found["cores"]) if found["cores"] else "",
        "memory": n(found["memory"], "B") if found["memory"] else "",
        "clock": n(found["clock_hz"], "Hz") if found["clock_hz"] else "",
        "power": n(found["power_limit_w"], "W") if found["power_limit_w"] else "",
    }
    listed = [(t("memory" if name == "memory" else f"me-{name}"), of) for name, of in told.items()]
    listed += [("Python", found["python"]), ("torch", found["torch"]), ("BLAS", found["blas"])]
    listed += [("CUDA", found["cuda"]), ("driver", found["driver"])]
    return [(name, of) for name, of in listed if of]
