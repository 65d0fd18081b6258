"""The short path through the book, and who signs its cover."""

import re
from html import unescape

import pytest

from course_book.text import words
from course_press.pages import about
from course_press.source.book import configured
from course_press.source.install import edition
from tests.conftest import ROOT

LANGS = ("en", "es", "ko")


def cover(folder, lang):
    return unescape((folder / lang / "index.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("lang", LANGS)
def test_the_path_takes_about_ninety_minutes_and_names_every_section_once(whole_book, lang):
    text = cover(whole_book, lang)
    listed = re.findall(r'<a href="[^"]+#(sec-[\w-]+)">', text.partition('class="path"')[2])
    assert listed[: len(about.path())] == list(about.path())
    door = re.search(r'class="start second"[^>]*>([^<]+)<', text)[1]
    minutes = int(re.search(r"\d+", door)[0])
    assert 75 <= minutes <= 100
    assert words(lang)["ui-path-in-all"].format(n=minutes) in text
    assert door == words(lang)["ui-path"].format(n=minutes)


def test_contents_mark_the_path_and_each_page_of_it_leads_on(whole_book):
    pages = {}
    for file in (whole_book / "en" / "chapters" / "en").glob("*.html"):
        text = file.read_text(encoding="utf-8")
        own = [one for one in about.path() if f'<section id="{one}"' in text]
        contents = text.partition('class="toc"')[2]
        assert contents.count('class="on-path"') == len(own)
        pages |= dict.fromkeys(own, (file.name, text))
    assert set(pages) == set(about.path())
    for one, further in zip(about.path(), about.path()[1:], strict=False):
        (name, text), (to, _) = pages[one], pages[further]
        if name != to:
            assert re.search(rf'class="further">.*{to}#{further}"', text), (one, further)


@pytest.mark.parametrize("lang", LANGS)
def test_the_cover_is_signed_and_opens_with_the_tour(whole_book, lang):
    text, book = cover(whole_book, lang), configured(ROOT, lang)
    signed = re.search(r'<p class="signed">(.*?)</p>', text)[1]
    assert all(str(one) in signed for one in (book.meta["author"], edition(), book.meta["date"]))
    assert re.search(rf'class="start" href="chapters/{lang}/tour.html"', text)
    assert 'class="calculator brief"' in text
