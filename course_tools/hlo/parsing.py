"""Reads the text of a program that XLA has compiled: computations, their instructions, and what
uses what.

XLA is the compiler below JAX; its text is called HLO. One instruction is one line, and a
computation that another one calls stands above it.
"""

import re
from math import prod
from typing import NamedTuple

from course_lib.core.checks import CourseError, shown

HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
LINE = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.+)$")
ARRAY = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]")
CALLS = re.compile(r"\b(?:calls|to_apply|(?:true|false)_computation)=%?([\w.\-]+)")
BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
TRIPS = re.compile(r'"?known_trip_count"?[:=]\{"?n"?[:=]"?(\d+)"?\}')
UNFOLDED = {"fusion": "calls", "call": "to_apply"}
"""Instructions that stand for others, and what names the computation that holds those."""
FORMATS = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "s8": "int8", "s4": "int4"}
"""Formats by XLA's names for them, where the course has one of its own."""


class HloArray(NamedTuple):
    """An array as one chip has it: its format, as XLA writes it, and its sizes."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    def size(self, dtype: str = "") -> float:
        """Bytes, in its own format or in another one."""
        return self.elements * bits(dtype or self.dtype) / 8


class Instruction(NamedTuple):
    """One line: its arrays are those of its result, one after another where it is a tuple."""

    name: str
    opcode: str
    arrays: tuple[HloArray, ...]
    operands: tuple[str, ...]
    more: str
    root: bool = False

    def attribute(self, name: str) -> str:
        """What stands behind `name=`, up to the next comma; empty where it does not."""
        if not name:
            return ""
        found = re.search(rf"\b{name}=%?([\w.\-]+)", self.more)
        return found[1] if found else ""

    @property
    def called(self) -> list[str]:
        """The computations that it calls once."""
        branches = BRANCHES.search(self.more)
        listed = re.findall(r"[\w.\-]+", branches[1]) if branches else []
        return CALLS.findall(self.more) + listed

    @property
    def trips(self) -> int | None:
        """How often a loop runs, where the compiler knew."""
        found = TRIPS.search(self.more)
        return int(found[1]) if found else None


class Computation(NamedTuple):
    """Instructions by name, and the names of those that use each. Fusions and calls are taken
    apart: what one does stands among the rest, and its result under the name of the fusion.
    """

    instructions: dict[str, Instruction]
    users: dict[str, list[str]]

    def uses(self, name: str) -> list[Instruction]:
        """What uses a value."""
        return [self.instructions[user] for user in self.users.get(name, [])]

    def add(self, one: Instruction) -> None:
        """Put an instruction behind the others."""
        self.instructions[one.name] = one
        for operand in dict.fromkeys(one.operands):
            self.users.setdefault(operand, []).append(one.name)

    def unfold(self, fusion: Instruction, inner: "Computation") -> None:
        """Put what a fusion does behind the others."""
        names = {
            one.name: fusion.operands[number]
            for one in inner.instructions.values()
            if one.opcode == "parameter"
            and (number := int(one.more.partition(")")[0])) < len(fusion.operands)
        }
        for one in inner.instructions.values():
            if one.opcode != "parameter":
                names[one.name] = fusion.name if one.root else f"{fusion.name}/{one.name}"
                operands = tuple(names.get(operand, operand) for operand in one.operands)
                root = one.root and fusion.root
                self.add(one._replace(name=names[one.name], operands=operands, root=root))
        if fusion.name not in self.instructions:  # it returns what it was given
            self.add(fusion._replace(opcode="copy"))


class HloProgram(NamedTuple):
    """A compiled program: its computations by name, where it begins, and on how many devices."""

    computations: dict[str, Computation]
    entry: str
    devices: int


def bits(dtype: str) -> int:
    """Bits of an element, by XLA's name of its format: the first number in it."""
    found = re.search(r"\d+", dtype)
    return int(found[0]) if found else 8 if dtype == "pred" else 0


def program(text: str) -> HloProgram:
    r"""Read a compiled program.

    Parameters
    ----------
    text : what ``compiled.as_text()`` of JAX returns.

    Raises
    ------
    CourseError
        If it is no such text.

    Examples
    --------
    >>> program("HloModule m, num_partitions=8\n\nENTRY %main () -> f32[] {\n"
    ...     "  ROOT %zero = f32[] constant(0)\n}\n").devices
    8
    """
    if not isinstance(text, str) or not text.lstrip().startswith("HloModule"):
        raise CourseError(
            f"text must be a compiled program, as compiled.as_text() returns it (got {shown(text)})"
        )
    computations: dict[str, Computation] = {}
    entry, open_ = "", None
    for line in re.sub(r"/\*.*?\*/", "", text).splitlines():
        if header := HEADER.match(line):
            open_ = computations[header[2]] = Computation({}, {})
            entry = header[2] if header[1] else entry
        elif line.startswith("}"):
            open_ = None
        elif open_ is not None and (found := LINE.match(line)):
            one = _instruction(found[2], found[3], bool(found[1]))
            callee = one.attribute(UNFOLDED.get(one.opcode, ""))
            inner = computations.get(callee) if callee else None
            if inner is None or inner is open_:
                open_.add(one)
            else:
                open_.unfold(one, inner)
    if not entry:
        raise CourseError("text must hold an ENTRY computation: pass all of compiled.as_text()")
    head = text.lstrip().partition("\n")[0]
    counts = re.findall(r"\b(?:num_partitions|replica_count)=(\d+)", head)
    return HloProgram(computations, entry, prod(map(int, counts)))


def _instruction(name: str, line: str, root: bool) -> Instruction:
    """Parse what stands behind the equals sign: a shape, an opcode, operands, attributes."""
    end = _closed(line, 0) if line.startswith("(") else line.find(" ")
    opcode, _, rest = line[end:].strip().partition("(")
    close = _closed(f"({rest}", 0) - 1
    operands = tuple(re.findall(r"%([\w.\-]+)", rest[: max(close, 0)]))
    arrays = tuple(
        HloArray(dtype, tuple(int(size) for size in sizes.split(",") if size))
        for dtype, sizes in ARRAY.findall(line[:end])
    )
    more = rest if opcode == "parameter" else rest[close:]
    return Instruction(name, opcode.strip(), arrays, operands, more, root)


def _closed(text: str, start: int) -> int:
    """The place behind the parenthesis that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)
