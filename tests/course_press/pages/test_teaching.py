"""What instructors get: the plans of courses, and answers that no published page holds."""

import csv
import re
from pathlib import Path

import pytest
from lxml import html

from course_book import exercises
from course_press.check import parity
from course_press.exports.notebooks import write_notebooks
from course_press.pages.pandoc import print_page
from course_press.run.execute import Cache, ChapterResults
from course_press.source.book import languages, read_book
from course_press.source.labels import label_facts
from tests.course_press.conftest import course
from tests.the_book import the_book

ROOT = Path(__file__).parents[3]
DATA = ROOT / "course_book" / "data"
LANGS = languages(ROOT)
HIDDEN = "Only instructors read this."


def rows(name):
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def of(name):
    return [row for row in rows("courses.csv") if row["session"].startswith(f"sec-{name}-")]


def source(name, lang="en"):
    return (ROOT / f"chapters/{lang}/{name}.qmd").read_text(encoding="utf-8")


def prerequisites(name):
    listed = re.search(r"^prerequisites: \[(.*)\]$", source(name), re.MULTILINE)
    return [one.strip() for one in listed[1].split(",") if one.strip()] if listed else []


def numbered():
    return [chapter.path.stem for chapter in the_book("en").chapters if chapter.number]


@pytest.fixture(scope="module")
def planned():
    book = the_book("en")
    page = next(one for one in book.chapters if one.path.stem == "courses")
    printed = print_page(book, page, ChapterResults.of([], []), Cache(ROOT / ".cache"), {})
    return html.fromstring(f"<main>{printed.body}</main>")


def plan(planned, session):
    section = planned.get_element_by_id(session)
    titles = [dt.text_content() for dt in section.cssselect("dt")]
    return dict(zip(titles, section.cssselect("dd"), strict=True))


@pytest.mark.parametrize("lang", LANGS)
def test_the_page_has_the_sessions_of_the_file_in_their_order(lang):
    text = source("courses", lang)
    headings = re.findall(r"^### .*\{#(sec-(?:day|weeks|term)-\d+)\}$", text, re.MULTILINE)
    assert headings == [row["session"] for row in rows("courses.csv")]
    assert text.count("::: {.session}") == len(headings)


@pytest.mark.parametrize("name", ["weeks", "term"])
def test_what_a_page_needs_is_read_before_it(name):
    known = set()
    for row in of(name):
        for page in [*row["read"].split(), *row["labs"].split()]:
            assert set(prerequisites(page)) <= known, f"{page} in {row['session']}"
            known.add(page)
        assert set(row["practice"].split()) <= known, row["session"]


def test_a_term_reads_every_chapter_and_does_every_lab():
    read = [page for row in of("term") for page in row["read"].split()]
    labs = [page for row in of("term") for page in row["labs"].split()]
    assert sorted(read + labs) == sorted(numbered())
    assert all(page.startswith("lab-") for page in labs)
    with_exercises = {one.chapter for one in exercises.all()}
    assert with_exercises <= {page for row in of("term") for page in row["practice"].split()}


def test_every_chapter_has_objectives_that_a_section_teaches():
    listed = rows("objectives.csv")
    assert {row["section"].partition("#")[0] for row in listed} == set(numbered())
    assert len({row["section"] for row in listed}) == len(listed)
    for row in listed:
        page, _, section = row["section"].partition("#")
        for lang in LANGS:
            assert f"{{#{section}}}" in source(page, lang), row["section"]
            assert row[lang].strip() == row[lang] != ""
            assert not row[lang].endswith(".")


def test_a_day_leaves_time_to_talk(planned):
    line = [row for row in planned.cssselect("#tbl-courses-day tr") if row.cssselect("a")]
    assert len(line) == len(of("day"))
    for row in line:
        here, *homework = (
            int(found[0]) if (found := re.findall(r"\d+", cell.text_content())) else 0
            for cell in row.cssselect("td")[1:]
        )
        assert 0 < sum(homework) <= 0.75 * here


