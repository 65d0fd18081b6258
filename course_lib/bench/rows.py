"""The records that results.csv and manifest.json hold, and how a record is written as a line."""

import csv
import io
import re
from collections.abc import Iterable
from math import isfinite
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from course_lib.core.checks import CourseError, shown, unfit

Key: TypeAlias = tuple[str, str, str, str, str, str]
Products: TypeAlias = Literal["matmul", "outer", "copy", "triad", "layer", "launch"]
Operators: TypeAlias = Literal["add", "chain", "softmax", "norm", "attention"]
Collectives: TypeAlias = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send"]
Served: TypeAlias = Literal["step", "request"]
# Operators that are done in one way only.
PLAIN: tuple[str, ...] = get_args(Products)
# Operators that one device runs alone; the others are collectives.
LOCAL = (*PLAIN, *get_args(Operators), *get_args(Served))
# What a manifest says of its host under none of these names: whose machine it is.
IDENTIFYING = ("host", "hostname", "node", "user", "username", "login", "home")
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0)] | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of results.csv. An empty field was not measured."""

    device: str
    kind: Literal["cpu", "cuda", "mps"]
    op: Literal[Products, Operators, Collectives, Served]
    dtype: str
    # "8192x8192x8192" (B, D, F) for a matmul, and for outer products that add up to one; the number
    # of bytes for copy and triad, of elements for add, rows and their length for a chain, softmax
    # or norm, sequences, heads, tokens and the size of a head for attention, D and F for a layer,
    # so many launches, and for a collective the bytes of the message as `course_lib.network`
    # counts them.
    shape: str
    timing: Literal["cold", "warm"]  # cold when the caches were flushed before each repeat
    data: Literal["random", "zeros"]
    status: Literal["ok", "out-of-memory", "unsupported", "over-budget"]
    achieved_tflops: Amount = None
    achieved_bw_gbps: Amount = None  # in powers of ten; of a collective the bus bandwidth
    mfu: Amount = None  # fraction of the peak as published
    mfu_at_clock: Amount = None  # and of the peak at the clock that was measured
    peak_tflops: Amount = None
    seconds_median: Amount = None  # of one call, as all of these
    seconds_min: Amount = None
    seconds_p20: Amount = None
    seconds_p80: Amount = None
    ci_low: Amount = None  # s, the confidence interval of the median
    ci_high: Amount = None
    repeats: int | None = None
    noisy: bool | None = None
    flops: Amount = None
    bytes: Amount = None
    intensity: Amount = None  # FLOP/byte
    error: Amount = None  # largest relative error against a reference of higher precision
    clock_mhz: Amount = None
    power_w: Amount = None
    temperature_c: float | None = None
    throttle: str = ""
    # What decides how the work is done; of a collective the processes and what carries their
    # messages, "world=2 backend=gloo"; of a chain, norm or attention which one and on which path,
    # "rms path=eager"; of lab 04's kernels their blocks, and what was counted; of a request when it
    # came, joined a step, and got its first and its last token, in s.
    settings: str = ""
    backend: str = ""
    date: str = ""
    note: str = ""

    @property
    def key(self) -> Key:
        """What was measured, whatever came out: a rerun skips the keys that it finds.

        One message among two processes and among four is not the same measurement, nor one chain
        eager and compiled: there the settings count, and so they do where a product is done on a
        path that they name.
        """
        plain = self.op in PLAIN and not self.path
        shape = self.shape if plain else f"{self.shape} {self.settings}"
        return self.device, self.op, self.dtype, shape, self.timing, self.data

    @property
    def sizes(self) -> tuple[int, ...]:
        """The whole numbers of `shape`; `CourseError` where it is none, or no BxDxF of a matmul."""
        parts = self.shape.split("x")
        if not all(part.isdecimal() and int(part) for part in parts) or (
            self.op == "matmul" and len(parts) != 3
        ):
            form = "BxDxF, three whole numbers" if self.op == "matmul" else "whole numbers"
            raise CourseError(f"shape must be {form} (got {self.shape!r})")
        return tuple(map(int, parts))

    @property
    def world(self) -> int | None:
        """How many processes took part in a collective; None where a device worked alone."""
        found = re.fullmatch(r"\d+", self.setting("world"))
        return int(found[0]) if found and self.op not in LOCAL else None

    @property
    def transport(self) -> str:
        """What carried a collective's messages: ``"gloo"``, ``"nccl"``."""
        return self.setting("backend")

    @property
    def path(self) -> str:
        """The way an operator was done: ``"eager"``, ``"compiled"``, ``"flash"``."""
        return self.setting("path")

    @property
    def block(self) -> tuple[int, ...]:
        """The sizes of a kernel's blocks; none where it names none."""
        found = re.fullmatch(r"\d+(x\d+)*", self.setting("block"))
        return tuple(map(int, found[0].split("x"))) if found else ()

    @property
    def counted(self) -> str:
        """What `bytes` were counted and not measured: ``"loaded"``, say."""
        return self.setting("count")

    @property
    def variant(self) -> str:
        """Which chain or norm it is: ``"rms"``; nothing where there is only one."""
        words = () if self.op in PLAIN else self.settings.split()
        return " ".join(word for word in words if "=" not in word)

    def setting(self, name: str) -> str:
        """What `settings` say under a name; empty where nothing."""
        words = (word.partition("=") for word in self.settings.split())
        return next((value for key, _, value in words if key == name), "")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was made of: enough to repeat it and to say what it cost."""

    lab: str
    command: str
    git_commit: str = ""
    seed: int | None = None
    python: str = ""
    packages: dict[str, str] = {}
    device: str = ""
    driver: str = ""
    clocks: dict[str, float] = {}  # MHz
    sku: str = ""
    usd_per_hour: Amount = None
    price_source: str = ""
    started: str = ""  # UTC, ISO 8601
    finished: str = ""
    wall_seconds: Amount = None
    cost_usd: Amount = None
    # The machine, without its name or its user's.
    host: dict[str, str | int | float | bool | None] = {}


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement in two files, by its median seconds."""

    key: Key
    before: float
    after: float
    ratio: float  # after / before; below 1 is faster
    beyond_noise: bool | None  # whether the confidence intervals are apart, where both are known


