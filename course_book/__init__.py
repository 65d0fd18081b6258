"""What only pages and notebooks need: words and numbers, figures, explorers, exercises, reports."""

from course_book.text import glossary, n, t, table

__all__ = ["glossary", "n", "t", "table"]
