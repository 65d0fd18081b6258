"""Runs a file of lab 04's kernels: counted by the interpreter on a CPU, timed on a GPU."""

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from course_lib import ops
from course_lib.bench import record, results
from course_lib.bench.device import machine, torch_or_none
from course_lib.bench.operands import TorchArrays
from course_lib.bench.rows import Row
from course_lib.core.checks import CourseError, known, positive
from course_tools.campaigns.traffic import counted
from course_tools.files import DATA
from course_tools.measured.kernels import OPS, WAYS, KernelLaunch

NO_TIME = "counted while Triton's interpreter ran it on a CPU: no time there measures anything"
# Relative error above which a result is wrong, whatever its format.
RIGHT = 0.01
# By kernel, the function that launches it.
FUNCTIONS = {kernel: kernel for kernel in OPS} | {"fused": "bias_gelu_dropout"}
DROPPED = 0.1
# Rows of a result that are compared with float64.
CHECKED = 64
_GIVEN = msgspec.toml.decode((DATA / "lab-04.toml").read_bytes())
BLOCKS = msgspec.convert(_GIVEN["blocks"], dict[str, tuple[int, ...]])
# Smaller tiles, so that several of them make a small product.
INTERPRETED = {**BLOCKS, "matmul": (64, 64, 32)}
_Sizes = dict[str, tuple[tuple[int, ...], ...]]
SIZES = {kind: msgspec.convert(_GIVEN[kind], _Sizes) for kind in ("cpu", "cuda")}


class Step(KernelLaunch, frozen=True):
    """A launch that is counted and timed, as a row has it."""

    @property
    def shape(self) -> str:
        """As results.csv holds it: a product's is BxDxF, attention's has sequences and heads."""
        sizes = self.sizes
        if self.kernel == "matmul":
            sizes = (sizes[0], sizes[2], sizes[1])
        if self.kernel == "attention":
            sizes = (1, 1, *sizes[1:])
        return "x".join(map(str, sizes))

    @property
    def settings(self) -> str:
        """Which kernel it is, and in which blocks."""
        name = {"fused": "bias+gelu+dropout"}.get(self.kernel, "causal" if self.causal else "")
        return f"{name} path=triton block={'x'.join(map(str, self.block))}".strip()

    @property
    def op(self) -> str:
        """Of a `Row`."""
        return OPS[self.kernel]

    @property
    def dtype(self) -> str:
        """The format of its arrays."""
        return ops.KERNELS[self.kernel][2]


def plan(device: str) -> list[Step]:
    """The steps of lab 04: the interpreter counts them on ``"cpu"``, ``"cuda"`` is timed."""
    kernels = SIZES[known("device", device, SIZES)]
    blocks = INTERPRETED if device == "cpu" else BLOCKS
    return [
        Step(kernel, sizes[turn], blocks[kernel], causal)
        for turn in range(len(kernels["add"]))
        for kernel, sizes in kernels.items()
        for causal in ((False, True) if kernel == "attention" else (False,))
    ]


def operands(torch: Any, step: Step, device: str, seed: int) -> list[Any]:
    """Seeded random arrays."""
    kind = {"fp32": torch.float32, "fp16": torch.float16}[step.dtype]
    generator = torch.Generator(device).manual_seed(seed)
    sizes = step.sizes
    shapes: dict[str, list[tuple[int, ...]]] = {
        "add": [sizes, sizes],
        "fused": [sizes, sizes[1:]],
        "softmax": [sizes],
        "matmul": [sizes[::2], sizes[:0:-1]],
        "attention": [sizes[::2], sizes[1:], sizes[1:]],
    }
    return [
        torch.randn(shape, device=device, generator=generator).to(kind)
        for shape in shapes[step.kernel]
    ]


def call(module: Any, step: Step, arrays: list[Any], seed: int) -> Callable[[], Any]:
    """The call of a file's function that does a step."""
    function = getattr(module, FUNCTIONS[step.kernel])
    named: dict[str, Any] = {"block": step.block[0] if len(step.block) == 1 else step.block}
    if step.kernel == "fused":
        named |= {"p": DROPPED, "seed": seed}
    if step.kernel == "attention":
        named |= {"causal": step.causal}
    return lambda: function(*arrays, **named)


def error(torch: Any, step: Step, arrays: list[Any], result: Any) -> float:
    """The largest error in the first rows, relative to the largest value; of what is kept."""
    head = arrays[0][:CHECKED].double()
    rest = [one.double() for one in arrays[1:]]
    got = result[:CHECKED].double()
    if step.kernel == "add":
        want = head + rest[0][:CHECKED]
    elif step.kernel == "fused":
        want = torch.nn.functional.gelu(head + rest[0], approximate="tanh") / (1 - DROPPED)
        want = torch.where(got != 0, want, 0.0)
    elif step.kernel == "softmax":
        want = torch.softmax(head, -1)
    elif step.kernel == "matmul":
        want = head @ rest[0]
    else:
        scores = head @ rest[0].T / step.sizes[2] ** 0.5
        if step.causal:
            later = torch.ones_like(scores).triu(1).bool()
            scores = scores.masked_fill(later, -torch.inf)
        want = torch.softmax(scores, -1) @ rest[1]
    return float((got - want).abs().max() / want.abs().max())


