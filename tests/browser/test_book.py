"""The book itself in a real browser: every page, in every language."""

import re
from itertools import cycle, permutations, product
from pathlib import Path

import pytest

from course_book.text import words
from course_press.source.book import languages
from tests.browser.conftest import wait_for
from tests.the_book import PAGES

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parent.parent.parent
LANGS = languages(ROOT)
HANGUL = [("ko", "루프라인"), ("ko", "능선"), ("es", "intensidad"), ("en", "bandwidth")]


@pytest.fixture(scope="module")
def built(whole_book):
    return whole_book


# A page of each kind; explorers, calculator, exercises, tour and decks have tests of their own.
KINDS = {
    "cover": "es/index",
    "chapter": "ko/chapters/ko/rooflines",
    "lab": "en/chapters/en/lab-00",
    "tables": "es/chapters/es/models",
    "terms": "en/chapters/en/glossary",
}
LOOKS = [("light", 1280), ("dark", 390)]
OFTEN = {(f"{path}.html", look): name for (name, path), look in zip(KINDS.items(), cycle(LOOKS))}


LEFT = [pair for pair in product(PAGES, LOOKS) if pair not in OFTEN]


@pytest.mark.parametrize(
    ("path", "look"),
    [
        *(pytest.param(*pair, id=name) for pair, name in OFTEN.items()),
        *(pytest.param(*pair, marks=pytest.mark.exhaustive) for pair in LEFT),
    ],
)
def test_every_page_is_accessible_in_both_schemes_and_fits_a_phone(visit, accessible, path, look):
    scheme, width = look
    page = visit(path, color_scheme=scheme, width=width)
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


# With formulas, commands, tables and lists; test_phone opens all pages.
LONG_WORDS = ("es/network-rooflines", "ko/lab-00", "es/specs", "ko/courses", "es/assessment")


@pytest.mark.parametrize("name", LONG_WORDS)
def test_no_word_of_a_translation_is_wider_than_a_phone(visit, name):
    lang, page = name.split("/")
    opened = visit(f"{lang}/chapters/{lang}/{page}.html", width=360)
    assert opened.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize(
    ("lang", "other"),
    [
        pytest.param(*pair, marks=() if "en" in pair else pytest.mark.exhaustive)
        for pair in permutations(LANGS, 2)
    ],
)
def test_the_switch_lands_on_the_same_section_of_each_twin(visit, lang, other):
    page = visit(f"{lang}/chapters/{lang}/rooflines.html#sec-matmul")
    wait_for(page, "document.querySelector('.toc a.here')?.hash == '#sec-matmul'")
    page.click(f".languages a[hreflang={other}]")
    page.wait_for_url(f"**/{other}/chapters/{other}/rooflines.html#sec-matmul")
    assert page.get_attribute("html", "lang") == other


@pytest.mark.parametrize(("lang", "word"), HANGUL)
def test_search_finds_words_of_the_language(visit, lang, word):
    page = visit(f"{lang}/index.html")
    page.click("button.search-open")
    page.fill("dialog input", word)
    page.wait_for_selector("#hits a")
    assert word in page.inner_text("#hits").lower()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/chapters/**")


@pytest.mark.parametrize(
    "lang",
    ["ko", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in LANGS if one != "ko")],
)
def test_the_landing_page_picks_the_language_and_lists_all(visit, lang):
    page = visit("index.html", locale=lang)
    page.wait_for_url(f"**/{lang}/index.html")
    plain = visit("index.html", locale=lang, java_script_enabled=False)
    assert [link.inner_text() for link in plain.query_selector_all("a.start")] == [
        words(code)["ui-language"] for code in LANGS
    ]


@pytest.mark.parametrize("lang", LANGS[1:])
def test_a_translation_leads_to_the_glossary_where_the_english_does(built, lang):
    def terms(code, name):
        return set(
            re.findall(
                r"glossary\.html#term-([\w-]+)",
                (built / f"{code}/chapters/{code}/{name}").read_text(encoding="utf-8"),
            )
        )

    for english in sorted((built / "en/chapters/en").glob("*.html")):
        missing = terms("en", english.name) - terms(lang, english.name)
        assert len(missing) <= 2, (english.name, missing)


def test_pages_name_their_twins_for_search_engines(visit):
    page = visit("ko/chapters/ko/rooflines.html")
    twins = page.eval_on_selector_all(
        "link[rel=alternate]", "links => links.map(link => link.hreflang)"
    )
    assert set(LANGS) <= set(twins)


def test_a_hangul_glyph_is_drawn_not_a_box(visit):
    """Without a Korean font every syllable is the same box: two different ones would
    draw the same.
    """
    page = visit("ko/index.html")
    drawn = page.evaluate("""() => ["한", "글"].map(text => {
        const canvas = document.createElement("canvas");
        canvas.width = canvas.height = 40;
        const pen = canvas.getContext("2d");
        pen.font = "32px " + getComputedStyle(document.querySelector("main p")).fontFamily;
        pen.fillText(text, 2, 34);
        return canvas.toDataURL();
    })""")
    assert drawn[0] != drawn[1], "install a Korean font (apt install fonts-nanum)"


