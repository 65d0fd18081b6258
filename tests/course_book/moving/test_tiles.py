"""Tiles over a product and over attention: what is counted at the end is what the library counts."""

import pytest

from course_lib import CourseError, chip, ops, roofline, total
from course_book import moving, n

H100 = chip("h100-sxm")


def texts(scene, step):
    return [shape.at("text", step) for shape in scene.shapes if shape.tag == "text"]


def last(scene):
    return len(scene.says) - 1


@pytest.fixture(scope="module")
def product():
    return moving.tiled_product(H100)


@pytest.fixture(scope="module")
def attention():
    return moving.flash_attention(H100)


@pytest.mark.parametrize("side", [128, 256, 512, 1024])
@pytest.mark.parametrize("size", [0, 1])
def test_a_walk_ends_at_the_bytes_and_the_times_of_the_tiled_product(product, side, size):
    work = ops.tiled_matmul(1024, 1024, 1024, side, side)
    step = roofline(work, H100)
    scene = product.scenes[f"{n(side)} × {n(side)}"][size]
    said = texts(scene, last(scene))
    assert {n(work.bytes, "B"), n(step.t_memory, "s"), n(step.t_math, "s")} <= set(said)
    assert n(work.intensity, "FLOP/B") in said
    assert n(work.bytes, "B") in scene.says[-1]


@pytest.mark.parametrize("side", [128, 256, 512, 1024])
def test_each_part_of_the_product_is_computed_once_and_no_step_takes_bytes_back(product, side):
    wide = product.scenes[f"{n(side)} × {n(side)}"][0]
    done = [s for s in wide.shapes if s.tag == "rect" and s.at("tone", 0) == "math"]
    bar, rows = done[-1], done[:-1]
    frame = wide.shapes[2]
    side_of, widths = frame.at("width", 0), [row.at("width", last(wide)) for row in rows]
    tall = [row.at("height", 0) for row, width in zip(rows, widths, strict=True) if width]
    assert sum(tall) == pytest.approx(side_of, abs=1)
    assert [width for width in widths if width] == pytest.approx([side_of] * len(tall), abs=0.1)
    grown = [bar.at("width", step) for step in range(len(wide.says))]
    assert grown == sorted(grown)


@pytest.mark.parametrize("side", [128, 256, 512, 1024])
def test_a_walk_plays_as_many_times_slower_as_it_says(product, side):
    wide = product.scenes[f"{n(side)} × {n(side)}"][0]
    lower = roofline(ops.tiled_matmul(1024, 1024, 1024, side, side), H100).lower
    assert sum(wide.seconds[2:-1]) == pytest.approx(lower * 1e6, rel=0.01)


def test_stored_scores_end_at_the_bytes_of_the_three_kernels(attention):
    parts = ops.attention_standard(1, 1024, 1024, 1, 1, 64)
    whole = total(**{name: roofline(work, H100) for name, work in parts.items()})
    for scene in attention.scenes["scores stored"]:
        said = texts(scene, last(scene))
        assert {n(whole.bytes, "B"), n(whole.t_memory, "s"), n(whole.t_math, "s")} <= set(said)


@pytest.mark.parametrize("rows", [128, 256])
def test_blocks_of_queries_end_at_the_bytes_of_tiled_attention(attention, rows):
    work = ops.attention_tiled(1, 1024, 1024, 1, 1, 64, rows=rows)
    for scene in attention.scenes[f"R = {rows}"]:
        said = texts(scene, last(scene))
        assert {n(work.bytes, "B"), n(work.intensity, "FLOP/B")} <= set(said)
    wide = attention.scenes[f"R = {rows}"][0]
    assert sum(wide.seconds[1:-1]) == pytest.approx(roofline(work, H100).lower * 3e6, rel=0.01)


def test_scores_are_in_memory_only_where_they_are_stored(attention):
    """The square fills with stored scores; in blocks nothing of it is ever in memory."""
    for name, (wide, _) in attention.scenes.items():
        square = wide.shapes[5].at("width", 0)
        inside = [
            shape.at("opacity", step)
            for shape in wide.shapes
            if shape.tag == "rect"
            and shape.at("tone", 0) == "memory"
            and shape.at("width", 0) == square
            for step in range(len(wide.says))
        ]
        assert any(inside) == (name == "scores stored")


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        (lambda: moving.tiled_product(H100, 1024, (100, 200)), "tiles must divide"),
        (lambda: moving.tiled_product(H100, 1024, (16, 256)), "8 parts at most"),
        (lambda: moving.tiled_product(H100, 1024, (256,)), "two sizes at least"),
        (lambda: moving.flash_attention(H100, 1024, rows=(100,)), "rows must divide"),
    ],
)
def test_what_cannot_be_drawn_is_refused(made, refused):
    with pytest.raises(CourseError, match=refused):
        made()
