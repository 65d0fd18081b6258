import json
import os
import re
import shlex
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from typer.testing import CliRunner

from course_lib import CourseError, chip, results, tables
from course_press import labs
from course_press.cli import app
from course_press.quarto import MissingError
from tests.course_press.conftest import course

ROOT = Path(__file__).parents[2]
TASK = """
name: a-lab
resources:
  accelerators: "{gpu}:1"
  infra: "{cloud}"
workdir: .
run: |
  python3 -m course_press lab run 07 --device cuda --budget {budget}
"""


@pytest.fixture
def shelf(tmp_path):
    """A book with one small lab whose notebook the test writes."""

    def put(*cells):
        folder = tmp_path / "labs" / "07-small"
        folder.mkdir(parents=True)
        (folder / "cloud.yaml").write_text(TASK)
        first = nbformat.v4.new_code_cell('device = "cpu"\nbudget = 1.0\nout = "."', metadata={"tags": ["parameters"]})
        notebook = nbformat.v4.new_notebook(cells=[first, *map(nbformat.v4.new_code_cell, cells)])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, folder / "lab.ipynb")
        return tmp_path

    return put


def test_a_lab_is_run_in_its_folder_with_what_was_asked_for(shelf):
    root = shelf("from pathlib import Path\nPath(out, 'seen.txt').write_text(f'{device} {budget}')")
    done = course(root, "lab", "run", "7", "--budget", "5")
    assert done.returncode == 0, done.stderr
    local = root / "labs" / "07-small" / "results" / "local"
    assert (local / "seen.txt").read_text() == "cpu 5.0"
    (executed,) = local.glob("lab-cpu-*.ipynb")
    assert "injected-parameters" in executed.read_text()


def test_a_failing_cell_leaves_the_executed_notebook_and_exit_1(shelf):
    root = shelf("print('before')", "raise OSError('the disk went away')", "print('after')")
    done = course(root, "lab", "run", "07")
    assert done.returncode == 1
    assert "a cell failed with OSError: the disk went away" in done.stderr
    assert "Traceback" not in done.stderr
    (executed,) = (root / "labs" / "07-small" / "results" / "local").glob("*.ipynb")
    cells = json.loads(executed.read_text())["cells"]
    assert any("before" in json.dumps(cell.get("outputs", "")) for cell in cells)
    assert not any("after\\n" in json.dumps(cell.get("outputs", "")) for cell in cells)


def test_a_lab_that_is_not_there_is_named_with_those_that_are(shelf):
    root = shelf()
    done = course(root, "lab", "run", "08")
    assert done.returncode == 2
    assert "lab '08' does not exist: choose from 07-small" in done.stderr


def test_without_papermill_the_message_says_how_to_get_it(shelf, monkeypatch):
    monkeypatch.setitem(sys.modules, "papermill", None)
    with pytest.raises(MissingError, match="make labs"):
        labs.run(shelf(), "07", device="cpu", budget=1)


def test_lab_00_measures_this_machine_and_goes_on_where_it_stopped(tmp_path):
    """The real lab with a small budget; a second run measures only what the first did not."""
    book = tmp_path / "book"
    source = ROOT / "labs" / "00-three-accelerators"
    (book / "labs" / source.name).mkdir(parents=True)
    for name in ("lab.ipynb", "cloud.yaml"):
        (book / "labs" / source.name / name).write_bytes((source / name).read_bytes())
    local = book / "labs" / source.name / "results" / "local"

    done = labs.run(book, "00", device="cpu", budget=4)
    assert done.error is None
    rows = results.read(local / "results.csv")
    assert rows[0].op == "copy"
    assert all(row.seconds_median for row in rows if row.status == "ok")
    manifest = json.loads((local / "manifest.json").read_text())
    assert manifest["lab"] == "00"
    assert manifest["device"] == rows[0].device
    assert manifest["host"]["fp32_best_sample_tflops"] > 0
    assert "numpy" in manifest["packages"]
    assert (local / "REPORT.md").read_text().startswith("# 00\n")

    assert labs.run(book, "00", device="cpu", budget=8).error is None
    again = results.read(local / "results.csv")
    assert len(again) > len(rows)
    if any(row.op == "matmul" and row.status == "ok" for row in again):
        assert (local / "roofline.png").read_bytes().startswith(b"\x89PNG")
        assert (local / "roofline.svg").read_text().startswith("<svg")
    assert again[: len(rows)] == rows
    settled = [row.key for row in again if row.status != "over-budget"]
    assert len(set(settled)) == len(settled)


