"""What of a printed chapter comes on slides, and what is said beside them."""

import pytest
from lxml import html

from course_press.decks.passages import sentences
from course_press.decks.reading import ROWS, slides_of

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


def long(words):
    return f"{words} " + "and so on, as the passage is long enough for it " * 8 + "in the end."


def test_a_long_passage_leaves_its_first_sentences_and_says_the_rest():
    one = f"<p>The step has two clocks, each of its own kind. {long('Rest')}</p>"
    two = f"<p>Which of them? The longer one sets the time of a step. {long('More')}</p>"
    ((heading, shown, said),) = read(one + two)
    assert heading == "A"
    assert [text(p) for p in shown.iter("p")] == [
        "The step has two clocks, each of its own kind.",
        "Which of them? The longer one sets the time of a step.",
    ]
    assert "Rest" in said
    assert "More" in said


def test_an_equation_keeps_the_sentence_that_leads_to_it():
    lead = f"<p>{long('First')} {long('Then')} Its time is</p>"
    equation = '<div class="equation" id="eq-a"><div class="formula"><math></math></div></div>'
    slides = read(lead + equation + "<p>with all of it.</p>")
    (holds,) = (shown for _, shown, _ in slides if shown.xpath(".//*[@id='eq-a']"))
    assert "Its time is" in text(holds)
    assert slides_of("T", equation).count('id="eq-a"') == 1


def test_what_follows_a_figure_in_few_words_is_said_beside_it():
    figure = (
        '<figure id="fig-a" class="float figure"><div class="sizes"><svg class="wide" viewBox="0 0 '
        '1 1"></svg><svg class="narrow"></svg></div><figcaption id="fig-a-caption"><span '
        'class="caption-label">Figure 1.1</span> One roof. Drawn twice.</figcaption></figure>'
    )
    ((_, shown, said),) = read(figure + "<p>Read it from the left.</p>")
    assert text(shown) == "Figure 1.1 One roof."
    assert said == "Figure 1.1 One roof. Drawn twice. Read it from the left."
    made = slides_of("T", figure)
    assert 'viewBox="0 0 1 1"' in made
    assert "narrow" not in made
    live = figure.replace('"sizes"', '"moving"')
    assert "narrow" in slides_of("T", live)


@pytest.mark.parametrize("count", [ROWS, ROWS + 1, 3 * ROWS + 2])
def test_a_long_table_takes_several_slides_each_with_its_head(count):
    rows = "".join(f"<tr><td>row {i}.</td></tr>" for i in range(count))
    slides = read(
        '<div class="table-scroll" id="t"><table><thead><tr><th>head</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    shown = [[text(cell) for cell in one.iter("td")] for _, one, _ in slides]
    assert [cell for cells in shown for cell in cells] == [f"row {i}." for i in range(count)]
    assert max(map(len, shown)) <= ROWS
    assert max(map(len, shown)) - min(map(len, shown)) <= len(shown)
    assert all(one.xpath(".//th") for _, one, _ in slides)
    assert sum(len(one.xpath(".//*[@id='t']")) for _, one, _ in slides) == 1


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


def test_answers_stand_in_the_notes_and_not_on_the_slides():
    exercise = (
        '<div class="exercise" id="exercise-a"><p class="exercise-title">Exercise: a</p>'
        "<p>How many?</p><form><input></form><p class='exercise-said'></p>"
        "<details><summary>Solution</summary><p>Seven.</p></details>"
        '<script type="application/json">{"right": 7}</script></div>'
    )
    problem = (
        '<div class="callout callout-note problem" role="note"><p class="callout-title">Why?</p>'
        '<div class="callout-body"><p>Say it.</p></div></div>'
        '<details class="callout callout-tip"><summary class="callout-title">Answer</summary>'
        '<div class="callout-body"><p>Because.</p></div></details>'
    )
    (_, first, said), (_, second, answered) = read(f"<p>Try.</p>{exercise}{problem}")
    assert text(first) == "Exercise: a How many?"
    assert said == "Try. Solution Seven."
    assert text(second) == "Why? Say it."
    assert answered == "Answer Because."
    made = slides_of("T", exercise)
    assert "<form" not in made
    assert "<script" not in made


def test_lists_go_on_where_a_slide_ends():
    items = "".join(f"<li>{long(str(i))}</li>" for i in range(6))
    slides = read(f"<p>Do this:</p><ol>{items}</ol>")
    assert len(slides) > 1
    starts = [int(one.get("start", 1)) for _, shown, _ in slides for one in shown.iter("ol")]
    counts = [len(one.findall("li")) for _, shown, _ in slides for one in shown.iter("ol")]
    assert starts == [1 + sum(counts[:i]) for i in range(len(counts))]
    assert sum(counts) == 6


def test_a_section_of_sections_has_its_title_and_a_list_of_sources_has_none():
    inside = '<section id="sec-b" class="level3"><h3>B</h3><p>In it.</p></section>'
    sources = '<section class="level3"><h3>S</h3><div id="refs"></div></section>'
    assert [heading for heading, _, _ in read(inside + sources)] == ["A", "B"]
    assert slides_of("T", '<section class="footnotes"><p>Foot.</p></section>') == ""


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
