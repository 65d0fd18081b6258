"""The answer to `me`: whether a machine does what its parts allow, and what is odd about it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from course_lib.bench import Setup
from course_lib.bench.others import lost
from course_lib.bench.products import LAUNCHES
from course_lib.bench.rows import Row
from course_lib.specs import Accelerator
from course_tools.measured import best_published
from course_tools.measured.machines import AGREE, Drift, best, doubts, drifts
from course_book.answers.record import Answer, Interval, Term, cited, fields, in_each_language
from course_book.text import n, retold, t

# Faults of the set-up that are not repeated: an unknown name has another remedy here, and what a
# row says of its waiting tells more than the load of the minute before, which our last run made.
_LEFT_OUT = ("not in the spec table", "the CPU was busy")
_UNITS = {"share": "%", "rate": "B/s", "channel": "B/s", "clock": "Hz"}


def checked(
    setup: Setup, rows: Sequence[Row], before: Sequence[Row] = (), chip: Accelerator | None = None
) -> Answer:
    """The answer about one machine, from a run's rows and those `before`: no name of a host, a user
    or a folder comes in. Without a `chip` nothing is held against a datasheet.

    Examples
    --------
    >>> from course_lib import bench
    >>> answer = checked(bench.inspect("cpu"), [bench.products.launch("cpu", budget=0.1)])
    >>> answer.values["chip"] is None and answer.values["launch_s"] > 0
    True
    """
    last = list({row.key: row for row in rows}.values())
    layer, launch = best(last, "layer"), best(last, "launch")
    differ = drifts(before, last)
    told: list[Callable[[], str]] = [
        *(partial(retold, one) for one in setup.faults if not any(x in one for x in _LEFT_OUT)),
        *(partial(_doubted, key, of) for key, of in doubts(last, chip, setup.cores).items()),
        *(partial(_drifted, one) for one in differ if one.why),
    ]
    found: dict[str, Any] = {
        "device": setup.name,
        "chip": chip.key if chip else None,
        **fields(setup, "cores memory python torch cuda driver blas power_limit_w"),
        "clock_hz": setup.clock_mhz and 1e6 * setup.clock_mhz,
        "measured": [measured(row, chip) for row in last],
        "layer_s": layer and layer.seconds_median,
        "launch_s": launch and (launch.seconds_median or 0.0) / LAUNCHES,
        "agrees": not any(one.why for one in differ) if differ else None,
        "compared_with": before[0].date if before else None,
        "drifts": [one._asdict() for one in differ],
    }
    figures = ("bandwidth", *(f"matrix.{row.dtype}" for row in last if row.op == "matmul"))
    spread = layer and (layer.seconds_p20 or 0.0, layer.seconds_p80 or 0.0)
    return Answer(
        question="me",
        answer=in_each_language(lambda: _sentence(found, last, len(told))),
        values=found,
        because=_because(last, found),
        sources=cited(chip, *dict.fromkeys(figures)) if chip else (),
        range=Interval(*spread, "s", f"{layer.repeats} samples", 0.6) if layer and spread else None,
        more={"odd": [in_each_language(one) for one in told]},
    )


def measured(row: Row, chip: Accelerator | None) -> dict[str, Any]:
    """One measurement beside the roof that it is held against, in SI units."""
    product, launch = row.op == "matmul", row.op == "launch"
    rate, scale = (row.achieved_tflops, 1e12) if product else (row.achieved_bw_gbps, 1e9)
    roof, known = (row.peak_tflops or 0.0) * 1e12 if product else 0.0, {}
    if chip and product:
        peaks = (chip.peaks.get(f"{unit}.{row.dtype}") for unit in ("matrix", "vector"))
        roof, known = next(filter(None, peaks), 0.0), best_published(row.dtype)
    elif chip and not launch:
        roof = chip.bandwidth
    return {
        **fields(row, "op dtype shape status noisy"),
        "seconds": row.seconds_median and row.seconds_median / (LAUNCHES if launch else 1),
        "value": None if launch or rate is None else rate * scale,
        "unit": "FLOP/s" if product else "B/s",
        "roof": roof or None,
        "of_roof": rate * scale / roof if rate and roof else None,
        "best_published": known[chip.key].rate if chip and chip.key in known else None,
        "lost": lost(row),
    }


def _because(rows: Sequence[Row], found: dict[str, Any]) -> tuple[Term, ...]:
    """What the decode step is made of: weights at the stream's rate, launches, and the rest."""
    layer, stream = best(rows, "layer"), best(rows, "copy", "triad")
    if not (layer and stream and layer.bytes and stream.achieved_bw_gbps and found["launch_s"]):
        return ()
    parts = {"weights": layer.bytes / stream.achieved_bw_gbps / 1e9}
    parts["launches"] = 4 * found["launch_s"]  # one for each matrix
    parts["rest"] = max(0.0, found["layer_s"] - sum(parts.values()))
    ordered = sorted(parts.items(), key=lambda one: -one[1])
    return tuple(Term(name, value, "s", value / found["layer_s"]) for name, value in ordered)


def _sentence(found: dict[str, Any], rows: Sequence[Row], odd: int) -> str:
    stream, product = best(rows, "copy", "triad"), best(rows, "matmul")
    parts = [f"{found['device']}."]
    if stream and product:
        rates = {"stream": n(1e9 * (stream.achieved_bw_gbps or 0), "B/s"), "dtype": product.dtype}
        rates["rate"] = n(1e12 * (product.achieved_tflops or 0), "FLOP/s")
        parts = [t("me-answer").format(device=found["device"], **rates)]
    parts.append(t("me-odd").format(count=n(odd)) if odd else t("me-fine"))
    if found["drifts"]:
        apart = sum(bool(one["why"]) for one in found["drifts"])
        about = {"day": found["compared_with"][:10], "share": n(AGREE, "%")}
        about |= {"apart": n(apart), "count": n(len(found["drifts"]))}
        parts.append(t("me-apart" if apart else "me-agrees").format(**about))
    return " ".join(parts)


def _doubted(key: str, figures: dict[str, Any]) -> str:
    said = {
        name: value if isinstance(value, str) else n(value, _UNITS.get(name, ""))
        for name, value in figures.items()
    }
    if "op" in said:
        said["op"] = t(f"me-{said['op']}")
    return t(f"me-doubt-{key}").format(**said)


def _drifted(one: Drift) -> str:
    what, why = f"{t(f'me-{one.op}')}, {one.dtype}", t(f"me-why-{one.why}")
    return t("me-drift").format(what=what, ratio=n(one.ratio, "×"), why=why)
