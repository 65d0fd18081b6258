"""How long an engine's steps take, whose sequences differ: `llm.decode` tabulated, all but
attention by the count of tokens, attention by how many tokens look at how many.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, Unpack

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib.core import summed
from course_lib.core.checks import CourseError, count, nonnegative, single
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, decoder
from course_lib.specs.configurations import attending
from course_lib.workloads import llm
from course_lib.workloads.precision import FormatOptions, of_model
from course_lib.workloads.transformer import operators
from course_tools.calibrate import calibration
from course_tools.calibrate.errors import evidence_of
from course_tools.calibrate.kernels import kernels_of, overlapped
from course_tools.calibrate.links import Range
from course_tools.calibrate.timing import sums
from course_tools.serve.settings import EngineSettings

MOST = 2**20  # tokens of a step: its time is tabulated for each count, which takes ten seconds here
TESTED = ("first token", "time per token")  # of services, in the table of errors
# Likely times are computed for each count up to the first, and above at so many tokens' distance.
FINE, COARSE = 512, 16


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StepTimeModel:
    """The time of an engine's steps."""

    # tokens, heads: s that all but attention and the head take by count of tokens, and that the
    # head takes by count of sequences; from 0
    tokens: NDArray[np.float64]
    heads: NDArray[np.float64]
    launches: float = 0.0  # s that attention's kernels take beside their work
    # math, memory: s of a FLOP and of a byte of attention
    math: float = 0.0
    memory: float
    # How well attention's arithmetic hides its traffic, as a norm; infinite in a bound.
    order: float = inf
    flops: float = 0.0  # FLOP of attention for each pair of a token and one that it looks at
    # sequence, token: byte of attention that each new token moves, and each token in a cache
    sequence: float = 0.0
    token: float = 1.0
    # full, windowed, window, chunked: layers that look at all tokens and at a window's, over those
    # that this is of, and what the model says of the window
    full: float = 1.0
    windowed: float = 0.0
    window: int = 0
    chunked: bool = False
    # Of layers that keep a state, byte of a pass over it, of a sequence beside, and of a new token,
    # and FLOP of a new token.
    state: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    # step, prompt, first: s that the host adds to each step, that one with a part of a prompt takes
    # at least, and that a request takes before its first step
    step: float = 0.0
    prompt: float = 0.0
    first: float = 0.0
    # steps, waits: the ends of the range of all these times, as factors, and of how long a first
    # token takes beside; `wait` is the factor that a first token has
    steps: tuple[float, float] = (1.0, 1.0)
    waits: tuple[float, float] = (1.0, 1.0)
    wait: float = 1.0
    # calibrated, source: whether these are likely times, else lower bounds; whose constants
    calibrated: bool = True
    source: str
    evidence: str = ""  # rows of the table of errors

    def seconds(
        self,
        tokens: int,
        sequences: int,
        pairs: float,
        new: float,
        seen: float,
        near: tuple[float, float] = (0.0, 0.0),
        passes: float = 0.0,
    ) -> float:
        """S of a step of so many tokens and sequences; `pairs` are tokens times what each looks at,
        summed, and attention writes `new` tokens and reads `seen` in the caches; `near` are both in
        layers with a window, and `passes` go over sequences' states.
        """
        took = self._attends((pairs, seen), near, new, sequences, passes)
        return float(self.tokens[tokens] + self.heads[sequences] + self.launches + took + self.step)

    def _attends(self, far: Any, near: Any, new: float, sequences: int, passes: float) -> Any:
        """S of attention, of pairs and tokens looked at in layers that see all and those with a
        window, and of what keeps a state.
        """
        each, own, fresh, flops = self.state
        moved, took = each * passes + own * sequences + fresh * new, 0.0
        if moved:
            took = overlapped(self.math * flops * new, self.memory * moved, self.order)
        for layers, (pairs, seen) in ((self.full, far), (self.windowed, near)):
            if layers:
                reads = self.memory * (self.sequence * new + self.token * seen)
                took = took + layers * overlapped(self.math * self.flops * pairs, reads, self.order)
        return took

    def ends(self) -> list["StepTimeModel"]:
        """The same at the two ends of the range."""
        times = ("tokens", "heads", "launches", "math", "memory", "step", "prompt", "first")
        return [
            replace(self, wait=wait, **{name: by * getattr(self, name) for name in times})
            for by, wait in zip(self.steps, self.waits, strict=True)
        ]

    def decoding(
        self, sequences: int, seen: float, steps: int, near: float = 0.0, rising: int = 0
    ) -> NDArray[np.float64]:
        """So many decode steps one after another, the first of which reads `seen` tokens, the new
        ones included, and each next one more for each sequence; in layers with a window `near`, and
        one more for each that is `rising`.
        """
        done = np.arange(steps)
        reads, close = seen + sequences * done, near + rising * done
        fixed = self.tokens[sequences] + self.heads[sequences] + self.launches + self.step
        looks = (reads, reads), (close, close)
        return np.asarray(fixed + self._attends(*looks, sequences, sequences, 2.0 * sequences))


