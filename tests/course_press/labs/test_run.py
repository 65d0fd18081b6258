import errno
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import nbformat
import pytest
import yaml
from typer.testing import CliRunner

from course_lib import CourseError, chip, results, tables
from course_lib.measured.rows import HEADER, encoded
from course_press.cli import labs as cli_labs
from course_press.cli.app import app
from course_press.labs import run as labs
from course_press.source.errors import MissingError
from tests.course_press.conftest import SHEBANG, course

ROOT = Path(__file__).parents[3]
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
        first = nbformat.v4.new_code_cell(
            'device = "cpu"\nbudget = 1.0\nout = "."', metadata={"tags": ["parameters"]}
        )
        notebook = nbformat.v4.new_notebook(cells=[first, *map(nbformat.v4.new_code_cell, cells)])
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
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


@pytest.mark.parametrize(
    ("gpu", "cloud"), [(gpu, cloud) for gpu, (_, names) in labs.GPUS.items() for cloud in names]
)
def test_every_gpu_that_may_be_rented_has_a_task_and_a_dated_price(gpu, cloud):
    about = {"gpu": gpu, "cloud": cloud, "budget": 600, "max_cost": 100}
    if any(
        (price.chip, price.provider) == (labs.GPUS[gpu][0], labs.CLOUDS[cloud])
        for price in tables.prices()
    ):
        made = labs.plan(ROOT, "00", **about)
    else:
        with pytest.raises(
            CourseError, match=f"no dated price at {labs.CLOUDS[cloud]}.*--usd-per-hour"
        ):
            labs.plan(ROOT, "00", **about)
        made = labs.plan(ROOT, "00", **about, usd_per_hour=0.5)
    assert made.price.provider == labs.CLOUDS[cloud]
    assert chip(made.chip).device_names
    assert re.fullmatch(r"20\d\d(-\d\d-\d\d)?", made.price.date)
    assert made.usd == pytest.approx(made.price.usd_per_hour * made.minutes / 60)
    # What SkyPilot's schema knows of a task, as far as ours uses it.
    task = yaml.safe_load(labs.shown(made))
    assert set(task) == {"name", "resources", "workdir", "setup", "run"}
    assert set(task["resources"]) == {
        "accelerators",
        "infra",
        "disk_size",
        "max_hourly_cost",
        "autostop",
    }
    assert task["resources"]["autostop"] == {"idle_minutes": 5, "down": True, "wait_for": "jobs"}
    # Whatever SkyPilot finds, what is paid for at most stays below what was allowed: its price, and
    # the limits of both steps.
    limits = [
        re.search(r"timeout --kill-after=30s (\d+)([ms]) ", task[step]).groups()
        for step in ("setup", "run")
    ]
    seconds = sum(int(count) * {"m": 60, "s": 1}[unit] for count, unit in limits)
    assert seconds == made.minutes * 60
    assert 99 < task["resources"]["max_hourly_cost"] * seconds / 3600 <= 100
    assert re.fullmatch(r"[A-Z0-9]+(-[A-Z0-9]+)*:1", task["resources"]["accelerators"])
    assert task["resources"]["infra"] in ("runpod", "lambda", "vast")
    assert "{" not in labs.shown(made)


def test_the_commands_of_the_task_exist():
    made = labs.plan(ROOT, "00", gpu="H100", cloud="runpod", budget=90, max_cost=100)
    words = shlex.split(made.task["run"])
    assert words[:2] == ["timeout", "--kill-after=30s"]
    assert words[3:6] == ["python3", "-m", "course_press"]
    assert words[-1] == "90"
    assert CliRunner().invoke(app, [*words[6:9], "--help"]).exit_code == 0
    extras = re.search(r"\[(.*)\]", made.task["setup"])[1].split(",")
    assert set(extras) <= set(
        re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    )


def test_the_page_for_instructors_counts_the_minutes_that_the_command_plans():
    cell = (ROOT / "chapters/cells/instructors/setup.qmd").read_text(encoding="utf-8")
    made = labs.plan(ROOT, "00", gpu="A100-80GB", cloud="runpod", budget=600, max_cost=100)
    assert int(re.search(r"^minutes = (\d+)", cell, re.MULTILINE)[1]) == made.minutes
    assert f'rent.quotes(provider="{made.price.provider}")' in (
        ROOT / "chapters/cells/instructors/costs.qmd"
    ).read_text(encoding="utf-8")


