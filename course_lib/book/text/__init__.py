"""Numbers, words and tables as the page writes them."""

from course_lib.book.text.writing import (
    Markdown,
    Table,
    code,
    glossary,
    html_block,
    language,
    languages,
    n,
    plain,
    t,
    table,
    words,
)

__all__ = [
    "Markdown",
    "Table",
    "code",
    "glossary",
    "html_block",
    "language",
    "languages",
    "n",
    "plain",
    "t",
    "table",
    "words",
]
