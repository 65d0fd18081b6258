"""Counts any model: from its sizes, or by running its code on tensors without memory."""

from course_lib.counting.answers import Costs, Fused, ask, told
from course_lib.counting.estimates import Counts, count
from course_lib.counting.sources import Named, config_of, named

__all__ = ["Costs", "Counts", "Fused", "Named", "ask", "config_of", "count", "named", "told"]
