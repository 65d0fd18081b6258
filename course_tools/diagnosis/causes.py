"""The causes that a diagnosis may name, and the questions that lead to each.

The keys are fixed, and `course diagnose --json` gives one of them as ``cause``:

- ``launch-bound``: the device waits for the host to launch many small kernels;
- ``host-bound``: it waits for something else that the host does, such as loading data;
- ``synchronisation``: the host waits for the device, which then has nothing queued;
- ``copies``: between host and device, or of arrays that nothing needed a second time;
- ``unfused-elementwise``: one array goes through memory once for each of several operators;
- ``strided``: arrays are read or copied across their layout, or lie misaligned;
- ``wrong-format``: arithmetic or arrays in a wider format than the work needs, or conversions;
- ``ragged-waves``: kernels with too few blocks for the multiprocessors, or a last wave half empty;
- ``exposed-collectives``: chips exchange data while none computes;
- ``load-imbalance``: chips wait for one that has more to do;
- ``at-roof``: the time is near what the bounds allow;
- ``unknown``: the trace shows none of these.
"""

from typing import NamedTuple

from course_lib.core.checks import flag, known

CAUSES = (
    "launch-bound",
    "host-bound",
    "synchronisation",
    "copies",
    "unfused-elementwise",
    "strided",
    "wrong-format",
    "ragged-waves",
    "exposed-collectives",
    "load-imbalance",
    "at-roof",
    "unknown",
)
"""What a diagnosis may name, in the order of the questions that lead there."""


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


FLOW = (
    Fork(
        "busy",
        "no",
        "launch",
        ("launch-bound", "host-bound", "synchronisation", "exposed-collectives", "load-imbalance"),
    ),
    Fork("bytes", "no", "copies", ("copies", "strided", "wrong-format")),
    Fork("near", "no", "slow-path", ("strided", "ragged-waves")),
    Fork("memory", "yes", "move-less", ("unfused-elementwise",)),
    Fork("fast-unit", "no", "format", ("wrong-format",)),
)
"""The questions of the chapter *Bandwidth and profiling*, in their order; whose every answer leads
on has ``at-roof``.
"""


def path_to(cause: str, *, extra: bool = True) -> tuple[tuple[str, str], ...]:
    """The answers that lead to a cause: pairs of a question's key and ``"yes"`` or ``"no"``.

    Parameters
    ----------
    cause : one of `CAUSES`; to ``"unknown"``, no answers lead.
    extra : whether it shows in bytes that nobody counted, which the second question asks for: a
        copy into another layout, a conversion, a wider array. Else a ``"strided"`` operator is slow
        at the bytes that it must move, and a product runs in the ``"wrong-format"``, for both of
        which there is a later question.

    Examples
    --------
    >>> path_to("copies")
    (('busy', 'yes'), ('bytes', 'no'))
    >>> path_to("strided", extra=False)[-1]
    ('near', 'no')
    >>> len(path_to("at-roof")) == len(FLOW)
    True
    """
    known("cause", cause, CAUSES)
    flag("extra", extra)
    if cause == "unknown":
        return ()
    found = []
    for fork in FLOW if extra else reversed(FLOW):
        if cause in fork.causes:
            end = FLOW.index(fork)
            found = [(one.key, one.other) for one in FLOW[:end]]
            return (*found, (fork.key, fork.answer))
    return tuple((one.key, one.other) for one in FLOW)
