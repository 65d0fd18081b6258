"""The map of layouts: every cell is a step of the library, and the best one is marked."""

import random

import numpy as np
import pytest

from course_lib import CourseError, explore, t, train
from course_lib.book.explore import training
from course_lib.book.explore.maps import ticks

SEQUENCE = 4096


@pytest.fixture(scope="module")
def layouts():
    return explore.layouts()
