"""Runs killed at every point of a swap: what they leave, and what the next start makes of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from course_press.pages.site import MARKER
from course_press.source import files
from course_press.source.files import mend, put, staged

ROOT = Path(__file__).parents[3]
# Ends the process at the nth change of the file system from the swap on, as a kill would: nothing
# is cleaned up.
KILLED = """
import os, sys
left = {nth}
def killer(event, arguments):
    global left
    changes = event.split(".")[0] in ("os", "shutil") and event not in ("os.listdir", "os.scandir")
    if changes or event == "ctypes.dlopen":
        left -= 1
        if left < 0:
            os._exit(9)
"""
SWAP = """
from pathlib import Path
from course_press.source import files
if not {moves}:
    files.exchanged = lambda *_: False
out = Path(sys.argv[1])
with files.staged(out) as stage:
    for name, text in {new!r}.items():
        (stage / name).parent.mkdir(exist_ok=True)
        (stage / name).write_text(text)
    sys.addaudithook(killer)
    files.put(stage, out)
"""
BUILD = """
from pathlib import Path
from course_press.source import files
from course_press.pages import site
def put(*arguments):
    sys.addaudithook(killer)
    put_(*arguments)
put_, site.put = site.put, put
site.build(Path.cwd(), ["es"], Path.cwd() / "_site")
"""
OLD = {"marker": "old", "en/page": "old", "assets/style": "old", "es/page": "stays", "CNAME": "of"}
NEW = {"marker": "new", "en/page": "new", "assets/style": "new", "index": "new"}


def tree(folder):
    return {
        file.relative_to(folder).as_posix(): file.read_text()
        for file in folder.rglob("*")
        if file.is_file()
    }


def start(out, files):
    for name, text in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)


def leftovers(out):
    return list(out.parent.glob(f".{out.name}-*"))


@pytest.mark.parametrize("moves", [True, False], ids=["in one move", "in two moves"])
@pytest.mark.parametrize("before", [OLD, {}], ids=["over an old site", "the first site"])
def test_wherever_a_swap_is_killed_the_site_is_whole(tmp_path, before, moves):
    missing, whole = 0, ({**before, **NEW}, before)
    for nth in range(100):
        out = tmp_path / str(nth) / "_site"
        start(out, before)
        out.parent.mkdir(exist_ok=True)
        script = KILLED.format(nth=nth) + SWAP.format(new=NEW, moves=moves)
        command = [sys.executable, "-S", "-c", script, str(out)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 9), done.stderr
        found = tree(out) if out.exists() else {}
        missing += found not in whole
        mend(out)
        assert (tree(out) if out.exists() else {}) in whole, nth
        assert not leftovers(out)
        if done.returncode == 0:
            break
    assert nth > (5 if before else 2)  # it was killed at many points before it came through
    assert found == {**before, **NEW}
    assert missing == int(bool(before) and not moves)  # between two moves, until somebody looks


def test_a_killed_build_leaves_the_old_site_and_the_next_one_prints_anew(book):
    book.build(("es",))
    cover = book.root / "_site/es/index.html"
    before = cover.read_text(encoding="utf-8")
    book.edit("chapters/es/_preface.qmd", "Prefacio", "Prólogo")
    script = KILLED.format(nth=2) + BUILD
    assert (
        subprocess.run([sys.executable, "-c", script], cwd=book.root, check=False).returncode == 9
    )
    assert len(leftovers(book.root / "_site")) == 1
    assert cover.read_text(encoding="utf-8") == before
    book.build(("es",))
    assert cover.read_text(encoding="utf-8") == before.replace("Prefacio", "Prólogo")
    assert (book.root / "_site" / MARKER).is_file()
    assert not leftovers(book.root / "_site")


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_an_error_within_a_swap_brings_all_of_the_old_back(tmp_path, monkeypatch, fails):
    out = tmp_path / "_site"
    rename, calls = Path.rename, []

    def failing(self, target):
        calls.append(target)
        if len(calls) == fails:
            raise PermissionError(13, "no", str(target))
        return rename(self, target)

    def swap():
        with staged(out) as stage:
            start(stage, NEW)
            put(stage, out)

    start(out, OLD)
    monkeypatch.setattr(files, "exchanged", lambda *_: False)
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(PermissionError):
        swap()
    assert tree(out) == OLD
    assert not leftovers(out)


def test_a_run_that_still_works_is_left_alone(tmp_path):
    with staged(tmp_path / "_site") as one:
        (one / "page").write_text("x")
        with staged(tmp_path / "_site") as other:
            assert one.is_dir()
            assert one != other
        assert (one / "page").is_file()
