"""Measures collectives between processes: Gloo between CPUs, NCCL between GPUs. Every result is
checked before it is timed.
"""

import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from course_lib import network
from course_lib.bench.device import Machine, machine, torch_or_none
from course_lib.bench.record import Case, blank
from course_lib.bench.results import append, done
from course_lib.bench.rows import Row
from course_lib.core import Work
from course_lib.core.checks import CourseError, known, nonnegative, positive, whole
from course_tools.campaigns.campaign import timed_within
from course_tools.measured.collectives import FUNCTIONS

OPS = tuple(FUNCTIONS)
# Byte of the messages: from those that latency rules to those that bandwidth rules.
SIZES = {"cpu": tuple(4**i for i in range(5, 13)), "cuda": tuple(4**i for i in range(5, 16))}
# Relative error that fp32 sums in another order stay well below, and a missing or doubled operand
# does not.
WRONG = 1e-5
# Seconds that a measurement gets at least, while the budget lasts.
SHORTEST_SHARE = 0.3
# Seconds after which a rank that waits for another gives up.
PATIENCE = 120.0
_NAMES = {
    "all_gather_single": "all_gather_into_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
}


def launch(
    script: Path, *arguments: str, world: int = 2, say: Callable[[str], None] = print
) -> None:
    """Run a script in so many processes with torchrun, each of which finds its number as RANK;
    `say` is given each line that they print. A process that failed is a `CourseError`.
    """
    whole("world", world)
    if not script.is_file():
        said = f"script {str(script)!r} is not a file"
        raise CourseError(f"{said}: give the path of the lab's collectives.py")
    if torch_or_none() is None:
        raise CourseError("collectives need torch: make labs, or pip install -e '.[torch]'")
    paths = filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")))
    # Each process with as many threads as cores would measure how they fight for them.
    env = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONUNBUFFERED": "1"}
    env["PYTHONPATH"] = os.pathsep.join(paths)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        command = [*torchrun, f"--nproc-per-node={world}", str(script), *arguments]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env
        ) as process:
            try:
                for line in process.stdout or ():
                    say(line.rstrip("\n"))
            finally:
                # On an interruption: torchrun ends its processes when it is asked to end.
                if process.poll() is None and sys.exc_info()[0]:
                    process.terminate()
        errors.seek(0)
        if process.returncode:
            said = f"{_cause(errors.read(), process.returncode)}; rows measured before are kept"
            raise CourseError(f"{said}: run again to go on")


def _cause(text: str, code: int) -> str:
    """Which rank failed, and how, from what torchrun and the ranks wrote."""
    said = re.findall(r"^(?:\[rank\d+\]:\s*)?course_lib\S*CourseError: (.+)$", text, re.MULTILINE)
    if said:
        return str(said[0])
    failures = re.findall(r"^\s+rank\s+: (\d+) .*\n\s+exitcode\s+: (-?\d+)", text, re.MULTILINE)
    if not failures:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return f"torchrun failed with exit code {code}: {['it printed nothing', *lines][-1]}"
    # A rank that loses its neighbour fails too: the one that was killed is the cause. torchrun
    # itself ends the rest by 15.
    for rank, how in failures:
        if int(how) < 0 and how != "-15":
            return (
                f"rank {rank} was killed by signal {-int(how)}, and the others cannot go on "
                f"without it"
            )
    rank, how = failures[-1]
    error = rf"^\[rank{rank}\]:\s*(\w[\w.]*(?:Error|Exception): .+)$"
    raised = re.findall(error, text, re.MULTILINE)
    return f"rank {rank} failed with exit code {how}" + (f": {raised[-1]}" if raised else "")


def sweep(
    file: Path,
    *,
    device: str = "cpu",
    budget: float = 60.0,
    seed: int = 0,
    sizes: Sequence[int] = (),
    ops: Sequence[str] = OPS,
    say: Callable[[str], None] = print,
) -> None:
    """Measure each collective at each size (byte), in every rank, within `budget` s: the slowest
    rank's time from a barrier on. Rank 0 appends each row; run again, it goes on from there.
    """
    known("device", device, SIZES)
    positive("budget", budget)
    for op in ops:
        known("op", op, OPS)
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        if name not in os.environ:
            said = f"{name} is not set"
            raise CourseError(f"{said}: start the script with torchrun, or call launch()")
    ranks = _Ranks(device, seed)
    try:
        here = machine(device)
        plan = [(op, ranks.rounded(size)) for op in ops for size in (sizes or SIZES[device])]
        finished = done(file) if ranks.rank == 0 else set()
        # Every rank must skip the same ones, and only rank 0 knows the file.
        todo = ranks.agreed([ranks.row(here, op, size).key not in finished for op, size in plan])
        begin = time.monotonic()
        wanted = [case for case, one in zip(plan, todo, strict=True) if one]
        tell: Callable[[str], Any] = say if ranks.rank == 0 else len
        for i, (op, size) in enumerate(wanted):
            left = ranks.agreed([budget - (time.monotonic() - begin)])[0]
            if left <= 0:
                tell(
                    f"the budget is spent: {len(wanted) - i} of {len(plan)} "
                    f"measurements are left for the next run"
                )
                break
            share = max(left / (len(wanted) - i), min(left, SHORTEST_SHARE))
            row = _measured(ranks, ranks.row(here, op, size), op, size, share=share)
            if ranks.rank == 0:
                append(file, row)
                rate = (
                    f"{row.seconds_median:.3g} s, {row.achieved_bw_gbps:.3g} GB/s of bus bandwidth"
                    if row.repeats
                    else row.note
                )
                say(f"{op} {size} B, {row.settings}: {row.status}, {rate}")
    finally:
        ranks.close()


