"""How any lab's file is graded: observed by scenarios, judged by criteria, first failures told."""

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from course_lib import CourseError
from course_press.grading.isolation import isolating
from course_press.grading.learner import EndedError, Learner, Supervisor
from course_press.grading.verdict import Text, Verdict, message

# A criterion, and what is wrong by it, None where nothing is; or the whole verdict.
Finding: TypeAlias = tuple[str, Text | None] | Verdict


class Session:
    """One file as it is graded: by whom, for how long, and the verdicts so far."""

    def __init__(self, path: Path, limit: float, supervisors: Sequence[Supervisor]) -> None:
        self.path, self.limit, self.supervisors = path, limit, supervisors
        self.rng = np.random.default_rng(secrets.randbits(128))
        self.learner: Learner | None = None
        self.found: dict[str, Verdict] = {}

    def start(self, kind: str, number: int = 0, **job: Any) -> Learner:
        """A process of the file, for a job of the sandbox."""
        supervisor = self.supervisors[number % len(self.supervisors)]
        self.learner = supervisor.start(kind, self.path, self.limit, **job)
        return self.learner

    def clear(self) -> None:
        """End what runs."""
        for one in self.supervisors:
            one.clear()


class Lab(NamedTuple):
    """What a lab is graded by."""

    name: str  # of the lab in the keys of what is told where a criterion is met
    criteria: Sequence[str]  # in the order in which they are told
    scenarios: Sequence[Any]  # what a file is tried on
    observe: Callable[[Session, Any], Any]  # what comes of a file in a scenario
    # What is found of all scenarios, which are observed as they are asked for.
    judge: Callable[[Iterator[Any], Session], Iterator[Finding]]
    limit: float = 30.0  # seconds that a process of the file may take
    # Packages, with the keys of what is told where one is missing or broken.
    needs: Mapping[str, tuple[str, str]] = {}
    preload: Sequence[str] | None = ()  # packages that are imported before; None for no process
    environment: Mapping[str, str] = {}
    readable: Sequence[Path] = ()
    apart: int = 1  # processes that in cells share no files

    def grade(
        self,
        path: Path,
        scenarios: Sequence[Any] | None = None,
        *,
        limit: float | None = None,
        supervisor: Supervisor | None = None,
    ) -> list[Verdict]:
        """A verdict by each criterion that can be judged; a given supervisor serves many files."""
        with contextlib.ExitStack() as stack:
            supervisors = [supervisor] if supervisor else self._started(stack)
            self.check(supervisors)
            session = Session(path, limit or self.limit, supervisors)
            found = session.found
            if supervisor:
                stack.callback(session.clear)
            for one in self._verdicts(session, scenarios or self.scenarios):
                if one.criterion not in found or found[one.criterion].passed > one.passed:
                    found[one.criterion] = one
        order = dict.fromkeys([*self.criteria, *found])
        return [found[criterion] for criterion in order if criterion in found]

    def _verdicts(self, session: Session, scenarios: Sequence[Any]) -> Iterator[Verdict]:
        observed = (self.observe(session, one) for one in scenarios)
        try:
            for finding in self.judge(observed, session):
                if isinstance(finding, Verdict):
                    yield finding
                else:
                    criterion, why = finding
                    right = f"{self.name}-{criterion}-right"
                    yield Verdict(criterion, not why, why or message(right))
        except EndedError as ended:
            yield Verdict("runs", False, ended.why)

    def _started(self, stack: contextlib.ExitStack) -> list[Supervisor]:
        if self.preload is None:
            return []
        supervisors = [
            Supervisor(self.preload, environment=self.environment, readable=self.readable)
            for _ in range(self.apart if isolating() else 1)
        ]
        for one in supervisors:  # all import at the same time
            stack.push(one)
        for one in supervisors:
            one.__enter__()
        return supervisors

    def check(self, supervisors: Sequence[Supervisor]) -> None:
        """Raise where a package cannot be imported that the lab needs."""
        for name, (missing, broken) in self.needs.items():
            if what := supervisors[0].missing.get(name):
                absent = f"No module named '{name}'" in what
                why = message(missing) if absent else message(broken, name=name, what=what)
                raise CourseError(str(why))
