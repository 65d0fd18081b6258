import os
import shutil
import sys
import time
from pathlib import PurePath

import pytest

from course_lib import CourseError
from course_lib.bench import results
from course_tools.measured import FOLDER
from course_press.pages.pandoc import print_pages
from course_press.run import execute as running
from course_press.run import kernels as forked
from course_press.run.bundles import FORMS, form
from course_press.run.execute import Cache, Surroundings, run_chapter
from course_press.source.book import read_book
from course_press.source.errors import SourceError

SETUP, LINE, HELLO, ONE = (
    "chapters/cells/one/setup.qmd",
    "chapters/cells/one/line.qmd",
    "chapters/cells/one/hello.qmd",
    "chapters/en/one.qmd",
)


def ran(book, lang="en", own=False):
    chapter = read_book(book.root, lang).chapters[1]
    return run_chapter(
        chapter,
        root=book.root,
        lang=lang,
        own=own,
        cache=Cache(book.root / ".cache"),
        around=Surroundings(book.root),
    )


@pytest.fixture
def kernels(book, monkeypatch):
    """Counts the kernels that are started; a figure in letters takes no time."""
    figure = """plot.flow("a", [("b?", "no", "c", "yes")], "d", title="e", again="f")"""
    book.edit(LINE, 'plot.roofline({"X": (peak, bandwidth)}, {"A": 10})', figure)
    started = []
    execute = running._execute
    monkeypatch.setattr(running, "_execute", lambda *args: started.append(1) or execute(*args))
    return started


def test_cells_and_inlines_give_their_values(book):
    result = ran(book)
    assert result.inlines == ["500 FLOP/B", "1 PFLOP/s", "2 TB/s"]
    assert [len(outputs) for outputs in result.outputs] == [0, 1, 1, 1]
    assert result.outputs[3][0]["text"] == "a ``` fence and a <b>tag</b>\n"
    # The plain text beside it is what IPython adds; it holds no address that differs from run to
    # run.
    assert result.outputs[1][0]["data"].pop("text/plain") == "Plot()"
    assert list(result.outputs[1][0]["data"]) == [FORMS]


@pytest.mark.parametrize(("lang", "pictures"), [("en", 2), ("es", 1)])
def test_only_the_first_language_draws_more_than_one_picture(book, lang, pictures):
    """Its notebooks keep them; of another language a page's card needs one."""
    more = book.root / f"chapters/{lang}/one.qmd"
    again = "\n{{< include ../cells/one/line.qmd >}}\n"
    more.write_text(more.read_text(encoding="utf-8") + again, encoding="utf-8")
    assert str(ran(book, lang).outputs).count("'image/png'") == pictures


def test_a_kernel_that_does_not_start_is_told(book, monkeypatch):
    forked.stop()
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises((CourseError, SourceError), match=r"no kernel could be started"):
        ran(book)
    forked.stop()


def test_the_language_reaches_the_kernel_and_cells_give_every_form(book):
    assert ran(book, lang="es").inlines == ["500 FLOP/B", "1 PFLOP/s", "2 TB/s"]
    assert "rendimiento pico" in ran(book, lang="es").outputs[2][0]["data"]["text/markdown"]
    data = ran(book).outputs[1][0]["data"]
    assert {to: set(form(data, to)) for to in ("site", "notebook")} == {
        "site": {"text/markdown", "text/plain"},
        "notebook": {"image/png", "text/plain"},
    }


def test_the_readers_own_results_reach_the_site_and_no_notebook(book, monkeypatch, kernels):
    book.edit(HELLO, "print(", "from course_tools import measured\nprint(len(measured.lab('00')), ")
    own_file = book.root / "labs" / "00-three" / "results" / "local" / "results.csv"
    row = results.read(next(FOLDER.glob("lab-00/*/results.csv")))[0]
    results.append(own_file, row)
    monkeypatch.setenv("COURSE_RESULTS", "/nowhere")  # of the reader's own shell
    counts = [
        int(ran(book, own=own).outputs[3][0]["text"].split()[0]) for own in (True, False, True)
    ]
    assert counts[0] == counts[1] + 1 == counts[2]
    assert len(kernels) == 2
    own_file.unlink()
    assert ran(book, own=True) == ran(book)
    assert len(kernels) == 2  # nobody measured: pages and notebooks share a run


