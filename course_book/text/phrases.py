"""What the library says in English sentences, in the page's language."""

import re

from course_book.text.numbers import marks
from course_book.text.vocabulary import language, words

_VALUE = re.compile(r"\\\{(\w+)\\\}")
_SINCE = {"which load may lower": "which may drop under load"}
"""Words of earlier measurements, which stay as they were written, and today's for the same."""


def retold(text: str) -> str:
    """A sentence of the library in the page's language, phrase by phrase: those that
    `data/words.csv` has as ``said-...``, with braces where values stand; others stay English.

    Examples
    --------
    >>> from course_book.text import in_language
    >>> with in_language("es"):
    ...     retold("2 cores x 512 bit x 2 FMA units x 2.60 GHz, which may drop under load")
    '2 núcleos x 512 bits x 2 unidades FMA x 2,60 GHz, que puede bajar con la carga'
    """
    for old, new in _SINCE.items():
        text = text.replace(old, new)
    here, decimal = words(language()), marks(language()).decimal

    def said(key: str, match: re.Match[str]) -> str:
        values = match.groupdict().items()
        return here[key].format(
            **{name: re.sub(r"^(\d+)\.(\d+)$", rf"\1{decimal}\2", value) for name, value in values}
        )

    for key, english in words("en").items():
        if key.startswith("said-"):
            pattern = _VALUE.sub(r"(?P<\1>[^\\s(]+?)", re.escape(english))
            text = re.sub(pattern, lambda match, key=key: said(key, match), text)  # type: ignore[misc]
    return text
