"""What results look like on a page: the library's printers, by `COURSE_PRINT`."""

from course_press.outputs.forms import FORMS, both, form, html_block, notebook, site

__all__ = ["FORMS", "both", "form", "html_block", "notebook", "site"]
