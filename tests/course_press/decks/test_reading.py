"""What of a printed chapter comes on slides, and what is said beside them."""

import pytest
from lxml import html

from course_press.decks.passages import sentences
from course_press.decks.reading import slides_of

GUESS = """<div class="cell"><div class="cell-output"><div class="guess" id="predict-a">
<p class="guess-truth"><strong>It takes:</strong> 4 s</p>
<script type="application/json">{"choices": ["ns", "s"], "right": "s"}</script></div></div></div>"""


def read(body, heading="A"):
    """The slides of a section: their headings, what stands on each, and what is said."""
    page = f'<section id="sec-a" class="level2"><h2>{heading}</h2>{body}</section>'
    root = html.fragment_fromstring(slides_of("Title", page), create_parent="div")
    return [
        (
            " ".join(one.find("h2").text_content().split()),
            one.find("div"),
            " ".join(" ".join(one.xpath("./aside//text()")).split()),
        )
        for one in root.xpath(".//section[h2]")
    ]


def text(element):
    return " ".join(element.text_content().split())


FIGURE = (
    '<figure id="fig-a" class="float figure"><div class="sizes"><svg class="wide" viewBox="0 0 '
    '1 1"></svg><svg class="narrow"></svg></div><figcaption id="fig-a-caption"><span '
    'class="caption-label">Figure 1.1</span> One roof. Drawn twice.</figcaption></figure>'
)
EXERCISE = (
    '<div class="exercise" id="exercise-a"><p class="exercise-title">Exercise: a</p>'
    '<div class="sizes"><svg class="wide"></svg></div>'
    "<p>How many?</p><form><input></form><p class='exercise-said'></p>"
    "<details><summary>Solution</summary><p>Seven.</p></details>"
    '<script type="application/json">{"right": 7}</script></div>'
)


def test_a_section_is_its_first_sentence_and_its_figures_and_the_rest_is_said():
    lead = "<p>The step has two clocks, each of its own kind. More of it.</p><p>And more.</p>"
    slides = read(f"{lead}{FIGURE}<p>Read it from the left.</p>")
    (heading, shown, said), (title, figure, rest) = slides
    assert (heading, text(shown)) == ("A", "The step has two clocks, each of its own kind.")
    assert said.endswith("More of it. And more.")
    assert title == "One roof."
    assert text(figure) == ""
    assert rest == "Figure 1.1 One roof. Drawn twice. Read it from the left."
    made = slides_of("T", FIGURE)
    assert 'viewBox="0 0 1 1"' in made
    assert "narrow" not in made
    live = FIGURE.replace('"sizes"', '"moving"')
    assert "narrow" in slides_of("T", live)


def test_a_sentence_that_leads_to_an_equation_has_it():
    lead = "<p>Its time is the larger of these two times that follow:</p>"
    equation = '<div class="equation" id="eq-a"><div class="formula"><math></math></div></div>'
    shown = read(lead + equation + f"<p>with all of it.</p>{FIGURE}")[0][1]
    assert shown.xpath(".//*[@id='eq-a']")


def test_findings_have_a_slide_each_and_tables_none():
    items = "<ul><li>The first finding is a whole sentence of its own. More.</li><li>The second is too, as it must.</li></ul>"
    box = (
        f'<div class="callout takeaways"><p class="callout-title">Take</p><div>{items}</div></div>'
    )
    table = '<figure class="float"><table></table><figcaption>Rows. Of it.</figcaption></figure>'
    slides = read(f"<p>A lead that is long enough to stand alone here.</p>{FIGURE}{table}{box}")
    assert [heading for heading, _, _ in slides] == ["A", "One roof.", "Take", "Take"]
    assert text(slides[2][1]) == "The first finding is a whole sentence of its own."
    assert "Rows. Of it." in slides[1][2]


def test_what_a_lecture_is_for_stands_on_one_slide():
    items = "<ul><li>to read a roof</li><li>to raise it</li></ul>"
    box = f'<div class="callout"><p class="callout-title">Goals</p><div>{items}</div></div>'
    ((heading, shown, _),) = read(f"{box}<section class='level2'></section>")
    assert heading == "Goals"
    assert [text(one) for one in shown.xpath(".//li")] == ["to read a roof", "to raise it"]


def test_a_section_shows_the_sentence_that_is_marked_as_its_finding():
    lead = "<p>How close does one come to the roof, if it tries hard?</p>"
    rest = "<p>Look. <span class='finding'>Nobody passes <em>it</em>.</span> No one.</p>"
    (_, shown, said), *_ = read(f"{lead}{FIGURE}{rest}")
    assert text(shown) == "Nobody passes it."
    assert said.startswith("How close does one come")


def test_exercises_end_the_lecture_and_are_said():
    page = f'{FIGURE}<section class="level2"><h2>B</h2><p>Try.</p>{EXERCISE}</section>'
    root = html.fragment_fromstring(slides_of("Title", page), create_parent="div")
    (slide,) = root.xpath(".//section[h2]")
    said = " ".join(" ".join(slide.xpath("./aside//text()")).split())
    assert said.endswith("Try. Exercise: a How many? Solution Seven.")
    assert "<form" not in slides_of("T", page)
    assert "<script" not in slides_of("T", page)


def test_a_prediction_is_a_poll_whose_truth_comes_on_the_next_step():
    box = (
        '<div class="callout callout-tip predict" role="note"><p class="callout-title">Guess</p>'
        '<div class="callout-body"><p>How long?</p></div></div>'
    )
    ((_, shown, said),) = read(f"{box}{GUESS}<p>So it is.</p>")
    assert [text(item) for item in shown.iter("li")] == ["ns", "s"]
    (answer,) = shown.xpath(".//*[contains(@class, 'fragment')]")
    assert text(answer) == "It takes: 4 s"
    assert said == "So it is."
    assert not shown.xpath(".//script")


@pytest.mark.parametrize(
    ("written", "cut"),
    [
        ("At 3.5 TB/s. Then it ends.", ["At 3.5 TB/s.", "Then it ends."]),
        (
            "Por ejemplo, p. ej. esto. ¿Y luego? Nada.",
            ["Por ejemplo, p. ej. esto.", "¿Y luego?", "Nada."],
        ),
        ("바이트를 옮긴다. 그다음은?", ["바이트를 옮긴다.", "그다음은?"]),
        ("By D. Patterson on HBM. It is.", ["By D. Patterson on HBM.", "It is."]),
        ("<strong>Dense.</strong> Not sparse.", ["<strong>Dense.</strong>", "Not sparse."]),
        (
            "It is<span class='margin-note'>Aside. So.</span> &lt; 1. Yes.",
            ["It is &lt; 1.", "Yes."],
        ),
        ("", [""]),
    ],
)
def test_sentences_end_where_a_reader_stops(written, cut):
    assert sentences(html.fragment_fromstring(f"<p>{written}</p>")) == cut
