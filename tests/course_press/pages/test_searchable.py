"""What the search finds, and what a screen reader is told: the text of pages as they read, not as
they were written.
"""

import re
from html import unescape
from pathlib import Path

import pytest

from course_press.pages.pandoc import print_pages
from course_press.pages.references import fill_references, labels_of
from course_press.pages.searchable import sections
from course_press.source.book import languages, read_book
from tests.the_book import the_book

ROOT = Path(__file__).parents[3]
SOURCE = re.compile(r"@\{?(?:fig|tbl|eq|sec|lst)-|\[-?@|\\[a-zA-Z]{2,}|\$[^$]+\$|\{#|:::")
"""What stands in a source and never in what is read."""
ORPHAN = re.compile(r"[ ][.,;:](?:[ ]|$)")


def raw(books):
    """Pages that let their source show in the index or in the names of their parts."""
    for book, pages in zip(books, print_pages(books), strict=True):
        labels = labels_of(pages)
        for page in pages:
            body = fill_references(page, labels)
            names = re.findall(r' (?:aria-label|title|alt)="([^"]*)"', body)
            texts = [text for part in sections(body) for text in (part["title"], part["text"])]
            for said in [*map(unescape, names), *texts]:
                if found := SOURCE.search(said) or ORPHAN.search(said):
                    yield f"{book.lang} {page.url}: {said[max(found.start() - 30, 0) : found.end() + 30]!r}"


def test_references_citations_and_formulas_are_indexed_as_they_read(book):
    book.edit(
        "chapters/en/one.qmd",
        "In the margin.",
        "As @{eq-roof}의 says [@williams2009], $I^* = \\frac{\\pi}{\\beta}$ , and so on.",
    )
    written = read_book(book.root, "en")
    assert list(raw([written])) == []
    (pages,) = print_pages([written])
    body = fill_references(pages[1], labels_of(pages))
    text = " ".join(part["text"] for part in sections(body))
    assert re.search(
        r"As Equation\xa01\.1의 says \(.*Williams.* 2009\), I\* = π/β, and so on\.", text
    ), text


def test_a_table_is_named_by_its_caption_as_printed(book):
    book.build(("en",))
    page = (book.root / "_site/en/chapters/en/one.html").read_text(encoding="utf-8")
    named = re.findall(r'role="region" aria-labelledby="([^"]+)"', page)
    assert named
    assert all(f'<figcaption id="{name}">' in page for name in named)


@pytest.mark.parametrize(
    ("tex", "said"),
    [
        (r"T_{\text{math}} = \frac{W}{\pi}", "T_math = W/π"),
        (r"I^* = \frac{2BDF}{BD + DF + BF}", "I* = 2BDF/(BD + DF + BF)"),
        (r"2 b_m b_n \le b^2", "2b_m b_n ≤ b^2"),
        (r"\sum_i \max(a_i, b_i) \iff x", "∑_i max(a_i, b_i) ⇔ x"),
        (r"\sqrt{x}", "√(x)"),
    ],
)
def test_formulas_are_said_in_one_line(tex, said):
    import pypandoc

    body = pypandoc.convert_text(f"${tex}$", "html5", format="markdown", extra_args=["--mathml"])
    assert sections(body)[0]["text"] == said


def test_code_forms_and_numbers_of_equations_are_left_out():
    body = (
        '<section id="sec-a" class="level2"><h2><span '
        'class="header-section-number">1.1</span> A <em>title</em>'
        '<a class="anchor" href="#sec-a">#</a></h2><div class="cell-code"><pre>import '
        "x</pre></div><p>Said<br>twice.</p>"
        '<script>"no"</script><svg><text>no</text></svg><div '
        'class="exercise" id="one"><p class="exercise-title">Exercise: How long?</p><p>Ask.</p>'
        "<form>no</form><details><summary>Hint</summary><p>no</p></details></div></section>"
    )
    assert sections(body) == [
        {"id": "sec-a", "title": "A title", "text": "Said twice."},
        {"id": "one", "title": "How long?", "text": "Ask.", "label": "Exercise"},
    ]


def test_a_term_of_the_glossary_is_a_result_of_its_own_with_its_other_names():
    body = (
        '<section id="g"><h2>Words</h2><p>Before.</p><table><tr><td><span id="term-ring">ring</span>'
        ' (r)</td><td>A network. <span lang="es"><em>Español:</em> anillo.</span></td></tr></table>'
        "<p>After.</p></section>"
    )
    assert sections(body) == [
        {"id": "g", "title": "Words", "text": "Before. After."},
        {"id": "term-ring", "title": "ring (r)", "text": "A network.", "also": "anillo."},
    ]


@pytest.mark.exhaustive
def test_no_page_of_the_book_lets_its_source_show():
    assert list(raw([the_book(lang) for lang in languages(ROOT)])) == []


def test_no_page_of_a_korean_book_lets_its_source_show():
    assert list(raw([the_book("ko")])) == []
