"""Judges learners' files."""

from course_press.grading.graders import GRADERS, Grading, grade, graded_by, grading
from course_press.grading.isolation import isolated
from course_press.grading.verdict import Verdict, message

__all__ = ["GRADERS", "Grading", "Verdict", "grade", "graded_by", "grading", "isolated", "message"]
