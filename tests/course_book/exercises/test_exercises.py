import contextlib
import os
import re
import subprocess
import sys
from html import unescape
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from course_lib import CourseError, chip
from course_lib.specs import model
from course_book import exercises, n
from course_book.exercises import CHAPTERS, check, exercise, get, problem
from course_book.exercises.formulas import evaluate
from course_book.text import in_language, languages
from course_book.text.parsing import UNITS, parse_number, readings
from course_press.outputs.exercise import payload
from tests.each import each as looped

IDS = [one.id for one in exercises.all()]
SEEDS = (None, *range(200))
few_and_rest = pytest.mark.parametrize(
    "seeds",
    [SEEDS[:15], pytest.param(SEEDS[15:], marks=pytest.mark.exhaustive)],
    ids=["few", "rest"],
)
NUMBER = re.compile(r"\d(?:[.,]?\d|\s\d{3}(?!\d))*")
"""A number as a language writes it, also with spaces between its thousands."""
each = looped("id_", IDS)


@pytest.fixture(params=languages())
def lang(request, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", request.param)
    return request.param


def values(variant):
    """Each misconception's own number, without the engine's grouping."""
    for name, value in variant.solution.wrong.items():
        if value is not None and abs(value) < float("inf"):
            yield name, float(value)


def test_there_are_enough_in_every_chapter():
    assert len(IDS) >= 36
    for chapter in CHAPTERS:
        assert 2 <= sum(one.chapter == chapter for one in exercises.all()) <= 12


@few_and_rest
@each
def test_every_exercise_is_solved_by_its_own_answer_for_200_seeds(id_, seeds):
    one = get(id_)
    bare = UNITS[one.unit][""]
    for seed in seeds:
        answer = one.variant(seed).answer
        assert check(id_, answer / bare, seed).verdict == "right"
        assert check(id_, -answer / bare, seed).verdict == "wrong"


@few_and_rest
@each
def test_every_misconception_is_recognised_and_told_apart(id_, seeds):
    one = get(id_)
    bare = UNITS[one.unit][""]
    for seed in seeds:
        variant = one.variant(seed)
        assert variant.groups
        assert variant.right[0] <= variant.answer <= variant.right[1]
        bands = sorted([variant.right, *((group.low, group.high) for group in variant.groups)])
        assert all(first[1] < second[0] for first, second in pairwise(bands))
        for name, value in values(variant):
            found = check(id_, value / bare, seed)
            assert (found.verdict, name in found.names) == ("misconception", True)


@few_and_rest
@each
def test_a_group_holds_what_gives_the_same_number_and_nothing_else(id_, seeds):
    one = get(id_)
    for seed in seeds:
        variant = one.variant(seed)
        numbers = dict(values(variant))
        assert sorted(numbers) == sorted(name for group in variant.groups for name in group.names)
        for group in variant.groups:
            near = sorted(numbers[name] for name in group.names)
            spans = [one.span(number, 0.5) for number in near]
            assert all(a[1] >= b[0] for a, b in pairwise(spans))


def test_feedback_names_the_cause_and_gives_no_answer_away():
    opening = exercises.phrases()["maybe"].partition("{names}")[0]
    for variant in (get(id_).variant() for id_ in IDS):
        for group in variant.groups:
            said = variant.explained(group)
            assert said.startswith(opening), (variant.exercise.id, group)
            # Of two that give one number, each says which of them it speaks of.
            marks = [f"({i})" for i in range(1, len(group.names) + 1)] if group.names[1:] else []
            assert [one for one in said.split() if re.fullmatch(r"\(\d\)", one)] == 2 * marks
            assert variant.shown_answer not in said.split(), (variant.exercise.id, group)


@pytest.mark.parametrize(
    ("id_", "factor", "verdict"),
    [
        ("rooflines-trillion", 1e-6, "thousand"),
        ("rooflines-trillion", 1e9, "thousand"),
        ("rooflines-trillion", 7.3, "wrong"),
    ],
)
def test_a_wrong_prefix_is_told_from_a_wrong_number(id_, factor, verdict):
    variant = get(id_).variant()
    assert variant.judge(variant.answer * factor)[0] == verdict


def test_a_fraction_taken_for_per_cent_is_told():
    variant = next(
        one
        for one in (get(id_).variant() for id_ in IDS)
        if one.exercise.unit == "%" and one.judge(one.answer * 100)[1] is None
    )
    assert variant.judge(variant.answer * 100)[0] == "percent"
    assert variant.judge(variant.answer / 100)[0] in ("percent", "misconception")


@each
def test_a_seed_repeats_and_other_seeds_give_other_figures(id_):
    one = get(id_)
    for seed in range(20):
        first, again = one.variant(seed), one.variant(seed)
        assert (first.given, first.answer, first.groups) == (
            again.given,
            again.answer,
            again.groups,
        )


@pytest.mark.parametrize(
    "some", [IDS[::8], pytest.param(IDS, marks=pytest.mark.exhaustive)], ids=["some", "all"]
)
def test_a_class_need_not_share_variants(some):
    for one in map(get, some):
        asked = {variant.asked for variant in one.variants()}
        assert one.few == (len(asked) < problem.ENOUGH), one.id
        assert len({variant.seed for variant in one.variants(10)}) == min(10, len(asked)), one.id


@few_and_rest
@each
def test_no_question_shows_the_digits_of_its_answer(id_, seeds, lang):
    for variant in map(get(id_).variant, seeds):
        digits = NUMBER.match(variant.shown_answer)[0]
        if len(digits) > 1:  # a 2 may stand anywhere
            assert digits not in NUMBER.findall(variant.text("question"))


@each
def test_whole_answers_are_whole_and_shown_answers_are_right(id_, lang):
    one = get(id_)
    for seed in (None, *range(20)):
        variant = one.variant(seed)
        assert not one.whole or variant.answer == int(variant.answer)
        assert check(id_, variant.shown_answer, seed).verdict == "right"


@each
def test_every_text_can_be_filled_in_every_language(id_, lang):
    for seed in (None, *range(10)):
        variant = get(id_).variant(seed)
        shown = [variant.text(name) for name in ("title", "question", "solution")]
        shown += [*variant.hints, *(variant.explained(group) for group in variant.groups)]
        assert not any(re.search(r"[{}]|\b(?:nan|inf|None)\b", text) for text in shown)
        assert len(variant.hints) >= 2
        assert all(shown)


@each
def test_no_question_and_no_hint_gives_the_answer_away(id_):
    for seed in range(20):
        variant = get(id_).variant(seed)
        if abs(variant.answer) >= 10:  # a 2 may stand anywhere
            seen = f"{variant.text('question')} {' '.join(variant.hints)}"
            assert not re.search(
                rf"(?<![\d.,]){re.escape(variant.shown_answer)}(?![\d.,]*\d)", seen
            )


def test_what_does_not_go_together_is_never_drawn():
    one = exercises.Exercise(
        "x",
        "rooflines",
        "",
        {"a": (1.0, 2.0, 3.0)},
        lambda a: problem.Solution(a, {"half": a / 2}, fits=a > 1),
    )
    assert one.variant().given["a"] == 1
    assert {problem._drawn(one, seed).given["a"] for seed in range(50)} == {2, 3}


def test_translations_differ_from_the_english():
    for chapter in CHAPTERS:
        for id_, texts in exercises.texts(chapter, "en").items():
            for other in ("es", "ko"):
                there = exercises.texts(chapter, other)[id_]
                assert there["question"] != texts["question"]
                assert there["solution"] != texts["solution"] or not re.search(
                    r"[a-z]{4}", re.sub(r"\{.*?\}", "", texts["solution"])
                )


@looped(
    ("id_", "answer"),
    [
        ("rooflines-trillion", 1e12 / 989.4e12),
        ("rooflines-which-clock", max(2e12 / 989.4e12, 4e9 / 3.35e12)),
        ("rooflines-local", 4096),
        ("rooflines-tile", 64),
        ("hello-fraction", 50 / 156),
        ("hello-first-batch", 6),
        ("wall-decode-time", 15.009849344e9 / 3.35e12),
        ("wall-kv-bytes", 8 * 2**30),
        ("wall-how-many-fit", 476),
        ("wall-group-scales", 8030261248 * 4.5 / 8),
        ("network-two-chips", 7880),
        ("network-tokens-nvlink", 2199),
        ("network-tokens-ethernet", 2474),
        ("network-nodes", 2 * 15 / 16 * 4e9 / 400e9),
        ("network-in-switch", 1.75),
        ("network-latency", 3.6e6),
        ("int8-p1", 240),
        ("int8-p2", 121),
        ("int8-p3", 137),
        ("int8-p5", 296),
        ("int8-w4a16", 84),
        ("profiling-gelu", 0.125),
        ("profiling-unfused", 3 * 2 * 2 * 32 * 2048 * 4096),
        ("profiling-residual", 1 / 6),
        ("machine-peak", 2 * 132 * 4 * 512 * 1.2e9),
        ("machine-bus", 6144 * 0.8e9),
        ("machine-loads", 59),  # 2.039e12 * 400e-9 / 108 / 128 = 58.998
        ("machine-registers", 132 * 65536 * 4),
        ("machine-array", 512 / (512 + 254)),
        ("profiling-share", 1 / (0.6 + 0.4 / 3)),
        ("kernel-sectors", 1 / 4),
        ("kernel-occupancy", 16 / 64),
        ("kernel-stages", 425e-9),
        ("kernel-warps", 23),
        ("kernel-depth", 112),
        ("kernel-cluster", 6),  # 6 clocks of 72 B, less 384 B, leave 48 B of 256 B
        ("kernel-epilogue", 512 / 793.25),
        ("trans-parameters", 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336),
        ("trans-context", 7.5e9 / (2 * 32 * 32 * 128)),
        ("trans-sparse", 2048 * 576 / 448),
        ("trans-hybrid", 3 * 32 * 128 * 128 * 4 / 2048),
        ("trans-latent", 128 * 1088 / 576),
        ("trans-experts", 1 - 0.75**4),
        ("trans-active", 1.6e9 + 32 * 2 * 3 * 4096 * 14336),
        ("srv-little", 20 * (2 + 240 * 0.025)),
        ("srv-wait", 0.8 / 0.2 * 0.2 * (1 + 1.5**2) / 2),
        ("srv-twice", 9 / 1),
        ("srv-batch", 219),
        ("srv-rate", 3600 / (22e-3 + 300 * 61e-6)),
        ("srv-blocks", 2588 // 75),
        ("srv-transfer", 3000 * 131072 / 50e9),
        ("srv-guesses", 1 + 0.7 + 0.49 + 0.343),
        ("srv-speedup", (1 - 0.8**6) / 0.2 / (1.6 + 5 * 0.1)),
        ("srv-cost", 2.5 / (5000 * 0.4 * 3600) * 1e9),
        ("net-hidden", 3 * 2e15 / (6 * 450e9)),
        # 20 ms less 3.5 ms of weights and 116 messages; 18.75 µs to read, 10.67 µs to send
        ("net-places", 13948 * 1000 // 29417),
        ("srv-even", 0.6 * (1 - 6 / 64) + 0.03),
        ("srv-most", 7),
        ("train-quantize", 8.125 / 3.35e12 * 1e15 / 3),
        ("train-share", 0.42 / (0.3 + 0.35 + 0.05) / 2),
        ("wall-even", (131072 * 1e15 / 7e9 - 14e9) / 262144),
        ("wall-away", 540e9 / (2 * 8000 * 131072)),
        ("train-states", 2e9 * 6.75),
        ("train-recompute", 0.39),
        ("train-widest", 2**23 // 4948),
        ("train-shards", 48e9 * 63 / 64),
        ("train-sums", 8 * 32 * 67108864 * 7 / 8),
        ("train-bubble", 7 / 55),
        ("train-pieces", 63),
        ("train-flight", 8e9),
        ("train-save", (80 * 50000 * 3600 / 4096) ** 0.5),
        ("train-budget", (1e6 * 3600 * 0.4 * 989.4e12 / 120) ** 0.5),
        ("measured-clock", 0.88),
        ("measured-stream", 15e9 / 2.039e12 / 0.8),
        ("measured-gaps", 15e9 / 3.35e12 / 0.8 + 250 * 6e-6),
        ("measured-mfu", (6 * 8030261248 + 12 * 32 * 4096 * 8192) * 9000 / 989.4e12),
        ("measured-claim", 600 * 68.714504192e9 * 2 / 3.35e12),
        ("step-ratio", 1 / 127 / (15e9 / 3.35e12)),
        ("step-busy", 240 * 1.7e-6 / 2.6e-3),
        ("step-launches", 15e9 / 3.35e12 / 5e-6 // 32),
        ("step-met", 2 * 3.35e9 / 3.35e12),
        ("step-gain", 1 / 0.4),
        ("step-two", 1 / (1 - 0.4 - 0.3 + 0.1)),
        ("hello-estimate", 1e6 * 8.178e9 / 312e12),
        ("hello-claim", 2),
        ("machine-estimate", 80 * 2**30 / 3.35e12),
        ("machine-claim", 4),
        ("rooflines-estimate", 2 * 8192**3 / 989.4e12),
        ("rooflines-claim", 3),
        ("int8-claim", 2),
        ("kernel-tile", 2),  # 4 * 64 * 384 * 2 = 192 KiB of 227, and 32768 of 65536 registers
        ("kernel-claim", 3),
        ("trans-estimate", 6 * 8030261248 * 15e12 / (1024 * 0.4 * 989.4e12)),
        ("trans-read", 125000),
        ("trans-claim", 1),
        ("srv-layout", 4),  # 141 + 86 GB on 77
        ("train-layout", 2),  # 48 + 6 of 68.7 GB
        ("energy-estimate", 1024 * 700 * 720),
        ("energy-read", 360 / 3.2e12),
        ("energy-claim", 3),
        ("measured-estimate", 3.35e12 // 16060522496),
        ("measured-read", 3),
        ("measured-steps", 1),
        ("net-slow-port", 2 * 1.6e9 / 50e9 / 0.25 - 0.08),
        ("net-gated-width", 2 / 3 * 3 * 0.99e15 / 450e9),
        ("cause-columns", 34 * 8192**2 / 3.35e12),
        ("cause-moved", 0.4 / 0.8 * 420e-6),
        ("step-read", 192e12),
        ("step-remedy", 2),  # 0.4 / 3, 0.25 * 3 / 4, 0.2 * 2 / 3
    ],
)
def test_answers_counted_by_hand(id_, answer):
    assert get(id_).variant().answer == pytest.approx(answer, rel=1e-3)


def test_the_known_wrong_answers():
    wrong = {group.names: group.value for group in get("int8-p5").variant().groups}
    assert wrong[("rounded-peak",)] == 299
    assert wrong[("sparse", "fp8-peak")] == 591
    assert check("int8-p2", 120).names == ("rounded-down",)
    assert check("int8-p2", 240).names == ("int8-peak",)
    assert check("rooflines-local", "2,097,152").names == ("total-batch",)
    assert check("profiling-gelu", "0.85 %").names == ("matrix-peak",)
    assert check("network-two-chips", 8756).names == ("classic-link",)
    assert check("network-tokens-ethernet", 19788).names == ("one-port",)
    assert check("network-two-chips", 3940).names == ("bidirectional", "whole-product", "elements")


def test_feedback_names_all_candidates_in_the_readers_language(lang):
    said = check("network-two-chips", 3940).text
    common = exercises.common_texts(lang)["misconceptions"]
    for name in ("bidirectional", "whole-product", "elements"):
        assert common[name]["name"] in said
        assert common[name]["text"] in said


def test_an_estimate_is_right_within_its_factor_and_close_a_little_further_off():
    for one in (one for one in exercises.all() if one.factor > 1):
        for seed in SEEDS[:20]:
            variant, nearly = one.variant(seed), 0.99 * (one.factor - 1) + 1
            assert variant.judge(variant.answer * nearly)[0] == "right"
            assert variant.judge(variant.answer / nearly)[0] == "right"
            assert variant.judge(variant.answer * one.factor * 1.01)[0] != "right"
            assert n(one.factor) in variant.text("question")


def test_what_is_to_be_read_is_drawn_and_says_its_values_to_whoever_hears_it(lang):
    for one in exercises.all():
        variant = one.variant(3)
        assert bool(variant.chart) == ("data:image/svg+xml" in variant.asked)
        if chart := variant.chart:
            for drawn in (chart.markup, chart.narrow):
                (says,) = re.findall("<desc[^>]*>([^<]+)</desc>", drawn)
                assert says.count(";") >= 1
                assert drawn.count("<circle") == len(re.findall(r"(?:^|; )[A-D1-4]: ", says))


def test_a_planted_mistake_changes_a_step_that_the_question_shows():
    for one in (one for one in exercises.all() if "slip" in dict(one.choices)):
        asked = {}
        for seed in SEEDS:
            variant = one.variant(seed)
            asked.setdefault(variant.answer, set()).add(variant.text("question"))
            assert variant.shown_answer not in ("", "0")
            figures = variant.solution.figures
            assert figures["meant"] != figures[list(one.solve.steps)[int(variant.answer) - 1]]
        assert set(asked) == {1, 2, 3, 4}
        assert not set.intersection(*asked.values())


def test_verdicts():
    assert check("rooflines-trillion", 0.00101).verdict == "right"
    assert check("rooflines-trillion", "1.08 ms").verdict == "close"
    assert check("rooflines-trillion", "7 ms").verdict == "wrong"
    assert check("rooflines-trillion", "0.505 ms").names == ("sparse",)


@pytest.mark.parametrize(
    "value", [..., None, True, float("nan"), "", "twelve", "1.01 kg", "1.01 mB", [1]]
)
def test_what_is_no_answer_is_an_error_that_says_so(value):
    with pytest.raises(CourseError, match="value"):
        check("rooflines-trillion", value)


ANSWERED = {unit: one.id for one in exercises.all() for unit in [one.unit]}
"""By unit of its answer, an exercise."""
REFUSED = [
    *((id_, value) for id_ in ANSWERED.values() for value in ("3 lb", "???", "", None)),
    ("rooflines-trilion", 1),
    ("???", 1),
    (7, 1),
]


@pytest.mark.parametrize("lang", ["es", "ko"])
def test_what_a_notebook_refuses_it_refuses_in_the_pages_language(lang):
    """Not a word of the English refusal is left, but for what was typed, units and code."""
    said = {}
    for here in ("en", lang):
        with in_language(here):
            said[here] = [refusal(*call) for call in REFUSED]
    kept = re.compile(r"'[^']*'|exercises\.all\(\)|None|FLOP/s|(?:FL)?OP/B|B/s|SI|no|Wh|kg")
    for english, own in zip(said["en"], said[lang], strict=True):
        words = [set(re.findall(r"[A-Za-z]{2,}", kept.sub(" ", one))) for one in (english, own)]
        assert words[0]
        assert not words[0] & words[1], own


def refusal(id_, value):
    with pytest.raises(CourseError) as refused:
        check(id_, value)
    return str(refused.value)


@pytest.mark.parametrize("lang", languages())
def test_a_notebook_and_a_page_refuse_a_unit_alike(lang):
    with in_language(lang):
        for unit, id_ in ANSWERED.items():
            assert refusal(id_, "3 lb").endswith(exercises.wrong_unit(unit))
            assert payload(exercises.exercise(id_))["said"]["unit"] == exercises.wrong_unit(unit)


def test_an_unknown_exercise_is_an_error_with_the_nearest_id():
    with pytest.raises(CourseError, match="'int8-p2'"):
        get("int8-p22")


@given(
    st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "<=", "==", "!="]),
    st.integers(1, 99),
    st.integers(1, 99),
)
def test_a_formula_gives_what_python_would(sign, a, b):
    names = {"a": a, "b": b}
    for formula in (f"a {sign} b", f"-(a {sign} 3) if a < b < 50 else b", f"(a {sign} b) or b"):
        assert evaluate(formula, names) == eval(formula, names)
    inner = f"[x {sign} y for i, (x, y) in enumerate(((a, b), (b, a))) if i or x > y]"
    assert evaluate(inner, {**names, "enumerate": enumerate}) == eval(inner, names)
    assert evaluate(f"(lambda x, y=b: x {sign} y)(a)", names) == eval(f"a {sign} b", names)


@looped(
    "formula",
    [
        "__import__('os')", "open('x')", "a.__class__", "a._private", "(b := a)", "a +", "import os",
        "[x for x in a for y in a]", "f'{a}'", "a is b", "{*a}", "missing", "await a",
    ],
)  # fmt: skip
def test_a_formula_is_nothing_but_a_formula(formula):
    with pytest.raises(CourseError, match="cannot be evaluated"):
        evaluate(formula, {"a": (1,), "b": 2})


def test_an_exercise_without_a_variant_says_so():
    one = exercises.Exercise(
        "x", "rooflines", "", {"a": (1.0,)}, lambda a: problem.Solution(a, {"same": a})
    )
    with pytest.raises(CourseError, match="no variant"):
        one.variant(1)


@given(
    st.floats(min_value=1e-11, max_value=1e19),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from(languages()),
    st.booleans(),
)
def test_what_n_writes_is_read_back(value, unit, lang, sci):
    assume(value >= 1 or unit not in ("B", "B/s", "FLOP/s"))  # nobody types a millibyte
    os.environ["COURSE_LANG"] = lang
    try:
        written = n(value, unit, sci=sci and unit != "%", digits=4)
    finally:
        del os.environ["COURSE_LANG"]
    assert parse_number(written, unit, lang) == pytest.approx(value, rel=6e-4)
    assert parse_number(written.replace(" ", "\u00a0"), unit, lang) == parse_number(
        written, unit, lang
    )


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [("3600 J", "Wh", 1), ("1 Wh", "J", 3600), ("2 kWh", "J", 7.2e6), ("9 MJ", "Wh", 2500),
     ("8 Gb/s", "B/s", 1e9), ("1 KiB", "B", 1024), ("2 t", "kg", 2000)],
)  # fmt: skip
def test_units_of_one_quantity_are_worth_what_they_are(text, unit, value):
    assert parse_number(text, unit, "en") == pytest.approx(value)


@given(st.integers(min_value=0, max_value=10**12))
def test_thousands_are_read_in_every_language(number):
    grouped = f"{number:,}"
    assert parse_number(grouped, "", "en") == parse_number(grouped, "", "ko") == number
    assert (
        parse_number(grouped.replace(",", "."), "", "es")
        == parse_number(grouped.replace(",", " "), "", "es")
        == number
    )


@given(
    st.integers(min_value=0, max_value=10**6),
    st.text("0123456789", min_size=1, max_size=9),
    st.sampled_from(languages()),
)
def test_a_mark_before_other_than_three_digits_is_a_decimal_mark(whole, fraction, lang):
    assume(len(fraction) != 3 or whole == 0 or whole > 999)
    value = float(f"{whole}.{fraction}")
    for mark in {"es": ",."}.get(lang, "."):
        assert parse_number(f"{whole}{mark}{fraction} s", "s", lang) == value
        assert readings(f"{whole}{mark}{fraction} s", lang) is None


@given(
    st.integers(min_value=1, max_value=999),
    st.integers(min_value=0, max_value=999),
    st.sampled_from(languages()),
)
def test_what_may_be_meant_in_two_ways_is_named_as_it_was_read(whole, three, lang):
    for mark in {"es": ".,"}.get(lang, ","):
        text = f"{whole}{mark}{three:03} ms"
        read, other = readings(text, lang)
        assert parse_number(read, "s", lang) == parse_number(text, "s", lang)
        assert sorted(
            [float(read[:-3].replace(",", ".")), float(other[:-3].replace(",", "."))]
        ) == pytest.approx([whole + three / 1000, whole * 1000 + three])


def test_an_answer_that_is_not_right_says_how_it_was_read_where_it_may_be_meant_in_two_ways(
    monkeypatch,
):
    monkeypatch.setenv("COURSE_LANG", "es")
    assert exercises.check("rooflines-trillion", "1.010 ms").text.endswith(
        exercises.phrases()["read-as"].format(read="1010 ms", other="1,010 ms")
    )
    assert exercises.check("rooflines-trillion", "1.0107 ms").verdict == "right"
    assert (
        exercises.check("rooflines-trillion", "1,011 ms").text
        == exercises.check("rooflines-trillion", "1,01 ms").text
    )


@given(st.floats(min_value=-1e15, max_value=1e15, allow_nan=False))
def test_what_python_writes_is_read_back(number):
    assert parse_number(repr(number), "", "en") == pytest.approx(number)
    assert parse_number(f"{number:.6e}", "", "en") == pytest.approx(number, rel=1e-5)


@given(st.text(max_size=20), st.sampled_from(sorted(UNITS)), st.sampled_from(languages()))
def test_any_text_is_a_number_or_a_course_error(text, unit, lang):
    with contextlib.suppress(CourseError):
        assert abs(parse_number(text, unit, lang)) < float("inf")


@looped(
    ("text", "unit", "lang", "value"),
    [
        ("1.2e3", "", "en", 1200),
        ("1.2e3", "", "es", 1200),
        ("1,2e3", "", "es", 1200),
        ("1,200", "", "en", 1200),
        ("1.200", "", "es", 1200),
        ("1,200", "", "es", 1.2),
        ("1.200", "", "ko", 1.2),
        ("0.125", "", "es", 0.125),
        ("1.01 ms", "s", "en", 1.01e-3),
        ("1,01 ms", "s", "es", 1.01e-3),
        ("1.01ms", "s", "ko", 1.01e-3),
        ("0.99 PFLOP/s", "FLOP/s", "en", 0.99e15),
        ("990 tflops", "FLOP/s", "en", 990e12),
        ("393 TOP/s", "FLOP/s", "en", 393e12),
        ("400 Gb/s", "B/s", "en", 50e9),
        ("50 GB/s", "B/s", "en", 50e9),
        ("8 GiB", "B", "en", 2**33),
        ("12,5 %", "%", "es", 0.125),
        ("2 × 10⁻³", "s", "en", 2e-3),
        ("10^6", "", "en", 1e6),
        ("241 tokens", "", "en", 241),
        ("1.64x", "×", "en", 1.64),
        ("320 μs", "s", "en", 320e-6),
        ("320 us", "s", "en", 320e-6),
        ("−3", "", "en", -3),
    ],
)
def test_numbers_as_people_type_them(text, unit, lang, value):
    assert parse_number(text, unit, lang) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "unit", "lang"),
    [("1,2", "", "en"), ("12,34", "", "ko"), ("1.2.3", "", "es"), ("3 mb/s", "B/s", "en")],
)
def test_what_could_be_meant_in_two_ways_is_refused(text, unit, lang):
    with pytest.raises(CourseError):
        parse_number(text, unit, lang)


def test_a_notebook_that_is_printed_shows_text(monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "notebook")
    bundle = exercise("int8-p2", 7)._repr_mimebundle_()
    assert list(bundle) == ["text/markdown"]
    assert bundle["text/markdown"].endswith('`check("int8-p2", "…", seed=7)`')


def test_a_live_notebook_shows_a_form_that_answers(monkeypatch):
    pytest.importorskip("ipywidgets")
    import IPython

    monkeypatch.delenv("COURSE_PRINT", raising=False)
    form = exercise("int8-p2")
    assert set(form._repr_mimebundle_()) == {"text/markdown"}
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    assert set(form._repr_mimebundle_()) == {
        "text/markdown",
        "application/vnd.jupyter.widget-view+json",
    }
    *_, row, said, steps = form.widget().children
    for typed, text in (
        ("120", check("int8-p2", 120).text),
        ("121", check("int8-p2", 121).text),
        ("x", "value 'x'"),
    ):
        row.children[0].value = typed
        row.children[1].click()
        assert unescape(said.value).startswith(text)
    assert len(steps.children) == len(form.variant.hints) + 1


def test_feedback_in_a_notebook():
    found = check("int8-p2", 121)
    assert found._repr_mimebundle_() == {
        "text/markdown": f"**✓** {found.text}",
        "text/plain": found.text,
    }
    assert repr(found) == found.text


def test_the_engine_does_not_load_formulas_or_widgets_before_they_are_needed():
    code = (
        "import course_book.exercises, sys; print([m for m in sys.modules if "
        "'exercises.formulas' in m or m == 'ipywidgets'])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_choices_name_chips_and_models_of_the_tables():
    for one in exercises.all():
        for names, choices in one.choices.items():
            for value in choices:
                several = dict(zip(names.split(), value if " " in names else (value,), strict=True))
                for name in ("chip", "other"):
                    assert name not in several or chip(several[name])
                assert "model" not in several or model(several["model"])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("lang", languages())
def test_the_examples_under_a_field_are_answers_of_its_unit(monkeypatch, unit, lang):
    monkeypatch.setenv("COURSE_LANG", lang)
    said = exercises.example(unit)
    parts = re.split(r", (?:or|아니면) | o ", re.sub(r"^\D+", "", said))
    values = [parse_number(part, unit, lang) for part in parts]
    assert len(set(values)) == 1
    assert unit in ("", "%", "×") or unit in said
