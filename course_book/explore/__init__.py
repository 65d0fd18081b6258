"""Explorers: figures with controls, shown by a page and computed live by a notebook.

Each refuses, with a `CourseError`, to begin at what it does not offer.
"""

from course_book.explore.choices import CHIPS
from course_book.explore.engines import EngineExplorer, capacity, slo
from course_book.explore.grid import NONE, Axis, ChartLayer, Field, TableRow
from course_book.explore.inference import CONTEXT, Decode, decode, upgrade
from course_book.explore.maps import Map, Tile, ticks
from course_book.explore.operators import BALANCED, Roofline, attention, batch, network, roofline
from course_book.explore.serving import Calculator, advice, calculator, limits
from course_book.explore.training import layouts
from course_book.explore.views import Endless, Explorer, color_of, ranges

__all__ = [
    "BALANCED",
    "CHIPS",
    "CONTEXT",
    "NONE",
    "Axis",
    "Calculator",
    "ChartLayer",
    "Decode",
    "Endless",
    "EngineExplorer",
    "Explorer",
    "Field",
    "Map",
    "Roofline",
    "TableRow",
    "Tile",
    "advice",
    "attention",
    "batch",
    "calculator",
    "capacity",
    "color_of",
    "decode",
    "layouts",
    "limits",
    "network",
    "ranges",
    "roofline",
    "slo",
    "ticks",
    "upgrade",
]
