"""The answer to `verify`: one sentence in each language, and what would make it so."""

import pytest

from course_tools.claims import Claimed, verify
from course_book.answers import verified
from course_book.text import languages
from tests.course_tools.test_claims import PUBLIC
from tests.each import each


@each("name", PUBLIC)
def test_every_verdict_is_one_sentence_in_each_language(name):
    found = verify(Claimed(**PUBLIC[name][0]))
    answer = verified(found)
    assert set(answer.answer) == set(languages())
    for said in (*answer.answer.values(), *(x for one in answer.next for x in one.what.values())):
        assert said
        assert "{" not in said
        assert "\n" not in said
        assert "verify-" not in said
    values = answer.as_json()
    assert values["verdict"] == found.verdict
    scale = 1e-3 if found.speed.startswith("ms") else 1.0
    assert values["limit"] == pytest.approx(scale * found.limit)
    assert answer.because


def test_what_makes_a_claim_possible_does():
    """Each change that is offered in place of what was asked, asked."""
    for said, verdict in PUBLIC.values():
        if verdict != "impossible":
            continue
        for remedy in verified(verify(Claimed(**said))).next:
            if remedy.options:
                again = Claimed(**{**said, **remedy.options})
                assert verify(again).verdict != "impossible", (said, remedy.options)


def test_formats_that_pass_are_named_and_what_was_not_said_is_marked():
    said = {"model": "llama-2-7b", "chip": "rtx-4090", "tokens_per_second": 191, "batch": 1}
    answer = verified(verify(Claimed(**said)))
    assert "weights in int4 (not said)" in answer.answer["en"]
    assert answer.assumed == {"weights": "int4"}
    refused = verified(verify(Claimed(**said, weights="fp16")))
    assert "possible in int4" in [one.what["en"] for one in refused.next]
