"""Predictions: how far off guesses are together, and what a prediction may not be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError
from course_book.exercises import Guess, bias, predict, predictions
from course_book.text import languages

ratios = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20)


@given(ratios, st.floats(1e-9, 1e9))
def test_bias_is_the_geometric_mean_and_no_unit_matters(factors, truth):
    found = bias([Guess(x * truth, truth) for x in factors])
    assert found.optimism == pytest.approx(math.prod(x ** (1 / len(factors)) for x in factors))
    assert found.spread >= max(found.optimism, 1 / found.optimism) * (1 - 1e-9)
    slow = bias([Guess(x * truth, truth, "low") for x in factors])
    assert slow.optimism == pytest.approx(1 / found.optimism)
    assert slow.spread == pytest.approx(found.spread)


def test_too_high_and_too_low_cancel_in_the_bias_and_not_in_the_spread():
    found = bias([Guess(4.0, 1.0), Guess(0.25, 1.0)])
    assert found.optimism == pytest.approx(1)
    assert found.spread == pytest.approx(4)


@pytest.mark.parametrize(
    ("guesses", "says"),
    [
        ([], "one at least"),
        ([Guess(0.0, 1.0)], "guess must be a positive"),
        ([Guess(1.0, math.inf)], "truth must be a positive"),
        ([Guess(1.0, 1.0, "up")], "hopes"),
    ],
)
def test_guesses_without_a_factor_are_refused(guesses, says):
    with pytest.raises(CourseError, match=says):
        bias(guesses)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"id": "no-such"}, "unknown id"),
        ({"truth": 1.0, "low": 2.0, "high": 3.0}, "truth must lie between"),
        ({"truth": 1.0, "low": 0.0, "high": 3.0}, "low must be positive"),
        ({"truth": math.nan, "low": 0.1, "high": 3.0}, "truth must be positive"),
        ({"truth": 1.0}, "needs truth, low and high"),
        ({"choices": ["B", "D"], "right": "F"}, "right"),
        ({"truth": 1.0, "unit": "m", "low": 0.1, "high": 3.0}, "unit"),
    ],
)
def test_a_prediction_that_a_page_could_not_show_is_refused(given, says):
    with pytest.raises(CourseError, match=says):
        predict(**{"id": "rooflines-trillion", **given})


@pytest.mark.parametrize("lang", languages())
def test_choices_are_in_the_language_of_the_page(lang, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", lang)
    shown = predict("wall-batch", choices=["hundreds", "never"], right="never")
    words = predictions(lang)["wall-batch"]["choices"]
    assert shown.shown_choices == [words["hundreds"], words["never"]]
    assert shown.shown_truth == words["never"]
