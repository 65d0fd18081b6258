"""A sample of what `python -m tests.fuzz` throws; `make exhaustive` throws all."""

import math

import pytest

from tests import fuzz


@pytest.mark.parametrize("command", fuzz.MAKE)
@pytest.mark.parametrize(
    "cases",
    [range(20), pytest.param(None, marks=pytest.mark.exhaustive)],
    ids=["a sample", "all of them"],
)
def test_whatever_is_thrown_at_a_command_is_answered_or_refused_by_name(command, cases):
    if command == "predict":
        pytest.importorskip("transformers", reason="what is odd may be traced")
    wrong = {}
    for number in cases or range(fuzz.COUNTS[command]):
        what, said = fuzz.outcome(command, number)
        if what not in fuzz.GOOD:
            wrong[number] = f"{what}: {said}"
    assert not wrong


def test_what_is_wrong_is_told_from_what_is_right(monkeypatch):
    """The harness itself: an error without a name, a hang, a number that is none."""
    for made, what in (
        (["predict", "llama-3-8b", "h100-sxm", "--json"], "answered"),
        (["predict", "llama-3-8b", "h100-sxm", "--batch", "0"], "refused"),
        (["predict", "llama-3-8b", "h100-sxm", "--context", "0"], "unnamed"),
        (["predict", "llama-3-8b", "h100-sxm"], "unnamed"),  # no JSON, and no refusal
    ):
        case = fuzz.Case(made, frozenset({"batch"}))
        monkeypatch.setitem(fuzz.MAKE, "one", lambda *_, case=case: case)
        assert fuzz.outcome("one", 0)[0] == what
    monkeypatch.setitem(fuzz.MAKE, "one", lambda *_: fuzz.Case([*made, "--json"], frozenset()))
    with monkeypatch.context() as patch:
        patch.setattr("course_book.answers.Answer.as_json", lambda _: {"lower_s": math.nan})
        assert fuzz.outcome("one", 0)[0] == "no number"
    monkeypatch.setattr(fuzz, "LIMIT", 0.05)
    for raised, what in ((ZeroDivisionError, "raw"), (None, "hung")):

        def command(*_, raised=raised, **__):
            while not raised:
                pass
            raise raised

        monkeypatch.setattr("course_press.cli.predict.ask", command)
        assert fuzz.outcome("one", 0)[0] == what


def test_judges_are_thrown_at_too():
    assert {"predict", "diagnose", "serve", "train", "judges"} == set(fuzz.COUNTS)
    hostile = pytest.importorskip("tests.course_press.grading.hostile", reason="no judge is there")
    assert [lab for lab, _ in hostile.frames(0)]
