"""What was measured, in words, tables and figures."""

from course_book.reports import collectives, kernels, ladder, operators, products, programs, serving

__all__ = ["collectives", "kernels", "ladder", "operators", "products", "programs", "serving"]
