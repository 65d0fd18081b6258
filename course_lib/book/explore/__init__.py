"""Figures with controls."""

from course_lib.book.explore.inference import decode, upgrade
from course_lib.book.explore.operators import batch, network, roofline

__all__ = ["batch", "decode", "network", "roofline", "upgrade"]
