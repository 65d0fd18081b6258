"""Where the files of this package lie."""

from pathlib import Path

__all__ = ["DATA"]

DATA = Path(__file__).parent / "data"
