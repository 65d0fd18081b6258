"""Judges learners' files."""

from course_press.grading.graders import GRADERS, Grading, grade, grading
from course_press.grading.verdict import Verdict, said

__all__ = ["GRADERS", "Grading", "Verdict", "grade", "grading", "said"]
