"""Scenes: shapes whose places and colours change from step to step, each step with a sentence."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from course_lib.core.checks import CourseError, known
from course_lib.specs import load_toml
from course_book.files import DATA
from course_book.plot.colors import LINES, PATHS
from course_book.plot.figure import GRID, INK, SHADES, on_paper
from course_book.plot.labels import MUTED, is_wide
from course_book.text import Shown, n, t, widget_bundle

# Widths of a scene, for a page and for a phone, in pixels at full size.
WIDE, NARROW = 720, 360
# Colors by what they stand for.
TONES = {
    "ink": ("ink", INK),
    "muted": ("muted", MUTED),
    "grid": ("grid", GRID),
    "chip": ("1", LINES[0]),
    **{name: (str(tone + 1), LINES[tone]) for name, tone in PATHS.items()},
    "alarm": ("6", LINES[5]),
    "memory-soft": ("shade-1", SHADES[0]),
    "cache-soft": ("shade-2", SHADES[1]),
    "math-soft": ("shade-3", SHADES[2]),
}
GIVEN: Mapping[str, Any] = load_toml(DATA / "moving.toml", dict)
# What SVG calls the attributes that have a shorter name here
_SVG = GIVEN["svg"]
_READING = 24.0  # Seconds in which all sentences of a play are read, where they are many


class Running(str):
    """A number as `n` writes it. As the text of a shape it runs from step to step, as bars do.

    Examples
    --------
    >>> Running(0.0025, "s"), Running(0.0025, "s").number
    ('2.5 ms', 0.0025)
    """

    number: float
    unit: str

    def __new__(cls, number: float, unit: str) -> "Running":
        one = super().__new__(cls, n(number, unit))
        one.number, one.unit = float(number), unit
        return one


@dataclass(eq=False)
class Shape:
    """A shape of SVG: attributes that never change, and by attribute its value from a step on."""

    scene: "Scene" = field(repr=False)
    tag: str
    fixed: Mapping[str, str]
    tracks: dict[str, dict[int, Any]]

    def to(self, **changes: Any) -> "Shape":
        """Change attributes from this step on: x, tone, text and what else it was made with."""
        for name, value in changes.items():
            known("attribute", name, self.tracks, f"of a {self.tag}")
            self.tracks[name][len(self.scene.says) - 1] = _checked(name, value)
        return self

    def at(self, name: str, step: int) -> Any:
        """The value of an attribute at a step."""
        track = self.tracks[name]
        return track[max(since for since in track if since <= step)]


class Scene:
    """A drawing of so many pixels, and its steps. The first step is there from the start.

    Parameters
    ----------
    width, height : px.
    says : what is said of the first step.
    seconds : how long a player takes from it to the next.

    Examples
    --------
    >>> scene = Scene(200, 50, "A byte waits.")
    >>> byte = scene.rect(0, 10, 8, 8, tone="memory")
    >>> scene.step("It arrives.", seconds=0.5)
    >>> byte.to(x=180).at("x", 1)
    180.0
    """

    def __init__(self, width: float, height: float, says: str = "", seconds: float = 0.8) -> None:
        self.width, self.height = width, height
        self.says, self.seconds = [says], [seconds]
        self.shapes: list[Shape] = []

    @property
    def narrow(self) -> bool:
        """Whether it is drawn for a phone."""
        return self.width < WIDE

    def places(self, name: str) -> list[Any]:
        """What it has where, from the data file, which gives its height, too."""
        found: list[Any] = GIVEN["places"][name]["narrow" if self.narrow else "wide"]
        self.height = found[0]
        return found[1:]

    def step(self, says: str = "", seconds: float = 0.8, *, first: bool = False) -> None:
        """Begin the next step, or say what the first is: what shapes do now belongs to it."""
        if first:
            self.says, self.seconds = [], []
        self.says.append(says)
        self.seconds.append(seconds)

    def rect(self, x: float, y: float, width: float, height: float, **more: Any) -> Shape:
        """A rectangle: `tone` fills it, `line` is the tone of its edge, `round` its corners."""
        return self._add("rect", more, x=x, y=y, width=width, height=height)

    def circle(self, cx: float, cy: float, r: float, **more: Any) -> Shape:
        """A circle."""
        return self._add("circle", more, cx=cx, cy=cy, r=r)

    def line(self, x1: float, y1: float, x2: float, y2: float, **more: Any) -> Shape:
        """A straight line, `thick` px; with a `flow` its dashes run so many px back."""
        flow = {"flow": more.pop("flow")} if "flow" in more else {}
        return self._add("line", {"line": "muted", **more}, x1=x1, y1=y1, x2=x2, y2=y2, **flow)

    def path(self, d: str, **more: Any) -> Shape:
        """A path that stays where it is, edged and not filled unless a `tone` is given."""
        return self._add("path", {"tone": "none", "line": "muted", "d": d, **more})

    def text(self, x: float, y: float, text: str, **more: Any) -> Shape:
        """A line of text; `anchor` is start, middle or end, `bold` and `halo` are flags."""
        if self.narrow:  # a phone shows it a tenth smaller
            more["size"] = max(12.5, float(more.get("size", 13)))
        return self._add("text", {"tone": "ink", **more}, x=x, y=y, text=text)

    def value(self, x: float, y: float, text: str = "", **more: Any) -> Shape:
        """A bold number that ends here."""
        return self.text(x, y, text, **{"anchor": "end", "bold": True} | more)

    def label(self, x: float, y: float, text: str, **more: Any) -> Shape:
        """A muted word, of a number or an axis."""
        return self.text(x, y, text, **{"tone": "muted"} | more)

    def row(self, x: float, end: float, y: float, name: str, value: str = "") -> Shape:
        """A number at the end of a row that begins with its name."""
        self.label(x, y, name)
        return self.value(end, y, value)

    def gauge(
        self, x: float, end: float, y: float, name: str, value: str, seen: float = 1.0, **look: Any
    ) -> tuple[Shape, Shape]:
        """A bar that fills from the left, with its name and its value above it."""
        self.label(x, y - 7, name, opacity=seen)
        self.rect(x, y, end - x, 14, tone="grid", opacity=0.6 * seen, round=3)
        return self.rect(x, y, 0, 14, round=3, **look), self.value(end, y - 7, value)

    def bar(
        self, x: float, start: float, end: float, y: float, name: str, tall: float, **more: Any
    ) -> Shape:
        """The ground of a bar with its name beside or above it; where its value goes."""
        if self.narrow:
            self.label(start, y - 6, name, size=12)
            value = self.value(end, y - 6, size=12, **more)
        else:
            self.label(x, y + 13, name)
            value = self.value(start - 12, y + 13)
        self.rect(start, y, end - start, tall, tone="grid", opacity=0.4)
        return value

    def legend(
        self, looks: dict[str, Any], x: float, y: float, across: float, in_line: int, **letters: Any
    ) -> None:
        """Squares as things look, by what they are called, so many in a line."""
        side = 10 if letters.get("size") == 12 else 12
        for i, (name, look) in enumerate(looks.items()):
            left, line = x + across * (i % in_line), y + 19 * (i // in_line)
            self.rect(left, line - (side + 8) / 2, side, side, **look)
            self.text(left + 1.5 * side, line, name, **letters)

    def write(self, shapes: Iterable[Shape], texts: Iterable[str]) -> None:
        """Change the texts of these from this step on."""
        for shape, text in zip(shapes, texts, strict=True):
            shape.to(text=text)

    def ticks(
        self, x: float, y: float, apart: float, names: Sequence[str], below: float = 18
    ) -> None:
        """Marks below an axis, the first name beginning at its mark."""
        for i, name in enumerate(names):
            at = x + i * apart
            self.line(at, y, at, y + 5, thick=1)
            self.label(at, y + below, name, anchor="middle" if i else "start", size=12)

    def _add(self, tag: str, more: Mapping[str, Any], **moving: Any) -> Shape:
        first = len(self.says) - 1
        tone, line = more.get("tone", "ink"), more.get("line", "none")
        moving |= {"opacity": more.get("opacity", 1.0), "tone": tone, "line": line}
        tracks = {name: {0: _checked(name, value)} for name, value in moving.items()}
        if first:  # nobody sees it before its step
            tracks["opacity"] = {0: 0.0, first: tracks["opacity"][0]}
        fixed = {
            _SVG.get(name, name): f"{value:g}" if isinstance(value, float) else str(value)
            for name, value in more.items()
            if name not in ("tone", "line", "opacity", "bold", "halo")
        }
        if flags := [flag for flag in ("bold", "halo") if more.get(flag)]:
            fixed["class"] = " ".join(flags)
        shape = Shape(self, tag, fixed, tracks)
        self.shapes.append(shape)
        return shape


def _checked(name: str, value: Any) -> Any:
    if name == "text":
        return value if isinstance(value, Running) else str(value)
    if name in ("tone", "line"):
        return value if value == "none" else known("tone", value, TONES)
    return round(float(value), 1)


def both(draw: Callable[..., Scene], *given: Any) -> tuple[Scene, Scene]:
    """A scene for a page and its twin for a phone."""
    return draw(WIDE, *given), draw(NARROW, *given)


def slowed(chip: str, times: float, digits: int | None = 2) -> str:
    """How many times slower than on the chip a picture plays."""
    return t("moving-slower").format(chip=chip, times=n(times, digits=digits))


def paced(longest: float, seconds: float) -> float:
    """Seconds of the chip a second of the page, in one digit, to play so long in about so many."""
    return float(f"{longest / seconds:.1g}")


def passed(time: float, start: float, end: float) -> float:
    """How much of a span is over at a time."""
    return min(max(time - start, 0), end - start)


class Moving(Shown):
    """A picture that moves, as scenes: one for each choice, each for a page and for a phone.

    A page has it with play, step and scrub. Paper, and a reader without JavaScript, has the step
    `still` with its sentence; a notebook with a live kernel a slider.

    Parameters
    ----------
    name : what it is of, for ids.
    scenes : by what the choice is called, the wide scene and the narrow one. All have the same
        shapes, so that a choice changes what they do and not what they are.
    label : what is chosen; nothing where there is one scene.
    still : the step shown at first; the last one if not given.
    start : the choice shown at first; the first one if not given.

    Raises
    ------
    CourseError
        If scenes differ in their shapes, or a wide scene and its narrow twin in their steps.
    """

    def __init__(
        self,
        name: str,
        scenes: Mapping[str, tuple[Scene, Scene]],
        *,
        label: str = "",
        still: int | None = None,
        start: str | None = None,
    ) -> None:
        self.name, self.scenes, self.label = name, dict(scenes), label
        self.start = next(iter(self.scenes)) if start is None else known("start", start, scenes)
        self.still = len(self.scenes[self.start][0].says) - 1 if still is None else still
        for choice, (wide, narrow) in self.scenes.items():
            if wide.says != narrow.says or wide.seconds != narrow.seconds:
                raise CourseError(f"scenes[{choice!r}] must say the same at each step on a phone")
            for scene, first in zip((wide, narrow), self.scenes[self.start], strict=True):
                if [shape.tag for shape in scene.shapes] != [shape.tag for shape in first.shapes]:
                    raise CourseError(f"scenes[{choice!r}] must have the shapes of the others")

    def __repr__(self) -> str:
        return f"Moving({self.name!r})"

    def svg(
        self, choice: str | None = None, step: int | None = None, *, narrow: bool = False
    ) -> str:
        """A step as an `<svg>` element, in the colours of the page where it has some."""
        scene = self.scenes[choice or self.start][narrow]
        at = min(self.still if step is None else step, len(scene.says) - 1)
        body = "".join(_element(shape, at) for shape in scene.shapes)
        size = "narrow" if narrow else "wide"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{size} scene" '
            f'viewBox="0 0 {scene.width:g} {scene.height:g}" style="max-width: '
            f'{scene.width / 16:g}rem; font: 13px var(--font-sans, sans-serif)">'
            f"{body}</svg>"
        )

    def changes(self, choice: str, *, narrow: bool = False) -> list[tuple[int, str, list[Any]]]:
        """The place of each shape that moves or differs by choice, an attribute, and its values."""
        found = []
        drawn = [scenes[narrow].shapes for scenes in self.scenes.values()]
        scene = self.scenes[choice][narrow]
        for place, shape in enumerate(scene.shapes):
            for name, track in shape.tracks.items():
                # What any choice changes is said by all: each begins where another has left off.
                if any(v != track[0] for one in drawn for v in one[place].tracks[name].values()):
                    now = track[0]
                    values = [now := track.get(step, now) for step in range(len(scene.says))]
                    kept = values if len(set(values)) > 1 else values[:1]
                    found.append((place, _SVG.get(name, name), kept))
        return found

    def static_bundle(self) -> dict[str, Any]:
        """What a notebook without a kernel shows: letters are dark, so they get paper."""
        return {"image/svg+xml": on_paper(self.svg())}

    def live_bundle(self) -> dict[str, Any]:
        """The picture, and a slider where there is a kernel."""
        return self.static_bundle() | widget_bundle(self.widget)

    def widget(self) -> Any:
        """The picture as ipywidgets: what is chosen, and a step to slide or play."""
        import ipywidgets

        wide = self.scenes[self.start][0]
        choice = ipywidgets.Dropdown(
            options=list(self.scenes), value=self.start, description=self.label
        )
        step = ipywidgets.IntSlider(self.still, 0, len(wide.says) - 1)
        play = ipywidgets.Play(value=self.still, max=len(wide.says) - 1, interval=800)
        ipywidgets.jslink((play, "value"), (step, "value"))
        picture, said = ipywidgets.HTML(), ipywidgets.HTML()

        def show(_: Any = None) -> None:
            scene = self.scenes[choice.value][0]
            step.max = play.max = len(scene.says) - 1
            picture.value = on_paper(self.svg(choice.value, step.value))
            said.value = escape(scene.says[step.value])

        step.observe(show, "value")
        choice.observe(show, "value")
        show()
        controls = ipywidgets.HBox([play, step])
        return ipywidgets.VBox([choice, controls, picture, said][len(self.scenes) < 2 :])

    @property
    def id(self) -> str:
        """An id that the content decides."""
        content = "".join(self.svg(choice, 0) for choice in self.scenes)
        return f"{self.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def color(tone: str) -> str:
    """A tone as CSS: the page's own where it has one.

    Examples
    --------
    >>> color("memory"), color("none")
    ('var(--fig-2, #883c00)', 'none')
    """
    return "none" if tone == "none" else "var(--fig-{}, {})".format(*TONES[tone])


def _element(shape: Shape, step: int) -> str:
    attributes = dict(shape.fixed)
    text = ""
    style = []
    for name in shape.tracks:
        value = shape.at(name, step)
        if name == "text":
            text = escape(value)
        elif name == "tone":
            style.append(f"fill: {color(value)}")
        elif name == "line":
            if value != "none":
                style.append(f"stroke: {color(value)}")
        elif name != "opacity" or value != 1:
            attributes[_SVG.get(name, name)] = f"{value:g}"
    written = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f'<{shape.tag}{written} style="{"; ".join(style)};">{text}</{shape.tag}>'


def holds(says: Sequence[str], seconds: Sequence[float]) -> list[float]:
    """Seconds that a player waits at each step before it runs: a sentence that runs by faster than
    it is read stands first. A line gets a second, or less where all lines would take too long.

    Examples
    --------
    >>> holds(["One.", "One.", "Two.", "End."], [0.2, 0.2, 3.0, 0.8])
    [0.6, 0.0, 0.0, 0.0]
    """
    begins = [i for i in range(len(says) - 1) if not i or says[i] != says[i - 1]]
    ends = [*begins[1:], len(says) - 1]
    line = min(1.0, _READING / max(1, sum(rows([says[i]]) for i in begins)))
    found = [0.0] * len(says)
    for begin, end in zip(begins, ends, strict=True):
        lacking = line * rows([says[begin]]) - sum(seconds[begin:end])
        found[begin] = round(max(0.0, lacking), 2)
    return found


def rows(says: Sequence[str]) -> int:
    """How many lines of a phone the longest sentence takes: room that is kept for each.

    Examples
    --------
    >>> rows(["Short.", "x" * 100]), rows(["합" * 50])
    (3, 3)
    """
    return max(1, -(-max(sum(1 + is_wide(letter) for letter in text) for text in says) // 45))