def test_the_first_labs_page_sums_up_two_gpus_under_the_commands_own_ceiling():
    said = re.search(
        r"^ceiling = (\d+)",
        (ROOT / "chapters/cells/lab-00/budget.qmd").read_text(encoding="utf-8"),
        re.MULTILINE,
    )[1]
    ceiling = inspect.signature(cli_labs.lab_cloud).parameters["max_cost"].default
    assert float(said) == ceiling
    assert (
        sum(
            labs.plan(ROOT, "00", gpu=gpu, cloud="runpod", budget=600, max_cost=ceiling).usd
            for gpu in ("A100-80GB", "H100")
        )
        <= ceiling
    )


def test_the_first_labs_page_says_which_measurement_is_not_where_it_was_expected():
    here = {}
    for name in ("setup", "predict", "sanity", "measured", "ours"):
        text = (ROOT / f"chapters/cells/lab-00/{name}.qmd").read_text(encoding="utf-8")
        exec(re.search(r"```\{python\}\n(.*)```", text, re.DOTALL)[1], here)
    for key, dtype in here["asked"]:
        low, high = here["band"](*[here["N"]] * 3, key, dtype)
        assert 0.3 < low < high < 1
        if best := here["published"][dtype].get(key):
            assert low < best.rate / chip(key).peak(dtype)
    ours = here["ours"]
    assert not here["cpu_band"][0] <= ours.mfu <= here["cpu_band"][1]
    assert here["verdict"](ours).endswith(": outside")
    inside = msgspec.structs.replace(ours, mfu=sum(here["cpu_band"]) / 2)
    assert here["verdict"](inside).endswith(": inside")


def test_a_dry_run_prints_task_and_cost_and_rents_nothing(tmp_path):
    spy = tmp_path / "sky"
    spy.write_text("#!/bin/sh\ntouch rented\n")
    spy.chmod(0o755)
    done = course(
        ROOT,
        "lab",
        "cloud",
        "00",
        "--gpu",
        "A100-80GB",
        "--dry-run",
        path=f"{tmp_path}:{os.environ['PATH']}",
    )
    assert done.returncode == 0, done.stderr
    assert "accelerators: A100-80GB-SXM:1" in done.stdout
    newest = [
        price
        for price in tables.prices()
        if (price.chip, price.provider) == ("a100-sxm-80", "RunPod")
    ][-1]
    assert f"RunPod, {newest.date}" in done.stdout
    assert "no machine above 10 USD an hour; what runs on it is ended after 30 min" in done.stdout
    assert "copies your key to the rented machine (~/.runpod/config.toml)" in done.stdout
    assert not (ROOT / "rented").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpu", "H900"], "--gpu 'H900' is not one that the lab rents: choose from A100-80GB"),
        (
            ["--gpu", "A100-80GB", "--cloud", "azure"],
            "--cloud 'azure' does not rent out one A100-80GB: choose from runpod",
        ),
        (["--gpu", "B200", "--max-cost", "1"], "--max-cost 1 is below the"),
        (
            ["--gpu", "B200", "--usd-per-hour", "-1"],
            "--usd-per-hour must be a finite number of at least 0 (got -1)",
        ),
        (
            ["--gpu", "L4", "--cloud", "vast"],
            "no dated price at vast.ai in data/prices.csv: look at what vast.ai asks",
        ),
    ],
)
def test_nothing_else_is_rented(arguments, message):
    done = course(ROOT, "lab", "cloud", "00", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("max_cost", float("nan")), ("budget", float("inf")), ("budget", 0.5)]
)
def test_a_number_that_is_none_plans_nothing(name, value):
    about = {"gpu": "H100", "cloud": "runpod", "budget": 60, "max_cost": 5, name: value}
    with pytest.raises(
        CourseError, match=f"--{name.replace('_', '-')} must be a finite number of at least"
    ):
        labs.plan(ROOT, "00", **about)


def test_without_skypilot_the_message_says_what_to_do(shelf, monkeypatch):
    monkeypatch.setenv("PATH", "")
    root = shelf()
    made = labs.plan(root, "07", gpu="H100", cloud="runpod", budget=60, max_cost=5)
    with pytest.raises(MissingError, match=re.escape("pip install -e '.[cloud]'")):
        labs.launch(root, "07", made)


