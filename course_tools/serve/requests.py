"""Requests that come to a server, drawn at a rate or replayed from a file; and when each got its
tokens, and what of it a user feels.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib.core import checks
from course_lib.core.checks import CourseError, count, known, positive, whole

Numbers = NDArray[np.float64]
# Requests of one simulation: each takes half a kilobyte and some fifty microseconds, and no
# percentile of so many moves for more.
MOST = 1_000_000
# Public logs by their names for the time, the prompt and the answer, and what the time is in.
LOGS = {
    # Azure's LLM inference traces of 2023 and 2024, of the repository Azure/AzurePublicDataset.
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"): "date",
    # BurstGPT, of the repository HPMLL/BurstGPT.
    ("Timestamp", "Request tokens", "Response tokens"): "s",
    # Mooncake's, of the repository kvcache-ai/Mooncake: hash_ids name blocks of 512 tokens.
    ("timestamp", "input_length", "output_length"): "ms",
}
_BLOCK = 512


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Requests in the order in which they come."""

    arrived: Numbers  # s from the first
    # prompt, output: tokens
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    # Which beginning of a prompt a request shares with others; -1 where none.
    group: NDArray[np.int64]
    shared: NDArray[np.int64]  # tokens of that beginning
    # How many users there are, of whom each asks again as soon as it has its answer; 0 where
    # requests come at their times, whatever becomes of those before them.
    users: int = 0

    def __len__(self) -> int:
        return int(self.arrived.size)

    @property
    def rate(self) -> float:
        """Requests a second, from the first to the last."""
        span = float(self.arrived[-1]) if len(self) > 1 else 0.0
        return (len(self) - 1) / span if span else float("inf")

    def take(self, chosen: Any) -> "Requests":
        """Some of them, at the times at which they come."""
        names = [one.name for one in fields(self) if one.name != "users"]
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})


def synthetic_workload(
    rate: float,
    requests: int,
    prompt: ArrayLike,
    output: ArrayLike,
    *,
    burst: float = 1.0,
    spread: float = 0.0,
    groups: int = 0,
    shared: int = 0,
    seed: int = 0,
) -> Requests:
    """Requests at random times, the same ones for the same seed, closer together at a higher rate.

    Parameters
    ----------
    rate : requests a second, on average.
    requests : how many.
    prompt, output : mean tokens, or lists to draw from, together where both are lists.
    burst : standard deviation over mean of the time between two requests: 1 is a Poisson process,
        more comes in bursts (Gamma).
    spread : the same of tokens (Gamma), where a mean is given.
    groups, shared : how many beginnings of prompts there are, chosen evenly, and their tokens.

    Examples
    --------
    >>> slow, fast = (synthetic_workload(rate, 1000, 512, 128) for rate in (1.0, 2.0))
    >>> bool(np.allclose(slow.arrived, 2 * fast.arrived)), round(slow.rate, 1)
    (True, 1.0)
    """
    often = checks.single("rate", positive("rate", rate))
    many = _few("requests", count("requests", requests))
    dice = np.random.default_rng(count("seed", seed, 0))
    between = _gamma(dice, many, checks.single("burst", positive("burst", burst)))
    arrived = np.cumsum(between) / often
    given = [np.atleast_1d(whole("prompt", prompt)), np.atleast_1d(whole("output", output))]
    width = checks.single("spread", checks.nonnegative("spread", spread))
    if given[0].size > 1 and given[0].size == given[1].size:
        chosen = dice.integers(given[0].size, size=many)
        lengths = [of[chosen] for of in given]
    else:
        lengths = []
        for of in given:
            own = of[dice.integers(of.size, size=many)] if of.size > 1 else np.full(many, of[0])
            if width and of.size == 1:
                own = np.maximum(np.round(own * _gamma(dice, many, width)), 1)
            lengths.append(own)
    kinds, start = count("groups", groups, 0), count("shared", shared, 0)
    if kinds and not start:
        raise CourseError(f"shared must be given for groups {kinds}: tokens that a group shares")
    group = dice.integers(kinds, size=many) if kinds else np.full(many, -1)
    begun = np.where(group >= 0, start, 0)
    tokens, made, of, same = (
        column.astype(np.int64) for column in (lengths[0] + begun, lengths[1], group, begun)
    )
    return Requests(arrived - arrived[0], tokens, made, of, same)


