"""Grades lab 04: what kernels compute, how far they reach, and what they move.

Triton's interpreter runs them on random arrays, and every byte loaded and stored is counted. A step
is judged up to its first mistake, which is named where a result agrees with one made on purpose.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from math import ceil, isfinite, prod
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from course_lib import ops
import course_tools
from course_tools.campaigns.traffic import Launch
from course_press.grading.lab import Finding, Lab, Session
from course_press.grading.learner import EndedError, Reply, as_float
from course_press.grading.verdict import Amount, Text, Value, message

DROPPED = 0.25  # share that dropout drops, such that p, 1 - p and their inverses are told apart
_GIVEN = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes())
# By criterion, the function that the learner writes.
STEPS = {criterion: one["function"] for criterion, one in _GIVEN.items()}
# The learner's process has none of the library: it gets this file by its path.
COUNTER = Path(course_tools.__file__).parent / "campaigns" / "traffic.py"
# Nothing of torch is simulated here: what a file imports is there, or it is not.
FAILURES = {"unsupported": "no-module"}
ENOUGH = 0.2  # share of the elements that a reading must explain: it may know nothing of the others
# Operators of torch that only lay an array out anew.
COPIES = ("clone", "copy", "copy_", "_to_copy", "contiguous")
# Bytes of sectors over bytes asked for, from which neighboring lanes do not read neighbors.
SPARSE = 1.5
# Relative error that a sum in fp32 stays below, rounded to fp16 at the end: half of 2^-10.
ABSORBED = 2e-3
Arrays: TypeAlias = Sequence[np.ndarray]
Readings: TypeAlias = Iterator[tuple[str, np.ndarray]]


class Given(NamedTuple):
    """What one call works on: the sizes as the formula takes them, and those of a block."""

    sizes: tuple[int, ...]
    block: int | tuple[int, ...]
    causal: bool = False

    @property
    def blocks(self) -> tuple[int, ...]:
        """The sizes of a block, also where there is one."""
        return (self.block,) if isinstance(self.block, int) else self.block

    @property
    def shown(self) -> str:
        """The sizes as text."""
        return " × ".join(map(str, self.sizes))


def cases(step: str) -> list[Given]:
    """The calls of a step."""
    found = []
    for text in _GIVEN[step]["calls"].split():
        sizes, block, *causal = text.split("/")
        whole, part = (tuple(map(int, one.split("x"))) for one in (sizes, block))
        found.append(Given(whole, part if len(part) > 1 else part[0], causal=bool(causal)))
    return found


def sides(step: str, case: Given) -> tuple[int, ...]:
    """What of each size a block holds."""
    if step == "softmax":
        return (1, *case.blocks)
    return (*case.blocks, 1) if step == "attention" else case.blocks


def even(step: str, case: Given) -> bool:
    """Whether the sizes are multiples of the block's."""
    return not any(map(operator.mod, case.sizes, sides(step, case)))


def arrays(step: str, case: Given, rng: np.random.Generator, kind: str = "") -> list[np.ndarray]:
    """Operands of a call; of `large` ones exponentials overflow, `absorbed` need a wide sum."""

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return scale * rng.standard_normal(shape)

    sizes = case.sizes
    if step == "add":
        return [normal(*sizes).astype(np.float32) for _ in range(2)]
    if step == "fused":
        return [normal(*sizes).astype(np.float16), normal(sizes[1]).astype(np.float16)]
    if step == "softmax":  # rising, so that the maximum grows from block to block
        rising = normal(*sizes, scale=3.0) + np.linspace(0, 12, sizes[1])
        return [(100 * rising if kind == "large" else rising).astype(np.float32)]
    if step == "matmul":
        M, N, K = sizes
        if kind == "absorbed":
            a, b = rng.uniform(0.07, 0.1, (M, K)), rng.uniform(0.07, 0.1, (K, N))
            a[:, 0], b[0] = rng.uniform(32, 36, M), rng.uniform(64, 72, N)
            return [a.astype(np.float16), b.astype(np.float16)]
        return [normal(M, K).astype(np.float16), normal(K, N).astype(np.float16)]
    queries, keys, dim = sizes
    if kind == "absorbed":  # all weights are alike, so the values are added up as they are
        v = rng.uniform(0.005, 0.01, (keys, dim))
        v[0] = rng.uniform(2048, 2500, dim)
        q, k = np.zeros((queries, dim)), normal(keys, dim)
    else:
        scale = 12.0 if kind == "large" else 1.5
        q, k = normal(queries, dim, scale=scale), normal(keys, dim, scale=scale)
        v = normal(keys, dim)
    return [one.astype(np.float16) for one in (q, k, v)]


