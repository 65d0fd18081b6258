"""Tables as a page has them: what its cells say beyond their text."""

import pytest

from course_lib.book.text import Span, english, in_language, plain, table
from course_press.outputs.tables import markdown


@pytest.mark.parametrize(
    ("lang", "shown"), [("en", "Of an instance of 8"), ("ko", "[Of an instance of 8]{lang=en}")]
)
def test_a_note_in_english_says_so_on_pages_of_other_languages(lang, shown):
    with in_language(lang):
        note = english("Of an instance of 8")
        cells = [[note, plain("(", note, ")"), english("")]]
    assert markdown(table(["a", "b", "c"], cells)).endswith(f"| {shown} | ({shown}) |  |")


def test_a_span_of_which_nothing_is_said_is_its_text():
    assert markdown(table(["a"], [[Span("x")]])).endswith("| x |")
