"""An explorer on a page: complete, in its colours, and with every value."""

import json
import re

import numpy as np
import pytest

from course_book import explore, n
from course_book.explore.views import Endless
from course_press.outputs.explorer import element_id, page_data, payload, short
from tests.course_book.explore.test_explore import explorer

__all__ = ["explorer"]


def name_of(one):
    return element_id(one, page_data(one))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (989.4e12, "FLOP/s", "9.89e14"),
        (16384.0, "", "16384"),
        (1.5e-7, "s", "1.5e-7"),
        (2.394, "×", "2.39"),
        (0.5, "", "0.5"),
        (7.196e-3, "s", "0.00720"),
        (99.96e12, "FLOP/s", "1.00e14"),
        (499.7, "FLOP/B", "500"),
        (4096.0, "FLOP/B", "4096"),
        (1e12, "B", "1e12"),
        (1.0, "×", "1"),
    ],
)
def test_short_keeps_what_is_shown(value, unit, text):
    assert short(value, unit) == text
    digits = len(text.partition("e")[0].lstrip("0.").replace(".", ""))
    if digits == 3:
        assert n(float(text), unit, digits=3).partition(" ")[0].rstrip("0") == n(
            value, unit
        ).partition(" ")[0].rstrip("0")


def test_the_payload_gives_back_every_value(explorer):
    """Read as the page's script reads it: a string of numbers, or of digits for words, in the order
    of the axes.
    """
    data = json.loads(json.dumps(payload(explorer), ensure_ascii=False))
    assert set(data["start"]) == set(explorer.controls) <= {*data["texts"], *data["numbers"]}
    if isinstance(explorer, Endless):  # has no table: a page computes it, as tests/browser compare
        return
    for name, one in explorer.fields.items():
        packed = data["fields"][name]
        texts = list(packed["values"]) if packed["words"] else packed["values"].split(",")
        read = [np.nan if text in ("", "-") else float(text) for text in texts]
        assert np.allclose(read, np.ravel(one.values), rtol=5e-3, equal_nan=True), name
        assert len(read) == np.prod([data["sizes"][axis] for axis in packed["axes"]])


def test_a_step_that_a_page_computes_needs_no_table():
    data = payload(explore.decode())
    assert len(json.dumps(data).encode()) < 20_000
    assert "values" not in str(data["fields"])
    assert all(
        len(one["units"]) == len(one["flops"]) == len(one["bytes"]) for one in data["models"]
    )
    v5e = data["texts"]["chip"].index("TPU v5e")
    assert data["chips"][v5e]["peaks"] == {"matrix": 197e12}  # no vector peak is published


def test_the_page_has_it_all(explorer, monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "site")
    (kind, block), *others = explorer._repr_mimebundle_().items()
    assert (kind, others) == ("text/markdown", [])
    assert re.fullmatch(r"```\{=html\}\n<div .*</div>\n```\n", block, flags=re.DOTALL)
    assert block.count("```") == 2
    assert "aria-label" not in block  # the figure's alternative comes from the page
    assert [size for size in ("wide", "narrow") if block.count(f'<svg class="{size}" ') == 1] == [
        "wide",
        "narrow",
    ]
    for name in explorer.controls:
        assert f'for="{name_of(explorer)}-{name}"' in block
    body = re.search(r'<script type="application/json">(.*)</script>', block, flags=re.DOTALL)[1]
    assert len(body.encode()) < 150_000
    for row in explorer.shown():
        assert all(cell.replace("'", "&#x27;") in block for cell in row)


def test_ids_follow_the_content(explorer, monkeypatch):
    again = getattr(explore, explorer.name)()
    before = name_of(explorer)
    assert name_of(again) == before
    monkeypatch.setenv("COURSE_LANG", "ko")
    assert name_of(getattr(explore, explorer.name)()) != before


def test_chips_stand_in_lists_by_who_makes_them(monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "site")
    (block,) = explore.decode()._repr_mimebundle_().values()
    lists = re.findall(r'<optgroup label="([^"]+)">(.*?)</optgroup>', block)
    makers = [name for name, _ in lists]
    assert makers[:2] == ["NVIDIA", "AMD"]
    assert makers[2:] == sorted(makers[2:])
    (h100,) = [name for name, options in lists if "H100" in options]
    assert h100 == "NVIDIA"


def test_what_does_not_fit_is_said_loudly(monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "site")
    small, large = (
        "".join(explore.decode(key="l4", batch=batch)._repr_mimebundle_().values())
        for batch in (1, 512)
    )
    assert (small.count('class="loud"'), large.count('class="loud"')) == (0, 1)
