"""What comes from files of data is text on a page, whatever it holds."""

import itertools
import json
import subprocess

import pypandoc
import pytest
from lxml import html

from course_lib import chip, specs
from course_lib.bench import results
from course_lib.specs import DATA
from course_book import exercises, plot, table, tables
from course_book.reports import products
from course_book.text import Markdown, code, glossary, plain
from course_press.outputs import html_block
from course_press.outputs.figure import page_svg
from course_press.pages.pandoc import _PIPES, _TABLE
from course_press.source.assets import ASSETS

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "[a](javascript:alert(1))",
    "![a](https://example.org/x.png)",
    "`<b>`{=html}",
    "a | b",
    "a\n\n<b>b</b>",
    "a\u2028```{=html}\n<b>\n```",
    "*a* _b_ **c**",
    "$x$ \\(y\\) \\textbf{z}",
    "x^2^ H~2~O",
    "@austin2025 [@austin2025]",
    "&lt;b&gt; &copy;",
    "\\",
    "`",
    "[^1]",
    "https://example.org",
    "~~~",
    "# a",
    "<https://example.org>",
    "[a]{onclick=alert(1)}",
    "^[note]",
    "\\|",
    "::: {.x}",
)


def read(markdown):
    """What a page shows of it: pandoc as the press runs it, and the tree that comes out."""
    command = [
        pypandoc.get_pandoc_path(),
        "--from=markdown",
        "--to=html5",
        "--citeproc",
        "--mathml",
        "--wrap=none",
    ]
    done = subprocess.run(command, input=markdown, capture_output=True, text=True, check=True)
    return html.fromstring(f"<div>{done.stdout}</div>")


@pytest.fixture(scope="module")
def shown():
    """A table of each text, on one page."""
    made = (repr(table([text, "b"], [[text, "c"], ["d", text]])) for text in HOSTILE)
    return read("\n\n".join(made)).cssselect("table")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_cell_of_a_table_shows_what_it_holds(text, shown):
    assert len(shown) == len(HOSTILE)
    cells = shown[HOSTILE.index(text)].cssselect("th, td")
    assert len(cells) == 6
    assert {child.tag for cell in cells for child in cell.iter()} <= {"th", "td"}
    said = " ".join(text.splitlines()).replace("...", "…").split()
    for cell in (cells[0], cells[2], cells[5]):
        assert cell.text_content().replace("’", "'").split() == said


MEANT = (
    *(
        '[1](#a){data-v="1e+12"}†',
        "[a b](c.qmd#d){#e}",
        "[5 GB](https://a.b/c?d=e_f), 6",
        "[a]{lang=es}.",
    ),
    *(
        "*a*",
        "`b c`",
        "@sec-a",
        "$x$",
        "a'b 'c'",
        '"d"',
        "5 GB",
        "× 3",
        "10 000 10⁹ B",
        "2026-01-31 (a)",
    ),
    *(
        "e.g. a",
        "(cf. b)",
        "U.S. 5",
        "a...b",
        "a--b",
        "  a  b ",
        "&#8199;1",
        "a & b",
        "&amp;",
        "[a][b]",
        "![a](b)",
    ),
    *(
        "[a](b c)",
        '[a](b "c")',
        "[a]{.b}",
        "[a]",
        "a]b",
        "(1) a",
        "- a",
        "1. a",
        "# a",
        "a\\ b",
        "\u00a0a",
        "3은",
        "🎉",
    ),
)


def test_a_long_table_is_what_pandoc_makes_of_it():
    rows = [[plain(text), Markdown(meant)] for text, meant in itertools.product(HOSTILE, MEANT)]
    shown = repr(table(["a" * 99, "b"], rows))
    command = [pypandoc.get_pandoc_path(), f"--lua-filter={ASSETS / 'course.lua'}", "--to=html5"]
    fast, slow = (
        subprocess.run(
            [*command, "--mathml", "--wrap=none"],
            input=text,
            capture_output=True,
            encoding="utf-8",
            check=True,
        ).stdout.strip()
        for text in (_TABLE.sub(_PIPES, shown), shown)
    )
    assert fast.startswith('<div class="pipes" data-links="#a c.html#d ')
    assert fast.partition(">\n")[2] == slow.replace("c.qmd", "c.html") + "\n</div>"


def test_markdown_that_is_meant_stays():
    cells = read(
        repr(table(["a"], [[Markdown("*b*")], [code("c|d")], [plain("<e> ", Markdown("**f**"))]]))
    ).cssselect("td > *")
    assert [cell.tag for cell in cells] == ["em", "code", "strong"]


def test_a_block_of_markup_ends_where_it_ends():
    shown = read(html_block("<pre>\n```\n\n<b>\n````\n</b></pre>")["text/markdown"] + "\nafter\n")
    assert [child.tag for child in shown] == ["pre", "p"]


def test_a_chip_of_any_name_is_text_on_every_table_and_figure(tmp_path, monkeypatch):
    """The reader's own chips reach pages too: by COURSE_CHIPS."""
    text = (DATA / "chips" / "t4.toml").read_text(encoding="utf-8")
    bad = "<img src=x onerror=alert(1)> [a](javascript:b) `c` $d$"
    one = chip("t4")
    for name in {one.name, one.short, one.vendor}:
        text = text.replace(json.dumps(name), json.dumps(bad))
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv(specs.FOLDER, str(tmp_path))
    monkeypatch.setenv("COURSE_PRINT", "site")
    mine = chip("mine")
    assert bad in (mine.name, mine.short)
    shown = [
        tables.chip_table(),
        tables.peak_table(),
        tables.link_table(),
        tables.figure_tables(),
        tables.dispute_table(),
    ]
    for made in [
        *(one._repr_mimebundle_()["text/markdown"] for one in shown),
        plot.roofline({mine.name: (1e12, 1e9)})._repr_mimebundle_()["text/markdown"],
    ]:
        found = read(made)
        assert not found.cssselect("img, script, [onerror], [href^='javascript:']")


def test_a_device_of_any_name_is_text_in_reports_and_figures():
    device = '<img src=x onerror=alert(1)> $\\bad$ "\n# x'
    about = {
        "device": device,
        "kind": "cuda",
        "dtype": "bf16",
        "timing": "cold",
        "data": "random",
        "status": "ok",
    }
    rows = [
        results.Row(**about, op="triad", shape="1000000000", achieved_bw_gbps=3000),
        results.Row(
            **about,
            op="matmul",
            shape="8192x8192x8192",
            achieved_tflops=700,
            peak_tflops=989,
            intensity=2731,
        ),
    ]
    svg = page_svg(products.plot(rows))
    assert "<img" not in svg
    assert "&lt;img" in svg
    found = read(products.report(rows, results.Manifest(lab="lab", command="x")))
    assert not found.cssselect("img")
    assert [h.text_content().split()[0] for h in found.cssselect("h1, h2")] == ["lab", "<img"]


def test_everything_else_that_pages_show_of_data_holds_no_markup_of_its_own(monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "site")
    for made in (glossary(), tables.source_table(), tables.price_table(), tables.model_table()):
        tags = {element.tag for element in read(made._repr_mimebundle_()["text/markdown"]).iter()}
        assert tags <= {
            "div",
            "table",
            "colgroup",
            "col",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "a",
            "span",
            "em",
        }, tags
    questions = "\n\n".join(one.variant(1).text("question") for one in exercises.all())
    assert not read(questions).cssselect("img, script")
