"""The sheet of numbers to know: every number is the library's, and nothing falls off the paper."""

import io
import re

import pytest
from pypdf import PdfReader

from course_lib import chip
from course_book import n
from course_book.poster import numbers, sheet
from course_book.text import in_language, languages


def test_numbers_are_the_spec_files_and_have_a_place_in_every_language():
    rows = {}
    for lang in languages():
        with in_language(lang):
            blocks = {block.key: block for block in numbers()}
            for key, row in blocks["sheet-chips"].rows.items():
                one = chip(key)
                assert row[3] == n(one.bandwidth, "B/s")
                assert row[6] == n(one.ridge("bf16"), "FLOP/B")
            for block in blocks.values():
                assert all(len(row) == len(block.header) for row in block.rows.values())
                assert all(row[0] and any(row[1:]) for row in block.rows.values())
            rows[lang] = {key: [*block.rows] for key, block in blocks.items()}
    assert all(one == rows["en"] for one in rows.values())


@pytest.mark.parametrize(
    "lang",
    [pytest.param(one, marks=() if one == "ko" else pytest.mark.exhaustive) for one in languages()],
)
def test_the_sheet_is_one_page_of_a3_that_says_every_number(lang):
    with in_language(lang):
        (page,) = PdfReader(io.BytesIO(sheet("pdf"))).pages
        wide, high = (float(x) / 72 * 25.4 for x in page.mediabox[2:])
        assert (round(wide), round(high)) == (420, 297)
        svg = sheet("svg").decode()
        assert svg == sheet("svg").decode()
        shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", svg)).replace("&lt;", "<")
        for block in numbers():
            for row in block.rows.values():
                for cell in filter(None, row):
                    assert re.sub(r"\s+", " ", cell) in shown, cell
        for x, y in re.findall(r"<text [^>]*translate\(([\d.]+) ([\d.]+)\)", svg):
            assert 0 < float(x) < 16.54 * 72
            assert 0 < float(y) < 11.69 * 72
