"""Finds why a recorded step is slow: reads a trace of torch.profiler and names one cause."""

from course_tools.diagnosis.causes import CAUSES, FLOW, SEEDED, WHOLES, Fork, seeded
from course_tools.diagnosis.root_cause import Diagnosis, Evidence, Operator, diagnose, of_ranks

__all__ = [
    "CAUSES",
    "FLOW",
    "SEEDED",
    "WHOLES",
    "Diagnosis",
    "Evidence",
    "Fork",
    "Operator",
    "diagnose",
    "of_ranks",
    "seeded",
]
