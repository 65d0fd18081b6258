"""The glossary and the numbers to know as a deck of cards for Anki."""

import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from typing import Any

from course_book.poster import numbers
from course_book.text import language
from course_book.text.vocabulary import terms

# Any day: a deck is the same bytes whenever it is made. Anki counts in seconds and milliseconds.
_DAY = 1_700_000_000
_NUMBER = 1_700_000_000_000
# Anki's own tables of version 11, which every Anki reads, with the columns that it asks for.
_TABLES = {
    "col": "id integer primary key, crt, mod, scm, ver, dty, usn, ls, conf, models, decks, "
    "dconf, tags",
    "notes": "id integer primary key, guid, mid, mod, usn, tags, flds, sfld, csum, flags, data",
    "cards": "id integer primary key, nid, did, ord, mod, usn, type, queue, due, ivl, "
    "factor, reps, lapses, left, odue, odid, flags, data",
    "revlog": "id integer primary key, cid, usn, ease, ivl, lastIvl, factor, time, type",
    "graves": "usn, oid, type",
}


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
    for name, columns in _TABLES.items():
        base.execute(f"create table {name} ({columns})")
    number = _NUMBER + int.from_bytes(sha256(language().encode()).digest()[:3])
    fields = [{"name": name, "ord": i, "font": "Arial", "size": 20, "sticky": False, "rtl": False}
              for i, name in enumerate(("Front", "Back"))]  # fmt: skip
    look: dict[str, Any] = {
        "name": "1",
        "ord": 0,
        "qfmt": "{{Front}}",
        "did": None,
        "bqfmt": "",
        "bafmt": "",
    }
    look |= {"afmt": "{{FrontSide}}\n\n{{Back}}"}
    shared: dict[str, Any] = {"id": number, "name": title, "mod": _DAY, "usn": -1}
    model = {
        **shared,
        "id": _NUMBER,
        "name": "Rooflines",
        "type": 0,
        "sortf": 0,
        "did": number,
        "tmpls": [look],
        "flds": fields,
    }
    model |= {
        "css": ".card { font: 22px sans-serif; text-align: center; white-space: pre-line; }",
        "tags": [],
        "vers": [],
    }
    model |= {"latexPre": "", "latexPost": "", "req": [[0, "any", [0]]]}
    deck: dict[str, Any] = {
        **shared,
        "desc": "",
        "collapsed": False,
        "dyn": 0,
        "conf": 1,
        "extendNew": 0,
    }
    deck |= {"extendRev": 0} | {f"{kind}Today": [0, 0] for kind in ("new", "rev", "lrn", "time")}
    held = [json.dumps(one) for one in ({}, {str(_NUMBER): model}, {str(number): deck}, {}, {})]
    days = _DAY, _DAY * 1000, _DAY * 1000
    base.execute("insert into col values (1, ?, ?, ?, 11, 0, 0, 0, ?, ?, ?, ?, ?)", (*days, *held))
    for i, (guid, front, back) in enumerate(asked(), number):
        check = int(sha256(front.encode()).hexdigest()[:8], 16)
        note = (i, guid, _NUMBER, _DAY, -1, "", f"{escape(front)}\x1f{escape(back)}", front, check)
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
