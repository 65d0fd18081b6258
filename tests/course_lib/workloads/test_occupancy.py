"""Occupancy against NVIDIA's own examples, and slices against a queue followed by hand."""

import pytest

from course_lib import CourseError, chip, chips, occupancy, ops
from tests.each import each

H100 = chip("h100-sxm")
SLICE = occupancy.slice_of(H100, 128, 128, 64, patch=(11, 12))


@pytest.mark.parametrize(
    ("key", "threads", "more", "blocks", "scarce"),
    [
        # CUDA C++ Best Practices Guide, section on occupancy: 37 registers on a V100.
        ("v100-sxm2", 128, {"registers": 37}, 12, ("registers",)),
        ("v100-sxm2", 320, {"registers": 37}, 4, ("registers",)),
        ("h100-sxm", 256, {"registers": 32}, 8, ("warps", "registers")),
        ("h100-sxm", 32, {}, 32, ("blocks",)),
        # 12 KiB and the one that CUDA keeps: 17 times into 228.
        ("h100-sxm", 32, {"memory": 12 * 1024}, 17, ("shared_memory",)),
        ("h100-sxm", 128, {"memory": 227 * 1024}, 1, ("shared_memory",)),
        ("t4", 1024, {}, 1, ("warps",)),
        # 100 threads are four warps, as 128 are.
        ("a100-sxm-80", 100, {}, 16, ("warps", "registers")),
        # 255 registers are given as 256: eight warps, two in each part.
        ("a100-sxm-80", 256, {"registers": 255}, 1, ("registers",)),
    ],
)
def test_blocks_counted_by_hand(key, threads, more, blocks, scarce):
    found = occupancy.resident(key, threads, **more)
    assert (found.blocks, found.scarce) == (blocks, scarce)
    assert found.warps == blocks * -(-threads // 32)
    assert found.share == found.warps / chip(key).warps


@each("key", chips(vendor="NVIDIA"))
def test_more_of_anything_never_makes_room(key):
    before = 10**9
    for registers in range(1, 256):
        now = occupancy.resident(key, 256, registers=registers).warps
        assert now <= before
        assert now * 32 * registers <= chip(key).registers
        before = now


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"threads": 1025}, "threads must be at most 1024"),
        ({"threads": 32, "registers": 256}, "registers must be at most 255"),
        ({"threads": 32, "memory": 228 * 1024}, "memory must be at most 232448 B"),
        ({"threads": 1024, "registers": 128}, "leave room for one block"),
        ({"threads": 32, "chip": "mi300x"}, "mi300x lacks warps"),
    ],
)
def test_a_block_that_cannot_run_is_refused(given, named):
    with pytest.raises(CourseError, match=named):
        occupancy.resident(**{"chip": H100, **given})


def test_what_is_in_flight_is_rate_times_latency():
    warps = H100.bandwidth * H100.latency / (132 * 32 * 4)
    assert occupancy.sustained(H100, warps) == pytest.approx(H100.bandwidth)
    assert occupancy.sustained(H100, warps / 2) == pytest.approx(H100.bandwidth / 2)
    assert occupancy.sustained(H100, warps / 2, 8) == pytest.approx(H100.bandwidth)
    assert occupancy.sustained(H100, 2 * warps) == H100.bandwidth
    with pytest.raises(CourseError, match="latency"):
        occupancy.sustained("t4", 8)


def test_a_slice_moves_what_its_product_reads():
    alone = occupancy.slice_of(H100, 128, 256, 64)
    product = ops.tiled_matmul(128, 64, 256, 128, 256)
    assert alone.flops == product.flops
    assert alone.held == product.bytes - 2 * 128 * 256
    assert alone.load == pytest.approx(alone.held * 132 / H100.bandwidth)
    assert alone.math == pytest.approx(product.flops * 132 / H100.peak("bf16"))
    # A patch of tiles that run at once reads as one large tile does.
    large = occupancy.slice_of(H100, 11 * 128, 12 * 128, 64)
    assert SLICE.load == pytest.approx(large.load / (11 * 12))


@each("stages", [1, 2, 3, 4])
@each("patch", [(1, 1), (2, 3), (11, 12)])
def test_a_long_timeline_takes_the_seconds_of_a_slice(stages, patch):
    one = occupancy.slice_of(H100, 128, 128, 64, patch=patch)
    turns = one.timeline(stages, 400)
    steady = (turns[-1].done - turns[200 - 1].done) / 200
    assert steady == pytest.approx(one.seconds(stages), rel=1e-9)
    for i, turn in enumerate(turns):
        assert turn.there == pytest.approx(turn.asked + one.latency + one.load)
        if i >= stages:  # the place that it goes to is free
            assert turn.asked >= turns[i - stages].done - 1e-15
        if i:
            assert turn.done - one.math >= turns[i - 1].done - 1e-15
            assert turn.comes >= turns[i - 1].there - 1e-15


@pytest.mark.parametrize("patch", [3, (0, 1), (1, 2, 3)])
def test_a_patch_is_rows_and_columns(patch):
    with pytest.raises(CourseError, match="patch"):
        occupancy.slice_of(H100, 128, 128, 64, patch=patch)
