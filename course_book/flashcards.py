"""The glossary and the numbers to know as a deck of cards for Anki."""

import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from html import escape

from course_lib.specs import load_toml
from course_book.files import DATA
from course_book.poster import numbers
from course_book.text import language
from course_book.text.vocabulary import terms

# Any day: a deck is the same bytes whenever it is made. Anki counts in seconds and milliseconds.
_DAY = 1_700_000_000
_ANKI = load_toml(DATA / "anki.toml", dict)


def asked() -> Iterator[tuple[str, str, str]]:
    """Cards of the page's language: an id that a card has in every language, and both sides.

    Examples
    --------
    >>> next(asked())[:2]
    ('term-roofline', 'roofline')
    """
    for term, (name, meaning) in terms().items():
        yield f"term-{term}", name, meaning
    for block in numbers():
        for key, (name, *cells) in block.rows.items():
            for i, cell in enumerate(cells, 1):
                if cell:
                    front = ": ".join(filter(None, (name, block.header[i])))
                    yield f"{block.key}-{key}-{i}", front, cell


def anki(title: str) -> bytes:
    """The cards as a deck of this title, a file that Anki imports: the same bytes each time.

    Examples
    --------
    >>> zipfile.ZipFile(io.BytesIO(anki("Rooflines"))).namelist()
    ['collection.anki2', 'media']
    """
    base = sqlite3.connect(":memory:")
    for name, columns in _ANKI["tables"].items():
        base.execute(f"create table {name} ({columns})")
    number = _ANKI["model"]["id"] + int.from_bytes(sha256(language().encode()).digest()[:3])
    model = _ANKI["model"] | {"mod": _DAY, "did": number}
    # A look belongs to no deck, for which TOML has no word.
    model["tmpls"] = [one | {"did": None} for one in model["tmpls"]]
    deck = _ANKI["deck"] | {"id": number, "name": title, "mod": _DAY}
    held = [json.dumps(one) for one in ({}, {str(model["id"]): model}, {str(number): deck}, {}, {})]
    days = _DAY, _DAY * 1000, _DAY * 1000
    base.execute("insert into col values (1, ?, ?, ?, 11, 0, 0, 0, ?, ?, ?, ?, ?)", (*days, *held))
    for i, (guid, front, back) in enumerate(asked(), number):
        check = int(sha256(front.encode()).hexdigest()[:8], 16)
        sides = f"{escape(front)}\x1f{escape(back)}"
        note = (i, guid, model["id"], _DAY, -1, "", sides, front, check)
        base.execute("insert into notes values (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')", note)
        card = (i, i, number, _DAY, i - number)
        rest = "0, ?, -1, 0, 0, ?, 0, 0, 0, 0, 0, 0, 0, 0, ''"
        base.execute(f"insert into cards values (?, ?, ?, {rest})", card)  # noqa: S608
    base.commit()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in (("collection.anki2", base.serialize()), ("media", b"{}")):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
