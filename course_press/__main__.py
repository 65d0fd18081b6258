"""So that `python -m course_press` is the command `course`."""

from course_press.cli.app import main

main()
