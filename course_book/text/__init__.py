"""Numbers, words and tables as the page writes them, and how a result shows itself."""

from course_book.text.markdown import (
    Markdown,
    Shown,
    Span,
    Table,
    code,
    plain,
    table,
    widget_bundle,
)
from course_book.text.numbers import PREFIXED, marks, n, retold
from course_book.text.parsing import UNITS, page_grammar, parse_number
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
    "Shown",
    "Span",
    "Table",
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
    "retold",
    "t",
    "table",
    "widget_bundle",
    "words",
]
