"""The collectives of a compiled program, read from the text (HLO) of XLA, the compiler below JAX:
one instruction a line, and a computation that another calls above it. XLA's CPU compiler adds bf16
in fp32 and converts before and after; what is counted here is the program as written.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from course_lib.core.checks import CourseError, Numbers, known, plain, unfit
from course_lib.core.links import LinkLike, as_link
from course_lib.network.collectives import seconds
from course_lib.network.sharding import SCHEMES
from course_tools.files import DATA

# What `network.cost` calls each of XLA's collectives.
KINDS = {
    "all-reduce": "all-reduce",
    "all-gather": "all-gather",
    "reduce-scatter": "reduce-scatter",
    "all-to-all": "all-to-all",
    "collective-permute": "send",
}
# Collectives of XLA's that `network` has no cost for.
OTHERS = ("collective-broadcast", "ragged-all-to-all")
# Instructions whose computation runs where they stand; others only add or compare by one.
CALLING = ("async-start", "call", "conditional", "fusion")
# Instructions that stand for others, and what names the computation that holds those.
UNFOLDED = {"fusion": "calls", "call": "to_apply"}
# Formats by XLA's names for them, where the course has one of its own.
FORMATS = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "s8": "int8", "s4": "int4"}
# Instructions that leave every number what it is, and where the collective has put it.
SHAPES = ("bitcast", "convert", "copy", "get-tuple-element", "reshape", "transpose")
PIECES = ("dynamic-slice", "slice")
HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
LINE = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.+)$")
ARRAY = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]")
CALLS = re.compile(r"\b(?:calls|to_apply|(?:true|false)_computation)=%?([\w.\-]+)")
BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
TRIPS = re.compile(r'"?known_trip_count"?[:=]\{"?n"?[:=]"?(\d+)"?\}')
PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
LISTED = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
IOTA = re.compile(r"replica_groups=(\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)")
MESH = re.compile(
    r"replica_groups=mesh\[([^\]]*)\]"
    r"(?:, ?device_ids=\(([^()]*(?:\([\d,]*\))?[^()]*)\))? ?\{([^}]*)\}"
)


class HloArray(NamedTuple):
    """An array as one chip has it: its format, as XLA writes it, and its sizes."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


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
        found = re.search(rf"\b{name}=%?([\w.\-]+)", self.more) if name else None
        return found[1] if found else ""


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
        names: dict[str, str] = {}
        for one in inner.instructions.values():
            if one.opcode == "parameter":
                number = int(one.more.partition(")")[0])
                if number < len(fusion.operands):
                    names[one.name] = fusion.operands[number]
                continue
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
    """Read a compiled program, what ``compiled.as_text()`` of JAX returns."""
    if not isinstance(text, str) or not text.lstrip().startswith("HloModule"):
        raise unfit("text", "be a compiled program, as compiled.as_text() returns it", text)
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
    end = _closed(line) if line.startswith("(") else line.find(" ")
    opcode, _, rest = line[end:].strip().partition("(")
    close = _closed(f"({rest}") - 1
    operands = tuple(re.findall(r"%([\w.\-]+)", rest[: max(close, 0)]))
    arrays = tuple(
        HloArray(dtype, tuple(int(size) for size in sizes.split(",") if size))
        for dtype, sizes in ARRAY.findall(line[:end])
    )
    more = rest if opcode == "parameter" else rest[close:]
    return Instruction(name, opcode.strip(), arrays, operands, more, root)


def _closed(text: str) -> int:
    """The place behind the parenthesis that closes the first."""
    depth = 0
    for place, letter in enumerate(text, 1):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return place
    return len(text)


@dataclass(frozen=True, slots=True)
class CompiledCollective:
    """One collective of a compiled program, as it was written."""

    collective: str  # as `network` calls it; a collective-permute is a "send"
    bytes: float  # of its message, counted as `network` counts them
    group: int  # chips that take part in one exchange: its n
    groups: tuple[tuple[int, ...], ...]  # the chips of each; of a send, source and target
    dtype: str
    widened: bool  # whether the compiler sends the numbers in a wider format
    # Whether this is an all-reduce of which every chip keeps only its own part: a reduce-scatter
    # that the compiler of this machine has left in two.
    sliced: bool
    loops: tuple[int | None, ...]  # runs of each loop around it, from the outermost, where known
    name: str  # the instruction's

    @property
    def times(self) -> int | None:
        """How often it runs; `None` where the text does not say."""
        known_runs = [trips for trips in self.loops if trips is not None]
        return prod(known_runs) if len(known_runs) == len(self.loops) else None


