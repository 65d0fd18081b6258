"""How a result shows itself: the only place that knows who prints it."""

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from typing import Any

from course_lib.core.checks import CourseError

GROUP = "course_book.printers"
"""Entry points of this group print results: each gives the MIME bundle of what it is called
with.
"""


def bundle(shown: Any, plain: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The MIME bundle of a thing: its printer's, or its own.

    Parameters
    ----------
    shown : what is to be shown.
    plain : gives its own bundle, for a notebook at work.

    Raises
    ------
    CourseError
        If `COURSE_PRINT` names a printer that is not installed.

    Examples
    --------
    >>> bundle(1.5, lambda: {"text/plain": "1.5"})
    {'text/plain': '1.5'}
    """
    name = os.environ.get("COURSE_PRINT", "")
    return _printer(name)(shown) if name else plain()


class Shown:
    """Something that a notebook shows: its own bundle, or what a printer makes of it."""

    def __repr__(self) -> str:
        # An address would change with each run.
        return f"<{type(self).__name__}>"

    def static_bundle(self) -> dict[str, Any]:
        """The MIME bundle that needs no kernel."""
        return {"text/markdown": repr(self)}

    def live_bundle(self) -> dict[str, Any]:
        """The MIME bundle in a notebook at work."""
        return self.static_bundle()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return bundle(self, self.live_bundle)


@cache
def _printer(name: str) -> Callable[[Any], dict[str, Any]]:
    # Not by `entry_points`, which takes a package's first metadata alone: in the book's folder,
    # where kernels run, that is what an earlier build may have left.
    found = {
        point.name: point
        for distribution in distributions()
        for point in distribution.entry_points
        if point.group == GROUP
    }
    if name not in found:
        raise CourseError(
            f"COURSE_PRINT must name a printer that is installed: {', '.join(sorted(found))}"
            f" (got {name!r}; pip install -e '.[press]' installs those of the press)"
        )
    printer: Callable[[Any], dict[str, Any]] = found[name].load()
    return printer


def widget_bundle(make: Callable[[], Any]) -> dict[str, Any]:
    """The MIME bundle of a widget where a live kernel can serve one; nothing elsewhere.

    Parameters
    ----------
    make : gives the widget.

    Examples
    --------
    >>> widget_bundle(lambda: None)
    {}
    """
    # A kernel has IPython loaded; nothing else needs it.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None or find_spec("ipywidgets") is None:
        return {}
    kind = "application/vnd.jupyter.widget-view+json"
    return {kind: {"version_major": 2, "version_minor": 0, "model_id": make().model_id}}
