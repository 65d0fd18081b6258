"""Memory drawn: squares as large as ridge points, and a chip that fills up as the library says."""

import pytest

from course_lib import CourseError, chip, llm, model, ridge
from course_book import moving, n, t

H100 = chip("h100-sxm")


@pytest.mark.parametrize("key", ["h100-sxm", "h200-sxm", "b200-sxm"])
@pytest.mark.parametrize("size", [0, 1])
def test_squares_and_bars_are_to_scale(key, size):
    one = chip(key)
    scene = moving.hierarchy([one]).scenes[one.short][size]
    link = next(iter(one.links.values()))
    paths = [
        (one.bandwidth, "memory"),
        (link.total_per_direction, "network"),
        (one.host.total_per_direction, "muted"),
        (one.node.ports.per_direction, "alarm"),
    ]
    slowest = min(path for path, _ in paths)
    last = len(scene.says) - 1
    boxes = [shape for shape in scene.shapes if shape.tag == "rect"]
    frame = max(shape.at("width", 0) for shape in boxes)
    longest = max(shape.at("width", last) for shape in boxes)
    told = [shape.at("text", last) for shape in scene.shapes if shape.tag == "text"]
    for path, tone in paths:
        square, _, bar = (shape for shape in boxes if shape.at("tone", 0) == tone)
        work = ridge(one.peak("bf16"), path)
        assert square.at("width", last) == square.at("height", last)
        assert (square.at("width", last) / frame) ** 2 * 1e5 == pytest.approx(work, rel=0.02)
        assert bar.at("width", last) == pytest.approx(slowest / path * longest, abs=0.06)
        assert f"{n(round(work))} FLOP" in told
        assert n(one.bandwidth / path, "s") in told


def test_no_square_hides_what_stands_beside_the_frame():
    scene = moving.hierarchy([H100]).scenes[H100.short][0]
    boxes = [shape for shape in scene.shapes if shape.tag == "rect"]
    frame = max(shape.at("width", 0) for shape in boxes)
    tall = [shape.at("height", step) for shape in boxes for step in range(len(scene.says))]
    assert max(tall) == frame


def test_a_chip_without_published_ports_is_refused():
    with pytest.raises(CourseError, match="ports"):
        moving.hierarchy([chip("l40s")])


CASES = [
    (model("llama-3-8b"), 8192, "bf16"),
    (model("llama-2-7b"), 4096, "bf16"),
    (model("llama-3-70b"), 4096, "bf16"),
    (model("llama-3-70b"), 4096, "int4/32"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("size", [0, 1])
def test_the_memory_holds_what_the_library_says_until_it_does_not_fit(case, size):
    network, context, w = CASES[case]
    scene = list(moving.fill(H100, CASES).scenes.values())[case][size]
    of = {tone: [one for one in scene.shapes if one.tag == "rect" and one.at("tone", 0) == tone]
          for tone in ("memory", "cache", "alarm", "none")}  # fmt: skip
    scale = of["none"][0].at("width", 0) / H100.memory
    drawn = of["alarm"][0], of["memory"][0], of["cache"][0]
    most = llm.fits(network, H100, 1, context, w=w).max_batch
    batches = []
    for step in range(1, len(scene.says)):
        told = [one.at("text", step) for one in scene.shapes if one.tag == "text"]
        batch = int(told[1].replace(",", ""))
        fit = llm.fits(network, H100, batch, context, w=w)
        held = sum(one.at("width", step) for one in drawn)
        assert held == pytest.approx(fit.needed * scale, abs=0.2)
        assert (t("does-not-fit") in told) == (not fit.fits)
        assert drawn[0].at("width", step) == pytest.approx(
            max(fit.needed - H100.memory, 0) * scale, abs=0.06
        )
        bound = llm.decode(network, H100, batch, context, w=w).lower
        assert (n(bound, "s") in told) == (n(round(batch / bound)) in told) == bool(fit.fits)
        batches.append(batch)
    assert most + 1 in batches
    assert not most or most in batches
    assert n(most * llm.fits(network, H100, 1, context, w=w).memory.kv, "B") in str(
        [one.tracks["text"] for one in scene.shapes if one.tag == "text"]
    )


@pytest.mark.parametrize("size", [0, 1])
def test_what_a_token_leaves_is_to_scale_and_every_head_reaches_what_it_reads(size):
    scene = moving.heads(model("llama-3-8b"), model("deepseek-v3")).scenes[""][size]
    cached = [32 * 2 * kv * 128 * 2 for kv in (32, 8, 1)] + [32 * 576 * 2]
    intensity = [1.0, 4.0, 32.0, 32 * (512 + 576) / 576]
    boxes = [one for one in scene.shapes if one.tag == "rect" and one.at("tone", 0) == "cache"]
    lines = [one for one in scene.shapes if one.tag == "line"]
    assert (len(boxes), len(lines), len(scene.says)) == (33, 32, 4)
    *kept, bar = boxes
    for step, (left, each) in enumerate(zip(cached, intensity, strict=True)):
        told = [one.at("text", step) for one in scene.shapes if one.tag == "text"]
        assert {n(left, "B"), n(each, "FLOP/B")} <= set(told)
        assert n(left, "B") in scene.says[step]
        share = left / cached[0]
        assert bar.at("width", step) == pytest.approx(bar.at("width", 0) * share, abs=0.06)
        apart = {box.at("x", step): box.at("width", step) for box in kept}
        drawn = sum(apart.values()) / sum(box.at("width", 0) for box in kept)
        assert drawn == pytest.approx(share, rel=0.02)
        for line, box in zip(lines, kept, strict=True):
            middle = box.at("x", step) + box.at("width", step) / 2
            assert line.at("x2", step) == pytest.approx(middle, abs=0.11)


def test_heads_that_share_nothing_are_refused():
    with pytest.raises(CourseError, match="must share"):
        moving.heads(model("llama-2-7b"), model("deepseek-v3"))
