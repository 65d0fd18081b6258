"""Grades the kernels of lab 04: what they compute, how far they reach, and what they move."""

from course_press.grading.kernels.judge import grade

__all__ = ["grade"]
