"""What an answer offers next is what one gets who asks for it."""

import pytest

from course_lib import CourseError
from course_book.answers.record import top
from course_press.cli.assistants import ask, commands

SERVED = {"model": "llama-3-8b", "chip": "h100-sxm", "requests": 200}
TRAINED = {"model": "llama-3-8b", "chips": "64xh100-sxm"}


KINDS = ("tp", "tp", "batch", "cache", "context", "replicas")


def mean_wait(found):
    return sum(one["value"] for one in found["because"])


@pytest.mark.parametrize("load", [{"rate": 10.0}, {"users": 32}])
def test_changes_of_a_service_shorten_the_wait_as_said(load):
    before = ask(commands()["serve"], SERVED | load)
    assert 1 <= len(before["next"]) <= 3
    for one in before["next"]:
        after = ask(commands()["serve"], SERVED | load | one["options"])
        assert mean_wait(before) / mean_wait(after) == pytest.approx(one["factor"], rel=1e-6)
        assert one["factor"] > 1
        assert set(one["what"]) == {"en", "es", "ko"}


def test_where_limits_are_missed_changes_keep_them_for_more():
    asked = SERVED | {"rate": 60.0, "slo": "ttft=0.05,tpot=0.05"}
    before = ask(commands()["serve"], asked)
    for one in before["next"]:
        after = ask(commands()["serve"], asked | one["options"])
        kept = [of["goodput_per_s"] * of["makespan_s"] for of in (before, after)]
        assert kept[1] / max(kept[0], 1) == pytest.approx(one["factor"], rel=1e-6)


@pytest.mark.parametrize("layout", ["dp=8,tp=8,zero=1,mbs=2,acc=4", "dp=64,mbs=1", None])
def test_changes_of_a_step_give_the_tokens_that_they_say(layout):
    asked = TRAINED | ({} if layout is None else {"layout": layout})
    before = ask(commands()["train"], asked)
    before = before["layouts"][0] if layout is None else before
    asked["layout"] = before["assumed"]["layout"]
    assert before["next"]
    for one in before["next"]:
        after = ask(commands()["train"], asked | one["options"])
        rates = [of["tokens_per_s_per_chip"] for of in (before, after)]
        assert after["fits"]
        assert rates[1] / rates[0] == pytest.approx(one["factor"])
        assert before["fits"] is False or one["factor"] > 1


def test_of_each_kind_the_best_is_offered_and_what_cannot_be_is_not():
    gains = {1: 3.0, 2: 2.0, 3: 1.01, 4: 9.0, 5: 1.5, 6: 1.4}

    def gain(tp):
        if tp == 4:
            raise CourseError("tp must divide the heads (got 4)")
        return gains[tp]

    tried = [(kind, {"tp": tp}) for kind, tp in zip(KINDS, gains, strict=True)]
    found = top(tried, gain, "rate")
    assert [one.options["tp"] for one in found] == [1, 5, 6]
    assert [one.factor for one in found] == [3.0, 1.5, 1.4]
