"""Lab 03 as a reader runs it, with a small budget: rows, manifest, report; a second run goes on
where the first stopped.
"""

import json
from pathlib import Path

import pytest

from course_lib.bench import results
from course_tools import measured
from course_press.labs import run as labs
from tests.course_press.conftest import need

need("torch", "transformers")
LAB = Path(__file__).parents[3] / "labs" / "03-serving"


@pytest.fixture
def book(tmp_path):
    here = tmp_path / "book" / "labs" / LAB.name
    here.mkdir(parents=True)
    for name in ("lab.ipynb", "prediction.py", "reference.py"):
        (here / name).write_bytes((LAB / name).read_bytes())
    return tmp_path / "book"


def ran(book, budget):
    small = {"many": 6, "prompt": 20, "output": 4}
    assert labs.run_lab(book, "03", device="cpu", budget=budget, **small).error is None
    return results.read(book / "labs" / LAB.name / "results" / "local" / "results.csv")


def test_lab_03_predicts_what_it_then_measures(book):
    rows = ran(book, 4)
    assert len(measured.serving.steps(rows)) >= 4
    (run,) = measured.serving.replays(rows)
    assert len(run.rows) == 6
    assert all(
        a <= s < f <= z
        for a, s, f, z in zip(run.arrived, run.scheduled, run.first, run.last, strict=True)
    )
    local = book / "labs" / LAB.name / "results" / "local"
    manifest = json.loads((local / "manifest.json").read_text())
    assert (manifest["lab"], manifest["device"]) == ("03", rows[0].device)
    report = (local / "REPORT.md").read_text()
    assert report.startswith("# 03\n")
    assert "your prediction" in report


@pytest.mark.exhaustive
def test_lab_03_goes_on_where_it_stopped(book):
    rows, again = ran(book, 10), ran(book, 2)
    assert again[: len(rows)] == rows
    settled = [row.key for row in again if row.status != "over-budget"]
    assert len(set(settled)) == len(settled)
