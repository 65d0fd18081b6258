"""Judges the functions of lab 03, each by numbers that the file has not seen.

Where a result is wrong, it is compared with what each known slip gives: the first that agrees is
what is said.
"""

import contextlib
import secrets
from collections.abc import Sequence
from math import isclose, isfinite
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from course_press.grading.learner import EndedError, Failure, Learner, Warden
from course_press.grading.serving import engine, latencies
from course_press.grading.verdict import Amount, Said, Verdict, said

LIMIT = 30.0
"""Seconds for all calls together; right ones take a fraction of one."""
CALLS = {
    "fit": "fit(steps)",
    "step_seconds": "step_seconds(constants, tokens, seen)",
    "admit": "admit(prompts, running, max_num_seqs, max_num_batched_tokens)",
    "serve": "serve(requests, constants, max_num_seqs, max_num_batched_tokens)",
    "summary": "summary(requests, times)",
}
FELT = {
    "ttft": ("ttft", "ttft-right"),
    "tpot": ("tpot", "tpot-right"),
    "throughput": ("tokens", "throughput-right"),
}
"""By criterion: how the names of what it looks at begin, and what is said where they are right."""
NEAR = 1e-6
"""Relative error that the same sums in another order stay well below."""


class ServingReply(msgspec.Struct):
    """What comes from the process."""

    op: str
    failure: Failure = Failure()
    rows: list[list[str]] | None = None
    named: dict[str, str] | None = None
    other: str = ""


class FailedError(Exception):
    """A function gave no result; `said` says why."""

    def __init__(self, why: Said) -> None:
        super().__init__(why)
        self.said = why


def grade(path: Path, *, limit: float = LIMIT, warden: Warden | None = None) -> list[Verdict]:
    """Grade a learner's prediction of what an engine does.

    Parameters
    ----------
    path : the learner's file.
    limit : seconds after which the file's process is ended.
    warden : one for grading many files; one of its own if not given.

    Returns
    -------
    One verdict a criterion: runs, fit, step, admission, loop, ttft, tpot and throughput; none of a
    function that gave no result, and of the loop only where step and admission are right.

    Examples
    --------
    >>> from course_press.grading import graded_by
    >>> graded_by(Path("labs/03-serving")).criteria[0]
    'runs'
    """
    with contextlib.nullcontext(warden) if warden else Warden(["numpy"]) as warden:
        try:
            return _Grading(warden.start("serving", path, limit)).verdicts()
        finally:
            warden.clear()


