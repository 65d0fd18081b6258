import re
import string

import pytest

from course_lib.bench.rows import Manifest, Row
from course_lib.specs import load_toml
from course_book import reports
from course_book.files import DATA
from course_book.reports import products
from course_book.reports.frame import said
from course_book.text import in_language, languages

ABOUT = {"kind": "cpu", "dtype": "fp32", "shape": "8x8x8", "timing": "cold", "data": "random"}
OPS = {"products": "matmul", "collectives": "send", "operators": "chain"}


@pytest.mark.parametrize("name", OPS)
def test_every_report_has_one_frame(name):
    rows = [
        Row(**ABOUT, op=OPS[name], device=device, status="over-budget", note="too slow")
        for device in ("one", "two", "one")
    ]
    about = Manifest(
        lab="07", command="run 07", started="2026-01-01", wall_seconds=90.0, cost_usd=2
    )
    report = getattr(reports, name).report
    title, line, *rest = report(rows, about).strip().split("\n\n")
    assert title == "# 07"
    assert line == "`run 07`, started 2026-01-01, took 90 s, cost 2 USD."
    assert [part.removesuffix(", ") for part in rest if part.startswith("#")] == [
        "## one",
        "## two",
    ]
    assert "over-budget" in rest[1] + rest[2]
    assert report([], Manifest(lab="07", command="run 07")).endswith("Nothing was measured.\n")


TEXTS = {lang: load_toml(DATA / f"reports.{lang}.toml", dict) for lang in languages()}
SAME = {("es", "bytes"), ("es", "error"), ("es", "no")}
"""Words that are spelled as in English."""
CAUSES = ("none", "above-peak", "clock", "throttled", "launch", "dtype-path", "wave", "unknown")


def figures(text):
    return {name for _, name, _, _ in string.Formatter().parse(text)} - {None}


@pytest.mark.parametrize("lang", languages())
def test_every_language_says_all_that_the_english_reports_say(lang):
    here, english = TEXTS[lang], TEXTS["en"]
    assert list(here) == list(english)
    for key, text in english.items():
        assert figures(here[key]) == figures(text), key
        assert lang not in ("es", "ko") or (here[key] == text) == ((lang, key) in SAME), key


@pytest.mark.parametrize("lang", languages())
@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_of_a_gap_is_told_in_each_language(lang, cause, monkeypatch):
    row = Row(
        **{**ABOUT, "shape": "512x512x512"},
        op="matmul",
        device="one",
        status="ok",
        seconds_median=1.25e-3,
        achieved_tflops=1.5,
        peak_tflops=2.5,
        mfu=0.605,
        clock_mhz=1410.5,
        throttle="power",
    )
    monkeypatch.setattr(products, "gap", lambda *_: cause)
    with in_language(lang):
        told = reports.products.report(
            [row], Manifest(lab="07", command="run 07"), multiprocessors={"one": 108}
        ).rpartition("\n\n")[2]
        assert ("60,5 %" if lang == "es" else "60.5%") in told
        for key, text in TEXTS["en"].items():
            plain = max(re.split(r"\{\w+\}", text), key=len).strip(" .,:;()")
            if lang in ("es", "ko") and " " in plain:
                assert plain not in told, key
    assert "{" not in told


def test_a_report_is_spanish_from_its_first_line_to_its_last():
    with in_language("es"):
        empty = reports.operators.report([], Manifest(lab="07", command="run 07"))
        assert empty.endswith("coste: no medido.\n\nNo se midió nada.\n")
        assert said("to", low="1", high="2") == "de 1 a 2"
