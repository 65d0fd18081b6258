"""The templates of pages and of what stands on them; scripts and styles as readers get them."""

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = Path(__file__).parents[1] / "assets"


def lean(text: str) -> str:
    """A script or a style sheet without its comments and indentation."""
    text = re.sub(r"(?s)^[ \t]*/\*.*?\*/\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"(?m)^[ \t]*(?://.*)?\n?", "", text)
    return re.sub(r"(?m)[ \t]+// .*$", "", text)


@functools.cache
def templates() -> "Environment":
    """The templates, scripts and styles without what only their readers here need; a name that is
    not given is an error.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def read(name: str) -> str:
        text = (ASSETS / name).read_text(encoding="utf-8")
        return lean(text) if name.endswith(".html") else text

    how: Any = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=FunctionLoader(read), autoescape=True, **how)


def filled(name: str, /, **given: Any) -> str:
    """A template of `assets` with what it leaves open."""
    return templates().get_template(f"{name}.html.j2").render(**given)
