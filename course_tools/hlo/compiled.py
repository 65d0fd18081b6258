"""The collectives of a compiled program, read from its text.

A program for several chips is compiled once, and the compiler decides what they exchange. Its text
says so. What it says of the CPU's programs is not always what was written: XLA's CPU compiler adds
bf16 in fp32, and converts before and after. What is counted here is the program as written.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from course_lib.core.checks import CourseError, Numbers, known, plain, shown
from course_lib.core.links import LinkLike, as_link
from course_lib.network.nodes import seconds
from course_lib.network.sharding import SCHEMES
from course_tools.files import DATA
from course_tools.hlo.parsing import (
    FORMATS,
    Computation,
    HloArray,
    HloProgram,
    Instruction,
    bits,
    program,
)

KINDS = {
    "all-reduce": "all-reduce",
    "all-gather": "all-gather",
    "reduce-scatter": "reduce-scatter",
    "all-to-all": "all-to-all",
    "collective-permute": "send",
}
"""What `network.cost` calls each of XLA's collectives."""
OTHERS = ("collective-broadcast", "ragged-all-to-all")
"""Collectives of XLA's that `network` has no cost for."""
CALLING = ("async-start", "call", "conditional", "fusion")
"""Instructions whose computation runs where they stand; others only add or compare by one."""
SHAPES = ("bitcast", "convert", "copy", "get-tuple-element", "reshape", "transpose")
"""Instructions that leave every number what it is, and where the collective has put it."""
PIECES = ("dynamic-slice", "slice")
PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
LISTED = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
IOTA = re.compile(r"replica_groups=(\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)")
MESH = re.compile(
    r"replica_groups=mesh\[([^\]]*)\]"
    r"(?:, ?device_ids=\(([^()]*(?:\([\d,]*\))?[^()]*)\))? ?\{([^}]*)\}"
)


@dataclass(frozen=True, slots=True)
class CompiledCollective:
    """One collective of a compiled program.

    Attributes
    ----------
    collective : as `network` calls it; a collective-permute is a ``"send"``.
    bytes : byte of its message as the program was written, counted as `network` counts them.
    group : chips that take part in one exchange: its ``n``.
    groups : the chips of each exchange; of a send, source and target.
    dtype : format of the numbers in the program as written.
    widened : whether the compiler sends them in a wider one.
    sliced : whether this is an all-reduce of which every chip keeps only its own part: a
        reduce-scatter that the compiler of this machine has left in two.
    loops : how often each loop around it runs, from the outermost; `None` where the text does not
        say.
    name : the instruction's.
    """

    collective: str
    bytes: float
    group: int
    groups: tuple[tuple[int, ...], ...]
    dtype: str
    widened: bool
    sliced: bool
    loops: tuple[int | None, ...]
    name: str

    @property
    def times(self) -> int | None:
        """How often it runs; `None` where the text does not say."""
        runs = 1
        for trips in self.loops:
            if trips is None:
                return None
            runs *= trips
        return runs


def compiled_collectives(text: str) -> tuple[CompiledCollective, ...]:
    """The collectives of a compiled program, in the order in which they run.

    Parameters
    ----------
    text : what ``compiled.as_text()`` of JAX returns, of a program for any number of devices.

    Returns
    -------
    One record for each collective, also where it runs many times. Of a reduction that the compiler
    promoted, and of an array that was converted from a narrower format for the exchange and back
    behind it, the narrower format counts: the CPU's compiler does that to bf16. An all-reduce of
    which each chip keeps the n-th part is counted as the reduce-scatter that it is.

    Raises
    ------
    CourseError
        If it is no compiled program, or has a collective that `network` does not count.

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
    """Time of a program's collectives on a link, one after another.

    Parameters
    ----------
    found : what `compiled_collectives` returns.
    link, algorithm : as of every collective.

    Returns
    -------
    s. A lower bound, as every time in `network`, where nothing overlaps. A collective that runs
    several times counts so often.

    Raises
    ------
    CourseError
        If one stands in a loop of which the text does not say how often it runs.

    Examples
    --------
    >>> compiled_seconds([], 450e9)
    0.0
    """
    listed: Sequence[Any] = found if isinstance(found, list | tuple) else [found]
    for one in listed:
        if not isinstance(one, CompiledCollective):
            raise CourseError(
                f"found must hold compiled collectives (got {shown(found)}): pass "
                f"compiled_collectives(text)"
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
    """The text of an MLP layer that lab 05 has compiled for eight of a CPU's devices.

    Parameters
    ----------
    scheme : one of `SCHEMES`, of `sharded_mlp`.

    Returns
    -------
    The text, without the tables of source files. Its sizes are in its first lines.

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
        called = one.called if one.opcode in CALLING else []
        if one.opcode == "while":
            inner, called = (*loops, one.trips), [one.attribute("body")]
        for callee in called:
            if callee in above:
                raise CourseError(f"text has a computation that calls itself: {callee}")
            yield from _within(whole, callee, inner, (*above, callee))


