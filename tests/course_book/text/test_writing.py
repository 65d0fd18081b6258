import csv
import os
import re
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from math import inf, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError
from course_book import glossary, n, t, table
from course_book.files import DATA
from course_book.text import (
    Markdown,
    Span,
    in_language,
    language,
    languages,
    plain,
    vocabulary,
    words,
)

DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
PREFIXES = {"p": -12, "n": -9, "µ": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def read(text, unit, lang="en"):
    """The value that a reader takes from what `n` wrote, exactly."""
    figure, _, power = text.removesuffix(unit).rstrip("%×").strip().partition(" × 10")
    exponent = int(power.strip().translate(DIGITS)) if power else 0
    if figure[-1] in PREFIXES:
        figure, exponent = figure[:-1].rstrip(), PREFIXES[figure[-1]]
    thousands, decimal = (" ", ",") if lang == "es" else (",", ".")
    return Decimal(figure.replace(thousands, "").replace(decimal, ".").replace("−", "-")).scaleb(
        exponent
    )


@pytest.fixture(params=["en", "es", "ko"])
def lang(request, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", request.param)
    return request.param


@pytest.mark.parametrize(
    ("call", "en", "es"),
    [
        (lambda: n(4378), "4,378", "4378"),
        (lambda: n(16384), "16,384", "16 384"),
        (lambda: n(240.537, digits=4), "240.5", "240,5"),
        (lambda: n(0.5), "0.5", "0,5"),
        (lambda: n(-1234.5), "−1,230", "−1230"),
        (lambda: n(0), "0", "0"),
        (lambda: n(0.0, "s"), "0 s", "0 s"),
        (lambda: n(3.35e12, "B/s"), "3.35 TB/s", "3,35 TB/s"),
        (lambda: n(999.96e9, "B/s"), "1.00 TB/s", "1,00 TB/s"),
        (lambda: n(1.0107e-3, "s"), "1.01 ms", "1,01 ms"),
        (lambda: n(26e-6, "s"), "26 µs", "26 µs"),
        (lambda: n(989.4e12, "FLOP/s", sci=True), "9.89 × 10¹⁴ FLOP/s", "9,89 × 10¹⁴ FLOP/s"),
        (lambda: n(295.34, "FLOP/B"), "295 FLOP/B", "295 FLOP/B"),
        (lambda: n(0.00847, "%"), "0.847%", "0,847 %"),
        (lambda: n(3.1712, "×"), "3.17×", "3,17×"),
        (lambda: n(1.5e-7), "1.5 × 10⁻⁷", "1,5 × 10⁻⁷"),
        (lambda: n(1234567.2, digits=3), "1,230,000", "1 230 000"),
        (lambda: n(999), "999", "999"),
        (lambda: n(9999), "9,999", "9999"),
        (lambda: n(10000), "10,000", "10 000"),
        (lambda: n(-4378), "−4,378", "−4378"),
        (lambda: n(-16384), "−16,384", "−16 384"),
        (lambda: n(1234567890), "1,234,567,890", "1 234 567 890"),
        (lambda: n(-0.0), "0", "0"),
        (lambda: n(0, "%"), "0%", "0 %"),
        (lambda: n(1, "%"), "100%", "100 %"),
        (lambda: n(-0.125, "%"), "−12.5%", "−12,5 %"),
        (lambda: n(2 / 3, "%", digits=2), "67%", "67 %"),
        (lambda: n(12.5, "%"), "1,250%", "1250 %"),
        (lambda: n(-3.35e12, "B/s"), "−3.35 TB/s", "−3,35 TB/s"),
        (lambda: n(80e9, "B"), "80 GB", "80 GB"),
        (lambda: n(16384, "B"), "16.4 kB", "16,4 kB"),
        (lambda: n(999, "B"), "999 B", "999 B"),
        (lambda: n(1000, "B"), "1 kB", "1 kB"),
        (lambda: n(999.94e9, "B/s", digits=4), "999.9 GB/s", "999,9 GB/s"),
        (lambda: n(999.96e9, "B/s", digits=4), "1.000 TB/s", "1,000 TB/s"),
        (lambda: n(999.96e9, "B/s", digits=5), "999.96 GB/s", "999,96 GB/s"),
        (lambda: n(0.9999e-6, "s"), "1.00 µs", "1,00 µs"),
        (lambda: n(0.001, "s"), "1 ms", "1 ms"),
        (lambda: n(700, "W"), "700 W", "700 W"),
        (lambda: n(2.5e18, "FLOP"), "2.5 EFLOP", "2,5 EFLOP"),
        (lambda: n(2.5e22, "FLOP"), "25,000 EFLOP", "25 000 EFLOP"),
        (lambda: n(1.25e-14, "s"), "0.0125 ps", "0,0125 ps"),
        (lambda: n(1.98e9, "Hz"), "1.98 GHz", "1,98 GHz"),
        (lambda: n(0.0078125, "×"), "0.00781×", "0,00781×"),
        (lambda: n(16384, sci=True), "1.64 × 10⁴", "1,64 × 10⁴"),
        (lambda: n(-2.5e-10, "s", sci=True), "−2.5 × 10⁻¹⁰ s", "−2,5 × 10⁻¹⁰ s"),
        (lambda: n(9.996e14, sci=True), "1.00 × 10¹⁵", "1,00 × 10¹⁵"),
        (lambda: n(1e9 + 0.5), "1.00 × 10⁹", "1,00 × 10⁹"),
    ],
)
def test_numbers_by_language(monkeypatch, call, en, es):
    for lang, expected in (("en", en), ("es", es), ("ko", en)):
        monkeypatch.setenv("COURSE_LANG", lang)
        assert call() == expected


@given(
    st.floats(-1e30, 1e30, allow_subnormal=False),
    st.sampled_from(["", "s", "B/s", "%", "×", "FLOP/B"]),
    st.booleans(),
)
def test_a_number_is_plain_text(value, unit, sci):
    text = n(value, unit, sci=sci)
    assert not re.search(r"[*_`\[\]<>|$\\#~^@{}\n\u00a0\u202f\u2009]", text)
    assert "  " not in text


magnitudes = st.builds(lambda m, e: m * 10.0**e, st.floats(1, 10), st.integers(-11, 12))


@given(
    magnitudes | magnitudes.map(lambda value: -value),
    st.sampled_from(["", "s", "B/s", "%", "×", "FLOP/B"]),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from(["en", "es", "ko"]),
)
def test_what_is_read_is_the_value_rounded(value, unit, digits, sci, lang):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_LANG", lang)
        shown = read(n(value, unit, digits=digits, sci=sci), unit, lang)
    exact = Decimal(value) * (100 if unit == "%" else 1)
    quantum = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    assert abs(shown - exact) <= quantum / 2 * (1 + Decimal("1e-9"))
    assert len(shown.normalize().as_tuple().digits) <= digits


@pytest.mark.parametrize(("sci", "limit"), [(False, 1000), (True, 10)], ids=["prefix", "power"])
@pytest.mark.parametrize("digits", [1, 2, 3])
def test_rounding_up_moves_to_the_next_prefix_or_power(digits, sci, limit):
    nines = 10 - 5 * 10.0**-digits  # 9.5, 9.95, 9.995: half a unit of the last digit below ten
    for exponent in range(-12, 18):
        edge = nines * 10.0**exponent
        for value in (edge, nextafter(edge, 0), nextafter(edge, inf)):
            figure = n(value, "B/s", digits=digits, sci=sci).split()[0].replace(",", "")
            assert 1 <= float(figure) < limit, value


@given(st.integers(-(10**15), 10**15))
def test_whole_numbers_are_written_out(value):
    assert n(value) == f"{value:,}".replace("-", "−")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_LANG", "es")
        assert re.fullmatch(r"−?(\d{1,4}|\d{1,3}( \d{3})+)", n(value))
        assert read(n(value), "", "es") == value


@given(st.decimals(Decimal("1e-3"), Decimal("1e6"), allow_nan=False, places=6), st.integers(1, 6))
def test_rounding_agrees_with_decimal(value, digits):
    number = float(value)
    shown = float(n(number, digits=digits).replace(",", "").replace(" × 10", "e"))
    exact = Decimal(number)
    quantum = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    assert abs(Decimal(shown) - exact) <= quantum / 2 * (1 + Decimal("1e-9"))


def test_halves_go_up_as_they_are_read():
    assert [n(value) for value in (14.45, 19.95, 26.85, 68.85)] == ["14.5", "20.0", "26.9", "68.9"]
    assert n(-19.95) == "−20.0"
    assert n(0.9995, "s") == "1.00 s"


@pytest.mark.parametrize(
    ("value", "en", "es", "ko"),
    [
        (2.3456e6, "2.3 million USD", "2,3 millones de USD", "230만 USD"),
        (999_999, "1.0 million USD", "1,0 millones de USD", "100만 USD"),
        (1.25e8, "130 million USD", "130 millones de USD", "1.3억 USD"),
        (990, "990 USD", "990 USD", "990 USD"),
        (3.99, "4.0 USD", "4,0 USD", "4.0 USD"),
    ],
)
def test_large_sums_are_counted_in_the_languages_words(monkeypatch, value, en, es, ko):
    for lang, text in (("en", en), ("es", es), ("ko", ko)):
        monkeypatch.setenv("COURSE_LANG", lang)
        assert n(value, "USD", digits=2) == text


@pytest.mark.parametrize(
    ("value", "en", "es", "ko"),
    [
        (1.5e13, "15 trillion", "15 billones de", "15조"),
        (4.8e9, "4.8 billion", "4800 millones de", "48억"),
        (8.864e9, "8.86 billion", "8860 millones de", "88.6억"),
        (3.58e6, "3.58 million", "3,58 millones de", "358만"),
        (1e6, "1 million", "1 millón de", "100만"),
        (1e12, "1 trillion", "1 billón de", "1조"),
        (4096, "4,096", "4096", "4,096"),
    ],
)
def test_large_counts_are_said_in_the_languages_words(monkeypatch, value, en, es, ko):
    for lang, text in (("en", en), ("es", es), ("ko", ko)):
        monkeypatch.setenv("COURSE_LANG", lang)
        assert n(value, "count") == text


def test_numpy_scalars_are_numbers():
    assert n(np.float64(2.5)) == n(np.array(2.5)) == n(2.5)
    assert n(np.int64(4378)) == "4,378"
    assert n(np.float32(0.5)) == "0.5"
    assert n(np.uint8(200), "%") == "20,000%"


@pytest.mark.parametrize(
    ("value", "text"),
    [(5e-324, "4.94 × 10⁻³²⁴"), (2.5e-310, "2.5 × 10⁻³¹⁰"), (1.5e308, "1.5 × 10³⁰⁸")],
)
def test_the_ends_of_the_floats_are_numbers_too(value, text):
    assert n(value, sci=True) == text


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), None, "3", True, [1.0], np.array([1.0, 2.0])]
)
def test_what_is_not_one_number_is_refused(value):
    with pytest.raises(CourseError, match=r"value must be one finite number .*t\('never'\)"):
        n(value)


