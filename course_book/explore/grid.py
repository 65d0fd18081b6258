"""Quantities computed for every choice, the controls that choose, and what is shown of a choice.

Nothing here knows a formula: each explorer says what is computed. What a page holds is this table;
a notebook with a live kernel computes the same quantities for any other value.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal, Self, TypeAlias

import msgspec

from course_lib.core.checks import known, unfit
from course_lib.specs import load_toml
from course_book.files import DATA
from course_book.plot.colors import PATHS
from course_book.text import n, t

# Shown where there is no value.
NONE = "–"
EXPLORERS: Mapping[str, Any] = load_toml(DATA / "explorers.toml", dict)

Compute = Callable[[Mapping[str, Sequence[Any]]], Mapping[str, "Field"]]


@dataclass(frozen=True, slots=True)
class Axis:
    """What quantities depend on, and the control that chooses one of its values.

    Parameters
    ----------
    values : what is computed for.
    label : what the control is called; empty where a line runs along the axis.
    texts : how the values are shown; numbers as `n` writes them where not given.
    start : the value chosen at first.
    of : the axis whose values this control chooses from as well, having none of its own.
    groups : for each value the name of the group that it stands in, in a list.
    more : further values and how they are shown, too many for a page's table: live widgets offer
        them too.
    fine : whether the values are so many numbers that a page computes what follows from them, and
        its slider goes by their ratios.
    """

    values: Sequence[Any] = ()
    label: str = ""
    texts: Sequence[str] = ()
    start: Any = None
    of: str = ""
    groups: Sequence[str] = ()
    more: Sequence[tuple[Any, str]] = ()
    fine: bool = False

    @property
    def numeric(self) -> bool:
        """Whether any number would do: a slider on the page, a field to type into in a notebook."""
        return bool(self.values) and (
            self.fine or all(isinstance(value, int) for value in self.values)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One quantity over some axes, an array with a dimension for each; NaN where there is none.
    Where `words` are given, values are places in this list; else `unit` is as `n` takes it.
    """

    axes: tuple[str, ...]
    values: Any
    unit: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChartLayer:
    """What is drawn: a mark for each place along `along`, or a line through them all.

    Parameters
    ----------
    mark : ``"line"``, ``"dash"``, ``"dot"``, ``"turn"`` (where the bound changes), ``"rule"``
        (upright) or ``"level"``; on a map, a ``"cell"``, a ``"hatch"`` (a cell that is crossed
        out) or the ``"frame"`` of a cell.
    x, y : the quantities drawn; a rule has no `y`, a level no `x`.
    along : axes that it runs along; of several, a line for each place on the first ones.
    at : for an axis, the control that chooses its value, where that is not its own.
    color : place in the page's colors, ``"@chip"`` for that of what stands at an axis, or
        ``"muted"``; by the order of what it runs along where not given.
    name : in a figure: ``"@chip"`` for the value of an axis, else as it is.
    bend : the quantities `x` and `y` of a further point, where the line bends between its values.
    shade : the quantity that is written in a cell, the darker the more it has of; where it has
        none, nothing is drawn.
    tip : what is said of a cell under the pointer, as the cells of a row.
    """

    mark: Literal["line", "dash", "dot", "turn", "rule", "level", "cell", "hatch", "frame"]
    x: str = ""
    y: str = ""
    along: tuple[str, ...] = ()
    at: Mapping[str, str] = field(default_factory=dict)
    color: int | str | None = None
    name: str = ""
    bend: tuple[str, str] | None = None
    shade: str = ""
    tip: tuple[str, ...] = ()

    @property
    def tiled(self) -> bool:
        """Whether it stands on a map, whose axes are marked at its cells alone."""
        return self.mark in ("cell", "hatch", "frame")


@dataclass(frozen=True, slots=True)
class TableRow:
    """Rows of the table beside the figure, one for each place along `along`, whose cells are
    ``"@chip"`` for the value of an axis, ``"=text"`` for itself, else a quantity. With a color, or
    something to run along, a row is marked as its line is.
    """

    cells: Sequence[str]
    along: tuple[str, ...] = ()
    at: Mapping[str, str] = field(default_factory=dict)
    color: int | str | None = None


Drawn: TypeAlias = ChartLayer | TableRow
Place: TypeAlias = Mapping[str, int]  # an index by axis, or by control of a state


