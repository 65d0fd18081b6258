"""Sweeps: what a process finds is what a loop finds, and what the command prints."""

import importlib
import json
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import yaml
from typer.testing import CliRunner

from course_press.cli.app import app

DOCS = Path(__file__).parents[3] / "docs"
ASKED = {"model": "llama-3-8b", "chip": "h100-sxm", "requests": 60}


def test_processes_find_what_a_loop_finds(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    point = partial(importlib.import_module("sweep").point, **ASKED, seed=3)
    rates = [2.0, 8.0, 32.0]
    with ProcessPoolExecutor(2) as pool:
        apart = list(pool.map(point, rates))
    assert apart == [point(rate) for rate in rates]
    assert apart[0]["tpot_s"] != apart[2]["tpot_s"]
    assert point(8.0, seed=4) != apart[1]


def test_the_script_prints_a_line_for_each_rate():
    asked = [sys.executable, DOCS / "sweep.py", "llama-3-8b", "h100-sxm", "50"]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    assert [json.loads(line)["rate"] for line in done.stdout.splitlines()] == [50.0]


def test_the_job_asks_the_command_for_one_of_its_points(monkeypatch):
    job = yaml.safe_load((DOCS / "sweep.yaml").read_text(encoding="utf-8"))
    words = job["run"].replace("$RATE", str(job["envs"]["RATE"])).split()
    assert words[:3] == [".venv/bin/python", "-m", "course_press"]
    few = [*words[3:], "--requests", "60", "--seed", "3"]
    found = json.loads(CliRunner().invoke(app, few).stdout)
    monkeypatch.syspath_prepend(DOCS)
    same = importlib.import_module("sweep").point(10.0, **ASKED, seed=3)
    assert found | same == found | {"rate": 10.0}


def test_without_arguments_it_says_how_it_is_used():
    done = subprocess.run(
        [sys.executable, DOCS / "sweep.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("usage: python docs/sweep.py MODEL CHIP RATE")
