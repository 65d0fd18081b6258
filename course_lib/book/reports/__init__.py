"""What was measured, in words, tables and figures."""

from course_lib.book.reports import (
    collectives,
    kernels,
    ladder,
    operators,
    products,
    programs,
    serving,
)

__all__ = ["collectives", "kernels", "ladder", "operators", "products", "programs", "serving"]
