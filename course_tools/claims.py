"""Can this number be true? A published speed beside the speed of light, and what explains it."""

import csv
import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec

from course_lib import network
from course_lib.bench import results
from course_lib.bench.rows import HEADER, PLAIN, Collectives, Row
from course_lib.core.checks import CourseError, known, spelled
from course_lib.core.dtypes import BITS, element
from course_lib.network.costs import ALGORITHMS
from course_lib.specs import Accelerator, Transformer, chip_of_device, chips, load_toml, models
from course_lib.specs.catalog import accelerator
from course_lib.workloads import llm
from course_lib.workloads.precision import FormatOptions, recipe_of
from course_tools.amounts import EACH, amount
from course_tools.counting import ask, named
from course_tools.counting.sources import Named
from course_tools.files import DATA, read_rows
from course_tools.measured.contributed import ABOVE

VERDICTS = ("possible", "cache-only", "impossible")
# Share by which a datasheet may stand below the chip: it rounds (3.35 TB/s is 3.352), and prints a
# link after encoding (25 GB/s where the driver shows 26.56, course_lib/data/chips/h200-sxm.toml).
ROUNDED = 0.02
LINKS = 0.0625
# Cards for players run above their boost clock, by up to 18 % as measured (ekondis/mixbench, issue
# 14, and course_tools/data/measured), and their owners raise the memory's clock too.
PLAYERS, PLAYERS_MEMORY = 0.2, 0.15
# Times main memory's bandwidth that a last-level cache reads, on chips with narrow memory some 7
# (RRZE-HPC/gpu-benches, issue 7), and byte in a clock that a multiprocessor takes from it: 64, so
# that the 108 of an A100 take 6912 where its cache gives 5120 (A100 whitepaper, "L2 cache").
CACHE, PORT = 8, 64
# Sequences that no chip holds, but in parts: where weights do not fit, they may lie elsewhere.
_MANY = 2**16
# A kernel's launch alone takes some 2 µs on a GPU; what is quicker was not waited for.
_LAUNCH = 5e-6
# A share of the limit below which a rate is likely in another unit.
_LITTLE = 1e-6
# What may be claimed: its unit, and whether more of it is faster.
SPEEDS = load_toml(DATA / "claims.toml", dict[str, tuple[str, bool]])
# What names of columns mean, and the factor to the unit of a claim.
COLUMNS = {one["name"]: one for one in read_rows(DATA / "claims.csv", dict)}
Amount = float | None
# What columns say of a speed that is none of a claim's fields, in the order of `_say_directly`.
_BESIDE = ("per_user", "per_chip", "guesses", "speculation", "prefix_caching")
_TEXTS = {"model", "chip", "collective", "link", "weights", "cache", "compute", "format"}
# Units of numbers that are no speed.
_UNITS = {"bytes": "B", "clock": "MHz", "per_user": "1/s", "per_chip": "1/s"}
_NO = ("none", "", "0", "0.0", "false", "no", "off", "n/a", "-")


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says, and under which conditions; what is `None` was not said."""

    model: str = ""
    chip: str = ""
    tokens_per_second: Amount = None  # of all sequences of a pass together
    ms_per_token: Amount = None  # of each sequence
    prompt_tokens_per_second: Amount = None
    ttft: Amount = None  # s to the first token
    ms: Amount = None  # of a step, of a traced function, or of a collective
    flops: Amount = None  # a second
    bytes_per_second: Amount = None
    mfu: Amount = None
    collective: str = ""
    bytes: Amount = None  # of the message, or of the data that were read
    chips: int = 1  # of a collective, or that a rate was summed over
    link: str = ""
    batch: int | None = None
    users: int | None = None
    context: int | None = None
    tp: int = 1
    tokens_per_pass: float = 1.0
    weights: str | None = None
    cache: str | None = None
    compute: str | None = None
    format: str | None = None  # of a rate
    clock: Amount = None  # MHz at which the chip is known to run
    prefill: bool = False
    sparse: bool = False


class Floor(NamedTuple):
    """Seconds that each term takes at least, as the datasheet has it, and those that it took."""

    took: float
    compute: float = 0.0
    memory: float = 0.0
    network: float = 0.0


@dataclass(frozen=True, slots=True)
class Judgment:
    """Whether a number can be true, and in which format and at which batch that was judged."""

    verdict: str  # of `VERDICTS`
    speed: str  # of `SPEEDS`
    claimed: float
    limit: float  # the datasheet's speed of light
    factor: float  # how many times that is claimed; chips reach 1 + margin
    term: str  # compute, memory or network: what refuses it, or is nearest to
    margin: float
    seconds: Mapping[str, float]  # of each term, at least
    format: str = ""
    formats: tuple[str, ...] = ()  # those tried in which it is not impossible, widest first
    batch: int | None = None  # where nobody said, the smallest that is possible
    assumed: Mapping[str, Any] = field(default_factory=dict)
    # By key: what would make it true, or how it went wrong, each with how much that takes.
    explanations: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    chip: str = ""


def verify(claim: Claimed) -> Judgment:
    """Whether a claim can be true; of several speeds in it, the worst one's verdict.

    Only the speed of light refuses, at the highest clock that the chip is known to run. Where no
    format is said, or declared by the model's file, it refuses what four bits would not save; where
    no batch is said, what no batch that fits would.

    Examples
    --------
    >>> found = verify(Claimed(model="llama-2-70b", chip="h200-sxm", tokens_per_second=155, batch=1,
    ...     weights="fp16"))
    >>> found.verdict, found.term, round(found.factor, 2)
    ('impossible', 'memory', 4.44)
    """
    said = [name for name in SPEEDS if getattr(claim, name) is not None]
    if not said:
        options = ", ".join("--" + name.replace("_", "-") for name in SPEEDS)
        raise CourseError(f"nothing is claimed: give one of {options}")
    for name in (*said, "tokens_per_pass", "tp", "chips", "batch", "users", "context", "bytes"):
        value = getattr(claim, name)
        if value is not None and not 0 < value < math.inf:
            raise CourseError(f"{name} must be a number above 0 (got {value:g})")
    if not claim.chip and said != ["mfu"]:
        raise CourseError("chip must be named: course chips lists them")
    on = accelerator(claim.chip) if claim.chip else None
    if claim.model and claim.weights is None:
        claim = msgspec.structs.replace(claim, weights=claim.format)
    if claim.collective and said == ["bytes_per_second"] and claim.chips > 1:
        # What NCCL's tests print as busbw: as the time of a message that no latency shortens.
        known("collective", claim.collective, get_args(Collectives))
        size, rate = claim.bytes or 2.0**30, getattr(claim, said[0])
        took = network.bus_bandwidth(size, rate, claim.chips, collective=claim.collective)
        told = {"bytes": size, "ms": 1e3 * float(took), said[0]: None}
        claim, said = msgspec.structs.replace(claim, **told), ["ms"]
    every = [_judged(claim, name, on) for name in said]
    return max(every, key=lambda one: (VERDICTS.index(one.verdict), one.factor))


def _judged(claim: Claimed, speed: str, on: Any) -> Judgment:
    if claim.collective or speed in ("flops", "bytes_per_second", "mfu"):
        return _of_rate(claim, speed, on)
    if not claim.model:
        raise CourseError(f"{speed} needs a model, a config.json or module:function to count")
    what = named(claim.model)
    if isinstance(what.model, Transformer) and claim.context:
        what = replace(what, model=what.model.extended(claim.context))  # as others serve it
    every: list[Judgment] = []
    for name in _formats(claim, what, on):
        every.append(_of_model(claim, speed, on, what, name, _fastest(claim, name, on)))
        if every[-1].verdict != "impossible" and not isinstance(what.model, Transformer):
            break  # a trace takes seconds
    passing = [one for one in every if one.verdict != "impossible"]
    # Where nothing says which, the widest format that passes; else the narrowest, which refuses
    # least.
    chosen = next(iter(passing), every[-1]) if _open(claim, what) else every[0]
    return replace(chosen, formats=tuple(one.format for one in passing))


def _declared(what: Named) -> str | None:
    """The format of the weights that a model's file declares."""
    declared = getattr(what.model, "declared", None)
    return declared.w if declared and declared.by == "quantization_config" else None