def test_digits_must_be_positive():
    with pytest.raises(CourseError, match="digits must be one positive whole number"):
        n(1.5, digits=0)


@pytest.mark.parametrize("digits", [-1, 2.5, "3"])
def test_digits_must_be_a_whole_number(digits):
    with pytest.raises(CourseError, match=f"digits must be .*{digits}"):
        n(1.5, digits=digits)


def test_a_whole_number_beyond_the_floats_is_refused():
    with pytest.raises(CourseError, match="value must be one finite number"):
        n(10**400)


def test_every_term_has_a_word_in_every_language(lang):
    for term in words(lang):
        assert t(term)
        # Inside a name, as in record_shapes, Markdown takes an underscore for itself.
        assert not re.search(r"[*`\[\]<>|$\\#~^@\n\u00a0]|\b_|_\b", t(term)), term
        assert t(term) == t(term).strip()


def test_a_term_leaves_its_gloss_and_any_other_text_is_whole(monkeypatch):
    assert words("en")["hbm"] == "high-bandwidth memory (HBM)"
    assert t("hbm") == "high-bandwidth memory"
    assert t("heads") == "heads (KV)"
    monkeypatch.setenv("COURSE_LANG", "es")
    assert t("advice-copies").endswith("solapa la copia con el cálculo.")


