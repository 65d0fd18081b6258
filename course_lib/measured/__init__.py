"""What was measured: kept, read, compared."""

from course_lib.measured import collectives, gaps, operators, results, steps, trace
from course_lib.measured.published import (
    CHIPS,
    FOLDER,
    TABLES,
    UNSEEN,
    Best,
    PublishedRun,
    best_published,
    lab,
    median_error,
    runs,
    table,
)
from course_lib.measured.rows import Difference, Manifest, Row

__all__ = [
    "CHIPS",
    "FOLDER",
    "TABLES",
    "UNSEEN",
    "Best",
    "Difference",
    "Manifest",
    "PublishedRun",
    "Row",
    "best_published",
    "collectives",
    "gaps",
    "lab",
    "median_error",
    "operators",
    "results",
    "runs",
    "steps",
    "table",
    "trace",
]
