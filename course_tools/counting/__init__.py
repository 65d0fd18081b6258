"""Needs any model: from its sizes, or by running its code on tensors without memory."""

from course_tools.counting.answers import Costs, Fused, ask, told
from course_tools.counting.estimates import Needs, count
from course_tools.counting.sources import Named, config_of, configured, from_config, named

__all__ = [
    "Costs",
    "Fused",
    "Named",
    "Needs",
    "ask",
    "config_of",
    "configured",
    "count",
    "from_config",
    "named",
    "told",
]
