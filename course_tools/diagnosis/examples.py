"""The twelve seeded traces, one for each cause; tools/seeded_traces.py makes them."""

from pathlib import Path

from course_lib.core.checks import known
from course_tools.diagnosis.causes import CAUSES
from course_tools.files import DATA

FOLDER = DATA / "traces"
SEEDED = CAUSES
"""Which cause each trace was made to show; the last shows none, a CUDA graph in one row."""


def seeded(cause: str) -> Path:
    """The trace that was made to show a cause.

    Parameters
    ----------
    cause : one of `SEEDED`.

    Examples
    --------
    >>> seeded("copies").name
    'copies.json.gz'
    """
    return FOLDER / f"{known('cause', cause, SEEDED)}.json.gz"
