"""Whole networks against a chip."""

from course_lib.workloads import block, llm, resnet, train

__all__ = ["block", "llm", "resnet", "train"]