def test_a_session_says_what_its_pages_say(planned, tmp_path):
    one = plan(planned, "sec-term-2")
    assert one["In class"].text_content().strip() == "180 min"
    goals = [li.text_content() for li in one["After this session, students can"].cssselect("li")]
    assert goals == [
        r["en"] for r in rows("objectives.csv") if r["section"].startswith("rooflines#")
    ]
    (reading,) = one["Reading"].cssselect("a")
    assert reading.get("href") == "rooflines.html"
    (practice,) = one["Practice"].cssselect("a")
    assert practice.get("href") == "rooflines.html#sec-problems"
    assert "Lab" not in one
    book = the_book("en")
    chapter = next(c for c in book.chapters if c.path.stem == "rooflines")
    ran = ChapterResults.of([[] for _ in chapter.cells], ["1" for _ in chapter.inlines])
    data = print_page(book, chapter, ran, Cache(tmp_path), label_facts(book)).data
    text = one["Reading"].text_content() + one["Practice"].text_content()
    assert [int(n) for n in re.findall(r"(\d+) min", text)] == [data["minutes"], data["work"]]


def test_sections_of_a_page_share_a_line_and_exercises_have_their_titles(planned):
    one = plan(planned, "sec-day-1")
    lines = [" ".join(li.text_content().split()) for li in one["Reading"].cssselect("li")]
    assert lines[1].startswith("All about rooflines › Two clocks · Intensity and the ridge · ")
    found = [a.get("href").partition("#exercise-")[2] for a in one["Practice"].cssselect("a")]
    titles = [a.text_content() for a in one["Practice"].cssselect("a")]
    assert titles == [exercises.get(id_).variant(None).text("title") for id_ in found]


def test_answers_are_printed_only_where_they_are_asked_for(book):
    pages = book.build()
    public = [file for file in (book.root / "_site").rglob("*") if file.is_file()]
    assert pages
    assert not any(HIDDEN.encode() in file.read_bytes() for file in public)
    book.build(out="_site-answers", answers=True)
    page = html.parse(str(book.root / "_site-answers/en/chapters/en/two.html")).getroot()
    (answer,) = page.cssselect("main .answer")
    assert answer.text_content().strip() == HIDDEN
    assert page.cssselect("link[href$='teaching.css']")
    write_notebooks(book.root, ["en"])
    notebooks = list((book.root / "notebooks/en").glob("*.ipynb"))
    assert notebooks
    assert not any(HIDDEN in file.read_text(encoding="utf-8") for file in notebooks)


def test_the_flag_writes_into_a_folder_of_its_own(book):
    done = course(book.root, "build", "--lang", "en", "--answers", "--engine", "embedded")
    assert done.returncode == 0, done.stderr
    assert not (book.root / "_site").exists()
    page = book.root / "_site-answers/en/chapters/en/two.html"
    assert HIDDEN in page.read_text(encoding="utf-8")


def test_a_translation_that_opens_an_answer_is_refused(book):
    book.edit("chapters/es/two.qmd", "::: {.answer}", "::: {.aside}")
    found = [said.partition(" → ")[0] for _, said in differences(book.root)]
    assert found == [
        "section #sec-there: the English has class answer where this page has class aside"
    ]


def differences(root):
    english, spanish = (
        next(c for c in read_book(root, lang).chapters if c.path.stem == "two")
        for lang in ("en", "es")
    )
    return parity.differences(english, spanish)


@pytest.mark.parametrize("lang", LANGS)
def test_every_chapter_has_questions_each_with_its_answer(lang):
    text = source("exam", lang)
    parts = re.split(r"^## .*\{#sec-exam-([\w-]+)\}$", text, flags=re.MULTILINE)[1:]
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(found) == ["use", *(name for name in numbered() if not name.startswith("lab-"))]
    del found["use"]
    for name, section in found.items():
        open_, *answered = re.split(r"^::: \{\.answer\}\n(.*?)^:::$", section, flags=re.M | re.S)
        questions = [open_, *answered[1::2]]
        assert len(answered[::2]) >= 3, name
        *asked, rest = questions
        assert [re.match(r"\s*\*\*(\d+)\.\*\* ", one)[1] for one in asked] == [
            str(i) for i, _ in enumerate(asked, 1)
        ]
        assert not rest.strip(), name
        # What a marker needs besides the answer itself.
        assert all(re.search(r"^\*[^*]+:\* ", one, re.MULTILINE) for one in answered[::2]), name
