"""What is made of the same stays as it is, and a build that is killed leaves a whole site."""

import subprocess
import sys

import pytest

from course_lib import CourseError
from tests.course_press.conftest import course

KILLED = """
import os, sys
from pathlib import Path
from course_press.pages import site

def build(at):
    seen = 0
    def heard(event, args):
        nonlocal seen
        if event.startswith(("open", "os.")) and "stage-" in str(args):
            seen += 1
            if seen == at:
                os._exit(9)
    sys.addaudithook(heard)
    site.build(Path.cwd(), ("en", "es"), Path.cwd() / "_site")
    print(seen, end=" ")

for line in sys.stdin:
    if (pid := os.fork()) == 0:
        build(int(line))
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Builds once for each number that it reads, killed at that write, in a process of its own."""


def files(folder):
    return {
        file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


def times(folder):
    return {file.relative_to(folder): file.stat().st_mtime_ns for file in folder.rglob("*")}


def test_where_nothing_changed_nothing_is_written(book):
    book.build(("en", "es"))
    before, place = times(book.root), (book.root / "_site").stat().st_ino
    book.build(("en", "es"))
    after = times(book.root)
    # Of the results that were kept, their time says when they were last of use.
    moved = {
        path for path in after if after[path] != before.get(path) and ".cache" not in path.parts
    }
    assert not {path for path in moved if "_site" in path.parts}
    assert (book.root / "_site").stat().st_ino == place


def test_a_changed_sentence_moves_its_page_its_deck_and_the_search(book):
    book.build(("en", "es"))
    before, old = times(book.root / "_site"), files(book.root / "_site")
    book.edit("chapters/en/two.qmd", "Back to", "Back at last to")
    book.build(("en", "es"))
    after, new = times(book.root / "_site"), files(book.root / "_site")
    moved = {str(path) for path in new if after[path] != before.get(path)}
    # The Spanish page says that its English has moved on.
    pages = {"en/chapters/en/two.html", "es/chapters/es/two.html"}
    assert moved == {*pages, "en/slides/two.html", "en/search.js"}
    assert {str(path) for path in new if new[path] != old.get(path)} == moved


def test_a_chapter_printed_alone_moves_its_page_and_its_deck(book):
    book.build(("en", "es"))
    before, old = times(book.root / "_site"), files(book.root / "_site")
    book.edit("chapters/en/two.qmd", "Back to", "Back at last to")
    done = course(book.root, "build", "two", "--lang", "en")
    assert done.returncode == 0, done.stderr
    assert "1 page in en" in done.stdout
    assert "_site/en/chapters/en/two.html" in done.stdout
    assert "stay as they stand" in done.stdout
    after, new = times(book.root / "_site"), files(book.root / "_site")
    moved = {"en/chapters/en/two.html", "en/slides/two.html"}
    assert {str(path) for path in new if after[path] != before.get(path)} == moved
    # The whole book then has the same page, and what lists it.
    book.build(("en", "es"))
    whole = files(book.root / "_site")
    assert {str(path) for path in whole if whole[path] != new[path]} == {
        "en/search.js",
        "es/chapters/es/two.html",
    }
    assert set(whole) == set(old)


def test_a_chapter_can_be_printed_before_there_is_a_site(book):
    (page,) = book.build(only=["one"])
    assert page == book.root / "_site/en/chapters/en/one.html"
    assert "two.html#sec-there" in page.read_text(encoding="utf-8")
    assert (book.root / "_site/assets/style.css").is_file()
    with pytest.raises(CourseError, match="'on' is no page that can be printed alone: choose from"):
        book.build(only=["on"])
    with pytest.raises(CourseError, match="'index' is no page"):
        book.build(only=["index"])


def test_what_no_page_asks_for_any_more_goes(book):
    book.build(("en",))
    out = book.root / "_site" / "en"
    (out / "stranger.html").write_text("not of this build")
    two = out / "chapters/en/two.html"
    whole = two.read_bytes()
    two.write_text("changed by hand")
    book.build(("en",))
    assert not (out / "stranger.html").exists()
    assert two.read_bytes() == whole


@pytest.mark.skipif(sys.platform == "win32", reason="no process is forked there")
def test_a_build_killed_at_any_moment_leaves_a_whole_site(book):
    book.build(("en", "es"))
    before = files(book.root / "_site")
    book.edit("chapters/en/two.qmd", "Back to", "Back at last to")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", KILLED], cwd=book.root, **pipes) as builds:

        def run(at):
            print(at, file=builds.stdin, flush=True)
            return [int(word) for word in builds.stdout.readline().split()]

        moments, code = run(0)
        assert code == 0
        after = files(book.root / "_site")
        assert after != before
        assert moments > 8
        for at in range(1, moments + 1, max(1, moments // 5)):
            # The next change, from a site that stands.
            book.edit("chapters/en/two.qmd", "at last", "at last at last")
            if (done := run(at))[-1] == 0:  # it had less to do than the first
                assert at > moments // 2
                break
            assert done == [9]
            assert files(book.root / "_site") == after
            book.build(("en", "es"))
            after = files(book.root / "_site")
    assert not list(book.root.glob("._site*"))
