"""Predictions that were frozen: nothing changes them, and rows are held against those before them."""

from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from course_lib import CourseError, chip
from course_lib.bench.rows import Row
from course_tools import measured
from course_tools.calibrate import frozen
from course_tools.calibrate.errors import BEFORE, SINCE, known_errors
from course_press.cli.app import app

ROOT = Path(__file__).parents[3]
NEWEST = frozen.releases()[-1]


@pytest.mark.parametrize("release", frozen.releases(), ids=lambda one: one.version)
def test_what_was_frozen_is_whole_and_in_order(release):
    assert datetime.fromisoformat(release.frozen).tzinfo
    assert len({(one.chip, one.dtype, one.shape) for one in release.cases}) == len(release.cases)
    for one in release.cases:
        assert 0 < one.bound <= one.low <= one.expected <= one.high
        assert chip(one.chip).device_names
    assert release.errors


def test_a_frozen_file_is_written_once_and_a_change_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(frozen, "_cases", lambda: iter(NEWEST.cases[:2]))
    file = frozen.freeze("1.2.3", tmp_path)
    before = file.read_bytes()
    monkeypatch.setattr(frozen, "_cases", lambda: iter(NEWEST.cases[:3]))
    assert frozen.freeze("1.2.3", tmp_path).read_bytes() == before
    (release,) = frozen.releases(tmp_path)
    assert (release.cases, release.errors) == (NEWEST.cases[:2], known_errors())
    frozen.releases.cache_clear()
    file.write_bytes(before.replace(b'"bf16"', b'"fp16"', 1))
    with pytest.raises(CourseError, match=r"predictions of 1\.2\.3 were changed after"):
        frozen.releases(tmp_path)
    frozen.releases.cache_clear()


def row(case, *, days, factor=1.0, **more):
    """A product that took `factor` times the likely time, so many days after the freezing."""
    about = {"kind": "cuda", "op": "matmul", "timing": "cold", "data": "random", "status": "ok"}
    when = datetime.fromisoformat(NEWEST.frozen) + timedelta(days=days)
    return Row(
        device=chip(case.chip).device_names[0],
        dtype=case.dtype,
        shape=case.shape,
        seconds_median=factor * case.expected,
        date=when.isoformat(),
        **about | more,
    )


def test_rows_are_held_apart_by_what_was_frozen_before_them():
    case = NEWEST.cases[0]
    rows = [row(case, days=-1, factor=2.0), row(case, days=1)]
    found = {one.held: one for one in frozen.scored(rows, NEWEST)}
    assert set(found) == {BEFORE, SINCE}
    assert found[SINCE].median == 0
    assert found[SINCE].inside == 1
    assert found[BEFORE].median == pytest.approx(0.5)
    others = [
        row(case, days=1, timing="warm"),
        row(case, days=1, data="zeros"),
        row(case, days=1, op="outer"),
        msgspec.structs.replace(row(case, days=1), device="a chip of none"),
    ]
    assert frozen.scored(others, NEWEST) == []


def test_no_product_of_ours_breaks_the_bound_that_was_frozen():
    pairs = frozen.matched(measured.lab("00", own=False), NEWEST)
    assert pairs
    assert all(row.seconds_median > case.bound for row, case in pairs)


def test_rows_are_given_as_one_file_that_passes_the_check(tmp_path, monkeypatch):
    from course_tools.measured import contributed

    folder = ROOT / "course_tools/data/measured/lab-04/intel-xeon-2-cores"
    monkeypatch.setattr(contributed, "FOLDER", tmp_path)
    monkeypatch.setattr(contributed.review, "__defaults__", (tmp_path, None))
    done = CliRunner().invoke(app, ["results", "give", str(folder), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    (file,) = tmp_path.glob("lab-04-intel-r-xeon-r-processor-*.json")
    done = CliRunner().invoke(app, ["results", "check", str(file)])
    assert done.exit_code == 0, done.output
    assert "48 rows ready to send" in done.output
    text = file.read_text()
    file.write_text(text.replace('"seed": 0', '"seed": 1', 1))
    done = CliRunner().invoke(app, ["results", "check", str(file)])
    assert done.exit_code == 1
    assert "was edited after it was written" in done.output


def test_the_workflow_checks_what_contributors_are_told_to_add():
    flow = yaml.safe_load((ROOT / ".github/workflows/rows.yml").read_text())
    (pattern,) = flow[True]["pull_request"]["paths"]  # YAML takes the key on for a truth
    assert pattern == "course_tools/data/measured/lab-*/*.json"
    assert flow["permissions"] == {"contents": "read"}
    steps = [one.get("run", "") for one in flow["jobs"]["check"]["steps"]]
    assert "xargs -0 -r -n 1 .venv/bin/course results check" in steps[-1]
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/rows.yml").read_text())
    needed = [one for one in form["body"] if one["type"] in ("textarea", "checkboxes")]
    assert all(
        one.get("validations", {}).get("required") or one["attributes"]["options"][0]["required"]
        for one in needed
    )
