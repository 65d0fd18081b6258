"""Fit vLLM's constant to the published log, and print the errors on the rest of it."""

from course_tools.serve import fitting

fitting.write()
for name, off in fitting.errors().items():
    print(f"{name:10} {off:+.1%}")