def exact(step: str, operands: Sequence[np.ndarray], case: Given) -> np.ndarray:
    """The result in float64; of dropout, what it keeps."""
    wide = [one.astype(np.float64) for one in operands]
    if step == "add":
        return wide[0] + wide[1]
    if step == "fused":
        return gelu(wide[0] + wide[1]) / (1 - DROPPED)
    if step == "softmax":
        return softmax(wide[0])
    if step == "matmul":
        return wide[0] @ wide[1]
    return softmax(scores(wide[0], wide[1], causal=case.causal)) @ wide[2]


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU in its form with tanh."""
    wide = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return np.asarray(0.5 * x * (1 + wide))


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax of rows."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def scores(q: np.ndarray, k: np.ndarray, *, causal: bool) -> np.ndarray:
    """Scaled scores of attention, with what a token may not see left out."""
    found = np.asarray(q @ k.T / np.sqrt(q.shape[1]))
    return np.where(np.tri(*found.shape) > 0, found, -np.inf) if causal else found


def wrong(step: str, got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which elements are further from the exact result than they may be."""
    with np.errstate(invalid="ignore"):
        return np.asarray(
            ~(np.abs(got - wanted) <= _GIVEN[step]["tolerance"] * np.abs(wanted).max())
        )


def traffic(step: str, case: Given) -> tuple[float, float]:
    """Bytes that a good kernel loads and stores with these blocks, each program for itself."""
    work = ops.blocked(step, case.sizes, case.blocks)
    return float(work.loaded), float(work.stored)


def padded(step: str, case: Given) -> float:
    """Bytes where blocks at the edge are counted whole."""
    blocks = sides(step, case)
    filled = (ceil(size / one) * one for size, one in zip(case.sizes, blocks, strict=True))
    return sum(traffic(step, case._replace(sizes=tuple(filled))))


def hint(step: str, got: np.ndarray, operands: Arrays, case: Given) -> Text | None:
    """The mistake that gives this result, if it is one of the usual ones."""
    wide, right = [one.astype(np.float64) for one in operands], exact(step, operands, case)
    with np.errstate(all="ignore"):
        for key, would in READINGS[step](wide, case):
            known = np.isfinite(would) & np.isfinite(got)
            if step == "fused":
                known &= got != 0
            agrees = np.abs(got - would) <= _GIVEN[step]["tolerance"] * np.abs(right).max()
            # It must tell itself apart from what is right.
            apart = wrong(step, would, right) & known
            if known.mean() > ENOUGH and agrees[known].all() and apart.any():
                return message(key)
    return None


def shown(value: float) -> Value:
    """A number, or what stands for none."""
    return Amount(float(value), digits=4) if np.isfinite(value) else str(float(value))


def _of_add(wide: Arrays, _: Given) -> Readings:
    x, y = wide
    yield "hint-add-one", x
    yield "hint-add-one", y
    yield "hint-add-other", x - y
    yield "hint-add-other", x * y


def _of_fused(wide: Arrays, _: Given) -> Readings:
    x, bias = wide
    kept = gelu(x + bias)
    for scale in (1 / (1 - DROPPED), 1.0, 1 / DROPPED, 1 - DROPPED):
        yield "hint-gelu-first", scale * (gelu(x) + bias)
        yield "hint-gelu-first", scale * gelu(x)
    for scale in (1.0, 1 / DROPPED, 1 - DROPPED):
        yield "hint-dropout-scale", scale * kept


def _of_softmax(wide: Arrays, case: Given) -> Readings:
    (x,) = wide
    for scale in (1.0, 0.0):  # of what was summed before: kept as it was, or forgotten
        top, total, _ = _online(x, x.T, case.blocks[0], scale)
        yield "hint-rescale", np.asarray(np.exp(x - top) / total)
    yield "hint-not-divided", np.exp(x - x.max(axis=1, keepdims=True))


