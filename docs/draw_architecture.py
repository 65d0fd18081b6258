"""Draws docs/architecture.svg, every room on those that it may import by pyproject.toml's contracts,
and lists docs/rooms.md, every module by what it says of itself.

Run it as `python docs/draw_architecture.py`; another folder may follow.
"""

import ast
import sys
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
WIDTH, GAP, TALL, HEAD = 472, 8, 46, 34
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1b1f2a; }
  .says { font-size: 11.5px; fill: #545b6b; }
  .name { font-weight: 650; }
  .head { font-size: 15px; font-weight: 650; }
  rect { fill: #f4f6fb; stroke: #8d97ad; rx: 5px; }
  .floor { fill: none; stroke-dasharray: 4 3; }
  path { stroke: #545b6b; stroke-width: 1.4; fill: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8eaf0; } .says { fill: #aab2c4; }
    rect { fill: #232836; stroke: #6b7690; } .floor { fill: none; } path { stroke: #aab2c4; }
  }
"""


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


def stack(container: str, layers: dict, x: float, y: float, width: float) -> tuple[str, float]:
    """The rooms of a container from the top down, and where they end."""
    parts = []
    for layer in layers[container]:
        rooms = [room for room in layer if room != "__main__"]
        each = (width - GAP * (len(rooms) - 1)) / len(rooms) if rooms else 0
        end = y
        for at, room in enumerate(rooms):
            left, inner = x + at * (each + GAP), f"{container}.{room}"
            if inner in layers:
                body, below = stack(inner, layers, left + GAP, y + HEAD, each - 2 * GAP)
                parts.append(
                    f'<rect class="floor" x="{left:g}" y="{y:g}" width="{each:g}" height="{below - y:g}"/>'
                )
                head = f'<tspan class="name">{room}</tspan> <tspan class="says">{escape(sentence(inner))}</tspan>'
                parts += [f'<text x="{left + 10:g}" y="{y + 22:g}">{head}</text>', body]
                end = max(end, below)
                continue
            said = lines(sentence(inner), each - 20)
            tall = TALL + 15 * (len(said) - 1)
            parts.append(f'<rect x="{left:g}" y="{y:g}" width="{each:g}" height="{tall:g}"/>')
            parts.append(f'<text class="name" x="{left + 10:g}" y="{y + 19:g}">{room}</text>')
            for row, text in enumerate(said):
                parts.append(
                    f'<text class="says" x="{left + 10:g}" y="{y + 36 + 15 * row:g}">{escape(text)}</text>'
                )
            end = max(end, y + tall)
        y = end + GAP if rooms else y
    return "\n".join(parts), y


def picture() -> str:
    """The whole drawing."""
    layers = contracts()
    right = WIDTH + 44
    parts, low = [], 30.0
    for package in ("course_book", "course_tools", "course_lib"):
        parts.append(f'<text class="head" x="8" y="{low:g}">{package}</text>')
        body, low = stack(package, layers, 8, low + 18, WIDTH - 8)
        parts.append(body)
        low += 24
    library = "\n".join(parts)
    press, end = stack("course_press", layers, right, 48, WIDTH - 8)
    height, wide = max(low - 16, end) + 30, right + WIDTH
    says = "A room imports only from rooms below it, a package from packages below it. The press asks all three."
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {height:g}" width="{wide}" role="img" aria-labelledby="t">
<title id="t">The rooms of the library and of the press</title>
<style>{STYLE}</style>
<text class="head" x="{right}" y="30">course_press</text>
<path d="M{right - 8} 25H{WIDTH - 300}m8-5l-8 5l8 5"/>
{library}
{press}
<text class="says" x="8" y="{height - 10:g}">{says}</text>
</svg>
"""


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
