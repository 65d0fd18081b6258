"""The fit: it finds constants that are known, sees nothing that is held out, and its report counts
honestly.
"""

import re
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from course_lib import CourseError, chip, llm, ops, roofline
from course_lib.bench.rows import Row
from course_lib.core import Work
from course_lib.network import all_reduce
from course_lib.specs import load_toml
from course_tools import calibrate
from course_tools.calibrate import evidence
from course_tools.calibrate import own as calibrate_own
from course_tools.calibrate.constants import FOLDER, from_file, to_toml
from course_tools.calibrate.errors import error_table, known_errors
from course_tools.calibrate.kernels import EngineConstants, Kernel, seconds
from course_tools.calibrate.own import least_absolute
from course_tools.measured import table
from tools import fit_chips as calibrate_fit
from tools.calibrate import as_text

A100 = chip("a100-sxm-80")
TABLE = known_errors()
CONSTANTS = calibrate.calibration(A100, "bf16").constants


def test_a_robust_fit_passes_over_outliers():
    rng = np.random.default_rng(1)
    sizes = rng.uniform(1, 100, 200)
    times = (5 + 3 * sizes) * np.where(np.arange(200) % 10, 1.0, 4.0)
    found = least_absolute(
        lambda c: np.log((c["a"] + c["b"] * sizes) / times), {"a": 1.0, "b": 1.0}
    )
    assert found == pytest.approx({"a": 5.0, "b": 3.0}, rel=5e-3)


def test_a_ceiling_is_kept():
    sizes = np.linspace(1, 10, 20)
    found = least_absolute(
        lambda c: np.log(sizes / c["share"] / (sizes / 1.3)), {"share": 0.5}, {"share": 1.0}
    )
    assert found["share"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("true", "start"), [((0.25, 0.015), (1e-5, 10.0)), ((5.0, 3.0), (1e5, 1e-5))]
)
def test_a_fit_that_begins_far_away_loses_no_constant(true, start):
    """Where a constant hardly shows at first, a whole step would take it to nothing, whence no
    slope leads back.
    """
    sizes = np.geomspace(1, 1e4, 30)
    times = true[0] + true[1] * sizes
    found = least_absolute(
        lambda c: np.log((c["a"] + c["b"] * sizes) / times), dict(zip("ab", start, strict=True))
    )
    assert (found["a"], found["b"]) == pytest.approx(true)


def test_constants_of_products_are_found_again():
    true = msgspec.structs.replace(
        CONSTANTS, compute=0.65, bandwidth=0.9, overhead=8e-6, overlap=3.0, reload=20.0
    )
    rng = np.random.default_rng(0)
    sizes = np.stack(
        [
            2 ** rng.integers(0, 14, 300),
            128 * rng.integers(4, 128, 300),
            128 * rng.integers(4, 128, 300),
        ],
        axis=1,
    )
    shapes = evidence.Products(sizes, np.ones(300))
    bound = shapes.bound(A100)
    times = seconds(Kernel(bound, bound.work), A100, true) * np.exp(rng.laplace(0, 0.03, 300))
    found = calibrate_fit.fit_products(evidence.Products(sizes, times), A100, CONSTANTS)[0]
    for name, within in (("compute", 0.02), ("bandwidth", 0.02), ("overhead", 0.1)):
        assert getattr(found, name) == pytest.approx(getattr(true, name), rel=within), name


def test_links_are_found_again():
    size, chips = np.tile(np.geomspace(1e3, 1e9, 60), 2), np.repeat([2, 8], 60)
    bound = np.asarray(all_reduce(size, A100.links["nvlink"], chips))
    times = (np.sqrt(1.2e-5 + 2 * (chips - 1) * 5e-7) + np.sqrt(bound / 0.7)) ** 2
    found = calibrate_fit.fit_links([evidence.Messages(size, chips, times, bound)])
    constants = found.latency, found.hop, found.bandwidth
    assert constants == pytest.approx((1.2e-5, 5e-7, 0.7), rel=1e-2)
    assert (found.range.low, found.small.high) == pytest.approx((1, 1), rel=1e-2)


def test_the_centre_of_laboratories_and_their_doubt_are_what_the_tables_say():
    known = calibrate.calibration(A100, "fp16")
    ratios = evidence.laboratories(known)
    assert ratios["matmul_a100_transformer_gemms"] == pytest.approx(1, abs=0.01)  # what was fitted
    middle, apart = evidence.centre(ratios.values())
    assert known.constants.burst == pytest.approx(middle, rel=0.01)
    assert known.labs == pytest.approx(apart, rel=0.05)
    assert min(ratios.values()) < middle < max(ratios.values())