def _open(claim: Claimed, what: Named) -> bool:
    """Whether neither the claim nor a file that was named says the format of the weights."""
    # Of a model of the table others publish files of their own.
    return claim.weights is None and not (what.config and _declared(what))


def _formats(claim: Claimed, what: Named, on: Accelerator) -> list[str]:
    """Formats of the weights to try: the one said or assumed, and the narrower ones to 4 bits."""
    wide = "fp16" if "matrix.fp16" in on.peaks and "matrix.bf16" not in on.peaks else "bf16"
    ladder, given = [wide, "fp8", "int4"], claim.weights or _declared(what)
    if given is None:
        return ladder
    least = 16 if _open(claim, what) else _narrowest(given)
    return [given, *(one for one in ladder if BITS[one] < least)]


def _narrowest(weights: str) -> int:
    """Bits of the narrowest format that a recipe names."""
    mixes = recipe_of(weights).values()
    return min(BITS[element(one.split("*")[0], "w")] for mix in mixes for one in mix.split("+"))


def _fastest(claim: Claimed, weights: str, on: Accelerator) -> FormatOptions:
    """With such weights, what else was not said: as fast as the chip allows."""
    bits = _narrowest(weights)
    unit = "matrix" if any(name.startswith("matrix.") for name in on.peaks) else "vector"
    rates = {name.partition(".")[2]: rate for name, rate in on.peaks.items() if unit in name}
    rates = {name: rate for name, rate in rates.items() if BITS.get(name, 0) >= min(bits, 16)}
    compute = claim.compute or max(rates, key=lambda name: rates[name], default=None)
    eight = next((one for one in ("fp8", "int8") if one in rates), None)
    wide = next((one for one in ("bf16", "fp16") if one in rates), None)
    narrow = eight if bits < 16 and eight and claim.compute is None else wide
    kv = claim.cache or ("fp8" if bits < 16 else None)
    return {"w": weights, "x": narrow, "kv": kv, "compute": compute}