SKY = """{shebang}
import pathlib, shutil, sys
name, arguments = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
with open({log!r}, "a") as log:
    print(name, *arguments, file=log)
remote = pathlib.Path({remote!r})
if name == "sky" and arguments[0] == "launch":
    shutil.copytree(".", remote, dirs_exist_ok=True)
    local = remote / "labs/07-small/results/local"
    local.mkdir(parents=True, exist_ok=True)
    file = local / "results.csv"
    file.write_text((file.read_text() if file.is_file() else {header!r}) + {row!r})
    (local / "manifest.json").write_text('{{"lab": "07", "command": "there"}}')
    sys.exit({code})
if name == "rsync":
    shutil.copytree(remote / arguments[1].partition("sky_workdir/")[2], arguments[2], dirs_exist_ok=True)
"""


@pytest.fixture
def rented(shelf, tmp_path, monkeypatch):
    """Rents with a `sky` that runs the lab in another folder, and an `rsync` that replaces a file
    of the same name.
    """
    root, remote, tools = shelf(), tmp_path / "remote", tmp_path / "tools"
    tools.mkdir()

    def rent(row, code=0):
        for name in ("sky", "rsync"):
            told = {
                "shebang": SHEBANG,
                "log": str(tmp_path / "log.txt"),
                "remote": str(remote),
                "code": code,
            }
            (tools / name).write_text(SKY.format(**told, header=HEADER + "\n", row=encoded(row)))
            (tools / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
        made = labs.plan(root, "07", gpu="H100", cloud="runpod", budget=60, max_cost=5)
        return labs.launch(root, "07", made)

    return root, remote, rent, tmp_path / "log.txt"


def row(device, **more):
    about = {
        "kind": "cpu",
        "op": "copy",
        "dtype": "fp32",
        "shape": "4096",
        "timing": "cold",
        "data": "random",
        "status": "ok",
    }
    return results.Row(device=device, **about, **more)


def test_what_a_rented_machine_measured_joins_what_was_measured_here(rented):
    root, remote, rent, log = rented
    local = root / "labs" / "07-small" / "results" / "local"
    mine = [row("here", seconds_median=seconds) for seconds in (0.25, 0.125)]
    for one in mine:
        results.append(local / "results.csv", one)
    (local / "manifest.json").write_text("of the run here")
    theirs = row("there", seconds_median=0.0625)
    rent(theirs)
    assert results.read(local / "results.csv") == [*mine, theirs]
    assert (local / "manifest.json").read_text() == "of the run here"
    (manifest,) = local.glob("H100-*-manifest.json")
    assert json.loads(manifest.read_text())["command"] == "there"
    # The run there had what was measured before, so that it could go on.
    assert results.read(remote / "labs/07-small/results/local/results.csv") == [*mine, theirs]
    assert log.read_text().splitlines()[-1] == "sky down --yes rooflines-lab-07"


def test_rows_of_a_rented_machine_that_failed_are_kept_and_it_is_given_back(rented):
    root, _, rent, log = rented
    with pytest.raises(
        CourseError,
        match=r"renting or running failed \(sky launch exited with 3\); 1 new rows were copied "
        r"back",
    ):
        rent(row("there"), code=3)
    assert [
        one.device for one in results.read(root / "labs/07-small/results/local/results.csv")
    ] == ["there"]
    assert log.read_text().splitlines()[-1] == "sky down --yes rooflines-lab-07"


@pytest.mark.parametrize("tracked", [True, False], ids=["clone", "archive"])
def test_only_what_the_lab_needs_is_uploaded(rented, tracked):
    root, remote, rent, _ = rented
    (root / "course_lib").mkdir()
    (root / "course_lib" / "code.py").write_text("")
    (root / "course_lib" / ".env").write_text("SECRET=1")
    if tracked:
        for command in (["init", "-q"], ["add", "course_lib/code.py", "labs"]):
            subprocess.run(["git", "-C", str(root), *command], check=True)
        (root / "course_lib" / "untracked.txt").write_text("")
    (root / ".env").write_text("SECRET=1")
    (root / "notes.txt").write_text("")
    rent(row("there"))
    found = {
        path.relative_to(remote).as_posix()
        for path in remote.rglob("*")
        if path.is_file() and "local" not in path.parts
    }
    assert found == {"course_lib/code.py", "labs/07-small/lab.ipynb", "labs/07-small/cloud.yaml"}


@pytest.mark.parametrize("price", ["-5", "nan", "inf"])
def test_a_price_that_is_none_is_refused_before_anything_is_measured(shelf, price):
    root = shelf("open('measured', 'w').close()")
    done = course(root, "lab", "run", "07", "--usd-per-hour", price)
    assert done.returncode == 2
    assert "--usd-per-hour must be a finite number of at least 0" in done.stderr
    assert not list(root.rglob("measured"))


def test_two_runs_at_once_are_told_apart_and_a_killed_one_lets_go(shelf, monkeypatch):
    root = shelf("import pathlib, time; pathlib.Path(out, 'begun').touch(); time.sleep(600)")
    command = [sys.executable, "-m", "course_press", "lab", "run", "07"]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as first:
        while not list(root.rglob("begun")):
            assert first.poll() is None
            time.sleep(0.05)
        with pytest.raises(
            CourseError, match=rf"lab 07-small \(process {first.pid}, since 20.* UTC\) is measuring"
        ):
            labs.run(root, "07", device="cpu", budget=1)
        first.kill()
    with labs._alone(root, "another"):
        pass


def test_two_runs_within_a_second_keep_both_notebooks(tmp_path):
    (tmp_path / labs.LOCAL).mkdir(parents=True)
    names = []
    for _ in range(3):
        names.append(labs._unused(tmp_path, "lab-cpu-now"))
        (tmp_path / names[-1]).touch()
    assert [name.name for name in names] == [
        "lab-cpu-now.ipynb",
        "lab-cpu-now-2.ipynb",
        "lab-cpu-now-3.ipynb",
    ]


def test_an_executed_notebook_names_no_folder_of_this_machine(shelf):
    root = shelf("import json; json.loads('{')")
    assert labs.run(root, "07", device="cpu", budget=1).error.startswith("JSONDecodeError")
    (executed,) = root.rglob("lab-cpu-*.ipynb")
    text = executed.read_text()
    assert "raw_decode" in text  # the traceback is there
    for folder in {
        str(root),
        str(root.resolve()),
        sys.prefix,
        sys.base_prefix,
        str(Path.home()),
    } - {"/"}:
        assert folder not in text
    nbformat.validate(nbformat.read(executed, as_version=4))


def test_a_kernel_that_dies_is_one_line(shelf):
    root = shelf("import os; os._exit(137)")
    done = course(root, "lab", "run", "07")
    assert done.returncode == 2
    assert "the kernel died, as it does where memory runs out" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_folder_that_takes_no_file_is_one_line(shelf, monkeypatch, number):
    import papermill

    def fails(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(papermill, "execute_notebook", fails)
    with pytest.raises(
        CourseError, match=rf"cannot write to .*: {os.strerror(number)}; finished rows are safe"
    ):
        labs.run(shelf(), "07", device="cpu", budget=1)


def test_a_clock_set_back_does_not_change_how_long_a_run_took():
    from course_lib import bench

    began = bench.start()
    later = began._replace(at=began.at.replace(year=began.at.year + 1), clock=began.clock - 90)
    about = bench.manifest("00", "a command", bench.machine("cpu"), later, usd_per_hour=3600.0)
    assert 90 <= about.wall_seconds < 3600
    assert about.cost_usd == about.wall_seconds
    assert about.started < about.finished
    for price in (-5.0, float("nan")):
        with pytest.raises(CourseError, match="usd_per_hour"):
            bench.manifest("00", "a command", bench.machine("cpu"), began, usd_per_hour=price)


def test_compare_says_what_is_more_than_noise(tmp_path):
    about = {
        "device": "cpu",
        "kind": "cpu",
        "op": "matmul",
        "dtype": "fp32",
        "timing": "cold",
        "data": "random",
        "status": "ok",
    }
    times = {"64x64x64": (1.0, 0.5), "128x128x128": (2.0, 2.05)}
    for i, name in enumerate(("before.csv", "after.csv")):
        for shape, seconds in times.items():
            low, high = 0.95 * seconds[i], 1.05 * seconds[i]
            row = results.Row(
                **about, shape=shape, seconds_median=seconds[i], ci_low=low, ci_high=high
            )
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
    assert (
        "lab '01' has no task for a rented GPU: its page shows how to rent by hand" in done.stderr
    )
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
