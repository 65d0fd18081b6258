"""Figures, one function a kind."""

from course_book.plot.charts import parity, roofline, sweep
from course_book.plot.colors import LINES, MARKERS, PATHS, own_tone, tones
from course_book.plot.diagram import Diagram, flow
from course_book.plot.figure import GRID, INK, SHADES, Plot
from course_book.plot.labels import MUTED, NARROW, WIDE
from course_book.plot.shares import bars
from course_book.plot.web import builds_on

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
    "bars",
    "builds_on",
    "flow",
    "own_tone",
    "parity",
    "roofline",
    "sweep",
    "tones",
]
