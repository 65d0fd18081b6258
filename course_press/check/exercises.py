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
        common = common_texts(lang)
        yield from _lacks(f"common.{lang}.toml", set(common["misconceptions"]), wanted)
        yield from _lacks(
            f"common.{lang}.toml", set(common["phrases"]), set(common_texts("en")["phrases"])
        )
        yield from _lacks(
            f"predictions.{lang}.toml", _within(predictions(lang)), _within(predictions("en"))
        )
        for chapter in CHAPTERS:
            here, english = texts(chapter, lang), texts(chapter, "en")
            yield from _lacks(
                f"{chapter}.{lang}.toml",
                set(here),
                {one.id for one in all() if one.chapter == chapter},
            )
            for id_ in sorted(set(here) & set(english)):
                for name in ("title", "question", "hints", "solution"):
                    if _figures(here[id_].get(name, "")) != _figures(
                        english[id_].get(name, "")
                    ) or not here[id_].get(name):
                        yield (
                            f"{chapter}.{lang}.toml",
                            f"{id_}: {name} has not the {{figures}} of the English",
                        )
                drawn = [one[id_].get("drawn", {}) for one in (here, english)]
                for name in sorted({name for one in drawn for name in one}):
                    if _figures(drawn[0].get(name, "")) != _figures(drawn[1].get(name, "")):
                        yield (
                            f"{chapter}.{lang}.toml",
                            f"{id_}: drawn {name} has not the {{figures}} of the English",
                        )


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