def _of_matmul(wide: Arrays, case: Given) -> Readings:
    a, b = wide
    M, N, K = case.sizes
    along = K // case.blocks[2] * case.blocks[2]
    if along < K:
        yield "hint-last-inner", a[:, :along] @ b[:along]
    for step in {M, N, 1} - {K}:
        yield "hint-stride", _misread(a, step) @ b
    for step in {M, K, 1} - {N}:
        yield "hint-stride", a @ _misread(b, step)
    yield "hint-stride", _misread(a, N) @ _misread(b, K)
    yield "hint-block-only", a[:, -case.blocks[2] :] @ b[-case.blocks[2] :]


def _misread(x: np.ndarray, stride: int) -> np.ndarray:
    """An array read with another row's stride; what is past its end is not a number."""
    flat = np.append(x.reshape(-1), np.nan)
    rows, columns = np.indices(x.shape)
    at = rows * stride + columns
    return np.asarray(flat[np.minimum(at, x.size)])


def _of_attention(wide: Arrays, case: Given) -> Readings:
    q, k, v = wide
    root = np.sqrt(q.shape[1])
    found = scores(q, k, causal=case.causal)
    yield "hint-scale", softmax(found * root) @ v
    yield "hint-scale", softmax(found / root) @ v
    yield "hint-scale", softmax(found * root * root) @ v
    for of_total, of_result in ((None, 1.0), (1.0, None), (1.0, 1.0)):
        _, total, result = _online(found, v, case.blocks[1], of_total, of_result)
        yield "hint-rescale", np.asarray(result / total)
    sums = np.exp(found - found.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)
    yield "hint-not-divided", softmax(found) @ v * sums
    if case.causal:
        every, seen = scores(q, k, causal=False), np.tri(len(q)) > 0
        sides = {"hint-causal-side": seen.T, "hint-causal-none": np.ones_like(seen)}
        for key, side in {**sides, "hint-causal-self": seen & ~np.eye(len(q), dtype=bool)}.items():
            yield key, softmax(np.where(side, every, -np.inf)) @ v
    keys = len(k) // case.blocks[1] * case.blocks[1]
    if 0 < keys < len(k):
        yield "hint-last-inner", softmax(found[:, :keys]) @ v[:keys]


