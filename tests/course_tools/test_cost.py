"""Buying and renting: a break-even on paper, and what holds for any inputs."""

import math

import pytest

from course_lib import CourseError
from course_tools import cost

PAPER = {
    "capital": 30000.0,
    "life": 4.0,
    "interest": 0.1,
    "usage": 0.5,
    "host": 300.0,
    "pue": 1.25,
    "power_price": 0.10,
    "space": 146.0,
    "staff": 876.0,
}


def test_a_break_even_worked_out_on_paper_to_the_cent():
    own = cost.owning(700.0, 500.0, 100.0, cost.inputs(**PAPER))
    # 30,000 x 0.1 / (1 - 1.1^-4) = 9,464.12 a year, in 8,760 hours.
    assert own.capital == pytest.approx(9464.12 / 8760, abs=1e-6)
    # (700 + 300) W are 1 kW, at 146 a month of 730 hours; 876 a year.
    assert own.space == pytest.approx(0.20)
    assert own.staff == pytest.approx(0.10)
    # Waiting: 400 W x 1.25 = 0.5 kW; working: 800 W x 1.25 = 1 kW.
    assert own.standing == pytest.approx(0.05)
    assert own.working == pytest.approx(0.05)
    assert round(own.fixed, 2) == 1.43
    assert round(cost.per_working_hour(own, 0.5), 2) == 2.91
    # Renting at 2.91 an hour costs as much at half of all hours.
    assert cost.break_even(own, cost.per_working_hour(own, 0.5)) == pytest.approx(0.5)


@pytest.mark.parametrize("name", cost.inputs())
def test_every_input_has_a_range_a_date_and_a_source_and_can_be_replaced(name):
    one = cost.inputs()[name]
    assert one.low < one.value < one.high
    assert one.date
    assert one.unit
    assert one.source
    mine = cost.inputs(**{name: one.low})[name]
    assert mine.value == one.low
    assert mine.source != one.source


@pytest.mark.parametrize("usage", [0.2, 0.6, 1.0])
def test_above_the_break_even_owning_is_cheaper_and_below_it_renting(usage):
    own = cost.owning(700.0, 450.0, 115.0, cost.inputs())
    rent = 1.01 * cost.per_working_hour(own, usage)
    assert cost.break_even(own, rent) < usage
    assert cost.break_even(own, rent / 1.02) > usage


def test_nothing_breaks_even_below_what_owning_costs_at_full_use():
    own = cost.owning(700.0, 450.0, 115.0, cost.inputs())
    assert cost.break_even(own, 0.99 * cost.per_working_hour(own, 1.0)) == math.inf
    assert cost.break_even(own, own.working / 2) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cost.inputs(capitol=1.0), "input 'capitol'"),
        (lambda: cost.inputs(capital=-1.0), "capital"),
        (lambda: cost.inputs("nowhere.csv"), "path must be a table of CostInput"),
        (lambda: cost.owning(1.0, 1.0, 1.0, cost.inputs(life=0.0)), "life"),
        (lambda: cost.per_working_hour(cost.OwnCost(1, 1, 1, 1, 1), 0.0), "usage must be a share"),
        (lambda: cost.break_even(cost.OwnCost(1, 1, 1, 1, 1), 0.0), "rent"),
    ],
)
def test_what_has_no_cost_is_named(call, message):
    with pytest.raises(CourseError, match=message):
        call()
