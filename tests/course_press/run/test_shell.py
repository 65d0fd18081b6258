"""What a kernel keeps of functions of their arguments alone, over the languages of a chapter."""

import importlib
import inspect

import numpy as np
import pytest

from course_lib import chip
from course_press.run import shell


@pytest.fixture
def told():
    """A function that is kept, and what it was asked."""
    asked = []

    def answer(*args, **options):
        asked.append((args, options))
        return [len(asked)]

    return shell._kept(answer), asked


@pytest.mark.parametrize(
    "given",
    [
        lambda: 2.0,
        lambda: np.arange(3.0),
        lambda: {"batch": [1, 2]},
        lambda: chip("t4"),
        lambda: (chip("t4"), np.arange(2)),
    ],
    ids=["number", "array", "mapping", "chip", "both"],
)
def test_what_holds_the_same_is_asked_once(told, given):
    answer, asked = told
    assert answer(given(), at=given()) == answer(given(), at=given()) == [1]
    assert len(asked) == 1


def test_what_differs_is_asked_again(told):
    answer, asked = told
    array = np.arange(3.0)
    given = [1, 1.5, "1", np.float32(1.5), chip("t4"), chip("l4"), array]
    for one in given:
        answer(one)
        answer(at=one)
    array[0] = 7  # the same array, but not what it held
    answer(array)
    assert len(asked) == 2 * len(given) + 1


def test_what_a_cell_made_or_has_no_name_is_asked_each_time(told):
    answer, asked = told

    def of_a_cell():
        return 1

    of_a_cell.__module__ = "__main__"
    mine = type("Mine", (), {"__module__": "__main__"})
    for one in (of_a_cell, mine, mine(), lambda: 1, [mine()]):
        del asked[:]
        answer(one)
        answer(one)
        assert len(asked) == 2, one


def test_a_list_is_its_askers_own(told):
    answer, _ = told
    answer(1).append("mine")
    assert answer(1) == [1]


def test_an_error_is_raised_each_time():
    def fail(given):
        raise TypeError(f"no {given}")

    for _ in range(2):
        with pytest.raises(TypeError, match="no 3"):
            shell._kept(fail)(3)


def test_every_name_of_a_pure_function_leads_to_one():
    for module, names in shell._PURE.items():
        for name in names:
            assert inspect.isfunction(getattr(importlib.import_module(module), name)), name