class _Ranks:
    """The ranks, seen from the one that runs here."""

    def __init__(self, device: str, seed: int) -> None:
        self.torch, self.seed, self.kind = torch_or_none(), seed, device
        if self.torch is None:
            raise CourseError("collectives need torch: make labs, or pip install -e '.[torch]'")
        self.dist = self.torch.distributed
        self.device, self.backend = "cpu", "gloo"
        if device == "cuda":
            self.device, self.backend = f"cuda:{os.environ['LOCAL_RANK']}", "nccl"
            self.torch.cuda.set_device(self.device)
        self.dist.init_process_group(self.backend, timeout=timedelta(seconds=PATIENCE))
        self.rank, self.world = self.dist.get_rank(), self.dist.get_world_size()

    def close(self) -> None:
        # After a failure of another rank, leaving properly would wait for it.
        if not sys.exc_info()[0]:
            self.dist.destroy_process_group()

    def rounded(self, size: int) -> int:
        """Bytes of whole fp32 elements, as many for each rank."""
        return int(4 * self.world * max(1, round(float(whole("size", size)) / (4 * self.world))))

    def agreed(self, values: Sequence[float]) -> list[float]:
        """What rank 0 says."""
        told = self.torch.tensor(values, dtype=self.torch.float64, device=self.device)
        self.dist.broadcast(told, 0)
        return [float(value) for value in told.tolist()]

    def all_of(self, value: float) -> list[float]:
        """What each rank says."""
        told = self.torch.zeros(self.world, dtype=self.torch.float64, device=self.device)
        told[self.rank] = value
        self.dist.all_reduce(told)
        return [float(value) for value in told.tolist()]

    def wait(self) -> None:
        if self.kind == "cuda":
            self.torch.cuda.synchronize()

    def own(self, rank: int, count: int) -> Any:
        """The random numbers of a rank: the same in whichever process asks."""
        generator = self.torch.Generator().manual_seed(self.seed + rank)
        return self.torch.randn(count, generator=generator).to(self.device)

    def ready(self, op: str, size: int) -> tuple[Callable[[], Any], ...]:
        """Puts a collective's operands in place, runs it, and says a result's error."""
        torch, dist, count = self.torch, self.dist, size // 4
        part = count // self.world
        mine = slice(self.rank * part, (self.rank + 1) * part)
        source = self.own(self.rank, count)
        shard, given = source[:part].clone(), source.clone()
        got = torch.zeros_like(shard if op == "reduce-scatter" else source)
        gather, scatter = (
            getattr(dist, new, None) or getattr(dist, old) for new, old in _NAMES.items()
        )

        def all_own(of: slice, join: Callable[..., Any]) -> Any:
            return join([self.own(rank, count)[of] for rank in range(self.world)])

        def added(parts: Any) -> Any:
            return sum(one.double() for one in parts)

        def sent() -> Any:
            return self.own(1 - self.rank, count) if self.rank < 2 and self.world > 1 else got

        of_op: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "all-reduce": (lambda: dist.all_reduce(given), lambda: all_own(slice(None), added)),
            "all-gather": (lambda: gather(got, shard), lambda: all_own(slice(part), torch.cat)),
            "reduce-scatter": (lambda: scatter(got, given), lambda: all_own(mine, added)),
            "all-to-all": (
                lambda: dist.all_to_all_single(got, given),
                lambda: all_own(mine, torch.cat),
            ),
            "send": (lambda: self._there_and_back(given, got), sent),
        }
        run, wanted = of_op[op]

        def refill() -> None:
            # An all-reduce in place grows its numbers at every call.
            given.copy_(source)

        def error() -> float:
            want, received = wanted(), given if op == "all-reduce" else got
            return float((received - want).abs().max() / want.abs().max().clamp_min(1e-30))

        return refill, run, error

    def _there_and_back(self, given: Any, got: Any) -> None:
        """Rank 0 sends to rank 1 and gets an answer of the same size."""
        if self.rank == 0 and self.world > 1:
            self.dist.send(given, 1)
            self.dist.recv(got, 1)
        elif self.rank == 1:
            self.dist.recv(got, 0)
            self.dist.send(given, 0)

    def row(self, here: Machine, op: str, size: int) -> Row:
        return blank(
            here,
            Case(op, "fp32", timing="warm"),
            str(size),
            Work(0, size, "fp32"),
            settings=f"world={self.world} backend={self.backend}",
            backend=f"torch {self.torch.__version__}",
        )


def _measured(ranks: _Ranks, row: Row, op: str, size: int, *, share: float) -> Row:
    refill, run, error = ranks.ready(op, size)

    def once(calls: int) -> list[float]:
        refill()
        ranks.wait()
        ranks.dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        ranks.wait()
        # The same number in every rank, so that all decide alike how often to go on.
        return [max(ranks.all_of(time.perf_counter() - start)) / calls / (2 if op == "send" else 1)]

    (first,) = once(1)
    errors = ranks.all_of(error())
    worst = max(errors, key=lambda error: math.inf if math.isnan(error) else error)
    if not worst <= WRONG:
        said = f"rank {errors.index(worst)} got a wrong result from {op} of {size} B"
        raise CourseError(f"{said}: relative error {worst:.3g}")
    row = timed_within(row, once, first, share, seed=ranks.seed, error=worst)
    if not row.seconds_median:
        return row
    bus = network.bus_bandwidth(size, row.seconds_median, ranks.world, collective=op)
    return msgspec.structs.replace(row, achieved_bw_gbps=float(nonnegative("bus", bus)) / 1e9)
