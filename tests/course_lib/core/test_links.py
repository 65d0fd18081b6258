"""One link for the spec table, the collectives and what is measured."""

import numpy as np
import pytest

from course_lib import CourseError, chip, chips, network, specs
from course_lib.core import Link
from course_lib.core.links import as_link


def test_the_spec_table_and_the_collectives_have_one_link():
    assert network.Link is Link
    for one in map(chip, chips()):
        of_chip = [*one.links.values(), one.host, one.node and one.node.ports]
        for link in filter(None, of_chip):
            assert as_link(link) is link
            assert isinstance(link.count, int)
            assert link.name
            assert link.total_per_direction == link.count * link.per_direction
            assert link.bidirectional == 2 * link.per_direction


def test_a_link_says_what_all_of_it_carries():
    assert Link(25e9).total_per_direction == 25e9
    several = Link(25e9, count=np.array([1, 18]), latency=1e-6)
    assert several.total_per_direction.tolist() == [25e9, 450e9]
    assert as_link(450e9).total_per_direction == 450e9
    with pytest.raises(CourseError, match="must broadcast"):
        Link(np.ones(3), count=np.array([1, 2]))


def test_what_is_no_link_is_refused():
    for wrong in ("nvlink", None, specs.chip("t4")):
        with pytest.raises(CourseError, match="link must be"):
            network.all_reduce(1e6, wrong, 8)
