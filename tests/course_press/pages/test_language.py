"""Pages in Spanish and Korean have no English word left, but for code, names and what is marked
as English.
"""

import csv
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from course_lib.specs import chip, chips, model, models, prices, sources
from course_tools.measured import lab
from course_tools.measured.operators import name_of
from course_book.files import DATA
from course_book.text import in_language, named, words

ROOT = Path(__file__).parents[3]
VOID = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
    ]
)
SAID = ("alt", "aria-label", "placeholder", "title")
LEFT_OUT = frozenset(
    ["script", "style", "template", "code", "kbd", "samp", "pre", "math", "annotation"]
)
CITED = frozenset(("csl-entry", "citation"))
GRAMMAR = frozenset(
    [
        "the",
        "of",
        "and",
        "is",
        "are",
        "was",
        "were",
        "with",
        "that",
        "from",
        "which",
        "this",
        "these",
        "than",
        "its",
        "by",
        "to",
        "for",
        "not",
        "it",
        "they",
        "you",
        "your",
        "each",
        "every",
        "what",
        "when",
        "where",
        "how",
        "why",
        "would",
        "should",
        "there",
    ]
)
"""English words that no sentence does without and that neither language has: one is enough."""

UNIT = re.compile("[munpkKMGTPE]?i?(?:B|Hz|Wh?|J|s|g|m|FLOP)")

ALLOWED = {
    "cloud community pods secure": "offers of a provider, as it names them",
    "engineering ml": "ML Engineering, a book",
    "gloo nccl gptj dlrm retinanet tesla paddle": "libraries, networks of a benchmark, a card",
    "max mod ln": "mathematics",
    "custom mainboard pi": "computers, as their owners name them",
    "dev mamba super vit whisper": "models",
    "tree": "an algorithm of NCCL",
    "nvme bmm div add matmul": "a link of disks, and kernels as PyTorch names them",
    "month mtoken": "in units",
    "init read scale triad pt": "kernels of a benchmark of streams, as it names them",
    "awq gptq cudnn": "formats of weights, and a library's kernels",
}
"""Words that may stand on pages of every language, and why."""


class Texts(HTMLParser):
    """What a page says in its own language: text nodes and the attributes that are read out,
    outside code, formulas, cited works and elements of another language; and what its cells
    printed.
    """

    def __init__(self, lang):
        super().__init__()
        self.lang, self.said, self.printed, self._open = lang, [], [], []

    def handle_starttag(self, tag, attrs):
        of = {name: value or "" for name, value in attrs}
        kinds = set(of.get("class", "").split())
        other = {of.get("lang", self.lang), of.get("hreflang", self.lang)} != {self.lang}
        into = self._into()
        if tag == "pre" and "sourceCode" not in kinds and into is self.said:
            into = self.printed
        elif into is not self.printed and (tag in LEFT_OUT or other or CITED & kinds):
            into = []
        if into is self.said:
            into += [of[name] for name in SAID if of.get(name)]
        if tag not in VOID:
            self._open.append((tag, into))

    def handle_endtag(self, tag):
        places = [i for i, (opened, _) in enumerate(self._open) if opened == tag]
        if places:
            del self._open[places[-1] :]

    def handle_data(self, data):
        if data.strip():
            self._into().append(" ".join(data.split()))

    def _into(self):
        return self._open[-1][1] if self._open else self.said


def read(page, lang):
    """The texts of one page."""
    texts = Texts(lang)
    texts.feed(page)
    return texts


def spelled(text):
    """The words of a text in lower case; addresses, names of files and abbreviations have none."""
    text = re.sub(r"\S+(?:://|@)\S+|\b[\w-]+\.[a-z]\w+\b", " ", text)
    found = re.findall(r"(?<![\w-])[A-Za-z]{2,}(?!\w)", text)
    return {one.lower() for one in found if not one.isupper() and not UNIT.fullmatch(one)}


def prose(text):
    """A chapter without its code, formulas, addresses and attributes."""
    for left_out in (
        r"(?s)\A---.*?\n---",
        r"(?s)```.*?```",
        r"`[^`]*`",
        r"\$\$?[^$]*\$\$?",
        r"\]\([^)]*\)",
        r"@\{?[\w-]+",
        r"\{\{<.*?>\}\}",
        r"(?<!\[)\{[#.][^}\s]*",
    ):
        text = re.sub(left_out, " ", text)
    return text


