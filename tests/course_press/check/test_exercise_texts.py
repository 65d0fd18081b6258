"""Texts of exercises are complete in each language."""

import json
import re
from pathlib import Path

import pytest

from course_book.exercises import wording
from course_press.check.exercises import untranslated
from course_press.source.book import languages

ROOT = Path(__file__).parents[3]


def test_languages_have_the_same_texts_and_figures():
    assert list(untranslated()) == []


@pytest.mark.parametrize("lang", languages(ROOT))
def test_pages_say_with_the_same_words_how_they_check_an_answer(lang):
    said = r'(?m)^(.*`check\(")[\w-]+(", …\)`.*)$'
    pages = (ROOT / "chapters" / lang).glob("*.qmd")
    lines = {page.stem: re.findall(said, page.read_text("utf-8")) for page in pages}
    # The first chapter says more, once: what a reader sees who has made a known mistake.
    full = lines.pop("hello-roofline")
    short = {line for found in lines.values() for line in found}
    assert len(short) == 1
    assert len(full) == 1
    assert full[0] not in short


def test_a_missing_text_and_a_wrong_figure_are_found(monkeypatch):
    real = wording._load

    def broken(file):
        found = json.loads(json.dumps(real(file)))
        if file == "rooflines.ko.toml":
            del found["rooflines-dot"]
            found["rooflines-tile"]["hints"].pop()
        if file == "hello-roofline.es.toml":
            found["hello-ridge"]["drawn"]["hints"].pop()
        if file == "common.es.toml":
            del found["misconceptions"]["sparse"]
        if file == "predictions.ko.toml":
            found["phrases"]["right"] = "정답이다."
            del found["wall-batch"]["choices"]["never"]
        return found

    monkeypatch.setattr(wording, "_load", broken)
    assert list(untranslated()) == [
        ("common.es.toml", "sparse has no text"),
        ("hello-roofline.es.toml", "hello-ridge: drawn hints has not the {figures} of the English"),
        ("predictions.ko.toml", "phrases.right {truth} has no text"),
        ("predictions.ko.toml", "wall-batch.choices.never has no text"),
        ("rooflines.ko.toml", "rooflines-dot has no text"),
        ("rooflines.ko.toml", "rooflines-tile: hints has not the {figures} of the English"),
    ]