def _of_model(
    claim: Claimed, speed: str, on: Accelerator, what: Named, name: str, formats: FormatOptions
) -> Judgment:
    """In one format: at the batch that was said, or the smallest that is possible."""

    def at(batch: int) -> Judgment:
        floor = _floor(claim, speed, on, what, batch, formats)
        if claim.sparse:  # half of the weights are neither read nor multiplied
            floor = floor._replace(compute=floor.compute / 2, memory=floor.memory / 2)
        return _decided(claim, speed, on, floor, formats["compute"])

    said = claim.batch or claim.users
    batch = said or 1
    if said is None and speed == "tokens_per_second" and isinstance(what.model, Transformer):
        room: Any = math.inf
        if on.memory is not None:
            kept: Any = {key: formats.get(key) for key in ("w", "x", "kv")}
            sizes = what.model, on, 1, claim.context or 1
            room = float(llm.fits(*sizes, tp=claim.tp, **kept).max_batch)
        batch = int(min(room, _MANY)) if room >= 1 else _MANY
        top = at(batch)
        if at(1).verdict != "impossible":
            batch = 1
        elif top.verdict != "impossible":
            least = max(1.0, top.factor) * (1 + 1e-12)
            batch = 1 + bisect_left(range(1, batch + 1), True, key=lambda b: at(b).factor <= least)
    assumed: dict[str, Any] = {} if said else {"batch": batch}
    assumed |= {"weights": name} if _open(claim, what) else {}
    found = replace(at(batch), format=name, batch=batch, assumed=assumed, model=what.name)
    return replace(found, explanations=_explained(claim, found))


