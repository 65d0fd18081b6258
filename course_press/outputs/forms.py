"""The forms that a result has, on the site and in notebooks: `COURSE_PRINT` names the printer."""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

from course_book.asking import Box, TraceBox, Walk
from course_book.exercises import Form, Parity, Question
from course_book.explore.serving import Calculator
from course_book.explore.views import Explorer
from course_book.moving.scene import Moving
from course_book.plot import Diagram, Plot
from course_book.tables import Downloads, Folded
from course_book.text import Shown, Table
from course_press.outputs import calculator, exercise, explorer, figure, moving, tables, trace
from course_press.run.bundles import FORMS

# What makes an element of a page of each kind of result.
ELEMENTS: Sequence[tuple[Any, Callable[[Any], str]]] = (
    (Explorer, explorer.html),
    (Calculator, calculator.html),
    (Moving, moving.html),
    (Form, exercise.html),
    (Question, exercise.question_html),
    (Parity, exercise.parity_html),
    (Plot | Diagram, figure.html),
    (Walk, exercise.walk_html),
    (TraceBox, trace.html),
    (Box, exercise.box_html),
)


def site(shown: Shown) -> dict[str, Any]:
    """The MIME bundle of a result on the site.

    Examples
    --------
    >>> from course_book import tables
    >>> site(tables.Downloads({"a.csv": "a"}))
    {'text/markdown': '[a.csv](data:text/csv;base64,YQ==){download="a.csv"}'}
    """
    if isinstance(shown, Table | Downloads | Folded):
        return {"text/markdown": tables.markdown(shown)}
    html = next((html for kind, html in ELEMENTS if isinstance(shown, kind)), None)
    return html_block(html(shown)) if html else notebook(shown)


def notebook(shown: Shown) -> dict[str, Any]:
    """The MIME bundle of a result in a committed notebook.

    Examples
    --------
    >>> from course_book import tables
    >>> notebook(tables.Downloads({"a.csv": "a"}))
    {'text/markdown': 'a.csv'}
    """
    return shown.static_bundle()


def both(shown: Shown) -> dict[str, Any]:
    r"""Both bundles, so that cells run once for both: `bundles.form` takes one out.

    Examples
    --------
    >>> from course_book import table
    >>> both(table(["a"], [["b"]]))
    {'text/markdown': '| a |\n|:--|\n| b |'}
    """
    bundles = {"site": site(shown), "notebook": notebook(shown)}
    if bundles["site"] == bundles["notebook"]:
        return bundles["site"]
    # A kernel encodes bytes at the top of a bundle only.
    return {
        FORMS: {
            to: {
                kind: b64encode(data).decode() if isinstance(data, bytes) else data
                for kind, data in bundle.items()
            }
            for to, bundle in bundles.items()
        }
    }


def html_block(markup: str) -> dict[str, str]:
    r"""Markup as an output that stands on a page as it is; what it holds of text must be escaped
    already.

    Examples
    --------
    >>> html_block("<svg></svg>")
    {'text/markdown': '```{=html}\n<svg></svg>\n```\n'}
    """
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", markup)), default=0))
    return {"text/markdown": f"{fence}{{=html}}\n{markup.rstrip(chr(10))}\n{fence}\n"}
