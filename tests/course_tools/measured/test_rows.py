"""What a row's text fields mean is read in one place."""

import re
from pathlib import Path

import pytest

from course_lib import CourseError
from course_lib.bench.rows import Row

ROOT = Path(__file__).parents[3]
ABOUT = {"device": "cpu", "kind": "cpu", "dtype": "fp32", "timing": "cold", "data": "random"}


def a_row(op, shape="8", settings=""):
    return Row(**ABOUT, op=op, shape=shape, settings=settings, status="ok")


@pytest.mark.parametrize(
    ("op", "settings", "found"),
    [
        ("all-reduce", "world=4 backend=gloo", (4, "gloo", "", "")),
        ("send", "backend=nccl world=16", (16, "nccl", "", "")),
        ("send", "", (None, "", "", "")),
        ("send", "worlds=3", (None, "", "", "")),
        ("norm", "rms path=eager", (None, "", "eager", "rms")),
        ("chain", "bias+gelu+dropout path=compiled", (None, "", "compiled", "bias+gelu+dropout")),
        ("softmax", "path=eager", (None, "", "eager", "")),
        ("attention", "path=flash world=2", (None, "", "flash", "")),
        ("matmul", 'tf32=off "x"', (None, "", "", "")),
    ],
)
def test_settings_are_what_they_say(op, settings, found):
    row = a_row(op, settings=settings)
    assert (row.world, row.transport, row.path, row.variant) == found


@pytest.mark.parametrize(
    ("op", "shape", "sizes"),
    [("matmul", "8x16x32", (8, 16, 32)), ("copy", "4096", (4096,)), ("norm", "8x4", (8, 4))],
)
def test_a_shape_is_its_whole_numbers(op, shape, sizes):
    assert a_row(op, shape).sizes == sizes


@pytest.mark.parametrize(
    "shape", ["", "8", "8x8", "8x8x8x8", "8x0x8", "8x-1x8", "8x1.5x8", "axbxc"]
)
def test_a_shape_that_is_none_is_refused(shape):
    with pytest.raises(CourseError, match=re.escape(f"BxDxF, three whole numbers (got {shape!r})")):
        _ = a_row("matmul", shape).sizes


def test_nothing_else_takes_settings_or_shapes_apart():
    apart = re.compile(
        r"\.(settings|shape)\.(split|r?partition|replace|endswith|startswith|removeprefix)\("
        r"|\bin row\.settings|re\.\w+\([^)]*\.(settings|shape)\b"
    )
    sources = [
        *ROOT.glob("course_lib/**/*.py"),
        *ROOT.glob("course_press/**/*.py"),
        *ROOT.glob("chapters/cells/**/*.qmd"),
        *ROOT.glob("labs/*/*.*"),
    ]
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for file in sources
        if file.name != "rows.py"
        for match in apart.finditer(file.read_text(encoding="utf-8"))
    ]
    assert not found
