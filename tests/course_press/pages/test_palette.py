"""The colours of lines in figures: readable on the page, and apart from each other for every kind
of colour vision.
"""

import re
from itertools import combinations

import numpy as np
import pytest

from course_book.plot.charts import LINES
from course_press.source.assets import ASSETS

CONTRAST, APART = 4.5, 0.09
"""WCAG's least contrast for text, which labels on lines are; least distance in OKLab, in which
black to white is 1.
"""

# Machado, Oliveira and Fernandes (2009), severity 1: how linear sRGB looks to each kind of eye.
EYES = {
    "all cones": np.eye(3),
    "no L cones": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no M cones": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no S cones": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# Ottosson (2020): linear sRGB to cones, and their cube roots to OKLab.
CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
OKLAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def linear(color):
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def oklab(color, eye):
    seen = np.clip(np.array(EYES[eye]) @ linear(color), 0, 1)
    return np.array(OKLAB) @ np.cbrt(np.array(CONES) @ seen)


def contrast(one, other):
    light = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) + 0.05 for color in (one, other))
    return light[1] / light[0]


def schemes():
    text = (ASSETS / "tokens.css").read_text(encoding="utf-8")
    papers = re.findall(r"--paper: (#\w{6})", text)
    lines = re.findall(r"--fig-\d: (#\w{6})", text)
    return [(paper, tuple(lines[i * 6 : i * 6 + 6])) for i, paper in enumerate(papers)]


def test_notebooks_and_light_pages_have_the_same_colours_and_both_dark_blocks_agree():
    light, *dark = schemes()
    assert light[1] == LINES
    assert dark[0] == dark[1]


@pytest.mark.parametrize(("paper", "lines"), schemes()[:2], ids=["light", "dark"])
def test_lines_stand_out_from_the_page(paper, lines):
    assert min(contrast(paper, line) for line in lines) >= CONTRAST


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("lines", [lines for _, lines in schemes()[:2]], ids=["light", "dark"])
def test_lines_are_apart_for_every_eye(lines, eye):
    assert (
        min(np.linalg.norm(oklab(a, eye) - oklab(b, eye)) for a, b in combinations(lines, 2))
        >= APART
    )
