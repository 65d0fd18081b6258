"""What was measured, in words, tables and figures."""

from course_lib.book.reports import collectives, operators, products

__all__ = ["collectives", "operators", "products"]
