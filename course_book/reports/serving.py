"""The report and figure of lab 03: the steps of an engine beside three constants, and requests that
it served beside what was predicted.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from course_lib.bench.rows import Manifest, Row, timed
from course_lib.core.checks import CourseError
from course_tools import serve
from course_tools.measured.serving import Replayed, StepFit, fit, replays
from course_book.plot import Plot, sweep
from course_book.reports.frame import missing, page, said
from course_book.text import Table, n, t, table

FELT = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "tokens_per_s")
"""What users feel of a run, under the names that lab 03 gives it."""


def report(rows: Sequence[Row], manifest: Manifest, own: Mapping[str, float] | None = None) -> str:
    """REPORT.md of lab 03: steps beside the constants fitted to them, and each run of requests.

    Parameters
    ----------
    rows : of results.csv.
    manifest : of the run.
    own : what the reader predicted of the last run, under the names in `felt`.

    Examples
    --------
    >>> print(report([], Manifest(lab="03", command="course lab run 03")))
    # 03
    <BLANKLINE>
    `course lab run 03`, started not recorded, took not measured, cost not measured.
    <BLANKLINE>
    Nothing was measured.
    <BLANKLINE>
    """
    ours = [row for row in rows if row.op in ("step", "request")]
    return page(ours, manifest, lambda these: _section(these, own))


def _section(rows: list[Row], own: Mapping[str, float] | None) -> list[str]:
    lacking = missing(rows, lambda row: said("step-of", shape=row.shape))
    try:
        found = fit(rows)
    except CourseError:
        return [said("too-few-steps"), *lacking]
    constants = {
        "step": n(found.step, "s"),
        "token": n(found.token, "s"),
        "seen": n(found.seen, "s"),
        "error": n(found.error, "%"),
    }
    parts = [said("step-constants", **constants), repr(steps(rows))]
    runs = replays(rows)
    for number, run in enumerate(runs):
        many, rate = n(len(run.rows)), n((len(run.rows) - 1) / max(run.arrived[-1], 1e-9))
        last = number == len(runs) - 1
        parts.append(said("served", many=many, rate=rate, rule=run.rule))
        parts.append(repr(beside(run, found, own if last else None)))
    return [*parts, *lacking]


def steps(rows: Sequence[Row]) -> Table:
    """Measured steps beside what the constants fitted to them give.

    Examples
    --------
    >>> steps([])
    Traceback (most recent call last):
    ...
    course_lib.CourseError: rows must hold four steps or more, with different tokens and contexts...
    """
    found, cells = fit(rows), []
    for row, seconds in timed(rows).values():
        if row.op == "step":
            tokens, seen = row.sizes
            likely = float(found.seconds(tokens, seen))
            off = _error(likely, seconds)
            cells.append([row.variant, n(tokens), n(seen), n(seconds, "s"), n(likely, "s"), off])
    header = [t("engine-step-kind"), t("engine-new-tokens"), t("engine-tokens-read"), t("measured")]
    return table([*header, t("engine-three-constants"), t("engine-error")], cells, "lrrrrr")


def beside(run: Replayed, found: StepFit, own: Mapping[str, float] | None = None) -> Table:
    """What users felt of a run, beside the reader's prediction and the simulator's.

    Parameters
    ----------
    run : of `replays`.
    found : the constants of its engine.
    own : what the reader predicted; left out where `None`.

    Examples
    --------
    >>> beside(Replayed((), (), (), (), (), (), (), 1, 1, "own"), StepFit(1e-3, 1e-4, 0.0))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: run must hold a request: serve some
    """
    measured = felt(served(run))
    ours = felt(simulated(run, found))
    header = ["", t("measured"), *([t("engine-your-prediction"), t("engine-error")] if own else [])]
    cells = []
    for name in FELT:
        unit = "" if name == "tokens_per_s" else "s"
        values = [*([own[name]] if own else []), ours[name]]
        row = [said(name), n(measured[name], unit)]
        for value in values:
            row += [n(value, unit), _error(value, measured[name])]
        cells.append(row)
    return table([*header, t("engine-simulator"), t("engine-error")], cells)


def _error(predicted: float, measured: float) -> str:
    """How far a prediction lies from what was measured, to a tenth of a percent."""
    return n(round(predicted / measured - 1, 3), "%")


def served(run: Replayed) -> serve.Served:
    """A measured run, as the simulator tells of its own."""
    if not run.rows:
        raise CourseError("run must hold a request: serve some")
    none = np.zeros(len(run.rows), dtype=np.int64)
    return serve.Served(
        arrived=np.array(run.arrived),
        scheduled=np.array(run.scheduled),
        first=np.array(run.first),
        last=np.array(run.last),
        prompt=np.array(run.prompt),
        output=np.array(run.output),
        replica=none,
        preempted=none,
        steps=0,
        cache_used=0.0,
        calibrated=True,
        source="measured",
    )


def simulated(run: Replayed, found: StepFit) -> serve.Served:
    """The requests of a run, served by the simulator with steps of three constants.

    Examples
    --------
    >>> simulated(Replayed((), (), (), (), (), (), (), 1, 1, "own"), StepFit(1e-3, 1e-4, 0.0))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: run must hold a request: serve some
    """
    if not run.rows:
        raise CourseError("run must hold a request: serve some")
    none = np.full(len(run.rows), -1, dtype=np.int64)
    requests = serve.Requests(
        np.array(run.arrived), np.array(run.prompt), np.array(run.output), none, 0 * none
    )
    how = serve.engine(
        "vllm",
        max_num_seqs=run.seqs,
        max_num_batched_tokens=run.tokens,
        enable_chunked_prefill=False,
        enable_prefix_caching=False,
        async_scheduling=False,
    )
    steps_ = serve.linear_step_times(
        found.step, found.token, found.seen, run.tokens, "measured steps"
    )
    return serve.on_one_replica(requests, steps_, how)


def felt(done: serve.Served) -> dict[str, float]:
    """What users feel: percentiles of both latencies, s, and tokens a second.

    Examples
    --------
    >>> steps_ = serve.linear_step_times(2e-3, 1e-4, 1e-6, 2048)
    >>> done = serve.on_one_replica(serve.synthetic_workload(4.0, 20, 100, 10), steps_)
    >>> list(felt(done)) == list(FELT)
    True
    """
    found: dict[str, float] = {}
    for name in ("ttft", "tpot"):
        shares = done.percentiles(name)
        found |= {f"{name}_{share}": shares[share] for share in ("p50", "p99")}
    return {**found, "tokens_per_s": done.tokens_per_s}


def plot(rows: Sequence[Row]) -> Plot:
    """Steps that decode as dots, by what they read from caches, and as lines what three constants
    give.

    Parameters
    ----------
    rows : of one engine on one device.

    Raises
    ------
    CourseError
        If there are too few steps to fit the constants.

    Examples
    --------
    >>> plot([])
    Traceback (most recent call last):
    ...
    course_lib.CourseError: rows must hold four steps or more, with different tokens and contexts...
    """
    found = fit(rows)
    dots: dict[int, list[tuple[int, float]]] = {}
    for row, seconds in timed(rows).values():
        if row.op == "step" and row.variant == "decode":
            tokens, seen = row.sizes
            dots.setdefault(tokens, []).append((seen, seconds))
    if not dots:
        raise CourseError("rows must hold steps that decode to plot: measure with a larger budget")
    reads = [seen for pairs in dots.values() for seen, _ in pairs]
    x = np.geomspace(min(reads) / 1.4, max(reads) * 1.4, 60)
    label = {tokens: said("sequences", many=n(tokens)) for tokens in sorted(dots)}
    return sweep(
        x,
        {label[tokens]: found.seconds(tokens, x) for tokens in label},
        x_label=t("engine-tokens-read"),
        y_label="T (s)",
        dots={label[tokens]: tuple(np.array(sorted(dots[tokens])).T) for tokens in label},
    )
