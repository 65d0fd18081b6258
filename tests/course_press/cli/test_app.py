import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course_lib import chips
from course_press.cli import specs as cli_specs
from course_press.cli.app import app
from tests.course_press.conftest import SHEBANG, course

HERE = Path(sys.executable).parent


def fake_quarto(folder, script):
    """A `quarto` that does what the script says, to see what it is asked for."""
    folder.mkdir(exist_ok=True)
    file = folder / "quarto"
    file.write_text(f"{SHEBANG}\nimport os, pathlib, re, sys\n{script}\n")
    file.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


RENDER = """
out = pathlib.Path(sys.argv[sys.argv.index("--output-dir") + 1])
said = " ".join(sys.argv[1:4]) + " with " + os.environ["QUARTO_PYTHON"]
for page in re.findall(r"[\\w/-]+\\.qmd", pathlib.Path(f"_quarto-{sys.argv[3]}.yml").read_text()):
    file = (out / page).with_suffix(".html")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"<main>{said}</main>")
"""


def test_build_check_and_their_exit_codes(book):
    done = course(book.root, "build", "--lang", "en")
    assert done.returncode == 0, done.stderr
    assert "3 pages in en by the embedded engine" in done.stdout
    assert course(book.root, "check").returncode == 0
    book.edit("chapters/en/one.qmd", "@sec-there", "@sec-where")
    done = course(book.root, "check")
    assert done.returncode == 1
    assert "chapters/en/one.qmd:13: @sec-where has no target in the book" in done.stdout
    done = course(book.root, "build")
    assert done.returncode == 2
    assert "chapters/en/one.qmd:13" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["build", "--lang", "fr"],
            2,
            "--lang 'fr' is not a language of this book: choose from en, es",
        ),
        (["build", "--engine", "latex"], 2, "latex"),
        (["build", "--engine", "quarto"], 3, "quarto is not on PATH"),
        (["build", "--out", "chapters"], 2, "choose a new or empty folder"),
        (["preview"], 2, "run course build first"),
        (["preview", "--port", "0"], 2, "port"),
        (["bild"], 2, "No such command"),
        (["chip", "h100"], 2, "chip 'h100' is ambiguous: choose one of h100-pcie, h100-sxm"),
        (["compare", "t4", "t40"], 2, "unknown chip 't40'"),
        (["chips", "--json", "--csv"], 2, "--json and --csv exclude each other"),
        (["chips", "--vendor", "Nvidia"], 2, "did you mean 'NVIDIA'"),
    ],
)
def test_what_is_wrong_is_said_with_its_exit_code(book, arguments, code, message):
    done = course(book.root, *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_every_command_has_help_with_an_example(book):
    runner = CliRunner()
    every = [app, *(group.typer_instance for group in app.registered_groups)]
    commands = [
        one.name or one.callback.__name__ for each in every for one in each.registered_commands
    ]
    assert {"build", "predict", "exercises"} <= set(commands)
    for command in commands:
        done = runner.invoke(app, [command, "--help"])
        assert done.exit_code == 0
        assert f"Example: course {command}" in done.stdout
    assert course(book.root, "--version").stdout.strip() == "0.1.0"


def test_a_command_that_prints_nothing_waits_for_nothing_that_prints():
    code = "import sys, course_press.cli.app; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"matplotlib", "jupyter_client", "nbformat", "lxml", "jinja2", "torch", "transformers"}
    assert not heavy & set(run.stdout.split())


def test_a_build_starts_without_what_answers_questions():
    code = "import sys; sys.argv = ['course', 'build']; import course_press.cli.app"
    code = f"{code}; import course_press.pages.site; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"course_book.answers", "course_tools.counting"} & {*run.stdout.split()}


def test_doctor_says_which_engine_runs_and_how_to_get_the_other(book, tmp_path):
    done = course(book.root, "doctor")
    assert done.returncode == 0
    assert "Engine that course build takes: embedded" in done.stdout
    assert "quarto.org" in done.stdout
    path = fake_quarto(tmp_path / "bin", "")
    assert "Engine that course build takes: Quarto" in course(book.root, "doctor", path=path).stdout


def test_auto_takes_quarto_where_it_is_and_embedded_leaves_it(book, tmp_path):
    path = fake_quarto(tmp_path / "bin", RENDER)
    done = course(book.root, "build", "--lang", "es", path=path)
    assert done.returncode == 0, done.stderr
    assert "3 pages in es by Quarto" in done.stdout
    page = (book.root / "_site/es/index.html").read_text()
    assert f"<main>render --profile es with {sys.executable}" in page
    assert "es/index.html" in (book.root / "_site/index.html").read_text()
    bare = fake_quarto(tmp_path / "bin", RENDER.replace("main>", "div>"))
    assert (
        "index.html has no <main>" in course(book.root, "build", "--lang", "es", path=bare).stderr
    )
    failing = fake_quarto(tmp_path / "bin", 'sys.exit("quarto must not run")')
    assert (
        course(
            book.root, "build", "--engine", "embedded", "--out", "other", path=failing
        ).returncode
        == 0
    )


def test_a_failing_quarto_keeps_the_old_site(book, tmp_path):
    assert course(book.root, "build", path=fake_quarto(tmp_path / "bin", RENDER)).returncode == 0
    before = (book.root / "_site/en/index.html").read_text()
    done = course(
        book.root, "build", path=fake_quarto(tmp_path / "bin", 'sys.exit("ERROR: no such filter")')
    )
    assert done.returncode == 2
    assert "ERROR: no such filter" in done.stderr
    assert (book.root / "_site/en/index.html").read_text() == before


def test_a_readers_bad_chip_is_listed_with_its_error(tmp_path, monkeypatch, capsys):
    (tmp_path / "bad.toml").write_text("name = [")
    monkeypatch.setenv("COURSE_CHIPS", str(tmp_path))
    cli_specs.chips()
    listed = capsys.readouterr()
    assert "h100-sxm" in listed.out
    assert "passed over bad.toml" in listed.err


def test_chips_are_listed_shown_and_compared(book):
    listed = course(book.root, "chips").stdout
    assert all(key in listed for key in chips())
    begins = [line.split()[0] for line in listed.splitlines()]
    assert begins.index("b300-sxm") < begins.index("t4") < begins.index("mi355x")
    rows = list(
        csv.DictReader(io.StringIO(course(book.root, "chips", "--csv", "--vendor", "AMD").stdout))
    )
    assert [row["key"] for row in rows] == list(chips(vendor="AMD"))
    assert len(json.loads(course(book.root, "chips", "--json").stdout)["chips"]) == len(chips())
    shown = course(book.root, "chip", "b300-sxm").stdout
    assert "disputed: aiconfigurator-b300-sxm" in shown
    assert "4500 TOP/s  by bekman-accelerators" in shown
    compared = course(book.root, "compare", "a100-sxm-80", "h100-sxm").stdout
    assert "3.17" in next(line for line in compared.splitlines() if "matrix.bf16" in line)
    assert "1.64" in next(line for line in compared.splitlines() if "bandwidth" in line)


def test_help_is_one_screen_and_what_a_reader_asks_stands_first():
    said = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    panels = re.findall(r"─ ([A-Z][\w ]+) ─", said)
    assert panels == ["Options", "Questions", "Look up", "Labs and classes", "Makers of the book"]
    assert len(said.splitlines()) <= 50
    first = said.split("─ Questions ─")[1].split("─ Look up ─")[0]
    assert re.findall(r"│ (\w+)", first)[:5] == ["fits", "predict", "verify", "diagnose", "serve"]
