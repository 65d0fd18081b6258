"""The glossary against the pages: nothing is defined that no page uses, and what pages abbreviate
is defined.
"""

import re
from pathlib import Path

import pytest

from course_lib import chip, chips
from course_book.text import languages, words

ROOT = Path(__file__).parents[3]
NAMES = {
    *(
        "H800",
        "HBM2",  # a generation of HBM
        "JAX",
        "JSON",
        "PDF",
        "L1",
        "L2",
        "MIG",
        "WSL",
        "XLA",
        "EPUB",
        "A3",  # a size of paper
        "AA",
        "SIL",
        "WCAG",
        "VS",
        "STIX",
        "AMD",
        "AWS",
        "BERT",
        "CC",
        "CPU",
        "CUDA",
        "DGX",
        "DP4A",
        "DRAM",
        "EPYC",
        "GDDR",
        "GELU",
        "GPT",
        "GPU",
        "HGX",
        "HTTP",
        "ICI",
    ),
    *("LLM", "MIT", "NVIDIA", "PCI", "RTX", "SHARP", "SI", "SXM", "TPU", "USD", "XL"),
}
"""Names, licences, and abbreviations that a reader of such a book brings along."""
SYMBOLS = re.compile(r"[BDFNXY]{2,3}|QKV|W\d+A\d+|KV\d+|Q\d|[GTP]?FLOPS?|[GTP]?OP")
"""Products of sizes, units, and recipes that the chapter on int8 spells out."""


def prose(lang):
    """What the pages of a language say, without code and formulas; the glossary itself apart."""
    files = [
        f
        for f in sorted((ROOT / "chapters" / lang).glob("*.qmd"))
        if f.stem not in ("glossary", "equations")
    ]
    files += sorted((ROOT / "course_book" / "data" / "exercises").glob(f"*.{lang}.toml"))
    text = "\n".join(f.read_text(encoding="utf-8") for f in files)
    return re.sub(
        r"```.*?```|`[^`]*`|\$[^$]*\$|\[?-?@[\w{}-]+|\]\([^)]*\)|https?:\S+",
        " ",
        text,
        flags=re.DOTALL,
    )


def forms(text):
    """The plain form of a term, and the short one in parentheses."""
    plain, _, short = text.partition("(")
    return [form for form in (plain.strip(), short.strip(" )")) if form]


@pytest.mark.parametrize("lang", languages())
def test_nothing_is_defined_that_no_page_uses(lang):
    said = " ".join(prose(lang).lower().split())
    sources = [*(ROOT / "course_book").rglob("*.py"), *(ROOT / "chapters" / "cells").rglob("*.qmd")]
    code = "\n".join(f.read_text(encoding="utf-8") for f in sources)
    shown = {term for term in words(lang, "term") if f't("{term}"' in code}
    used = {
        term
        for term, text in words(lang, "term").items()
        if any(form.lower() in said for form in forms(text))
    }
    assert words(lang, "term").keys() - used - shown == set()


@pytest.mark.parametrize("lang", languages())
def test_what_pages_abbreviate_is_defined(lang):
    said = prose(lang)
    defined = {
        form for text in words("en", "term").values() for form in re.findall(r"[A-Z]{2,}\w*", text)
    }
    models = {word for key in chips() for word in re.findall(r"\w+", chip(key).name)}
    spelled = set(re.findall(r"[(,] ?([A-Z][A-Z0-9]+)[),;]", said))
    found = {
        token.removesuffix("s")
        for token in re.findall(r"(?<![\w-])[A-Z][A-Z0-9]+s?(?![\w-])", said)
    }
    assert {
        t for t in found - NAMES - defined - models - spelled if not SYMBOLS.fullmatch(t)
    } == set()
