"""What results look like on a page: the library's printers, by `COURSE_PRINT`."""

from course_press.outputs.forms import both, html_block, notebook, site

__all__ = ["both", "html_block", "notebook", "site"]