def compiled_collectives(text: str) -> tuple[CompiledCollective, ...]:
    """The collectives of a compiled program, in the order in which they run: one record for each,
    also where it runs many times.

    Of a reduction that the compiler promoted, and of an array that was converted from a narrower
    format for the exchange and back behind it, the narrower format counts: the CPU's compiler does
    that to bf16. An all-reduce of which each chip keeps the n-th part is counted as the
    reduce-scatter that it is.

    Parameters
    ----------
    text : what ``compiled.as_text()`` of JAX returns, of a program for any number of devices.

    Examples
    --------
    >>> text = '''HloModule m, num_partitions=8
    ...
    ... ENTRY %main (x: f32[8,4]) -> f32[64,4] {
    ...   %x = f32[8,4]{1,0} parameter(0)
    ...   ROOT %all = f32[64,4]{1,0} all-gather(%x), replica_groups=[1,8]<=[8], dimensions={0}
    ... }'''
    >>> found, = compiled_collectives(text)
    >>> found.collective, found.bytes, found.group, found.times
    ('all-gather', 1024.0, 8, 1)
    """
    try:
        whole = program(text)
        return tuple(_within(whole, whole.entry, (), (whole.entry,)))
    except CourseError:
        raise
    except (LookupError, OverflowError, RecursionError, ValueError) as error:
        said = f"text is no whole program ({type(error).__name__}: {error})"
        raise CourseError(f"{said}: pass all of compiled.as_text()") from None


def compiled_seconds(
    found: Sequence[CompiledCollective], link: LinkLike, *, algorithm: str | None = None
) -> Numbers:
    """Time of a program's collectives on a link, one after another, s: a lower bound.

    Examples
    --------
    >>> compiled_seconds([], 450e9)
    0.0
    """
    listed: Sequence[Any] = found if isinstance(found, list | tuple) else [found]
    for one in listed:
        if not isinstance(one, CompiledCollective):
            raise unfit(
                "found", "hold compiled collectives", found, "pass compiled_collectives(text)"
            )
    total = 0.0 * np.asarray(as_link(link).total_per_direction)
    for one in listed:
        if one.times is None:
            raise CourseError(
                f"found holds {one.name} in a loop whose number of runs is not in the text: "
                f"loop with jax.lax.scan, or a fori_loop between two plain numbers"
            )
        total = total + one.times * np.asarray(
            seconds(one.collective, one.bytes, link, one.group, algorithm)
        )
    return plain(total)


def compiled_example(scheme: str) -> str:
    """The text, without the tables of source files, of an MLP layer that lab 05 has compiled for
    eight of a CPU's devices; `scheme` is one of `sharded_mlp`.

    Examples
    --------
    >>> found, = compiled_collectives(compiled_example("tensor"))
    >>> found.collective, found.dtype, found.widened
    ('all-reduce', 'bf16', True)
    """
    file = DATA / "compiled" / f"{known('scheme', scheme, SCHEMES)}.txt"
    return file.read_text(encoding="utf-8")


def _within(
    whole: HloProgram, name: str, loops: tuple[int | None, ...], above: tuple[str, ...]
) -> Iterator[CompiledCollective]:
    """The collectives of a computation, and of those that it calls."""
    at = whole.computations.get(name)
    if at is None:
        return
    for one in at.instructions.values():
        kind = one.opcode.removesuffix("-start")
        if kind in KINDS:
            yield _collective(whole, at, one, kind, loops)
            continue
        if kind in OTHERS:
            raise CourseError(
                f"text holds {one.name}, a {kind}, which network does not count: it counts "
                f"{', '.join(KINDS)}"
            )
        inner = loops
        called: list[str] = []
        if one.opcode == "while":
            trips = TRIPS.search(one.more)
            inner = (*loops, int(trips[1]) if trips else None)
            called = [one.attribute("body")]
        elif one.opcode in CALLING:
            branches = BRANCHES.search(one.more)
            listed = re.findall(r"[\w.\-]+", branches[1]) if branches else []
            called = CALLS.findall(one.more) + listed
        for callee in called:
            if callee in above:
                raise CourseError(f"text has a computation that calls itself: {callee}")
            yield from _within(whole, callee, inner, (*above, callee))


def _collective(
    whole: HloProgram, at: Computation, one: Instruction, kind: str, loops: tuple[int | None, ...]
) -> CompiledCollective:
    groups = _groups(one, whole.devices)
    count = 2 if kind == "collective-permute" else len(groups[0]) if groups else 1
    arrays, value, many = one.arrays, one.name, len(one.operands)
    if one.opcode.endswith("-start"):
        # Its result lists the operands first, but for an all-reduce; it is used by the name of its
        # -done.
        arrays = arrays if kind == "all-reduce" else arrays[many : 2 * many]
        ends = [user.name for user in at.uses(value) if user.opcode.endswith("-done")]
        value = next(iter(ends), value)
    dtypes = {array.dtype for array in arrays}
    narrow = _narrower(at, one, value, next(iter(dtypes))) if len(dtypes) == 1 else ""
    size = sum(array.elements * bits(narrow or array.dtype) / 8 for array in arrays)
    if kind == "reduce-scatter":
        size *= count  # what each chip starts with; the result is its part
    sliced = kind == "all-reduce" and count > 1 and _sliced(at, value, count)
    written = narrow or min(dtypes, key=bits)
    return CompiledCollective(
        collective="reduce-scatter" if sliced else KINDS[kind],
        bytes=float(size),
        group=count,
        groups=groups,
        dtype=FORMATS.get(written, written),
        widened=bool(narrow),
        sliced=sliced,
        loops=loops,
        name=one.name,
    )


