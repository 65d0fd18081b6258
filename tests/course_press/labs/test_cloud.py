import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from course_lib import CourseError, chip, specs
from course_lib.bench import results
from course_lib.bench.rows import HEADER, to_line
from course_press.cli import labs as cli_labs
from course_press.cli.app import app
from course_press.labs import cloud as rented_gpu
from course_press.source.errors import MissingError
from tests.course_press.conftest import SHEBANG, course

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("gpu", "cloud"),
    [(gpu, cloud) for gpu, (_, names) in rented_gpu.GPUS.items() for cloud in names],
)
def test_every_gpu_that_may_be_rented_has_a_task_and_a_dated_price(gpu, cloud):
    about = {"gpu": gpu, "cloud": cloud, "budget": 600, "max_cost": 100}
    if any(
        (price.chip, price.provider) == (rented_gpu.GPUS[gpu][0], rented_gpu.CLOUDS[cloud])
        for price in specs.prices()
    ):
        made = rented_gpu.plan(ROOT, "00", **about)
    else:
        with pytest.raises(
            CourseError, match=f"no dated price at {rented_gpu.CLOUDS[cloud]}.*--usd-per-hour"
        ):
            rented_gpu.plan(ROOT, "00", **about)
        made = rented_gpu.plan(ROOT, "00", **about, usd_per_hour=0.5)
    assert made.price.provider == rented_gpu.CLOUDS[cloud]
    assert chip(made.chip).device_names
    assert re.fullmatch(r"20\d\d(-\d\d-\d\d)?", made.price.date)
    assert made.usd == pytest.approx(made.price.usd_per_hour * made.minutes / 60)
    # What SkyPilot's schema knows of a task, as far as ours uses it.
    task = yaml.safe_load(rented_gpu.shown(made))
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
    assert "{" not in rented_gpu.shown(made)


def test_the_commands_of_the_task_exist():
    made = rented_gpu.plan(ROOT, "00", gpu="H100", cloud="runpod", budget=90, max_cost=100)
    words = shlex.split(made.task["run"])
    assert words[:2] == ["timeout", "--kill-after=30s"]
    assert words[3:6] == [".venv/bin/python", "-m", "course_press"]
    assert words[-1] == "90"
    assert CliRunner().invoke(app, [*words[6:9], "--help"]).exit_code == 0
    extras = made.task["setup"].split()[-1].split(",")
    assert set(extras) <= set(
        re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    )


def test_the_page_for_instructors_counts_the_minutes_that_the_command_plans():
    cell = (ROOT / "chapters/cells/instructors/setup.qmd").read_text(encoding="utf-8")
    made = rented_gpu.plan(ROOT, "00", gpu="A100-80GB", cloud="runpod", budget=600, max_cost=100)
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
            rented_gpu.plan(ROOT, "00", gpu=gpu, cloud="runpod", budget=600, max_cost=ceiling).usd
            for gpu in ("A100-80GB", "H100")
        )
        <= ceiling
    )


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
        for price in specs.prices()
        if (price.chip, price.provider) == ("a100-sxm-80", "RunPod")
    ][-1]
    assert f"RunPod, {newest.date}" in done.stdout
    assert "no machine above 10 USD an hour, and nothing runs on it for more" in done.stdout
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
        rented_gpu.plan(ROOT, "00", **about)


