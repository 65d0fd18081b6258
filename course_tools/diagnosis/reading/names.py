"""What names tell: which kernel does what, in which format; which calls of the host wait, and which
launch.

Names are those that libraries give their kernels, and none of them is documented: patterns for them
stand in `data/diagnosis`, beside what each runtime's manual says of its calls.
"""

import csv
import re
from functools import cache, lru_cache

from course_tools.files import DATA

# Collectives of the host, as torch.distributed annotates them.
TALK = re.compile(r"^(gloo|mpi|ucc|nccl):")
# Rows of the host that only a program on several ranks has.
RANKS = re.compile(r"^(c10d::|record_param_comms|gloo:|mpi:|ucc:|nccl:)")
# Functions of a program, as `with_stack` writes them: not torch's, of packages, or Python's own.
FUNCTION = re.compile(
    r"^(?!<|torch/|.*(site-packages|dist-packages|lib/python\d)"
    r"|(threading|runpy|contextlib|functools|queue|selectors|subprocess|socket|typing)\b"
    r"|(multiprocessing|importlib)/)[^<]*\.py\(\d+\): "
)
# Operators that need a result on the host.
WAITS = re.compile(r"^aten::(item|_local_scalar_dense|is_nonzero|nonzero|equal)$")
# A row of the device for a whole replayed graph; kernels have other names.
GRAPH_ROW = re.compile(r"graph", re.I)
CONVERTING = re.compile(r"^aten::(to|_to_copy|copy_|type_as|float|double|half|bfloat16)$")
COPYING = re.compile(r"^aten::(copy_|clone|contiguous|_to_copy|to|cat|stack|repeat|_reshape_copy)$")

BYTES = {
    "fp64": 8, "int64": 8, "fp32": 4, "int32": 4, "tf32": 4,
    "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
# What a template says of the deed, and namespaces without a name, which hold brackets.
_FUNCTOR = re.compile(r"\b(?!ReduceOp)(?:\w*(?:[Ff]unctor|Ops?\b|_kernel_cuda)\w*|cutlass_\w+)")
_UNNAMED = re.compile(r"(\(anonymous namespace\)|[<]unnamed[>]|\(anonymous class\))::")
# Formats for which a tensor core has a narrower and faster one.
WIDE = ("fp32", "tf32", "fp64")


@cache
def rows_of(table: str) -> list[dict[str, str]]:
    """The rows of a table of names in `data/diagnosis`."""
    with (DATA / "diagnosis" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def _patterns(table: str) -> dict[str, str]:
    return {row["key"]: row["pattern"] for row in rows_of("patterns") if row["table"] == table}


@cache
def call(name: str) -> str:
    """What a call of a runtime does to the host: ``"waits"`` for the device, ``"copies"``, which
    may block it, ``"allocates"``, ``"launches"``, ``"starts"`` what every program starts once, or
    ``"returns"`` at once; nothing where that is not known.
    """
    bare = re.sub(r"_(v\d+|ptsz|ptds)$", "", name)
    return next((row["does"] for row in rows_of("calls") if re.fullmatch(row["call"], bare)), "")


@lru_cache(1 << 16)  # asked of every row
def host_work(name: str) -> str:
    """What else the host does under an annotation: a key of ``host work``, or nothing."""
    return _first("host work", name, re.I)


def kernel(name: str, operator: str = "") -> tuple[str, str | None]:
    """What a kernel does, by its name, and by that of the operator that launched it where its own
    says nothing; and in which format a product is computed, where the name says so.
    """
    kind = _first("kernel", name, re.I)
    launched = operator_kind(operator)
    if kind in ("", "elementwise", "gather") and launched in ("product", "attention", "reduce"):
        kind = launched
    if kind in ("", "gather") and launched == "elementwise":
        kind = launched
    if kind == "elementwise" and launched == "copy":
        kind = "copy"
    return kind or launched or "other", _first("format", name, re.I) or None


@lru_cache(1 << 16)
def operator_kind(name: str) -> str:
    """What an operator does, by its name; nothing where that is not known."""
    return _first("operator", name)


def bare(name: str) -> str:
    """A kernel's name without return type, arguments and namespaces, and of its template what it
    computes; without the number that Triton's compiler counts its kernels by.
    """
    outer, depth, inside = "", 0, ""
    for piece in re.split(r"([<>(])", re.sub(_UNNAMED, "", name.removeprefix("void "))):
        if piece == "(" and not depth:
            break
        depth += (piece == "<") - (piece == ">")
        outer, inside = outer + piece * (not depth and piece != ">"), inside + piece * (depth > 0)
    called = outer.strip().rpartition("::")[2]
    called = re.sub(r"_\d+$", "", called) if called.startswith("triton_") else called
    computes = _FUNCTOR.search(inside)
    return f"{called}<{computes[0]}>" if computes else called or name


def does(name: str) -> str:
    """What an operator or a kernel does, all that only copies counting as a copy."""
    kind = operator_kind(name) or kernel(name)[0]
    only = COPYING.search(name) or CONVERTING.search(name)
    return "copy" if only or kind in ("layout", "convert") else kind


@cache
def dtype(written: str) -> str | None:
    """The format that a trace calls so: ``"c10::BFloat16"``, ``"float"``, ``"torch.float16"``."""
    name = written.lower().removeprefix("c10::").removeprefix("torch.").strip()
    types = (row for row in rows_of("patterns") if row["table"] == "type")
    return next((row["key"] for row in types if row["pattern"] == name), None)


def _first(table: str, name: str, flags: int = 0) -> str:
    every = _patterns(table).items()
    return next((key for key, one in every if re.search(one, name, flags)), "")
