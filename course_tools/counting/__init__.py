"""Needs any model: from its sizes, or by running its code on tensors without memory."""

from course_tools.counting.answers import Costs, Fused, ask, told
from course_tools.counting.estimates import Needs, count
from course_tools.counting.sources import (
    Configuration,
    Named,
    config_of,
    configurations,
    configured,
    from_config,
    listed,
    named,
)

__all__ = [
    "Configuration",
    "Costs",
    "Fused",
    "Named",
    "Needs",
    "ask",
    "config_of",
    "configurations",
    "configured",
    "count",
    "from_config",
    "listed",
    "named",
    "told",
]