def closed_workload(
    users: int, prompt: int, output: int, *, rounds: int = 5, least: float = 1.0, seed: int = 0
) -> Requests:
    """Requests as benchmarks of engines send them, a *concurrency* of so many users: all begin at
    once, and each asks again as soon as it has its answer.

    Parameters
    ----------
    users : who ask, as many times each as there are `rounds`.
    prompt, output : the most tokens.
    least : the least, as a share of them: lengths are drawn evenly between.

    Examples
    --------
    >>> len(closed_workload(8, 1024, 128))
    40
    """
    at_once, many = count("users", users), count("rounds", rounds)
    all_ = _few("users times rounds", at_once * many)
    dice = np.random.default_rng(count("seed", seed, 0))
    share = checks.single("least", positive("least", least))
    if share > 1:
        raise CourseError(f"least must be above 0 and at most 1 (got {checks.shown(least)})")
    tokens, made = (
        dice.integers(max(int(share * most), 1), most + 1, all_)
        for most in (count("prompt", prompt), count("output", output))
    )
    none = np.zeros(all_, dtype=np.int64)
    return Requests(np.zeros(all_), tokens, made, none - 1, none, at_once)


def _few(name: str, requests: int) -> int:
    if requests > MOST:
        why = "each is simulated and kept in memory, and no percentile of so many moves for more"
        raise checks.unfit(name, f"be at most {MOST}", requests, why)
    return requests


def _gamma(dice: np.random.Generator, many: int, spread: Any) -> Numbers:
    shape = 1 / max(float(spread), 1e-8) ** 2  # Closer together, doubles cannot tell them apart
    return np.asarray(dice.gamma(shape, 1 / shape, many))


class _Line(msgspec.Struct):
    """A line of a file of requests."""

    arrival_time: Annotated[float, msgspec.Meta(ge=0)]
    input_toks: Annotated[int, msgspec.Meta(ge=1, lt=checks.EXACT)]
    output_toks: Annotated[int, msgspec.Meta(ge=1, lt=checks.EXACT)]
    prefix_id: str | int | None = None
    prefix_toks: Annotated[int, msgspec.Meta(ge=0)] = 0


def read_requests(path: Path | str) -> Requests:
    """Requests of a file: a JSON object a line with `arrival_time` in s, `input_toks` and
    `output_toks`; where requests share a beginning, `prefix_id` and `prefix_toks` too. Or a public
    log, of `LOGS`: a failed request without an answer is left out, and of blocks that prompts share
    the first one counts.

    Raises
    ------
    CourseError
        If the file cannot be read or has no request; or a line lacks a field, is not in order, or
        has a time or a count that is none: it names the line.

    Examples
    --------
    >>> read_requests("nowhere.jsonl")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: arrivals 'nowhere.jsonl' cannot be read: No such file or directory
    """
    name = f"arrivals {str(path)!r}"
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CourseError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CourseError(f"{name} is not text in UTF-8") from None
    rows: list[_Line] = []
    head = next(csv.reader(lines[:1]), [])
    columns = head if any({*names} <= {*head} for names in LOGS) else []
    for number, line in enumerate(lines, 1):
        where = f"{name}, line {number}"
        if not line.strip() or (columns and number == 1):
            continue
        try:
            if (row := _row(line, columns)) is None:
                continue
        except (msgspec.MsgspecError, ValueError, OverflowError, csv.Error) as error:
            raise CourseError(
                f"{where}: {error} (got {checks.shown(line)}): write a JSON object with "
                f"arrival_time in s, and whole input_toks and output_toks, 1 or more"
            ) from None
        if rows and row.arrival_time < rows[-1].arrival_time:
            raise CourseError(
                f"{where}: arrival_time {row.arrival_time:g} is before "
                f"{rows[-1].arrival_time:g} of the line above: sort the file by it"
            )
        if row.prefix_toks > row.input_toks:
            raise CourseError(
                f"{where}: prefix_toks {row.prefix_toks} is more than input_toks {row.input_toks}"
            )
        rows.append(row)
    if not rows:
        raise CourseError(f"{name} has no request")
    _few(f"{name}: requests", len(rows))
    arrived = np.array([row.arrival_time for row in rows])
    begun = dict.fromkeys(row.prefix_id for row in rows if row.prefix_id is not None)
    groups: dict[Any, int] = {one: number for number, one in enumerate(begun)}
    counts = [
        (row.input_toks, row.output_toks, groups.get(row.prefix_id, -1), row.prefix_toks)
        for row in rows
    ]
    tokens, made, of, same = np.array(counts, dtype=np.int64).T
    return Requests(arrived - arrived[0], tokens, made, of, same)