@pytest.mark.parametrize("key", evidence.COLLECTED)
def test_no_step_is_promised_more_of_the_memory_than_steps_were_seen_to_reach(key):
    found = calibrate.calibration(key, "bf16").constants
    assert found.stream >= found.bandwidth
    assert found.bandwidth <= calibrate.calibration(A100, "bf16").constants.bandwidth


@pytest.mark.parametrize("key", evidence.COLLECTED)
def test_the_half_of_collected_rows_that_is_not_fitted_is_as_near(key):
    rows = {(row.family, row.held): row for row in TABLE if row.chip == key}
    most = {"products": 0.08, "8-bit products": 0.1, "collectives": 0.15}
    for family, mean in most.items():
        assert rows[family, "test half"].mean <= mean, family
        assert 0.7 <= rows[family, "test half"].inside <= 0.95, family
    for family in ("attention, prompts", "attention, decoding"):
        assert rows[family, "test half"].mean <= 0.25, family
        assert 0.75 <= rows[family, "test half"].inside <= 0.9, family


def test_constants_of_one_generation_expect_products_of_the_other():
    row = next(one for one in TABLE if (one.family, one.held) == ("products", "other chips"))
    assert (row.chip, row.rows > 400) == ("", True)
    assert row.mean <= 0.08


def test_the_split_is_by_shape_and_fixed():
    shapes = evidence.products("matmul_a100_transformer_gemms")
    assert len({tuple(size) for size in shapes.sizes}) == len(shapes.sizes)
    marks = evidence.held_out(len(shapes.seconds))
    assert np.array_equal(marks, evidence.held_out(len(shapes.seconds)))
    assert marks.mean() == pytest.approx(evidence.HELD_OUT, abs=0.01)


def test_what_is_held_out_does_not_touch_the_constants():
    """The fit of the products that it sees is the file's, and others' times being doubled would
    change the file's error only.
    """
    shapes = evidence.products("matmul_a100_transformer_gemms")
    unseen = evidence.held_out(len(shapes.seconds))
    found = calibrate_fit.fit_products(shapes.some(~unseen), A100, CONSTANTS)[0]
    shipped = from_file(FOLDER / "a100-sxm-80.toml", "fp16").constants
    for name in calibrate_fit.START:
        assert getattr(found, name) == pytest.approx(getattr(shipped, name), rel=2e-2), name


def test_other_products_of_the_laboratory_are_as_near_by_matrix():
    """Harder than by shape: whole weight matrices unseen, at every batch."""
    shapes = evidence.products("matmul_a100_transformer_gemms")
    matrices = np.unique(shapes.sizes[:, 1:], axis=0)
    unseen = {tuple(matrix) for matrix in matrices[evidence.held_out(len(matrices), seed=1)]}
    marks = np.array([tuple(size[1:]) in unseen for size in shapes.sizes])
    found = calibrate_fit.fit_products(shapes.some(~marks), A100, CONSTANTS)[0]
    test = shapes.some(marks)
    bound = test.bound(A100)
    assert (
        calibrate.mean_error(seconds(Kernel(bound, bound.work), A100, found), test.seconds) <= 0.08
    )


def test_the_fit_beats_what_it_would_be_without_tiles():
    """Quantisation pays: three constants and no tiles miss more."""
    shapes = evidence.products("matmul_a100_transformer_gemms")
    unseen = evidence.held_out(len(shapes.seconds))

    def plain(c, some):
        bound = some.bound(A100)
        return c["overhead"] + np.maximum(
            bound.t_math / c["compute"], bound.t_memory / c["bandwidth"]
        )

    seen, test = shapes.some(~unseen), shapes.some(unseen)
    start = {"compute": 0.7, "bandwidth": 0.8, "overhead": 4e-6}
    found = least_absolute(lambda c: np.log(plain(c, seen) / seen.seconds), start)
    tiled = calibrate.predict(test.bound(A100), A100, state="sustained").expected
    assert (
        calibrate.mean_error(tiled, test.seconds)
        < calibrate.mean_error(plain(found, test), test.seconds) - 0.01
    )


def test_misalignment_is_what_the_table_shows():
    rates = {row["d_ff"]: float(row["tflops"]) for row in table("matmul_swiglu_alignment_h100")}
    assert calibrate_fit.misalignment() == pytest.approx(rates["10944"] / rates["10922"], rel=0.02)


