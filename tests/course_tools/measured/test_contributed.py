"""Rows that readers give: what is kept passes, and each planted fault is named with a remedy."""

import shutil

import msgspec
import pytest

from course_lib import chip
from course_lib.bench import results
from course_lib.bench.rows import Manifest, Row
from course_tools.measured import FOLDER
from course_tools.measured.contributed import review
from tests.course_press.conftest import course

DAY = "2026-11-20T10:00:{:02}+00:00"
H100 = chip("h100-sxm").device_names[0]
ABOUT = Manifest(
    lab="00",
    command="course lab run 00",
    git_commit="a" * 40,
    seed=0,
    python="3.11.7",
    packages={"course-lib": "0.1.0"},
    device=H100,
    started=DAY.format(0),
    finished=DAY.format(30),
    wall_seconds=30.0,
    host={"system": "Linux"},
)


def row(flops=1e15, seconds=2.0, **more):
    """A product on an H100 at half its peak."""
    given = {
        "device": H100,
        "kind": "cuda",
        "op": "matmul",
        "dtype": "bf16",
        "shape": "8x8x8",
        "timing": "cold",
        "data": "random",
        "status": "ok",
        "flops": flops,
        "seconds_median": seconds,
        "achieved_tflops": flops / seconds / 1e12,
        "date": DAY.format(10),
    }
    return Row(**{**given, **more})


def given(folder, *rows, about=ABOUT):
    for one in rows:
        results.append(folder / "results.csv", one)
    results.write_manifest(folder / "manifest.json", about)
    return review(folder)


@pytest.mark.parametrize("folder", sorted(FOLDER.glob("lab-*/*")), ids=lambda f: f.parent.name)
def test_what_the_book_keeps_passes(folder):
    assert review(folder) == []


def test_rows_of_a_whole_run_pass(tmp_path):
    unmeasured = row(
        status="out-of-memory", seconds_median=None, achieved_tflops=None, shape="9x9x9"
    )
    assert given(tmp_path, row(), unmeasured) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            {"flops": 2.4e15},
            "line 2 (matmul bf16 8x8x8): is 1.21 times as fast as the bf16 peak of",
        ),
        ({"achieved_tflops": 600.0}, "has achieved_tflops 600, but its work over its time is 500"),
        ({"device": "Tesla T4"}, "was measured on 'Tesla T4', the manifest is of"),
        ({"date": "2026-11-19T10:00:00+00:00"}, "outside the run of the manifest"),
        ({"date": "yesterday"}, "has the date 'yesterday'"),
        ({"seconds_min": 3.0}, "seconds_min 3 s, seconds_median 2 s, which must not decrease"),
        ({"ci_low": 1.0, "ci_high": 1.5}, "which must not decrease"),
        ({"seconds_median": None, "achieved_tflops": None}, "status ok and no time above zero"),
        ({"status": "unsupported"}, "has status unsupported and a time"),
        (
            {"op": "copy", "flops": None, "achieved_tflops": None, "achieved_bw_gbps": 5000.0},
            "times as fast as the bandwidth of",
        ),
    ],
)
def test_a_row_that_cannot_be_is_named_with_what_to_do(tmp_path, fault, said):
    flops = fault.pop("flops", 1e15)
    made = (
        row(flops, **({"flops": None} if "op" in fault else {}), **fault) if flops else row(**fault)
    )
    (finding,) = given(tmp_path, made)
    assert said in finding
    assert ": " in finding.partition(said)[2]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"git_commit": "a" * 40 + "+"}, "files changed since"),
        ({"git_commit": "main"}, "'main', which is no commit"),
        ({"git_commit": ""}, "says nothing of git_commit"),
        ({"packages": {"numpy": "2"}}, "does not name the version of course-lib"),
        ({"finished": DAY.format(0), "started": DAY.format(30)}, "finished before it started"),
        ({"started": "today"}, "has started 'today', no date of ISO 8601"),
        ({"usd_per_hour": 2.0}, "usd_per_hour without price_source"),
    ],
)
def test_a_manifest_that_lacks_something_is_said(tmp_path, fault, said):
    (finding,) = given(tmp_path, row(), about=msgspec.structs.replace(ABOUT, **fault))
    assert said in finding


def test_a_manifest_that_names_a_machine_is_said(tmp_path):
    given(tmp_path, row())
    file = tmp_path / "manifest.json"
    file.write_text(file.read_text().replace('"system"', '"hostname"'))
    assert review(tmp_path) == [
        "manifest.json has host['hostname'], which names the machine or its user: delete that line"
    ]


def test_rows_that_stand_twice_or_are_kept_already_are_said(tmp_path):
    assert given(tmp_path / "one", row(), row(date=DAY.format(20))) == [
        "results.csv, line 3 measures what line 2 has: keep one run in a file"
    ]
    shutil.copytree(FOLDER / "lab-02" / "amd-epyc-2-cores", tmp_path / "two")
    findings = review(tmp_path / "two")
    assert len(findings) == len(results.read(tmp_path / "two" / "results.csv"))
    assert "is kept already in lab-02/amd-epyc-2-cores: send only what is new" in findings[0]


def test_the_command_says_what_is_missing_and_exits_with_1(tmp_path):
    done = course(tmp_path, "results", "check", ".")
    assert done.returncode == 1
    assert "results.csv is missing: give the folder results/local" in done.stdout
    results.append(tmp_path / "results.csv", row())
    assert "manifest.json is missing: let the lab run to its end" in review(tmp_path)[0]
    (tmp_path / "manifest.json").write_text("{}")
    assert "manifest.json cannot be read" in review(tmp_path)[0]
    assert given(tmp_path) == []
    done = course(tmp_path, "results", "check", ".")
    assert done.returncode == 0
    assert "1 row ready to send" in done.stdout
    (tmp_path / "results.csv").write_text("device,kind\n")
    assert "line 1 is not the header" in review(tmp_path)[0]
