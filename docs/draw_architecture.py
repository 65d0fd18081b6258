"""Draws docs/architecture.svg, every room on those that it may import by pyproject.toml's contracts,
and lists docs/rooms.md, every module by what it says of itself.

Run it as `python docs/draw_architecture.py`; another folder may follow.
"""

import ast
import sys
import tomllib
from pathlib import Path

from jinja2 import Environment

ROOT = Path(__file__).parent.parent
WIDTH, GAP, TALL, HEAD = 472, 8, 46, 34


def contracts() -> dict[str, list[list[str]]]:
    """The layers of each container, from the top, each with the rooms that stand side by side."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {
        one["containers"][0]: [
            [room.strip() for room in layer.replace(":", "|").split("|")] for layer in one["layers"]
        ]
        for one in written["contracts"]
        if one["type"] == "layers" and "containers" in one
    }


def sentence(module: str) -> str:
    """The first sentence of what a room says of itself."""
    place = ROOT.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return said.replace("\n", " ").partition(". ")[0].rstrip(".").replace("`", "")


def lines(text: str, width: float) -> list[str]:
    """A text cut into lines of that many pixels."""
    done = [""]
    for word in text.split():
        if done[-1] and 5.9 * len(f"{done[-1]} {word}") > width:
            done.append("")
        done[-1] = f"{done[-1]} {word}".strip()
    return done


def stack(container: str, layers: dict, x: float, y: float, width: float) -> tuple[list, float]:
    """The rooms of a container from the top down, and where they end."""
    found = []
    for layer in layers[container]:
        rooms = [room for room in layer if room != "__main__"]
        each = (width - GAP * (len(rooms) - 1)) / len(rooms) if rooms else 0
        end = y
        for at, room in enumerate(rooms):
            left, inner = x + at * (each + GAP), f"{container}.{room}"
            one = {"name": room, "says": sentence(inner), "x": left, "y": y, "width": each}
            if inner in layers:
                one["inside"], below = stack(inner, layers, left + GAP, y + HEAD, each - 2 * GAP)
            else:
                one["lines"] = lines(one["says"], each - 20)
                below = y + TALL + 15 * (len(one["lines"]) - 1)
            found.append(one | {"height": below - y})
            end = max(end, below)
        y = end + GAP if rooms else y
    return found, y


def picture() -> str:
    """The whole drawing."""
    layers = contracts()
    right = WIDTH + 44
    packages, low = [], 30.0
    for package in ("course_book", "course_tools", "course_lib"):
        rooms, below = stack(package, layers, 8, low + 18, WIDTH - 8)
        packages.append((package, low, rooms))
        low = below + 24
    press, end = stack("course_press", layers, right, 48, WIDTH - 8)
    given = {"packages": packages, "press": press, "right": right, "arrow": WIDTH - 300}
    given |= {"height": max(low - 16, end) + 30, "wide": right + WIDTH}
    template = (ROOT / "docs" / "architecture.svg.j2").read_text(encoding="utf-8")
    how = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return how.from_string(template).render(given) + "\n"


def index() -> str:
    """Every module in its room."""
    parts = ["# Every room, every module", "", "Each by the first sentence of its own docstring."]
    for package in ("course_lib", "course_tools", "course_book", "course_press"):
        for door in sorted((ROOT / package).rglob("__init__.py")):
            room = door.parent
            modules = sorted(file for file in room.glob("*.py") if file != door)
            if not modules:
                continue
            named = room.relative_to(ROOT).as_posix()
            parts += ["", f"## {named}", "", f"{sentence(named.replace('/', '.'))}.", ""]
            parts += [
                f"- [`{file.name}`](../{named}/{file.name}): "
                f"{sentence(f'{named}/{file.stem}'.replace('/', '.'))}"
                for file in modules
            ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs"
    (folder / "architecture.svg").write_text(picture(), encoding="utf-8")
    (folder / "rooms.md").write_text(index(), encoding="utf-8")
