"""The answer to `verify`: whether a number can be true, why not, and what would make it so."""

import math
from typing import Any

from course_tools.claims import SPEEDS, Judgment
from course_book.answers.record import Answer, Remedy, Term, fields, in_each_language
from course_book.text import n, t

# What each explanation changes of what was asked, by the names of options; of others it is a hint.
_OPTIONS = {"batch": "batch", "speculation": "tokens_per_pass", "chips": "chips"}
_SHARES = ("prefix-cache", "above", "percent")


def verified(found: Judgment) -> Answer:
    """The answer about one claim.

    Examples
    --------
    >>> from course_tools.claims import Claimed, verify
    >>> print(verified(verify(Claimed(mfu=1.3))).answer["en"])
    Impossible by a factor of 1.3: MFU 130%, where arithmetic allows MFU 100%.
    """
    unit = SPEEDS[found.speed][0]
    si = 1e-3 if unit == "ms" else 1.0
    values = {
        **fields(found, "verdict factor"),
        "claimed": si * found.claimed,
        "limit": si * found.limit,
        "unit": unit.removeprefix("m") if unit == "ms" else unit,
        **fields(found, "term format"),
        "formats": list(found.formats),
        **fields(found, "batch margin"),
        "explanations": dict(found.explanations),
    }
    longest = max(found.seconds.values())
    terms = sorted(found.seconds.items(), key=lambda one: -one[1])
    because = [Term(name, value, "s", value / longest) for name, value in terms if value > 0]
    if found.speed in ("mfu", "flops", "bytes_per_second"):
        because = [Term(one.name, found.factor, "1", 1.0) for one in because]
    return Answer(
        question="verify",
        answer=in_each_language(lambda: sentence(found)),
        values=values,
        assumed=dict(found.assumed),
        because=tuple(because),
        next=tuple(_remedies(found)),
    )


def sentence(found: Judgment) -> str:
    """The verdict in the page's language, with the conditions that it is about."""
    key = found.verdict
    if key == "possible":
        key = "over" if found.factor > 1 + 1e-9 else "possible"
    said = t(f"verify-{key}").format(
        claimed=amount(found, found.claimed),
        limit=amount(found, found.limit),
        term=t(f"verify-{found.term}"),
        share=n(found.factor, "%"),
        over=n(found.factor - 1, "%"),
        factor=n(found.factor),
    )
    under = conditions(found)
    return f"{under}: {said}" if under else said


def conditions(found: Judgment) -> str:
    """What was claimed of what: model, chip, batch and formats, and which of these nobody said."""
    parts = [one for one in (found.model, found.chip) if one]
    if len(parts) > 1:
        parts = [t("verify-on").format(what=found.model, chip=found.chip)]
    formats = found.format
    if found.verdict != "impossible" and found.assumed.keys() & {"weights", "format"}:
        formats = ", ".join(found.formats)
    counted = found.speed == "flops" or found.batch is None
    key = "format" if counted else "weights"
    said = {"batch": found.batch and n(found.batch), key: formats}
    for name, value in said.items():
        if value:
            part = t(f"verify-{name}-of").format(n=value)
            parts.append(t("verify-taken").format(what=part) if name in found.assumed else part)
    return ", ".join(parts)


def amount(found: Judgment, value: float) -> str:
    """A value in the unit of what is claimed."""
    unit = SPEEDS[found.speed][0]
    if unit == "ms":
        return n(value / 1e3, "s")
    if unit == "1":
        return f"MFU {n(value, '%')}"
    if unit == "1/s":
        return t(f"verify-{found.speed}").format(n=n(value))
    return n(value, unit)


def _explained(found: Judgment) -> list[tuple[str, dict[str, Any], float]]:
    """Each hint in words, what to ask instead, and how many times the speed that gives."""
    more: list[tuple[str, dict[str, Any], float]] = []
    others = [one for one in found.formats if one != found.format]
    option = "format" if found.speed == "flops" else "weights"
    if found.verdict == "impossible" and others:
        text = t("verify-formats").format(n=", ".join(others))
        more.append((text, {option: others[0]}, found.factor))
    elif found.verdict == "impossible" and option in found.assumed:
        more.append((t("verify-no-format"), {}, 1.0))
    for key, value in found.explanations.items():
        if key == "above":
            continue
        shown = n(value, "%") if key in _SHARES else n(value)
        if key == "speculation":
            shown = n(math.ceil(10 * value) / 10)
        whole = int(value) if key in ("batch", "chips") else value
        options: dict[str, Any] = {_OPTIONS[key]: whole} if key in _OPTIONS else {}
        options |= {"sparse": True} if key == "sparse" else {}
        more.append((t(f"verify-{key}").format(n=shown), options, max(1.0, found.factor)))
    return more


def _remedies(found: Judgment) -> list[Remedy]:
    every = in_each_language(lambda: "\n".join(text for text, _, _ in _explained(found)))
    return [
        Remedy({lang: texts.split("\n")[i] for lang, texts in every.items()}, options, factor)
        for i, (_, options, factor) in enumerate(_explained(found))
    ]
