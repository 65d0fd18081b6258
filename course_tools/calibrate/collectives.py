"""How long a collective is likely to take over a chip's links, beside its bound."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import CourseError, flag, known, nonnegative, plain, together
from course_lib.network.collectives import Nodes, resolve_link
from course_lib.network.collectives import seconds as bound_of
from course_lib.network.costs import ALGORITHMS
from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator
from course_tools.calibrate.constants import Calibration
from course_tools.calibrate.prediction import Prediction, constants_of

RINGS = ("all-reduce", "all-gather", "reduce-scatter")
"""Published over the links whose constants are fitted; a ring of each reaches the same rate."""


def collective(
    kind: str,
    bytes: ArrayLike,
    chip: Accelerator | str,
    n: ArrayLike,
    *,
    link: str | Nodes = "nvlink",
    in_switch: bool | None = None,
    constants: Calibration | Path | str | None = None,
) -> Prediction:
    """How long a collective over a chip's links is likely to take.

    Rings carry all-reduces, all-gathers and reduce-scatters; in an all-to-all each chip sends to
    every other through the switch. Where the switch can add, and enough chips take part for the
    library to let it, the faster of ring and switch is expected.

    Parameters
    ----------
    kind : one of `course_lib.network.ALGORITHMS`.
    bytes : byte, counted as in `course_lib.network`. Broadcasts.
    chip : an accelerator or its key.
    n : chips. Broadcasts.
    link : name of the chip's links, ``"host"`` for its link to the host, or ``"nodes"`` for the
        ports of as few machines as hold the chips; `course_lib.network.between_nodes` for others.
    in_switch : whether the switch adds up; as the library chooses if not given.
    constants : as in `predict`.

    Returns
    -------
    Prediction
        Its low end may lie below a ring's bound where the switch adds: never below the switch's.

    Examples
    --------
    >>> ring, switch = (collective("all-reduce", 1e9, "h200-sxm", 8, in_switch=way).expected
    ...     for way in (False, True))
    >>> bool(switch < ring)
    True
    """
    on = accelerator(chip)
    known("kind", kind, ALGORITHMS)
    if not on.joins:
        raise CourseError(
            f"chip {on.key} has no published link: course_lib.network.{kind.replace('-', '_')} "
            f"takes byte/s"
        )
    one = link if isinstance(link, Nodes) else resolve_link(on, link, n)
    name = "nodes" if isinstance(one, Nodes) else link
    found = constants_of(on, None, constants)
    at = found.links[name if name in found.links else "nvlink"]
    size = nonnegative("bytes", bytes)
    in_switch = None if in_switch is None else flag("in_switch", in_switch)
    if in_switch and (at.in_switch is None or kind != "all-reduce"):
        raise CourseError(
            f"in_switch=True: no {kind} by a switch was measured over {name} of {on.key}: "
            f"leave in_switch out"
        )
    way = "switched" if kind == "all-to-all" and name != "nodes" else None
    bound = np.asarray(bound_of(kind, size, one, n, way))
    together(bytes=size, bound=plain(bound))
    ring = at.seconds(kind, bound, n, way, in_switch=False)
    expected = at.seconds(kind, bound, n, way, in_switch=in_switch)
    if at.in_switch is not None and kind == "all-reduce":
        by_switch = np.asarray(bound_of(kind, size, one, n, "in-switch"))
        bound = np.where(expected < ring, np.minimum(bound, by_switch), bound)
    expected = np.where(bound > 0, expected, 0.0)
    widen = math.hypot(found.widen, 0.0 if kind in RINGS else found.chips)
    least, most = at.factors(size, widen)
    low, high = least * expected, most * expected
    return Prediction(
        expected=plain(expected),
        low=plain(np.clip(low, np.minimum(bound, expected), expected)),
        high=plain(high),
        source=found.source,
        lender=found.lender,
    )
