"""The links between chips: one record for the spec table, the collectives and what is measured."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from course_lib.core import checks
from course_lib.core.checks import Numbers, unfit


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """The links of one kind that a chip has. Broadcasts.

    Examples
    --------
    >>> nvlink = Link(per_direction=25e9, count=18)
    >>> nvlink.total_per_direction / 1e9, nvlink.bidirectional / 1e9
    (450.0, 50.0)
    """

    per_direction: Numbers  # byte/s of one link
    count: "Numbers | None" = None  # links per chip; `None`: as many as the algorithm uses
    # s from one chip to the next, through a switch or along a cable; no vendor publishes it, so
    # that the spec table's links have none.
    latency: Numbers = 0.0
    name: str = ""  # as the vendor calls it

    def __post_init__(self) -> None:
        checked = {"per_direction": checks.positive("per_direction", self.per_direction)}
        checked["latency"] = checks.nonnegative("latency", self.latency)
        if self.count is not None:
            checked["count"] = checks.whole_as_given(self.count, checks.whole("count", self.count))
        checks.keep(self, **checked)

    @property
    def bidirectional(self) -> Numbers:
        """Byte/s of one link, both directions together."""
        return 2 * self.per_direction

    @property
    def total_per_direction(self) -> Numbers:
        """Byte/s of all the links together in one direction."""
        return self.per_direction if self.count is None else self.count * self.per_direction


# A link, or its byte/s per direction where it has no latency and one link is all.
LinkLike: TypeAlias = "ArrayLike | Link"


def as_link(link: LinkLike, name: str = "link") -> Link:
    """A link as it is, or one of this bandwidth; `name` is what the caller called it."""
    if isinstance(link, Link):
        return link
    if isinstance(link, str | None):
        wanted = "be byte/s per direction, or a chip's links"
        raise unfit(name, wanted, link, "chip('h100-sxm').links['nvlink'], say")
    given: Any = link
    return Link(checks.positive(name, given))
