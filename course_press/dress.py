"""Quarto runs this file after a render, so that its pages say about themselves what ours do, by whomever it was started."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of this folder, whose modules are no packages of their own
    from course_press import about
    from course_press.book import languages, read_book

    profiles = os.environ.get("QUARTO_PROFILE", "").replace(" ", "").split(",")
    lang = next(lang for lang in languages(ROOT) if lang in profiles or profiles == [""])
    about.dress(read_book(ROOT, lang), Path(os.environ["QUARTO_PROJECT_OUTPUT_DIR"]))
