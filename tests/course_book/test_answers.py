"""The record behind every answer, and errors as data."""

import json

import pytest

from course_lib import chip
from course_tools.counting import ask, named
from course_book.answers import Answer, refused, schema
from course_book.answers.steps import predicted
from course_book.files import DATA


def test_the_schema_that_ships_is_that_of_the_record():
    kept = json.loads((DATA / "answer.schema.json").read_text(encoding="utf-8"))
    assert kept == schema()
    fields = {one for one in Answer.__struct_fields__ if one != "more"}
    assert set(kept["properties"]) == set(kept["required"]) == fields


@pytest.mark.parametrize(
    ("message", "argument", "value", "remedy"),
    [
        ("batch must be one positive whole number (got 0)", "batch", "0", "must be one positive"),
        ("unknown model 'x': did you mean 'y'?", "model", "'x'", "did you mean"),
        ("--slo must be name=seconds (got 'a=b')", "slo", "'a=b'", "must be name=seconds"),
        ("path 'nope.json' cannot be read: No such file", "path", "'nope.json'", "No such file"),
        ("--plan needs --rate: it tries other rates", "plan", None, "it tries"),
        ("nothing that is known", "nothing", None, None),
    ],
)
def test_an_error_names_argument_value_and_remedy(message, argument, value, remedy):
    found = refused(message)
    assert (found["error"], found["argument"], found["value"]) == (message, argument, value)
    assert (found["remedy"] or "").startswith(remedy or "")


def answer(model, on, **asked):
    given = {"batch": 1, "weights": None, "cache": None, "tp": 1, **asked}

    def again(**changes):
        batch, w, kv, tp = (given | changes).values()
        link = next(iter(chip(on).joins), None) if tp > 1 else None
        return ask(named(model), chip(on), batch, 512, w=w, kv=kv, tp=tp, link=link)

    return predicted(again(), chip(on), given, again), again


@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-30b-a3b", "bert-large"])
def test_what_a_change_gives_is_what_asking_for_it_gives(model):
    found, again = answer(model, "h100-sxm")
    now = again()

    def rate(one):
        return one.batch * (one.context if one.headline == "prefill" else 1) / one.step.lower

    assert found.next
    assert [one.factor for one in found.next] == sorted(
        (one.factor for one in found.next), reverse=True
    )
    for one in found.next:
        then = again(**one.options)
        assert then.fit.fits
        assert one.factor == pytest.approx(rate(then) / rate(now))
        assert set(one.what) == {"en", "es", "ko"}


def test_terms_are_shares_of_the_bound_and_the_range_holds_the_expected_time():
    found, _ = answer("llama-3-8b", "h100-sxm", batch=8)
    assert 0 < sum(one.share for one in found.because) <= 1 + 1e-9
    assert found.range.low <= found.values["expected_s"] <= found.range.high
    assert found.values["speed_of_light_s"] <= found.values["lower_s"] <= found.range.low
    assert found.sources


def test_energy_stands_beside_the_time_with_its_range_and_its_source():
    found, _ = answer("llama-3-8b", "h100-sxm", batch=8)
    use = found.energy
    assert use.low < use.joules < use.high
    assert use.joules == pytest.approx(use.watts * found.values["expected_s"])
    assert found.values["joules_per_token"] == pytest.approx(use.joules / 8)
    assert use.source
    assert all(" J" in said and " W" in said for said in found.answer.values())
    assert found.as_json()["energy"]["per"] == "step"
