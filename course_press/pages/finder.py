"""What the search looks through, as the engine in the browser would have made it of the pages: it
has nothing left to index there.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

FIELDS = ("title", "text", "also")
"""What is searched of a result; the rest of it is only shown."""
_WORD = re.compile(r"[가-힣]+|(?:(?![가-힣])[^\W_])+")
_VERSION = 2
"""Of MiniSearch's own format."""


def tokens(text: str) -> list[str]:
    """The words of a text as the index has them: in small letters without accents, and Hangul by
    pairs of syllables, since particles cling to words. `assets/search.js` takes a question apart
    alike.

    Examples
    --------
    >>> tokens("Índice de KV-cache: 산술 강도가")
    ['indice', 'de', 'kv', 'cache', '산술', '강도', '도가']
    """
    marked = unicodedata.normalize("NFD", text.lower())
    bare = "".join(letter for letter in marked if not unicodedata.category(letter).startswith("M"))
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFC", bare)):
        in_pairs = len(word) > 1 and "가" <= word[0] <= "힣"
        found += [word[i : i + 2] for i in range(len(word) - 1)] if in_pairs else [word]
    return found


def index(results: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """An index in the form that MiniSearch loads.

    Examples
    --------
    >>> made = index([{"title": "Ridge", "text": "The ridge point"}])
    >>> made["index"]
    [['point', {'1': {'0': 1}}], ['ridge', {'0': {'0': 1}, '1': {'0': 1}}], ['the', {'1': {'0': 1}}]]
    """  # noqa: E501
    stored = [dict(one) for one in results]
    terms: dict[str, dict[str, dict[str, int]]] = {}
    lengths: dict[str, list[int]] = {}
    for number, one in enumerate(stored):
        lengths[str(number)] = []
        for field, name in enumerate(FIELDS):
            counted = Counter(tokens(one.get(name, "")))
            lengths[str(number)].append(len(counted))
            for term, count in counted.items():
                terms.setdefault(term, {}).setdefault(str(field), {})[str(number)] = count
    return {
        "documentCount": len(stored),
        "nextId": len(stored),
        "documentIds": {str(number): number for number in range(len(stored))},
        "fieldIds": {name: field for field, name in enumerate(FIELDS)},
        "fieldLength": lengths,
        "averageFieldLength": [
            sum(one[field] for one in lengths.values()) / max(1, len(stored))
            for field in range(len(FIELDS))
        ],
        "storedFields": {str(number): one for number, one in enumerate(stored)},
        "dirtCount": 0,
        "index": [[term, terms[term]] for term in sorted(terms)],
        "serializationVersion": _VERSION,
    }


def script(results: Iterable[Mapping[str, str]]) -> str:
    r"""The index as a script, which a page opened as a file may load too: a text to be decoded,
    which browsers read faster than an object.

    Examples
    --------
    >>> script([])[:44]
    'window.COURSE_SEARCH = \'{"documentCount":0,"'
    """
    text = json.dumps(index(results), ensure_ascii=False, separators=(",", ":"))
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"window.COURSE_SEARCH = '{quoted}';\n"
