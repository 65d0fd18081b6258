"""The steps from a naive product to fp8: which rows are compared, and what is said where one lacks."""

import pytest

from course_lib.bench.rows import Manifest, Row
from course_tools.calibrate.own import fit
from course_tools.measured.gaps import no_faster_than
from course_tools.measured.ladder import RUNGS, steps
from course_tools.measured.operators import roofs
from course_book import reports
from course_book.text import in_language

H100 = "NVIDIA H100 80GB HBM3"
ABOUT = {"device": H100, "kind": "cuda", "timing": "cold", "data": "random", "status": "ok"}


def row(op, dtype, rate=None, shape="8192x8192x8192", *, peak=None, intensity=2000.0, **more):
    return Row(
        **{
            **ABOUT,
            "op": op,
            "dtype": dtype,
            "shape": shape,
            "achieved_tflops": rate,
            "peak_tflops": peak,
            "intensity": intensity,
            **more,
        }
    )


TRIAD = Row(**ABOUT, op="triad", dtype="fp32", shape="1000000000", achieved_bw_gbps=3000.0)
NAIVE = row("outer", "fp32", 0.6, "8192x16x8192", intensity=0.25)
ROWS = [
    TRIAD,
    NAIVE,
    row("matmul", "fp32", 45.0, peak=60.0),
    row("matmul", "fp16", 600.0, peak=990.0),
    row("matmul", "fp8", 1200.0, peak=1980.0),
]


def test_each_step_stands_beside_its_prediction():
    naive, half, fp8 = steps(ROWS)
    assert naive.predicted == pytest.approx(60 / (0.25 * 3.0))
    assert naive.measured == pytest.approx(45 / 0.6)
    assert naive.error == pytest.approx(75 / 80 - 1)
    assert (half.predicted, fp8.predicted) == (pytest.approx(16.5), pytest.approx(2))
    assert (fp8.measured, fp8.error) == (pytest.approx(2), pytest.approx(0))
    assert [(one.before.op, one.before.dtype) for one in (naive, half, fp8)] == list(RUNGS[:-1])


def test_a_low_intensity_is_held_against_the_bandwidth():
    thin = [
        TRIAD,
        *(row("matmul", dtype, 30.0, peak=990.0, intensity=10.0) for dtype in ("fp16", "fp8")),
    ]
    assert steps(thin)[0].predicted == pytest.approx(1)


def test_formats_are_compared_at_one_shape():
    small = [
        row("matmul", "fp16", 900.0, "16384x16384x16384", peak=990.0),
        row("matmul", "fp8", 1300.0, "4096x4096x4096", peak=1980.0),
    ]
    (step,) = steps([*ROWS[3:], *small])
    assert step.before.shape == step.after.shape == "8192x8192x8192"
    (other,) = steps(small)
    assert (other.before.shape, other.after.shape) == ("16384x16384x16384", "4096x4096x4096")


def test_zeros_warm_operands_and_replaced_rows_do_not_count():
    fast = [
        row("matmul", "fp8", 1900.0, peak=1980.0, data="zeros"),
        row("matmul", "fp8", 1900.0, peak=1980.0, timing="warm"),
    ]
    again = row("matmul", "fp8", 1100.0, peak=1980.0)
    assert steps([*ROWS, *fast, again])[-1].measured == pytest.approx(1100 / 600)


def test_what_is_missing_is_said_and_not_guessed():
    lacks = row("matmul", "fp8", status="unsupported")
    step = steps([*ROWS[:4], lacks])[-1]
    assert (step.predicted, step.measured, step.error) == (None, None, None)
    assert step.after == lacks
    assert [one.before.op for one in steps(ROWS[1:3])] == ["outer"]
    assert steps(ROWS[1:3])[0].predicted is None  # no bandwidth was measured
    assert steps([]) == steps(ROWS[:2]) == []


def test_nobody_takes_a_naive_row_for_the_librarys():
    slow = row("outer", "fp32", 0.6, "8192x8192x8192", intensity=0.25, seconds_median=1e-6)
    good = [
        row("matmul", "bf16", 700.0, peak=990.0, seconds_median=1.5e-3),
        Row(
            **ABOUT,
            op="copy",
            dtype="fp32",
            shape="1000000000",
            seconds_median=1e-3,
            achieved_bw_gbps=3000.0,
            bytes=3e9,
        ),
    ]
    assert slow.key not in {one.key for one in ROWS}
    assert no_faster_than(good[0], [slow]) is None
    assert roofs([*good, slow]) == roofs(good)
    assert fit([*good, slow]) == fit(good)
    assert reports.products._best([*good, slow]) == good[:1]


def test_the_report_and_the_figure_show_the_steps():
    text = reports.products.report(ROWS, Manifest(lab="00", command="course lab run 00"))
    assert f"| {H100} | naive → library | 80× | 75× | −6.25% |" in text
    assert f"| {H100} | fp16 → fp8 | 2× | 2× | 0% |" in text
    axes = reports.products.plot(ROWS).figure.axes[0]
    assert [0.25] in [list(line.get_xdata()) for line in axes.lines]
    assert "naive" in {label.get_text() for label in axes.texts}
    without = reports.products.report(ROWS[2:3], Manifest(lab="00", command="course lab run 00"))
    assert "naive" not in without


def test_chips_without_rows_are_predicted_and_said_not_to_be_measured():
    lacks = row("matmul", "fp8", status="unsupported")
    cells = reports.ladder.steps_table([*ROWS[:4], lacks], ["h100-sxm", "t4"]).rows
    assert [list(map(str, line))[1:] for line in cells if line[0] == "T4"] == [
        ["naive → library", "101×", "not measured", ""],
        ["fp32 → fp16", "8.02×", "not measured", ""],
        ["fp16 → fp8", "unsupported", "", ""],
    ]
    # The H100 has rows of its own.
    assert {line[0] for line in cells} == {H100, "T4"}
    assert [str(cell) for cell in cells[2]][2:] == ["not known", "unsupported", ""]
    with in_language("es"):
        assert "no medido" in repr(reports.ladder.steps_table([], ["t4"]))
