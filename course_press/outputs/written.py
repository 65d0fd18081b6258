"""What live figures share: a language's marks, prefixed units, and the names of buttons."""

import json
from collections.abc import Callable
from typing import Any

from course_book import t
from course_book.explore.grid import NONE
from course_book.text import PREFIXED, language, marks


def number_marks() -> dict[str, Any]:
    """What `courseLive.numbers` needs to write a number as `n` does."""
    mark, names = marks(language()), ("decimal", "thousands", "percent")
    return {
        "locale": {name: getattr(mark, name).replace(" ", "\u00a0") for name in names},
        "prefixed": PREFIXED,
        "none": NONE,
        "never": t("never"),
    }


def data_script(data: Any, kind: str = "", default: Callable[[Any], Any] | None = None) -> str:
    """Data for a page's script, of which nothing can end the element that holds it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=default)
    text = text.replace("<", "\\u003c")
    of = f' class="{kind}"' if kind else ""
    return f'<script type="application/json"{of}>{text}</script>'


def tool_words() -> dict[str, str]:
    """What the buttons under a live figure are called."""
    own = {name: t(f"live-{name}") for name in ("reset", "link", "picture")}
    return own | {"copied": t("ui-copied")}
