"""What the calculator says of a state, in Python: the library's own answers, and its words."""

import pytest

from course_lib import llm
from course_lib.specs import chip, outdated, quotes
from course_tools import calibrate
from course_book import explore
from course_book.explore import serving

ASK = explore.calculator()


def test_an_answer_is_what_the_library_says_of_its_parts():
    found = ASK.answer(model="llama-3-70b", count=8, tp=4, batch=32, context=2048, weights="fp8")
    how = {"w": "fp8", "tp": 4}
    step = llm.decode("llama-3-70b", "h100-sxm", 32, 2048, **how, link="nvlink")
    assert (found.decode_light, found.decode) == (step.speed_of_light, step.lower)
    assert found.decode_likely == calibrate.predict(step, "h100-sxm").expected
    room = llm.fits("llama-3-70b", "h100-sxm", 32, 2048, tokens=32, **how)
    assert (found.fits, found.most, found.needed) == (True, room.max_batch, room.needed)
    assert found.all == pytest.approx(2 * 32 / step.speed_of_light)
    cheapest = min(one.usd_per_hour for one in quotes("h100-sxm"))
    by_hand = 8 * cheapest / 3600 / (2 * 32 / found.decode_likely) * 1e6
    assert found.usd == pytest.approx(by_hand, rel=0.6)
    rent = serving.offers("h100-sxm")[0].usd_per_hour
    assert found.usd == pytest.approx(by_hand * rent / cheapest)


@pytest.mark.parametrize(
    ("state", "binds", "advice"),
    [
        ({"batch": 1, "context": 128}, "weights", "weights"),
        ({"batch": 64, "context": 8192}, "cache", "cache"),
        ({"batch": 4096, "context": 16, "chip": "l4", "weights": "int4"}, "compute", "compute"),
        ({"model": "llama-3-70b"}, "weights", "too-large"),
        ({"batch": 4096}, "cache", "too-many"),
        ({"model": "qwen2.5-0.5b", "batch": 1, "context": 1}, "weights", "launches"),
    ],
)
def test_what_binds_and_what_to_do(state, binds, advice):
    found = ASK.answer(**state)
    assert (found.binds, found.advice) == (binds, advice)
    for text in (serving.verdict(found), serving.counsel(found, 7) if found.fits else "."):
        assert "{" not in text
        assert text.endswith(".")


def test_what_does_not_fit_has_neither_speed_nor_price():
    found = ASK.answer(model="llama-3-70b")
    shown = {name: serving.shown(found, name) for name in serving.ROWS}
    assert {name for name, text in shown.items() if text != serving.NONE} == set(serving.ALWAYS)
    assert serving.counsel(found, 16) == ""


def test_chips_stand_in_one_order_wherever_they_are_chosen():
    every = ASK.chips
    for explorer in (explore.decode(), explore.roofline()):
        keys = explorer.values("chip")
        assert list(keys) == [key for key in every if key in keys]
    found = [(chip(key).vendor, chip(key).year) for key in every]
    vendors = list(dict.fromkeys(vendor for vendor, _ in found))
    assert found == sorted(found, key=lambda one: (vendors.index(one[0]), -one[1]))
    assert vendors[0] == "NVIDIA"


def test_the_network_binds_where_chips_send_more_than_they_read():
    found = ASK.answer(model="llama-2-7b", chip="l4", count=8, tp=8, batch=512, context=16)
    assert found.binds == "network"


@pytest.mark.parametrize(
    ("state", "refused"),
    [
        ({"tp": 64, "count": 64}, "tp"),
        ({"chip": "v100-sxm2", "activations": "bf16"}, "format"),
        ({"weights": "fp16", "activations": "bf16"}, "unclear"),
        ({"model": "own"}, "config"),
    ],
)
def test_what_cannot_be_had_is_refused_with_a_reason(state, refused):
    found = ASK.answer(**state)
    assert found.refused == refused
    assert found.about
    assert found.decode is None


def test_links_that_hold_so_many_chips_are_offered_and_the_fastest_is_first():
    h100 = chip("h100-sxm")
    assert serving.ways(h100, 1) == ()
    assert serving.ways(h100, 8) == ("nvlink", "nodes", "host")
    assert serving.ways(h100, 16) == ("nodes", "host")
    assert serving.link_of(h100, 16, "nvlink") == "nodes"
    assert serving.link_of(h100, 8, "host") == "host"


def test_its_table_has_the_range_of_what_is_expected_and_a_word_where_nothing_is():
    rows = dict(serving.rows(ASK.answer(chip="tpu-v2", model="gpt2-xl", batch=1)))
    assert serving.NONE in rows.values()
    assert any(" – " in text for text in rows.values())
    assert ASK.static_bundle()["text/markdown"].startswith("| quantity")


def test_prices_that_are_out_of_date_come_last():
    found = [outdated(one) for one in serving.offers("t4")]
    assert found == sorted(found)
    assert len(found) == 2
