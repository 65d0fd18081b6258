"""Pages are made side by side, in forked kernels: the same bytes as one after the other, and
nothing is left behind.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from course_press.run import kernels
from course_press.run import pool as side_by_side
from course_press.run.pool import do_jobs
from course_press.source.errors import SourceError
from tests.course_press.conftest import Copy

SETUP = "chapters/cells/one/setup.qmd"
HANGS = "import pathlib, time; pathlib.Path('started').touch(); time.sleep(300)"


def files(site):
    return {file.relative_to(site): file.read_bytes() for file in site.rglob("*") if file.is_file()}


def kernels_in(folder):
    """The processes that work in a folder: its kernels."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder):
                found.append(process)
        except psutil.Error:  # it has just ended, or is not ours
            continue
    return found


def soon(condition):
    """Wait until a condition holds, for half a minute at most."""
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


@pytest.mark.parametrize(
    "langs", [("en",), pytest.param(("en", "es"), marks=pytest.mark.exhaustive)]
)
def test_the_same_bytes_side_by_side_and_alone_forked_and_not(langs, tmp_path, monkeypatch):
    built = []
    for cores, forks in ((2, True), (1, False)):
        monkeypatch.setattr(side_by_side, "CORES", cores)
        monkeypatch.setattr(kernels, "FORKS", forks and sys.platform == "linux")
        book = Copy(tmp_path / f"book-{cores}")
        book.build(langs)
        built.append(files(book.root / "_site"))
    assert built[0] == built[1]


def test_results_keep_their_order_and_the_first_error_stops_what_waits():
    assert do_jobs([(str(i), lambda i=i: time.sleep((4 - i) / 50) or i) for i in range(4)]) == [
        0,
        1,
        2,
        3,
    ]
    begun, said = [], []

    def job(i):
        begun.append(i)
        if i == 3:
            raise SourceError(Path("x.qmd"), 7, "wrong")
        time.sleep(0.02)

    with pytest.raises(SourceError, match=r"^x\.qmd:7: wrong"):
        do_jobs([(f"job {i}", lambda i=i: job(i)) for i in range(500)], say=said.append)
    assert said[0].startswith("1 of 500 · job ")
    assert len(begun) < 100


@pytest.mark.skipif(not kernels.FORKS, reason="kernels are forked on Linux only")
def test_an_error_ends_the_kernels_of_other_pages_and_leaves_the_site(book):
    book.build(("en", "es"))
    before = files(book.root / "_site")
    # The second chapter hangs until the first one fails, in its second language.
    wrong = "2e12\nimport os\nif os.environ['COURSE_LANG'] == 'es':\n"
    wrong += "    while not os.path.exists('started'):\n        pass\n    1 / 0"
    book.edit(SETUP, "2e12", wrong)
    book.edit("chapters/en/two.qmd", "Back to", f"```{{python}}\n{HANGS}\n```\n\nBack to")
    start = time.monotonic()
    with pytest.raises(
        SourceError,
        match=rf"^{SETUP}:11: this cell of chapters/es/one\.qmd failed with ZeroDivisionError",
    ):
        book.build(("en", "es"))
    assert time.monotonic() - start < 60
    assert files(book.root / "_site") == before
    assert soon(lambda: not kernels_in(book.root))


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive),  # test_errors sends it, too
        signal.SIGKILL,
    ],
)
def test_an_interruption_leaves_no_kernel_and_no_site(book, how):
    book.edit(SETUP, "2e12", f"2e12\n{HANGS}")
    command = [
        sys.executable,
        "-m",
        "course_press",
        "build",
        "--engine",
        "embedded",
        "--lang",
        "en",
    ]
    with subprocess.Popen(command, cwd=book.root, stderr=subprocess.PIPE) as build:
        assert soon((book.root / "started").exists)
        assert [process for process in kernels_in(book.root) if process.pid != build.pid]
        build.send_signal(how)
        assert build.wait(30) != 0
        assert b"Traceback" not in build.stderr.read()
    assert soon(lambda: not kernels_in(book.root))
    assert not (book.root / "_site").exists()


@pytest.mark.skipif(not kernels.FORKS, reason="kernels are forked on Linux only")
@pytest.mark.parametrize("leads", [True, False], ids=["whole", "forked just now"])
def test_a_kernel_is_ended_however_young(leads):
    hangs = [sys.executable, "-c", "import time; time.sleep(300)"]
    child = subprocess.Popen(hangs, start_new_session=leads)
    kernels._end(child.pid)
    assert child.wait(10) == -signal.SIGKILL
