"""The search: an index made beforehand, which finds what readers mean however they write it."""

import json

import pytest

from course_press.pages import searchable
from tests.browser.conftest import wait_for

pytestmark = pytest.mark.browser
KINDS = {
    "allreduce": ("en", "all-reduce"),
    "kvcache": ("en", "KV cache"),
    "ridgepoint": ("en", "ridge point (I*)"),
    "rigde point": ("en", "ridge point (I*)"),
    "능선점": ("en", "ridge point (I*)"),
    "machine balance": ("en", "ridge point (I*)"),
    "lote critico": ("es", "tamaño de batch crítico (B*)"),
    "memory wall": ("es", "muro de memoria"),
    "산술강도": ("ko", "산술 강도(arithmetic intensity) (I)"),
    "산술 강도를": ("ko", "산술 강도(arithmetic intensity) (I)"),
    "메모리벽": ("ko", "메모리 월(memory wall)"),
    "릿지": ("ko", "능선점(ridge point) (I*)"),
}
"""Written as one or apart, with slips, with particles, by other names and in other languages: what
the first result says.
"""

GLOSSARIES = {"en": "Glossary", "es": "Glosario", "ko": "용어집"}


@pytest.fixture(scope="module")
def built(whole_book):
    return whole_book


def ask(page, question):
    page.click("button.search-open")
    page.fill("dialog input", question)
    page.wait_for_selector("#hits a")
    return page.eval_on_selector_all(
        "#hits a",
        "all => all.map(a => [a.querySelector('.kind')?.textContent ?? '', "
        "a.querySelector('strong').textContent])",
    )


@pytest.mark.parametrize("lang", ["en", "es", "ko"])
def test_a_term_is_found_however_it_is_written(visit, lang):
    page, glossary = visit(f"{lang}/index.html"), GLOSSARIES[lang]
    for question, (of, title) in KINDS.items():
        if of == lang:
            assert ask(page, question)[0] == [glossary, title], question
            page.fill("dialog input", "")
            page.wait_for_selector("#hits a", state="detached")
            page.keyboard.press("Escape")


def test_captions_and_exercises_are_results_that_say_what_they_are(visit):
    page = visit("en/index.html")
    assert ask(page, "a trillion operations")[0] == ["Exercise", "A trillion operations, or so"]
    page.keyboard.press("Enter")
    page.wait_for_url("**/rooflines.html#exercise-rooflines-trillion")
    kinds = {kind.split()[0] for kind, _ in ask(visit("en/index.html"), "ridge") if kind}
    assert {"Glossary", "Table", "Exercise"} <= kinds


def test_what_answers_a_question_only_in_part_is_found_too(visit):
    found = ask(visit("en/index.html"), "why is decode slow")
    assert len(found) > 4
    assert found[0][1].startswith("Why decode is slow")


def test_the_scripts_of_the_search_come_when_it_is_reached_for(visit):
    page = visit("en/index.html")
    scripts = "[...document.scripts].filter(one => /search|minisearch/.test(one.src)).length"
    assert page.evaluate(scripts) == 0
    page.hover("button.search-open")
    assert page.evaluate(scripts) == 3


def test_results_are_accessible(visit, accessible):
    page = visit("en/index.html", width=390)
    ask(page, "ridge")
    accessible(page, "dialog")
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= 390


@pytest.mark.parametrize(
    "lang", [*(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("en", "es")), "ko"]
)
def test_the_index_is_what_the_engine_would_have_made(visit, lang):
    """Hence the two ways to take a text apart agree, on every text of the book."""
    page = visit(f"{lang}/index.html")
    page.evaluate("""() => {
        let engine;
        Object.defineProperty(window, "MiniSearch", { get: () => engine, set: given => {
            engine = given;
            const load = given.loadJSON;
            given.loadJSON = (...all) => { window.given = all; return load.apply(given, all); };
        } });
    }""")
    page.click("button.search-open")
    wait_for(page, "window.given !== undefined")
    counts, averages, terms, others = page.evaluate("""() => {
        const ours = JSON.parse(window.given[0]);
        const engine = new MiniSearch(window.given[1]);
        Object.values(ours.storedFields).forEach((one, id) => engine.add({ id, also: "", ...one }));
        const theirs = JSON.parse(JSON.stringify(engine));
        const written = one => JSON.stringify(one, (_, held) => held?.constructor === Object
            ? Object.fromEntries(Object.entries(held).sort()) : held);
        const [mine, other] = [ours, theirs].map(one => new Map(one.index));
        const terms = [...new Set([...mine.keys(), ...other.keys()])];
        const names = ["fieldLength", "documentCount", "fieldIds", "serializationVersion"];
        const stored = [ours, theirs].map(one => Object.keys(one.storedFields).join());
        return [
            [terms.length, ours.documentCount],
            [ours.averageFieldLength, theirs.averageFieldLength],
            terms.filter(term => written(mine.get(term)) !== written(other.get(term))).slice(0, 9),
            names.filter(name => written(ours[name]) !== written(theirs[name]))
                .concat(stored[0] === stored[1] ? [] : "storedFields"),
        ];
    }""")
    assert min(counts) > 100
    assert terms == others == []
    assert averages[0] == pytest.approx(averages[1])


def test_a_script_of_the_index_is_the_text_that_was_given():
    text = "It's a \\ and a 'quote'"
    script = searchable.script([{"title": text, "text": "", "url": "x"}])
    inside = script.removeprefix("window.COURSE_SEARCH = '").removesuffix("';\n")
    assert "'" not in inside.replace("\\'", "")
    read = json.loads(inside.replace("\\'", "'").replace("\\\\", "\\"))
    assert read["storedFields"]["0"]["title"] == text
