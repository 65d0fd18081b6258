"""A step as numbers is the step: the same seconds, bound and bytes, whatever model, chip, batch and
context.
"""

import random

import pytest

from course_lib import CourseError, chip, llm
from course_lib.core import formulas
from course_lib.specs import Transformer, model, models
from tests.each import each

DECODERS = tuple(
    one.key
    for one in map(model, models())
    if isinstance(one, Transformer) and one.kind == "decoder" and not one.windowed
)
CHIPS = ("h100-sxm", "v100-sxm2", "tpu-v5e", "mi300x", "i5-8250u")
ROOM = 1e12


def near(value):
    return pytest.approx(value, rel=1e-12)


@each("key", DECODERS)
@each("w", ["16 bits", "int4/32"])
def test_its_sums_are_those_of_decode_and_fits(key, w):
    pick = random.Random(f"{key} {w}")
    for on in map(chip, CHIPS):
        form = "bf16" if "matrix.bf16" in on.peaks else "fp16"
        how = {"w": form} if w == "16 bits" else {"w": w, "x": form}
        if "matrix.fp16" not in on.peaks and "matrix.bf16" not in on.peaks:
            how = {**how, "compute": "fp32"}
        found = llm.coefficients(key, **how)
        flops = [one.flops for one in found.operators]
        moved = [one.bytes for one in found.operators]
        peaks = [one.peak(on) for one in found.operators]
        bandwidths = [on.bandwidth] * len(peaks)
        for _ in range(6):
            batch = pick.choice([1, 2, pick.randint(1, 1024), pick.randint(1, 100_000)])
            context = pick.randint(1, 131_072)
            step = llm.decode(model(key).extended(context), on, batch, context, **how)
            room = llm.fits(key, on, batch, context, w=how["w"], x=how.get("x"), capacity=ROOM)
            at = (batch, context)
            assert formulas.step(flops, moved, peaks, bandwidths, *at) == near(step.lower)
            t_math = formulas.total_seconds(flops, peaks, *at)
            t_memory = formulas.total_seconds(moved, bandwidths, *at)
            assert (t_math, t_memory) == (near(step.t_math), near(step.t_memory))
            longest = "compute-bound" if t_math >= t_memory else "memory-bound"
            assert longest == step.bound or t_math == near(t_memory)
            assert formulas.amount(found.memory, *at) == near(room.needed)
            assert formulas.most(found.memory, ROOM, context) == room.max_batch


def test_experts_that_few_tokens_meet_are_counted_as_distinct_says():
    mixtral = {one.name: one for one in llm.coefficients("mixtral-8x7b").operators}
    plain = {one.name: one for one in llm.coefficients("llama-3-8b").operators}
    one, two = (formulas.amount(mixtral["gate"].bytes, batch, 1) for batch in (1, 2))
    assert mixtral["gate"].bytes[3:] == (32 * 8 * 4096 * 14336 * 2, 0.75)
    assert one < two < 2 * one
    assert plain["gate"].bytes[3:] == mixtral["q"].bytes[3:] == (0, 0)


def test_both_formats_of_sixteen_bits_take_as_much():
    for key in DECODERS:
        a, b = (llm.coefficients(key, w=w) for w in ("bf16", "fp16"))
        assert a.memory == b.memory
        assert [(x.unit, x.flops, x.bytes) for x in a.operators] == [
            (x.unit, x.flops, x.bytes) for x in b.operators
        ]


def test_only_decoders_decode():
    with pytest.raises(CourseError, match="model must be a decoder"):
        llm.coefficients("bert-large")
