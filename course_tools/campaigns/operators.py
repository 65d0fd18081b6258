"""Measures a transformer's operators: chains eager and compiled, softmax, norms, and attention on
each of torch's paths. Bytes and FLOPs are what `course_lib.ops` counts.
"""

import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from course_lib import ops
from course_lib.bench import record
from course_lib.bench.device import Machine, machine, torch_or_none
from course_lib.bench.operands import TorchArrays
from course_lib.bench.products import CACHES, CHECKED_ROWS
from course_lib.bench.record import Case, not_measured
from course_lib.bench.rows import Row
from course_lib.core import Work
from course_lib.core.checks import CourseError, known, positive
from course_lib.core.dtypes import itemsize
from course_tools.campaigns import pages

# The first is a transformer's; the second has next to no arithmetic, so that only its bytes can
# take the time.
CHAINS = ("bias+gelu+dropout", "bias+relu+residual")
# How torch may do attention: `math` stores the scores, the others are one kernel.
PATHS = {"cpu": ("math", "flash"), "cuda": ("math", "flash", "efficient", "cudnn")}
FORMATS = {"cpu": "fp32", "cuda": "bf16"}
WIDTH = 4096
# Sequences, heads, tokens and the size of a head.
ATTENTION = {"cpu": (1, 16, 2048, 64), "cuda": (4, 16, 4096, 128)}
PRODUCT = {"cpu": 1024, "cuda": 8192}
DROPPED = 0.1
OPS = ("chain", "softmax", "norm", "attention")


def plan(device: str) -> list[Case]:
    """The cases of lab 02: the two roofs, then the operators; compiled ones last."""
    dtype = FORMATS[known("device", device, FORMATS)]
    return [
        Case("copy", "fp32"),
        Case("triad", "fp32"),
        Case("matmul", dtype, PRODUCT[device]),
        *(Case("chain", dtype, name=name) for name in CHAINS),
        Case("softmax", dtype),
        Case("norm", dtype, name="layer"),
        Case("norm", dtype, name="rms"),
        *(Case("attention", dtype, timing="warm", path=path) for path in PATHS[device]),
        *(Case("chain", dtype, name=name, path="compiled") for name in CHAINS),
        Case("norm", dtype, name="rms", path="compiled"),
    ]


def work(case: Case, here: Machine) -> tuple[Work, str]:
    """What an operator does, and its shape: several times the last-level cache."""
    known("op", case.op, OPS)
    if case.op == "attention":
        batch, heads, tokens, dim = ATTENTION[here.kind]
        sizes = (batch, tokens, tokens, heads, heads, dim)
        shape = f"{batch}x{heads}x{tokens}x{dim}"
        once = ops.attention(*sizes, causal=False, x=case.dtype)
        if case.path != "math":
            return once, shape
        stored = sum(part.bytes for part in ops.attention_standard(*sizes, x=case.dtype).values())
        return Work(once.flops, stored, once.dtype, kernels=3), shape
    line = WIDTH * itemsize(case.dtype)
    rows = math.ceil(CACHES * here.cache / line)
    shape = f"{rows}x{WIDTH}"
    if case.op == "softmax":
        return ops.softmax(rows, WIDTH, x=case.dtype), shape
    if case.op == "norm":
        once_each = ops.norm(rows, WIDTH, kind=case.name, x=case.dtype)
        if case.name == "layer" or case.path == "compiled":
            return once_each, shape
        # As it is written below: a square, a mean, a product with the root's inverse, a scale.
        moved = once_each.bytes + 5 * rows * line
        return Work(once_each.flops, moved, once_each.dtype, unit="vector", kernels=4), shape
    chain = _chain(case, rows)
    if case.path == "compiled":
        return ops.fuse(chain), shape
    flops, moved = (sum(getattr(one, field) for one in chain) for field in ("flops", "bytes"))
    return Work(flops, moved, chain[0].dtype, unit="vector", kernels=len(chain)), shape


def _chain(case: Case, rows: int) -> list[ops.Pass]:
    size, x = (rows, WIDTH), case.dtype
    made = {
        "bias": ops.bias(rows, WIDTH, x=x),
        "gelu": ops.gelu(size, x=x),
        "dropout": ops.dropout(size, x=x),
        "relu": ops.elementwise(size, flops=ops.CONVENTIONS["relu"].flops, dtype=x),
        "residual": ops.residual(size, x=x),
    }
    return [made[name] for name in known("chain", case.name, CHAINS).split("+")]


