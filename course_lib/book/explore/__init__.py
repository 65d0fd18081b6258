"""Explorers: figures with controls that a page shows without a kernel and a notebook with one
computes live.
"""

from course_lib.book.explore.grid import Axis, Explorer, Field, Layer, Row
from course_lib.book.explore.inference import CONTEXT, MODELS, decode, upgrade
from course_lib.book.explore.operators import CHIPS, DTYPES, batch, network, roofline

__all__ = [
    "CHIPS",
    "CONTEXT",
    "DTYPES",
    "MODELS",
    "Axis",
    "Explorer",
    "Field",
    "Layer",
    "Row",
    "batch",
    "decode",
    "network",
    "roofline",
    "upgrade",
]