def _floor(
    claim: Claimed, speed: str, on: Accelerator, what: Named, batch: int, formats: FormatOptions
) -> Floor:
    one, context = what.model, claim.context
    value = getattr(claim, speed) / (claim.chips if SPEEDS[speed][1] else 1)
    if speed == "prompt_tokens_per_second":
        # Long enough for many tokens to share the head and weights, short of attention.
        context = context or 256
        batch = batch if claim.batch or claim.users else 1024
    tokens = batch * claim.tokens_per_pass
    decoding = speed in ("tokens_per_second", "ms_per_token")
    prefill = not decoding and (speed != "ms" or claim.prefill)
    times = {"tokens_per_second": tokens / value, "ttft": value, "ms": value / 1e3}
    times |= {"ms_per_token": claim.tokens_per_pass * value / 1e3}
    took = times.get(speed, batch * (context or 1) / value)
    if decoding and isinstance(one, Transformer):
        how: Any = {"context": context or 0, "tp": claim.tp, **formats}
        ceilings = llm.check_claim(one, on, tokens / took, batch, claim.tokens_per_pass, **how)
        return Floor(took, *(float(took * share) for share in ceilings.shares))
    context = context or 1 if speed == "ttft" else context
    split: Any = {"tp": claim.tp, "link": on.usual_link(claim.tp)}
    if isinstance(one, Transformer):
        run = llm.prefill if prefill or one.kind != "decoder" else llm.decode
        step = run(one, on, batch, context or min(1024, one.context), **split, **formats)
    else:
        step = ask(what, on, batch, context, prefill=prefill, **split, **formats).step
    least: Any = step.least or step
    return Floor(took, *map(float, (least.t_math, least.t_memory, least.t_network)))


def _players(on: Accelerator) -> bool:
    return any("GeForce" in name for name in on.device_names)


def margins(on: Accelerator, clock: float | None = None, compute: str | None = None) -> Floor:
    """Shares by which a chip may exceed its datasheet in each term."""
    own = on.figures.get(f"matrix.{compute}")
    stated = (own and own.clock) or on.clock
    if clock is not None:
        if stated is None:
            raise CourseError(f"clock: {on.key} publishes none for its peaks: leave --clock out")
        above = 1e6 * clock / stated * (1 + ROUNDED) - 1
    elif _players(on):
        above = PLAYERS
    elif stated and on.max_clock:
        above = on.max_clock / stated * (1 + ROUNDED) - 1
    else:
        above = ABOVE
    # Sums in fp16 run twice as fast on some cards, and few say which they took.
    rates = [rate for name, rate in on.peaks.items() if name.startswith(f"matrix.{compute}/")]
    if rates and own:
        above = (1 + above) * max(1.0, max(rates) / own.si) - 1
    return Floor(0.0, above, PLAYERS_MEMORY if _players(on) else ROUNDED, LINKS)


def _decided(
    claim: Claimed, speed: str, on: Accelerator | None, floor: Floor, compute: str | None = None
) -> Judgment:
    above = Floor(0.0) if on is None else margins(on, claim.clock, compute)
    seconds = floor._asdict()
    took = seconds.pop("took")
    least = {name: value / (1 + getattr(above, name)) for name, value in seconds.items()}
    term = max(least, key=lambda name: least[name])
    verdict, near = "possible", took * (1 + 1e-9)
    if near < least[term]:
        # What lies in the caches from one call to the next need not come from memory.
        cached = 0.0 if on is None else ((on.llc or 0) + (on.scratchpad or 0)) / on.bandwidth
        left = max(0.0, seconds["memory"] - cached) / (1 + above.memory)
        others = {**least, "memory": left}
        verdict = "impossible" if near < max(others.values()) else "cache-only"
    factor, claimed = seconds[term] / took, getattr(claim, speed)
    limit = claimed / factor if SPEEDS[speed][1] else claimed * factor
    measure = (speed, claimed, limit, factor, term, getattr(above, term), seconds)
    return Judgment(verdict, *measure, chip="" if on is None else on.key)


def _explained(claim: Claimed, found: Judgment) -> dict[str, float]:
    """What would make it true or how such numbers come about, by key, with what each takes."""
    more: dict[str, float] = {}
    if found.verdict != "impossible":
        if found.verdict == "possible" and found.factor > 1 + 1e-9:
            more["above"] = found.factor - 1
        if "batch" in found.assumed and (found.batch or 1) > 1:
            more["batch"] = float(found.batch or 1)
        if found.factor < _LITTLE and found.speed in ("flops", "bytes_per_second"):
            more["unit"] = 1.0
        return more
    if found.speed in ("tokens_per_second", "ms_per_token") and found.term == "memory":
        more["speculation"] = claim.tokens_per_pass * found.factor
    if found.speed in ("prompt_tokens_per_second", "ttft"):
        more["prefix-cache"] = 1 - 1 / found.factor
    if found.speed == "ms" and not claim.collective and found.claimed / 1e3 < _LAUNCH:
        more["unsynchronized"] = found.factor
    if SPEEDS[found.speed][1] and found.speed != "mfu":
        more["chips"] = float(math.ceil(found.factor * max(claim.chips, claim.tp)))
    return more


