import csv
import re

import pytest

from course_lib import CourseError, chip, results
from course_lib.measured import CHIPS, FOLDER, best_published, lab, table


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.csv")), ids=lambda file: file.stem)
def test_every_published_row_names_its_source_and_its_file_its_licence(file):
    rows = table(file.stem)
    assert rows
    for row in rows:
        assert None not in row
        assert re.match(r"github:[\w.-]+/[\w.-]+@[0-9a-f]{7,40}:\S+|https://", row["source"]), row
    licences = (FOLDER / "README.md").read_text()
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


@pytest.mark.parametrize(
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
        assert row.seconds_min <= row.ci_low <= row.seconds_median <= row.ci_high
        assert row.mfu is None or row.mfu < 1


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
    monkeypatch.setenv("COURSE_PRINT", "notebook")
    committed = lab("00")
    assert own not in committed
    monkeypatch.setenv("COURSE_PRINT", "site")
    assert lab("00") == [*committed, own]


def test_rows_have_the_columns_of_their_header():
    for file in FOLDER.glob("*.csv"):
        with file.open(newline="") as lines:
            widths = {len(row) for row in csv.reader(lines)}
        assert len(widths) == 1, file
