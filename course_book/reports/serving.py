"""Report and figure of lab 03: an engine's steps, and requests served and predicted."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from course_lib.bench.rows import Manifest, Row, timed
from course_lib.core.checks import CourseError
from course_tools import serve
from course_tools.measured.serving import Replayed, StepFit, fit, replays
from course_book.plot import Plot, sweep
from course_book.reports.frame import missing, page, said
from course_book.text import Table, n, t, table

# What users feel of a run, under the names that lab 03 gives it.
FELT = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "tokens_per_s")


def report(rows: Sequence[Row], manifest: Manifest, own: Mapping[str, float] | None = None) -> str:
    """REPORT.md of lab 03: steps and their constants, and runs, the last beside the reader's."""
    ours = [row for row in rows if row.op in ("step", "request")]
    return page(ours, manifest, lambda these: _section(these, own))


def _section(rows: list[Row], own: Mapping[str, float] | None) -> list[str]:
    lacking = missing(rows, lambda row: said("step-of", shape=row.shape))
    try:
        found = fit(rows)
    except CourseError:
        return [said("too-few-steps"), *lacking]
    constants = {name: n(getattr(found, name), "s") for name in ("step", "token", "seen")}
    parts = [said("step-constants", **constants, error=n(found.error, "%")), repr(steps(rows))]
    runs = replays(rows)
    for run in runs:
        many, rate = n(len(run.rows)), n((len(run.rows) - 1) / max(run.arrived[-1], 1e-9))
        parts.append(said("served", many=many, rate=rate, rule=run.rule))
        parts.append(repr(beside(run, found, own if run is runs[-1] else None)))
    return [*parts, *lacking]


def _steps(rows: Sequence[Row]) -> Iterator[tuple[Row, int, int, float]]:
    """Steps, with the new tokens of each, the tokens read from caches, and the seconds."""
    for row, seconds in timed(rows).values():
        if row.op == "step":
            tokens, seen = row.sizes
            yield row, tokens, seen, seconds


def steps(rows: Sequence[Row]) -> Table:
    """Measured steps beside what the constants fitted to them give."""
    found, cells = fit(rows), []
    for row, tokens, seen, seconds in _steps(rows):
        likely = float(found.seconds(tokens, seen))
        times = [n(seconds, "s"), n(likely, "s"), _error(likely, seconds)]
        cells.append([row.variant, n(tokens), n(seen), *times])
    header = [t("engine-step-kind"), t("engine-new-tokens"), t("engine-tokens-read"), t("measured")]
    return table([*header, t("engine-three-constants"), t("engine-error")], cells, "lrrrrr")


def beside(run: Replayed, found: StepFit, own: Mapping[str, float] | None = None) -> Table:
    """What users felt of a run, beside the reader's prediction and that of the simulator."""
    measured = felt(served(run))
    ours = felt(simulated(run, found))
    header = ["", t("measured"), *([t("engine-your-prediction"), t("engine-error")] if own else [])]
    cells = []
    for name in FELT:
        unit = "" if name == "tokens_per_s" else "s"
        row = [said(name), n(measured[name], unit)]
        for value in [*([own[name]] if own else []), ours[name]]:
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
    names = ("arrived", "scheduled", "first", "last", "prompt", "output")
    none = np.zeros(len(run.rows), dtype=np.int64)
    return serve.Served(
        **{name: np.array(getattr(run, name)) for name in names},
        replica=none,
        preempted=none,
        steps=0,
        cache_used=0.0,
        calibrated=True,
        source="measured",
        evidence="",
    )


def simulated(run: Replayed, found: StepFit) -> serve.Served:
    """The requests of a run, served by the simulator with steps of three constants."""
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
    """What users feel: percentiles of both latencies, s, and tokens a second, as in `FELT`."""
    found = {
        f"{name}_{share}": done.percentiles(name)[share]
        for name in ("ttft", "tpot")
        for share in ("p50", "p99")
    }
    return {**found, "tokens_per_s": done.tokens_per_s}


def plot(rows: Sequence[Row]) -> Plot:
    """Steps that decode as dots, by what they read from caches, and fitted constants as lines."""
    found = fit(rows)
    dots: dict[int, list[tuple[int, float]]] = {}
    for row, tokens, seen, seconds in _steps(rows):
        if row.variant == "decode":
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
