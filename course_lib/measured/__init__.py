"""What was measured: kept, read, compared."""

from course_lib.measured import collectives, gaps, operators, results, trace
from course_lib.measured.published import TABLES, UNSEEN, Run, median_error, runs
from course_lib.measured.rows import Difference, Manifest, Row
from course_lib.measured.tables import CHIPS, FOLDER, Best, best_published, lab, table

__all__ = [
    "CHIPS",
    "FOLDER",
    "TABLES",
    "UNSEEN",
    "Best",
    "Difference",
    "Manifest",
    "Row",
    "Run",
    "best_published",
    "collectives",
    "gaps",
    "lab",
    "median_error",
    "operators",
    "results",
    "runs",
    "table",
    "trace",
]
