import base64
import io
import json
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import nbformat
import numpy as np
import pytest
from matplotlib.image import imread, imsave

from course_lib import CourseError
from course_book import plot
from course_press.exports import notebooks
from course_press.exports.notebooks import has_notebook, print_notebooks, write_notebooks
from course_press.pages import pandoc as printing
from course_press.run import execute as running
from course_press.source.book import languages
from tests.the_book import the_book

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    from tests.course_press.conftest import Copy

    book = Copy(tmp_path_factory.mktemp("notebooks") / "book")
    files = write_notebooks(book.root, ["en"])
    assert [file.name for file in files] == ["one.ipynb"]  # the other pages have no cell
    return nbformat.read(files[0], as_version=4)


def texts(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def test_features_become_plain_markdown(notebook):
    text = texts(notebook)
    for part in (
        "# Chapter one",
        "## 1.1 First section",
        "### 1.1.1 Subsection",
        "The ridge is 500\u00a0FLOP/B",
        "see Figure\u00a01.1, Table\u00a01.1",
        "Only the number: 1.1.",
        "Elsewhere: Section\u00a02.1",
        "(Williams et al. 2009)",
        "A note.(The footnote.)",
        "**Figure\u00a01.1.** A caption with 2\u00a0TB/s in it.",
        "\\tag{1.1}$$",
        "> **Titled by a heading**\n>\n> In a note.",
        "> **Folded *tip***",
        "**Tab two**\n\nSecond tab.",
        "> In the margin.",
        "Not Spanish.",
        "*Communications of the ACM*",
    ):
        assert part in text, part
    for part in (":::", "{#", "{{<", "Only Spanish", "@fig", "](#", "<div", "course-cell"):
        assert part not in text, part


def test_cells_keep_code_order_ids_and_outputs(notebook):
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.id for cell in cells] == [
        "one-install",
        "one-setup-0",
        "one-line-1",
        "one-words-2",
        "one-hello-3",
    ]
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4, 5]
    assert cells[0].source.startswith("import importlib.util")
    assert "git+https://github.com/example/book@v0.1.0" in cells[0].source
    assert "image/png" in cells[2].outputs[0].data
    assert "text/markdown" in cells[3].outputs[0].data
    assert cells[4].outputs[0].text.startswith("a ``` fence")


def test_nothing_of_the_machine_or_the_hour_is_in_it(notebook):
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert "0x" not in json.dumps(
        [cell.get("outputs", []) for cell in notebook.cells if "png" not in str(cell)]
    )


def test_cells_run_once_for_pages_and_notebooks_and_notebooks_print_no_page(book, monkeypatch):
    started, printed = [], []
    execute, print_page = running._execute, printing.print_page
    monkeypatch.setattr(running, "_execute", lambda *args: started.append(1) or execute(*args))
    monkeypatch.setattr(printing, "print_page", lambda *a: printed.append(1) or print_page(*a))
    book.forget()
    write_notebooks(book.root, ["en"])
    assert (len(started), len(printed)) == (1, 0)
    book.build(("en",))
    # The cover and the chapters; only one has cells, and they have run.
    assert (len(started), len(printed)) == (1, 3)


def test_another_language_sets_itself(tmp_path):
    from tests.course_press.conftest import Copy

    book = Copy(tmp_path / "book")
    file = write_notebooks(book.root, ["es"])[0]
    assert 'os.environ[\\"COURSE_LANG\\"] = \\"es\\"' in file.read_text(encoding="utf-8")
    assert "# Capítulo uno" in file.read_text(encoding="utf-8")


def test_one_chapter_alone_can_be_printed_and_no_other_is_touched(book):
    other = book.root / "notebooks" / "en" / "two.ipynb"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    assert [file.name for file in write_notebooks(book.root, ["en"], ["one"])] == ["one.ipynb"]
    assert other.read_text() == "mine"
    with pytest.raises(CourseError, match="chapter 'two' has no notebook: choose from one"):
        write_notebooks(book.root, ["en"], ["two"])


def test_translations_have_the_same_cells_and_nothing_that_they_gave(book):
    cells = {}
    for lang in ("en", "es"):
        (file,) = write_notebooks(book.root, [lang])
        cells[lang] = [
            cell
            for cell in nbformat.read(file, as_version=4).cells
            if cell.cell_type == "code" and not cell.id.endswith("-install")
        ]
    assert [(cell.id, cell.source) for cell in cells["en"]] == [
        (cell.id, cell.source) for cell in cells["es"]
    ]
    assert any(cell.outputs for cell in cells["en"])
    assert {(len(cell.outputs), cell.execution_count) for cell in cells["es"]} == {(0, None)}