def _collective(
    whole: HloProgram, at: Computation, one: Instruction, kind: str, loops: tuple[int | None, ...]
) -> CompiledCollective:
    groups = _groups(one, whole.devices)
    count = 2 if kind == "collective-permute" else len(groups[0]) if groups else 1
    arrays, value = _result(one, kind), _value(at, one)
    dtypes = {array.dtype for array in arrays}
    narrow = _narrower(at, one, value, next(iter(dtypes))) if len(dtypes) == 1 else ""
    size = sum(array.size(narrow) for array in arrays)
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


def _result(one: Instruction, kind: str) -> tuple[HloArray, ...]:
    """The arrays of the result. What a -start returns lists the operands before them, but for an
    all-reduce.
    """
    many = len(one.operands)
    if one.opcode == kind or kind == "all-reduce":
        return one.arrays
    return one.arrays[many : 2 * many]


def _value(at: Computation, one: Instruction) -> str:
    """The name under which the result is used: of a -start, that of its -done."""
    if one.opcode.endswith("-start"):
        for user in at.users.get(one.name, []):
            if at.instructions[user].opcode.endswith("-done"):
                return user
    return one.name


def _narrower(at: Computation, one: Instruction, value: str, dtype: str) -> str:
    """The format from which the compiler has widened a collective; empty where it has not."""
    behind = _converted(at, value)
    if target := one.attribute("to_apply"):
        # An addition says by its name that it was promoted; that a program goes on in a narrower
        # format says nothing of what it has added up.
        if "promoted" not in target:
            return ""
        behind |= {_source(at, operand) for operand in one.operands}
    elif len(behind) > 1:
        return ""
    narrow = {name for name in behind if name and bits(name) < bits(dtype)}
    return narrow.pop() if len(narrow) == 1 else "bf16" if target else ""


def _converted(at: Computation, value: str) -> set[str]:
    """The formats into which everything that uses a value converts it first; `""` for one that
    does not.
    """
    found: set[str] = set()
    for user in at.uses(value):
        if user.opcode == "convert":
            found.add(user.arrays[0].dtype)
        elif user.opcode in SHAPES + PIECES:
            found |= _converted(at, user.name)
        else:
            found.add("")
    return found or {""}


def _source(at: Computation, name: str) -> str:
    """The format from which an operand was converted; empty where it was not."""
    one = at.instructions.get(name)
    if one is None or one.opcode != "convert" or not one.operands:
        return ""
    before = at.instructions.get(one.operands[0])
    return before.arrays[0].dtype if before and before.arrays else ""


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
    """Chips counted through in one shape, turned, and cut into another: ``[4,2]<=[2,4]T(1,0)``;
    without an arrow they stay in the shape that they were turned into.
    """
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
    pairs = re.findall(r"'?([\w.\-]+)'?=(\d+)", axes)
    wanted: dict[str, list[tuple[int, int]]] = {}
    for axis, before, size in re.findall(r"'?([A-Za-z_][\w.\-]*)'?(?::\((\d+)\)(\d+))?", named):
        wanted.setdefault(axis, []).append((int(before or 1), int(size or 0)))
    sizes: list[int] = []
    along: list[int] = []
    for axis, length in pairs:
        # Where an axis is cut, each cut begins or ends a factor of its own.
        cuts = {1, int(length)}
        for before, size in wanted.get(axis, []):
            cuts |= {before, before * (size or int(length))}
        for low, high in pairwise(sorted(cuts)):
            inside = any(
                before <= low and high <= before * (size or int(length))
                for before, size in wanted.get(axis, [])
            )
            if inside:
                along.append(len(sizes))
            sizes.append(high // low)
    if chips.startswith("["):
        order = _iota(chips).ravel()
    else:
        order = np.array(_whole_numbers(chips) or list(range(int(np.prod(sizes)))))
    across = [axis for axis in range(len(sizes)) if axis not in along]
    turned = order.reshape(sizes).transpose(across + along)
    count = int(np.prod([sizes[axis] for axis in along]))
    return tuple(map(tuple, turned.reshape(-1, count).tolist()))


def _whole_numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
