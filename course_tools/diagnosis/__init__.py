"""Finds why a recorded step is slow: reads a trace of torch.profiler and names one cause."""

from course_tools.diagnosis.causes import CAUSES, FLOW, Fork, path_to
from course_tools.diagnosis.examples import SEEDED, seeded
from course_tools.diagnosis.verdict import Diagnosis, Evidence, Operator, diagnose

__all__ = [
    "CAUSES",
    "FLOW",
    "SEEDED",
    "Diagnosis",
    "Evidence",
    "Fork",
    "Operator",
    "diagnose",
    "path_to",
    "seeded",
]
