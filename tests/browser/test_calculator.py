"""The calculator in a real browser, from files, with the network cut off: what it answers is what
`course_lib` answers, for any model, chip and format, and for a pasted configuration.
"""

import json
import random
import re
from itertools import product
from typing import get_args

import numpy as np
import pytest
from typer.testing import CliRunner

from course_lib import CourseError, chip, llm, model
from course_tools import calibrate
from course_tools.counting import from_config
from course_tools.counting.huggingface import sizes
from course_book import explore, n
from course_book.answers.record import Question
from course_book.explore import serving
from course_press.cli.app import app
from course_press.outputs import translate
from tests.browser.conftest import print_small_book, wait_for
from tests.browser.test_explore import BOOK, LANGS, language
from tests.conftest import once
from tests.course_tools.counting.test_foreign import LLAMA, TINY
from tests.course_tools.counting.test_quantization import RECIPES

pytestmark = pytest.mark.browser
BOX = ".calculator"
OFFERED = explore.calculator()
FIELDS = ("weights", "cache", "activations", "most", "decode_light", "decode", "decode_low")
FIELDS += ("decode_likely", "decode_high", "prefill_light", "prefill", "prefill_low")
FIELDS += ("prefill_likely", "prefill_high")
PAGE = """---
title: Calculator
---

{{< include ../cells/form.qmd >}}
"""


def print_calculator(folder):
    form = "```{python}\n#| echo: false\nfrom course_book import explore\n\nexplore.calculator()\n```\n"
    print_small_book(folder, BOOK, {"form": form}, "one", PAGE)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return once(tmp_path_factory, "calculator", print_calculator)


def opened(visit, lang="en", query="", **options):
    page = visit(f"{lang}/chapters/{lang}/one.html{query}", **options)
    # On a phone, what some languages say keeps the figure further down than where it is drawn.
    at = page.evaluate("scrollY")
    page.eval_on_selector(f"{BOX} .calc-figure", "one => one.scrollIntoView()")
    page.wait_for_selector(f"{BOX}[data-drawn=plot], {BOX}.misfit", timeout=30_000)
    page.evaluate(f"scrollTo(0, {at})")
    return page


def texts(page):
    found = page.eval_on_selector_all(
        f"{BOX} :is(.calc-verdict, .calc-advice, [data-tile] b, [data-tile] small, "
        ".calc-legend output, [data-row] td)",
        "all => all.map(one => one.textContent)",
    )
    return [text.replace("\u00a0", " ") for text in found]


def test_the_pages_functions_are_the_librarys():
    """Whoever changes one translates it: `python -m course_press.outputs.translate`."""
    given = translate.STEPS.read_text(encoding="utf-8")
    assert given == translate.javascript("courseSteps")


def drawn(pick, own=False):
    """A state without its batch and context; not every one can be answered."""
    tp = pick.choice([1, 1, 1, 2, 4, 8, 16])
    at = {**serving.START, "tp": tp, "count": tp * pick.choice([1, 2, 4])}
    at |= {"model": pick.choice(OFFERED.models), "chip": pick.choice(OFFERED.chips)}
    for name, offered in serving.FORMATS.items():
        at[name] = pick.choice(offered) if pick.random() < 0.5 else at[name]
    at["link"] = pick.choice(["", "nvlink", "host", "nodes"])
    return {**at, "model": serving.OWN} if own else at


def declared(pick):
    """What a configuration says of formats, if anything."""
    return {"quantization_config": pick.choice(RECIPES)[0]} if pick.random() < 0.7 else {}


def points(pick, count):
    """Batches and contexts."""
    batches = [pick.choice([1, pick.randint(1, 64), pick.randint(1, 20_000)]) for _ in range(count)]
    contexts = [pick.choice([1, pick.randint(1, 4096), pick.randint(1, 200_000)]) for _ in batches]
    return np.array(batches), np.array(contexts)


def of_library(at, one, batches, contexts):
    """What the library says of many batches and contexts at once."""
    on = chip(at["chip"])
    link = serving.link_of(on, at["tp"], at["link"]) or None
    how = {"w": at["weights"] or None, "x": at["activations"] or None, "kv": at["cache"] or None}
    more = {**how, "compute": at["compute"] or None, "tp": at["tp"], "link": link}
    if not one.positions:
        one = one.extended(max(contexts))
    step = llm.decode(one, on, batches, contexts, **more)
    read = llm.prefill(one, on, 1, contexts, **more)
    likely, soon = calibrate.predict(step, on), calibrate.predict(read, on)
    room = llm.fits(one, on, batches, contexts, tokens=batches, tp=at["tp"], **how)
    return (
        *(room.memory.weights, room.memory.kv, room.memory.activations, room.max_batch),
        *(step.speed_of_light, step.lower, likely.low, likely.expected, likely.high),
        *(read.speed_of_light, read.lower, soon.low, soon.expected, soon.high),
    )


