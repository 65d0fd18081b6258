"""Numbers, words and tables as the page writes them, and how a result shows itself."""

from course_book.text.markdown import Markdown, Span, Table, code, plain, table
from course_book.text.numbers import PREFIXED, Marks, marks, n
from course_book.text.output import Shown, bundle, widget_bundle
from course_book.text.parsing import UNITS, page_grammar, parse_number, readings, split_number
from course_book.text.phrases import retold
from course_book.text.vocabulary import (
    english,
    glossary,
    in_language,
    language,
    languages,
    named,
    t,
    words,
)

__all__ = [
    "PREFIXED",
    "UNITS",
    "Markdown",
    "Marks",
    "Shown",
    "Span",
    "Table",
    "bundle",
    "code",
    "english",
    "glossary",
    "in_language",
    "language",
    "languages",
    "marks",
    "n",
    "named",
    "page_grammar",
    "parse_number",
    "plain",
    "readings",
    "retold",
    "split_number",
    "t",
    "table",
    "widget_bundle",
    "words",
]
