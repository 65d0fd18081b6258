"""What a recording shows, as one record: the cause of a step's time, or what changed."""

from collections.abc import Mapping, Sequence
from typing import Any

from course_tools.diagnosis import Diagnosis, Evidence
from course_tools.diagnosis.differences import Comparison
from course_tools.diagnosis.ncu import KernelCounters
from course_tools.diagnosis.sums import Total
from course_book.answers.record import Answer, Remedy, Term, fields, in_each_language
from course_book.text import n, t


def diagnosed(found: Diagnosis) -> Answer:
    """The cause, or the question that a recording leaves."""
    advice = in_each_language(lambda: t(f"advice-{found.advice}"))
    left = max(found.window - found.gain, 1e-12)
    remedies = (Remedy(advice, {}, found.window / left),) if found.gain else ()
    return Answer(
        question="diagnose",
        answer=in_each_language(lambda: _sentence(found)),
        values={
            **fields(found, "cause confidence whole"),
            "gain": {"seconds": found.gain, "share": found.gain / found.window},
            **fields(found, "window busy devices chip"),
        },
        assumed=fields(found, "taken_for like"),
        because=tuple(Term(one.what, one.seconds, "s", one.share) for one in found.evidence),
        next=remedies,
        more={
            "evidence": [one._asdict() for one in found.evidence],
            "advice": t(f"advice-{found.advice}"),
            "alternatives": [{"cause": key, "share": of} for key, of in found.alternatives],
            "operators": [
                one._asdict() | fields(one, "distance overcounted") for one in found.operators
            ],
            **fields(found, "taken_for like"),
            "cannot_tell": [t(f"lacks-{key}") for key in found.cannot_tell],
            "path": [
                {"question": t(f"flow-{key}"), "answer": answer, "basis": basis(found, key, answer)}
                for key, answer in found.path
            ],
            "constructed": found.constructed,
        },
    )


def headline(found: Diagnosis) -> str:
    """The cause; below a confidence of one half, as a question."""
    meaning = t(f"cause-{found.cause}").partition(": ")[2]
    if found.sure:
        return f"{found.cause}: {meaning}"
    return t("tell-asked").format(cause=found.cause, meaning=meaning)


def explanation(found: Diagnosis) -> str:
    """How much of the time it explains, and how sure that is."""
    of = {"seconds": n(found.seconds, "s"), "window": n(found.window, "s")}
    of |= {"share": n(found.share, "%"), "confidence": n(found.confidence, "%")}
    return t("tell-explains").format(**of) + ("" if found.sure else t("tell-doubt"))


def _sentence(found: Diagnosis) -> str:
    said = headline(found)
    return said if found.cause == "unknown" else f"{said}. {explanation(found)}"


def shown(one: Evidence) -> tuple[str, str, str, str]:
    """What shows a cause: in the reader's language where that is no row's own name."""
    kind, _, which = one.what.partition(" ")
    own = kind not in ("host", "device", "rank") or not which
    what = one.what if own else t(f"tell-one-{kind}").format(n=which)
    return what, n(one.rows), n(one.seconds, "s"), n(one.share, "%")


def basis(found: Diagnosis, key: str, answer: str) -> str:
    """What the answer to a question of the flow rests on; nothing where there is none."""
    if answer == "not-known":
        return ""
    what = found.evidence[0].what if found.evidence else ""
    one = next((one for one in found.operators if one.name == what), None)
    far = one.distance if one else None
    if key == "busy":
        return t("tell-busy").format(busy=n(found.busy, "%"))
    if key == "bytes":
        return f"{what}, {n(one.bytes, 'B')}" if one and one.bytes else what
    if key == "near" and far is not None:
        return t("tell-near").format(far=n(far))
    if key == "memory" and far is not None:
        return t("tell-longer")
    if key == "fast-unit":
        return t("tell-formats")
    return t("tell-by-kind")


def compared(found: Comparison) -> Answer:
    """What changed between two recordings, by its parts."""
    before, after = found.seconds
    of = {"before": before, "after": after, "difference": found.difference}

    def say() -> str:
        times = {name: n(seconds, "s") for name, seconds in of.items()}
        share = n(found.difference / before, "%") if before else t("tell-not-known")
        return t("tell-compared").format(share=share, **times)

    parts = sorted(found.parts.items(), key=lambda part: -abs(part[1]))
    share = found.difference or 1.0
    kernels = [one._asdict() for one in found.kernels]
    return Answer(
        question="diagnose",
        answer=in_each_language(say),
        values={f"{name}_s": seconds for name, seconds in of.items()},
        because=tuple(Term(name, seconds, "s", seconds / share) for name, seconds in parts),
        more={**found._asdict(), "difference": found.difference, "kernels": kernels},
    )


def counted(found: Sequence[KernelCounters]) -> Answer:
    """What keeps each kernel from a higher roof, by its counters."""
    first = found[0] if found else None
    known = [one for one in found if one.seconds]
    time = sum(one.seconds or 0.0 for one in known)

    def say() -> str:
        key = f"tell-ncu-{first.cause}" if first is not None else "tell-not-known"
        return f"{first.name}: {t(key)}" if first is not None else t(key)

    return Answer(
        question="diagnose",
        answer=in_each_language(say),
        values={"cause": None if first is None else first.cause},
        because=tuple(
            Term(one.name, one.seconds or 0.0, "s", (one.seconds or 0.0) / time) for one in known
        ),
        more={"kernels": [{**one._asdict(), "ratio": one.ratio} for one in found]},
    )


def summed_up(found: Mapping[str, Sequence[Total]]) -> Answer:
    """The sums of a profiler, which have no timeline and so no cause."""
    largest: dict[str, Any] = {key: every[0].seconds for key, every in found.items() if every}
    every = [one for rows in found.values() for one in rows]
    return Answer(
        question="diagnose",
        answer=in_each_language(lambda: t("tell-no-timeline")),
        values={f"largest_{key}_s": seconds for key, seconds in largest.items()},
        because=tuple(Term(one.name, one.seconds, "s", one.share) for one in every),
        more={key: [one._asdict() for one in rows] for key, rows in found.items()},
    )
