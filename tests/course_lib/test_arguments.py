"""Every public function with every argument spoiled: it answers with finite numbers, or says which
argument is wrong.

And where the same number comes in another type, the answer is the same or a refusal, never another
number.
"""

import dataclasses
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import CourseError, chip
from tests.course_lib.calls import CALLS, LEFT_OUT, ROOMS, TEXT, public
from tests.each import each

SITES = [(call, name) for call in CALLS for name in call.given]
SAID = {
    "key": ("chip", "model"),
    "id": ("exercise",),
    "name": ("table",),
    "lang": ("language",),
    "header": ("row", "cell"),
    "rows": ("row", "cell"),
    "constants": ("path",),
    "net": ("model",),
    "chip": ("published peak",),
    "per_direction": ("link",),
    "w": ("dtype",),
    "text": ("method",),
}
"""What a message may call an argument besides its name."""

WEIRD = [
    None,
    "",
    "x",
    "bf61",
    "\ud800",
    b"1",
    True,
    False,
    0,
    -1,
    1,
    2,
    3,
    7,
    1.5,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    5e-324,
    2**53 - 1,
    2**53 + 1,
    2**64,
    10**30,
    10**400,
    10**5000,
    1j,
    [],
    (),
    {},
    set(),
    [1, 2],
    (1, 2, 3),
    [[1, 2], [3]],
    [1, "2"],
    [math.nan],
    {"X": 4},
    {"D": "X"},
    {1: 2},
    range(3),
    object(),
    object,
    len,
    lambda B: B,
    "bf16",
    "h100-sxm",
    "resnet-50",
    "bert-large",
    Path("nowhere"),
    Fraction(1, 3),
    Decimal("0.1"),
    np.float16(60000),
    np.int8(-128),
    np.uint8(200),
    np.bool_(True),
    np.array([]),
    np.array(None),
    np.array("x"),
    np.array([1, 2]),
    np.array([1, 2, 3]),
    np.array([[1.0], [2.0]]),
    np.array([1, 0]),
    np.array([1, math.nan]),
    np.array([True, False]),
    np.array([2**31 - 1], np.int32),
    np.array([1 + 1j]),
    np.array(["2026-01-01"], "datetime64[D]"),
    np.ma.array([1, 2], mask=[0, 1]),
    np.ma.masked,
    np.longdouble("1e4000"),
    torch.tensor([1.0, 2.0], requires_grad=True),
    torch.tensor(3, dtype=torch.int8),
    torch.ones(2, dtype=torch.bfloat16),
    torch.empty(2, device="meta"),
    chip("tpu-v5e"),
    chip("tpu-v5e").links["ici"],
]

numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.floats(1e-12, 1e18),
    st.integers(1, 10**9),
    st.lists(st.floats() | st.integers(-5, 2**60), max_size=4),
    st.fractions(),
    st.text(max_size=8),
)


def parts(result) -> Iterator[float]:
    """Every number in a result, however deep."""
    if isinstance(result, int | float | np.number | np.bool_):
        yield float(result)
    elif isinstance(result, np.ndarray) and result.dtype.kind in "iufb":
        yield from map(float, result.ravel())
    elif isinstance(result, Mapping):
        for value in result.values():
            yield from parts(value)
    elif isinstance(result, list | tuple):
        for value in result:
            yield from parts(value)
    elif isinstance(result, msgspec.Struct):
        yield from parts([getattr(result, name) for name in result.__struct_fields__])
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        yield from parts([getattr(result, field.name) for field in dataclasses.fields(result)])


def words(result) -> str:
    return result if isinstance(result, str) else ""


def names_an_argument(message, call):
    known = [word for name in call.given for word in (name, *SAID.get(name, ()))]
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", message) for word in known)