@pytest.mark.parametrize(
    ("row", "amount"), [("step,cell,a step, and another", "more"), ("step,cell", "fewer")]
)
def test_a_row_with_other_cells_than_columns_is_refused(tmp_path, monkeypatch, row, amount):
    (tmp_path / "words.csv").write_text(f"term,kind,en\n{row}\n")
    monkeypatch.setattr(vocabulary, "DATA", tmp_path)
    with pytest.raises(CourseError, match=rf"words\.csv has {amount} cells than columns in row"):
        vocabulary._rows("words.csv")


def test_the_word_list_is_complete_and_has_each_term_once():
    with (DATA / "words.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    terms = [row["term"] for row in rows]
    assert len(terms) == len(set(terms))
    for row in rows:
        assert all(row[lang].strip() for lang in languages()), row["term"]
        assert None not in row, row["term"]
    assert set(words("en")) == set(words("ko")) == set(terms)


def test_every_term_is_defined_in_one_sentence_in_every_language():
    with (DATA / "definitions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["term"] for row in rows] == list(words("en", "term"))
    for row in rows:
        for code in languages():
            assert row[code].endswith("."), (row["term"], code)
            assert ". " not in row[code], (row["term"], code)


def test_a_symbol_stands_for_one_term():
    with (DATA / "words.csv").open(encoding="utf-8", newline="") as file:
        symbols = [row["symbol"] for row in csv.DictReader(file) if row["symbol"]]
    assert "B" in symbols
    assert len(symbols) == len(set(symbols))


def test_the_glossary_has_places_to_lead_to_on_the_site_only(lang, monkeypatch):
    for printed, marked in (("site", True), ("notebook", False)):
        monkeypatch.setenv("COURSE_PRINT", printed)
        shown = glossary()._repr_mimebundle_()["text/markdown"]
        assert shown.count("{#term-") == marked * len(words(lang, "term"))


def test_bounds_have_words(lang):
    assert (
        len({t(bound) for bound in ("compute-bound", "memory-bound", "communication-bound")}) == 3
    )


def test_the_language_is_read_at_each_call(monkeypatch):
    said = []
    for lang in ("en", "es", "ko", "en"):
        monkeypatch.setenv("COURSE_LANG", lang)
        said.append((t("never"), n(0.5)))
    assert said == [("never", "0.5"), ("nunca", "0,5"), ("없음", "0.5"), ("never", "0.5")]
    monkeypatch.delenv("COURSE_LANG")
    assert t("never") == "never"


def test_a_language_holds_where_it_is_chosen_and_nowhere_else(monkeypatch):
    def elsewhere():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: (language(), n(0.5))).result()

    monkeypatch.setenv("COURSE_LANG", "ko")
    with in_language("es"):
        assert (language(), n(0.5), elsewhere()) == ("es", "0,5", ("ko", "0.5"))
        with pytest.raises(CourseError, match="unknown term"), in_language("en"):
            t("zzzz")
        assert language() == "es"
    assert language() == "ko" == os.environ["COURSE_LANG"]
    with pytest.raises(CourseError, match="unknown language 'xx'"), in_language("xx"):
        pass


def test_what_a_page_can_do_more_with_is_plain_text_elsewhere():
    link = Span(plain("a*b"), to="#c", value="1")
    whole = plain(plain("x ", link), "†")
    assert (str(link), str(whole)) == (r"a\*b", r"x a\*b†")
    assert whole.parts[0].parts == ("x ", link)
    assert plain("x", Markdown("*y*")).parts == ()


def test_unknown_terms_and_languages(monkeypatch):
    with pytest.raises(CourseError, match="did you mean 'memory-bound'"):
        t("memory-bond")
    with pytest.raises(
        CourseError, match=r"unknown term 'zzzz': .*\(terms are in data/words\.csv\)"
    ):
        t("zzzz")
    with pytest.raises(
        CourseError, match=r"unknown language 'fr'.*\(languages are columns of data/words\.csv\)"
    ):
        words("fr")
    monkeypatch.setenv("COURSE_LANG", "xx")
    with pytest.raises(CourseError, match="unknown COURSE_LANG 'xx': choose one of en, es, ko"):
        t("never")
    with pytest.raises(CourseError, match="unknown COURSE_LANG 'xx'"):
        n(1)
    assert languages() == ("en", "es", "ko")


def test_columns_of_figures_stand_flush_right_and_columns_of_words_left():
    rows = [
        ["1", "14 s", "memory-bound", "2026-11-09", ""],
        ["64", "", "compute-bound", "2026-11-10", "−3 %"],
    ]
    assert table(list("abcde"), rows).align == "lrlrr"
    assert table(["a", "b"], []).align == "lr"


def test_tables_print_markdown_only():
    shown = table(["a|b", "c"], [["x", "1"], ["y", "|2|"]])
    assert repr(shown).splitlines() == [
        "| a\\|b | c |",
        "|:--|--:|",
        "| x | 1 |",
        "| y | \\|2\\| |",
    ]
    assert shown._repr_mimebundle_() == {"text/markdown": repr(shown)}


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (
            lambda: table(["a", "b"], [["1", "2"], ["x", "y", "z"]]),
            ["row must have 2 cells", "got 3", "['x', 'y', 'z']"],
        ),
        (lambda: table(["a"], [[]]), ["row must have 1 cells", "got 0"]),
        (lambda: table(["a"], [[None]]), ["cell must be text", "None", "n(), t() or str()"]),
        (lambda: table(["a"], [[np.float64(2.5)]]), ["cell must be text", "2.5"]),
        (lambda: table([1], []), ["text", "1"]),
    ],
    ids=["too-long", "empty", "none", "number", "header"],
)
def test_table_errors_name_what_is_wrong(call, parts):
    with pytest.raises(CourseError) as error:
        call()
    for part in parts:
        assert part in str(error.value)


def test_tables():
    assert repr(table(["a", "b"], [["x|y", "1"]])) == "| a | b |\n|:--|--:|\n| x\\|y | 1 |"
    assert list(table(["a"], [])._repr_mimebundle_()) == ["text/markdown"]
    with pytest.raises(CourseError, match="row must have 2 cells"):
        table(["a", "b"], [["x"]])
    with pytest.raises(CourseError, match=r"write 3 with n\(\)"):
        table(["a"], [[3]])
