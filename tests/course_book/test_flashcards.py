"""Cards for Anki: a deck that opens, one id a card in every language, and nothing empty."""

import io
import json
import sqlite3
import zipfile

from course_book.flashcards import anki, asked
from course_book.text import in_language, languages
from course_book.text.vocabulary import terms


def opened(packed, folder):
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.testzip() is None
        archive.extract("collection.anki2", folder)
    return sqlite3.connect(folder / "collection.anki2")


def test_a_deck_opens_and_holds_each_card_once(tmp_path):
    guids = {}
    for lang in languages():
        with in_language(lang):
            packed, cards = anki("Cards"), list(asked())
            assert packed == anki("Cards")
            assert len(terms()) < len(cards)
        (tmp_path / lang).mkdir()
        base = opened(packed, tmp_path / lang)
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)
        notes = base.execute("select guid, flds, sfld from notes order by id").fetchall()
        assert len(notes) == len(cards) == len({guid for guid, _, _ in notes})
        for guid, fields, first in notes:
            front, back = fields.split("\x1f")
            assert all((front.strip(), back.strip(), first)), guid
            assert not {"$", "{", "\\"} & {*front, *back}, guid  # maths as anyone reads it
        guids[lang] = [guid for guid, _, _ in notes]
        models, decks = base.execute("select models, decks from col").fetchone()
        (model,), (deck,) = json.loads(models).items(), json.loads(decks).items()
        assert {row[0] for row in base.execute("select mid from notes")} == {int(model[0])}
        assert {row[0] for row in base.execute("select did from cards")} == {int(deck[0])}
        joined = base.execute("select count(*) from cards join notes on nid = notes.id").fetchone()
        assert joined == (len(notes),)
    assert all(ids == guids["en"] for ids in guids.values())
