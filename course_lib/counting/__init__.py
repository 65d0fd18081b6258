"""Needs any model: from its sizes, or by running its code on tensors without memory."""

from course_lib.counting.answers import Costs, Fused, ask, told
from course_lib.counting.estimates import Needs, count
from course_lib.counting.sources import Named, config_of, named

__all__ = ["Costs", "Fused", "Named", "Needs", "ask", "config_of", "count", "named", "told"]