def step_times(
    model: Transformer | str,
    chip: Accelerator | str,
    engine: EngineSettings,
    *,
    calibrated: bool = True,
    link: Any = None,
    **formats: Unpack[FormatOptions],
) -> StepTimeModel:
    """The steps of a model on a chip, or on several that share it.

    Latent attention works on the latent vectors in every step.

    Parameters
    ----------
    model, chip : a transformer that decodes and an accelerator, or their keys.
    engine : how many tokens and sequences a step may have, over how many chips, and what it adds.
    calibrated : likely times, with the constants of the chip and of the engine; ``False`` gives
        lower bounds.
    w, x, kv, compute, link : as in `llm.decode`.

    Examples
    --------
    >>> from course_tools.serve.settings import engine
    >>> steps = step_times("llama-3-8b", "h100-sxm", engine("vllm"), calibrated=False)
    >>> step = llm.decode("llama-3-8b", "h100-sxm", 64, 1024)
    >>> took = steps.seconds(64, 64, 64 * 1024, 64, 64 * 1024)
    >>> abs(took / step.lower - 1) < 1e-9
    True
    """
    one, on = decoder(model, windows=True), accelerator(chip)
    fm, engine = of_model(one, on, **formats), engine.on(on)
    shared: dict[str, Any] = {
        "tp": engine.tensor_parallel_size,
        "ep": engine.ep,
        "skew": engine.skew,
    }
    if (most := engine.most_tokens(one.context)) > MOST:
        raise CourseError(
            f"engine max_num_batched_tokens, max_num_seqs with num_speculative_tokens, or a "
            f"max_model_len that is not cut may give a step {MOST} tokens at most: its time is "
            f"tabulated for each (got {most})"
        )
    found = calibration(on, fm.matmul) if calibrated else None
    # Likely times of many tokens are straight lines between some counts: a bound is exact.
    every = np.arange(most + 1.0)
    counts = every[1:]
    if found is not None:
        counts = np.unique(np.r_[1 : min(FINE, most) + 1, FINE : most + 1 : COARSE, most]) * 1.0
    parts = dict(llm.decode(one, on, counts, 1, w=fm, **shared, link=link).parts)
    head = parts.pop("head")
    launched = sum(float(np.max(each.kernels)) for each in (*parts.values(), head))
    if "experts" in parts:
        launched += (engine.routed - 1) * float(np.max(parts["experts"].kernels))
    del parts["attention"]
    # What one token more in the caches adds to attention, and what is left for the new one.
    new, contexts = np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 2.0])
    works = operators(one, 1, new, contexts, fm, **shared)["attention"]
    work = works["attention" if "attention" in works else "window"]
    alone, moved = bounded(work, on), np.asarray(work.bytes)
    flops, token = (float(np.diff(each)[0]) for each in (np.asarray(work.flops), moved))
    math_, memory = float(np.asarray(alone.t_math)[1] / np.asarray(work.flops)[1]), 1 / on.bandwidth
    state = (0.0, 0.0, 0.0, 0.0)
    if "state" in works:  # of one pass and token, of two passes, and of two tokens
        passed, twice, longer = np.asarray(works["state"].bytes).tolist()
        each, own = twice - passed, 2 * passed - longer - (twice - passed)
        state = each, own, longer - passed, float(np.asarray(works["state"].flops)[0])
    launches, order, source, host = 0.0, inf, "lower bounds from datasheets", dict[str, Any]()
    rows: list[str] = []
    if found is not None:
        # The chip's constants, with how much more of the bandwidth this engine's kernels reach.
        def reaching(of: Any) -> Any:
            most = min(of.bandwidth * engine.bandwidth, 1.0) if of else 0.0
            return of and msgspec.structs.replace(of, bandwidth=most)

        c, mixed = reaching(found.constants), reaching(found.mixtures)
        found = msgspec.structs.replace(found, constants=c, mixtures=mixed)
        math_, memory, order = math_ / c.compute, memory / c.bandwidth, c.overlap
        launches = sum(float(of.kernels) for of in works.values()) * (c.overhead + found.engine.gap)
        source = f"{engine.source}; {found.source}"
        like = not (one.recurrent or one.windowed)  # as all that was measured
        rows = [evidence_of(f"services, {engine.name}, {of}", on, False, like) for of in TESTED]
        doubt = 0.0 if on.key in engine.measured else found.log_sigma
        host = {
            "step": engine.step,
            "prompt": engine.launch * launched,
            "first": engine.first,
            "steps": Range(*engine.steps).factors(doubt),
            "waits": engine.waits,
        }

    def tabled(**of: Any) -> NDArray[np.float64]:
        """What kernels take, replayed as a whole where constants are given; of nothing, nothing."""
        all_, time = summed(of), 0.0
        if found is not None:
            time = sums(kernels_of(all_), on, found, found.engine.gap, True)[0]
        likely = np.concatenate([[0.0], np.maximum(time, all_.lower)])
        return np.asarray(np.interp(every, [0.0, *counts], likely))

    return StepTimeModel(
        tokens=tabled(**parts),
        heads=tabled(head=head) + (engine.sequence * every if calibrated else 0.0),
        launches=launches,
        math=math_,
        memory=memory,
        order=order,
        flops=flops,
        sequence=float(moved[0]) - token,
        token=token,
        full=(attending(one) - one.windowed) / float(work.kernels),
        windowed=one.windowed / float(work.kernels),
        window=one.window,
        chunked=one.chunked,
        state=state,
        calibrated=found is not None,
        source=source,
        evidence="; ".join(rows),
        **host,
    )


def linear_step_times(
    step: float, token: float, seen: float, tokens: int, source: str = ""
) -> StepTimeModel:
    """Steps of three constants, fitted to an engine's own: `seen` for each token that a step reads
    from a cache.

    Parameters
    ----------
    step, token, seen : s of a step, and more for each new token and each that is read.
    tokens : the most new tokens of a step.
    source : where the constants are from.

    Examples
    --------
    >>> float(round(linear_step_times(2e-3, 1e-4, 1e-6, 64).seconds(10, 2, 0, 10, 1000), 6))
    0.004
    """
    fixed, new, read = (
        single(name, nonnegative(name, value))
        for name, value in (("step", step), ("token", token), ("seen", seen))
    )
    many = count("tokens", tokens) + 1
    times = np.concatenate([[0.0], fixed + new * np.arange(1, many)])
    return StepTimeModel(tokens=times, heads=np.zeros(many), memory=read, source=source)
