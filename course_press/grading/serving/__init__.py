"""Grades the learner's file of lab 03: what an engine's steps take, and what it does with the
requests that come to it.
"""

from course_press.grading.serving.judge import grade

__all__ = ["grade"]
