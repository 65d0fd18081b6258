"""Keeps what pure functions gave: the languages of a chapter, one after another in a kernel, ask
for the same.
"""

import copy
import functools
import io
import pickle
import sys
import tomllib
from collections.abc import Callable
from typing import Any

from course_lib.specs import Accelerator
from course_press.source.assets import ASSETS

# Functions of their arguments alone, by their modules.
PURE: dict[str, list[str]] = tomllib.loads((ASSETS / "kernels.toml").read_text("utf-8"))["pure"]
_given: dict[int, Any] = {}


class _Question(pickle.Pickler):
    """Names what has been given before by itself, and anything else by what it holds."""

    def persistent_id(self, one: Any) -> int | None:
        if isinstance(one, Accelerator):  # long, and the catalog's own: each is read once
            _given[id(one)] = one
        if id(one) in _given:
            return id(one)
        if getattr(one, "__module__", "") == "__main__":
            raise pickle.PicklingError  # another language's cell gives its name to something else
        return None


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    held: dict[bytes, Any] = {}

    @functools.wraps(function)
    def answer(*args: Any, **options: Any) -> Any:
        asked = io.BytesIO()
        try:
            _Question(asked, 5).dump((args, options))
        except (AttributeError, TypeError, pickle.PicklingError):  # a function without a name, say
            return function(*args, **options)
        key = asked.getvalue()
        if key not in held:
            held[key] = function(*args, **options)
            _given[id(held[key])] = held[key]
        # A list is the asker's own, to sort or to change.
        return copy.copy(held[key]) if isinstance(held[key], list) else held[key]

    return answer


def keep_pure(*spaces: dict[str, Any]) -> None:
    """Keep from now on what those of `PURE` give that have been imported, in all our modules and
    in these namespaces.
    """
    every = [vars(one) for name, one in sys.modules.items() if name.startswith("course_")]
    for module in PURE.keys() & sys.modules.keys():
        found = {name: getattr(sys.modules[module], name) for name in PURE.pop(module)}
        for name, function in found.items():
            kept = _kept(function)
            for space in (*every, *spaces):
                for own in [own for own, one in space.items() if one is function]:
                    space[own] = kept
