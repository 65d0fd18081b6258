"""Explorers: figures with controls, shown by a page and computed live by a notebook.

Each refuses, with a `CourseError`, to begin at what it does not offer.
"""

from course_book.explore.choices import CHIPS
from course_book.explore.engines import capacity, slo
from course_book.explore.grid import Axis, ChartLayer, Field, TableRow
from course_book.explore.inference import CONTEXT, decode, upgrade
from course_book.explore.operators import attention, batch, network, roofline
from course_book.explore.serving import calculator
from course_book.explore.training import layouts
from course_book.explore.views import Explorer

__all__ = [
    "CHIPS",
    "CONTEXT",
    "Axis",
    "ChartLayer",
    "Explorer",
    "Field",
    "TableRow",
    "attention",
    "batch",
    "calculator",
    "capacity",
    "decode",
    "layouts",
    "network",
    "roofline",
    "slo",
    "upgrade",
]