COLUMNS = Row.__struct_fields__
HEADER = ",".join(COLUMNS)


def to_line(row: Row) -> str:
    """A row as its one line; raises `CourseError` where that could not be read back."""
    if not isinstance(row, Row):
        raise CourseError(f"row must be a Row (got {shown(row)})")
    for name in COLUMNS:
        value = getattr(row, name)
        if isinstance(value, float) and not isfinite(value):
            raise unfit(name, "be finite or None", value, "leave out what was not measured")
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(map(_cell, msgspec.structs.astuple(row)))
    line = buffer.getvalue()
    try:
        from_line(line.encode().decode())  # a lone surrogate has no bytes
    except ValueError as error:
        raise CourseError(
            f"row does not fit its columns: {error}; correct what measured it"
        ) from None
    return line


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    # A line end inside a field would make a torn line look whole.
    return " ".join(str(value).replace("\0", "").splitlines())


def from_line(line: str) -> Row:
    """A line as its row; raises ValueError where it does not fit."""
    try:
        cells = next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise ValueError(error) from None
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(COLUMNS)} fields expected, got {len(cells)}")
    given = {name: cell for name, cell in zip(COLUMNS, cells, strict=True) if cell}
    row = msgspec.convert(given, Row, strict=False)
    for name in given:
        value = getattr(row, name)
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{name} is {value}, not a number that was measured")
    return row


def timed(rows: Iterable[Row]) -> dict[Key, tuple[Row, float]]:
    """The last row of each key that has a time, and its median seconds."""
    return {
        row.key: (row, row.seconds_median)
        for row in rows
        if row.status == "ok" and row.seconds_median
    }


def apart(one: Row, other: Row) -> bool | None:
    """Whether the confidence intervals of two rows, where measured, do not overlap."""
    if None in (one.ci_low, one.ci_high, other.ci_low, other.ci_high):
        return None
    return max(one.ci_low or 0, other.ci_low or 0) > min(one.ci_high or 0, other.ci_high or 0)