def _of_rate(claim: Claimed, speed: str, on: Any) -> Judgment:
    """A rate of arithmetic or of memory, and a collective."""
    value, more = getattr(claim, speed), {}
    many = max(claim.chips, claim.tp)
    if claim.collective:
        if on is None or claim.bytes is None or speed != "ms":
            raise CourseError("--collective needs a chip, --bytes, --chips and --ms")
        ring, least = _crossing(claim, on)
        found = _decided(claim, speed, on, Floor(value / 1e3, network=least))
        found = replace(found, model=claim.collective)
        if found.verdict == "possible" and ring > value / 1e3 * (1 + LINKS):
            more["in-switch"] = 1e3 * ring / value
        if found.verdict == "impossible" and found.factor <= 2:
            more["both-directions"] = found.factor
    elif speed == "mfu":
        ratio = _sparse(on, claim.format or claim.compute or "bf16") if claim.sparse else 1.0
        # Only cards that run above their stated clock exceed the peak they are set against.
        card = on if on is not None and (_players(on) or claim.clock) else None
        found = _decided(claim, speed, card, Floor(1.0, compute=value / ratio))
        found = replace(found, chip="" if on is None else on.key)
        more = {"other-peak": value} if found.verdict == "impossible" else {}
        more |= {"percent": value / 100} if 5 < value <= 100 else {}
    elif speed == "bytes_per_second":
        took = 1.0 if claim.bytes is None else claim.bytes * many / value
        found = _decided(claim, speed, on, Floor(took, memory=value / many * took / on.bandwidth))
        if claim.bytes is None and found.verdict != "possible":
            clock = (on.max_clock or on.clock or math.inf) * (1 + margins(on).compute)
            most = min(CACHE * on.bandwidth, (on.multiprocessors or math.inf) * clock * PORT)
            kept = (on.llc or on.scratchpad) and value / many < most
            found = replace(found, verdict="cache-only" if kept else "impossible")
        if found.verdict == "impossible" and found.factor <= 8 * (1 + ROUNDED):
            more["bits"] = found.factor / 8
    else:
        return _of_flops(claim, on, value / many)
    return replace(found, explanations={**_explained(claim, found), **more})


def _of_flops(claim: Claimed, on: Accelerator, value: float) -> Judgment:
    """A rate in the format that was said, or in the widest of all that would allow it."""
    rates, given = _rates(on), claim.format or claim.compute or claim.weights
    tried = sorted(rates, key=lambda name: (-BITS[name], rates[name]))
    if given is None:
        tried = [name for name in tried if BITS[name] <= 16] or tried
    else:
        known("format", given, rates, f"of {on.key}")
        tried = [given, *(name for name in tried if BITS[name] < BITS[given])]
    every = []
    for name in tried:
        rate = rates[name] * (_sparse(on, name) if claim.sparse else 1.0)
        one = _decided(claim, "flops", on, Floor(1.0, value / rate))
        every.append(replace(one, format=name, assumed={} if given else {"format": name}))
    passing = [one for one in every if one.verdict == "possible"]
    nearest = min(every, key=lambda one: one.factor)
    found = every[0] if given else next(iter(passing), nearest)
    more = _explained(claim, found)
    if found.verdict == "impossible" and found.factor <= _sparse(on, found.format) * (1 + ROUNDED):
        more["sparse"] = found.factor
    return replace(found, formats=tuple(one.format for one in passing), explanations=more)


def _rates(on: Accelerator) -> dict[str, float]:
    """The highest rate of each format, on whichever unit and with whichever sums; fp32 by tf32."""
    found: dict[str, float] = {}
    for name, rate in on.peaks.items():
        dtype = name.partition(".")[2].partition("/")[0]
        found[dtype] = max(found.get(dtype, 0.0), rate)
    if "tf32" in found:
        found["fp32"] = max(found.get("fp32", 0.0), found["tf32"])
    return found


def _sparse(on: Accelerator | None, dtype: str) -> float:
    """How many times the dense peak the sparse one is: as printed, or twice."""
    figure = None if on is None else on.figures.get(f"matrix.{dtype}")
    return figure.sparse / figure.value if figure is not None and figure.sparse else 2.0