def _row(line: str, columns: list[str]) -> _Line | None:
    """What a line says, whether it is ours or a log's; `None` of a request that failed."""
    if not columns and not any(f'"{made}"' in line for _, _, made in LOGS):
        return msgspec.json.decode(line, type=_Line)
    said = msgspec.json.decode(line, type=dict[str, Any]) if not columns else {}
    if columns:
        said = dict(zip(columns, next(csv.reader([line])), strict=True))
    for (time, given, made), unit in LOGS.items():
        if {time, given, made} <= said.keys():
            row = {"input_toks": said[given], "output_toks": said[made]}
            if columns:
                row = {name: int(value) for name, value in row.items()}
            if unit == "s" and row["output_toks"] == 0:
                return None
            if unit == "date":
                at = datetime.fromisoformat(said[time])
                row["arrival_time"] = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
            else:
                row["arrival_time"] = float(said[time]) / (1e3 if unit == "ms" else 1.0)
            found = msgspec.convert(row, _Line)
            if hashed := msgspec.convert(said.get("hash_ids", []), list[str | int]):
                found.prefix_id, found.prefix_toks = hashed[0], min(_BLOCK, found.input_toks)
            return found
    return msgspec.json.decode(line, type=_Line)


# Time to the first token, per output token after it, and from end to end.
LATENCIES = ("ttft", "tpot", "e2e")
SHARES = (50, 95, 99)  # percentiles that are reported


class LoggedStep(NamedTuple):
    """A step that a replica took, from start to end, s."""

    start: float
    end: float
    chunks: Mapping[int, int]  # by request, the tokens of its prompt that the step computed
    decoding: tuple[int, ...]  # requests that it gave their next token
    cached: Mapping[int, int]  # by request, its tokens in the cache at the end


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """Requests as they were served."""

    # arrived, scheduled, first, last: s, when each came, was first planned, and got its first and
    # its last token
    arrived: Numbers
    scheduled: Numbers
    first: Numbers
    last: Numbers
    # prompt, output, replica, preempted: tokens of each, which replica served it, and how often it
    # lost its place in the cache
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    replica: NDArray[np.int64]
    preempted: NDArray[np.int64]
    # steps, cache_used: of all replicas, and the largest share of its cache that any held at once
    steps: int
    cache_used: float
    # calibrated, source: whether these are likely times, else lower bounds; whose constants
    calibrated: bool
    source: str
    evidence: str  # rows of the table of errors that say how far such times were off

    @property
    def ttft(self) -> Numbers:
        """S to the first token, the wait for a place included."""
        return np.asarray(self.first - self.arrived)

    @property
    def tpot(self) -> Numbers:
        """S for each token after the first, of requests that have more than one."""
        more = self.output > 1
        return np.asarray((self.last - self.first)[more] / (self.output[more] - 1))

    @property
    def e2e(self) -> Numbers:
        """S to the last token."""
        return np.asarray(self.last - self.arrived)

    @property
    def makespan(self) -> float:
        """S from the first request to the last token."""
        return float(np.max(self.last) - np.min(self.arrived))

    @property
    def tokens_per_s(self) -> float:
        """Tokens made in a second, over the makespan."""
        return float(np.sum(self.output)) / self.makespan

    @property
    def preemptions(self) -> int:
        """How often a sequence lost its place."""
        return int(np.sum(self.preempted))

    def percentiles(self, latency: str) -> dict[str, float]:
        """p50, p95 and p99 of a latency, s."""
        times = getattr(self, known("latency", latency, LATENCIES))
        if not times.size:
            raise CourseError("tpot needs requests of more than one token: none has two")
        found = np.percentile(times, SHARES).tolist()
        return {f"p{share}": time for share, time in zip(SHARES, found, strict=True)}

    def meets(self, slo: Mapping[str, float]) -> Any:
        """Which requests stay within limits, s, on `ttft`, `tpot` and `e2e`."""
        kept = np.ones(self.arrived.size, dtype=bool)
        for name, limit in slo.items():
            positive(f"slo {known('slo', name, LATENCIES)}", limit)
            # One token has no time per token.
            asked = self.output > 1 if name == "tpot" else slice(None)
            kept[asked] &= getattr(self, name) <= limit
        return kept

    def goodput(self, slo: Mapping[str, float]) -> float:
        """Requests a second that stay within their limits."""
        return float(np.sum(self.meets(slo))) / self.makespan
