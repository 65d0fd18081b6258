"""Numbers, words and tables as the page writes them, and how a result shows itself."""

from course_lib.book.text.markdown import Markdown, Span, Table, code, plain, table
from course_lib.book.text.numbers import PREFIXED, Marks, marks, n
from course_lib.book.text.output import Shown, bundle, widget_bundle
from course_lib.book.text.parsing import UNITS, ambiguous, page_grammar, parsed
from course_lib.book.text.vocabulary import glossary, in_language, language, languages, t, words

__all__ = [
    "PREFIXED",
    "UNITS",
    "Markdown",
    "Marks",
    "Shown",
    "Span",
    "Table",
    "ambiguous",
    "bundle",
    "code",
    "glossary",
    "in_language",
    "language",
    "languages",
    "marks",
    "n",
    "page_grammar",
    "parsed",
    "plain",
    "t",
    "table",
    "widget_bundle",
    "words",
]
