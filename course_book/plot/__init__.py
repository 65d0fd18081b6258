"""Figures, one function a kind."""

from course_book.plot.charts import parity, roofline, strips, sweep
from course_book.plot.colors import LINES, own_tone, tones
from course_book.plot.diagram import Diagram, bars, flow
from course_book.plot.figure import INK, Plot
from course_book.plot.paper import Ruler, ruled

__all__ = [
    "INK",
    "LINES",
    "Diagram",
    "Plot",
    "Ruler",
    "bars",
    "flow",
    "own_tone",
    "parity",
    "roofline",
    "ruled",
    "strips",
    "sweep",
    "tones",
]
