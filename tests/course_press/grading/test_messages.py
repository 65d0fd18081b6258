"""Every language says all that the English graders say, in words of its own."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_lib import CourseError
from course_book.text import in_language, languages
from course_press import grading
from course_press.grading import verdict
from course_press.grading.ring import RING
from course_press.grading.verdict import Amount, Verdict, message
from tests.course_press.grading.words import CODE, bare, english, failures, fields, leaks
from tests.course_press.pages.test_language import spelled

ROOM = Path(verdict.__file__).parent
TEXTS = {lang: verdict._texts(lang) for lang in languages()}
OTHERS = [lang for lang in languages() if lang != "en"]
CALLS = [
    node
    for file in ROOM.rglob("*.py")
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    if isinstance(node, ast.Call)
    and getattr(node.func, "id", getattr(node.func, "attr", "")) == "message"
]


@pytest.mark.parametrize("lang", OTHERS)
def test_every_language_has_each_message_with_the_same_fields(lang):
    here = TEXTS[lang]
    assert list(here) == list(TEXTS["en"])
    for key, text in TEXTS["en"].items():
        assert fields(here[key]) == fields(text), key
        assert here[key] != text or not spelled(bare(text)) - CODE, key


@pytest.mark.parametrize("lang", ["es", "ko"])
def test_no_message_has_a_word_of_english(lang):
    assert not {key: left for key, text in TEXTS[lang].items() if (left := leaks(bare(text), lang))}


def test_every_message_is_said_and_every_call_fills_it():
    named = {call.args[0].value: call for call in CALLS if isinstance(call.args[0], ast.Constant)}
    assert named.keys() <= TEXTS["en"].keys()
    for key, call in named.items():
        given = {one.arg for one in call.keywords}
        assert None in given or given == fields(TEXTS["en"][key]), key
    files = [*ROOM.rglob("*.py"), ROOM.parent / "cli" / "grading.py"]
    sources = " ".join(file.read_text(encoding="utf-8") for file in files)
    said_by_part = re.compile("(criterion|holds|statistic)-|.*-not-")
    right = {f"{lab.name}-{one}-right" for lab in grading.GRADERS.values() for one in lab.criteria}
    for key in TEXTS["en"]:
        assert f'"{key}"' in sources or key in right or said_by_part.match(key), key


def test_one_grading_is_read_in_every_language():
    half = Verdict("flops", False, message("clock-early", share=Amount(0.125, "%")))
    told = {}
    for lang in ("en", "es", "ko"):
        with in_language(lang):
            told[lang] = half.title, half.text.partition(":")[0].partition(". ")[0]
    assert told == {
        "en": ("flops", "the clock stopped at 12.5% of the work's time"),
        "es": ("operaciones", "el reloj se paró al 12,5 % del tiempo que dura el trabajo"),
        "ko": ("연산 수", "일에 걸리는 시간의 12.5%에서 시계가 멈췄다"),
    }


def test_a_sentence_left_in_english_is_found(monkeypatch):
    right = Verdict("median", True, message("benchmark-median-right"))
    assert failures([right]) == {}
    wrong = message("median-wrong", wrong=message("one-interval"))
    assert not english(wrong, "es")
    left = {**TEXTS["es"], "one-interval": "una interrupción moves la mediana"}
    monkeypatch.setattr(verdict, "_texts", lambda lang: left if lang == "es" else TEXTS[lang])
    assert english(wrong, "es") == {"moves"}
    assert not english(wrong, "ko")
    with pytest.raises(AssertionError):
        failures([Verdict("median", False, wrong)])


def test_a_sentence_that_code_fills_in_is_found():
    assert english(message("broken-torch", what="it is not there"), "ko") == set()
    assert english(message("unit-other", unit="the usual unit"), "ko") >= {"the", "unit"}


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "hace falta torch: make labs"),
        ("OSError: libcudart.so", "no se puede importar: OSError: libcudart.so"),
    ],
)
def test_without_torch_a_ring_is_refused_in_the_readers_language(missing, told):
    supervisor = SimpleNamespace(missing={"torch": missing})
    with in_language("es"), pytest.raises(CourseError, match=told):
        RING.grade(Path("mine.py"), supervisor=supervisor)


def test_a_key_that_no_message_has_is_refused():
    with pytest.raises(CourseError, match="unknown key 'flop-wrong': did you mean 'flops-wrong'"):
        message("flop-wrong")
    assert grading.message is message
