"""What live figures share: a language's marks, prefixed units, and the names of buttons."""

from typing import Any

from course_book import t
from course_book.explore import NONE
from course_book.text import PREFIXED, language, marks


def number_marks() -> dict[str, Any]:
    """What `courseLive.numbers` needs to write a number as `n` does."""
    mark = marks(language())
    return {
        "locale": {
            "decimal": mark.decimal,
            "thousands": mark.thousands.replace(" ", "\u00a0"),
            "percent": mark.percent.replace(" ", "\u00a0"),
        },
        "prefixed": PREFIXED,
        "none": NONE,
        "never": t("never"),
    }


def tool_words() -> dict[str, str]:
    """What the buttons under a live figure are called."""
    own = {name: t(f"live-{name}") for name in ("reset", "link", "picture")}
    return own | {"copied": t("ui-copied")}
