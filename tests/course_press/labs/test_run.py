import errno
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import nbformat
import pytest

from course_lib import CourseError, chip
from course_lib.bench import results
from course_press.labs import run as labs
from course_press.source.errors import MissingError
from tests.course_press.conftest import course, need

ROOT = Path(__file__).parents[3]


def test_a_lab_is_run_in_its_folder_with_what_was_asked_for(shelf):
    root = shelf("from pathlib import Path\nPath(out, 'seen.txt').write_text(f'{device} {budget}')")
    done = course(root, "lab", "run", "7", "--budget", "5")
    assert done.returncode == 0, done.stderr
    local = root / "labs" / "07-small" / "results" / "local"
    assert (local / "seen.txt").read_text() == "cpu 5.0"
    (executed,) = local.glob("lab-cpu-*.ipynb")
    assert "injected-parameters" in executed.read_text()


@pytest.mark.parametrize(
    ("option", "word"),
    [
        pytest.param((), "no medido", marks=pytest.mark.exhaustive),
        (("--lang", "ko"), "측정하지 않음"),
    ],
)
def test_a_lab_writes_in_the_language_asked_for(shelf, monkeypatch, option, word):
    monkeypatch.setenv("COURSE_LANG", "es")
    root = shelf(
        "from pathlib import Path\nfrom course_book.reports.frame import said\n"
        "Path(out, 'seen.txt').write_text(said('absent'), encoding='utf-8')"
    )
    done = course(root, "lab", "run", "7", "--budget", "5", *option)
    assert done.returncode == 0, done.stderr
    seen = root / "labs" / "07-small" / "results" / "local" / "seen.txt"
    assert seen.read_text(encoding="utf-8") == word
    assert os.environ["COURSE_LANG"] == "es"


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
        labs.run_lab(shelf(), "07", device="cpu", budget=1)


