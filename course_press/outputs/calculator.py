"""The calculator as an element of a page: a form, and the answer to its first state."""

import math
from itertools import groupby
from typing import Any, get_args

from markupsafe import Markup

from course_lib import chip, model
from course_book import n, t
from course_book.answers.record import Question
from course_book.explore import page, serving
from course_book.explore.grid import NONE
from course_book.text import named
from course_press.outputs.written import data_script, number_marks, tool_words
from course_press.source.assets import filled

# What stands in large figures as it is expected, with what it is at best below it.
TILES = {"decode": "s", "user": "", "all": "", "usd": ""}
# What the memory bar shows.
PARTS = ("weights", "cache", "activations")
# What the page says, beside the names of quantities.
WORDS = (
    *("fits", "too-large", "too-many", "weights", "cache", "compute", "network", "launches"),
    *("config-architecture", "config-key", "config-value", "config-json", "config-paste"),
    *("config-url", "number", "take", "config-read", "config-formats", "no-rate"),
    *("tp", "link", "unclear", "longer", "rent", "no-price", "old-price"),
    *("whose-own", "whose-part", "whose-lent", "outside", "experts", "one-cache", "narrow"),
    *("again", "at-least", "at-most", "card", "automatic", "copies", "roofline", "not-likely"),
)


def html(one: serving.Calculator) -> str:
    """The element: a form that its script fills, and the answer to its first state."""
    answer, at, automatic = one.answer(), one.start, t("calc-automatic")
    whole = max(answer.needed or 0, answer.available or 0)
    models = groupby(map(model, one.models), key=lambda of: of.vendor)
    chips = groupby(map(chip, one.chips), key=lambda on: on.vendor)
    counts = {str(count): n(count) for count in serving.COUNTS}
    asked = {"t": t, "n": n, "serving": serving, "questions": get_args(Question)}
    return filled(
        "elements/calculator",
        **asked,
        at=at,
        answer=answer,
        first={
            "model": [
                ("", {serving.OWN: t("calc-own")}),
                *((vendor, {of.key: named(of.name) for of in some}) for vendor, some in models),
            ],
            "chip": [(vendor, {on.key: on.short for on in some}) for vendor, some in chips],
        },
        more=[
            *((name, str(at[name]), counts) for name in ("count", "tp")),
            ("link", "", {"": automatic}),
            *(
                (name, at[name], {of: of or automatic for of in offered})
                for name, offered in serving.FORMATS.items()
            ),
            ("offer", "", {"0": NONE}),
        ],
        shares={name: 100 * (getattr(answer, name) or 0) / whole for name in PARTS},
        end=100 * (answer.available or math.inf) / whole,
        tiles=[_tile(answer, name) for name in TILES],
        data=Markup(data_script(payload(one))),  # noqa: S704
    )


def payload(one: serving.Calculator) -> dict[str, Any]:
    """What its script needs: sizes of models, rates of chips, constants, prices, and words."""
    words = {name: t(f"calc-{name}") for name in WORDS} | tool_words()
    words |= {name: t(name) for name in ("batch", "context", "never", "decode", "prefill")}
    sizes = {"heads": "heads", "kv_heads": "kv", "the hidden size": "hidden"}
    words |= {name: t(f"calc-size-{word}") for name, word in sizes.items()}
    return {
        **page.given(one),
        "start": one.start,
        "most": serving.MOST,
        "own": serving.OWN,
        "rows": serving.ROWS,
        "always": serving.ALWAYS,
        "tiles": TILES,
        "parts": PARTS,
        "words": words | {"no-format": t("live-no-format")},
        "x": {"label": "I (FLOP/B)", "unit": "FLOP/B"},
        "y": {"label": "P (FLOP/s)", "unit": "FLOP/s"},
        **number_marks(),
    }


def _tile(of: serving.Calculated, name: str) -> tuple[str, str, str]:
    """A tile's name, what is expected, and what it is at best."""
    likely = name if name == "usd" else f"{name}_likely"
    best = {"decode": "decode_light", "usd": "usd_least"}.get(name, name)
    bound = "at-least" if name in ("decode", "usd") else "at-most"
    value, least = (n(getattr(of, one), TILES[name]) for one in (likely, best))
    return name, value, t(f"calc-{bound}").format(value=least)