@pytest.mark.parametrize(("gpu", "cloud"), [(gpu, cloud) for gpu, (_, names) in labs.GPUS.items() for cloud in names])
def test_every_gpu_that_may_be_rented_has_a_task_and_a_dated_price(gpu, cloud):
    made = labs.plan(ROOT, "00", gpu=gpu, cloud=cloud, budget=600, max_cost=100)
    assert chip(made.chip).device_names
    assert re.fullmatch(r"20\d\d(-\d\d-\d\d)?", made.price.date)
    assert made.usd == pytest.approx(made.price.usd_per_hour * made.minutes / 60)
    # What SkyPilot's schema knows of a task, as far as ours uses it.
    task = yaml.safe_load(labs.shown(made))
    assert set(task) == {"name", "resources", "workdir", "setup", "run"}
    assert set(task["resources"]) == {"accelerators", "infra", "disk_size"}
    assert re.fullmatch(r"[A-Z0-9]+(-[A-Z0-9]+)*:1", task["resources"]["accelerators"])
    assert task["resources"]["infra"] in ("runpod", "lambda", "vast")
    assert "{" not in labs.shown(made)


def test_the_commands_of_the_task_exist():
    made = labs.plan(ROOT, "00", gpu="H100", cloud="runpod", budget=90, max_cost=100)
    words = shlex.split(made.task["run"])
    assert words[:3] == ["python3", "-m", "course_press"]
    assert words[-1] == "90"
    assert CliRunner().invoke(app, [*words[3:6], "--help"]).exit_code == 0
    extras = re.search(r"\[(.*)\]", made.task["setup"])[1].split(",")
    assert set(extras) <= set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))


def test_the_page_for_instructors_counts_the_minutes_that_the_command_plans():
    cell = (ROOT / "chapters/cells/instructors/setup.qmd").read_text(encoding="utf-8")
    made = labs.plan(ROOT, "00", gpu="A100-80GB", cloud="runpod", budget=600, max_cost=100)
    assert int(re.search(r"^minutes = (\d+)", cell, re.MULTILINE)[1]) == made.minutes
    assert f'provider == "{made.price.provider}"' in (ROOT / "chapters/cells/instructors/costs.qmd").read_text(encoding="utf-8")


