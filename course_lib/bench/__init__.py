"""Measures the device at hand, and says how far to trust the result."""

from course_lib.bench.device import Machine, cpu_peak, cpu_peak_here, inspect, machine, observe
from course_lib.bench.products import bandwidth, ceiling, matmul, outer_products
from course_lib.bench.record import manifest, sample, start, summary

__all__ = [
    "Machine",
    "bandwidth",
    "ceiling",
    "cpu_peak",
    "cpu_peak_here",
    "inspect",
    "machine",
    "manifest",
    "matmul",
    "observe",
    "outer_products",
    "sample",
    "start",
    "summary",
]
