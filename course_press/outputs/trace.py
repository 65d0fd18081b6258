"""The box for a trace as an element of a page: traces of the book, and all words of a verdict."""

from html import escape
from typing import Any

from course_lib.specs import chip, chips
from course_tools.diagnosis import WHOLES, page
from course_tools.diagnosis.reading.rows import gather
from course_book.asking import TraceBox
from course_book.text import language, t, words
from course_press.outputs.written import data_script, number_marks

# Words of the page, and of the command, which says the same.
_BEGIN = ("trace-", "advice-", "lacks-", "flow-", "cause-", "tell-")
_SAID = ("operator", "calls", "time", "share", "ui-copy", "ui-copied")


def html(one: TraceBox) -> str:
    """The element: what it says where no script runs, and the data of its script."""
    known = [chip(key) for key in chips()]
    data = {
        "examples": [_plain(page.dropped([gather(file)], known)) for file in one.traces],
        "first": one.first,
        "words": {
            key: t(key) for key in words(language()) if key.startswith(_BEGIN) or key in _SAID
        },
        "wholes": WHOLES,
        "shown": page.SHOWN,
        **number_marks(),
    }
    return f'<div class="trace"><p>{escape(t("trace-notebook"))}</p>{data_script(data)}</div>'


def _plain(one: Any) -> Any:
    """Records as objects, and numbers with as many digits as a picture shows."""
    one = one._asdict() if hasattr(one, "_asdict") else one
    if isinstance(one, dict):
        return {name: _plain(value) for name, value in one.items()}
    if isinstance(one, list | tuple):
        return [_plain(value) for value in one]
    return float(f"{one:.4g}") if isinstance(one, float) else one
