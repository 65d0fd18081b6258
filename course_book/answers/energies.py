"""What work takes in joules, as a part of its answer."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from course_lib import CourseError
from course_lib.specs import Accelerator
from course_tools.energy import EnergyUse, of_service
from course_tools.serve import Served
from course_tools.serve.fleet import Service
from course_book.answers.record import fields
from course_book.text import n, t


def known(ask: Callable[..., EnergyUse], *of: Any, **how: Any) -> EnergyUse | None:
    """What `ask` says of the energy; `None` where nobody knows it."""
    try:
        return ask(*of, **how)
    except CourseError:
        return None


def of_requests(done: Served, made: Service, on: Accelerator, link: Any) -> EnergyUse | None:
    """What a service took of all its chips, from the first request to the last token."""
    how = {"tp": made.engine.tensor_parallel_size, "link": link, **fields(made.formats, "w x kv")}
    chips = max(how["tp"], made.engine.ep or 1) * (made.replicas + made.prefill_replicas)
    return known(of_service, done, made.model, on, chips, **how)


def per_token(of: EnergyUse | None, done: Served) -> EnergyUse | None:
    """What a run took, by token that it put out."""
    if of is None:
        return None
    tokens = float(np.sum(done.output))
    each = {name: getattr(of, name) / tokens for name in ("joules", "low", "high")}
    return msgspec.structs.replace(of, per="token", **each)


def in_words(of: EnergyUse | None) -> str:
    """Joules with their range and a chip's watts, or that nobody knows."""
    if of is None:
        return t("say-no-energy")
    amounts = {name: n(getattr(of, name), "J") for name in ("joules", "low", "high")}
    return t(f"say-energy-{of.per}").format(watts=n(of.watts, "W"), **amounts)
