"""The calculator as an element of a page: a form, and the answer to its first state."""

import math
import re
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
    *("at-least", "at-most", "card", "automatic", "copies", "roofline", "not-likely"),
    *("sentence", "compare", "drop", "versus", "paste", "embed", "by-weights", "by-cache"),
    *("by-compute", "by-network", "by-launches"),
)


def html(one: serving.Calculator) -> str:
    """The element: a form that its script fills, and the answer to its first state."""
    answer, shown = one.answer(), {"counts": {str(count): n(count) for count in serving.COUNTS}}
    for name, formats in serving.FORMATS.items():
        shown[name] = {key: key or t("calc-automatic") for key in formats}
    models = [
        (vendor, {key: named(model(key).name) for key in of})
        for vendor, of in groupby(one.models, key=lambda key: model(key).vendor)
    ]
    # What is chosen automatically is named, as the script does: the sentence keeps its lines.
    shown["weights"][""] = serving.of_model(model(one.start["model"]), chip(one.start["chip"])).w
    choices = {
        "model": [("", {serving.OWN: t("calc-own")}), *models],
        "chip": [
            (vendor, {key: chip(key).short for key in of})
            for vendor, of in groupby(one.chips, key=lambda key: chip(key).vendor)
        ],
        "tp": [("", shown["counts"])],
        "weights": [("", shown["weights"])],
    }
    whole = max(answer.needed or 0, answer.available or 0)
    sizes = {name: getattr(answer, name) or 0 for name in PARTS}
    return filled(
        "elements/calculator",
        brief=one.brief,
        gap="" if one.brief else "\n",
        at=one.start,
        answer=answer,
        most=serving.MOST,
        choices=choices,
        more={
            "count": (str(one.start["count"]), shown["counts"]),
            "link": ("", {"": t("calc-automatic")}),
            **{of: (one.start[of], shown[of]) for of in ("activations", "cache", "compute")},
            "offer": ("", {"0": NONE}),
        },
        sentence=re.split(r"[{}]", t("calc-sentence")),
        told={
            "decode": n(answer.decode_likely, "s"),
            "least": n(answer.decode_light, "s"),
            "binds": t(f"calc-by-{answer.advice}"),
        },
        verdict=serving.verdict(answer),
        advice=serving.counsel(answer, one.start["batch"]),
        parts={k: (f"{100 * size / whole:.2f}", n(size, "B")) for k, size in sizes.items()},
        end=f"{100 * (answer.available or math.inf) / whole:.2f}",
        tiles={name: _tile(answer, name) for name in TILES},
        rows={name: serving.shown(answer, name) for name in serving.ROWS},
        questions=get_args(Question),
        data=Markup(data_script(payload(one))),  # noqa: S704
        t=t,
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


def _tile(of: serving.Calculated, name: str) -> tuple[str, str]:
    """A quantity as it is expected, and at best."""
    likely = name if name == "usd" else f"{name}_likely"
    best = {"decode": "decode_light", "usd": "usd_least"}.get(name, name)
    bound = "at-least" if name in ("decode", "usd") else "at-most"
    value, least = (n(getattr(of, one), TILES[name]) for one in (likely, best))
    return value, t(f"calc-{bound}").format(value=least)
