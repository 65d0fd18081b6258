"""Where the files of this package lie."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
