"""Runs the kernels of lab 04: counts their bytes by the interpreter, or times them on a GPU."""

from course_tools.campaigns.kernels.running import load, measure, run
from course_tools.campaigns.kernels.steps import Step, plan

__all__ = ["Step", "load", "measure", "plan", "run"]
