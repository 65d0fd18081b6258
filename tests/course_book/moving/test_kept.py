"""What every choice of a picture shares: a page prints one of them, and only moves the rest."""

import pytest

from course_lib import chip, occupancy, ops
from course_book import moving
from course_book.text import in_language
from tests.each import each

H100 = chip("h100-sxm")
PICTURES = {
    "tiled_product": lambda: moving.tiled_product(H100),
    "flash_attention": lambda: moving.flash_attention(H100),
    "fuse": lambda: moving.fuse(H100),
    "waves": lambda: moving.waves(chip("a100-sxm-80")),
    "coalescing": moving.coalescing,
    "batching": lambda: moving.batching("llama-3-8b", H100),
    "exchange": lambda: moving.exchange({"a": (8e-6, 16e-6), "b": (1e-4, 2e-4)}, (7e6, 14e6)),
    "multicast": lambda: moving.multicast(8192, 64),
    "guesses": lambda: moving.guesses({"1": (0.2, 1.0), "256": (0.3, 3.3)}),
    "pipeline": lambda: moving.pipeline(4, 8, forward=0.1),
    "stages": lambda: moving.stages(occupancy.slice_of(H100, 128, 128, 64, patch=(11, 12))),
    "overlap": lambda: moving.overlap(
        H100, ops.matmul(256, 8192, 28672), ops.matmul(4096, 8192, 8192), ops.matmul(8, 8192, 8192)
    ),
}


LANGUAGES = ("en", "es", "ko")


@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(one, marks=pytest.mark.exhaustive) for one in (1, 2))]
)
@each(("place", "name"), list(enumerate(PICTURES)))
def test_what_cannot_move_is_the_same_for_every_choice(place, name, turn):
    with in_language(LANGUAGES[(place + turn) % 3]):
        picture = PICTURES[name]()
    for size in (0, 1):
        printed, *others = (scenes[size] for scenes in picture.scenes.values())
        for other in others:
            assert [s.fixed for s in other.shapes] == [s.fixed for s in printed.shapes]


@each("name", PICTURES)
def test_every_step_says_something_whole_and_stays_inside(name):
    for scenes in PICTURES[name]().scenes.values():
        for scene in scenes:
            assert all(says.endswith(".") and "{" not in says for says in scene.says)
            for shape in scene.shapes:
                if shape.tag == "rect":
                    for step in range(len(scene.says)):
                        x, width = shape.at("x", step), shape.at("width", step)
                        assert x >= 0
                        assert x + width <= scene.width
                        assert 0 <= shape.at("y", step) <= scene.height