def test_files_are_written_and_read_again(tmp_path):
    paths = calibrate_fit.fit_and_write(tmp_path, date="2026-01-01")
    assert sorted(path.stem for path in paths) == sorted([*calibrate.calibrations(), "engines"])
    engines = load_toml(tmp_path / "engines.toml", dict[str, EngineConstants])
    for name, engine in calibrate.engines().items():
        for constant in ("gap", "launch", "unpack"):
            assert getattr(engines[name], constant) == pytest.approx(
                getattr(engine, constant), rel=5e-2
            ), (name, constant)
    for path in (path for path in paths if path.stem != "engines"):
        again, shipped = from_file(path, "bf16"), from_file(FOLDER / path.name, "bf16")
        for name in again.constants.__struct_fields__:
            # Another machine's arithmetic may round the last step of a fit another way.
            assert getattr(again.constants, name) == pytest.approx(
                getattr(shipped.constants, name), rel=5e-2
            ), (path.name, name)
        assert "2026-01-01" in again.source


def test_scaled_chips_keep_the_order_of_the_published_bests():
    best = {
        key: calibrate.calibration(key, "bf16").constants.compute
        for key in ("a100-sxm-80", "h100-sxm", "b200-sxm", "mi300x")
    }
    assert list(best) == sorted(best, key=best.__getitem__, reverse=True)


def test_the_table_that_ships_is_what_the_rows_say():
    again = error_table(evidence.error_rows())
    shipped = {(row.family, row.held, row.chip): row for row in known_errors()}
    for row in again:
        before = shipped[row.family, row.held, row.chip]
        assert (row.rows, row.median, row.inside) == pytest.approx(
            (before.rows, before.median, before.inside), rel=5e-2, abs=5e-3
        )
    text = as_text(again)
    assert all(row.family in text for row in again)


def test_no_bound_is_broken_and_a_broken_one_would_be_counted(monkeypatch):
    honest = evidence.bounds()
    assert all(np.all(one.seconds >= one.lower) for one in honest)
    assert evidence.broken()[1] == 0
    impossible = evidence.Bounded(*map(np.array, ([1e-9], [1.0], [100.0], ["h100-sxm"])))
    monkeypatch.setattr(evidence, "bounds", lambda: [*honest, impossible])
    assert evidence.broken()[1] == 1


def rows(true, dtype="bf16", noise=0.0):
    """What lab 0 would measure on a chip of these constants."""
    rng = np.random.default_rng(0)
    found = []
    shapes = [(n, n, n) for n in (512, 1024, 2048, 4096, 8192, 12_288)] + [
        (m, 8192, 8192) for m in (1, 16, 128)
    ]
    common = {
        "device": "NVIDIA A100-SXM4-80GB",
        "kind": "cuda",
        "timing": "cold",
        "data": "random",
        "status": "ok",
    }
    for b, d, f in shapes:
        bound = roofline(ops.matmul(b, d, f, x=dtype, w=dtype), A100)
        time = float(seconds(Kernel(bound, bound.work), A100, true)) * np.exp(
            noise * rng.standard_normal()
        )
        found.append(
            Row(
                op="matmul",
                dtype=dtype,
                shape=f"{b}x{d}x{f}",
                seconds_median=time,
                date="2026-05-01T10:00",
                **common,
            )
        )
    for size in (2**20, 2**24, 2**30):
        time = (true.overhead + size / A100.bandwidth / true.bandwidth) * np.exp(
            noise * rng.standard_normal()
        )
        more = {
            "op": "copy",
            "dtype": "fp32",
            "shape": str(size),
            "bytes": float(size),
            "flops": 0.0,
        }
        found.append(Row(**more, seconds_median=time, **common))
    return found


TRUE = msgspec.structs.replace(CONSTANTS, compute=0.62, bandwidth=0.88, overhead=7e-6)


def test_own_measurements_give_own_constants():
    found = calibrate_own.fit(rows(TRUE))
    for name in calibrate_own.FITTED:
        assert getattr(found.constants["bf16"].isolated(), name) == pytest.approx(
            getattr(TRUE, name), rel=0.02
        ), name
    assert found.date == "2026-05-01"
    assert "NVIDIA A100-SXM4-80GB" in found.source


def test_noise_widens_the_range():
    quiet, noisy = (calibrate_own.fit(rows(TRUE, noise=noise)) for noise in (0.0, 0.1))
    assert quiet.log_sigma < 0.02 < noisy.log_sigma < 0.25


