"""One model of a step: what a simulation asks for millions of times is the bound of a mixed step,
which is `llm.decode` and `llm.prefill`."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from course_lib import llm, specs
from course_tools import calibrate, serve
from course_tools.counting import named
from tests.course_lib.workloads import mixing
from tests.course_tools.serve.models import HAND

MODELS = ("llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-120b")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("tp", [1, 2])
def test_a_mixed_step_of_equals_is_a_decode_step_or_a_prefill(model, tp):
    how = {"tp": tp, "link": "nvlink"} if tp > 1 else {}
    same = mixing.mixed(model, "h100-sxm", [1] * 16, 1000, **how)
    alone = llm.decode(model, "h100-sxm", 16, 1000, **how)
    prompts = mixing.mixed(model, "h100-sxm", [700, 700], [700, 700], **how)
    whole = llm.prefill(model, "h100-sxm", 2, 700, **how)
    for mixed, equal in ((same, alone), (prompts, whole)):
        for name in ("lower", "flops", "bytes", "t_network", "kernels"):
            assert getattr(mixed, name) == pytest.approx(getattr(equal, name), rel=1e-12), name
        assert list(mixed.parts) == list(equal.parts)


def test_a_mixed_step_lies_between_its_parts_apart_and_the_longer_of_them():
    both = mixing.mixed("llama-3-8b", "h100-sxm", [1] * 63 + [512], [1024] * 63 + [512])
    users = llm.decode("llama-3-8b", "h100-sxm", 63, 1024)
    prompt = llm.prefill("llama-3-8b", "h100-sxm", 1, 512)
    assert max(users.lower, prompt.lower) < both.lower < users.lower + prompt.lower


SIZES = st.lists(
    st.tuples(st.integers(1, 400), st.integers(0, 3000)).map(lambda one: (one[0], sum(one))),
    min_size=1,
    max_size=5,
)
KINDS = {
    **{key: specs.model(key) for key in ("llama-3-8b", "mixtral-8x7b", "gpt-oss-20b")},
    "chunks": structs.replace(specs.model("gemma-3-4b"), window=512, chunked=True),
    "states": named("-", json.dumps(HAND["qwen3-next-80b-a3b"].config)).model,
}
STEPS = {
    key: serve.step_times(one, "h100-sxm", serve.engine("vllm"), calibrated=False)
    for key, one in KINDS.items()
}


@pytest.mark.parametrize("key", KINDS)
@given(SIZES)
def test_what_is_tabulated_is_the_bound_of_the_step(key, sizes):
    """Beside a count of each pair of tokens, one by one."""
    one, (new, seen) = KINDS[key], (np.array(column) for column in zip(*sizes, strict=True))
    pairs = float(np.sum(new * seen - new * (new - 1) / 2))
    near = [0.0, 0.0]
    for fresh, last in sizes if one.windowed else ():
        at = np.arange(last - fresh, last)  # positions, from 0
        looks = at % one.window + 1 if one.chunked else np.minimum(at + 1, one.window)
        near[0] += float(looks.sum())
        near[1] += float(last - (at - looks + 1).min())
    passes = float(np.sum(1 + (seen > new)))
    asked = new.sum(), len(new), pairs, new.sum(), seen.sum(), tuple(near), passes
    took = STEPS[key].seconds(*asked)
    assert took == pytest.approx(mixing.mixed(one, "h100-sxm", new, seen).lower, rel=1e-9)


def test_many_decode_steps_are_as_long_as_one_after_another():
    for steps in (
        *STEPS.values(),
        serve.step_times("llama-3-8b", "rtx-4090", serve.engine("vllm")),
        serve.step_times("gpt-oss-20b", "rtx-4090", serve.engine("vllm")),
    ):
        at_once = steps.decoding(7, 5000.0, 9, 900.0, 3)
        looks = [(5000.0 + 7 * i, 900.0 + 3 * i) for i in range(9)]
        each = [steps.seconds(7, 7, far, 7, far, (near, near), 14) for far, near in looks]
        assert at_once == pytest.approx(each, rel=1e-12)


def test_a_likely_step_is_the_calibrated_one_with_the_engines_bandwidth():
    older = serve.engine("vllm", bandwidth=1.0, sequence=0.0)
    steps = serve.step_times("llama-3-8b", "a100-sxm-80", older)
    took = steps.seconds(16, 16, 16 * 1000.0, 16, 16 * 1000.0)
    likely = calibrate.predict(llm.decode("llama-3-8b", "a100-sxm-80", 16, 1000), "a100-sxm-80")
    assert took == pytest.approx(likely.expected, rel=1e-9)
    faster = serve.step_times("llama-3-8b", "a100-sxm-80", serve.engine("vllm"))
    assert faster.seconds(16, 16, 16e3, 16, 16e3) < took
    assert "LLMServingSim" in faster.source
    assert "a100" not in steps.source or faster.calibrated


def test_every_likely_step_is_longer_than_its_bound():
    likely = serve.step_times("llama-3-8b", "h100-sxm", serve.engine("vllm"))
    bound = STEPS["llama-3-8b"]
    for tokens, sequences, seen in ((1, 1, 1), (64, 64, 9e4), (2048, 3, 6e3), (700, 256, 4e5)):
        asked = (tokens, sequences, seen, tokens, seen)
        assert likely.seconds(*asked) > bound.seconds(*asked)
