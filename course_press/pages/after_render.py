"""Quarto runs this after a render, so that its pages say about themselves what ours do."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Complete the pages of the rendered profile; a Python that cannot says so."""
    sys.path[0] = str(ROOT)  # instead of this folder, whose modules are no packages of their own
    try:
        from course_lib import CourseError
        from course_press.pages import quarto
        from course_press.pages.site import every_language
        from course_press.source.book import languages, read_book
    except ImportError as error:
        note = f"{error}: set QUARTO_PYTHON to the Python of this book, or use course build"
        sys.stderr.write(f"Pages show neither how to cite them nor what to read first: {note}\n")
        return
    profiles = os.environ.get("QUARTO_PROFILE", "").replace(" ", "").split(",")
    default, *_ = every = languages(ROOT)
    lang = next((lang for lang in every if lang in profiles), default)
    folder = Path(os.environ["QUARTO_PROJECT_OUTPUT_DIR"])
    # Who renders one page, or looks at it while writing, does not wait for pictures to share.
    whole = "QUARTO_PROJECT_RENDER_ALL" in os.environ
    try:
        book = read_book(ROOT, lang)
        quarto.add_facts(book, folder, draw=whole)
        quarto.link_up(book, folder.parent, every_language(ROOT, [lang], folder.parent))
    except CourseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