PICTURES = ("index", *(f"chapters/en/{one}" for one in ("hello-roofline", "rooflines", "serving")))
FAINT = """() => {
    const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    function rgba(color, opacity) { // any colour that CSS writes, in 0 to 1
        pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = [...pen.getImageData(0, 0, 1, 1).data].map(one => one / 255);
        return [r, g, b, a * opacity];
    }
    function over(top, below) {
        return [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
    }
    function light([r, g, b]) {
        const [x, y, z] = [r, g, b].map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    }
    function contrast(one, other) {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    }
    function opacity(one) { // of all that it stands in
        let all = 1;
        for (; one && one.tagName !== "HTML"; one = one.parentElement) all *= getComputedStyle(one).opacity;
        return all;
    }
    function paper(one) {
        let found = [];
        for (; one; one = one.parentElement) found.push(rgba(getComputedStyle(one).backgroundColor, 1));
        return found.reverse().reduce((below, top) => over(top, below), [1, 1, 1, 1]);
    }
    const found = [];
    let texts = 0, lines = 0;
    document.querySelectorAll("main svg").forEach(svg => {
        if (!svg.getBoundingClientRect().width) return;
        const ground = paper(svg.parentElement), every = [...svg.querySelectorAll("*")];
        function behind(x, y, before) { // what has been painted there
            return every.slice(0, before).reduce((below, one) => {
                const seen = getComputedStyle(one);
                if (!one.isPointInFill || seen.fill === "none" || seen.fill.startsWith("url") || seen.visibility === "hidden"
                    || one.closest("defs, clipPath, pattern")) return below;
                const matrix = one.getScreenCTM(), at = new DOMPoint(x, y).matrixTransform(matrix.inverse());
                if (!one.isPointInFill(at)) return below;
                return over(rgba(seen.fill, seen.fillOpacity * opacity(one)), below);
            }, ground);
        }
        every.forEach((one, i) => {
            const seen = getComputedStyle(one), all = opacity(one), box = one.getBoundingClientRect();
            if (!all || seen.visibility === "hidden" || !box.width && !box.height) return;
            const x = box.left + box.width / 2, y = box.top + box.height / 2;
            if (one.tagName === "text" && one.textContent.trim() && seen.fill !== "none") {
                let below = behind(x, y, i);
                if (seen.paintOrder.startsWith("stroke") && parseFloat(seen.strokeWidth) >= 3) below = over(rgba(seen.stroke, all), below);
                texts += 1;
                const ratio = contrast(over(rgba(seen.fill, seen.fillOpacity * all), below), below);
                if (ratio < 4.5) found.push(["text", one.textContent, ratio.toFixed(2)]);
            } else if (one.matches(".plot-line, .plot-rule")) {
                lines += 1;
                const below = behind(x, box.top + 1, i);
                const ratio = contrast(over(rgba(seen.stroke, seen.strokeOpacity * all), below), below);
                if (ratio < 3) found.push(["line", one.getAttribute("class"), ratio.toFixed(2)]);
            }
        });
    });
    return [found, texts, lines];
}"""


@pytest.mark.parametrize(
    ("scheme", "names"),
    [
        ("light", ("index", "chapters/en/rooflines")),
        ("dark", ("chapters/en/hello-roofline", "chapters/en/serving")),
        pytest.param("light", PICTURES, marks=pytest.mark.exhaustive),
        pytest.param("dark", PICTURES, marks=pytest.mark.exhaustive),
    ],
)
def test_letters_and_lines_of_pictures_stand_out_as_they_are_blended(visit, scheme, names):
    """axe sees no opacity of an SVG's text: it counts it as incomplete, not as a violation."""
    texts = lines = 0
    for name in names:
        page = visit(f"en/{name}.html", color_scheme=scheme)
        for box in page.query_selector_all(".explorer"):
            box.scroll_into_view_if_needed()
            page.wait_for_function("box => box.dataset.drawn", arg=box)
        found, some, drawn = page.evaluate(FAINT)
        assert found == [], name
        texts, lines = texts + some, lines + drawn
    assert texts > 75 * len(names)
    assert lines >= len(names)


MEASURING = """
window.asked = [];
function told(kind) { if (new Error().stack.includes("course.js")) asked.push([kind, document.readyState]); }
for (const name of ["getBoundingClientRect", "getClientRects"]) {
    const own = Element.prototype[name];
    Element.prototype[name] = function () { told("read"); return own.apply(this, arguments); };
}
for (const [of, ...names] of [[Element, "scrollWidth", "scrollHeight", "clientWidth", "clientHeight", "scrollTop"],
                              [HTMLElement, "offsetWidth", "offsetHeight", "offsetTop", "innerText"]]) {
    for (const name of names) {
        const own = Object.getOwnPropertyDescriptor(of.prototype, name);
        Object.defineProperty(of.prototype, name, { ...own, get() { told("read"); return own.get.call(this); } });
    }
}
const own = Object.getOwnPropertyDescriptor(HTMLElement.prototype, "tabIndex");
Object.defineProperty(HTMLElement.prototype, "tabIndex", { ...own, set(to) { told("write"); own.set.call(this, to); } });
"""


@pytest.mark.parametrize("path", ["ko/chapters/ko/network-rooflines", "ko/index", "es/chapters/es/specs",
                                  "en/chapters/en/calculator", "ko/chapters/ko/training"])  # fmt: skip
def test_nothing_is_measured_before_a_page_has_loaded_nor_again_and_again(browser, built, path):
    """Who measures has all of a long page laid out at once, which takes longest in Hangul."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, offline=True)
    context.add_init_script(MEASURING)
    page = context.new_page()
    page.goto((built / f"{path}.html").as_uri())
    wait_for(page, "'reachable' in document.body.dataset")
    asked = page.evaluate("asked")
    context.close()
    assert [kind for kind, state in asked if kind == "read" and state != "complete"] == []
    kinds = [kind for kind, _ in asked]
    assert kinds.count("read") > 3
    if "write" in kinds:  # between the first change and the last nothing is asked
        last = len(kinds) - kinds[::-1].index("write")
        assert set(kinds[kinds.index("write") : last]) == {"write"}
