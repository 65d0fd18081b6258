"""A notebook reads the same whatever processor runs it."""

from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from course_press.exports import notebooks as printing
from course_press.run import kernels
from course_press.run.execute import Cache
from course_press.source.book import read_book
from tests.course_press.exports.test_notebooks import PICTURE
from tests.the_book import the_book

WIDE = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
SETTINGS = {
    "this": {},
    "narrow": {"NPY_DISABLE_CPU_FEATURES": " ".join(WIDE), "OPENBLAS_CORETYPE": "Nehalem"},
    "wide": {"NPY_DISABLE_CPU_FEATURES": " ".join(WIDE[1:]), "OPENBLAS_CORETYPE": "Haswell"},
}
"""Sets of instructions, by what keeps NumPy and BLAS to them."""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Kernels whose products are rounded as another, narrow processor would round them."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "processor"))
        patch.setenv("PYTHONPYCACHEPREFIX", str(folder / "compiled"))
        patch.setattr(printing, "Cache", lambda _: Cache(folder / "cache"))
        become(patch, "narrow")
        yield patch
    kernels.stop()


def become(patch, name):
    for setting in SETTINGS["narrow"]:
        patch.delenv(setting, raising=False)
    for setting, value in SETTINGS[name].items():
        patch.setenv(setting, value)
    kernels.stop()  # the next kernel comes from a process that has these settings


def differing(patch, wanted):
    patch.setattr(printing, "has_notebook", wanted)
    found = printing.print_notebooks([the_book("en")])
    assert found
    return [
        file.stem
        for file, text in found.items()
        if PICTURE.sub("", text) != PICTURE.sub("", file.read_text(encoding="utf-8"))
    ]


def test_a_chapter_that_multiplies_matrices_reads_the_same_elsewhere(elsewhere, monkeypatch):
    assert not differing(monkeypatch, lambda one: one.path.stem == "inside-a-kernel")


def test_the_other_processor_rounds_otherwise(elsewhere, book):
    book.edit(
        "chapters/cells/one/hello.qmd",
        'print("',
        'import numpy as np\nprint(int(1e16 * (np.ones(2) @ np.ones(2) / 2 - 1)), "',
    )
    (text,) = printing.print_notebooks([read_book(book.root, "en")]).values()
    assert '"2 a ``` fence' in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SETTINGS)
def test_every_notebook_reads_the_same_elsewhere(elsewhere, name):
    become(elsewhere, name)
    assert not differing(elsewhere, printing.has_notebook)