def _crossing(claim: Claimed, on: Accelerator) -> tuple[float, float]:
    """Seconds of a collective around a ring, and the fewest: where the switch adds up."""
    known("collective", claim.collective, get_args(Collectives))
    name = claim.link or on.usual_link(max(claim.chips, 2))
    if not name:
        raise CourseError(f"{on.key} has no published link: name a chip that has one")
    link = network.resolve_link(on, name, claim.chips, name="chips")
    work: Any = getattr(network, claim.collective.replace("-", "_"))
    usual = float(work(claim.bytes, link, claim.chips))
    if isinstance(link, network.Nodes):
        return usual, usual / 2 if claim.collective == "all-reduce" else usual
    # The last way that the library knows is the fastest, but for a message from chip to chip.
    way = "cut-through" if claim.collective == "send" else ALGORITHMS[claim.collective][-1]
    return usual, min(usual, float(work(claim.bytes, link, claim.chips, algorithm=way)))


def read(path: Path | str, chip: str = "") -> Iterator[tuple[str, Judgment | str]]:
    """Each claim of a CSV or JSON file, or of all in a folder: where it stands, and its verdict, or
    why there is none. Rows are a lab's, or somebody's; `chip` is of those that name none.
    """
    path = Path(path)
    inside = sorted(one for one in path.rglob("*") if one.suffix in (".csv", ".json"))
    for file in inside if path.is_dir() else [path]:
        try:
            rows = _rows(file)
        except (CourseError, OSError, ValueError) as error:
            yield file.name, f"cannot be read: {error}"
            continue
        for line, row in enumerate(rows, 1 if file.suffix == ".json" else 2):
            try:
                found = of_row(row) if isinstance(row, Row) else verify(claimed(row, chip))
                yield f"{file.name}:{line}", found
            except CourseError as error:
                yield f"{file.name}:{line}", str(error)


def _rows(file: Path) -> list[Any]:
    content = file.read_text(encoding="utf-8-sig")
    if file.suffix != ".json":
        lab = content.partition("\n")[0].strip() == HEADER
        return results.read(file) if lab else list(csv.DictReader(content.splitlines()))
    held = json.loads(content)
    if isinstance(held, dict):
        held = held.get("claims", held.get("results", held))
    return held if isinstance(held, list) else [held]


def claimed(row: Any, chip: str = "") -> Claimed:
    """What a row of somebody's table claims, by the names that programs give to such columns."""
    if not isinstance(row, dict):
        raise CourseError("a row must be an object with a model, a chip and a speed")
    found: dict[str, Any] = {}
    for said, cell in row.items():
        name = re.sub("[^a-z0-9]+", "_", str(said).lower()).strip("_")
        meant = COLUMNS.get(name, {"field": name, "times": "1"})
        field = meant["field"]
        if field in (*Claimed.__struct_fields__, *_BESIDE) and cell not in ("", None):
            value = _number(cell, field, float(meant["times"]))
            if field == "tokens_per_second" and re.search(EACH, str(cell), re.I):
                field = "per_user" if "user" in str(cell).lower() else "per_chip"
            # Chips in all, and those of a replica: the larger number refuses less.
            both = field == "tp" and isinstance(value, int) and isinstance(found.get(field), int)
            found[field] = max(found[field], value) if both else found.get(field, value)
    _say_directly(found)
    found["chip"] = _chip_of(str(found.get("chip") or chip))
    # As the hub writes it, which adds what weights were tuned to.
    said = str(found.get("model", ""))
    bare = re.sub(r"[\s_]+", "-", said.lower().rpartition("/")[2]).removeprefix("meta-")
    bare = re.sub(r"llama-?(\d)(?:\.1(?=-405b))?", r"llama-\1", bare)
    meant = [key for key in models() if bare.startswith(key + "-")]
    found["model"] = spelled(bare, models()) or max(meant, key=len, default=said)
    for name in {"weights", "cache", "compute", "format"} & found.keys():
        said = str(found[name]).lower().replace(" ", "-")
        found[name] = COLUMNS[said]["field"] if said in COLUMNS else said
    try:
        return msgspec.convert(found, Claimed, strict=False)
    except msgspec.ValidationError as error:
        raise CourseError(f"a row does not fit its columns: {error}") from None


