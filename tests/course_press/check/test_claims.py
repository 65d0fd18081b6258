"""What a page says of bounds: never a speed or a cost, as if a clock had measured it."""

import re
import shutil
from pathlib import Path

import pytest

from course_press.check.rules import check_book
from course_press.source.book import languages, read_book
from course_press.source.chapter import INLINE
from tests.the_book import the_book

ROOT = Path(__file__).parents[3]
FILE = "chapters/claims.toml"


@pytest.fixture
def told(book):
    """What is said of a sentence in a book whose claims are checked, and whose cells divide."""

    def of(sentence, lang="en"):
        shutil.copy(ROOT / FILE, book.root / FILE)
        setup = "peak, bandwidth = 1e15, 2e12"
        book.edit(
            "chapters/cells/one/setup.qmd",
            setup,
            f"{setup}\nh100 = chip('h100-sxm')\n\n\ndef gain(old, new):\n    lower = new\n"
            "    return old.lower / new.bandwidth\n\n\nfaster = gain(h100, h100)\n"
            "took = faster * calibrate.breakdown(h100)",
        )
        book.edit(f"chapters/{lang}/one.qmd", "In the margin.", sentence)
        return [one for one in check_book(book.root) if "from bounds alone" in one.said]

    return of


@pytest.mark.parametrize(
    "sentence",
    [
        "It's `{python} n(faster)` times as fast.",
        "Read this. Decode costs `{python} n(1 - faster, '%')` less. Then stop if you can.",
        "The words arrive at most `{python} n(h100.bandwidth / 2e12)` times as fast.",
        "The speedup is only `{python} n(max(one for one in [faster]))`×.",
    ],
)
def test_a_ratio_of_bounds_is_no_speed(told, sentence):
    (finding,) = told(sentence)
    assert str(finding.file) == "chapters/en/one.qmd"
    assert "a bound allows" in finding.said


@pytest.mark.parametrize(
    "sentence",
    [
        "The bounds allow it to be `{python} n(faster)` times as fast.",
        "It took `{python} n(took)`, so it is faster.",
        "It took `{python} n(took)`, so it is `{python} n(faster)` times as fast.",
        "It could be `{python} n(faster)` times as fast.",
        "It is faster. It has `{python} n(h100.bandwidth, 'B/s')`.",
        "A faster one has `{python} n(3)` ports.",
    ],
)
def test_what_is_said_to_be_a_bound_or_was_measured_may_be_said(told, sentence):
    assert told(sentence) == []


def test_words_that_are_missing_for_a_language_are_asked_for(book):
    (book.root / FILE).write_text("[en]\nclaim = 'a'\nbound = 'b'\n", encoding="utf-8")
    with pytest.raises(Exception, match=r"claims.toml.*under \[es\]"):
        check_book(book.root)


def prose(name):
    """Each language's lines of a page, answers included."""
    for lang in languages(ROOT):
        book = read_book(ROOT, lang, answers=True)
        yield next([*page.prose] for page in book.chapters if page.path.stem == name)


def test_what_a_bound_counts_is_called_operators():
    """`kernels` of an estimate counts operators; what an engine launches is fewer."""
    seen = 0
    for lang in languages(ROOT):
        for page in the_book(lang).chapters:
            for line in page.prose:
                for match in INLINE.finditer(line.text):
                    if re.search(r"\.kernels\b", match[1]) and "len(" not in match[1]:
                        seen += 1
                        near = line.text[max(match.start() - 12, 0) : match.end() + 12]
                        assert not re.search(r"(?<!\.)\bkernels\b|커널", near), near
    assert seen


def test_lookups_on_a_tpu_name_its_sparse_cores():
    for lines in prose("exam"):
        (answer,) = (one.text for one in lines if "TPU" in one.text and "SparseCore" in one.text)
        assert "@sec-machine-tpu" in answer
    for lines in prose("inside-the-machine"):
        assert any("*SparseCore" in one.text and "@google-tpu7x" in one.text for one in lines)


def test_a_training_run_is_not_priced_as_single_gpus_alone():
    for lines in zip(prose("training"), prose("training-layouts"), strict=True):
        priced = [one.text for of in lines for one in of if 'n(our_run.usd, "USD"' in one.text]
        assert len(priced) == 2
        assert all("our_run.usd * networked" in text for text in priced)


def test_only_the_speed_of_light_is_beyond_every_program():
    """A sum over operators is beaten by a program that overlaps or fuses them."""
    claim = re.compile(r"no (program|step|run)\b[^.]*\b(beats?|is faster|be faster)\b", re.I)
    held = re.compile(r"speed.of.light|times-light|(this|same|these) (work|operations)", re.I)
    files = [*ROOT.glob("chapters/en/*.qmd"), *ROOT.glob("course_lib/data/*.csv")]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    said = [line for line in lines if claim.search(line)]
    assert len(said) > 5
    assert [line for line in said if not held.search(line)] == []
