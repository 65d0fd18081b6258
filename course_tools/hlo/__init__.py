"""Reads what a compiler made of a sharded program: its collectives, and their least time."""

from course_tools.hlo.compiled import (
    CompiledCollective,
    compiled_collectives,
    compiled_example,
    compiled_seconds,
)

__all__ = ["CompiledCollective", "compiled_collectives", "compiled_example", "compiled_seconds"]
