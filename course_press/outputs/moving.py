"""A moving picture as an element of a page: the still, and what `moving.html` needs to move it."""

from typing import Any

from markupsafe import Markup

from course_book import t
from course_book.moving.scene import TONES, Moving, Running, color, holds, rows
from course_press.outputs.written import data_script, number_marks, tool_words
from course_press.source.assets import filled

WORDS = ("play", "pause", "step", "film")


def html(shown: Moving) -> str:
    """An element of a page."""
    says = shown.scenes[shown.start][0].says
    step = t("live-step").replace("{i}", str(shown.still + 1)).replace("{n}", str(len(says)))
    return filled(
        "elements/moving",
        shown=shown,
        longest=max(rows(wide.says) for wide, _ in shown.scenes.values()),
        said=says[shown.still],
        last=len(says) - 1,
        step=step,
        data=Markup(data_script(payload(shown))),  # noqa: S704
        t=t,
    )


def payload(shown: Moving) -> dict[str, Any]:
    """Words, marks and colours, and for each choice its sentences, times and what moves."""
    choices = list(shown.scenes)
    return {
        "words": tool_words() | {name: t(f"live-{name}") for name in WORDS},
        **number_marks(),
        "tones": {tone: color(tone) for tone in (*TONES, "none")},
        "start": choices.index(shown.start),
        "still": shown.still,
        "choices": [
            {
                "says": scenes[0].says,
                "seconds": scenes[0].seconds,
                "holds": holds(scenes[0].says, scenes[0].seconds),
                **_sizes(shown, choice),
            }
            for choice, scenes in shown.scenes.items()
        ],
    }


def _sizes(shown: Moving, choice: str) -> dict[str, Any]:
    """What changes on a page, on a phone, and in the same way on both."""
    sizes = [_sparse(shown.changes(choice, narrow=narrow)) for narrow in (False, True)]
    wide, narrow = ({change[:2]: change for change in size} for size in sizes)
    return {
        "both": [one for what, one in wide.items() if narrow.get(what) == one],
        "wide": [one for what, one in wide.items() if narrow.get(what) != one],
        "narrow": [one for what, one in narrow.items() if wide.get(what) != one],
    }


def _sparse(changes: list[tuple[int, str, list[Any]]]) -> list[tuple[int, str, list[Any]]]:
    """The same with a first value, then each step at which it changes and the value from there."""
    sparse = []
    for place, name, values in changes:
        runs = all(isinstance(value, Running) for value in values)
        # Of numbers that run, twelve digits.
        exact = [float(f"{value.number:.12g}") for value in values] if runs else values
        sent = [int(v) if isinstance(v, float) and v == int(v) else v for v in exact]
        since = [at for at in range(1, len(sent)) if sent[at] != sent[at - 1]]
        after = [part for at in since for part in (at, sent[at])]
        kind = f"text {values[0].unit}" if runs else name
        sparse.append((place, kind, [sent[0], *after]))
    return sparse
