import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError
from course_lib.core import BITS, itemsize
from course_lib.core.dtypes import widest

dtypes = st.sampled_from(sorted(BITS))
WIDTHS = {
    8: ["fp64"],
    4: ["fp32", "tf32"],
    2: ["bf16", "fp16"],
    1: ["fp8", "int8"],
    0.5: ["fp4", "int4"],
}


@pytest.mark.parametrize(
    ("size", "dtype"), [(size, dtype) for size, dtypes in WIDTHS.items() for dtype in dtypes]
)
def test_bytes_of_an_element(size, dtype):
    assert itemsize(dtype) == size


def test_every_format_is_listed_here():
    assert sorted(BITS) == sorted(dtype for dtypes in WIDTHS.values() for dtype in dtypes)


@given(st.lists(dtypes, min_size=1, max_size=4))
def test_the_widest_is_one_of_them_or_an_error(operands):
    widths = {itemsize(dtype) for dtype in operands}
    candidates = {dtype for dtype in operands if itemsize(dtype) == max(widths)}
    if len(candidates) == 1:
        assert {widest(*operands)} == {widest(*reversed(operands))} == candidates
    else:
        with pytest.raises(CourseError, match="compute is not clear"):
            widest(*operands)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: itemsize("bf61"), ["unknown dtype 'bf61'", "did you mean 'bf16'"]),
        (lambda: itemsize("BF16"), ["unknown dtype 'BF16'", "did you mean 'bf16'"]),
        (lambda: itemsize("zzz"), ["unknown dtype 'zzz'", "choose one of", "bf16", "int8"]),
        (lambda: itemsize(16), ["unknown dtype 16"]),
        (lambda: widest("bf16", "quarter"), ["unknown dtype 'quarter'"]),
        (lambda: widest("int8", "fp8"), ["compute is not clear", "fp8 and int8", "pass compute="]),
    ],
)
def test_errors_name_argument_value_and_remedy(call, parts):
    with pytest.raises(CourseError) as error:
        call()
    for part in parts:
        assert part in str(error.value)
