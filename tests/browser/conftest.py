"""A browser with the network cut off, and a way to open a built page in it as a file."""

import os
import re
import shutil
from pathlib import Path
from zlib import crc32

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from course_press.exports.book import chromium
from course_press.pages import site

KEPT = 4
"""Pages of a kind that wait for the next test."""

# What tells variants of one test apart that are otherwise of one kind.
LOOK = re.compile(r"(?<![a-z])(en|es|ko|light|dark)(?![a-z])|(^|-)\d{3,4}$")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of variants that differ by page, language, scheme or width, `make test` runs every third,
    beginning elsewhere in each test, so that each language and scheme is seen; `make exhaustive`
    runs the others.
    """
    groups = {}
    for item in items:
        mine = item.path.is_relative_to(Path(__file__).parent) and hasattr(item, "callspec")
        if mine and LOOK.search(item.callspec.id) and not item.get_closest_marker("exhaustive"):
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, group in groups.items():
        step = min(len(group), 3)
        for at, item in enumerate(group):
            if at % step != crc32(name.encode()) % step:
                item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(scope="package")
def browser():
    """One for all files: each test has a context of its own in it."""
    # Chromium without its windows, where it is installed: pages take a fifth less.
    path = shutil.which("chromium-headless-shell") or chromium()
    if not path:
        message = "NO CHROMIUM: the pages are not tested in a browser (apt install chromium)"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=flags)
        yield running
        running.close()


@pytest.fixture(scope="package")
def left(browser):
    """Pages that tests are done with, by what a page cannot change about itself: a new one is a
    process more, which costs as much as a long page does.
    """
    return {}


@pytest.fixture(scope="session")
def blank(tmp_path_factory):
    """An empty page of the same origin as all that are files."""
    file = tmp_path_factory.mktemp("blank") / "blank.html"
    file.write_text("<!DOCTYPE html><title>-</title>")
    return file.as_uri()


@pytest.fixture
def fresh(browser, left, blank):
    """An empty page as wide as asked; fails on a request to anywhere else and on any error that the
    page logs. What a test puts into a page for good, such as a clock, it does to its `own`, which no
    other test gets.
    """
    opened, wrong = [], []
    watched = {
        "request": lambda one: (
            None if one.url.startswith(("file:", "data:", "blob:")) else wrong.append(one.url)
        ),
        "pageerror": lambda error: wrong.append(str(error)),
        "console": lambda message: wrong.append(message.text) if message.type == "error" else None,
    }

    def open_page(
        width=1280, own=False, color_scheme="light", reduced_motion="no-preference", **options
    ):
        idle = [] if own else left.setdefault(tuple(sorted(options.items())), [])
        page = idle.pop() if idle else browser.new_context(offline=True, **options).new_page()
        opened.append((page, None if own else idle))
        for event, act in watched.items():
            page.on(event, act)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media="null", color_scheme=color_scheme, reduced_motion=reduced_motion)
        return page

    yield open_page
    for page, idle in opened:
        if idle is None or len(idle) >= KEPT:
            page.context.close()
            continue
        for other in page.context.pages:
            if other != page:
                other.close()
        page.mouse.move(-1, -1)
        page.goto(blank)
        page.evaluate("localStorage.clear()")
        for event, act in watched.items():
            page.remove_listener(event, act)
        idle.append(page)
    assert wrong == []


@pytest.fixture
def visit(fresh, built):
    """Opens a page of the site `built` as a file, or any file by its whole path."""

    def open_page(path, **look):
        page = fresh(**look)
        file, mark, rest = re.match(r"([^?#]*)([?#]?)(.*)", path, re.DOTALL).groups()
        page.goto((built / file).as_uri() + mark + rest)
        return page

    return open_page


def wait_for(page, condition):
    """Until a page says so. Playwright's own way evaluates text within the page, which the page's
    policy refuses.
    """
    for _ in range(1000):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"20 s went by, and not: {condition}")


@pytest.fixture
def accessible():
    """Fails where axe finds that some reader cannot use the page, or what is named of it."""

    def check(page, *within):
        wait_for(
            page,
            "!document.querySelector('script[src$=\"course.js\"]') || 'reachable' in "
            "document.body.dataset",
        )
        # Preloading asks for files by XHR, which file:// refuses; describing what passed takes most
        # of axe's time.
        results = Axe().run(
            page, list(within) or None, options={"preload": False, "resultTypes": ["violations"]}
        )
        assert results.violations_count == 0, results.generate_report()

    return check


def print_small_book(folder, settings, cells, page, text):
    """Print a book in three languages from settings, cells by name, and one page with this text."""
    root = folder.with_name(f"{folder.name}-book")
    (root / "chapters" / "cells").mkdir(parents=True)
    (root / "_quarto.yml").write_text(settings)
    (root / "index.qmd").write_text("# Welcome {.unnumbered}\n\nA book.\n")
    for name, cell in cells.items():
        (root / "chapters" / "cells" / f"{name}.qmd").write_text(cell)
    langs = ("en", "es", "ko")
    for lang in langs:
        (root / "chapters" / lang).mkdir()
        (root / f"_quarto-{lang}.yml").write_text(
            f"lang: {lang}\nproject: {{output-dir: _site/{lang}}}\n"
            f"book:\n  title: A book\n  chapters: [index.qmd, chapters/{lang}/{page}.qmd]\n"
        )
        (root / "chapters" / lang / f"{page}.qmd").write_text(text)
    site.build(root, langs, folder)