@pytest.mark.parametrize("goes_on", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_lab_00_measures_this_machine_and_goes_on_where_it_stopped(tmp_path, goes_on):
    """The real lab with a small budget; a second run measures only what the first did not, which
    cli/test_me.py shows of the same loop in `make test`.
    """
    book = tmp_path / "book"
    source = ROOT / "labs" / "00-three-accelerators"
    (book / "labs" / source.name).mkdir(parents=True)
    for name in ("lab.ipynb", "cloud.yaml"):
        (book / "labs" / source.name / name).write_bytes((source / name).read_bytes())
    local = book / "labs" / source.name / "results" / "local"

    done = labs.run_lab(book, "00", device="cpu", budget=1)
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

    if not goes_on:
        return
    assert labs.run_lab(book, "00", device="cpu", budget=2).error is None
    again = results.read(local / "results.csv")
    assert len(again) > len(rows)
    if any(row.op == "matmul" and row.status == "ok" for row in again):
        assert (local / "roofline.png").read_bytes().startswith(b"\x89PNG")
        assert (local / "roofline.svg").read_text().startswith("<svg")
    assert again[: len(rows)] == rows
    settled = [row.key for row in again if row.status != "over-budget"]
    assert len(set(settled)) == len(settled)


def test_the_first_labs_page_says_which_measurement_is_not_where_it_was_expected():
    here = {}
    for name in ("setup", "sanity", "measured", "measured_table", "ours"):
        text = (ROOT / f"chapters/cells/lab-00/{name}.qmd").read_text(encoding="utf-8")
        exec(re.search(r"```\{python\}\n(.*)```", text, re.DOTALL)[1], here)
    for key, dtype in here["asked"]:
        low, high = here["band"](*[here["N"]] * 3, key, dtype)
        assert 0.3 < low < high <= 1
        if best := here["published"][dtype].get(key):
            assert low < best.rate / chip(key).peak(dtype)
    ours = here["ours"]
    assert not here["cpu_band"][0] <= ours.mfu <= here["cpu_band"][1]
    assert here["verdict"](ours).endswith(": outside")
    inside = msgspec.structs.replace(ours, mfu=sum(here["cpu_band"]) / 2)
    assert here["verdict"](inside).endswith(": inside")


@pytest.mark.parametrize("price", ["-5", "nan", "inf"])
def test_a_price_that_is_none_is_refused_before_anything_is_measured(shelf, price):
    root = shelf("open('measured', 'w').close()")
    done = course(root, "lab", "run", "07", "--usd-per-hour", price)
    assert done.returncode == 2
    assert "--usd-per-hour" in done.stderr
    assert "must be a finite number of at least 0" in done.stderr or "is no number" in done.stderr
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
            labs.run_lab(root, "07", device="cpu", budget=1)
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
    assert labs.run_lab(root, "07", device="cpu", budget=1).error.startswith("JSONDecodeError")
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
        labs.run_lab(shelf(), "07", device="cpu", budget=1)


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
    assert next(line for line in lines if "64x64x64" in line).split()[-2:] == ["0.5", "yes"]
    assert next(line for line in lines if "128x128x128" in line).split()[-2:] == ["1.025", "no"]
    spanish = course(tmp_path, "lab", "compare", "before.csv", "after.csv", "--lang", "es")
    assert "más que ruido" in spanish.stdout.splitlines()[0]
    assert next(one for one in spanish.stdout.splitlines() if "128x" in one).split()[-2:] == [
        "1,025",
        "no",
    ]
    french = course(tmp_path, "lab", "compare", "before.csv", "after.csv", "--lang", "fr")
    assert french.returncode == 2
    assert "--lang 'fr' is not a language of the book: choose from en, es, ko" in french.stderr
    missing = course(tmp_path, "lab", "compare", "before.csv", "nowhere.csv")
    assert missing.returncode == 2
    assert "'nowhere.csv' does not exist" in missing.stderr


def test_grade_prints_every_criterion_and_exits_1_for_the_stub():
    done = course(ROOT, "grade", "00", "labs/00-three-accelerators/matmul_bench.py")
    assert done.returncode == 1
    assert "FAILED  runs: measure is not implemented yet" in done.stdout


@pytest.mark.parametrize(
    ("lang", "option", "first", "last"),
    [
        (
            "es",
            False,
            "bien  ejecución: el archivo contiene un DIAGNOSIS",
            "MAL   E: todavía no hay causa",
        ),
        ("ko", True, "통과  실행: 파일에 DIAGNOSIS가 있다", "실패  E: 원인이 아직 없다"),
    ],
)
def test_grade_speaks_the_language_that_is_asked_for(lang, option, first, last, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", "en" if option else lang)
    stub = "labs/02-fusion-and-profiling/diagnosis.py"
    done = course(ROOT, "grade", "02", stub, *(("--lang", lang) if option else ()))
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0]) == (1, first)
    assert lines[-1].startswith(last)


def test_grade_refuses_in_the_language_that_is_asked_for():
    done = course(ROOT, "grade", "02", "nowhere.py", "--lang", "es")
    assert done.returncode == 2
    assert "la ruta 'nowhere.py' no es la de un archivo" in done.stderr


def test_a_lab_without_a_task_or_a_grader_says_so(tmp_path):
    done = course(ROOT, "lab", "cloud", "01", "--gpu", "H100", "--dry-run")
    assert done.returncode == 2
    assert (
        "lab '01' has no task for a rented GPU: its page shows how to rent by hand" in done.stderr
    )
    (tmp_path / "labs" / "07-small").mkdir(parents=True)
    (tmp_path / "labs" / "07-small" / "lab.ipynb").write_text("{}")
    (tmp_path / "labs" / "08-graded").mkdir()
    (tmp_path / "labs" / "08-graded" / "lab.toml").write_text('grader = "ring"')
    done = course(tmp_path, "grade", "07", "mine.py")
    assert done.returncode == 2
    assert "lab '07' has nothing to grade: choose from 08" in done.stderr


@pytest.mark.exhaustive  # which grader, and its verdict of the stub: grading/test_graders.py
def test_lab_01_is_graded_by_its_own_grader():
    need("torch")
    done = course(ROOT, "grade", "01", "labs/01-collectives/ring_all_reduce.py")
    assert done.returncode == 1
    assert "FAILED" in done.stdout


def test_a_device_that_is_none_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(CourseError, match=r"--device must be cpu, or cuda .* \(got 'gpu'\)"):
        labs.run_lab(tmp_path, "00", device="gpu", budget=60)
