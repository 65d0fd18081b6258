"""Gradients on their way during the backward pass: when, how long, and what is left to wait for."""

import pytest

from course_lib import chip
from course_lib import network as net
from course_book import moving, n

H100 = chip("h100-sxm")
LINK, CHIPS, D, F, LAYERS = H100.links["nvlink"], 8, 8192, 28672, 6
SEND = float(net.all_reduce(2 * D * F, LINK, CHIPS))
NEEDED = net.data_parallel_tokens(H100.peak("bf16"), LINK, CHIPS)


@pytest.fixture(scope="module")
def picture():
    return moving.backward_pass(D, F, H100, LINK, CHIPS, (1024, 4096))


def backward(tokens):
    """Seconds of a layer: four operations for each token and weight."""
    return 4 * tokens * D * F / H100.peak("bf16")


def last_texts(scene):
    last = len(scene.says) - 1
    return [one.at("text", last) for one in scene.shapes if one.tag == "text"]


@pytest.mark.parametrize("narrow", [False, True])
def test_the_step_ends_when_the_slower_of_both_has_done_its_part(picture, narrow):
    few, many, late = (scenes[narrow] for scenes in picture.scenes.values())
    assert 1024 < NEEDED < 4096
    assert n(backward(1024) + LAYERS * SEND, "s") in last_texts(few)
    assert n(LAYERS * backward(4096) + SEND, "s") in last_texts(many)
    assert n(LAYERS * (backward(4096) + SEND), "s") in last_texts(late)


def test_blocks_are_as_long_as_they_take_and_on_one_scale(picture):
    for scene, tokens in zip(picture.scenes.values(), (1024, 4096, 4096), strict=True):
        wide = scene[0]
        last = len(wide.says) - 1
        widths = {
            tone: [one.at("width", last) + 1 for one in wide.shapes
                   if one.tag == "rect" and one.at("tone", 0) == tone]
            for tone in ("math", "network")
        }  # fmt: skip
        assert [len(some) for some in widths.values()] == [LAYERS, LAYERS]
        ratio = widths["network"][0] / widths["math"][0]
        assert ratio == pytest.approx(SEND / backward(tokens), rel=0.02)
        assert all(max(some) - min(some) <= 0.2 for some in widths.values())


def test_no_gradient_leaves_before_it_is_there_nor_before_the_link_is_free(picture):
    for scene, _ in picture.scenes.values():
        last = len(scene.says) - 1
        lanes = {
            tone: [one for one in scene.shapes
                   if one.tag == "rect" and one.at("tone", 0) == tone]
            for tone in ("math", "network")
        }  # fmt: skip
        free = 0.0
        for math, network in zip(lanes["math"], lanes["network"], strict=True):
            starts = network.at("x", 0)
            assert starts >= max(free, math.at("x", 0) + math.at("width", last)) - 0.2
            free = starts + network.at("width", last)


def test_time_runs_at_one_pace(picture):
    paces = [
        (LAYERS * backward(4096) + SEND) / sum(picture.scenes[n(4096)][0].seconds[:-1]),
        (backward(1024) + LAYERS * SEND) / sum(picture.scenes[n(1024)][0].seconds[:-1]),
    ]
    assert paces[0] == pytest.approx(paces[1]) == pytest.approx(float(f"{paces[0]:.1g}"))