@dataclass(eq=False)
class Grid:
    """Quantities for every choice, and what a figure and a table show of one."""

    name: str
    axes: Mapping[str, Axis]
    compute: Compute
    layers: Sequence[ChartLayer]
    rows: Sequence[TableRow]
    _: KW_ONLY
    head: Sequence[str] = ()
    x_label: str
    y_label: str

    def __post_init__(self) -> None:
        self.state()  # raises where a control cannot stand at its start

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        return self.compute({name: axis.values for name, axis in self.axes.items() if not axis.of})

    @property
    def controls(self) -> dict[str, Axis]:
        """The axes that something chooses on."""
        return {name: axis for name, axis in self.axes.items() if axis.label}

    def chosen_axis(self, control: str) -> Axis:
        """The axis that a control chooses on: its own, or another's."""
        return self.axes[self.axes[control].of or control]

    def values(self, control: str) -> Sequence[Any]:
        """The values that a control chooses from."""
        return self.chosen_axis(control).values

    def texts(self, control: str) -> Sequence[str]:
        """How the values of a control are shown."""
        axis = self.chosen_axis(control)
        return axis.texts or [n(value) if axis.numeric else str(value) for value in axis.values]

    def state(self, **chosen: Any) -> dict[str, int]:
        """Where each control stands: at its start, or at the value chosen."""
        for name in chosen:
            known("control", name, self.controls, f"of the explorer {self.name!r}")
        picked = {name: chosen.get(name, axis.start) for name, axis in self.controls.items()}
        for name, value in picked.items():
            if value not in self.values(name):
                offered = ", ".join(map(str, self.values(name)))
                if self.axes[name].fine:
                    offered = f"{self.values(name)[0]} to {self.values(name)[-1]}, in steps"
                wanted = f"be one that the explorer {self.name!r} offers: {offered}"
                raise unfit(name, wanted, value)
        return {name: list(self.values(name)).index(value) for name, value in picked.items()}

    def shown(self, **chosen: Any) -> list[list[str]]:
        """The rows of the table beside the figure for a choice: a value by control or its start."""
        state = self.state(**chosen)
        return [
            [self.text(cell, place) for cell in row.cells]
            for row in self.rows
            for place in self.places(row, state)
        ]

    def places(
        self, shown: Drawn, state: Place, along: Sequence[str] | None = None
    ) -> Iterator[dict[str, int]]:
        """An index by axis for each place that a layer runs along, the others as controls stand."""
        free = shown.along if along is None else along
        fixed = {**state, **{axis: state[control] for axis, control in shown.at.items()}}
        for place in product(*(range(len(self.axes[axis].values)) for axis in free)):
            yield {**fixed, **dict(zip(free, place, strict=True))}

    def number(self, name: str, place: Place) -> float:
        """A quantity at a place; NaN where there is none."""
        one = self.fields[name]
        return float(one.values[tuple(place[axis] for axis in one.axes)])

    def text(self, cell: str, place: Place) -> str:
        """A cell as it is written."""
        if cell[:1] == "@":
            return self.texts(cell[1:])[place[cell[1:]]]
        if cell[:1] == "=":
            return cell[1:]
        value, one = self.number(cell, place), self.fields[cell]
        if one.words:
            return one.words[int(value)] if value == value else NONE
        if math.isinf(value):
            return t("never")
        return n(value, one.unit) if value == value else NONE

    def offered(self, control: str) -> list[tuple[Any, str]]:
        """What a control chooses from, on a page or in a live kernel alone, and how it is shown."""
        axis = self.chosen_axis(control)
        return [*zip(axis.values, self.texts(control), strict=True), *axis.more]

    def at(self, chosen: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """The same holding this choice alone, or besides the values that lines run along."""
        runs = {axis for layer in self.layers for axis in layer.along}
        axes = {}
        for name, axis in self.axes.items():
            start = chosen[name] if axis.label else axis.start
            axes[name] = replace(axis, start=start)
            if axis.of or (not axis.label and name in runs):
                continue
            picked = [
                chosen[control]
                for control, other in self.axes.items()
                if other.label and name in (control, other.of)
            ]
            values = sorted({*axis.values, *picked}) if name in runs else dict.fromkeys(picked)
            texts = () if axis.numeric else map(dict(self.offered(name)).__getitem__, values)
            changed: dict[str, Any] = {"values": tuple(values), "texts": tuple(texts)}
            axes[name] = replace(axes[name], groups=(), **changed)
        return replace(self, axes=axes), dict(chosen)


def drawn(name: str) -> dict[str, Any]:
    """What `data/explorers.toml` says that an explorer draws and writes, in the page's language.

    Examples
    --------
    >>> drawn("batch")["head"][3]
    'bound'
    """
    kinds = {"layers": list[ChartLayer], "rows": list[TableRow]}
    given = _said(EXPLORERS[name])
    return {key: msgspec.convert(one, kinds.get(key, Any)) for key, one in given.items()}


def _said(given: Any) -> Any:
    """With words in the page's language, and colors by their places."""
    if isinstance(given, str):
        return re.sub("<([a-z-]+)>", lambda word: t(word[1]), given)
    if isinstance(given, list):
        return list(map(_said, given))
    if isinstance(given, dict):
        own = (
            {"color": PATHS.get(color, color)} if (color := given.get("color")) is not None else {}
        )
        return {key: _said(one) for key, one in given.items()} | own
    return given