def of_page(page, states):
    """What the page says of states."""
    return page.evaluate(
        "states => { const ask = courseCalculator(courseApart); return states.map(state => {"
        "const found = ask.answer(state); return Object.fromEntries(Object.entries(found).filter("
        "([, one]) => one === null || typeof one !== 'object')); }); }",
        states,
    )


def compare(page, pick, groups, each, tiny=()):
    """So many random states, of the table's models and of every family's configuration; some of
    certain configurations first.
    """
    wanted, states = [], []
    while len(states) < groups * each:
        own = tiny[-1] if tiny else pick.choice(TINY) if pick.random() < 0.3 else None
        config = {"model_type": own[0], **own[1], **declared(pick)} if own else None
        at = drawn(pick, own=bool(own))
        one = from_config(config) if config else model(at["model"])
        batches, contexts = points(pick, each)
        if one.positions:  # a table of positions grows with each context
            contexts[:] = min(contexts[0], one.context)
        try:
            found = np.broadcast_arrays(*of_library(at, one, batches, contexts))
        except CourseError:  # what cannot be had, another test asks for
            continue
        tiny = tiny[:-1]
        wanted += np.stack(found, axis=-1).tolist()
        states += [
            {**at, "batch": batch, "context": context, "config": json.dumps(config)}
            for batch, context in zip(batches.tolist(), contexts.tolist(), strict=True)
        ]
    answers = of_page(page, states)
    for state, answer, many in zip(states, answers, wanted, strict=True):
        assert answer["refused"] == "", state
        shown = [answer[name] for name in FIELDS]
        row = many
        if shown != pytest.approx(many, rel=1e-9):  # many at once have one format's constants
            config = json.loads(state["config"])
            one = from_config(config) if config else model(state["model"])
            row = of_library(state, one, state["batch"], np.array([state["context"]]))
        assert shown == pytest.approx([float(np.squeeze(one)) for one in row], rel=1e-9), state
    return len(states)


def test_a_thousand_states_are_what_the_library_says(visit):
    assert compare(opened(visit), random.Random(22), 16, 63) >= 1000


def test_some_states_of_every_familys_configuration_are_what_the_library_says(visit):
    assert compare(opened(visit), random.Random(24), len(TINY), 3, TINY) >= 3 * len(TINY)


@pytest.mark.exhaustive
def test_ten_thousand_states_are_what_the_library_says(visit):
    assert compare(opened(visit), random.Random(23), 210, 48) >= 10_000


def whole_answers(page, pick, count):
    """So many answers of the library with all that follows from them, and what it refuses."""
    while count:
        at = {**drawn(pick), "batch": pick.randint(1, 2000), "context": pick.randint(1, 20_000)}
        at["chip"] = pick.choice([at["chip"], "h100-sxm", "a100-sxm-80"])
        answer = of_page(page, [{**at, "config": ""}])[0]
        wanted = OFFERED.answer(**at)
        refused = {"no-format": "format"}.get(answer["refused"], answer["refused"])
        assert refused == wanted.refused, at
        count -= not refused
        for name, value in wanted._asdict().items() if not refused else ():
            if name in ("refused", "about"):
                continue
            same = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert answer.get(name) == same, (name, at)


def test_costs_crossovers_and_advice_are_the_librarys(visit):
    whole_answers(opened(visit), random.Random(5), 6)


@pytest.mark.exhaustive
def test_costs_crossovers_and_advice_are_the_librarys_for_many(visit):
    whole_answers(opened(visit), random.Random(6), 300)


