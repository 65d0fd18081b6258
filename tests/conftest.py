"""Settings that every test shares, and what is built once for all of them."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from course_press.pages import site
from course_press.pages.pandoc import kept
from course_press.source.book import languages

# The machines are noisy and runs must repeat: no deadlines, no new examples at each run.
settings.register_profile("book", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("book")
os.environ.pop("COURSE_LANG", None)
os.environ.pop("COURSE_PRINT", None)
# Cold operands are several times the cache, of which some machines show half a gigabyte.
os.environ.setdefault("COURSE_CACHE", str(8 << 20))

ROOT = Path(__file__).parent.parent
# It has a process compile otherwise than we do, and keep that: for those that are started for it.
collect_ignore = ["course_press/run/processor/sitecustomize.py"]


def once(tmp_path_factory, name, make):
    """A folder that all processes of a run of tests share: whichever asks first has it made, and
    the others wait.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            make(folder)
    return folder


def print_whole_book(folder):
    """From what `make book` has made, as the next build would: what would be made of the same again
    is copied.
    """
    made, langs, results = ROOT / "_site", languages(ROOT), kept(ROOT)
    known = results.get(results.key("site", str(made)))
    if known and all((made / lang).is_dir() for lang in langs):
        for lang in langs:
            shutil.copytree(made / lang, folder / lang)
        shutil.copy(made / site.MARKER, folder)
        results.put(results.key("site", str(folder)), known)
    site.build(ROOT, langs, folder)


@pytest.fixture(scope="session")
def whole_book(tmp_path_factory):
    """The site of the book itself in every language, for tests that only read it."""
    return once(tmp_path_factory, "whole-book", print_whole_book)