def vocabulary(lang):
    """The words that somebody wrote in a language: chapters, exercises, terms and what they mean."""
    files = [*(ROOT / "chapters" / lang).glob("*.qmd"), *DATA.glob(f"exercises/*.{lang}.toml")]
    own = [prose(path.read_text(encoding="utf-8")) for path in files]
    with (DATA / "definitions.csv").open(encoding="utf-8", newline="") as file:
        own += [*words(lang).values(), *(row[lang] for row in csv.DictReader(file))]
    return set().union(*map(spelled, own))


def names():
    """Words of proper names: chips, models, links, vendors, providers, sources."""
    on = [chip(key) for key in chips()]
    every = [one.name.partition(",")[0] for one in [*on, *map(model, models())]]
    every += [one.short for one in on]
    every += [link.name.partition(",")[0] for one in on for link in one.links.values()]
    every += [key for one in on for key in one.links]
    every += [row.device for number in ("00", "02", "03") for row in lab(number)]
    every += [*(one.vendor for one in on), *(one.provider for one in prices()), *chips(), *models()]
    return set().union(*map(spelled, [*every, *sources()]))


def leaks(page, lang, english, own):
    """Texts of a page with a word of English that is not the page's own, and the words."""
    texts = read(page, lang)
    of = [
        (text, (found & GRAMMAR) | (found & english) - own)
        for text in texts.said
        for found in [spelled(text)]
    ]
    of += [(text, spelled(text) & GRAMMAR) for text in texts.printed]
    yield from (f"{sorted(left)} in {text[:90]!r}" for text, left in of if left)


def every(site, lang):
    return sorted((site / lang / "chapters" / lang).glob("*.html"))


@pytest.fixture(scope="module")
def english(whole_book):
    """The words of the English pages."""
    pages = [read(path.read_text(encoding="utf-8"), "en") for path in every(whole_book, "en")]
    return {word for page in pages for text in page.said for word in spelled(text)}


@pytest.mark.parametrize("lang", ["es", "ko"])
def test_nothing_is_left_in_english(whole_book, english, lang):
    own = vocabulary(lang) | names() | set(" ".join(ALLOWED).split())
    found = {
        f"{path.stem}: {leak}"
        for path in every(whole_book, lang)
        for leak in leaks(path.read_text(encoding="utf-8"), lang, english, own)
    }
    assert not found, "\n".join(sorted(found))


ENGLISH, OWN = {"residual", "norm", "eager", "search"}, {"eager", "norma", "final"}


@pytest.mark.parametrize(
    "left",
    [
        "<td>norm 1</td>",
        "<svg><text>residual eager</text></svg>",
        '<img alt="la suma residual">',
        '<button aria-label="Search">x</button>',
        '<input placeholder="search">',
        "<p>Una cota <em>of the</em> memoria</p>",
        "<p><code>norm</code> y norm</p>",
        '<pre class="sourceCode"><code>the norm</code></pre><p>norm</p>',
        "<pre><code>constants of a chip</code></pre>",
        '<p lang="es">norm</p>',
    ],
)
def test_a_word_of_english_is_found_wherever_it_is_read(left):
    assert len(list(leaks(f"<main lang=es>{left}</main>", "es", ENGLISH, OWN))) == 1


@pytest.mark.parametrize(
    "kept",
    [
        "<td>norma final, eager</td>",
        "<td>NVLink 4, 16 GiB, norm.csv, https://search.org/the/norm</td>",
        "<td><code>residual 1</code></td>",
        '<td><span lang="en">of the <b>norm</b></span></td>',
        '<a hreflang="en" title="search">x</a>',
        '<div class="csl-entry">The norm of <em>search</em></div>',
        "<script>the norm</script><pre>{'norm': 2}</pre><math><mtext>norm</mtext></math>",
    ],
)
def test_code_names_and_what_is_marked_as_english_are_left_alone(kept):
    assert list(leaks(f"<main lang=es>{kept}</main>", "es", ENGLISH, OWN)) == []


def test_names_are_in_english_what_the_data_say():
    on = [chip(key) for key in chips()]
    every = [one.name for one in [*on, *map(model, models())]]
    every += [link.name for one in on for link in one.links.values()]
    every += [part for row in lab("02") for part in (name_of(row), row.variant, row.path)]
    assert [named(one) for one in every] == every
    for lang in ("es", "ko"):
        with in_language(lang):
            tails = [one.partition(", ")[2] for one in every if ", " in named(one)]
            assert tails
            assert not [tail for tail in tails if named(tail) == tail]
