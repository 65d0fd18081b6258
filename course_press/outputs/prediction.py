"""A prediction as an element of a page, which `predict.html` moves into the box above it."""

import json
from html import escape
from typing import Any

from course_book.exercises import Parity, Question, predictions
from course_book.text import UNITS, language, page_grammar
from course_press.outputs.written import number_marks


def html(shown: Question) -> str:
    """The answer, for who has no script or wants no question, and what a script needs to ask."""
    return f"""<div class="guess" id="predict-{shown.id}">
<p class="guess-truth"><strong>{escape(shown.ask)}:</strong> {escape(shown.shown_truth)}</p>
{_data(payload(shown))}{_data(shared(), "guess-shared")}
</div>"""


def parity_html(_: Parity) -> str:
    """Where all predictions of a reader are drawn."""
    return f"""<div class="guesses"><p>{escape(shared()["words"]["still"])}</p>
{_data({})}{_data(shared(), "guess-shared")}
</div>"""


def payload(shown: Question) -> dict[str, Any]:
    """The truth, and what is asked."""
    own: dict[str, Any] = {"until": shown.until} if shown.until else {}
    if shown.right is not None:
        return own | {"choices": shown.shown_choices, "right": shown.right}
    own |= {"truth": shown.truth, "unit": shown.unit, "span": shown.span}
    return own | {"hopes": shown.hopes}


def shared() -> dict[str, Any]:
    """What is the same for all predictions in a language: words, and how numbers are read and
    written.
    """
    texts = predictions(language())
    asks = {name: text["ask"] for name, text in texts.items() if name != "phrases"}
    return {
        "words": texts["phrases"],
        "asks": asks,
        "units": UNITS,
        **number_marks(),
        **page_grammar(language()),
    }


def _data(data: dict[str, Any], name: str = "") -> str:
    # The script block may hold no "<": "</script>" would end it.
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    text = text.replace("<", "\\u003c")
    kind = f' class="{name}"' if name else ""
    return f'<script type="application/json"{kind}>{text}</script>'
