"""The all-reduce that moves: every sum everywhere, at the cost that the library says."""

import pytest

from course_lib import network as net
from course_book import moving, n, t
from course_book.moving.collectives import CHIPS, SCHEDULES, SWITCH

LINK, SIZE = net.Link(50e9, count=4, latency=1e-6), 1e6
GROUPS = {"ring": CHIPS, "tree": CHIPS, "in-switch": CHIPS, "torus": (2, 4)}
EACH = pytest.mark.parametrize("algorithm", SCHEDULES)


@pytest.fixture(scope="module")
def picture():
    return moving.all_reduce(LINK, SIZE)


def cells(scene):
    """The chunks of all chips: nothing else begins as one addend wide."""
    return [one for one in scene.shapes if one.tag == "rect" and one.at("tone", 0) == "math"][
        : CHIPS * CHIPS
    ]


@EACH
def test_no_addend_counts_twice_and_every_sum_ends_everywhere(algorithm):
    hops = SCHEDULES[algorithm]
    held = [[{chip} for _ in range(CHIPS)] for chip in range(CHIPS)]
    held.append([set() for _ in range(CHIPS)])
    for at, messages in enumerate(hops):
        before = [[set(chunk) for chunk in chip] for chip in held]
        for one in messages:
            for chunk in one.chunks:
                if at < len(hops) / 2:
                    assert not held[one.target][chunk] & before[one.source][chunk]
                else:
                    assert len(before[one.source][chunk]) == CHIPS
                held[one.target][chunk] |= before[one.source][chunk]
    assert all(len(chunk) == CHIPS for chip in held[:SWITCH] for chunk in chip)


@EACH
def test_hops_and_bytes_are_those_of_the_cost_model(algorithm):
    takes = net.cost("all-reduce", GROUPS[algorithm], algorithm)
    hops = SCHEDULES[algorithm]
    sent = [len(one.chunks) for messages in hops for one in messages if one.source != SWITCH]
    assert (len(hops), sum(sent) / CHIPS**2) == (takes.hops, takes.share)


@EACH
@pytest.mark.parametrize("narrow", [False, True])
def test_the_counters_end_where_the_library_does(picture, algorithm, narrow):
    scene = picture.scenes[t(algorithm)][narrow]
    last = len(scene.says) - 1
    shown = {one.at("text", last) for one in scene.shapes if one.tag == "text"}
    takes = net.cost("all-reduce", GROUPS[algorithm], algorithm)
    time = net.all_reduce(SIZE, LINK, GROUPS[algorithm], algorithm=algorithm)
    hops = n(takes.hops)
    assert {f"{hops} / {hops}", n(takes.share * SIZE, "B"), n(time, "s")} <= shown


@EACH
@pytest.mark.parametrize("narrow", [False, True])
def test_every_chunk_is_filled_in_the_end_and_nothing_is_left_on_its_way(
    picture, algorithm, narrow
):
    scene = picture.scenes[t(algorithm)][narrow]
    last = len(scene.says) - 1
    for one in cells(scene):
        assert one.at("tone", last) == "cache"
        assert one.at("width", last) == pytest.approx(CHIPS * one.at("width", 0))
    violet = [
        one for one in scene.shapes if one.tag == "rect" and one.at("tone", last) == "network"
    ]
    assert len(violet) == 2  # the legend, and the bar of the time


@EACH
def test_what_is_seen_travelling_leaves_the_source_and_comes_to_the_target(picture, algorithm):
    scene = picture.scenes[t(algorithm)][False]
    chips = [one for one in scene.shapes if one.at("line", 0) == "chip"][:CHIPS]
    packets = [
        one for one in scene.shapes if one.tag == "rect" and "none" in one.tracks["tone"].values()
    ][CHIPS + 1 :]

    def inside(packet, step):
        x, y = packet.at("x", step), packet.at("y", step)
        for place, box in enumerate(chips):
            left, top = box.at("x", 0), box.at("y", 0)
            if left <= x <= left + box.at("width", 0) and top <= y <= top + box.at("height", 0):
                return place
        return SWITCH

    for step, messages in enumerate(SCHEDULES[algorithm]):
        flown = sorted(
            (inside(one, step), inside(one, step + 1))
            for one in packets
            if one.at("tone", step) == "network"
        )
        assert flown == sorted((one.source, one.target) for one in messages)


def test_steps_last_as_long_as_they_take(picture):
    paces = set()
    for algorithm in SCHEDULES:
        scene = picture.scenes[t(algorithm)][False]
        time = net.all_reduce(SIZE, LINK, GROUPS[algorithm], algorithm=algorithm)
        paces.add(round(time / sum(scene.seconds[:-1]), 9))
    assert paces == {3e-6}


EXCHANGE = {"rack": (8e-6, 15.5e-6), "ports": (1.3e-4, 2.5e-4)}


@pytest.mark.parametrize("way", EXCHANGE)
@pytest.mark.parametrize("size", [0, 1])
def test_copies_go_to_the_chips_that_are_framed_and_come_back(way, size):
    scene = moving.exchange(EXCHANGE, (7.2e6, 14e6)).scenes[way][size]
    chips = [s for s in scene.shapes if s.at("tone", 0) == "grid" and "stroke-width" in s.fixed]
    framed = [one for one in chips if one.at("line", 0) == "math"]
    source = next(one for one in chips if one.at("line", 0) == "chip")
    copies = [
        one for one in scene.shapes if one.at("tone", 0) == "network" and one.fixed.get("rx") == "1"
    ]
    assert len(chips) == 72
    assert len(copies) == len(framed) == 8

    def inside(chip, copy, step):
        x, y, wide, high = (chip.at(name, 0) for name in ("x", "y", "width", "height"))
        return x <= copy.at("x", step) <= x + wide and y <= copy.at("y", step) <= y + high

    assert all(sum(inside(chip, copy, 3) for copy in copies) == 1 for chip in framed)
    for step in (0, 6):
        assert all(inside(source, copy, step) for copy in copies)
    # Left of all chips stand the switch and the ports: inside a machine, no copy passes one.
    passed = [copy for copy in copies if copy.at("x", 2) < min(one.at("x", 0) for one in chips)]
    local = [one for one in framed if one.at("y", 0) == source.at("y", 0)]
    assert len(passed) == len(copies) - (way == "ports") * len(local)


def test_an_exchange_plays_at_true_relative_speed():
    scenes = moving.exchange(EXCHANGE, (7.2e6, 14e6)).scenes
    played = {way: sum(wide.seconds[:-1]) for way, (wide, _) in scenes.items()}
    ratio = sum(EXCHANGE["ports"]) / sum(EXCHANGE["rack"])
    assert played["ports"] / played["rack"] == pytest.approx(ratio)
    for way, (wide, _) in scenes.items():
        last = len(wide.says) - 1
        said = [one.at("text", last) for one in wide.shapes if one.tag == "text"]
        assert {n(sum(EXCHANGE[way]), "s"), n(21.2e6, "B")} <= set(said)
