"""Times that matter to readers and authors: `make bench` prints them. Noisy machines, so never
asserted.
"""

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from course_lib import chip, ops, roofline
from course_tools.calibrate.errors import known_errors
from tests.bench_pages import budgets
from tools.calibrate import as_text

ROOT = Path(__file__).parent.parent


def seconds_of(command: list[str], repeats: int = 7) -> float:
    """Median time of a command."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class Cost(NamedTuple):
    """What a command took: by the clock, and of the processors, to which other work adds
    nothing.
    """

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} s ({self.cpu:.1f} s of processors)"


def cost(book: Path, *command: str) -> Cost:
    """Cost of the command `course`, its start included."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "course_press", *command], cwd=book, check=True, capture_output=True
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def edit(file: Path, old: str, new: str) -> None:
    """Change a file as its author would."""
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {file}"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def timed(action, *arguments) -> float:
    """Time of one call."""
    start = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - start


# Each prints the seconds of one product, as whoever uses that tool would report them.
TOOLS = {
    "course_lib.bench": """
from course_lib import bench
print(bench.matmul(512, 512, 512, "fp32", device, timing="warm", budget=1.5).seconds_median)""",
    "torch.utils.benchmark": """
import torch, torch.utils.benchmark as benchmark
a, b = torch.randn(512, 512, device=device), torch.randn(512, 512, device=device)
timer = benchmark.Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
print(timer.blocked_autorange(min_run_time=1.5).median)""",
    "plain loop": """
import time, torch
a, b = torch.randn(512, 512, device=device), torch.randn(512, 512, device=device)
start = time.perf_counter()
for _ in range(1000):
    a @ b
if device == "cuda":
    torch.cuda.synchronize()
print((time.perf_counter() - start) / 1000)""",
    "triton.testing.do_bench": """
import torch, triton
a, b = torch.randn(512, 512, device=device), torch.randn(512, 512, device=device)
print(triton.testing.do_bench(lambda: a @ b, rep=1500, return_mode="median") / 1e3)""",
}
ROUNDS = 9


def spread(seconds: np.ndarray) -> np.ndarray:
    """Distance between the quartiles, in medians."""
    low, middle, high = np.percentile(seconds, (25, 50, 75), axis=-1)
    return (high - low) / middle


def how_steady() -> Table:
    """The benchmark against others: how far fresh processes disagree, interleaved so that all meet
    the same noise.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    tools = [name for name in TOOLS if device == "cuda" or name != "triton.testing.do_bench"]
    seen: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(ROUNDS):
        for name in tools:
            command = [sys.executable, "-c", f"device = {device!r}{TOOLS[name]}"]
            seen[name].append(
                float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            )
    draws = np.random.default_rng(0).integers(ROUNDS, size=(2000, ROUNDS))
    ours = np.array(seen["course_lib.bench"])
    best = min(
        (name for name in tools if name != "course_lib.bench"),
        key=lambda name: spread(np.array(seen[name])),
    )
    low, high = np.percentile(
        spread(ours[draws]) - spread(np.array(seen[best])[draws]), (2.5, 97.5)
    )
    table = Table(
        f"512 x 512 x 512, fp32, {device}, {ROUNDS} processes each",
        "median",
        "between quartiles",
        box=None,
    )
    for name in tools:
        table.add_row(
            name,
            f"{statistics.median(seen[name]) * 1e6:.0f} us",
            f"{spread(np.array(seen[name])):.1%}",
        )
    verdict = "worse than" if low > 0 else "not worse than"
    table.add_row(f"our spread is {verdict} that of {best}", "", f"{low:+.1%} to {high:+.1%}")
    return table


DIAGNOSE = """
import resource, sys
from course_tools import diagnosis
import course_tools.diagnosis.host
diagnosis.diagnose(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"""


def memory_of_diagnosis(folder: Path, size: int) -> float:
    """Most memory that reading a trace takes, over the trace's own size."""
    file = folder / "trace.json"
    row = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "dur": 8.0, "name": "aten::mul"}
    args = {"Input Dims": [[64, 4096], []], "Input type": ["float", "Scalar"], "External id": 1}
    with file.open("w") as out:
        out.write('{"traceEvents": [')
        at = 0
        while out.tell() < size:
            rows = [{**row, "ts": 10.0 * (at + i), "args": args} for i in range(1000)]
            out.write(",".join(json.dumps(one, indent=2) for one in rows) + ",")
            at += 1000
        out.write(json.dumps({**row, "ts": 10.0 * at}) + "]}")
    run = subprocess.run(
        [sys.executable, "-c", DIAGNOSE, file], capture_output=True, text=True, check=True
    )
    return float(run.stdout) / file.stat().st_size


def main() -> None:
    """Measure and print."""
    Console().print(as_text(known_errors()), highlight=False, soft_wrap=True)
    Console().print(how_steady())
    table = Table("what", "measured", "target", box=None)

    numpy_alone = seconds_of([sys.executable, "-c", "import numpy"])
    with_library = seconds_of([sys.executable, "-c", "import numpy, course_lib"])
    table.add_row(
        "import course_lib beyond NumPy", f"{with_library - numpy_alone:.3f} s", "< 0.2 s"
    )

    machine, batches = chip("h100-sxm"), np.arange(1, 10_001)
    sweep = statistics.median(
        timed(lambda: roofline(ops.matmul(batches, 8192, 8192), machine).lower) for _ in range(21)
    )
    table.add_row("sweep of 10,000 batches", f"{sweep * 1e3:.2f} ms", "< 10 ms")

    with tempfile.TemporaryDirectory() as folder:
        part = memory_of_diagnosis(Path(folder), 500_000_000)
        table.add_row("memory of course diagnose over its trace of 500 MB", f"{part:.2f}", "< 1")

    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book"
        ignored = shutil.ignore_patterns(
            ".venv", ".git", ".cache", "_site", ".*_cache", ".quarto", "node_modules"
        )
        shutil.copytree(ROOT, book, ignore=ignored)
        build = ("build", "--engine", "embedded")
        cold = cost(book, *build)
        pages = len(list((book / "_site").glob("*/chapters/*/*.html")))
        table.add_row("book in three languages, cold", str(cold), "< 90 s on two cores")
        table.add_row("of it, a page", f"{cold.cpu / pages:.1f} s of processors", "< 2 s")
        table.add_row("its notebooks, after the book", str(cost(book, "notebooks")), "")
        table.add_row("book, without any edit", str(cost(book, *build)), "")
        edit(book / "chapters" / "en" / "rooflines.qmd", "This chapter is", "The chapter is")
        table.add_row("book, after a prose edit", str(cost(book, *build)), "< 4 s of processors")
        edit(
            book / "chapters" / "cells" / "rooflines" / "setup.qmd", "h100, h200 =", "h100,  h200 ="
        )
        table.add_row("book, after an edit of one chapter's cell", str(cost(book, *build)), "")
        Console().print(table)
        Console().print(budgets(book / "_site"))


if __name__ == "__main__":
    main()