def answered(call, name, value):
    """The result, or `None` for a refusal that names an argument; anything else fails."""
    if callable(call.given[name]) and callable(value):
        return None  # what a reader's own function raises is the reader's to see
    try:
        result = call.function(**{**call.given, name: value})
    except CourseError as error:
        assert names_an_argument(str(error), call), f"{call.name}({name}={value!r}): {error}"  # noqa: PT017
        assert len(str(error)) < 1500  # noqa: PT017
        return None
    found = list(parts(result))
    assert not any(map(math.isnan, found)), f"{call.name}({name}={value!r}) is {result!r}"
    assert call.endless or not any(map(math.isinf, found)), (
        f"{call.name}({name}={value!r}) is {result!r}"
    )
    return result


def equals(value):
    """The same number in every type that holds it."""
    for kind in (
        np.int8,
        np.uint8,
        np.int16,
        np.int32,
        np.uint64,
        np.float16,
        np.float32,
        np.float64,
        np.longdouble,
    ):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # NumPy 1 warns where NumPy 2 raises
            try:
                other = kind(value)
            except OverflowError:
                continue
        if float(other) == value:
            yield other
            yield np.array(value, kind)
            yield np.array([value], kind)
    yield from (
        float(value),
        [value],
        Fraction(value),
        torch.tensor(value, dtype=torch.float64),
        np.ma.array([value]),
    )
    if float(value).is_integer():
        yield int(value)


def same(call, name, value):
    """Raise where an equal value of another type gives another answer."""
    wanted = call.function(**call.given)
    for other in equals(value):
        result = answered(call, name, other)
        if result is None:
            continue
        assert words(result) == words(wanted), (
            f"{call.name}({name}={other!r}) is {result!r}, not {wanted!r}"
        )
        got, expected = list(parts(result)), list(parts(wanted))
        assert len(got) == len(expected), f"{call.name}({name}={other!r})"
        np.testing.assert_allclose(
            got, expected, rtol=1e-12, err_msg=f"{call.name}({name}={other!r})"
        )


def numeric(call, name):
    value = call.given[name]
    return (
        type(value) in (int, float)
        and call.name
        not in ("course_lib.bench.products.matmul", "course_lib.bench.record.manifest")
        and name not in TEXT
    )


def test_every_public_function_has_a_valid_call():
    covered = {call.name for call in CALLS}
    missing = {
        name for name, room in public() if name not in covered | set(LEFT_OUT) and room not in ROOMS
    }
    assert not missing
    assert {room for _, room in public()} >= set(ROOMS)
    assert {name for name, _ in public()} >= set(LEFT_OUT)
    assert not covered & set(LEFT_OUT)


@each("call", CALLS, ids=lambda call: call.name)
def test_every_valid_call_answers(call):
    assert call.function(**call.given) is not None or call.name == "specs.chip_of_device"


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SITES), st.sampled_from(WEIRD) | numbers)
def test_a_spoiled_argument_is_named_or_answered_with_finite_numbers(site, value):
    answered(*site, value)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([(call, name) for call, name in SITES if numeric(call, name)]))
def test_an_equal_value_of_another_type_gives_no_other_number(site):
    call, name = site
    same(call, name, call.given[name])


FLAGS = [(call, name) for call, name in SITES if isinstance(call.given[name], bool)]


@each(("call", "name"), FLAGS, ids=lambda one: getattr(one, "name", one))
def test_a_flag_is_true_or_false_and_nothing_else(call, name):
    for truthy in (1, 0, "no", "", math.nan, [True], np.array(True), {}):
        assert answered(call, name, truthy) is None
    assert list(parts(answered(call, name, np.bool_(call.given[name])))) == list(
        parts(call.function(**call.given))
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_every_argument_of_every_call_spoiled_in_every_way(call):
    for name in call.given:
        for value in WEIRD:
            answered(call, name, value)
        if numeric(call, name):
            same(call, name, call.given[name])


@pytest.mark.exhaustive
@settings(max_examples=5000, deadline=None)
@given(st.sampled_from(SITES), numbers)
def test_arguments_drawn_at_random(site, value):
    answered(*site, value)
