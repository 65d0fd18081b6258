"""The causes that a diagnosis may name, the questions that lead to each, a trace that shows it."""

from pathlib import Path
from typing import NamedTuple

from course_lib.core.checks import known
from course_tools.files import DATA

# What a diagnosis may name, in the order of the questions that lead there. The keys are fixed:
# `course diagnose --json` gives one of them as ``cause``.
CAUSES = (
    "launch-bound",  # the device waits for the host to launch many small kernels
    "host-bound",  # it waits for something else that the host does, such as loading data
    "synchronisation",  # the host waits for the device, which then has nothing queued
    "copies",  # between host and device, or of arrays that nothing needed a second time
    "unfused-elementwise",  # one array goes through memory once for each of several operators
    "strided",  # arrays are read or copied across their layout, or lie misaligned
    "wrong-format",  # a wider format than the work needs, or conversions
    "ragged-waves",  # too few blocks for the multiprocessors, or a last wave half empty
    "exposed-collectives",  # chips exchange data while none computes
    "load-imbalance",  # chips wait for the one that is last
    "at-roof",  # the time is near what the bounds allow
    "unknown",  # the trace shows none of these
)
# The seeded traces, which tests/course_tools/diagnosis/seeded_traces.py makes.
FOLDER = DATA / "traces"
# Which cause each trace was made to show; the last shows none, a CUDA graph in one row.
SEEDED = CAUSES


class Fork(NamedTuple):
    """One question of the flow.

    Attributes
    ----------
    key : of the question: its words are ``flow-`` and this.
    answer : ``"yes"`` or ``"no"``: the one that leads to a remedy.
    remedy : key of the remedy's words, likewise.
    causes : what a diagnosis calls it, then.
    """

    key: str
    answer: str
    remedy: str
    causes: tuple[str, ...]

    @property
    def other(self) -> str:
        """The answer that leads on to the next question."""
        return "no" if self.answer == "yes" else "yes"


# Causes that are parts of one loss: the device has nothing to do, or waits for other ranks. They
# compete with the others as one; which part it is, is the second question.
WHOLES = (CAUSES[:3], ("exposed-collectives", "load-imbalance"))
_STARVED = (*CAUSES[:3], "exposed-collectives", "load-imbalance")
# The questions of the chapter *Finding the cause*, in their order; whose every answer leads
# on has ``at-roof``.
FLOW = (
    Fork("busy", "no", "launch", _STARVED),
    Fork("bytes", "no", "copies", ("copies", "strided", "wrong-format")),
    Fork("near", "no", "slow-path", ("strided", "ragged-waves")),
    Fork("memory", "yes", "move-less", ("unfused-elementwise",)),
    Fork("fast-unit", "no", "format", ("wrong-format",)),
)


def seeded(cause: str) -> Path:
    """The trace that was made to show a cause of `SEEDED`.

    Examples
    --------
    >>> seeded("copies").name
    'copies.json.gz'
    """
    return FOLDER / f"{known('cause', cause, SEEDED)}.json.gz"
