"""Sectors against laying the addresses out one by one."""

import numpy as np
import pytest

from course_lib import CourseError, ops
from course_lib.core import itemsize
from tests.each import each


@each("x", ["fp64", "fp32", "bf16", "fp8"])
@each("start", [0, 1, 3, 8, 31])
@each("stride", [1, 2, 3, 4, 7, 8, 9, 16, 32, 1000])
def test_as_many_sectors_as_addresses_fall_into(x, start, stride):
    size = int(itemsize(x))
    touched = {
        byte // 32
        for thread in range(32)
        for byte in range((start + thread * stride) * size, (start + thread * stride + 1) * size)
    }
    assert ops.sectors(stride, start=start, x=x) == len(touched)


def test_strides_broadcast_and_never_exceed_a_sector_for_each_thread():
    found = ops.sectors(np.arange(1, 100))
    assert found.shape == (99,)
    assert found.max() == ops.WARP == 32
    assert np.all(np.diff(found) >= 0)
    assert ops.sectors(4, threads=64) == 2 * ops.sectors(4)


@pytest.mark.parametrize(
    ("given", "named"),
    [({"stride": 0}, "stride"), ({"stride": 1, "start": -1}, "start"),
     ({"stride": 1, "x": "float"}, "argument x"), ({"stride": 1, "threads": 0}, "threads")],
)  # fmt: skip
def test_what_is_no_access_is_refused(given, named):
    with pytest.raises(CourseError, match=named):
        ops.sectors(**given)
