"""Small things by an example each."""

from pathlib import Path
from xml.etree import ElementTree

from lxml import html

from course_book.explore import serving
from course_press.decks.passages import opening, sentences
from course_press.decks.reading import slides_of
from course_press.exports.rolls import seed_of
from course_press.outputs import calculator, explorer, written
from course_press.outputs.translate import javascript
from course_press.pages import csp, searchable, share, site
from course_press.source import assets


def test_passages_are_cut_between_sentences():
    one = html.fragment_fromstring("<p>It is <em>so. Very</em> 3.5 wide. Is it? Yes.</p>")
    assert sentences(one) == ["It is <em>so. Very</em> 3.5 wide.", "Is it?", "Yes."]
    second = "It says little, and so the next one is there as well."
    assert opening(["Why?", second, "No."]) == f"Why? {second}"


def test_a_section_is_held_together_on_slides():
    findings = '<section id="sec-a" class="level2"><h2>A</h2><ul><li>Why.</li></ul></section>'
    slides = slides_of("One", findings).splitlines()
    assert slides[:2] == ['<section id="sec-a" class="slide-sentence">', "<h2>A</h2>"]


def test_a_seed_is_a_students_and_a_courses():
    assert seed_of(7, "s001") == seed_of(7, "s001") != seed_of(8, "s001")


def test_the_calculator_is_an_element():
    made = serving.calculator()
    assert 'class="calculator"' in calculator.html(made)
    assert calculator.payload(made)["chips"]["l4"]["short"] == "L4"


def test_numbers_of_scripts_have_the_digits_that_are_shown():
    given = ((989.4e12, "FLOP/s"), (16384.0, ""), (7.196e-3, "s"), (0.5, "s"))
    shown = [explorer.short(*one) for one in given]
    assert shown == ["9.89e14", "16384", "0.00720", "0.5"]


def test_words_and_marks_of_live_figures():
    assert written.number_marks()["locale"]["decimal"] == "."
    assert written.tool_words()["reset"] == "Reset"
    assert "return rate / moved;" in javascript()


def test_a_page_runs_its_templates_scripts_only():
    hashed = "'sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s='"
    assert csp.policy("<script>1</script>").split("; ")[1] == f"script-src 'self' file: {hashed}"


def test_scripts_are_printed_without_comments():
    assert assets.lean("/* Why. */\n  a { }\n  // Why.\n  b();  // why\n") == "a { }\nb();\n"
    text = '<script type="application/json">{}</script>'
    assert site.put_apart(text, "one")[0] == text


def test_parts_of_a_page_are_found():
    page = '<p>Open.</p><section id="a"><h2>A</h2><p>So <code>x</code>.</p></section>'
    first, second = searchable.sections(page)
    assert first == {"id": "", "title": "", "text": "Open."}
    assert second == {"id": "a", "title": "A", "text": "So x."}
    label = '<span class="caption-label">Figure 1</span>'
    figure = f"<figcaption>{label} A line. It bends.</figcaption>"
    (found,) = searchable.sections(f'<figure id="fig-a" class="float">{figure}</figure>')
    assert found == {"id": "fig-a", "title": "A line.", "text": "It bends.", "label": "Figure 1"}


def test_formulas_and_words_as_one_types_them():
    formula = (
        "<math><msup><mi>I</mi><mo>∗</mo></msup><mo>≈</mo><msub><mi>a</mi><mn>2</mn></msub></math>"
    )
    assert searchable.plain(ElementTree.fromstring(formula)) == "I* ≈ a_2"
    words = ["indice", "de", "kv", "cache", "산술", "강도", "도가"]
    assert searchable.tokens("Índice de KV-cache: 산술 강도가") == words


def test_the_index_that_the_engine_loads():
    made = searchable.index([{"title": "Ridge", "text": "The ridge point"}])
    assert made["index"] == [
        ["point", {"1": {"0": 1}}],
        ["ridge", {"0": {"0": 1}, "1": {"0": 1}}],
        ["the", {"1": {"0": 1}}],
    ]
    assert searchable.script([])[:44] == 'window.COURSE_SEARCH = \'{"documentCount":0,"'


def test_what_others_see_of_the_book(tmp_path: Path):
    outputs = [[], [{"data": {"text/plain": "1"}}, {"data": {"image/png": "iVBO"}}]]
    assert share.first_picture(outputs)[2]() == b"\x89PN"
    assert share.font("roofline")[0].endswith("source-serif-4.woff2")
    assert share.cards({"one": share.Face(None, "One", "Nothing.", "A book")}, {}) == {}
    (tmp_path / "index.html").write_text("")
    lines = share.sitemap("https://example.org", {"en": tmp_path}).splitlines()
    assert lines[2] == "<url><loc>https://example.org/en/index.html</loc></url>"
