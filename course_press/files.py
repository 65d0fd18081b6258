"""Writing files so that a reader never sees half of one."""

import os
import threading
from pathlib import Path


def swap_in(file: Path, text: str) -> None:
    """Write a file aside, then put it in its place, with its folder where that is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