def test_what_the_library_refuses_the_page_refuses(visit):
    page = opened(visit)
    broken = []
    for kind, config in TINY:
        given = {"model_type": kind, **config}
        broken += [{**given, "model_type": "mamba"}, {"vocab_size": 7}]
        broken += [{name: size for name, size in given.items() if name != left} for left in given]
        broken += [{**given, name: wrong} for name in list(given)[1:] for wrong in ("4", 0, -1)]
    states = [{**OFFERED.start, "model": "own", "config": json.dumps(one)} for one in broken]
    for config, answer in zip(broken, of_page(page, states), strict=True):
        try:
            from_config(config)
            refused = ""
        except CourseError:
            refused = sizes(config)["refused"]
            refused = f"config-{refused or 'value'}"
        assert answer["refused"] == refused, config
    for text in ("", "{", "[]", "3", "null", '{"model_type": 3}', '{"model_type": "llama"}'):
        page.evaluate(
            "text => { const box = document.querySelector('#calc-config'); box.value = text;"
            "box.dispatchEvent(new Event('input')); }",
            text,
        )
    assert page.locator(".calc-answer").get_attribute("data-fits") == "true"


@pytest.mark.parametrize(
    "lang", [*(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("en", "ko")), "es"]
)
def test_the_first_state_is_the_same_with_and_without_javascript(visit, lang):
    still = visit(f"{lang}/chapters/{lang}/one.html", java_script_enabled=False)
    first = texts(still)
    assert not still.locator(".calc-controls").first.is_visible()
    assert still.locator(".calc-verdict").is_visible()
    assert texts(opened(visit, lang)) == first
    with language(lang):
        rows = [row[1].replace("\u00a0", " ") for row in serving.rows(OFFERED.answer())]
    assert first[-len(rows) :] == rows
    assert not re.search(r"[{}]", " ".join(first))


def test_a_choice_is_shown_said_and_kept_in_the_address_and_the_languages(visit):
    page = opened(visit)
    assert page.inner_text(".calc-said") == ""
    page.locator("#calc-model").focus()
    page.keyboard.type("Llama-3-70B")  # by the keyboard alone
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.locator("#calc-chip").evaluate("one => one === document.activeElement")
    assert "does not fit" in page.inner_text(".calc-verdict")
    assert "does not fit" in page.inner_text(".calc-said")
    page.select_option("#calc-count", "8")
    page.select_option("#calc-tp", "4")
    page.fill("#calc-batch", "32")
    page.locator("#calc-batch").press("Tab")
    wanted = OFFERED.answer(model="llama-3-70b", count=8, tp=4, batch=32)
    answer = page.evaluate(f"document.querySelector('{BOX}').answer.usd")
    assert answer == pytest.approx(wanted.usd)
    assert "calculate.tp=4" in page.url
    query = "?" + page.url.partition("?")[2]
    for lang in LANGS[1:]:
        other = opened(visit, lang, query)
        again = other.evaluate(f"document.querySelector('{BOX}').answer.usd")
        assert again == pytest.approx(wanted.usd)
    assert query in page.evaluate("document.querySelector('.languages a[hreflang=es]').href")
    page.click("[data-tool=reset]")
    assert page.evaluate("location.search") == ""


def test_an_address_that_asks_for_nothing_offered_changes_nothing(visit):
    query = "?calculate.model=gpt-9&calculate.batch=-4&calculate.tp=3&calculate.context=1e9"
    query += "&calculate.weights=%3Cb%3E&calculate.offer=77&calculate.link=rope"
    assert texts(opened(visit, query=query)) == texts(opened(visit))


def test_a_pasted_configuration_is_counted_and_travels_in_the_address(visit):
    page = opened(visit)
    page.select_option("#calc-model", "own")
    assert "Paste" in page.inner_text(".calc-verdict")
    page.fill("#calc-config", json.dumps({**LLAMA, "transformers_version": "4.40"}, indent=2))
    assert "8,030,261,248" in page.inner_text(".calc-pasted")
    page.fill("#calc-batch", "3")
    page.locator("#calc-batch").press("Enter")
    assert "transformers_version" not in page.url
    other = opened(visit, "ko", "?" + page.url.partition("?")[2])
    answer = other.evaluate(f"document.querySelector('{BOX}').answer.decode")
    assert answer == pytest.approx(OFFERED.answer(LLAMA, model="own", batch=3).decode)
    code = page.text_content("[data-copied=python]")
    assert "from_config" in code
    page.fill("#calc-config", "{")
    assert page.get_attribute("#calc-config", "aria-invalid") == "true"


