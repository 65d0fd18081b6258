"""What was measured: kept, read, compared."""

from course_tools.measured import collectives, gaps, kernels, ladder, operators, serving
from course_tools.measured.published import FOLDER, best_published, lab, runs, table

__all__ = [
    "FOLDER",
    "best_published",
    "collectives",
    "gaps",
    "kernels",
    "lab",
    "ladder",
    "operators",
    "runs",
    "serving",
    "table",
]