def _narrower(at: Computation, one: Instruction, value: str, dtype: str) -> str:
    """The format from which the compiler has widened a collective; empty where it has not."""
    behind = _converted(at, value)
    if target := one.attribute("to_apply"):
        # An addition says by its name that it was promoted; that a program goes on in a narrower
        # format says nothing of what it has added up.
        if "promoted" not in target:
            return ""
        for made in map(at.instructions.get, one.operands):  # from which format; empty for none
            source = made.operands[:1] if made and made.opcode == "convert" else ()
            before = at.instructions.get(source[0]) if source else None
            behind.add(before.arrays[0].dtype if before and before.arrays else "")
    elif len(behind) > 1:
        return ""
    narrow = {name for name in behind if name and bits(name) < bits(dtype)}
    return narrow.pop() if len(narrow) == 1 else "bf16" if target else ""


def _converted(at: Computation, value: str) -> set[str]:
    """The formats into which all users of a value convert it first; `""` for none."""
    found: set[str] = set()
    for user in at.uses(value):
        if user.opcode == "convert":
            found.add(user.arrays[0].dtype)
        else:
            moved = user.opcode in SHAPES + PIECES
            found |= _converted(at, user.name) if moved else {""}
    return found or {""}


def _sliced(at: Computation, value: str, count: int) -> bool:
    """Whether all that is ever used of a value is a piece, one of as many as there are chips."""
    for user in at.uses(value):
        if user.opcode == "dynamic-slice":
            before = at.instructions[user.operands[0]].arrays[0]
            if user.arrays[0].elements * count != before.elements:
                return False
        elif user.opcode not in SHAPES or not _sliced(at, user.name, count):
            return False
    return bool(at.uses(value))


def _groups(one: Instruction, devices: int) -> tuple[tuple[int, ...], ...]:
    """The chips of each exchange, in whichever form the text has them."""
    if pairs := PAIRS.search(one.more):
        return _braced(pairs[1])
    if iota := IOTA.search(one.more):
        return tuple(map(tuple, _iota(iota[1]).tolist()))
    if mesh := MESH.search(one.more):
        return _of_mesh(mesh[1], mesh[2] or "", mesh[3])
    listed = LISTED.search(one.more)
    return (_braced(listed[1]) if listed else ()) or (tuple(range(devices)),)


def _braced(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(int(chip) for chip in group.split(",") if chip)
        for group in re.findall(r"\{([\d,]*)\}", text)
    )


def _iota(text: str) -> np.ndarray:
    """Chips counted in one shape, turned, cut into another: ``[4,2]<=[2,4]T(1,0)``."""
    shape, arrow, rest = text.partition("<=")
    counted, _, turned = (rest if arrow else shape).partition("T")
    sizes = _whole_numbers(counted)
    chips = np.arange(np.prod(sizes)).reshape(sizes)
    if turned:
        chips = chips.transpose(_whole_numbers(turned))
    return chips.reshape(_whole_numbers(shape)) if arrow else chips


def _of_mesh(axes: str, chips: str, named: str) -> tuple[tuple[int, ...], ...]:
    """The groups along some axes of a mesh, or along parts of them: ``'a':(1)2`` is the first
    factor, of size 2, of axis a.
    """
    wanted: dict[str, list[tuple[int, int]]] = {}
    for axis, before, size in re.findall(r"'?([A-Za-z_][\w.\-]*)'?(?::\((\d+)\)(\d+))?", named):
        wanted.setdefault(axis, []).append((int(before or 1), int(size or 0)))
    sizes: list[int] = []
    along: list[int] = []
    for axis, length in re.findall(r"'?([\w.\-]+)'?=(\d+)", axes):
        spans = [(low, low * (size or int(length))) for low, size in wanted.get(axis, [])]
        # Where an axis is cut, each cut begins or ends a factor of its own.
        for low, high in pairwise(sorted({1, int(length), *(end for one in spans for end in one)})):
            if any(begin <= low and high <= end for begin, end in spans):
                along.append(len(sizes))
            sizes.append(high // low)
    listed = _whole_numbers(chips) or list(range(prod(sizes)))
    order = _iota(chips).ravel() if chips.startswith("[") else np.array(listed)
    across = [axis for axis in range(len(sizes)) if axis not in along]
    turned = order.reshape(sizes).transpose(across + along)
    count = prod(sizes[axis] for axis in along)
    return tuple(map(tuple, turned.reshape(-1, count).tolist()))


def _whole_numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
