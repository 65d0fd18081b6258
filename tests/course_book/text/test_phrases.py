"""Sentences of the library in the page's language."""

import re

import pytest

from course_lib import chip, llm
from course_lib.specs import chips
from course_tools import calibrate
from course_tools.calibrate.constants import nearest
from course_book.text import in_language, retold, words
from tests.each import each

SAID = {key: text for key, text in words("en").items() if key.startswith("said-")}
BRACES = re.compile(r"\{(\w+)\}")


@each("lang", ["es", "ko"])
@each("key", SAID)
def test_a_phrase_is_retold_with_its_values(key, lang):
    names = BRACES.findall(SAID[key])
    there = words(lang)[key]
    assert sorted(BRACES.findall(there)) == sorted(names)
    values = {name: f"v{i}-x" for i, name in enumerate(names)}
    with in_language(lang):
        assert retold(f"a ({SAID[key].format(**values)} b") == f"a ({there.format(**values)} b"


@pytest.mark.parametrize("lang", ["es", "ko"])
def test_what_lent_its_constants_is_told_without_english(lang):
    likely = calibrate.predict(llm.decode("llama-3-8b", "l40s", 1, 1024), "l40s")
    assert retold(likely.source) == likely.source
    with in_language(lang):
        told = retold(likely.source)
    assert "a100-sxm-80" in told
    assert re.search(r" \d+[,.]\d %|\d[.]\d%", told)
    assert not re.search(r"\b(the|of|and|for|points|constants)\b", told)
    assert ("5.3" in likely.source) == (("5,3" if lang == "es" else "5.3") in told)


@each("lang", ["es", "ko"])
@each("key", [key for key in chips() if key not in calibrate.calibrations()])
def test_why_another_chips_constants_stand_is_told_without_english(key, lang):
    like, why = nearest(chip(key))
    with in_language(lang):
        told, source = retold(why), retold(calibrate.calibration(key).source)
    assert source.startswith((f"constantes de {like}", f"{key} 측정값이 없어 {like}"))
    assert told in source
    assert not re.search(r"\b(the|of|with|same|before|its)\b", told)


def test_other_sentences_stay_as_they_are():
    with in_language("es"):
        assert retold("own measurements of a device") == "own measurements of a device"
