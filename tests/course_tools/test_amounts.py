"""Amounts as people write them: one number however it is spelled, or a refusal that names it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError
from course_tools.amounts import amount
from tests.each import each

NUMBERS = st.integers(1, 10**9)


@given(NUMBERS, st.sampled_from(["{:,}", "{}", "{}.0", "{}e0", "~{}", " {} "]))
def test_a_whole_number_is_one_however_it_is_spelled(number, spelled):
    assert amount(spelled.format(number), "number") == number


@given(NUMBERS, st.integers(0, 99))
def test_a_comma_parts_the_decimals_where_they_are_not_three(number, hundredths):
    english = f"{number:,}.{hundredths:02}"
    spanish = english.replace(",", " ").replace(".", ",")
    german = english.replace(",", "_").replace(".", ",").replace("_", ".")
    for one in (english, spanish, german):
        assert amount(one, "1/s") == pytest.approx(number + hundredths / 100, rel=1e-12)


@each(
    ("unit", "alike"),
    [
        ("s", ["0.042", "42 ms", "42ms", "42 ms TTFT", "42,0 ms", "42000 µs"]),
        ("ms", ["42", "42 ms", "0.042 s"]),
        ("1/s", ["2300", "2.3k tok/s", "2,300 tokens/s", "2.3K t/s", "2300 tokens per second"]),
        ("1/s", ["10", "10/s", "10 req/s", "10 requests/sec", "10 rps"]),
        ("B/s", ["50e9", "400 Gb/s", "400Gbps", "400 Gbit/s", "50 GB/s", "0.05 TB/s"]),
        ("FLOP/s", ["1.35e15", "1.35 PFLOPS", "1,350 TFLOPS", "1350 TFLOP/s", "1350 TFlops"]),
        ("GB", ["80", "80GB", "80 GB", "0.08 TB"]),
        ("GB", ["85.89934592", "80 GiB", "80GiB"]),
        ("B", ["1073741824", "1 GiB", "1,073,741,824 bytes"]),
        ("1", ["0.4", "40%", "40 %", "40 % MFU"]),
        ("number", ["15e12", "15T", "15 T tokens", "15,000B"]),
        ("whole", ["8192", "8,192", "8Ki", "8192 tokens"]),
        ("USD", ["2.5", "$2.50", "2,50 $", "$2.50/hr"]),
        ("MHz", ["1980", "1.98 GHz", "1980 MHz"]),
    ],
)
def test_units_are_taken_into_the_one_that_is_asked_for(unit, alike):
    assert {round(amount(one, unit), 9) for one in alike} == {round(amount(alike[0], unit), 9)}


@pytest.mark.parametrize(
    ("said", "unit"),
    [
        ("fast", "s"),
        ("5 GB", "1/s"),
        ("42 tok/s", "s"),
        ("8k", "whole"),
        ("128K tokens", "whole"),
        ("1,250 tokens/s/GPU", "1/s"),
        ("1,2,3", "1"),
        ("", "B"),
    ],
)
def test_what_is_none_or_may_be_two_is_refused_by_what_was_written(said, unit):
    with pytest.raises(CourseError) as refused:
        amount(said, unit)
    assert repr(said) in str(refused.value) or said.split(" ")[0] in str(refused.value)
