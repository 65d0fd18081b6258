"""Lab 02 as a reader runs it, with a small budget: rows, traces, report; a second run goes on where
the first stopped.
"""

import json
from pathlib import Path

import pytest

from course_lib.bench import results
from course_tools.campaigns.operators import plan
from course_tools.diagnosis import trace
from course_press.labs import run as labs
from tests.course_press.conftest import need

need("torch")
ROOT = Path(__file__).parents[3]


@pytest.mark.exhaustive
def test_lab_02_measures_this_machine_and_goes_on_where_it_stopped(tmp_path):
    book, source = tmp_path / "book", ROOT / "labs" / "02-fusion-and-profiling"
    (book / "labs" / source.name).mkdir(parents=True)
    for name in ("lab.ipynb", "slow_models.py", "cloud.yaml"):
        (book / "labs" / source.name / name).write_bytes((source / name).read_bytes())
    local = book / "labs" / source.name / "results" / "local"

    done = labs.run_lab(book, "02", device="cpu", budget=6)
    assert done.error is None
    rows = results.read(local / "results.csv")
    assert rows[0].op == "copy"  # how much else fits depends on what this computer is busy with
    assert len(rows) < len(plan("cpu"))
    manifest = json.loads((local / "manifest.json").read_text())
    assert (manifest["lab"], manifest["device"]) == ("02", rows[0].device)
    assert (local / "REPORT.md").read_text().startswith("# 02\n")
    for name in "ABCDE":
        first = trace.hot(trace.read(local / f"trace-{name}.json"))[0]
        assert first.seconds > 0
    (executed,) = local.glob("lab-cpu-*.ipynb")
    assert "skipped: this cell needs a GPU" in executed.read_text()

    assert labs.run_lab(book, "02", device="cpu", budget=4).error is None
    again = results.read(local / "results.csv")
    assert again[: len(rows)] == rows
    settled = [row.key for row in again if row.status != "over-budget"]
    assert len(set(settled)) == len(settled)
