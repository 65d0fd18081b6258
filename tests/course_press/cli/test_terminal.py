"""What a reader sees at a terminal of 80 columns, in a pipe, and without what the program needs."""

import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from course_lib import CourseError, chips, specs
from course_book.text import in_language, languages
from course_press.cli import assistants, console
from course_press.cli.app import app
from tests.course_press.cli.test_readme import FIRST, asked
from tests.course_press.conftest import course

RUN = [sys.executable, "-m", "course_press"]
TRAIN = ("train", "llama-3-8b", "--chips", "64xh100-sxm")


def at_a_terminal(*arguments, columns="80"):
    """What a command prints at a terminal of so many columns."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": columns, "NO_COLOR": "1", "TERM": "dumb"}
    with subprocess.Popen(
        [*RUN, *arguments], stdout=theirs, stderr=subprocess.PIPE, env=env
    ) as run:
        os.close(theirs)
        said = b""
        while True:
            try:
                said += os.read(ours, 65536)
            except OSError:  # Linux says so where the other end is closed
                break
    os.close(ours)
    assert run.returncode == 0
    return said.decode().replace("\r\n", "\n")


def test_without_the_press_it_says_what_to_install():
    blocked = (
        "import sys; sys.modules['typer'] = None; from course_press.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "course needs typer" in done.stderr
    assert "[press]" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_layout_is_cut_at_a_terminal_or_in_a_pipe():
    piped = course(".", *TRAIN).stdout.splitlines()[1:]
    layouts = [line.split()[0] for line in piped if line.startswith("dp=")]
    assert len(layouts) > 1
    for layout in layouts:
        assert re.fullmatch(r"dp=\d+,tp=\d+,pp=\d+,.*acc=\d+\S*", layout)
    seen = at_a_terminal(*TRAIN)
    assert "…" not in seen
    assert all(len(line) <= 80 for line in seen.splitlines())
    cells = "".join(line[:20].strip() for line in seen[seen.index("dp=") :].splitlines())
    assert cells.startswith("".join(layouts))


def test_no_quantity_is_broken_at_a_terminal():
    seen = at_a_terminal("predict", "llama-3-8b", "h100-sxm", "--batch", "32")
    assert all(len(line) <= 80 for line in seen.splitlines())
    piped = course(".", "predict", "llama-3-8b", "h100-sxm", "--batch", "32").stdout
    begins = "\n".join(piped.splitlines()[:5])  # what it is of, and its times by their names
    quantities = re.findall(r"\d[\d.,]* (?:[pnµm]?s|[kMGT]?B)\b", begins)
    assert len(quantities) == 4
    assert all(one in seen for one in quantities)


QUESTIONS = [line for line in FIRST if asked(line) in assistants.commands()]


@pytest.mark.parametrize("lang", languages())
@pytest.mark.parametrize("line", QUESTIONS)
def test_no_word_or_quantity_of_an_answer_is_broken_at_80_columns(line, lang, monkeypatch):
    def said(**how):
        out = io.StringIO()
        monkeypatch.setattr(console, "out_console", console._Console(file=out, **how))
        with in_language(lang):
            app(shlex.split(line)[1:], standalone_mode=False)
        return out.getvalue()

    piped = said(width=console.PIPED)
    seen = said(width=80, force_terminal=True, color_system=None)
    assert all(cell_len(row) <= 80 for row in seen.splitlines())
    assert set(seen.split()) <= set(piped.split())
    assert not re.search(r"\d\n(?:[pnµm]?s|[kMGT]?B|×|%)\b", seen)


def test_the_help_fits_one_screen_and_begins_with_the_questions():
    seen = course(".", "--help").stdout.splitlines()
    assert len(seen) <= 46
    commands = [row.split()[1] for row in seen if re.match(r"│ [a-z]", row)]
    asked_first = [*assistants.commands()]
    assert commands[: len(asked_first)] == asked_first


@pytest.mark.parametrize("group", [app, *(one.typer_instance for one in app.registered_groups)])
def test_no_help_is_cut_at_80_columns(group, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in group.registered_commands:
        name = command.name or command.callback.__name__
        path = [name] if group is app or len(group.registered_commands) > 1 else []
        assert "…" not in CliRunner().invoke(group, [*path, "--help"]).output


@pytest.mark.parametrize("command", [["chip", "h100-sxm"], ["chips", "--json"]])
def test_a_reader_who_has_read_enough_is_no_failure(command):
    with subprocess.Popen([*RUN, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()
        said = run.stderr.read()
    assert (run.returncode, said) == (0, b"")


def test_models_are_listed_by_their_keys_and_errors_name_that_command():
    listed = course(".", "models").stdout
    assert all(f"\n{key} " in listed for key in specs.listed_models())
    assert f"{specs.model('llama-3-8b').parameters:,}" in listed
    assert "course models lists them" in course(".", "predict", "llama-3-9b", "t4").stderr
    assert "course chips lists them" in course(".", "chip", "t40").stderr


def test_links_are_compared_all_together_and_no_unit_is_1():
    compared = course(".", "compare", "a100-sxm-80", "h100-sxm").stdout
    (line,) = (line for line in compared.splitlines() if line.startswith("nvlink.per_direction"))
    assert "300 GB/s (12 × 25)" in line
    assert "450 GB/s (18 × 25)" in line
    assert line.split()[-1] == "1.5"
    assert not re.search(r"\d 1(?:  |$)", compared, re.MULTILINE)


def test_an_own_chip_begins_as_a_file_that_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv(specs.FOLDER, str(tmp_path))
    monkeypatch.chdir(tmp_path)  # where no book is
    with pytest.raises(CourseError, match="course new chip begins a file of your own"):
        specs.chip("mi308x")
    assert CliRunner().invoke(app, ["new", "chip", "mi308x"]).exit_code == 0
    file = tmp_path / "mi308x.toml"
    empty = file.read_text()
    assert {"bandwidth", "peaks", "sources"} <= set(tomllib.loads(empty))
    for refused in ("mi308x", "h100-sxm", "no/key"):
        done = CliRunner().invoke(app, ["new", "chip", refused])
        assert isinstance(done.exception, CourseError)
    filled = empty.replace("value = 0", "value = 4", 1).replace("value = 0", "value = 96")
    filled = filled.replace("year = 0", "year = 2024")
    for text, error in (
        (empty, "figure bandwidth must be positive"),
        (filled.replace("[peaks.matrix.bf16]", "[peaks.bf16]"), r"\[peaks.matrix.bf16\]"),
        (filled.replace('["datasheet"]', '["mine"]'), r"\[sources.mine\]"),
        (filled, None),
    ):
        file.write_text(text.replace('"GB/s"', '"TB/s"', 1))
        specs.catalog._of_file.cache_clear()
        if error is None:
            assert (specs.chip("mi308x").bandwidth, "mi308x" in chips()) == (4e12, True)
        else:
            with pytest.raises(CourseError, match=error):
                specs.chip("mi308x")
