"""Measures the device at hand."""

from course_lib.bench.device import Machine, machine, manifest, observe, start
from course_lib.bench.products import bandwidth, ceiling, matmul

__all__ = ["Machine", "bandwidth", "ceiling", "machine", "manifest", "matmul", "observe", "start"]
