"""Pages in Spanish and Korean have no English word left, but for code, names and what is marked
as English.
"""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from course_lib.book.text import words
from course_lib.specs import chip, chips, model, models, prices, sources
from course_lib.specs.provenance import DATA

ROOT = Path(__file__).parents[3]
VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
SAID = ("alt", "aria-label", "placeholder", "title")
LEFT_OUT = frozenset("script style template code kbd samp pre math annotation".split())
CITED = frozenset(("csl-entry", "citation"))
GRAMMAR = frozenset(
    """the of and is are was were with that from which this these than its by to for not it
    they you your each every what when where how why would should there""".split()
)
"""English words that no sentence does without and that neither language has: one is enough."""

ALLOWED = {
}
"""Words that may stand on pages of every language, and why."""


class Texts(HTMLParser):
    """What a page says in its own language: text nodes and the attributes that are read out, outside
    code, formulas, cited works and elements of another language.
    """

    def __init__(self, lang):
        super().__init__()
        self.lang, self.said, self._open = lang, [], []

    def handle_starttag(self, tag, attrs):
        of = {name: value or "" for name, value in attrs}
        other = of.get("lang", self.lang) != self.lang or of.get("hreflang", self.lang) != self.lang
        hidden = tag in LEFT_OUT or other or bool(CITED & set(of.get("class", "").split()))
        hidden = hidden or any(out for _, out in self._open)
        self.said += [] if hidden else [of[name] for name in SAID if of.get(name)]
        if tag not in VOID:
            self._open.append((tag, hidden))

    def handle_endtag(self, tag):
        places = [i for i, (opened, _) in enumerate(self._open) if opened == tag]
        if places:
            del self._open[places[-1] :]

    def handle_data(self, data):
        if data.strip() and not any(out for _, out in self._open):
            self.said.append(" ".join(data.split()))


def texts(page, lang):
    """Those of one page."""
    read = Texts(lang)
    read.feed(page)
    return read.said


def spelled(text):
    """The words of a text in lower case; addresses, names of files and abbreviations have none."""
    text = re.sub(r"\S+(?:://|@)\S+|\b[\w-]+\.[a-z]\w+\b", " ", text)
    found = re.findall(r"(?<![\w-])[A-Za-z]{2,}(?!\w)", text)
    return {one.lower() for one in found if not one.isupper()}


def prose(text):
    """A chapter without its code, formulas, addresses and attributes."""
    for left_out in (r"(?s)\A---.*?\n---", r"(?s)```.*?```", r"`[^`]*`", r"\$\$?[^$]*\$\$?",
                     r"\]\([^)]*\)", r"@\{?[\w-]+", r"\{\{<.*?>\}\}", r"(?<!\[)\{[#.][^}\s]*"):
        text = re.sub(left_out, " ", text)
    return text


def vocabulary(lang):
    """The words that somebody wrote in a language: chapters, exercises, terms and what they mean."""
    files = [*(ROOT / "chapters" / lang).glob("*.qmd"), *DATA.glob(f"exercises/*.{lang}.toml")]
    own = [prose(path.read_text(encoding="utf-8")) for path in files]
    own += words(lang).values()
    return set().union(*map(spelled, own))


def names():
    """Words of proper names: chips, models, links, vendors, providers, sources."""
    on = [chip(key) for key in chips()]
    every = [one.name.partition(",")[0] for one in [*on, *map(model, models())]]
    every += [link.name.partition(",")[0] for one in on for link in one.links.values()]
    every += [*(one.vendor for one in on), *(one.provider for one in prices()), *chips(), *models()]
    return set().union(*map(spelled, [*every, *sources()]))


def leaks(page, lang, english, own):
    """Texts of a page with a word of English that is not the page's own, and the words."""
    for text in texts(page, lang):
        found = spelled(text)
        left = (found & GRAMMAR) | (found & english) - own
        if left:
            yield f"{sorted(left)} in {text[:90]!r}"


def every(site, lang):
    return sorted((site / lang / "chapters" / lang).glob("*.html"))


@pytest.mark.parametrize("lang", ["es", "ko"])
def test_nothing_is_left_in_english(whole_book, lang):
    english = {word for path in every(whole_book, "en")
               for text in texts(path.read_text(encoding="utf-8"), "en") for word in spelled(text)}
    own = vocabulary(lang) | names() | set(ALLOWED)
    found = {f"{path.stem}: {leak}" for path in every(whole_book, lang)
             for leak in leaks(path.read_text(encoding="utf-8"), lang, english, own)}
    assert not found, "\n".join(sorted(found))
