"""What was measured, in words, tables and figures."""

from course_lib.book.reports import collectives, ladder, operators, products

__all__ = ["collectives", "ladder", "operators", "products"]
