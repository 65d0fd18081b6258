"""What was measured: kept, read, compared."""

from course_tools.measured import (
    collectives,
    contributed,
    gaps,
    kernels,
    ladder,
    operators,
    serving,
    trace,
)
from course_tools.measured.published import (
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

__all__ = [
    "CHIPS",
    "FOLDER",
    "TABLES",
    "UNSEEN",
    "Best",
    "PublishedRun",
    "best_published",
    "collectives",
    "contributed",
    "gaps",
    "kernels",
    "lab",
    "ladder",
    "median_error",
    "operators",
    "runs",
    "serving",
    "table",
    "trace",
]
