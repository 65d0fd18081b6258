"""A layer of each kind of attention: what must hold whatever its sizes, and beside a trace."""

import numpy as np
import pytest

from course_lib import CourseError
from course_tools.counting import ask, named
from course_tools.counting.attention import MODELS, attention_layer

CONTEXTS = 2 ** np.arange(1, 21)
FIXED = ("sliding", "linear")
KEY = 128 + 4  # byte that an indexer keeps of a token: 128 numbers in fp8 with a scale in fp32


@pytest.mark.parametrize("kind", MODELS)
def test_more_context_never_costs_less(kind):
    one = attention_layer(kind, CONTEXTS)
    for amount in (one.kept, one.flops, one.bytes):
        assert np.all(amount > 0)
        assert np.all(np.diff(amount) >= 0)
        grows = amount[-1] > amount[-2] * 1.5
        assert grows != (kind in FIXED)


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_kept_is_read_unless_tokens_are_chosen(kind):
    one = attention_layer(kind, CONTEXTS)
    assert np.all(one.bytes >= one.kept) != (kind == "sparse")


@pytest.mark.parametrize("kind", MODELS)
def test_eight_bits_halve_what_is_kept_of_tokens_but_no_state(kind):
    wide, narrow = (attention_layer(kind, 2**20, kv) for kv in ("bf16", "fp8"))
    assert wide.flops == narrow.flops
    always = {"linear": wide.kept, "sparse": 2**20 * KEY}.get(kind, 0)  # whatever the format
    assert narrow.kept - always == pytest.approx((wide.kept - always) / 2, rel=0.01)


def test_choosing_reads_as_much_as_not_choosing_while_all_are_chosen():
    """But for the keys that are scored, which come on top."""
    chosen, every = (attention_layer(kind, 2048) for kind in ("sparse", "latent"))
    assert chosen.bytes > every.bytes
    assert chosen.kept - every.kept == 2048 * KEY


def test_no_other_kind_is_known():
    with pytest.raises(CourseError, match="unknown kind 'dense'"):
        attention_layer("dense", 1024)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["sparse", "hybrid"])
def test_a_trace_counts_as_much(kind):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    context = 32768
    found = ask(named(MODELS[kind]), "h200-sxm", context=context, trace=True)
    one = attention_layer(kind, context)
    works = [each for part in found.step.parts.values() for each in part.parts.items()]
    attends = [each for name, each in works if each.work.kind == "attention"]
    more, layers = 0, 48
    if kind == "sparse":
        # transformers' code keeps the indexer's keys in bf16.
        more, layers = context * (2 * 128 - KEY), 61
        assert sum(each.flops for each in attends) == pytest.approx(layers * one.flops, rel=0.01)
        moved = layers * (one.bytes + more)
        assert sum(each.bytes for each in attends) == pytest.approx(moved, rel=0.01)
    assert found.fit.memory.kv == pytest.approx(layers * (one.kept + more), rel=0.001)