def test_the_same_in_python_says_the_same(visit, capsys):
    query = "?calculate.model=mixtral-8x7b&calculate.tp=2&calculate.count=2&calculate.weights=fp8"
    page = opened(visit, query=query + "&calculate.compute=fp8&calculate.context=40000")
    code = page.text_content("[data-copied=python]")
    names = {}
    exec(code, names)
    shown = page.evaluate(f"document.querySelector('{BOX}').answer.decode")
    assert names["step"].lower == pytest.approx(shown)
    command = page.text_content("[data-copied=predict]")
    assert command == (
        "course predict mixtral-8x7b h100-sxm --batch 16 --context 40000 --weights fp8 "
        "--compute fp8 --tp 2 --link nvlink --calibrated"
    )


ASKED = (
    "",
    "?calculate.model=qwen3-8b&calculate.chip=l40s&calculate.batch=3&calculate.context=100",
    "?calculate.model=deepseek-v3&calculate.chip=h200-sxm&calculate.tp=8&calculate.count=16"
    "&calculate.cache=fp8&calculate.weights=fp8&calculate.batch=64&calculate.context=8192",
)


@pytest.mark.parametrize("query", ASKED)
def test_every_question_is_a_command_that_answers(visit, query):
    """As the form has it: what it shows is no claim that is refused."""
    page = opened(visit, query=query)
    for verb in get_args(Question):
        line = page.text_content(f"[data-copied={verb}]").split()
        assert line[:2] == ["course", verb]
        if verb in ("diagnose", "me"):  # of a reader's own
            continue
        done = CliRunner().invoke(app, [*line[1:], "--json"])
        if "no layout" in str(done.exception):  # so few chips do not hold a large model's step
            continue
        assert isinstance(done.exception, SystemExit | None), (line, done.exception)
        found = json.loads(done.stdout)
        if verb == "verify":
            assert found["verdict"] == "possible", line
        if verb == "predict":
            shown = page.evaluate(f"document.querySelector('{BOX}').answer.decode_likely")
            assert found["expected_s"] == pytest.approx(shown, rel=1e-6)


def test_a_command_is_copied_by_the_keyboard(visit):
    page = opened(visit)
    button = page.locator(".calc-verbs .copy").first
    button.focus()
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelector('.calc-verbs .copy').textContent == 'Copied'")


def test_a_card_to_share_is_1200_by_630(visit):
    page = opened(visit)
    with page.expect_download() as saved:
        page.click("[data-tool=card]")
    head = saved.value.path().read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert [int.from_bytes(head[i : i + 4], "big") for i in (16, 20)] == [1200, 630]
    assert saved.value.suggested_filename == "calculator.png"


def test_the_roofline_holds_every_operator_that_computes(visit):
    page = opened(visit)
    dots = page.evaluate(f"document.querySelector('{BOX}').marks.dots")
    steps = [llm.decode("llama-3-8b", "h100-sxm", 16, 4096)]
    steps.append(llm.prefill("llama-3-8b", "h100-sxm", 1, 4096))
    wanted = [
        (one.intensity, one.attainable)
        for step in steps
        for part in step.parts.values()
        for one in part.parts.values()
        if one.t_math
    ]
    assert [(dot["x"], dot["y"]) for dot in dots] == [pytest.approx(one) for one in wanted]
    assert page.locator(f"{BOX} .plot-dot").count() == len(wanted)


SPEEDS = [name for name in serving.ROWS if name not in serving.ALWAYS]


def test_what_does_not_fit_is_not_sold_and_a_button_makes_it_fit(visit):
    page = opened(visit)
    page.select_option("#calc-model", "llama-3-70b")
    page.select_option("#calc-count", "8")
    assert "does not fit" in page.inner_text(".calc-verdict")
    shown = page.eval_on_selector_all("[data-tile] b", "all => all.map(one => one.textContent)")
    shown += [page.text_content(f"[data-row={name}] td") for name in SPEEDS]
    assert set(shown) == {serving.NONE}
    assert not page.locator(".calc-small, .calc-advice, .calc-figure").first.is_visible()
    page.click("text=Take 2 chips for each copy")
    assert [page.input_value(f"#calc-{name}") for name in ("tp", "count")] == ["2", "8"]
    assert page.evaluate("document.activeElement.id") == "calc-tp"
    assert "It fits" in page.inner_text(".calc-verdict")
    assert not page.locator(".calc-take").is_visible()
    assert "calculate.tp=2" in page.url
    page.select_option("#calc-model", "gpt2-xl")
    page.fill("#calc-batch", "1000000")
    assert not page.locator(".calc-take").is_visible()  # no number of chips would do


