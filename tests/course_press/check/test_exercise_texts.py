"""Texts of exercises are complete in each language."""

import json

from course_lib.book.exercises import wording
from course_press.check.exercises import untranslated


def test_languages_have_the_same_texts_and_figures():
    assert list(untranslated()) == []


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
