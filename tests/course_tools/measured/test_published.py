import ast
import csv
import re
from pathlib import Path
from statistics import median

import pytest

import course_lib
from course_lib import CourseError, chip, llm
from course_lib.bench import results
from course_lib.specs import model
from course_tools.measured import FOLDER, best_published, lab, runs, table
from course_tools.measured.contributed import BOOST
from course_tools.measured.published import CHIPS, TABLES, UNSEEN
from tests.each import each


@pytest.mark.parametrize("name", TABLES + UNSEEN)
def test_no_published_run_is_faster_than_its_bound(name, record_property):
    found = runs(name)
    assert len(found) >= 4
    for run in found:
        assert run.measured > run.predicted > 0, run
    error = median(run.ratio for run in found) - 1
    record_property("median_error", error)
    assert 0 < error < 1.5


def test_what_is_left_out_is_what_cannot_be_compared():
    for name in TABLES:
        known = [
            row for row in table(name) if "llama" in row["model"].lower() and row["gpu"] != "AMD"
        ]
        assert len(known) - len(runs(name)) == (3 if name == "decode_lmdeploy_a100_static" else 0)
    left = {
        (run.batch, run.prompt + run.output)
        for run in runs("decode_lmdeploy_a100_static")
        if run.model == "llama-2-7b"
    }
    assert (64, 4096) not in left
    assert not llm.fits("llama-2-7b", "a100-sxm-80", 64, 4096, w="fp16").fits


def test_a_row_by_hand():
    run = next(
        run
        for run in runs("decode_lmdeploy_a100_static")
        if (run.batch, run.prompt, run.output) == (16, 128, 2048)
    )
    assert run.measured == pytest.approx(16 * 2048 / 1010.62)
    on, one = chip("a100-sxm-80"), model("llama-2-7b")
    weights, token = 2 * (one.parameters - 32000 * 4096), 32 * 2 * 4096 * 2
    must = 2047 * (weights + 16 * (128 + 1024) * token) / on.bandwidth
    assert must < run.predicted < 1.05 * must
    assert run.bound == "memory-bound"


def test_tensor_parallel_rows_count_all_chips():
    run = next(
        run for run in runs("decode_trtllm_v061_static") if run.tp == 4 and run.output == 2048
    )
    assert run.measured == pytest.approx(240 * 2048 / (4 * 525))


def test_an_unknown_table():
    with pytest.raises(CourseError, match="unknown table 'decode'"):
        runs("decode")


COLLECTED = ("matmul_engines", "collectives_nccl", "attention_engines", "mixtures_engines")
COLLECTED += ("messages_engines", "reduces_engines", "elementwise_mlx")


@each("file", sorted(FOLDER.glob("*.csv")), ids=lambda file: file.stem)
def test_every_published_row_names_its_source_and_its_file_its_licence(file):
    rows = table(file.stem)
    assert rows
    collected = file.stem in COLLECTED  # thousands of rows of one release, named once
    for row in rows:
        assert None not in row
        if collected:
            continue
        assert re.match(r"github:[\w.-]+/[\w.-]+@[0-9a-f]{7,40}:\S+|https://", row["source"]), row
    licences = (FOLDER / "README.md").read_text()
    assert not collected or re.search(
        rf"`{file.name}` \| (aiconfigurator 0.12|the same|mlx-benchmark)", licences
    )
    assert re.search(rf"`{file.name}` \|.*\| (CC|MIT|BSD|Apache|GPL|.*facts only)", licences)


def test_no_published_product_exceeds_its_chips_peak():
    for dtype in ("bf16", "fp8"):
        found = best_published(dtype)
        assert found
        for key, best in found.items():
            assert 0.3 < best.rate / chip(key).peak(dtype) < 1.0, key


def test_a_published_chip_is_the_one_whose_datasheet_peak_was_published_with_it():
    for row in table("matmul_mamf"):
        if row["accelerator"] in CHIPS and row["accelerator"].startswith("NVIDIA"):
            peak = chip(CHIPS[row["accelerator"]]).peak(row["dtype"])
            assert peak / 1e12 == pytest.approx(float(row["theory_tflops_as_published"]), rel=0.01)


def test_an_unknown_table_is_refused_with_the_nearest_name():
    with pytest.raises(CourseError, match="did you mean 'matmul_mamf'"):
        table("matmul_mam")


@each(
    "file",
    sorted(FOLDER.glob("lab-*/*/results.csv")),
    ids=lambda file: f"{file.parts[-3]}/{file.parts[-2]}",
)
def test_committed_results_are_those_of_the_run_that_the_manifest_tells_of(file):
    import msgspec

    rows = results.read(file)
    manifest = msgspec.json.decode(
        (file.parent / "manifest.json").read_bytes(), type=results.Manifest
    )
    assert {row.device for row in rows} == {manifest.device}
    assert all(manifest.started <= row.date <= manifest.finished for row in rows)
    assert re.fullmatch(r"[0-9a-f]{40}\+?", manifest.git_commit)
    assert manifest.lab == file.parts[-3].removeprefix("lab-")
    measured_rows = [row for row in rows if row.status == "ok"]
    assert measured_rows
    for row in measured_rows:
        assert row.data in ("random", "zeros")
        if row.counted:  # of bytes that are the same on every device, and no time at all
            assert row.bytes
            assert row.note
            assert row.seconds_median is None
            continue
        if row.op == "request":  # comes once: what it took has no spread
            assert row.seconds_median > 0
            continue
        assert row.seconds_min <= row.ci_low <= row.seconds_median <= row.ci_high
        # A CPU's peak at a nominal clock is no bound: its cores may run faster.
        assert row.mfu is None or row.mfu < (BOOST if "a nominal one" in row.note else 1)


def test_the_readers_own_rows_join_on_the_site_only(tmp_path, monkeypatch):
    own = results.Row(
        device="mine",
        kind="cpu",
        op="copy",
        dtype="fp32",
        shape="8",
        timing="cold",
        data="random",
        status="unsupported",
    )
    results.append(tmp_path / "labs" / "00-three" / "results" / "local" / "results.csv", own)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COURSE_RESULTS", raising=False)
    committed = lab("00")
    assert own not in committed  # wherever the process stands
    monkeypatch.setenv("COURSE_RESULTS", str(tmp_path / "labs"))
    monkeypatch.chdir("/")
    assert lab("00") == [*committed, own]
    assert own not in lab("01")


def test_the_library_reads_no_folder_of_the_process():
    found = [
        f"{file.name}:{call.lineno}: {ast.unparse(call)}"
        for file in Path(course_lib.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in ("Path", "Path.cwd", "os.getcwd", "open")
        and all(isinstance(one, ast.Constant) and one.value[:1] != "/" for one in call.args)
    ]
    assert not found


def test_rows_have_the_columns_of_their_header():
    for file in FOLDER.glob("*.csv"):
        with file.open(newline="") as lines:
            widths = {len(row) for row in csv.reader(lines)}
        assert len(widths) == 1, file
