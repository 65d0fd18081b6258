"""The answer to `me`: whether a machine does what its parts allow, and what is odd about it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from course_lib.bench import Setup, checkup
from course_lib.bench.rows import Row
from course_lib.specs import Accelerator
from course_tools.measured import best_published
from course_book.answers.record import Answer, Interval, Term, cited, fields, in_each_language
from course_book.text import n, retold, t

# Matrices of the layer, each launched by itself.
_PRODUCTS = 4
# What an unknown name leads to is told by the report itself, with another remedy.
_UNKNOWN = "not in the spec table"
# Where a row says how long it waited for a core, the load of the minute before tells less: it is
# our own where a run follows another.
_BUSY = "the CPU was busy"


def checked(
    setup: Setup, rows: Sequence[Row], before: Sequence[Row] = (), chip: Accelerator | None = None
) -> Answer:
    """The answer about one machine, from the rows of `course_lib.bench.checkup` alone: no name of
    a host, a user or a folder comes in.

    Parameters
    ----------
    before : the rows of an earlier run on the same machine, to be compared.
    chip : its published figures; without them nothing is compared with a datasheet.

    Examples
    --------
    >>> from course_lib import bench
    >>> answer = checked(bench.inspect("cpu"), [bench.checkup.launch("cpu", budget=0.1)])
    >>> answer.values["chip"] is None and answer.values["launch_s"] > 0
    True
    """
    last = list({row.key: row for row in rows}.values())
    drifts = checkup.drifts(before, last)
    found: dict[str, Any] = {
        "device": setup.name,
        "kind": rows[0].kind if rows else None,
        "chip": chip.key if chip else None,
        **fields(setup, "cores memory python torch cuda driver blas power_limit_w"),
        "clock_hz": setup.clock_mhz and 1e6 * setup.clock_mhz,
        "began": rows[0].date if rows else None,
        "measured": [measured(row, chip) for row in last],
        "agrees": all(not one.why for one in drifts) if drifts else None,
        "compared_with": before[0].date if before else None,
        "drifts": [msgspec.to_builtins(one) for one in drifts],
    }
    layer, launch = checkup.best(last, "layer"), checkup.best(last, "launch")
    found["layer_s"] = layer.seconds_median if layer else None
    found["launch_s"] = (launch.seconds_median or 0) / checkup.LAUNCHES if launch else None
    known = _BUSY if any(map(checkup.lost, last)) else _UNKNOWN
    odd = [one for one in setup.faults if _UNKNOWN not in one and known not in one]
    doubts = checkup.doubts(last, chip, setup.cores)
    said = [in_each_language(lambda one=one: retold(one)) for one in odd]  # type: ignore[misc]
    said += [in_each_language(lambda one=one: _doubted(one)) for one in doubts]  # type: ignore[misc]
    figures = ("bandwidth", *(f"matrix.{row.dtype}" for row in last if row.op == "matmul"))
    return Answer(
        question="me",
        answer=in_each_language(lambda: _sentence(found, last, len(said))),
        values=found,
        because=_because(last, found),
        sources=cited(chip, *dict.fromkeys(figures)) if chip else (),
        range=_spread(layer),
        more={"odd": said, "doubts": [msgspec.to_builtins(one) for one in doubts]},
    )


def measured(row: Row, chip: Accelerator | None) -> dict[str, Any]:
    """One measurement beside the roof that it is held against, in SI units."""
    product, stream = row.op == "matmul", row.op in ("copy", "triad", "layer")
    value = row.achieved_tflops and 1e12 * row.achieved_tflops
    roof = row.peak_tflops and 1e12 * row.peak_tflops
    if stream:
        value, roof = row.achieved_bw_gbps and 1e9 * row.achieved_bw_gbps, None
    if chip and product:
        peaks = (chip.peaks.get(f"{unit}.{row.dtype}") for unit in ("matrix", "vector"))
        roof = next(filter(None, peaks), None)
    elif chip and stream:
        roof = chip.bandwidth
    known = best_published(row.dtype) if chip and product else {}
    best = known[chip.key].rate if chip and chip.key in known else None
    return {
        **fields(row, "op dtype shape status noisy"),
        "seconds": row.seconds_median,
        "value": value if product or stream else None,
        "unit": "FLOP/s" if product else "B/s",
        "roof": roof,
        "of_roof": value / roof if value and roof and row.op != "launch" else None,
        "best_published": best,
        "lost": checkup.lost(row),
    }


def _because(rows: Sequence[Row], found: dict[str, Any]) -> tuple[Term, ...]:
    """What the decode step is made of: weights at the stream's rate, launches, and the rest."""
    layer, stream = checkup.best(rows, "layer"), checkup.best(rows, "copy", "triad")
    if not (layer and stream and found["launch_s"]):
        return ()
    whole = layer.seconds_median or 0.0
    moved = (layer.bytes or 0.0) / 1e9 / (stream.achieved_bw_gbps or 1.0)
    parts = {"weights": moved, "launches": _PRODUCTS * found["launch_s"]}
    parts["rest"] = max(0.0, whole - sum(parts.values()))
    ordered = sorted(parts.items(), key=lambda one: -one[1])
    return tuple(Term(name, value, "s", value / whole) for name, value in ordered)


def _spread(layer: Row | None) -> Interval | None:
    if layer is None or layer.seconds_p20 is None or layer.seconds_p80 is None:
        return None
    about = f"{layer.repeats} samples of this run"
    return Interval(layer.seconds_p20, layer.seconds_p80, "s", about, 0.6)


def _sentence(found: dict[str, Any], rows: Sequence[Row], odd: int) -> str:
    stream, product = checkup.best(rows, "copy", "triad"), checkup.best(rows, "matmul")
    parts = [found["device"] + "."]
    if stream and product:
        rates = {"stream": n(1e9 * (stream.achieved_bw_gbps or 0), "B/s"), "dtype": product.dtype}
        rates["rate"] = n(1e12 * (product.achieved_tflops or 0), "FLOP/s")
        parts = [t("me-answer").format(device=found["device"], **rates)]
    parts.append(t("me-odd").format(count=n(odd)) if odd else t("me-fine"))
    if found["drifts"]:
        apart = sum(bool(one["why"]) for one in found["drifts"])
        about = {"day": found["compared_with"][:10], "share": n(checkup.AGREE, "%")}
        about |= {"apart": n(apart), "count": n(len(found["drifts"]))}
        parts.append(t("me-apart" if apart else "me-agrees").format(**about))
    return " ".join(parts)


def _doubted(one: checkup.Doubt) -> str:
    """A doubt in the page's language."""
    units = {"share": "%", "rate": "B/s", "channel": "B/s", "clock": "Hz"}
    said = {
        name: value if isinstance(value, str) else n(value, units.get(name, ""))
        for name, value in one.figures.items()
    }
    if "op" in said:
        said["op"] = t(f"me-{said['op']}")
    return t(f"me-doubt-{one.key}").format(**said)
