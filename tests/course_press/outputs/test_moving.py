"""What a page is sent of a moving picture: everything that changes, once, and little of it."""

import json

import pytest

from course_lib import chip
from course_lib import network as net
from course_book import moving
from course_book.moving.scene import Running
from course_press.outputs.moving import payload

H100 = chip("h100-sxm")
NVLINK = H100.links["nvlink"]
PICTURES = {
    "all-reduce": lambda: moving.all_reduce(net.Link(50e9, count=4, latency=1e-6)),
    "sharded-matmul": lambda: moving.sharded_matmul(4096, 8192, 28672, H100, NVLINK),
    "backward-pass": lambda: moving.backward_pass(8192, 28672, H100, NVLINK, 8),
}


def spread(sent, steps):
    """As the page does it: the first value, and each later one from its step on."""
    later = dict(zip(sent[1::2], sent[2::2], strict=True))
    values = [sent[0]]
    for step in range(1, steps):
        values.append(later.get(step, values[-1]))
    return values


@pytest.mark.parametrize("name", PICTURES)
def test_a_page_gets_every_value_of_every_step(name):
    picture = PICTURES[name]()
    for (choice, (wide, _)), sent in zip(
        picture.scenes.items(), payload(picture)["choices"], strict=True
    ):
        steps = len(wide.says)
        for size in ("wide", "narrow"):
            got = {(at, name): spread(values, steps) for at, name, values in
                   sent["both"] + sent[size]}  # fmt: skip
            wanted = {}
            for at, name, values in picture.changes(choice, narrow=size == "narrow"):
                each = values if len(values) > 1 else values * steps
                if all(isinstance(value, Running) for value in values):  # it runs: numbers are sent
                    numbers = [pytest.approx(value.number) for value in each]
                    wanted[at, f"text {values[0].unit}"] = numbers
                else:
                    wanted[at, name] = each
            assert got == wanted


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small(name):
    picture = PICTURES[name]()
    sent = json.dumps(payload(picture), ensure_ascii=False, separators=(",", ":"))
    assert len(sent.encode()) < 60_000
    assert all(len(one.shapes) <= 150 and len(one.says) <= 25
               for scenes in picture.scenes.values() for one in scenes)  # fmt: skip
