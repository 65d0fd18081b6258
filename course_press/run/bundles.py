"""What a cell gave, of which some has a form for each thing that is printed."""

from collections.abc import Mapping
from typing import Any, Literal

# The MIME type of a bundle of bundles, one for each form.
FORMS = "application/vnd.course.forms+json"


def form(data: Mapping[str, Any], to: Literal["site", "notebook"]) -> dict[str, Any]:
    """The data of an output, as a kernel gave it, in one form; the only one of what has no several.

    Examples
    --------
    >>> shown = {FORMS: {"site": {"text/markdown": "*a*"}, "notebook": {"text/markdown": "a"}}}
    >>> form({**shown, "text/plain": "a"}, "site"), form({"text/plain": "a"}, "site")
    ({'text/markdown': '*a*', 'text/plain': 'a'}, {'text/plain': 'a'})
    """
    rest = {kind: value for kind, value in data.items() if kind != FORMS}
    return {**data.get(FORMS, {}).get(to, {}), **rest}
