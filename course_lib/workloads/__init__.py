"""Whole networks against a chip."""

from course_lib.workloads import block, llm, resnet

__all__ = ["block", "llm", "resnet"]
