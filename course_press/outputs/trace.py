"""The box for a trace as an element of a page: traces of the book, and all words of a verdict."""

from html import escape
from typing import Any

from course_lib.specs import chip, chips
from course_tools.diagnosis import CAUSES, WHOLES, page
from course_tools.diagnosis.reading.rows import gather
from course_book.asking import TraceBox
from course_book.text import language, t, words
from course_press.outputs.written import data_script, number_marks

# Words of the command's that the page says, too.
_TOLD = ("asked", "explains", "doubt", "whole-idle", "whole-ranks", "try", "gain", "gain-less",
    "constructed", "cannot", "times", "above")  # fmt: skip


def html(one: TraceBox) -> str:
    """The element: what it says where no script runs, and the data of its script."""
    known = [chip(key) for key in chips()]
    every = [page.dropped([gather(file)], [file.name], known) for file in one.traces]
    said = words(language())
    own = {key.removeprefix("trace-"): t(key) for key in said if key.startswith("trace-")}
    whole = {key: t(key) for key in said if key.startswith(("advice-", "lacks-", "flow-"))}
    whole |= {key: t(key) for key in ("operator", "calls", "time", "share")}
    whole |= {f"cause-{key}": t(f"cause-{key}").partition(": ")[2] for key in CAUSES}
    told = {key: t(f"tell-{key}") for key in _TOLD} | {"small": t("tell-size-small")}
    data = {
        "examples": [_plain(made) for made in every],
        "start": one.start,
        "words": {**whole, **told, "copy": t("ui-copy"), "copied": t("ui-copied"), **own},
        "wholes": WHOLES,
        "shown": page.SHOWN,
        **number_marks(),
    }
    still = f"<p>{escape(t('trace-command'))} <code>course diagnose trace.json.gz</code></p>"
    return f'<div class="trace">{still}{data_script(data)}</div>'


def _plain(one: Any) -> Any:
    """Records as objects, and numbers with as many digits as a picture shows."""
    if hasattr(one, "_asdict"):
        one = one._asdict()
    if isinstance(one, dict):
        return {name: _plain(value) for name, value in one.items()}
    if isinstance(one, list | tuple):
        return [_plain(value) for value in one]
    return float(f"{one:.4g}") if isinstance(one, float) else one