def test_without_skypilot_the_message_says_what_to_do(shelf, monkeypatch):
    monkeypatch.setenv("PATH", "")
    root = shelf()
    made = rented_gpu.plan(root, "07", gpu="H100", cloud="runpod", budget=60, max_cost=5)
    with pytest.raises(MissingError, match=re.escape("pip install -e '.[cloud]'")):
        rented_gpu.launch(root, "07", made)


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
if name == "sky":
    sys.exit({down})
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

    def rent(row, code=0, down=0):
        for name in ("sky", "rsync"):
            told = {
                "shebang": SHEBANG,
                "log": str(tmp_path / "log.txt"),
                "remote": str(remote),
                "code": code,
                "down": down,
            }
            (tools / name).write_text(SKY.format(**told, header=HEADER + "\n", row=to_line(row)))
            (tools / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
        made = rented_gpu.plan(root, "07", gpu="H100", cloud="runpod", budget=60, max_cost=5)
        return rented_gpu.launch(root, "07", made)

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


@pytest.mark.parametrize("code", [0, 3])
def test_a_machine_that_was_not_given_back_is_told_with_what_to_do(rented, code):
    root, _, rent, log = rented
    with pytest.raises(
        CourseError, match=r"sky down failed: .* rooflines-lab-07 may run on.*USD an hour"
    ) as told:
        rent(row("there"), code=code, down=1)
    assert "by hand: sky down rooflines-lab-07; " in str(told.value)
    assert ("sky launch exited with 3" in str(told.value)) == bool(code)
    assert "1 new rows were copied back" in str(told.value)
    assert len(results.read(root / "labs/07-small/results/local/results.csv")) == 1
    assert log.read_text().splitlines()[-2:] == ["sky down --yes rooflines-lab-07"] * 2


def test_a_run_that_is_ended_still_says_what_was_not_given_back(rented, monkeypatch):
    _, _, rent, log = rented

    def ended(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(rented_gpu, "merge", ended)
    with pytest.raises(CourseError, match="sky down failed"):
        rent(row("there"), down=1)
    with pytest.raises(KeyboardInterrupt):
        rent(row("there"))
    assert log.read_text().splitlines()[-1] == "sky down --yes rooflines-lab-07"


TASKS = [*ROOT.glob("labs/*/cloud.yaml"), ROOT / "docs/sweep.yaml"]


@pytest.mark.parametrize("file", TASKS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_a_rented_machine_uses_no_python_of_its_image(file):
    task = yaml.safe_load(re.sub(r"\{(setup|limit)\}", "9s", file.read_text(encoding="utf-8")))
    steps = (task["setup"] + task["run"]).replace(".venv/bin/python -m course_press", "")
    assert len(TASKS) == 5
    assert not re.search("python|pip", steps)
    assert "sh labs/rented.sh " in task["setup"]
    assert "labs/rented.sh" in rented_gpu.UPLOADED


OLD = """#!/bin/sh
case "$1" in -c) exit {torch} ;; esac
echo "python3 $*" >> {log}
case "$*" in
  *" uv=="*) cp {tools}/kept {tools}/uv; exit {bare} ;;
  *) echo "requires a different Python: 3.10.12 not in '>=3.11'" >&2; exit 1 ;;
esac
"""
UV = """#!/bin/sh
echo "uv $*, torch for the driver: $UV_TORCH_BACKEND" >> {log}
"""


@pytest.mark.parametrize("brought", [True, False], ids=["uv is there", "uv is not there"])
def test_a_machine_whose_python_is_too_old_is_set_up_all_the_same(tmp_path, brought):
    tools, log = tmp_path / "tools", tmp_path / "log"
    tools.mkdir()
    (tools / "python3").write_text(OLD.format(log=log, tools=tools, bare=0, torch=1))
    (tools / ("uv" if brought else "kept")).write_text(UV.format(log=log))
    for tool in tools.iterdir():
        tool.chmod(0o755)
    for tool in ("sh", "timeout", "grep", "cp"):
        (tools / tool).symlink_to(shutil.which(tool))
    made = rented_gpu.plan(ROOT, "00", gpu="H100", cloud="runpod", budget=60, max_cost=5)
    env = {"PATH": str(tools), "HOME": str(tmp_path)}
    done = subprocess.run(
        ["/bin/sh", "-ec", made.task["setup"]], cwd=ROOT, env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pinned = re.search(r"^uv==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0]
    asked = [] if brought else [f"python3 -m pip install -q {pinned}"]
    assert log.read_text().splitlines() == [
        *asked,
        "uv venv -q --allow-existing --python 3.12 .venv, torch for the driver: ",
        "uv pip install -q --python .venv/bin/python -c hashes.txt -e .[press,labs,torch], "
        "torch for the driver: auto",
    ]
    least = re.search(r'requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text())[1]
    assert tuple(map(int, least.split("."))) <= (3, 12)


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("press,labs,torch", "press,labs"),
        ("press,labs,torch,models", "press,labs,models"),
        ("press,labs,torch,kernels", "press,labs"),
    ],
)
def test_a_machine_with_a_torch_of_its_own_downloads_none(tmp_path, asked, left):
    (tmp_path / "python3").write_text(OLD.format(log="log", tools="", bare=1, torch=0))
    (tmp_path / "uv").write_text(UV.format(log=tmp_path / "log"))
    for tool in tmp_path.iterdir():
        tool.chmod(0o755)
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run(["/bin/sh", "labs/rented.sh", asked], cwd=ROOT, env=env, check=True)
    made, installed = (tmp_path / "log").read_text().splitlines()
    assert "--system-site-packages --python python3" in made
    assert f" -e .[{left}], " in installed
    limits = re.search(
        r'"torch>=(\d+)\.(\d+),<(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text()
    )
    least, below = limits.groups()[:2], limits.groups()[2:]
    script = (ROOT / "labs/rented.sh").read_text()
    assert f"({', '.join(least)}) <= release < ({', '.join(below)})" in script


def test_rows_copied_by_hand_join_those_here_once(shelf, monkeypatch, tmp_path):
    root, pod = shelf(), tmp_path / "pod"
    monkeypatch.chdir(root)
    for _ in range(2):
        results.append(pod / "results.csv", row("there", seconds_median=0.5))
    assert CliRunner().invoke(app, ["lab", "merge", "07", str(pod)]).exit_code == 0
    assert CliRunner().invoke(app, ["lab", "merge", "07", str(pod)]).exit_code == 0
    kept = results.read(root / "labs/07-small/results/local/results.csv")
    assert {one.device for one in kept} == {"there"}
    assert len(kept) == 2
    refused = CliRunner().invoke(app, ["lab", "merge", "07", str(tmp_path)])
    assert isinstance(refused.exception, CourseError)


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


def test_each_command_of_the_labs_own_page_exists():
    text = (ROOT / "labs" / "README.md").read_text(encoding="utf-8")
    lines = re.findall(
        r"(?m)\.venv/bin/course ([a-z]+)(?: (run|cloud|merge|compare|check)\b)?(.*)", text
    )
    assert len(lines) > 8
    for verb, part, rest in lines:
        done = CliRunner().invoke(app, [verb, *([part] if part else []), "--help"])
        assert done.exit_code == 0, verb
        told = re.findall(r"--[a-z-]+", rest.partition("#")[0])
        assert [one for one in told if one not in done.output] == []
    for path in re.findall(r"labs/[\w./-]*\w", text):
        assert (ROOT / path.replace("/results/local", "")).exists(), path
