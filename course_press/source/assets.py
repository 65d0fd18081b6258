"""The templates of pages and of what stands on them; scripts and styles as readers get them."""

import functools
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

ASSETS = Path(__file__).parents[1] / "assets"


class _Lean(FileSystemLoader):
    """Scripts and styles of pages, without what only their readers here need."""

    def get_source(self, environment: Environment, template: str) -> Any:
        text, *rest = super().get_source(environment, template)
        return (lean(text) if template.endswith(".html") else text), *rest


def lean(text: str) -> str:
    """A script or a style sheet without its comments and indentation."""
    text = re.sub(r"(?s)^[ \t]*/\*.*?\*/\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"(?m)^[ \t]*(?://.*)?\n?", "", text)
    return re.sub(r"(?m)[ \t]+// .*$", "", text)


@functools.cache
def templates() -> Environment:
    """The templates; a name that is not given is an error."""
    how: Any = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=_Lean(ASSETS), autoescape=True, **how)


def filled(name: str, /, **given: Any) -> str:
    """A template of `assets` with what it leaves open."""
    return templates().get_template(f"{name}.html.j2").render(**given)