def _say_directly(found: dict[str, Any]) -> None:
    """What columns say beside a speed, in the fields of a claim; a row that leaves out how many
    tokens were guessed, or found in a cache, is not judged.
    """
    number, *named = re.split(r"(?<=\d) ?[x×] ?", str(found.get("chip", "")), maxsplit=1)
    if named and number.isdecimal():
        found |= {"chip": named[0], "tp": found.get("tp", int(number))}
    user, each, guesses, draft, cached = (found.pop(name, None) for name in _BESIDE)
    if isinstance(user, int | float) and user > 0:
        found.setdefault("ms_per_token", 1e3 / user)
    if isinstance(each, int | float):
        found.setdefault("tokens_per_second", each * found.get("tp", 1) * found.get("chips", 1))
    if isinstance(guesses, int) and guesses > 0:
        found.setdefault("tokens_per_pass", guesses + 1)
    if str(draft).lower() not in _NO and "tokens_per_pass" not in found:
        raise CourseError("speculation must be said in tokens a pass: add acceptance_length")
    if str(cached).lower() not in _NO and {"ttft", "prompt_tokens_per_second"} & found.keys():
        raise CourseError("prompts were found in a cache, and no roof is known of that")


def _number(cell: Any, field: str, times: float) -> Any:
    """A cell as a number, of 1,234.5, 40 % or 2.3k tok/s; other text as it stands."""
    value, unit = cell, SPEEDS[field][0] if field in SPEEDS else _UNITS.get(field, "number")
    if field in _TEXTS:
        return cell
    if isinstance(cell, str):
        try:
            bare = re.sub(EACH, "", cell.strip(), flags=re.I)
            value = amount(bare, unit)
        except CourseError:
            return cell
        if re.search(r"[a-zµ%](?<!\de)", bare, re.I):  # it says its unit
            times = 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return cell
    value = value * times
    return int(value) if value == int(value) else value


def _chip_of(said: str) -> str:
    """The key of a chip as people write it; of several that may be meant, the fastest."""
    listed = chip_of_device(said) if said else None
    bare = re.sub(r"[\s_]+", "-", re.sub(r"nvidia|amd|google|geforce|instinct", "", said.lower()))
    bare = bare.strip("-")
    if listed is not None or not bare:
        return listed.key if listed is not None else ""
    meant = [key for key in chips() if key.startswith(bare + "-")]
    return spelled(bare, chips()) or max(
        meant, key=lambda key: accelerator(key).bandwidth, default=said
    )


def of_row(row: Row) -> Judgment:
    """Whether a lab's row can be true: its work over its time."""
    on, took = chip_of_device(row.device), row.seconds_median
    if row.status != "ok" or not took:
        raise CourseError(f"status {row.status} and no time: nothing is claimed")
    if on is None and not row.peak_tflops:
        raise CourseError(f"device {row.device!r} is no chip's: course chips lists them")
    claim = Claimed(chip="" if on is None else on.key, ms=1e3 * took)
    if row.world:
        if row.transport != "nccl":
            raise CourseError(f"messages went by {row.transport or 'nobody knows what'}")
        size = {"collective": row.op, "bytes": float(row.sizes[0]), "chips": row.world}
        return verify(msgspec.structs.replace(claim, **size))
    # A chip that nobody listed is held to the peak in the row itself.
    rate, bandwidth = 1e12 * (row.peak_tflops or 0.0) * (1 + ABOVE), math.inf
    if on is not None:
        rate, bandwidth = _rates(on).get(row.dtype, math.inf), on.bandwidth
    # What was loaded, as an interpreter counts, may have come from anywhere.
    moved = 0.0 if row.counted else row.bytes or 0.0
    floor = Floor(took, (row.flops or 0.0) / rate, moved / bandwidth)
    found = _decided(claim, "ms", on, floor, row.dtype)
    if found.term == "memory" and found.verdict == "impossible" and row.op not in PLAIN:
        # Of several kernels, each may find in the cache what the one before it left.
        found = replace(found, verdict="cache-only")
    found = replace(found, format=row.dtype, model=f"{row.op} {row.shape}")
    return replace(found, explanations=_explained(claim, found))