class _Grading:
    """One file, asked for one function after another."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.rng = np.random.default_rng(secrets.randbits(128))

    def verdicts(self) -> list[Verdict]:
        found: list[Verdict] = []
        failed: list[Said] = []
        try:
            loaded, _ = self.learner.hear(ServingReply)
            if loaded.op != "loaded":
                return [Verdict("runs", False, loaded.failure.said(self.learner.file.name, {}))]
            for judge in (self.fit, self.step, self.admission, self.loop, self.felt):
                if judge == self.loop and not {"step", "admission"} <= _passed(found):
                    continue
                try:
                    found += judge()
                except FailedError as error:
                    failed.append(error.said)
        except EndedError as ended:
            failed.append(ended.said)
        right = Verdict("runs", True, said("runs-serving"))
        return [Verdict("runs", False, failed[0]) if failed else right, *found]

    def call(self, function: str, **given: Any) -> ServingReply:
        """What a function returns."""
        self.learner.tell({"function": function, "given": given})
        told, _ = self.learner.hear(ServingReply)
        call = CALLS[function]
        if told.op != "done":
            why = {"not-implemented": "not-implemented-serving"}
            raise FailedError(told.failure.said(call, why))
        if told.other or (told.rows is None and told.named is None):
            raise FailedError(said("other-serving", call=call, given=told.other or repr(None)))
        return told

    def numbers(self, function: str, rows: int, columns: int, **given: Any) -> np.ndarray:
        """The numbers that a function returns, as many as are asked for."""
        told = self.call(function, **given)
        sizes = [len(row) for row in told.rows or ()]
        if sizes != [columns] * rows:
            what = f"{len(sizes)} x {max(sizes, default=0)}" if told.rows is not None else "dict"
            wanted = f"{rows} x {columns}"
            raise FailedError(said("size-serving", call=CALLS[function], given=what, wanted=wanted))
        found = np.array([[_number(one) for one in row] for row in told.rows or ()])
        if not np.isfinite(found).all():
            raise FailedError(said("not-finite-serving", call=CALLS[function]))
        return found

    def fit(self) -> list[Verdict]:
        constants = engine.drawn(self.rng)[1]
        sizes = [(n, n * c) for n in (1, 4, 8) for c in (64, 400, 1000)]
        sizes += [(prompt, prompt) for prompt in (16, 64, 250)]
        steps = [(*size, engine.step(constants, *size)) for size in sizes]
        found = self.numbers("fit", 3, 1, steps=steps).reshape(-1)
        if _near(found, constants, 1e-4):
            return [Verdict("fit", True, said("fit-right"))]
        why = _fit_slip(found, np.array(constants), np.array(steps))
        given = [f"{one:.3g}" for one in found]
        wanted = [f"{one:.3g}" for one in constants]
        return [Verdict("fit", False, said("fit-wrong", given=given, wanted=wanted, why=why))]

    def step(self) -> list[Verdict]:
        constants = engine.drawn(self.rng)[1]
        sizes = [(1, 300), (8, 4100), (130, 2700), (64, 64)]
        found = [
            float(self.numbers("step_seconds", 1, 1, constants=constants, tokens=n, seen=s)[0, 0])
            for n, s in sizes
        ]
        wanted = [engine.step(constants, *size) for size in sizes]
        if _near(found, wanted):
            return [Verdict("step", True, said("step-right"))]
        at = next(i for i in range(len(sizes)) if not _near(found[i], wanted[i]))
        why = said("step-else")
        for key, slip in engine.STEP_SLIPS.items():
            if _near(found, [slip(constants, *size) for size in sizes]):
                why = said(key)
        values = {"tokens": sizes[at][0], "seen": sizes[at][1]}
        times = {"given": Amount(found[at], "s"), "wanted": Amount(wanted[at], "s")}
        return [Verdict("step", False, said("step-wrong", **values, **times, why=why))]

    def admission(self) -> list[Verdict]:
        cases = _crowds(self.rng)
        found = []
        for prompts, running, most, budget in cases:
            limits = {"max_num_seqs": most, "max_num_batched_tokens": budget}
            about = {"prompts": prompts, "running": running, **limits}
            found.append(float(self.numbers("admit", 1, 1, **about)[0, 0]))
        wanted = [engine.admit(*case) for case in cases]
        if found == wanted:
            return [Verdict("admission", True, said("admission-right"))]
        at = next(i for i in range(len(cases)) if found[i] != wanted[i])
        why = said("admit-else")
        for key, slip in engine.ADMIT_SLIPS.items():
            if found == [slip(*case) for case in cases]:
                why = said(key)
        prompts, running, most, budget = cases[at]
        wrong = said(
            "admission-wrong",
            given=found[at],
            wanted=wanted[at],
            prompts=[str(prompt) for prompt in prompts],
            running=running,
            most=most,
            budget=budget,
            why=why,
        )
        return [Verdict("admission", False, wrong)]

    def loop(self) -> list[Verdict]:
        requests, constants, most, budget = engine.drawn(self.rng)
        about: dict[str, Any] = {
            "requests": requests,
            "constants": constants,
            "max_num_seqs": most,
            "max_num_batched_tokens": budget,
        }
        found = self.numbers("serve", len(requests), 3, **about)
        wanted = np.array(engine.serve(requests, constants, most, budget))
        if _near(found, wanted):
            return [Verdict("loop", True, said("serve-right"))]
        why = said("loop-else")
        for key in engine.LOOP_SLIPS:
            if _near(found, engine.serve(requests, constants, most, budget, key)):
                why = said(key)
        off = ~np.isclose(found, wanted, rtol=NEAR, atol=0)
        number = int(np.argmax(off.any(axis=1)))
        column = int(np.argmax(off[number]))
        if why.key == "loop-else" and found[number, 0] < requests[number].arrived * (1 - NEAR):
            why = said("loop-before")
        wrong = said(
            "loop-wrong",
            number=number,
            what=("scheduled", "first", "last")[column],
            given=Amount(float(found[number, column]), "s", 4),
            wanted=Amount(float(wanted[number, column]), "s", 4),
            why=why,
        )
        return [Verdict("loop", False, wrong)]

    def felt(self) -> list[Verdict]:
        pairs = latencies.drawn(self.rng)
        about = {"requests": [one for one, _ in pairs], "times": [told for _, told in pairs]}
        named = self.call("summary", **about).named
        if named is None or not set(latencies.KEYS) <= set(named):
            keys = list(latencies.KEYS)
            raise FailedError(said("keys-serving", call=CALLS["summary"], name=keys))
        found = {key: _number(named[key]) for key in latencies.KEYS}
        right = latencies.summary(pairs)
        verdicts = []
        for criterion, (start, passed) in FELT.items():
            keys = [key for key in latencies.KEYS if key.startswith(start)]
            wrong = next((key for key in keys if not _near(found[key], right[key])), "")
            why = said(passed)
            if wrong:
                unit = "" if criterion == "throughput" else "s"
                told = [Amount(one[wrong], unit, 4) for one in (found, right)]
                slip = _felt_slip(found, wrong, right, pairs)
                why = said("felt-wrong", name=wrong, given=told[0], wanted=told[1], why=slip)
            verdicts.append(Verdict(criterion, not wrong, why))
        return verdicts


def _passed(verdicts: Sequence[Verdict]) -> set[str]:
    return {one.criterion for one in verdicts if one.passed}


def _number(text: str) -> float:
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError):
        return float("inf")


def _near(found: Any, wanted: Any, error: float = NEAR) -> bool:
    return bool(np.allclose(found, wanted, rtol=error, atol=0))


def _fit_slip(found: np.ndarray, constants: np.ndarray, steps: np.ndarray) -> Said:
    if _near(sorted(found), sorted(constants), 1e-4):
        return said("fit-order")
    scale = found / constants
    if isclose(scale.min(), scale.max(), rel_tol=1e-4):
        return said("fit-unit")
    tokens, seen, seconds = steps.T
    ones = np.ones_like(tokens)
    weighted = np.stack([ones, tokens, seen], axis=1) / seconds[:, None]
    half = np.linalg.lstsq(weighted, seconds, rcond=None)[0]
    if _near(found, half, 1e-3) or _near(found, np.maximum(half, 0), 1e-3):
        return said("fit-half-weighted")
    slips = {
        "fit-no-fixed": [tokens * 0, tokens, seen],
        "fit-no-seen": [ones, tokens, seen * 0],
        "fit-no-tokens": [ones, tokens * 0, seen],
    }
    for key, columns in slips.items():
        for weight in (ones, 1 / seconds):
            matrix = np.stack(columns, axis=1) * weight[:, None]
            if _near(found, np.linalg.lstsq(matrix, seconds * weight, rcond=None)[0], 1e-4):
                return said(key)
    zero = [key for key, value in zip(slips, found, strict=True) if not value]
    order = {"fit-no-fixed": "fit-no-fixed", "fit-no-seen": "fit-no-tokens"}
    if len(zero) == 1:
        return said(order.get(zero[0], "fit-no-seen"))
    return said("fit-else")


def _crowds(rng: np.random.Generator) -> list[tuple[list[int], int, int, int]]:
    """Crowds that wait: one for each slip, and some that are drawn."""
    fixed = [
        ([], 3, 8, 256),
        ([10, 20, 30], 7, 8, 256),
        ([10, 20, 30], 8, 8, 256),
        ([100, 100, 100], 0, 8, 256),
        ([200, 56], 0, 8, 256),
        ([250], 7, 16, 256),
        ([200, 100, 20], 2, 8, 256),
        ([20] * 12, 3, 8, 256),
        ([40, 30], 1, 8, 256),
    ]
    more = []
    for _ in range(20):
        prompts = rng.integers(10, 120, int(rng.integers(1, 12))).tolist()
        most = int(rng.integers(4, 12))
        more.append((prompts, int(rng.integers(0, most + 1)), most, int(rng.integers(130, 300))))
    return [*fixed, *more]


def _felt_slip(
    found: dict[str, float], key: str, right: dict[str, float], pairs: latencies.Pairs
) -> Said:
    for slip, value in latencies.SLIPS[key](pairs):
        if _near(found[key], value):
            return said(slip)
    if not isfinite(found[key]):
        return said("felt-not-finite")
    if _near(found[key], 1e3 * right[key]):
        return said("felt-unit")
    return said("felt-else")
