"""One model of a step: what a simulation asks for millions of times is `llm.mixed`, which is
`llm.decode` and `llm.prefill`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, llm
from course_tools import calibrate, serve

MODELS = ("llama-3-8b", "mixtral-8x7b", "deepseek-v3")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("tp", [1, 2])
def test_a_mixed_step_of_equals_is_a_decode_step_or_a_prefill(model, tp):
    how = {"tp": tp, "link": "nvlink"} if tp > 1 else {}
    same = llm.mixed(model, "h100-sxm", [1] * 16, 1000, **how)
    alone = llm.decode(model, "h100-sxm", 16, 1000, **how)
    prompts = llm.mixed(model, "h100-sxm", [700, 700], [700, 700], **how)
    whole = llm.prefill(model, "h100-sxm", 2, 700, **how)
    for mixed, equal in ((same, alone), (prompts, whole)):
        for name in ("lower", "flops", "bytes", "t_network", "kernels"):
            assert getattr(mixed, name) == pytest.approx(getattr(equal, name), rel=1e-12), name
        assert list(mixed.parts) == list(equal.parts)


def test_a_mixed_step_lies_between_its_parts_apart_and_the_longer_of_them():
    both = llm.mixed("llama-3-8b", "h100-sxm", [1] * 63 + [512], [1024] * 63 + [512])
    users = llm.decode("llama-3-8b", "h100-sxm", 63, 1024)
    prompt = llm.prefill("llama-3-8b", "h100-sxm", 1, 512)
    assert max(users.lower, prompt.lower) < both.lower < users.lower + prompt.lower


def test_a_context_shorter_than_its_new_tokens_is_refused():
    with pytest.raises(CourseError, match="context must count the new tokens too"):
        llm.mixed("llama-3-8b", "h100-sxm", [5], [4])


SIZES = st.lists(
    st.tuples(st.integers(1, 400), st.integers(0, 3000)).map(lambda one: (one[0], sum(one))),
    min_size=1,
    max_size=5,
)
STEPS = {
    model: serve.step_times(model, "h100-sxm", serve.engine("vllm"), calibrated=False)
    for model in MODELS[:2]
}


@pytest.mark.parametrize("model", list(STEPS))
@given(SIZES)
def test_what_is_tabulated_is_the_bound_of_the_step(model, sizes):
    new, seen = (np.array(column) for column in zip(*sizes, strict=True))
    pairs = float(np.sum(new * seen - new * (new - 1) / 2))
    took = STEPS[model].seconds(new.sum(), len(new), pairs, new.sum(), seen.sum())
    assert took == pytest.approx(llm.mixed(model, "h100-sxm", new, seen).lower, rel=1e-9)


def test_many_decode_steps_are_as_long_as_one_after_another():
    for steps in (
        STEPS["llama-3-8b"],
        serve.step_times("llama-3-8b", "rtx-4090", serve.engine("vllm")),
    ):
        at_once = steps.decoding(7, 5000.0, 9)
        each = [steps.seconds(7, 7, seen, 7, seen) for seen in 5000.0 + 7 * np.arange(9)]
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
