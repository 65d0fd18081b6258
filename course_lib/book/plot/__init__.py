"""Figures, one function a kind."""

from course_lib.book.plot.charts import Plot, parity, roofline, sweep
from course_lib.book.plot.diagram import Diagram, flow

__all__ = ["Diagram", "Plot", "flow", "parity", "roofline", "sweep"]