def load(path: Path | str, device: str = "cpu") -> Any:
    """A file of kernels as a module: interpreted on a CPU, compiled on a GPU."""
    interpreted = known("device", device, ("cpu", "cuda")) == "cpu"
    if not isinstance(path, str | Path) or not Path(path).is_file():
        raise CourseError(f"path {str(path)!r} is not a file: give that of a kernels.py")
    if torch_or_none() is None or importlib.util.find_spec("triton") is None:
        raise CourseError(
            "kernels need torch and triton: make labs, or pip install -e '.[torch,kernels]'. "
            "Triton's wheels are for Linux: on Windows use WSL, on macOS Colab or a container"
        )
    if "triton" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1" if interpreted else "0"
    import triton

    if triton.knobs.runtime.interpret != interpreted:
        said = f"device {device!r} needs TRITON_INTERPRET={int(interpreted)}"
        raise CourseError(f"{said} before triton is imported: restart Python")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(
    step: Step, module: Any, device: str = "cpu", *, budget: float = 5.0, seed: int = 0
) -> list[Row]:
    """Run one step of a module from `load` and check its result: counted on a CPU, in one row for
    each of `course_tools.measured.kernels.WAYS`, with bytes and no time; timed on a GPU, in one.
    """
    positive("budget", budget)
    torch, here = torch_or_none(), machine(device)
    import triton

    library = TorchArrays(torch, device)
    case = record.Case(step.op, step.dtype, timing="warm")
    how = {"settings": step.settings, "backend": f"triton {triton.__version__}, {library.label}"}
    empty = record.blank(here, case, step.shape, step.least, **how)
    try:
        arrays = operands(torch, step, device, seed)
        once = call(module, step, arrays, seed)
        with counted() as launches:
            result = once()
        wrong = error(torch, step, arrays, result)
    except (RuntimeError, MemoryError) as failure:
        return [record.failed(empty, failure)]
    if not wrong <= RIGHT:
        said = f"{FUNCTIONS[step.kernel]} is wrong at {step.shape} (relative error {wrong:.2g})"
        raise CourseError(f"{said}: course grade 04 says why")
    if device == "cpu":
        about = {"flops": None, "intensity": None, "error": wrong, "note": NO_TIME}
        rows = []
        for way in WAYS:
            moved = float(sum(getattr(one, way) for one in launches))
            own = {"bytes": moved, "settings": f"{empty.settings} count={way}"}
            rows.append(msgspec.structs.replace(empty, **about, **own))
        return rows

    def prepare() -> record.Ready:
        spent = min(*library.timed(once, 1), *library.timed(once, 1))
        return record.Ready([once], spent, wrong)

    return [record.measure(empty, here, library, prepare, budget=budget, seed=seed)]


def run(
    steps: Sequence[Step],
    module: Any,
    file: Path,
    device: str = "cpu",
    *,
    budget: float = 60.0,
    seed: int = 0,
    say: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run the steps whose rows the file does not hold yet, but those that the module does not
    implement, and append them before the next; how many are left for another run.
    """
    positive("budget", budget)
    name, there = machine(device).name, results.done(file)
    begin, left = clock(), 0
    for number, step in enumerate(steps):
        done = {(key[1], key[3]) for key in there if key[0] == name}
        what = f"{FUNCTIONS[step.kernel]} {step.shape} {step.settings}"
        if any(op == step.op and f"{step.shape} {step.settings}" in of for op, of in done):
            say(f"{what}: measured already")
            continue
        remaining = budget - (clock() - begin)
        if remaining <= 0:
            left += 1
            say(f"{what}: the budget is spent, left for another run")
            continue
        share = max(remaining / (len(steps) - number), min(remaining, 1.0))
        try:
            rows = measure(step, module, device, budget=share, seed=seed)
        except NotImplementedError:
            left += 1
            say(f"{what}: not implemented yet")
            continue
        for row in rows:
            results.append(file, row)
        say(f"{what}: {_said(rows)}")
    return left


def _said(rows: Sequence[Row]) -> str:
    first = rows[0]
    if first.status != "ok":
        return f"{first.status}, {first.note}"
    if first.seconds_median is not None:
        return f"{first.seconds_median:.3e} s, {first.achieved_bw_gbps or 0:.1f} GB/s"
    return ", ".join(f"{way} {row.bytes or 0:,.0f} B" for way, row in zip(WAYS, rows, strict=True))
