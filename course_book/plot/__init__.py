"""Figures, one function a kind."""

from course_book.plot.charts import parity, roofline, strips, sweep
from course_book.plot.colors import LINES, MARKERS, PATHS, own_tone, tones
from course_book.plot.diagram import Diagram, bars, flow
from course_book.plot.figure import GRID, INK, SHADES, Plot
from course_book.plot.graph import builds_on
from course_book.plot.labels import MUTED, NARROW, WIDE
from course_book.plot.paper import Ruler, ruled

__all__ = [
    "GRID",
    "INK",
    "LINES",
    "MARKERS",
    "MUTED",
    "NARROW",
    "PATHS",
    "SHADES",
    "WIDE",
    "Diagram",
    "Plot",
    "Ruler",
    "bars",
    "builds_on",
    "flow",
    "own_tone",
    "parity",
    "roofline",
    "ruled",
    "strips",
    "sweep",
    "tones",
]
