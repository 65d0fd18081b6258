"""Grades a class: every file once, isolated, with a report for each student and grades for every
system.
"""

from course_press.grading.classroom.desk import Done, grade_class
from course_press.grading.classroom.exports import gradescope, nbgrader_csv, plain_csv
from course_press.grading.classroom.kits import KITS, write_kit
from course_press.grading.classroom.marking import judged
from course_press.grading.classroom.record import Graded, Mark, as_marks
from course_press.grading.classroom.reports import student_report, summary
from course_press.grading.classroom.similarity import Pair, alike, shingles
from course_press.grading.classroom.submissions import Submission, find, read_roll

__all__ = [
    "KITS",
    "Done",
    "Graded",
    "Mark",
    "Pair",
    "Submission",
    "alike",
    "as_marks",
    "find",
    "grade_class",
    "gradescope",
    "judged",
    "nbgrader_csv",
    "plain_csv",
    "read_roll",
    "shingles",
    "student_report",
    "summary",
    "write_kit",
]