WRONG = ["0", "-1", "16.5", "1e9", "1048577", ""]
PASTED = ["", "{", "https://huggingface.co/x/y", '{"model_type": "mamba"}', json.dumps(LLAMA)]
PUT_IN = """([name, value]) => {
    document.querySelector("[data-tool=reset]").click();
    const one = document.querySelector(`[data-state=${name}]`), every = document.querySelectorAll("[data-state]");
    one.value = value;
    one.dispatchEvent(new Event("input"));
    one.dispatchEvent(new Event("change"));
    const [said, verdict] = [".calc-said", ".calc-verdict"].map(at => document.querySelector(at).textContent);
    const state = Object.fromEntries([...every].map(one => [one.dataset.state, one.value]));
    return [said, verdict, one.value, one.getAttribute("aria-invalid"), state,
            document.querySelector(".calculator").answer];
}"""


def test_whatever_is_put_in_changes_the_answer_or_is_refused_in_words(visit):
    """No field shows one thing while the answer is for another."""
    page, asked = opened(visit), []
    for control in page.query_selector_all(f"{BOX} [data-state]"):
        name = control.get_attribute("data-state")
        page.click("[data-tool=reset]")
        options = "one => [...one.options || []].map(x => x.value)"
        offered = control.evaluate(options)
        for value in offered[:8:2] or [*WRONG, "1", "1048576"]:
            said, verdict, shown, invalid, state, held = page.evaluate(PUT_IN, [name, value])
            assert said.startswith(verdict)
            assert shown == value
            refused = name in ("batch", "context") and value in WRONG
            assert (invalid == "true") == refused
            if refused:
                assert "a whole number from 1 to 1,048,576" in verdict
                assert said == verdict  # nothing of another answer
                continue
            numbers = {key for key, start in serving.START.items() if isinstance(start, int)}
            at = {key: int(one) if key in numbers else one for key, one in state.items()}
            asked.append(({**at, "config": ""}, held))
    assert len(asked) > 30
    for (at, held), wanted in zip(asked, of_page(page, [at for at, _ in asked]), strict=True):
        assert {key: held[key] for key in wanted} == wanted, at
    page.select_option("#calc-model", "own")
    for text in PASTED:
        page.fill("#calc-config", text)
        said, verdict = page.text_content(".calc-said"), page.text_content(".calc-verdict")
        fits = text.startswith('{"model_type": "llama"') or "vocab_size" in text
        assert ("fits" in verdict) == fits
        assert (said == verdict) == (not fits)
    page.fill("#calc-config", PASTED[2])
    assert "open its config.json" in page.text_content(".calc-verdict")


DRAWN = """() => {
    const put = CanvasRenderingContext2D.prototype.fillText, all = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        all.push([text, x, y, this.measureText(text).width, parseFloat(this.font.match(/[0-9.]+px/))]);
        put.apply(this, arguments);
    };
    document.querySelector(".calculator").card();
    CanvasRenderingContext2D.prototype.fillText = put;
    return all;
}"""


QUERIES = ["", "model=llama-3-70b", "batch=4000&calculate.context=100000",
           "count=64&calculate.tp=8&calculate.cache=fp8"]  # fmt: skip
CARDS = list(zip(QUERIES, ("en", "es", "ko", "ko"), strict=True))


@pytest.mark.parametrize(
    ("query", "lang"),
    [
        pytest.param(*card, marks=() if card in CARDS else pytest.mark.exhaustive)
        for card in product(QUERIES, LANGS)
    ],
)
def test_the_card_says_what_the_page_says_and_none_of_it_runs_off(visit, lang, query):
    page = opened(visit, lang, f"?calculate.{query}")
    drawn = page.evaluate(DRAWN)
    said = " ".join(text for text, *_ in drawn)
    for text, x, y, width, _ in drawn:
        assert 60 <= x <= x + width <= 1140.5, text
        assert 40 < y < 615, text
    for part in (".calc-verdict", ".calc-advice", "[data-tile=decode] b", "[data-tile=all] dt"):
        assert page.text_content(part) in said, part
    assert page.evaluate("document.title") in said
    assert page.url.partition("://")[2][:40] in said
    tiles = page.eval_on_selector_all("[data-tile] dt", "all => all.map(one => one.textContent)")
    sizes = {
        size for text, *_, size in drawn if text and any(one.startswith(text) for one in tiles)
    }
    assert len(sizes) == 1
    likely = page.text_content("[data-row=decode_likely] td")
    fits = page.evaluate(f"document.querySelector('{BOX}').answer.fits")
    assert likely.split("(")[-1].rstrip(")") in said if fits else likely == serving.NONE


