"""Grades a class: every file once, isolated, with reports and grades for every system."""

from course_press.grading.classroom.driver import grade_class
from course_press.grading.classroom.exports import (
    gradescope,
    gradescope_text,
    student_report,
    summary,
)
from course_press.grading.classroom.lms import SYSTEMS, write_package
from course_press.grading.classroom.marking import judged
from course_press.grading.classroom.submissions import read_roster

__all__ = [
    "SYSTEMS",
    "grade_class",
    "gradescope",
    "gradescope_text",
    "judged",
    "read_roster",
    "student_report",
    "summary",
    "write_package",
]
