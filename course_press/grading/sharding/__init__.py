"""Grades the learner's file of lab 05: one layer, cut over eight devices in seven ways."""

from course_press.grading.sharding.judge import grade

__all__ = ["grade"]
