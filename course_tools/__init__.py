"""Answers readers' questions with course_lib: what measurements say, what a step is likely to take,
what a service or a training run needs, and why a trace is slow.
"""