def test_the_site_draws_the_readers_own_results(book):
    book.edit(HELLO, "print(", "from course_tools import measured\nprint(len(measured.lab('77')), ")
    own_file = book.root / "labs" / "77-mine" / "results" / "local" / "results.csv"
    rows = results.read(next(FOLDER.glob("lab-00/*/results.csv")))[:7]
    for row in rows:
        results.append(own_file, row)
    (pages,) = print_pages([read_book(book.root, "en")])
    assert any("7 a ``` fence" in page.body for page in pages)


@pytest.mark.parametrize("forks", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_no_locale_of_the_readers_reaches_a_kernel_or_a_figure(book, monkeypatch, forks):
    """A font may join "fl" into one sign, or not, by the locale: where the Spanish one is
    installed, DejaVu Sans does not.
    """
    if forks and not forked.FORKS:
        pytest.skip("kernels are forked on Linux only")
    monkeypatch.setattr(forked, "FORKS", forks)
    book.edit("chapters/cells/one/line.qmd", '{"A": 10}', '{"A": 10, "prefill, flops": 20}')
    book.edit(
        HELLO,
        "print(",
        "import locale, os\nlocale.setlocale(locale.LC_ALL, "
        "'')\nprint(os.environ['LC_ALL'], 'İ'.lower(), ",
    )
    printed = []
    for name in ("es_ES.UTF-8", "tr_TR.UTF-8"):
        for variable in ("LC_ALL", "LC_CTYPE", "LANG"):
            monkeypatch.setenv(variable, name)
        forked.stop()  # the next kernel comes from a process that has this locale
        printed.append(ran(book))
        shutil.rmtree(book.root / ".cache")
    forked.stop()
    assert printed[0].outputs[3][0]["text"].startswith("C.UTF-8 ")
    assert printed[1] == printed[0]


def test_prose_edits_run_nothing_and_code_edits_do(book, kernels):
    first = ran(book)
    book.edit(ONE, "A first paragraph.", "Quite another paragraph,\nwith a line more.")
    assert ran(book) == first
    assert len(kernels) == 1
    book.edit(SETUP, "2e12", "4e12")
    assert ran(book).inlines[0] == "250 FLOP/B"
    book.edit(ONE, "n(bandwidth, ", "n(2 * bandwidth, ")
    assert ran(book).inlines[2] == "8 TB/s"
    assert len(kernels) == 3


def test_every_run_follows_the_variables_that_steer_it(tmp_path, monkeypatch):
    """Else a page keeps what another setting gave."""

    def key():
        return Surroundings(tmp_path).key

    seen = [key()]

    def moved(*, by):
        seen.append(key())
        assert seen[-1] not in seen[:-1], by

    monkeypatch.setenv("COURSE_CHIPS", str(tmp_path))
    moved(by="COURSE_CHIPS")
    monkeypatch.setenv("MATPLOTLIBRC", str(tmp_path / "rc"))
    (tmp_path / "rc").write_text("font.size: 11")
    moved(by="matplotlib's settings")
    (tmp_path / "rc").write_text("font.size: 12")
    moved(by="another size")
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    moved(by="the time zone")
    for name in ("TERM", "COURSE_LANG", "COURSE_PRINT", "COURSE_RESULTS", "COURSE_CACHE"):
        monkeypatch.setenv(name, "es")
    assert key() == seen[-1]


def showing(book, code):
    book.edit(HELLO, "print(", f"{code}\nprint(")


def test_a_changed_file_runs_again_what_opened_it_and_nothing_else(book, kernels):
    for name in ("mine", "other"):
        (book.root / f"{name}.txt").write_text("1")
    book.edit(
        "chapters/en/two.qmd",
        "Back to",
        "```{python}\nprint(open('other.txt').read())\n```\n\nBack to",
    )
    showing(book, "print(open('mine.txt').read())")
    book.build()
    book.build()
    assert len(kernels) == 2
    (book.root / "mine.txt").write_text("22")
    book.build()
    assert len(kernels) == 3
    page = (book.root / "_site/en/chapters/en/one.html").read_text(encoding="utf-8")
    assert "22" in page
    (book.root / "mine.txt").write_text("1")  # as it was once
    book.build()
    assert len(kernels) == 3


def test_a_file_that_was_missing_or_lies_beside_others_is_seen(book, kernels):
    folder = book.root / "data"
    folder.mkdir()
    showing(book, "import glob, os\nfor one in sorted(glob.glob('data/*')): print(one)")
    for name in ("a.txt", "b.txt"):
        (folder / name).touch()
        assert f"data/{name}\n" in ran(book).outputs[3][0]["text"]
        ran(book)
    assert len(kernels) == 2
    book.edit(
        HELLO,
        "import glob, os",
        "import glob, contextlib\nwith contextlib.suppress(OSError): print(open('late.txt').read())",
    )
    assert "here" not in ran(book).outputs[3][0]["text"]
    (book.root / "late.txt").write_text("here")
    assert "here" in ran(book).outputs[3][0]["text"]


def test_what_a_cell_wrote_itself_is_nothing_it_depends_on(book, kernels):
    showing(
        book,
        "import random\nopen('own.txt', 'w').write(str(random.random()))\nopen('own.txt').read()",
    )
    assert [ran(book) for _ in range(2)]
    assert len(kernels) == 1


def test_a_changed_module_runs_again_what_imported_it(book, kernels):
    module = book.root / "helper.py"
    module.write_text("value = 1")
    (book.root / "stranger.py").write_text("value = 1")
    showing(book, "import helper\nprint(helper.value)")
    for text, runs in (("value = 1", 1), ("value = 22", 2)):
        if module.read_text() != text:
            module.write_text(text)
        assert ran(book).outputs[3][0]["text"].startswith(text.split()[-1])
        (book.root / "stranger.py").write_text(f"other = {runs}")
        ran(book)
        assert len(kernels) == runs


def test_every_module_of_the_library_that_a_cell_reaches_is_seen(book, tmp_path):
    showing(book, "from course_tools import measured\nprint(len(measured.FOLDER.name))")
    ran(book)
    (entry,) = [
        found[0]
        for file in (book.root / ".cache").glob("*.json")
        if isinstance(found := Cache(file.parent).get(file.stem), list)
    ]
    used = entry["used"]
    names = {name.partition("/")[2] for name in used["file"]}
    assert {"measured/__init__.py", "outputs/forms.py", "plot/__init__.py"} <= {
        "/".join(name.split("/")[-2:]) for name in names
    }
    assert {"numpy", "matplotlib", "ipython"} <= set(used["package"])
    assert not {"pytest", "torch", "hypothesis", "setuptools"} & set(used["package"])


def test_another_distribution_runs_nothing_and_one_that_is_used_does(book, monkeypatch, kernels):
    ran(book)
    site = book.root / "site"
    (site / "stranger-1.0.dist-info").mkdir(parents=True)
    (site / "stranger-1.0.dist-info" / "METADATA").write_text("Name: stranger\nVersion: 1.0\n")
    (site / "stranger.py").write_text("")
    monkeypatch.syspath_prepend(str(site))
    ran(book)
    assert len(kernels) == 1
    given = running.version
    monkeypatch.setattr(running, "version", lambda name: "0" if name == "numpy" else given(name))
    ran(book)
    assert len(kernels) == 2


def test_a_package_that_was_missing_is_seen_when_it_is_there(book, monkeypatch, kernels):
    showing(book, "import contextlib\nwith contextlib.suppress(ImportError): import stranger")
    ran(book)
    ran(book)
    assert len(kernels) == 1
    (book.root / "site").mkdir()
    (book.root / "site" / "stranger.py").write_text("")
    monkeypatch.syspath_prepend(str(book.root / "site"))
    ran(book)
    assert len(kernels) == 2


def test_what_changed_while_it_was_read_is_not_kept(book, kernels):
    (book.root / "mine.txt").write_text("1")
    showing(
        book,
        "import pathlib, os, time\nprint(open('mine.txt').read())\nos.utime('mine.txt', (2e9, 2e9))",
    )
    ran(book)
    ran(book)
    assert len(kernels) == 2


def test_a_key_takes_no_set_which_each_process_writes_in_another_order():
    assert Cache.key(["a", PurePath("b")]) == Cache.key(["a", "b"])
    with pytest.raises(TypeError, match="another order"):
        Cache.key({"path": {"a", "b"}})


def test_cache_survives_rubbish_and_forgets_what_is_old(tmp_path):
    cache = Cache(tmp_path)
    cache.put("a", {"x": 1})
    (tmp_path / "b.json").write_text("{half")
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ({"x": 1}, None, None)
    old = time.time() - 2 * running.KEEP
    os.utime(tmp_path / "a.json", (old, old))
    assert Cache(tmp_path).get("a") is None


@pytest.mark.parametrize(
    ("path", "old", "new", "where", "message"),
    [
        (
            SETUP,
            "2e12",
            "1 / 0",
            f"{SETUP}:6",
            "this cell of chapters/en/one.qmd failed with ZeroDivisionError: division by zero",
        ),
        (SETUP, "2e12", "2 +", f"{SETUP}:6", "SyntaxError"),
        (HELLO, "print(", "\n\nraise KeyError(", f"{HELLO}:5", "KeyError"),
        (
            HELLO,
            "print(",
            "class A:\n    def _repr_mimebundle_(self, **_):\n        raise KeyError(3)\nA()  # (",
            f"{HELLO}:",
            "failed with KeyError: 3",
        ),
        (
            HELLO,
            "print(",
            "def f():\n    return ridge(0, 1)\nf()\nprint(",
            f"{HELLO}:5",
            "CourseError: peak must be positive",
        ),
        (ONE, "n(peak, ", "n(paek, ", f"{ONE}:12", "NameError: name 'paek' is not defined"),
        (
            ONE,
            'n(peak, "FLOP/s")',
            "peak",
            f"{ONE}:12",
            "gives a float, not text: write it with n() or t()",
        ),
        (ONE, 'n(peak, "FLOP/s")', "'a_b'", f"{ONE}:12", "'_' would be read as Markdown"),
        (SETUP, "2e12", "2e12; import os; os._exit(1)", f"{SETUP}:1", "the kernel died"),
        (
            ONE,
            'n(peak, "FLOP/s")',
            "print('x') or 'x'",
            f"{ONE}:12",
            "failed with output of its own",
        ),
        (
            ONE,
            'n(peak, "FLOP/s")',
            "__import__('sys').exit(3)",
            f"{ONE}:12",
            "failed with SystemExit",
        ),
        (ONE, 'n(peak, "FLOP/s")', "__import__('os')._exit(1)", f"{ONE}:12", "the kernel died"),
        (ONE, 'n(peak, "FLOP/s")', "display(1) or 'x'", f"{ONE}:12", "shows something"),
    ],
)
def test_a_failure_names_chapter_file_line_and_error(book, path, old, new, where, message):
    book.edit(path, old, new)
    with pytest.raises(SourceError) as error:
        ran(book)
    assert str(error.value).startswith(where)
    assert message in str(error.value)


def test_a_cell_may_take_any_name(book):
    book.edit(
        SETUP, "2e12", "2e12; _course_inline = eval = str = type = get_ipython = Exception = None"
    )
    assert ran(book).inlines[0] == "500 FLOP/B"


def test_a_cell_that_hangs_is_stopped(book, monkeypatch):
    monkeypatch.setattr(running, "TIMEOUT", 1)
    book.edit(SETUP, "2e12", "2e12; import time; time.sleep(60)")
    with pytest.raises(SourceError, match="ran longer than 1 s"):
        ran(book)