def _online(
    found: np.ndarray,
    v: np.ndarray,
    block: int,
    total_scale: float | None = None,
    result_scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maxima, sums and results block by block, rescaled to the new maximum or by what is given."""
    rows = len(found)
    top, total, result = np.full((rows, 1), -np.inf), np.zeros((rows, 1)), np.zeros(v.shape)[:1]
    for start in range(0, found.shape[1], block):
        part = found[:, start : start + block]
        higher = np.maximum(top, part.max(axis=1, keepdims=True))
        rescale = np.nan_to_num(np.exp(top - higher))
        weight = np.nan_to_num(np.exp(part - higher))
        total = total * (rescale if total_scale is None else total_scale)
        result = result * (rescale if result_scale is None else result_scale)
        total = total + weight.sum(axis=1, keepdims=True)
        result = result + weight @ v[start : start + block]
        top = higher
    return top, total, result


READINGS: dict[str, Callable[[Arrays, Given], Readings]] = {
    "add": _of_add,
    "fused": _of_fused,
    "softmax": _of_softmax,
    "matmul": _of_matmul,
    "attention": _of_attention,
}


class Called(NamedTuple):
    """An operator of torch, and the learner's line that called it."""

    name: str
    line: int

    def told(self, key: str, call: str) -> Text:
        """What is told of it."""
        return message(key, call=call, what=f"torch: {self.name}", line=str(self.line))


class KernelReply(Reply):
    """What comes from the learner's process."""

    number: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    launches: tuple[Launch, ...] = ()
    calls: tuple[Called, ...] = ()
    # Whether something but a kernel wrote what one was given, or what came back.
    changed: bool = False


class KernelResult(NamedTuple):
    """What came of one call: an array, or a kind of failure and why; and what was moved."""

    case: Given
    operands: Arrays
    kind: str = ""
    why: Text | None = None
    values: Any = None
    launches: Sequence[Launch] = ()
    calls: Sequence[Called] = ()

    def total(self, field: str) -> int:
        """A field of all launches together."""
        return sum(getattr(one, field) for one in self.launches)


class Run:
    """A learner's process, asked for one step."""

    def __init__(self, session: Session, step: str) -> None:
        session.clear()
        self.step, self.call, self.rng = step, f"{STEPS[step]}(…)", session.rng
        self.learner = session.start("kernels", traffic=str(COUNTER))
        self.broken = self._heard(self.call)[0]
        """Why the file cannot even be executed."""

    def ask(
        self, case: Given, operands: Arrays, *, seed: int = 1, apart: bool = False
    ) -> KernelResult:
        """Call the learner's function."""
        about = [{"dtype": str(x.dtype), "shape": [*x.shape], "apart": apart} for x in operands]
        named = self._named(case)
        if self.step == "fused":
            named |= {"p": DROPPED, "seed": seed}
        question = {"function": STEPS[self.step], "named": named, "arrays": about}
        self.learner.tell(question, b"".join(one.tobytes() for one in operands))
        broken, reply, payload = self._heard(self.call)
        result = KernelResult(case, operands)
        if broken or reply is None:
            return result._replace(kind=broken[0], why=broken[1]) if broken else result
        result = result._replace(launches=reply.launches, calls=reply.calls)
        rows = case.sizes[:1] if self.step == "add" else case.sizes[:2]
        wanted = (case.sizes[0], case.sizes[2]) if self.step == "attention" else rows
        kind = operands[0].dtype
        alike = reply.dtype == str(kind) and len(payload) == kind.itemsize * prod(wanted)
        if reply.other or reply.shape != wanted or not alike:
            given = reply.other or f"{reply.dtype}{list(reply.shape)}"
            due = f"{kind}{list(wanted)}"
            why = message("returned-array", call=self.call, given=given, wanted=due)
            return result._replace(kind="returned", why=why)
        if reply.changed and reply.launches:
            return result._replace(kind="changed", why=message("own-outside", call=self.call))
        values = np.frombuffer(payload, kind).reshape(wanted).astype(np.float64)
        return result._replace(values=values)

    def formula(self, case: Given) -> float | Text:
        """What the learner's formula gives for a case, or what is wrong with it."""
        # A vector's and a row's bytes do not depend on the block: each is passed over as often.
        named = {} if self.step in ("add", "softmax") else self._named(case)
        name = f"{STEPS[self.step]}_bytes"
        self.learner.tell({"function": name, "sizes": list(case.sizes), "named": named})
        broken, reply, _ = self._heard(f"{name}(…)")
        if broken or reply is None:
            return broken[1] if broken else message("unasked")
        if not isfinite(found := as_float(reply.number)):
            return message("formula-number", call=name, given=reply.other or reply.number)
        return found

    def _named(self, case: Given) -> dict[str, Any]:
        named: dict[str, Any] = {"block": case.block}
        return named | {"causal": case.causal} if self.step == "attention" else named

    def _heard(self, call: str) -> tuple[tuple[str, Text] | None, KernelReply | None, bytes]:
        """A kind of failure and what it is, or a reply with what came with it."""
        try:
            reply, payload = self.learner.hear(KernelReply)
        except EndedError as error:
            return ("gone", error.why), None, b""
        if reply.op == "failed":
            why = reply.failure.message(call, FAILURES)
            return (reply.failure.kind or "crash", why), None, b""
        return None, reply, payload


def _judged(runs: Iterator[Run], _: Session) -> Iterator[Finding]:
    missing = []
    for run in runs:
        if run.broken:
            yield "runs", run.broken[1]
            return
        for criterion, why in _findings(run):
            if criterion == "missing":
                missing.append(STEPS[run.step])
                break
            yield criterion, why
            if why:
                break
    if missing:
        yield "runs", message("not-implemented-kernels", call=", ".join(missing))


def _findings(run: Run) -> Iterator[tuple[str, Text | None]]:
    """What is found of one step, in a learner's order; nobody asks on after what is wrong."""
    step, calls = run.step, cases(run.step)
    operands = [arrays(step, case, run.rng) for case in calls]
    first = run.ask(calls[0], operands[0])
    if first.kind == "not-implemented":
        yield "missing", None
        return
    yield "runs", None if first.kind == "changed" else first.why
    for one in first.calls:
        yield "own", one.told("own-copies" if one.name in COPIES else "own-torch", run.call)
    yield "own", first.why if first.launches else message("own-no-kernel", call=run.call)
    asked = {0: first}
    for number, case in enumerate(calls):
        if even(step, case):
            result = asked[number] = asked.get(number) or run.ask(case, operands[number])
            yield step, result.why or _wrong(run, result)
    yield from ((step, why) for why in _more(run, first))
    for number, case in enumerate(calls):
        if number not in asked:
            result = asked[number] = run.ask(case, operands[number])
            yield "shapes", _shapes(run, result)
    if step in ("matmul", "attention"):
        yield "precision", _precision(run)
    # Arrays that do not lie in one piece are to be read as they lie.
    result = run.ask(first.case, first.operands, apart=True)
    for one in result.calls:
        yield "strides", one.told("strides-copied", run.call)
    if result.why:
        yield "strides", message("strides-failed", call=run.call, why=result.why)
    astray = _wrong(run, result) or result.total("outside_loaded")
    yield "strides", message("strides-wrong", call=run.call) if astray else None
    for result in asked.values():
        about: dict[str, Value] = {"call": run.call, "size": result.case.shown}
        for launch in result.launches:
            if launch.overlap:
                about |= {"code": launch.kernel, "count": launch.overlap}
                yield "overlap", message("overlap-wrong", **about)
        yield "overlap", None
    yield from (("bytes", why) for result in asked.values() for why in _bytes(run, result))
    yield from (("formula", _formula(run, result)) for result in asked.values())


def _wrong(run: Run, result: KernelResult) -> Text | None:
    """What is wrong with the values, and why if that shows."""
    right, got = exact(run.step, result.operands, result.case), result.values
    if run.step == "fused":
        right = np.where(got == 0, 0.0, right)
    places = np.argwhere(wrong(run.step, got, right))
    if not len(places):
        return None
    at = tuple(places[0].tolist())
    about: dict[str, Value] = {"call": run.call, "size": result.case.shown, "place": str([*at])}
    about |= {"given": shown(got[at]), "wanted": shown(right[at])}
    if why := hint(run.step, got, result.operands, result.case):
        return message("values-why", **about, why=why)
    return message("values-wrong", **about)


def _more(run: Run, first: KernelResult) -> Iterator[Text | None]:
    """What only some steps can get wrong."""
    if run.step == "fused":
        yield from _mask(run, first)
    if run.step in ("softmax", "attention"):
        result = run.ask(first.case, arrays(run.step, first.case, run.rng, "large"))
        if result.values is not None and not np.isfinite(result.values).all():
            yield message("hint-overflow", call=run.call)
        # How exact attention is there depends on where its scale is applied: that is no mistake.
        exactly = run.step == "softmax"
        yield result.why or (_wrong(run, result) if exactly else None)


def _mask(run: Run, first: KernelResult) -> Iterator[Text | None]:
    """What is wrong with what dropout dropped. A value near nought may have been kept."""
    case, operands = first.case, first.operands
    clear = np.abs(exact("fused", operands, case)) > 0.05
    dropped = first.values == 0
    # Neighbors that are dropped together everywhere share a random number.
    rows, columns = case.blocks
    for axis, step in ((0, 1), (0, rows), (1, columns)):
        size = dropped.shape[axis]
        before, after = range(size - step), range(step, size)
        alike = np.take(dropped, before, axis) == np.take(dropped, after, axis)
        if alike[np.take(clear, before, axis) & np.take(clear, after, axis)].all():
            yield message("mask-alike")
    share = float(dropped[clear].mean())
    if abs(share - DROPPED) > 0.08:
        yield message("mask-share", given=shown(share), wanted=DROPPED)
    if ((run.ask(case, operands).values == 0) != dropped).any():
        yield message("mask-changes")
    if ((run.ask(case, operands, seed=2).values == 0) == dropped)[clear].all():
        yield message("mask-seed")
    other_block = run.ask(case._replace(block=(16, 16)), operands)
    if other_block.values is not None and ((other_block.values == 0) != dropped)[clear].any():
        yield message("mask-block")
    yield None


def _shapes(run: Run, result: KernelResult) -> Text | None:
    """What is wrong where the sizes are no multiples of the block's."""
    case = result.case
    about: dict[str, Value] = {"call": run.call, "size": case.shown, "block": str(case.block)}
    if result.why:
        return message("shapes-failed", **about, why=result.why)
    for key in ("outside-loaded", "outside-stored"):
        if count := result.total(key.replace("-", "_")):
            return message(key, **about, count=count)
    if result.total("stored") < result.values.size * result.operands[0].itemsize:
        return message("last-block", **about)
    why = _wrong(run, result)
    if why and np.isnan(result.values).any():
        return message("lanes-left-out", **about)
    return why


def _precision(run: Run) -> Text | None:
    """Whether small addends survive beside a large sum."""
    matmul = run.step == "matmul"
    case = Given((16, 16, 1024), (16, 16, 64)) if matmul else Given((16, 1024, 16), (16, 64))
    operands = arrays(run.step, case, run.rng, "absorbed")
    result = run.ask(case, operands)
    if result.why:
        return result.why
    right = exact(run.step, operands, case)
    error = float(np.abs(result.values / right - 1).max())
    if error < ABSORBED:
        return None
    return message("precision-wrong", call=run.call, error=shown(error))


def _bytes(run: Run, result: KernelResult) -> Iterator[Text | None]:
    """Whether no more was moved than the blocks demand, in sectors that are used."""
    due = dict(zip(("loaded", "stored"), traffic(run.step, result.case), strict=True))
    about: dict[str, Value] = {"call": run.call, "size": result.case.shown}
    for way in ("stored", "loaded"):
        moved = result.total(way)
        if moved > due[way]:
            passes = run.step == "softmax" and way == "loaded"
            key = {"stored": "bytes-stored", "loaded": "bytes-loaded"}[way]
            key = "bytes-passes" if passes else key
            yield message(key, **about, moved=moved, due=due[way])
    for way in ("loaded", "stored"):
        moved, touched = result.total(way), result.total(f"{way}_sectors")
        if even(run.step, result.case) and touched > SPARSE * moved:
            yield message("bytes-sectors", **about, moved=moved, touched=touched)
    yield None


def _formula(run: Run, result: KernelResult) -> Text | None:
    """Whether the learner's count is what was counted."""
    given = run.formula(result.case)
    if isinstance(given, Text):
        return given
    loaded, stored = result.total("loaded"), result.total("stored")
    if given == (both := loaded + stored):
        return None
    size = 4 if run.step in ("add", "softmax") else 2
    readings = {
        "formula-store": loaded,
        "formula-elements": both / size,
        "formula-padded": padded(run.step, result.case),
        "formula-once": float(ops.blocked(run.step, result.case.sizes).bytes),
    }
    why = message(next((key for key, one in readings.items() if given == one), "formula-else"))
    about: dict[str, Value] = {"call": f"{STEPS[run.step]}_bytes", "size": result.case.shown}
    return message("formula-wrong", **about, given=given, counted=both, why=why)


KERNELS = Lab(
    name="kernels",
    criteria=(
        *("runs", "own", *STEPS),
        *("shapes", "precision", "strides", "overlap", "bytes", "formula"),
    ),
    scenarios=tuple(STEPS),
    observe=Run,
    judge=_judged,
    limit=60.0,  # of each step; right ones take two, on a computer that is not busy
    needs={
        "torch": ("needs-torch-kernels", "broken-kernels"),
        "triton": ("needs-triton-kernels", "broken-kernels"),
    },
    # The last one comes with the first array that is made while a mode watches: once is enough.
    preload=("torch", "triton", "torch._dynamo"),
    environment={"TRITON_INTERPRET": "1"},  # Triton looks at it when it is imported
    readable=(COUNTER,),
)
