"""A notebook reads the same whatever processor runs it."""

from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from course_press.exports import notebooks as printing
from course_press.run import kernels
from course_press.run.execute import Cache
from course_press.source.book import read_book
from tests.course_press.exports.test_notebooks import PICTURE, ROOT

WIDE = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
SETTINGS = {
    "this": {},
    "narrow": {"NPY_DISABLE_CPU_FEATURES": " ".join(WIDE), "OPENBLAS_CORETYPE": "Nehalem"},
    "wide": {"NPY_DISABLE_CPU_FEATURES": " ".join(WIDE[1:]), "OPENBLAS_CORETYPE": "Haswell"},
}
"""Sets of instructions, by what keeps NumPy and BLAS to them."""


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Kernels whose products are rounded as another processor would round them."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "processor"))
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    monkeypatch.setattr(printing, "Cache", lambda _: Cache(tmp_path / "cache"))
    kernels.stop()  # the next kernel comes from a process that has these settings
    yield monkeypatch
    kernels.stop()


def differing(monkeypatch, settings, wanted):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(printing, "has_notebook", wanted)
    found = printing.print_notebooks([read_book(ROOT, "en")])
    assert found
    return [
        file.stem
        for file, text in found.items()
        if PICTURE.sub("", text) != PICTURE.sub("", file.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("stem", ["inside-a-kernel", "transformer-arithmetic"])
def test_a_chapter_that_multiplies_matrices_reads_the_same_elsewhere(elsewhere, stem):
    assert not differing(elsewhere, SETTINGS["narrow"], lambda one: one.path.stem == stem)


def test_the_other_processor_rounds_otherwise(elsewhere, book):
    book.edit(
        "chapters/cells/one/hello.qmd",
        'print("',
        'import numpy as np\nprint(int(1e16 * (np.ones(2) @ np.ones(2) / 2 - 1)), "',
    )
    (text,) = printing.print_notebooks([read_book(book.root, "en")]).values()
    assert '"2 a ``` fence' in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_notebook_reads_the_same_elsewhere(elsewhere, settings):
    assert not differing(elsewhere, settings, printing.has_notebook)
