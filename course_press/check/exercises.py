"""Texts of exercises: each language has what the English has, with the same figures."""

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from course_book.exercises import CHAPTERS, all, common_texts, predictions, texts
from course_book.text import languages


def untranslated() -> Iterator[tuple[str, str]]:
    """Texts a language lacks, has too many of, or with other figures than in English, by file."""
    wanted = {name for one in all() for name in one.misconceptions}
    for lang in languages():
        common, english = common_texts(lang), common_texts("en")
        file, guessed = f"common.{lang}.toml", f"predictions.{lang}.toml"
        yield from _lacks(file, set(common["misconceptions"]), wanted)
        yield from _lacks(file, set(common["phrases"]), set(english["phrases"]))
        yield from _lacks(guessed, _within(predictions(lang)), _within(predictions("en")))
        for chapter in CHAPTERS:
            file = f"{chapter}.{lang}.toml"
            here, english = texts(chapter, lang), texts(chapter, "en")
            yield from _lacks(file, set(here), {one.id for one in all() if one.chapter == chapter})
            for id_ in sorted(set(here) & set(english)):
                ours, theirs = here[id_], english[id_]
                for name in ("title", "question", "hints", "solution"):
                    alike = _figures(ours.get(name, "")) == _figures(theirs.get(name, ""))
                    if not alike or not ours.get(name):
                        yield file, f"{id_}: {name} has not the {{figures}} of the English"
                drawn, due = ours.get("drawn", {}), theirs.get("drawn", {})
                for name in sorted({*drawn, *due}):
                    if _figures(drawn.get(name, "")) != _figures(due.get(name, "")):
                        yield file, f"{id_}: drawn {name} has not the {{figures}} of the English"


def _within(texts: Mapping[str, Any], above: str = "") -> set[str]:
    """The names of texts, each behind those that it is within, and their {figures}."""
    return {
        name
        for key, text in texts.items()
        for name in (
            _within(text, f"{above}{key}.")
            if isinstance(text, Mapping)
            else {f"{above}{key}", *(f"{above}{key} {{{one}}}" for one in _figures(text)[0])}
        )
    }


def _lacks(file: str, has: set[str], wanted: set[str]) -> Iterator[tuple[str, str]]:
    yield from ((file, f"{name} has no text") for name in sorted(wanted - has))
    yield from ((file, f"{name} is a text for nothing") for name in sorted(has - wanted))


def _figures(text: str | Sequence[str]) -> list[set[str | None]]:
    several = [text] if isinstance(text, str) else text
    return [{name for _, name, _, _ in string.Formatter().parse(one)} - {None} for one in several]
