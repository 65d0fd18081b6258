"""Lab 04 as a reader runs it, with a small budget: rows without times, report, figure."""

import json
from pathlib import Path

from course_lib.bench import results
from course_tools.measured.kernels import WAYS, counts
from course_press.labs import run as labs
from tests.course_press.conftest import need

need("torch", "triton")
ROOT = Path(__file__).parents[3]


def test_lab_04_counts_here_and_goes_on_where_it_stopped(tmp_path):
    book, source = tmp_path / "book", ROOT / "labs" / "04-kernels"
    (book / "labs" / source.name).mkdir(parents=True)
    for name in ("lab.ipynb", "reference.py", "cloud.yaml"):
        (book / "labs" / source.name / name).write_bytes((source / name).read_bytes())
    local = book / "labs" / source.name / "results" / "local"
    done = labs.run_lab(book, "04", device="cpu", budget=1)
    assert done.error is None
    rows = results.read(local / "results.csv")
    assert rows[0].op == "add"
    assert len(rows) % len(WAYS) == 0
    assert all(one.loaded == one.work.loaded for one in counts(rows))
    assert not any(row.seconds_median for row in rows)
    manifest = json.loads((local / "manifest.json").read_text())
    assert manifest["lab"] == "04"
    assert "triton" in manifest["packages"]
    assert "no time measures anything" in (local / "REPORT.md").read_text()
    assert (local / "roofline.svg").is_file()
    (executed,) = local.glob("lab-cpu-*.ipynb")
    assert "skipped: this cell needs a GPU" in executed.read_text()
