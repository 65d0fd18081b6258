"""What references say in each language, and that what follows a number in Korean agrees with how
the number is read.
"""

import json
import subprocess

import pypandoc
import pytest
from lxml import html

from course_press.pages.pandoc import SHARED
from course_press.source.assets import ASSETS

PARTICLES = {
    "은": "는",
    "이": "가",
    "을": "를",
    "과": "와",
    "으로": "로",
    "이다": "다",
    "이라": "라",
    "이나": "나",
    "과는": "와는",
    "으로도": "로도",
    "이라고": "라고",
}
"""After a consonant: after a vowel."""
LABELS = {
    "fig-a": {"kind": "fig", "number": "1.1", "title": ""},
    "tbl-b": {"kind": "tbl", "number": "3.2", "title": ""},
    "eq-c": {"kind": "eq", "number": "6.3", "title": ""},
    "sec-d": {"kind": "sec", "number": "2.5.1", "title": ""},
    "sec-e": {"kind": "sec", "number": "", "title": "부록"},
}
COURSE = {
    "labels": LABELS,
    "words": {"ui-fig": "그림", "ui-tbl": "표", "ui-eq": "식", "ui-sec": "절"},
}


def through(text, lang="ko", course=COURSE, of="markdown", to="plain", filters=("references.lua",)):
    done = subprocess.run(
        [
            pypandoc.get_pandoc_path(),
            f"--from={of}",
            f"--to={to}",
            "--wrap=none",
            *(f"--lua-filter={ASSETS / name}" for name in filters),
            f"--metadata=lang:{lang}",
            *([f"--metadata=course:{json.dumps(course)}"] if course else []),
        ],
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.replace("\u00a0", " ").strip()


def spelled(number):
    """A number below 100,000 in Hangul."""
    if number == 0:
        return "영"
    text = ""
    for i, digit in enumerate(reversed(str(number))):
        if digit != "0":
            one = "" if digit == "1" and i else "영일이삼사오육칠팔구"[int(digit)]
            text = one + ["", "십", "백", "천", "만"][i] + text
    return text


def form(word, particle):
    """The form after a word in Hangul, by its last syllable."""
    coda = (ord(word[-1]) - ord("가")) % 28
    vowel = coda == 0 or (particle.startswith("으로") and coda == 8)
    return PARTICLES[particle] if vowel else particle


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_particles_agree_with_numbers_as_they_are_read(step):
    whole = (*range(500), *range(500, 10_000, step), 10_000, 10_001, 50_000, 99_990)
    numbers = [(f"{i:,}", spelled(i)) for i in whole]
    numbers += [
        (f"{i / 100:.2f}"[:end], f"점{'영일이삼사오육칠팔구'[int(f'{i / 100:.2f}'[:end][-1])]}")
        for i in range(300)
        for end in (None, -1)
    ]
    said, right = [], []
    for at, (number, word) in enumerate(numbers):
        after, other = list(PARTICLES.items())[at % len(PARTICLES)]
        for particle, more in ((after, "은"), (other, "으로")):
            said.append(f"{number}{particle} {number}{PARTICLES[more]}.")
            right.append(f"{number}{form(word, after)} {number}{form(word, more)}.")
    assert through("\n\n".join(said)).split("\n\n") == right


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("@{fig-a}는, @{tbl-b}을", "그림 1.1은, 표 3.2를"),
        ("@{eq-c}으로 @{eq-c}이다.", "식 6.3으로 식 6.3이다."),
        ("@{sec-d}에서 (@sec-d) @{sec-d}는", "2.5.1절에서 (2.5.1절) 2.5.1절은"),
        ("@{sec-d}으로, @{sec-d}와", "2.5.1절로, 2.5.1절과"),
        ("@{sec-e}을, [-@tbl-b]은", "부록을, 3.2는"),
        ("[그림 @fig-a; @tbl-b]를", "그림 그림 1.1, 표 3.2를"),
        ("**4,096**는 *8*으로 $16$가", "4,096은 8로 16이"),
        ("(−3)은 2–4은, “8으로”", "(−3)은 2–4는, “8로”"),
        ("1,000,000,000,000은 100,000,000는", "1,000,000,000,000는 100,000,000은"),
        ("3에서는 2만 1라인 4은행 5이상 6가지", "3에서는 2만 1라인 4은행 5이상 6가지"),
        ("int8으로 A100는 v3는 ResNet-50는", "int8으로 A100는 v3는 ResNet-50는"),
        ("`3`는 10⁻³는 5 는", "3는 10⁻³는 5 는"),
        ("[3](x.qmd)는 2009년는", "3는 2009년는"),
    ],
)
def test_only_a_particle_right_after_a_number_or_a_reference_changes(typed, read):
    assert through(typed) == read


@pytest.mark.parametrize(
    ("filters", "to"),
    [((*SHARED[True], "site.lua"), "html"), ((*SHARED[False], "notebook.lua"), "markdown_strict")],
    ids=["site", "notebook"],
)
def test_pages_and_notebooks_say_the_same(filters, to):
    course = {**COURSE, "chapter": "1", "profile": "ko", "page": "none.qmd", "chapters": []}
    said = through("@{sec-d}는 @{fig-a}을.", course=course, to=to, filters=filters)
    assert html.fromstring(said).text_content() == "2.5.1절은 그림 1.1을."


def test_no_other_language_knows_particles_or_turns_sections_around():
    words = {"ui-sec": "Sección", "ui-fig": "Figura"}
    assert through("@sec-d, @{fig-a}는 2은", "es", {**COURSE, "words": words}) == (
        "Sección 2.5.1, Figura 1.1는 2은"
    )


def test_a_reference_that_quarto_has_resolved_reads_the_same():
    typed = '<p><a class="quarto-xref" href="#x">절 2.1</a>는</p>'
    (link,) = html.fromstring(through(typed, course=None, of="html", to="html")).iter("a")
    assert (link.text, link.tail, link.get("class")) == ("2.1절", "은", "quarto-xref")
