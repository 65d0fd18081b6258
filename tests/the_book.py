"""The book itself, read once in each language for all tests of a process, which leave it as it is."""

from functools import cache
from pathlib import Path

from course_press.source.book import languages, read_book

ROOT = Path(__file__).parents[1]


@cache
def the_book(lang):
    return read_book(ROOT, lang)


PAGES = [
    f"{lang}/{chapter.path.with_suffix('.html')}"
    for lang in languages(ROOT)
    for chapter in the_book(lang).chapters
]