def test_a_dry_run_prints_task_and_cost_and_rents_nothing(tmp_path):
    spy = tmp_path / "sky"
    spy.write_text("#!/bin/sh\ntouch rented\n")
    spy.chmod(0o755)
    done = course(ROOT, "lab", "cloud", "00", "--gpu", "A100-80GB", "--dry-run", path=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert "accelerators: A100-80GB-SXM:1" in done.stdout
    newest = [price for price in tables.prices() if (price.chip, price.provider) == ("a100-sxm-80", "RunPod")][-1]
    assert f"RunPod, {newest.date}" in done.stdout
    assert not (ROOT / "rented").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpu", "H900"], "--gpu 'H900' is not one that the lab rents: choose from A100-80GB"),
        (["--gpu", "A100-80GB", "--cloud", "azure"], "--cloud 'azure' does not rent out one A100-80GB: choose from runpod"),
        (["--gpu", "B200", "--max-cost", "1"], "--max-cost 1 is below the"),
    ],
)
def test_nothing_else_is_rented(arguments, message):
    done = course(ROOT, "lab", "cloud", "00", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_without_skypilot_the_message_says_what_to_do(shelf, monkeypatch):
    monkeypatch.setenv("PATH", "")
    root = shelf()
    made = labs.plan(root, "07", gpu="L4", cloud="runpod", budget=60, max_cost=5)
    with pytest.raises(MissingError, match=re.escape("pip install 'course-lib[cloud]'")):
        labs.launch(root, "07", made)


SKY = """#!{python}
import pathlib, sys
with open({log!r}, "a") as log:
    print(pathlib.Path(sys.argv[0]).name, *sys.argv[1:], file=log)
sys.exit({fails})
"""


@pytest.mark.parametrize("fails", ["", "pathlib.Path(sys.argv[0]).name + sys.argv[1] == 'skylaunch'"])
def test_what_was_rented_is_given_back_whatever_happens(shelf, tmp_path, monkeypatch, fails):
    root, log = shelf(), tmp_path / "log.txt"
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sky", "rsync"):
        (tools / name).write_text(SKY.format(python=sys.executable, log=str(log), fails=fails))
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    made = labs.plan(root, "07", gpu="L4", cloud="runpod", budget=60, max_cost=5)
    if fails:
        with pytest.raises(CourseError, match="renting or running failed"):
            labs.launch(root, "07", made)
    else:
        labs.launch(root, "07", made)
    said = log.read_text().splitlines()
    assert said[0].startswith("sky launch --yes --cluster rooflines-lab-07 --idle-minutes-to-autostop 5 --down")
    assert said[-1] == "sky down --yes rooflines-lab-07"
    assert any(line.startswith("rsync -a rooflines-lab-07:") for line in said) == (not fails)


def test_compare_says_what_is_more_than_noise(tmp_path):
    about = {"device": "cpu", "kind": "cpu", "op": "matmul", "dtype": "fp32", "timing": "cold", "data": "random", "status": "ok"}
    times = {"64x64x64": (1.0, 0.5), "128x128x128": (2.0, 2.05)}
    for i, name in enumerate(("before.csv", "after.csv")):
        for shape, seconds in times.items():
            low, high = 0.95 * seconds[i], 1.05 * seconds[i]
            row = results.Row(**about, shape=shape, seconds_median=seconds[i], ci_low=low, ci_high=high)
            results.append(tmp_path / name, row)
    done = course(tmp_path, "lab", "compare", "before.csv", "after.csv")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert next(line for line in lines if "64x64x64" in line).split()[-2:] == ["0.500", "yes"]
    assert next(line for line in lines if "128x128x128" in line).split()[-2:] == ["1.025", "no"]
    missing = course(tmp_path, "lab", "compare", "before.csv", "nowhere.csv")
    assert missing.returncode == 2
    assert "'nowhere.csv' does not exist" in missing.stderr


def test_grade_prints_every_criterion_and_exits_1_for_the_stub():
    done = course(ROOT, "grade", "00", "labs/00-three-accelerators/matmul_bench.py")
    assert done.returncode == 1
    assert "FAILED  runs: measure is not implemented yet" in done.stdout


def test_a_lab_without_a_task_or_a_grader_says_so(tmp_path):
    done = course(ROOT, "lab", "cloud", "01", "--gpu", "H100", "--dry-run")
    assert done.returncode == 2
    assert "lab '01' has no task for a rented GPU: its page shows how to rent by hand" in done.stderr
    (tmp_path / "labs" / "07-small").mkdir(parents=True)
    (tmp_path / "labs" / "07-small" / "lab.ipynb").write_text("{}")
    done = course(tmp_path, "grade", "07", "mine.py")
    assert done.returncode == 2
    assert "lab '07' has nothing to grade: choose from 00, 01" in done.stderr


def test_lab_01_is_graded_by_its_own_grader():
    pytest.importorskip("torch")
    done = course(ROOT, "grade", "01", "labs/01-collectives/ring_all_reduce.py")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
