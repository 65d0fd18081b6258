"""Rows that readers give: what is kept passes, and each planted fault is named with a remedy."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from course_lib import chip
from course_lib.bench import results
from course_lib.bench.rows import Manifest, Row
from course_tools.measured import FOLDER, lab
from course_tools.measured import given as files
from course_tools.measured.contributed import review
from tests.course_press.conftest import course
from tests.each import each

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


SIDE = 8192
FLOPS = 2.0 * SIDE**3


def row(seconds=FLOPS / 5e14, **more):
    """A product on an H100 at half its peak."""
    given = {
        "device": H100,
        "kind": "cuda",
        "op": "matmul",
        "dtype": "bf16",
        "shape": f"{SIDE}x{SIDE}x{SIDE}",
        "timing": "cold",
        "data": "random",
        "status": "ok",
        "flops": FLOPS,
        "seconds_median": seconds,
        "achieved_tflops": FLOPS / seconds / 1e12,
        "repeats": 100,
        "date": DAY.format(10),
    }
    return Row(**{**given, **more})


def given(folder, *rows, about=ABOUT):
    for one in rows:
        results.append(folder / "results.csv", one)
    results.write_manifest(folder / "manifest.json", about)
    return review(folder)


@each("folder", sorted(FOLDER.glob("lab-*/*")), ids=lambda f: f.parent.name)
def test_what_the_book_keeps_passes(folder):
    assert review(folder) == []


def test_rows_of_a_whole_run_pass(tmp_path):
    unmeasured = row(
        status="out-of-memory", seconds_median=None, achieved_tflops=None, shape="9x9x9"
    )
    assert given(tmp_path, row(), unmeasured) == []


TOOK = row().seconds_median
STREAM = {"op": "copy", "shape": "4096", "flops": None, "achieved_tflops": None}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"seconds": TOOK / 2.4}, "is 1.21 times as fast as the bf16 peak of"),
        ({"achieved_tflops": 600.0}, "has achieved_tflops 600, but from its other columns it is 5"),
        ({"device": "Tesla T4"}, "was measured on 'Tesla T4', the manifest is of"),
        ({"kind": "cpu"}, "is a CPU"),
        ({"dtype": "bf17"}, "has the format 'bf17', which is none"),
        ({"flops": 2 * FLOPS, "achieved_tflops": 1e3}, "has flops"),
        ({"intensity": 3.0, "bytes": FLOPS, "achieved_bw_gbps": 5e5}, "has intensity 3, but"),
        ({"peak_tflops": 2e3}, "has peak_tflops 2000, but"),
        ({"mfu": 0.9, "peak_tflops": 989.4}, "has mfu 0.9, but"),
        ({"seconds": 1e3 * TOOK}, "and the whole run 30 s"),
        ({"date": "2026-11-19T10:00:00+00:00"}, "outside the run of the manifest"),
        ({"date": "yesterday"}, "has the date 'yesterday'"),
        ({"seconds_min": 3.0}, "seconds_min 3 s, seconds_median 0.0"),
        ({"ci_low": 1e-4, "ci_high": 2e-4}, "which must not decrease"),
        ({"seconds_median": None, "achieved_tflops": None}, "status ok and no time above zero"),
        ({"status": "unsupported"}, "has status unsupported and a time"),
        ({**STREAM, "achieved_bw_gbps": 5000.0}, "times as fast as the bandwidth of"),
    ],
)
def test_a_row_that_cannot_be_is_named_with_what_to_do(tmp_path, fault, said):
    findings = given(tmp_path, row(**fault))
    (finding,) = [one for one in findings if said in one]
    assert ": " in finding.partition(said)[2] or finding.endswith("as it comes")
    assert "results.csv, line 2" in finding


@pytest.mark.parametrize("work", ["product", "stream"])
def test_what_no_chip_can_do_is_said_of_one_that_the_book_does_not_know(tmp_path, work):
    unknown = {"device": "NVIDIA H900"}
    about = msgspec.structs.replace(ABOUT, device="NVIDIA H900")
    fault = {"seconds": TOOK / 1e3} if work == "product" else {**STREAM, "achieved_bw_gbps": 1e5}
    (finding,) = given(tmp_path, row(**unknown, **fault), about=about)
    assert "times as fast as" in finding
    assert "any chip" in finding


def test_a_cpu_may_exceed_a_peak_of_its_nominal_clock_but_not_its_double(tmp_path):
    of = {"device": "a CPU", "kind": "cpu", "dtype": "fp32"}
    about = msgspec.structs.replace(ABOUT, device="a CPU")
    for share, refused in ((1.5, False), (2.3, True)):
        peak = row().achieved_tflops / share
        findings = given(tmp_path / str(share), row(**of, peak_tflops=peak), about=about)
        assert bool(findings) == refused


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
        ({"wall_seconds": 900.0}, "has wall_seconds 900.0, not what lies between"),
        (
            {"command": "course lab run 02 --device cuda"},
            "is of lab '00' and of 'course lab run 02",
        ),
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
    same, *findings = review(tmp_path / "two")
    assert "manifest.json is that of lab-02/amd-epyc-2-cores" in same
    assert len(findings) == len(results.read(tmp_path / "two" / "results.csv"))
    assert "is kept already in lab-02/amd-epyc-2-cores: send only what is new" in findings[0]


def test_the_command_says_what_is_missing_and_exits_with_1(tmp_path):
    done = course(tmp_path, "results", "check", ".")
    assert done.returncode == 1
    assert "results.csv has no rows: give the results/local" in done.stdout
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


# What is done to a file that a reader gives, by name: an edit of what it holds, what is said, and
# whether it is sealed again, as somebody would who knows how.
LIGHT = {"seconds_median": 1e-9, "achieved_tflops": FLOPS / 1e-9 / 1e12}
LATER = (datetime.now(UTC) + timedelta(days=9)).replace(microsecond=0)
TAMPERED = {
    "edited": (lambda g, r: g["manifest"].update(sku="another"), "was edited after", False),
    "a row taken out": (lambda g, r: g["rows"].pop(), "was edited after", False),
    "another seal": (lambda g, r: g.update(sha256="0" * 64), "was edited after", False),
    "no rows": (lambda g, r: g.update(rows=[]), "has no rows", True),
    "unknown schema": (lambda g, r: g.update(format=2), "cannot be read", True),
    "unknown field": (lambda g, r: g.update(rank=1), "cannot be read", True),
    "other columns": (lambda g, r: g.update(columns="a,b"), "its columns are not", True),
    "a column too few": (lambda g, r: g["rows"].append("a,b"), "is damaged", True),
    "NaN": (lambda g, r: r(seconds_median="nan"), "is damaged", True),
    "infinity": (lambda g, r: r(achieved_tflops="inf"), "is damaged", True),
    "negative": (lambda g, r: r(seconds_min="-1"), "is damaged", True),
    "an operator of none": (lambda g, r: r(op="magic"), "is damaged", True),
    "faster than any chip": (lambda g, r: r(**LIGHT), "times as fast as", True),
    "milliseconds": (lambda g, r: r(seconds_median=1e3 * TOOK), "the whole run 30 s", True),
    "GFLOP/s": (lambda g, r: r(achieved_tflops=5e5), "has achieved_tflops", True),
    "another chip": (lambda g, r: r(device="Tesla T4"), "the manifest is of", True),
    "another manifest": (lambda g, r: g["manifest"].update(device="Tesla T4"), "is of", True),
    "a shape of none": (lambda g, r: r(shape="8x8"), "shape must be BxDxF", True),
    "a row twice": (lambda g, r: g["rows"].append(g["rows"][0]), "measures what line 2 has", True),
    "still to come": (
        lambda g, r: g["manifest"].update(
            started=LATER.isoformat(), finished=(LATER + timedelta(seconds=30)).isoformat()
        ),
        "which is still to come",
        True,
    ),
    "another day": (lambda g, r: r(date="2025-01-01T00:00:00+00:00"), "outside the run", True),
    "no commit": (lambda g, r: g["manifest"].update(git_commit="main"), "is no commit", True),
    "predictions of none": (lambda g, r: g.update(predictions="f" * 64), "of no release", True),
    "predictions of later": (lambda g, r: g.update(predictions="c" * 64), "after the run", True),
}
FROZEN = {"b" * 64: "2026-11-01T00:00:00+00:00", "c" * 64: "2026-11-25T00:00:00+00:00"}


def tampered(file, edit, sealed):
    """Edit a given file, and seal it anew."""
    held = json.loads(file.read_text())

    def cell(**values):
        cells = dict(zip(held["columns"].split(","), held["rows"][0].split(","), strict=True))
        cells |= {name: str(value) for name, value in values.items()}
        held["rows"][0] = ",".join(cells.values())

    edit(held, cell)
    if sealed:
        known = set(files.GivenResults.__struct_fields__)
        if set(held) == known and held["format"] == 1:
            held = msgspec.to_builtins(msgspec.convert(held, files.GivenResults).sealed())
    file.write_text(json.dumps(held))


@pytest.fixture
def file(tmp_path):
    """A file that is right."""
    files.write(tmp_path / "given.json", [row()], ABOUT, "b" * 64)
    assert review(tmp_path / "given.json", frozen=FROZEN) == []
    return tmp_path / "given.json"


@pytest.mark.parametrize("kind", TAMPERED)
def test_a_file_that_was_tampered_with_is_refused_with_what_to_do(file, kind):
    edit, said, sealed = TAMPERED[kind]
    tampered(file, edit, sealed)
    findings = review(file, frozen=FROZEN)
    assert any(said in one for one in findings), findings
    assert len(TAMPERED) >= 20


def test_rows_under_the_manifest_of_others_are_said(tmp_path, file):
    shelf = tmp_path / "kept"
    (shelf / "lab-00").mkdir(parents=True)
    shutil.copy(file, shelf / "lab-00" / "theirs.json")
    files.write(file, [row(seconds=1.1 * TOOK)], ABOUT, "b" * 64)
    (finding,) = review(file, shelf, FROZEN)
    assert "manifest.json is that of lab-00/theirs.json" in finding
    assert review(shelf / "lab-00" / "theirs.json", shelf, FROZEN) == []


def test_a_file_given_is_read_beside_what_labs_wrote(tmp_path, file, monkeypatch):
    from course_tools.measured import published

    (tmp_path / "lab-00").mkdir()
    shutil.copy(file, tmp_path / "lab-00" / "theirs.json")
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    assert lab("00") == [row()]
