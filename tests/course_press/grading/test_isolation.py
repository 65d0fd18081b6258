"""A cell holds nothing of this computer, proves it each time, and keeps whatever a file does inside."""

import ast
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from course_lib import CourseError
from course_book.text import in_language, languages
from course_press import grading
from course_press.grading import isolation
from course_press.grading.isolation import IsolatedCell, isolated
from course_press.grading.learner import Supervisor
from tests.course_press.conftest import edited
from tests.course_press.grading.test_benchmark import NUMPY
from tests.course_press.grading.words import failures

LABS = Path(__file__).parents[3] / "labs"
LAB = LABS / "00-three-accelerators"
REFERENCE, TESTS = LAB / "reference.py", Path(__file__).with_name("test_benchmark.py")
DOES = "def measure(n, dtype='fp32', device='cpu', repeats=10):\n"


@pytest.fixture
def graded(tmp_path, monkeypatch, cells):
    """Grades a text in a cell: what failed, and what was said; nothing of it is left running."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def failed(text, folder=LAB):
        file = tmp_path / "mine.py"
        file.write_text(text, encoding="utf-8")
        with isolated():
            found = failures(grading.grade(folder, file))
        assert file.read_text(encoding="utf-8") == text
        assert running(str(tmp_path)) == []
        return found

    return failed


def running(folder, patience=5.0):
    """The processes whose temporary folder is below this one."""
    end = time.monotonic() + patience
    while True:
        left = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                content = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"TMPDIR={folder}".encode() in content:
                left.append(entry.name)
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def tries(lines):
    """A file that does something and raises what it saw."""
    body = "".join(f"    {line}\n" for line in lines.strip().splitlines())
    return f"import os, socket, sys, time\nfrom pathlib import Path\nimport numpy\n\n{DOES}{body}"


def test_every_references_verdict_is_the_same_in_a_cell(cells):
    with isolated():
        assert (
            failures(grading.grade(LABS / "03-serving", LABS / "03-serving" / "reference.py")) == {}
        )


@pytest.mark.exhaustive
@pytest.mark.parametrize("folder", [one.parent for one in sorted(LABS.glob("*/reference.py"))])
def test_every_reference_passes_in_a_cell(folder, cells):
    with isolated():
        verdicts = grading.grade(folder, folder / "reference.py")
    assert failures(verdicts) == {}
    assert [one.criterion for one in verdicts] == grading.graded_by(folder).criteria


SEEN = {
    "the reference": (
        f"raise RuntimeError(Path({str(REFERENCE)!r}).exists())",
        "RuntimeError: False",
    ),
    "the tests": (f"raise RuntimeError(Path({str(TESTS)!r}).exists())", "RuntimeError: False"),
    "all of the book by its names": (
        "raise RuntimeError([p for p in ('/home', '/root/.ssh', '/etc/passwd', '/var', '/mnt') "
        "if Path(p).exists()])",
        "RuntimeError: []",
    ),
    "other submissions": ("raise RuntimeError([*os.listdir('..'), os.listdir()])", "['mine.py']]"),
    "the network": (
        "raise RuntimeError([s.connect_ex(('1.1.1.1', 53)) for s in [socket.socket()]])",
        "RuntimeError: [101]",
    ),
    "who runs it": (
        "raise RuntimeError([0 in os.getresuid() + os.getresgid(), os.getppid()])",
        "RuntimeError: [False, 1]",
    ),
    "the memory of what watches it": (
        "raise RuntimeError([os.access(f'/proc/1/{one}', os.R_OK) for one in ('mem', 'environ')])",
        "RuntimeError: [False, False]",
    ),
    "rights": (
        "import subprocess\n"
        "raise RuntimeError([subprocess.run(['mount', '-t', 'tmpfs', 'x', '/mnt']).returncode == 0])",
        "RuntimeError: [False]",
    ),
}


def test_a_file_does_not_see_any_of_it(graded):
    """In one cell, one after the other."""
    bodies = [lines for lines, _ in SEEN.values()]
    found = graded(
        tries(
            f"told = []\nfor body in {bodies!r}:\n    try:\n        exec(body)\n"
            "    except RuntimeError as error:\n        told.append(f'RuntimeError: {error}')\n"
            "raise KeyError(told)"
        )
    )["runs"]
    told = ast.literal_eval(found[found.index("KeyError: ") + len("KeyError: ") :])
    for (what, (_, said)), one in zip(SEEN.items(), told, strict=True):
        assert said in one, what


ATTACKS = {
    "a clock of its own": (
        NUMPY.replace("def measure(", "time.time = lambda: 1.0\n\ndef measure("),
        "",
    ),
    "the reference, executed": (f"exec(open({str(REFERENCE)!r}).read())\n", "FileNotFoundError"),
    "an exit that looks like success": (
        tries("print('passed  runs', flush=True)\nos._exit(0)"),
        "exit status 0 before it was done",
    ),
    "an endless loop": (tries("while True:\n    pass"), "it did not end within 30 s, in line"),
    "a fork bomb": (tries("while True:\n    os.fork()"), "it started more than 64 processes"),
    "deletion": (
        "import os, shutil\nfor place in ('/usr/bin', '/etc', os.getcwd(), os.path.dirname(os.__file__) + '/json'):\n"
        "    shutil.rmtree(place, ignore_errors=True)\n"
        f"{DOES}    raise RuntimeError(os.path.exists('/usr/bin'), os.listdir('/tmp'))",
        "RuntimeError: (True, [",
    ),
    "50 GB": (tries("x = bytearray(50 << 30)"), "MemoryError: more than 4 GiB"),
    "50 GB in files without a name": (
        tries("for i in range(1000):\n    os.write(os.memfd_create('x'), bytes(50 << 20))"),
        "Function not implemented",
    ),
    "50 GB in files": (
        tries("for i in range(1000):\n    Path(f'/dev/shm/{i}').write_bytes(bytes(50 << 20))"),
        "No space left on device",
    ),
    "the end of all processes": (
        tries("import signal\nos.kill(1, signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)"),
        "",
    ),
}
SLOW = ("an endless loop",)


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=[pytest.mark.exhaustive] if how in SLOW else []) for how in ATTACKS],
)
def test_an_attack_is_contained_and_fails(how, graded):
    text, said = ATTACKS[how]
    there = [Path("/usr/bin/env"), REFERENCE, TESTS, Path(os.__file__)]
    before = [one.stat().st_mtime_ns for one in there]
    found = graded(text)
    assert found
    assert said in next(iter(found.values())), found
    assert [one.stat().st_mtime_ns for one in there] == before


def without(*words):
    """A call without some of its words."""
    return lambda call: [word for word in call if word not in words]


def unfiltered(call):
    """A call without its filter of system calls."""
    at = call.index("--seccomp")
    return call[:at] + call[at + 2 :]


def lent(*more):
    """A call with something more, before the system can only be read."""

    def change(call):
        at = call.index("--seccomp")
        return [*call[:at], *more, *call[at:]]

    return change


WRONG = {
    "the network": (without("--unshare-net"), "would reach the network"),
    "other processes": (without("--unshare-pid", "--as-pid-1"), "would see other processes"),
    "the system": (lent("--bind", "/tmp", "/etc"), "could write to the system"),
    "a disk without limit": (lent("--tmpfs", "/dev/shm"), "without limit"),
    "memory without limit": (unfiltered, "take memory that nothing counts"),
    "what is yours": (lent("--ro-bind", "{secret}", "{secret}"), "would read what is yours"),
    "the book": (lent("--ro-bind", str(LABS), str(LABS)), "would read what is yours"),
    "no bubblewrap that works": (lent("--no-such-option"), "bubblewrap does not start: "),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_cell_that_lets_something_through_is_refused(what, monkeypatch, cells):
    change, said = WRONG[what]
    whole = IsolatedCell.command

    def command(cell, program):
        call = change(whole(cell, program))
        return [
            word.format(secret=cell._secret.name) if "{secret}" in word else word for word in call
        ]

    monkeypatch.setattr(IsolatedCell, "command", command)
    with (
        isolated(),
        pytest.raises(CourseError, match=f"cannot be isolated here: .*{said}"),
        Supervisor(),
    ):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_a_supervisor_that_stays_root_is_refused(monkeypatch, cells):
    whole = IsolatedCell.probe
    monkeypatch.setattr(IsolatedCell, "probe", lambda cell: {**whole(cell), "user": 0})
    with isolated(), pytest.raises(CourseError, match="rights of the administrator"), Supervisor():
        pass


def test_a_cell_that_is_not_roots_keeps_the_memory_of_what_watches_it(graded, monkeypatch):
    """There, files run as the user that the supervisor is."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(IsolatedCell, "prove", lambda *_: None)  # it would be no cell for root
    for name in ("mem", "environ", "maps"):
        found = graded(tries(f"open('/proc/1/{name}', 'rb').read(1)"))
        assert "PermissionError: [Errno 13]" in found["runs"]


@pytest.mark.parametrize("lang", languages())
def test_without_bubblewrap_it_is_refused_with_the_remedy(lang, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with (
        in_language(lang),
        pytest.raises(CourseError, match=r"bwrap.*apt install bubblewrap.*--unsafe"),
        isolated(),
    ):
        pass
    assert not isolation.isolating()


def test_a_wrong_solution_is_told_the_same_in_a_cell(graded, tmp_path):
    file = tmp_path / "here.py"
    file.write_text(edited(REFERENCE, {"2 * M * N * K": "M * N * K"}), encoding="utf-8")
    assert graded(file.read_text()) == failures(grading.grade(LAB, file))
