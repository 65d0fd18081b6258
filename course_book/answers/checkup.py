"""The answer to `me`: whether a machine does what its parts allow, and what is odd about it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from course_lib.bench.device import Setup
from course_lib.bench.others import lost
from course_lib.bench.products import LAUNCHES
from course_lib.bench.rows import Row
from course_lib.specs import Accelerator
from course_tools.energy import of_row
from course_tools.measured import best_published
from course_tools.measured.machines import AGREE, best, doubts, drifts
from course_book.answers.energies import known as known_energy
from course_book.answers.record import Answer, Term, cited, fields, in_each_language
from course_book.text import n, retold, t

# Faults of the set-up that are not repeated: an unknown name has another remedy here, and what a
# row says of its waiting tells more than the load of the minute before, which our last run made.
_LEFT_OUT = ("not in the spec table", "the CPU was busy")


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
        *(partial(_drifted, **one) for one in differ if one["why"]),
    ]
    found: dict[str, Any] = {
        "device": setup.name,
        "chip": chip.key if chip else None,
        **fields(setup, "cores memory python torch cuda driver blas power_limit_w note"),
        "clock_hz": setup.clock_mhz and 1e6 * setup.clock_mhz,
        "measured": [_measured(row, chip) for row in last],
        "layer_s": layer and layer.seconds_median,
        "launch_s": launch and (launch.seconds_median or 0.0) / LAUNCHES,
        "agrees": not any(one["why"] for one in differ) if differ else None,
        "compared_with": before[0].date if before else None,
        "drifts": differ,
    }
    figures = ("bandwidth", *(f"matrix.{row.dtype}" for row in last if row.op == "matmul"))
    return Answer(
        question="me",
        answer=in_each_language(lambda: _sentence(found, last, len(told))),
        values=found,
        because=_because(last, found),
        sources=cited(chip, *dict.fromkeys(figures)) if chip else (),
        more={"odd": [in_each_language(one) for one in told]},
    )


def _measured(row: Row, chip: Accelerator | None) -> dict[str, Any]:
    """One measurement beside its roof, in SI units; of a product, the J are those of a FLOP."""
    product, launch = row.op == "matmul", row.op == "launch"
    each = (row.seconds_median or 0.0) / ((product and row.flops) or 1.0)
    expected = chip and each and known_energy(of_row, row, chip)
    rate = 1e12 * (row.achieved_tflops or 0) if product else 1e9 * (row.achieved_bw_gbps or 0)
    roof, known = 1e12 * (row.peak_tflops or 0) if product else 0.0, {}
    if chip and product:
        peaks, known = chip.peaks, best_published(row.dtype)
        roof = peaks.get(f"matrix.{row.dtype}") or peaks.get(f"vector.{row.dtype}") or 0.0
    elif chip and not launch:
        roof = chip.bandwidth
    return {
        **fields(row, "op dtype shape status noisy seconds_median"),
        "joules": (row.power_w and row.power_w * each) or None,
        "joules_expected": expected.watts * each if expected else None,
        "value": None if launch else rate or None,
        "unit": "FLOP/s" if product else "B/s",
        "roof": roof or None,
        "of_roof": rate / roof if rate and roof else None,
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
    parts = [t("me-odd").format(count=n(odd)) if odd else t("me-fine")]
    if stream and product:
        rates = {"stream": n(1e9 * (stream.achieved_bw_gbps or 0), "B/s"), "dtype": product.dtype}
        rates["rate"] = n(1e12 * (product.achieved_tflops or 0), "FLOP/s")
        parts.insert(0, t("me-answer").format(device=found["device"], **rates))
    if counted := [one for one in found["measured"] if one["joules"] and one["op"] == "matmul"]:
        names, first = ("joules", "joules_expected"), counted[0]
        said = {name: n(first[name], "J") if first[name] else "–" for name in names}
        parts.append(t("me-energy").format(**said))
    elif found["note"]:
        parts.append(t("me-no-energy").format(why=retold(found["note"])))
    if found["drifts"]:
        apart = sum(bool(one["why"]) for one in found["drifts"])
        about = {"day": found["compared_with"][:10], "share": n(AGREE, "%")}
        about |= {"apart": n(apart), "count": n(len(found["drifts"]))}
        parts.append(t("me-apart" if apart else "me-agrees").format(**about))
    return " ".join(parts)


def _doubted(key: str, figures: dict[str, Any]) -> str:
    said = {name: n(*of) if isinstance(of, tuple) else of for name, of in figures.items()}
    return t(f"me-doubt-{key}").format(**said | {"op": t(f"me-{said.get('op', 'copy')}")})


def _drifted(op: str, dtype: str, ratio: float, why: str) -> str:
    what = f"{t(f'me-{op}')}, {dtype}"
    return t("me-drift").format(what=what, ratio=n(ratio, "×"), why=t(f"me-why-{why}"))
