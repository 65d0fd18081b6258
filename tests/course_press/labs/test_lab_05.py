"""Lab 05 as a reader runs it: texts, manifest and report; and with a file in which two tasks are
done.
"""

import json
import re
from pathlib import Path

import pytest

from course_lib import network
from course_press.labs import run as labs
from tests.course_press.conftest import need

need("jax")
LAB = Path(__file__).parents[3] / "labs" / "05-sharding"
BODY = re.compile(r"(def (\w+)\(\):\n).*?(?=\n\n\n|\Z)", re.DOTALL)


@pytest.mark.exhaustive
@pytest.mark.parametrize("done", [tuple(network.SCHEMES), ("tensor", "fsdp")])
def test_lab_05_keeps_what_the_compiler_wrote(tmp_path, done):
    here = tmp_path / "book" / "labs" / LAB.name
    here.mkdir(parents=True)
    for name in ("lab.ipynb", "programs.py", "reference.py"):
        (here / name).write_bytes((LAB / name).read_bytes())
    kept = {"tensor_parallel", "fsdp"} if len(done) < 6 else {""}
    text = (LAB / "reference.py").read_text()
    if len(done) < 6:
        text = BODY.sub(
            lambda m: m[0] if m[2] in kept else f"{m[1]}    raise NotImplementedError", text
        )
    (here / "mine.py").write_text(text)

    ran = labs.run_lab(tmp_path / "book", "05", device="cpu", budget=10, file="mine.py")
    assert ran.error is None
    local = here / "results" / "local"
    assert {file.stem for file in local.glob("*.txt")} == set(done)
    manifest = json.loads((local / "manifest.json").read_text())
    assert (manifest["lab"], "jax" in manifest["packages"]) == ("05", True)
    report = (local / "REPORT.md").read_text()
    assert report.startswith("# 05\n")
    assert "No time was measured" in report
    assert "| FSDP | all-gather | 8 | 940 MB | 940 MB |" in report
    (executed,) = local.glob("lab-cpu-*.ipynb")
    assert "device 7 at {'data': 1, 'model': 3}: columns 96 to 127" in executed.read_text()
