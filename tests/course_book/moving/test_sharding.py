"""Sharded products that move: the blocks that a chip holds, what travels, and the library's times."""

import pytest

from course_lib import chip
from course_lib import network as net
from course_book import moving, n, t

H100 = chip("h100-sxm")
LINK = H100.links["nvlink"]
SIZES, CHIPS = (4096, 8192, 28672), 4
WAYS = {
    "rows": ({"B": "p"}, {}, None),
    "columns": ({}, {"F": "p"}, None),
    "sums": ({"D": "p"}, {"D": "p"}, None),
    "scatter": ({"D": "p"}, {"D": "p"}, "B"),
    "gather": ({"B": "p"}, {"D": "p"}, None),
}
EACH = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def picture():
    return moving.sharded_matmul(*SIZES, H100, LINK)


def answered(way):
    x, w, scatter = WAYS[way]
    return net.sharded_matmul(*SIZES, H100, LINK, {"p": CHIPS}, x_axes=x, w_axes=w, scatter=scatter)


def area(shapes, step):
    return sum(one.at("width", step) * one.at("height", step) for one in shapes)


def filled(scene, step, *tones):
    """What the chips hold: after the headings and the chips, four parts and an outline each."""
    blocks = [one for one in scene.shapes if one.tag == "rect"][CHIPS : CHIPS + 3 * CHIPS * 5]
    return [[one for one in blocks[i : i + 5] if one.at("tone", step) in tones]
            for i in range(0, len(blocks), 5)]  # fmt: skip


@EACH
@pytest.mark.parametrize("narrow", [False, True])
def test_times_and_bytes_are_those_of_the_library(picture, way, narrow):
    scene = picture.scenes[t(f"moving-shard-{way}")][narrow]
    last = len(scene.says) - 1
    shown = {one.at("text", last) for one in scene.shapes if one.tag == "text"}
    one = answered(way)
    sent = sum(step.bytes for step in one.steps)
    assert {n(one.estimate.t_math, "s"), n(one.estimate.t_network, "s"), f"V = {n(sent, 'B')}",
            t(one.bound)} <= shown  # fmt: skip
    pace = float(one.estimate.t_math + one.estimate.t_network) / sum(scene.seconds[:-1])
    assert pace == pytest.approx(2e-4)


@EACH
def test_a_chip_holds_its_share_of_what_is_cut_and_all_of_the_rest(picture, way):
    scene = picture.scenes[t(f"moving-shard-{way}")][False]
    held = filled(scene, 0, "chip")
    x, w, _ = WAYS[way]
    for array, cut in enumerate((x, w)):
        blocks = held[CHIPS * array : CHIPS * (array + 1)]
        assert [len(one) for one in blocks] == [1 if cut else CHIPS] * CHIPS
        whole = max(area([one], 0) for one in blocks[0]) * CHIPS
        assert sum(area(one, 0) for one in blocks) == pytest.approx(
            whole * (1 if cut else CHIPS), rel=0.05
        )
    assert not any(held[2 * CHIPS :])


@EACH
def test_every_sum_is_finished_where_the_library_says_that_it_stays(picture, way):
    scene = picture.scenes[t(f"moving-shard-{way}")][True]
    last = len(scene.says) - 1
    whole = "B" not in answered(way).out and "F" not in answered(way).out
    results = filled(scene, last, "cache")[2 * CHIPS :]
    assert [len(one) for one in results] == [CHIPS if whole else 1] * CHIPS
    assert not any(filled(scene, last, "math"))
    assert all(one.at("width", last) > 5 for chip in results for one in chip)


def test_only_what_the_library_sends_is_seen_on_its_way(picture):
    for way in WAYS:
        scene = picture.scenes[t(f"moving-shard-{way}")][False]
        rects = [one for one in scene.shapes if one.tag == "rect"]
        packets = rects[CHIPS + 3 * CHIPS * 5 :][: CHIPS * (CHIPS - 1)]
        flown = [
            sum(one.at("tone", step) == "network" for one in packets)
            for step in range(len(scene.says))
        ]
        halves = {"all-reduce": 2}
        rounds = sum(halves.get(one.collective, 1) for one in answered(way).steps)
        assert sorted(flown) == [0] * (len(flown) - rounds) + [len(packets)] * rounds
