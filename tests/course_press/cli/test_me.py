"""`course me`: a page and a record that name nobody, and a run that survives its death."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from course_lib import bench, chip
from course_lib.bench import device, products, results
from course_lib.bench.rows import Row
from course_tools.campaigns import campaign, checkup
from course_book.answers import Answer, checked
from course_book.text import in_language, languages
from course_press.outputs.checkup import page
from tests.course_press.conftest import course

TINY = """
import sys
from course_lib.bench import products
from course_tools.campaigns import campaign, checkup
products.LAYER, checkup.LONGEST = (64, 128), {longest}
campaign.SIZES["cpu"] = (128, 64)
sys.argv[:] = ["course", "me", "--device", "cpu", "--budget", "60", *{more}]
from course_press.__main__ import main
main()
"""
SECRET = {
    "HOME": "/home/zorro-q7",
    "USER": "zorro-q7",
    "LOGNAME": "zorro-q7",
    "HOSTNAME": "xk7-box",
}


def started(folder, *more, longest=0.02, **env):
    there = {**os.environ, "OMP_NUM_THREADS": "1", device.CACHE: str(2**20), **env}
    command = [sys.executable, "-c", TINY.format(longest=longest, more=list(more))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=there, **pipes)


@pytest.mark.parametrize("kills", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_killed_it_loses_nothing_and_names_nobody(tmp_path, monkeypatch, kills):
    folder = tmp_path / "zorro-q7"
    folder.mkdir()
    file, kept = folder / "course-me" / "run-1.csv", []
    for _ in range(kills):
        run = started(folder, longest=0.3)
        while not file.exists() or len(results.read(file)) <= len(kept):
            assert run.poll() is None, run.stderr.read()
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.3))
        run.send_signal(signal.SIGKILL)
        run.communicate()
        assert results.read(file)[: len(kept)] == kept
        kept = results.read(file)
    run = started(folder, "--json", **SECRET)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    rows = results.read(file)
    assert rows[: len(kept)] == kept
    assert len({row.key for row in rows}) == len(rows) == len(checkup.probes("cpu"))
    assert json.loads(out) == json.loads((file.parent / "me.json").read_text(encoding="utf-8"))
    for name in ("me.json", "me.html"):
        said = (file.parent / name).read_text(encoding="utf-8")
        assert len(said.encode()) < 60_000
        for secret in ("zorro", "xk7", os.uname().nodename, str(tmp_path), "/home/", sys.prefix):
            if len(secret) > 3:
                assert secret not in said, secret
    # The next one compares.
    for module, name, value in (
        (products, "LAYER", (64, 128)),
        (checkup, "LONGEST", 0.02),
        (campaign, "SIZES", {"cpu": (128, 64)}),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setenv(device.CACHE, str(2**20))
    done = course(folder, "me", "--device", "cpu", "--budget", "60", "--lang", "es")
    assert done.returncode == 0, done.stderr
    assert (file.parent / "run-2.csv").exists()
    found = json.loads((file.parent / "me.json").read_text(encoding="utf-8"))
    assert found["agrees"] in (True, False)
    assert 0 < len(found["drifts"]) <= sum(row.status == "ok" for row in rows)
    assert found["answer"]["es"] in " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def rows():
    return [products.launch("cpu", budget=0.05), products.layer("cpu", "fp8")]


@pytest.mark.parametrize("lang", languages())
def test_whatever_is_odd_is_said_in_each_language_and_escaped(lang, rows):
    setup = device.Setup(
        python="3", torch="", name="<b>one</b>", cores=2, faults=("torch is <i>odd</i>",)
    )
    answer = checked(setup, rows, rows)
    with in_language(lang):
        said = page(answer, [])
    assert "<b>one" not in said
    assert "<i>odd" not in said
    assert "&lt;b&gt;one" in said
    assert f'<html lang="{lang}">' in said
    assert "http" not in said.partition("</style>")[2]  # it asks nothing of a network
    assert answer.values["agrees"] is True


def test_a_known_chip_gives_roofs_sources_and_the_best_that_was_published():
    product = Row(
        device="NVIDIA H100 80GB HBM3",
        kind="cuda",
        op="matmul",
        dtype="bf16",
        shape="8192x8192x8192",
        timing="cold",
        data="random",
        status="ok",
        achieved_tflops=700.0,
        seconds_median=1.57e-3,
    )
    answer: Answer = checked(bench.inspect("cpu"), [product], (), chip("h100-sxm"))
    (one,) = answer.values["measured"]
    assert one["of_roof"] == pytest.approx(700e12 / chip("h100-sxm").peak("bf16"))
    assert one["roof"] > one["best_published"] > 0
    assert answer.sources
    assert "h100-sxm" in page(answer, [])
