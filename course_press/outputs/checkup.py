"""The page that `course me` writes, to be sent as it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from course_lib import CourseError
from course_book import n, t
from course_book.answers import Answer
from course_book.reports import products
from course_book.text import language
from course_press.outputs.figure import html


def page(answer: Answer, rows: Sequence[Any]) -> str:
    """An answer as one file that holds all it needs, with the roofline of its rows."""
    try:
        figure = html(products.plot(rows))
    except CourseError:  # no peak or no stream is known: there is no roof
        figure = ""
    folder = FileSystemLoader(Path(__file__).parents[1] / "assets")
    made = Environment(loader=folder, autoescape=True, trim_blocks=True)
    made.globals.update(t=t, n=n, lang=language(), figure=figure)
    found = answer.as_json()
    return made.get_template("checkup.html.j2").render(found=found, **found)
