"""What live figures share in words and numbers: the marks of a language, the units that take a
prefix, and what their buttons are called.
"""

from typing import Any

from course_book import t
from course_book.explore import NONE
from course_book.text import PREFIXED, language, marks


def number_marks() -> dict[str, Any]:
    """What `courseLive.numbers` needs to write a number as `n` does.

    Examples
    --------
    >>> number_marks()["locale"]["decimal"]
    '.'
    """
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
    """What the buttons under a live figure are called.

    Examples
    --------
    >>> tool_words()["reset"]
    'Reset'
    """
    own = {name: t(f"live-{name}") for name in ("reset", "link", "picture")}
    return own | {"copied": t("ui-copied")}
