"""Has a learner's kernels run: arrays go to a process of the learner's, and what comes back is a
result with the bytes that the kernels moved.
"""

from collections.abc import Sequence
from math import isfinite, prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from course_lib import CourseError
import course_tools
from course_press.grading.kernels.steps import DROPPED, STEPS, Given
from course_press.grading.learner import EndedError, Failure, Warden
from course_press.grading.verdict import Said, said

PRELOAD = ("torch", "triton", "torch._dynamo")
"""The last one comes with the first array that is made while a mode watches: once is enough."""
ENVIRONMENT = {"TRITON_INTERPRET": "1"}
"""Triton looks at it when it is imported."""
COUNTER = Path(course_tools.__file__).parent / "campaigns" / "traffic.py"
"""The learner's process has none of the library: it gets this file by its path."""
FAILURES = {"unsupported": "no-module"}
"""Nothing of torch is simulated here: what a file imports is there, or it is not."""


class Moved(msgspec.Struct, frozen=True):
    """What one launch moved, as `course_tools.campaigns.traffic` counts it."""

    kernel: str
    programs: int
    loaded: int
    stored: int
    loaded_sectors: int
    stored_sectors: int
    overlap: int
    outside_loaded: int
    outside_stored: int


class Called(msgspec.Struct, frozen=True):
    """An operator of torch, and the learner's line that called it."""

    name: str
    line: int


class Returned(msgspec.Struct):
    """What comes from the learner's process."""

    op: str
    failure: Failure = Failure()
    other: str = ""
    number: str = ""
    shape: list[int] = []
    dtype: str = ""
    launches: list[Moved] = []
    calls: list[Called] = []
    changed: bool = False
    """Whether something but a kernel wrote what one was given, or what came back."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one call: an array, or why there is none, and what was moved."""

    kind: str = ""
    """Of failure; empty where there is none."""
    why: Said | None = None
    values: Any = None
    launches: list[Moved] = []
    calls: list[Called] = []

    def total(self, field: str) -> int:
        """A field of all launches together."""
        return sum(getattr(one, field) for one in self.launches)


class Run:
    """A learner's process, asked for one step."""

    def __init__(self, warden: Warden, path: Path, step: str, limit: float) -> None:
        self.step, self.call = step, f"{STEPS[step]}(…)"
        self.learner = warden.start("kernels", path, limit, traffic=str(COUNTER))
        self.broken = self._heard()[0]
        """Of a kind where the file cannot even be executed."""

    def ask(
        self, case: Given, operands: Sequence[np.ndarray], *, seed: int = 1, apart: bool = False
    ) -> Reply:
        """Call the learner's function."""
        about = [
            {"dtype": str(one.dtype), "shape": list(one.shape), "apart": apart} for one in operands
        ]
        named = self._named(case)
        if self.step == "fused":
            named |= {"p": DROPPED, "seed": seed}
        question = {"function": STEPS[self.step], "named": named, "arrays": about}
        self.learner.tell(question, b"".join(one.tobytes() for one in operands))
        result, told, payload = self._heard()
        if result.kind or told is None:
            return result
        moved: dict[str, Any] = {"launches": told.launches, "calls": told.calls}
        rows = case.sizes[:1] if self.step == "add" else case.sizes[:2]
        wanted = (case.sizes[0], case.sizes[2]) if self.step == "attention" else rows
        given = f"{told.dtype}{told.shape}" if not told.other else told.other
        kind = operands[0].dtype
        alike = told.dtype == str(kind) and len(payload) == kind.itemsize * prod(wanted)
        if told.other or tuple(told.shape) != wanted or not alike:
            due = f"{kind}{list(wanted)}"
            why = said("returned-array", call=self.call, given=given, wanted=due)
            return Reply(kind="returned", why=why, **moved)
        if told.changed and told.launches:
            return Reply(kind="changed", why=said("own-outside", call=self.call), **moved)
        values = np.frombuffer(payload, kind).reshape(wanted).astype(np.float64)
        return Reply(values=values, **moved)

    def formula(self, case: Given) -> float | Said:
        """What the learner's formula gives for a case, or what is wrong with it."""
        # A vector's and a row's bytes do not depend on the block: each is passed over as often.
        named = {} if self.step in ("add", "softmax") else self._named(case)
        question = {"function": f"{STEPS[self.step]}_bytes", "sizes": list(case.sizes)}
        self.learner.tell({**question, "named": named})
        self.call, before = f"{STEPS[self.step]}_bytes(…)", self.call
        result, told, _ = self._heard()
        self.call = before
        if told is None:
            return result.why or said("unasked")
        try:
            number = float.fromhex(told.number)
        except (ValueError, OverflowError):
            number = float("inf")
        if not isfinite(number):
            given = told.other or told.number
            return said("formula-number", call=f"{STEPS[self.step]}_bytes", given=given)
        return number

    def _named(self, case: Given) -> dict[str, Any]:
        named: dict[str, Any] = {"block": case.block}
        return named | {"causal": case.causal} if self.step == "attention" else named

    def _heard(self) -> tuple[Reply, Returned | None, bytes]:
        try:
            told, payload = self.learner.hear(Returned)
        except EndedError as error:
            return Reply(kind="gone", why=error.said), None, b""
        if told.op == "failed":
            kind, why = told.failure.kind, told.failure.said(self.call, FAILURES)
            return Reply(kind=kind or "crash", why=why), None, b""
        return Reply(), told, payload


def needed(warden: Warden) -> None:
    """Raise where torch or triton cannot be imported."""
    keys = {"torch": "needs-torch-kernels", "triton": "needs-triton-kernels"}
    for name, key in keys.items():
        if why := warden.missing.get(name):
            if f"No module named '{name}'" in why:
                raise CourseError(str(said(key)))
            raise CourseError(str(said("broken-kernels", name=name, what=why)))