def test_the_readers_range_holds_four_in_five_of_the_rows(tmp_path):
    measured, file = rows(TRUE, noise=0.1), tmp_path / "mine.toml"
    found = calibrate_own.fit(measured)
    file.write_text(to_toml(found))
    sizes = [[int(size) for size in row.shape.split("x")] for row in measured if row.op == "matmul"]
    works = [ops.matmul(*shape) for shape in sizes]
    works += [
        Work(row.flops, row.bytes, row.dtype, "vector") for row in measured if row.op == "copy"
    ]
    expected = [
        float(calibrate.predict(roofline(work, A100), A100, constants=file).expected)
        for work in works
    ]
    away = np.abs(
        np.log([time / row.seconds_median for time, row in zip(expected, measured, strict=True)])
    )
    assert np.mean(away <= found.log_sigma) == pytest.approx(0.8, abs=1 / len(measured))


def test_own_constants_are_used(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(to_toml(calibrate_own.fit(rows(TRUE))))
    step = roofline(ops.matmul(8192, 8192, 8192), A100)
    mine, published = calibrate.predict(step, A100, constants=file), calibrate.predict(step, A100)
    assert mine.expected > 1.1 * published.expected
    assert mine.source.startswith("own measurements")


def test_what_rows_leave_open_stays_as_published():
    few = [row for row in rows(TRUE) if row.shape in ("8192x8192x8192", str(2**30))]
    found = calibrate_own.fit(few).constants["bf16"].isolated()
    assert found.compute == pytest.approx(TRUE.compute, rel=0.03)
    assert found.overhead == pytest.approx(CONSTANTS.overhead, rel=0.2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda all_: [row for row in all_ if row.op == "copy"], "no matmul"),
        (lambda all_: [row for row in all_ if row.op == "matmul"], "no copy or triad"),
        (lambda all_: [], "one device"),
        (lambda all_: [*all_, msgspec.structs.replace(all_[0], device="other")], "one device"),
        (lambda all_: [msgspec.structs.replace(row, device="other") for row in all_], "--chip"),
        (lambda all_: [msgspec.structs.replace(row, data="zeros") for row in all_], "random"),
        (
            lambda all_: [msgspec.structs.replace(row, dtype="fp8") for row in all_],
            "no matmul in a format",
        ),
        (lambda all_: [msgspec.structs.replace(all_[0], shape="8192"), *all_[1:]], "BxDxF"),
    ],
)
def test_rows_that_do_not_do_are_refused(change, said):
    with pytest.raises(CourseError, match=said):
        calibrate_own.fit(change(rows(TRUE)))


def test_an_answer_names_its_row_or_that_there_is_none():
    token = llm.decode("llama-3-8b", A100, 1, 1024)
    assert "decode, other laboratory, a100-sxm-80" in calibrate.predict(token, A100).evidence
    square = ops.matmul(8192, 8192, 8192)
    found = {
        key: calibrate.predict(roofline(square, chip(key)), key).evidence
        for key in ("h100-sxm", "l40s", "mi300x", "tpu-v5e")
    }
    assert "products, test half, h100-sxm" in found["h100-sxm"]
    assert "products, other chips" in found["l40s"]
    assert "products, Google, other chips" in found["tpu-v5e"]
    assert found["mi300x"] == "products: no measurement tests this range"
    large = calibrate.collective("all-reduce", 1e9, "h200-sxm", 8).evidence
    assert "collectives, other laboratory, h200-sxm" in large


def test_a_kernel_that_quantizes_is_an_engines_and_the_range_allows_for_it():
    layer = roofline(ops.matmul(256, 8192, 8192, x="fp8", w="fp8", out="bf16"), chip("h100-sxm"))
    alone = calibrate.predict(layer, "h100-sxm")
    apart = calibrate.predict(layer, "h100-sxm", engine="tensorrt-llm")
    assert alone.expected + 8e-6 < apart.expected < alone.high
    wide = roofline(ops.matmul(256, 8192, 8192), chip("h100-sxm"))
    of_wide = [calibrate.predict(wide, "h100-sxm", engine=e) for e in ("typical", "tensorrt-llm")]
    assert of_wide[0].expected == of_wide[1].expected


def test_no_page_takes_a_result_by_its_words():
    root = Path(__file__).parents[3]
    pages = [*root.glob("chapters/**/*.qmd"), *root.glob("labs/*/*.ipynb")]
    assert not [page for page in pages if re.search(r"\.what\b", page.read_text(encoding="utf-8"))]


def test_without_its_writer_constants_are_refused_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    with pytest.raises(CourseError, match="pip install tomli-w"):
        to_toml(calibrate_own.fit(rows(TRUE)))
