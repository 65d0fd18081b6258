"""What work takes in joules, as a part of its answer."""

from collections.abc import Callable
from typing import Any

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


def in_words(of: EnergyUse | None, tokens: float = 0.0) -> str:
    """Joules with their range and a chip's watts, or that nobody knows; by token of so many."""
    if of is None:
        return t("say-no-energy")
    amounts = {
        name: n(getattr(of, name) / (tokens or 1), "J") for name in ("joules", "low", "high")
    }
    return t(f"say-energy-{'token' if tokens else of.per}").format(
        watts=n(of.watts, "W"), **amounts
    )