def measure(case: Case, device: str = "cpu", *, budget: float = 5.0, seed: int = 0) -> Row:
    """Measure an operator: one result of seeded random operands checked against float64, then
    timed for `budget` s, to which compiling adds.
    """
    positive("budget", budget)
    known("op", case.op, OPS)
    torch, here = torch_or_none(), machine(device)
    if torch is None:
        raise CourseError("operators need torch: make labs, or pip install -e '.[torch]'")
    library = TorchArrays(torch, device)
    amount, shape = work(case, here)
    row = record.blank(here, case, shape, amount, settings=case.settings, backend=library.label)
    if why := library.supports(case.dtype):
        return not_measured(row, "unsupported", why)
    # Torch warns of each path it tries and of its own compiler's parts; what matters is in the row.
    with warnings.catch_warnings(), torch.no_grad(), pages.kept() as kept:
        warnings.simplefilter("ignore")
        try:
            call, wanted = _ready(torch, library, case, shape, seed)
            begin = time.perf_counter()
            result = call()
            first = time.perf_counter() - begin
        except (RuntimeError, OSError, ImportError, MemoryError) as failure:
            return _failed(row, case, failure)

        def prepare() -> record.Ready:
            error = _error(case, result, wanted)
            return record.Ready([call], min(library.timed(call, 1) + library.timed(call, 1)), error)

        row = record.measure(row, here, library, prepare, budget=budget, seed=seed)
    if row.status != "ok":
        return row
    notes = [row.note]
    if not kept and device != "cuda":
        told = "results are put into pages handed out anew at each call, which takes time too"
        notes.insert(0, told)
    if case.path == "compiled":
        notes.insert(0, f"compiling and the first call took {first:.1f} s")
    return msgspec.structs.replace(row, note="; ".join(filter(None, notes)))


def _failed(row: Row, case: Case, failure: Exception) -> Row:
    said = str(failure).strip().partition("\n")[0][:200]
    if case.path == "compiled":
        why = f"torch.compile does not work here: {type(failure).__name__}: {said}"
        return not_measured(row, "unsupported", why)
    if "No available kernel" in said or "no available backend" in said.lower():
        why = f"this device has no {case.path} attention in {case.dtype}: {said}"
        return not_measured(row, "unsupported", why)
    return record.failed(row, failure)


def _ready(
    torch: Any, library: TorchArrays, case: Case, shape: str, seed: int
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The call to time, and what its first rows must be, in float64."""
    functional, sizes = torch.nn.functional, [int(size) for size in shape.split("x")]
    if case.op == "attention":
        batch, heads, tokens, dim = sizes
        q, k, v = (
            library.operand(batch * heads * tokens, dim, case.dtype, "random", seed + i).view(sizes)
            for i in range(3)
        )

        way = "MATH" if case.path == "math" else f"{case.path.upper()}_ATTENTION"

        def attend() -> Any:
            from torch.nn.attention import SDPBackend, sdpa_kernel

            with sdpa_kernel([getattr(SDPBackend, way)]):
                return functional.scaled_dot_product_attention(q, k, v)

        def attended() -> Any:
            scores = q[0, 0, :CHECKED_ROWS].double() @ k[0, 0].double().T / dim**0.5
            return torch.softmax(scores, -1) @ v[0, 0].double()

        return attend, attended
    rows, width = sizes
    x = library.operand(rows, width, case.dtype, "random", seed)
    two = case.name == CHAINS[1]
    residual = library.operand(rows, width, case.dtype, "random", seed + 1) if two else None
    vector = library.operand(1, width, case.dtype, "random", seed + 2)[0]
    exact: Callable[..., Any] = {
        "softmax": lambda x, *_: torch.softmax(x, -1),
        "layer": lambda x, b, _: functional.layer_norm(x, (width,), b, b),
        "rms": lambda x, b, _: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * b,
        CHAINS[0]: lambda x, b, _: functional.gelu(x + b, approximate="tanh"),
        CHAINS[1]: lambda x, b, r: torch.relu(x + b) + r,
    }[case.name or case.op]

    def dropped(x: Any, b: Any, r: Any) -> Any:
        return functional.dropout(exact(x, b, r), DROPPED, training=True)

    made: Callable[..., Any] = dropped if case.name == CHAINS[0] else exact
    if case.path == "compiled":
        made = _compiled(torch, made)
    head = [None if one is None else one[:CHECKED_ROWS].double() for one in (x, residual)]
    return partial(made, x, vector, residual), partial(exact, head[0], vector.double(), head[1])


def _compiled(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled as one graph, or not at all: a part run eager would spoil the comparison."""
    import torch._inductor.config as inductor

    compiled = torch.compile(function, fullgraph=True, dynamic=False)

    def call(*operands: Any) -> Any:
        # A pool of compiling processes would outlive the measurement and take its cores.
        with inductor.patch(compile_threads=1):
            return compiled(*operands)

    return call


def _error(case: Case, result: Any, wanted: Callable[[], Any]) -> float:
    """The largest error in the first rows, relative to the largest value; of what is kept."""
    want = wanted()
    got = (result[0, 0] if case.op == "attention" else result)[:CHECKED_ROWS].double()
    if case.name == CHAINS[0]:
        kept = got != 0
        share = float(kept.double().mean())
        if abs(share - (1 - DROPPED)) > DROPPED / 2:
            return abs(share - (1 - DROPPED)) / DROPPED
        got, want = got[kept], want[kept] / (1 - DROPPED)
    return float((got - want).abs().max() / want.abs().max())
