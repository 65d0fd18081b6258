"""What was measured: kept, read, compared."""

from course_lib.measured import (
    collectives,
    contributed,
    gaps,
    kernels,
    ladder,
    operators,
    results,
    serving,
    trace,
)
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
    "contributed",
    "gaps",
    "kernels",
    "lab",
    "ladder",
    "median_error",
    "operators",
    "results",
    "runs",
    "serving",
    "table",
    "trace",
]
