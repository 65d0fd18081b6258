"""What goes wrong outside the source: one line that says what, and the exit code that says whose
turn it is.
"""

import contextlib
import http.server
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

import pypandoc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from course_lib import CourseError, specs
from course_lib.bench.results import append
from course_lib.bench.rows import Row
from course_lib.specs import DATA
from course_tools import calibrate
from course_press.cli import app as cli
from course_press.cli.app import app
from tests.course_press.conftest import SHEBANG, course
from tests.course_press.run.test_execute import ran
from tests.course_tools.calibrate.test_fit import TRUE, rows

MARKUP = "[/x] [bold]y[/bold]"


def failed(done, code, message):
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_no_name_is_read_as_markup(book, monkeypatch):
    """Names from files of data, and the reader's own, are printed as they are."""
    chips = book.root / "chips"
    chips.mkdir()
    text = (DATA / "chips" / "t4.toml").read_text(encoding="utf-8")
    (chips / "mine.toml").write_text(
        text.replace('name = "NVIDIA T4"', f'name = "{MARKUP}"'), encoding="utf-8"
    )
    monkeypatch.setenv(specs.FOLDER, str(chips))
    about = {
        "kind": "cpu",
        "device": "d",
        "dtype": "fp32",
        "timing": "cold",
        "data": "random",
        "status": "ok",
    }
    for name, seconds in (("a.csv", 1.0), ("b.csv", 2.0)):
        append(
            book.root / name,
            Row(
                **about,
                op="copy",
                shape=MARKUP,
                seconds_median=seconds,
                ci_low=seconds,
                ci_high=seconds,
            ),
        )
    book.edit("chapters/en/two.qmd", "title: Chapter two", f'title: "{MARKUP}"')
    for arguments in (["chips"], ["chip", "mine"], ["lab", "compare", "a.csv", "b.csv"]):
        done = course(book.root, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert MARKUP in done.stdout
    done = course(book.root, "build", "--lang", "en", "--out", "[red]")
    assert done.returncode == 0, done.stderr
    assert "[red]/index.html" in done.stdout


@pytest.fixture
def unasked(monkeypatch):
    """As where nothing has looked yet for pandoc or a folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("__pandoc_path", "__version"):
        monkeypatch.setattr(pypandoc, name, None)


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "message"),
    [
        (["build", "--out", "index.qmd/site"], {}, 3, "index.qmd"),
        (
            ["build", "--lang", "en"],
            {"PYPANDOC_PANDOC": "/nowhere/pandoc"},
            3,
            "pandoc is missing or does not run",
        ),
        (
            ["build", "--lang", "en"],
            {"TMPDIR": "/proc/nowhere", "TMP": "/proc/nowhere", "HOME": "/proc/nowhere"},
            0,
            "",
        ),
        (["export", "--lang", "en", "--to", "epub", "--out", "index.qmd"], {}, 3, "index.qmd"),
    ],
)
def test_the_machine_is_at_fault_in_one_line(
    book, monkeypatch, unasked, arguments, environment, code, message
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = course(book.root, *arguments)
    assert (done.returncode == 0) if code == 0 else not failed(done, code, message), done.stderr


def test_files_that_could_not_be_copied_are_one_sentence(monkeypatch, capsys):
    def full():
        raise shutil.Error([("a", f"_site/{name}", "No space left on device") for name in "bc"])

    monkeypatch.setattr(cli, "app", full)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    assert capsys.readouterr().err == "No space left on device (copying to _site/b)\n"


def test_a_site_that_a_kill_left_aside_is_shown_again(tmp_path, monkeypatch):
    ready = tmp_path / "._site-stage-x" / "ready"
    ready.mkdir(parents=True)
    (ready / "index.html").write_text("whole")
    monkeypatch.setattr(http.server, "ThreadingHTTPServer", lambda *_: contextlib.ExitStack())
    done = CliRunner().invoke(app, ["preview", "--out", str(tmp_path / "_site")])
    assert (tmp_path / "_site" / "index.html").read_text() == "whole", done.output


@pytest.mark.parametrize("script", ["import sys; sys.exit(1)", None], ids=["broken", "missing"])
def test_doctor_notices_a_pandoc_that_does_not_run(book, tmp_path, monkeypatch, unasked, script):
    file = tmp_path / "pandoc"
    if script:
        file.write_text(f"{SHEBANG}\n{script}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PYPANDOC_PANDOC", str(file))
    done = course(book.root, "doctor")
    assert done.returncode == 3
    assert "not found: run make clean book" in next(
        line for line in done.stdout.splitlines() if line.startswith("pandoc ")
    )
    assert done.stderr == ""


def test_doctor_names_an_address_that_is_a_placeholder(book):
    assert "placeholder" not in course(book.root, "doctor").stdout
    book.edit(
        "_quarto.yml",
        "https://github.com/example/book",
        "https://github.com/roofline-course/rooflines",
    )
    said = course(book.root, "doctor").stdout
    assert "repo-url in _quarto.yml is only a placeholder" in said
    assert "https://github.com/roofline-course/rooflines" in said


def test_a_run_ended_from_outside_leaves_nothing_behind(book):
    book.edit(
        "chapters/cells/one/setup.qmd",
        "2e12",
        "2e12; open('here', 'w').close(); import time; time.sleep(60)",
    )
    command = [sys.executable, "-m", "course_press", "build", "--lang", "en"]
    with subprocess.Popen(command, cwd=book.root, stderr=subprocess.PIPE, text=True) as process:
        while not (book.root / "here").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in said
    assert not list(book.root.glob("._site*"))


def test_a_long_path_of_temporary_files_is_no_hindrance(book, tmp_path, monkeypatch):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert ran(book).inlines[0] == "500 FLOP/B"


def test_a_sheet_with_answers_is_never_replaced_silently(tmp_path):
    def sheet(*more):
        return CliRunner().invoke(
            app, ["exercises", "--seed", "7", "--out", str(tmp_path / "sheet.ipynb"), *more]
        )

    assert sheet().exit_code == 0
    for name, option in (("sheet.ipynb", "--out"), ("sheet-key.ipynb", "--key")):
        (tmp_path / name).write_text("my answers")
        refused = sheet()
        assert isinstance(refused.exception, CourseError)
        assert str(refused.exception).startswith(f"{option} ")
        assert "--force" in str(refused.exception)
        assert (tmp_path / name).read_text() == "my answers"
        assert sheet("--force").exit_code == 0
        assert (tmp_path / name).read_text() != "my answers"
        (tmp_path / "sheet.ipynb").unlink()


def test_constants_never_replace_a_file_of_something_else(tmp_path):
    results = tmp_path / "results.csv"
    for row in rows(TRUE):
        append(results, row)
    before = results.read_text()
    refused = CliRunner().invoke(app, ["calibrate", str(results), "--out", str(results)])
    assert "holds something else" in str(refused.exception)
    assert results.read_text() == before
    out = ["calibrate", str(results), "--out", str(tmp_path / "mine.toml")]
    assert [CliRunner().invoke(app, out).exit_code for _ in range(2)] == [0, 0]


@given(
    device=st.text(st.characters(codec="utf-8"), min_size=1),
    dtype=st.text(st.characters(codec="utf-8"), min_size=1),
)
def test_constants_of_any_device_can_be_read_again(device, dtype):
    named = calibrate.constants.to_toml(
        {"source": device, "constants": {dtype: {"compute": 0.5, "note": device}}, "points": 1}
    )
    assert tomllib.loads(named)["source"] == device
    assert tomllib.loads(named)["constants"] == {dtype: {"compute": 0.5, "note": device}}