SCHEMES = list(product(LANGS, ("light", "dark")))
OFTEN = [("en", "dark"), ("ko", "light")]


@pytest.mark.parametrize(
    ("lang", "scheme"),
    OFTEN
    + [pytest.param(*one, marks=pytest.mark.exhaustive) for one in SCHEMES if one not in OFTEN],
)
def test_it_is_accessible_and_fits_a_phone(visit, accessible, lang, scheme):
    page = opened(visit, lang, color_scheme=scheme, width=390)
    accessible(page)
    page.select_option("#calc-model", "own")
    accessible(page)
    page.select_option("#calc-model", "deepseek-v3")
    page.eval_on_selector_all(".calc-copied", "all => all.forEach(one => { one.open = true; })")
    wait_for(page, "document.documentElement.scrollWidth <= 390")
    top = page.locator(".calc-tiles").bounding_box()
    assert top["y"] + top["height"] < 900  # the verdict is on the first screen
    assert page.evaluate(
        f"[...document.querySelectorAll('{BOX} [data-state]')].every(one => one.labels.length == 1)"
    )


def test_the_page_is_light(built):
    folder = built / "en" / "chapters" / "en"
    files = [*folder.glob("one*"), *(built / "assets").glob("calculator.css")]
    assert sum(file.stat().st_size for file in files) < 300_000
    text = (folder / "one.html").read_text(encoding="utf-8")
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert "courseSteps" not in (built / "en" / "index.html").read_text(encoding="utf-8")


def drawn_by(page, far):
    """Take hold of the batch and draw it so many pixels."""
    box = page.locator("#calc-batch").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + far, y, steps=5)
    page.mouse.up()
    return int(page.input_value("#calc-batch"))


def test_a_number_of_the_sentence_is_drawn_typed_and_doubled(visit):
    page = opened(visit)
    assert drawn_by(page, 80) > 2 * serving.START["batch"]
    assert drawn_by(page, -2000) == 1
    assert drawn_by(page, 4000) == serving.MOST
    page.fill("#calc-batch", "24")
    page.keyboard.press("PageUp")
    assert page.input_value("#calc-batch") == "48"
    wanted = calibrate.predict(llm.decode("llama-3-8b", "h100-sxm", 48, 4096), "h100-sxm").expected
    assert page.evaluate(f"document.querySelector('{BOX}').answer.decode_likely") == (
        pytest.approx(wanted)
    )
    said = page.inner_text(".calc-sentence [data-told=decode]").replace("\u00a0", " ")
    with language("en"):
        assert said == n(wanted, "s")


@pytest.mark.parametrize("lang", LANGS)
def test_an_answer_is_kept_beside_another_and_travels_with_it(visit, lang):
    page = opened(visit, lang)
    page.click("[data-tool=compare]")
    page.select_option("#calc-chip", "b200-sxm")
    kept = page.inner_text(".calc-kept")
    one, other = OFFERED.answer(), OFFERED.answer(chip="b200-sxm")
    with language(lang):
        assert n(float(f"{other.decode_likely / one.decode_likely:.3g}"), "×") in kept
        assert n(one.decode_likely, "s") in kept.replace("\u00a0", " ")
    again = opened(visit, lang, "?" + page.url.partition("?")[2])
    assert again.inner_text(".calc-kept") == kept
    again.click("[data-tool=compare]")
    assert not again.locator(".calc-kept").is_visible()
    assert "with" not in again.url


def test_a_configuration_takes_two_actions_on_a_phone(visit):
    page = opened(visit, width=390)
    page.click("[data-tool=paste]")
    assert page.evaluate("document.activeElement.id") == "calc-config"
    page.keyboard.insert_text(json.dumps(LLAMA))
    assert page.inner_text(".calc-sentence [data-told=decode]") != serving.NONE
    assert page.evaluate(f"document.querySelector('{BOX}').answer.parameters") == 8_030_261_248


def test_what_is_embedded_is_the_answer_alone(visit):
    page = visit("en/chapters/en/one.html?calculate.embed=1&calculate.chip=l40s")
    page.wait_for_selector(f"{BOX}.live")
    assert page.locator(".calc-sentence, .calc-verdict").first.is_visible()
    assert not page.locator(".bar, footer, .calc-more, .turn").first.is_visible()
    assert page.input_value("#calc-chip") == "l40s"
