"""Pictures of the machine and of memory can be read on a phone and are quickly sent."""

import json

import pytest

from course_lib import chip, model
from course_tools import train
from course_book import moving

H100 = chip("h100-sxm")
CASES = [(model("llama-3-8b"), 8192, "bf16"), (model("llama-3-70b"), 4096, "int4/32")]
HELD = {
    f"zero-{stage}": train.memory("llama-3-8b", f"dp=64,zero={stage}", 4096) for stage in (1, 2, 3)
}
PICTURES = [
    moving.machine(H100),
    moving.hierarchy([H100, chip("h200-sxm"), chip("b200-sxm")]),
    moving.fill(H100, CASES),
    moving.heads(model("llama-3-8b"), model("deepseek-v3")),
    moving.shrink({"8B": HELD}, H100),
]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_few_shapes_few_steps_and_no_small_letters(picture):
    for wide, narrow in picture.scenes.values():
        assert len(wide.says) < 25
        for scene in (wide, narrow):
            assert len(scene.shapes) < 150
            texts = [shape for shape in scene.shapes if shape.tag == "text"]
            assert all(float(text.fixed.get("font-size", 13)) >= 12 for text in texts)
            assert all(0 <= text.at("x", 0) <= scene.width for text in texts)
            assert all(0 <= text.at("y", 0) <= scene.height for text in texts)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_what_a_page_is_sent_is_small(picture):
    sent = [
        (scenes[0].says, picture.changes(choice), picture.changes(choice, narrow=True))
        for choice, scenes in picture.scenes.items()
    ]
    assert len(json.dumps(sent, separators=(",", ":"))) < 60_000