def test_nbval_tells_a_changed_output_from_the_printed_one(tmp_path):
    """Proves that the run of nbval over all notebooks in `make test` can fail."""
    from tests.course_press.conftest import Copy

    file = write_notebooks(Copy(tmp_path / "book").root, ["en"])[0]
    text = file.read_text(encoding="utf-8")
    changed = file.with_name("changed.ipynb")
    changed.write_text(text.replace("333 TFLOP/s", "334 TFLOP/s"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "-rf", "--nbval"]
    done = subprocess.run(
        [*command, str(changed)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert len(re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)) == 1
    assert re.search(r"\b[3-9] passed", done.stdout)  # its other cells


PICTURE = re.compile(r'"image/png": "([^"]*)"')


def pictures(text):
    """The pictures of a notebook, their pixels from 0 to 255."""
    return [
        255 * imread(io.BytesIO(base64.b64decode(data.replace("\\n", ""))))
        for data in PICTURE.findall(text)
    ]


def same(one, other):
    """Whether two notebooks say the same and show the same: of ten thousand pixels of a picture,
    less than one differs by more than an eye could see (another processor's last bit moves one from
    a colour of the palette to the next).
    """
    if one == other:
        return True
    if PICTURE.sub("", one) != PICTURE.sub("", other):
        return False
    pairs = list(zip(pictures(one), pictures(other), strict=True))
    return all(a.shape == b.shape and np.mean(np.abs(a - b) > 4) < 1e-4 for a, b in pairs)


def test_a_difference_that_can_be_seen_is_told_from_one_that_cannot():
    @cache
    def drawn(peak, shade):
        figure = plot.roofline({"A": (peak, 3e12)}, {"x": 1.5}, shade=shade)
        return imread(io.BytesIO(figure.png()))

    def notebook(peak=1e15, shade=False, edit=lambda pixels: pixels):
        file = io.BytesIO()
        imsave(file, edit(drawn(peak, shade)), format="png")
        return f'{{"image/png": "{base64.b64encode(file.getvalue()).decode()}\\n", "text": "2"}}'

    def nudged(pixels):
        return np.clip(pixels + np.random.default_rng(1).integers(-1, 2, pixels.shape) / 255, 0, 1)

    one = notebook()
    assert one != notebook(edit=nudged)
    assert same(one, notebook(edit=nudged))
    assert not same(one, notebook(peak=1.001e15))
    assert not same(one, notebook(shade=True))
    assert not same(one, notebook(edit=lambda pixels: pixels[1:]))
    assert not same(one, notebook().replace('"text": "2"', '"text": "3"'))


STEMS = sorted(one.path.stem for one in the_book("en").chapters if has_notebook(one))


def are_as_printed(lang, stems, part=str):
    for file, text in print_notebooks([the_book(lang)], stems).items():
        assert same(part(file.read_text(encoding="utf-8")), part(text)), (
            f"{file.relative_to(ROOT)} is out of date: run course notebooks"
        )


@pytest.mark.parametrize(
    ("lang", "stems"),
    [
        ("en", STEMS[::4]),
        ("es", STEMS[1::8]),
        ("ko", STEMS[2::8]),
        *(pytest.param(lang, STEMS, marks=pytest.mark.exhaustive) for lang in languages(ROOT)),
    ],
)
def test_committed_notebooks_are_what_the_chapters_print(lang, stems):
    are_as_printed(lang, stems)


def test_all_have_the_code_of_their_chapters_and_what_it_gave(monkeypatch):
    """Without their prose, which pandoc takes most of the time to print."""

    def unprinted(_book, _chapter, text, *_):
        return re.sub(r"^```\{\.course-cell\}$", "``` course-cell", text, flags=re.MULTILINE)

    def code(text):
        cells = json.loads(text)["cells"]
        return json.dumps([cell for cell in cells if cell["cell_type"] == "code"])

    monkeypatch.setattr(notebooks, "run_pandoc", unprinted)
    are_as_printed("en", STEMS, code)


def test_no_other_notebook_is_committed():
    committed = {str(one.relative_to(ROOT)) for one in (ROOT / "notebooks").glob("*/*.ipynb")}
    assert committed == {
        f"notebooks/{lang}/{one}.ipynb" for lang in languages(ROOT) for one in STEMS
    }


@pytest.mark.parametrize("file", sorted((ROOT / "notebooks" / "en").glob("*.ipynb")), ids=str)
def test_no_caption_of_a_committed_notebook_stands_alone(file):
    cells = nbformat.read(file, as_version=4).cells
    for before, cell in pairwise(cells):
        if re.match(r"\*\*\S+\s[\d.]+\.\*\*", cell.source) and before.cell_type == "code":
            assert before.outputs, f"{file}: {cell.source}"


def test_a_cell_that_is_only_shown_is_left_to_the_reader(book):
    cell = book.root / "chapters" / "cells" / "one" / "hello.qmd"
    cell.write_text('```{python}\n#| eval: false\nprint("measured here")\n```\n')
    for lang in ("en", "es"):
        write_notebooks(book.root, [lang])
        cells = nbformat.read(book.root / "notebooks" / lang / "one.ipynb", as_version=4).cells
        shown = [cell for cell in cells if cell.cell_type == "code"][-1]
        assert (shown.source, shown.outputs, shown.execution_count) == (
            'print("measured here")',
            [],
            None,
        )
        assert shown.metadata.tags == ["nbval-skip"]


def test_the_cover_is_no_notebook(book):
    book.edit(
        "chapters/en/_preface.qmd", "English preface", "```{python}\n1\n```\n\nEnglish preface"
    )
    assert [file.stem for file in write_notebooks(book.root, ["en"])] == ["one"]
