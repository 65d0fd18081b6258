"""The step as one perfect program: by hand, and never above its operators one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import chip, llm, model, total
from course_lib.specs import models

H100 = chip("h100-sxm")
DECODERS = [key for key in models() if getattr(model(key), "kind", "") == "decoder"]
sizes = st.integers(1, 2000)


def held(step):
    """Whether a step's three times are in their order."""
    light, lower, upper = (np.asarray(one) for one in (step.speed_of_light, step.lower, step.upper))
    return np.all(light > 0) and np.all(light <= lower) and np.all(lower <= upper * (1 + 1e-12))


def test_a_step_by_hand():
    step = llm.decode("llama-3-8b", H100, 16, 4096)
    weights = 2 * (8_030_261_248 - 128_256 * 4096) + 2 * 4096  # and one row of the embedding
    moved = weights + 16 * 4096 * 131_072 + 16 * 128_256 * 2
    matrices = 8_030_261_248 - 128_256 * 4096 - 65 * 4096
    flops = 16 * (2 * matrices + 4 * 32 * 4096 * 4096)
    assert (step.least.bytes, step.least.flops) == (moved, flops)
    assert step.speed_of_light == moved / 3.35e12


def test_no_prompt_writes_more_than_its_cache_and_one_tokens_logits():
    least = llm.prefill("llama-3-8b", H100, 2, 8192).least
    weights = 2 * (8_030_261_248 - 128_256 * 4096) + 2 * 4096
    assert least.bytes == weights + 2 * (8192 * 131_072 + 128_256 * 2)


def test_all_tokens_may_choose_the_same_experts():
    one, many = (llm.decode("mixtral-8x7b", H100, batch, 1).least for batch in (1, 512))
    cache, logits = 131_072, 32_000 * 2
    assert many.bytes - one.bytes == pytest.approx(511 * (cache + logits))
    assert many.flops == pytest.approx(512 * one.flops)


def test_latent_attention_takes_the_cheaper_of_its_forms():
    """Per layer and head, a pair costs 1,088 products absorbed and 320 expanded, and a token of the
    cache 131,072 to expand.
    """

    def attention(step):
        rest = sum(step.parts[part].flops for part in ("projections", "mlp", "experts", "head"))
        return (step.least.flops - rest) / (2 * 61 * 128)

    old = 3000
    assert attention(llm.decode("deepseek-v3", H100, 1, old + 1)) == pytest.approx(
        1088 * (old + 1), rel=1e-4
    )


def test_chips_divide_all_and_a_switch_adds_up():
    alone, shared = (
        llm.decode("deepseek-v3", "h200-sxm", 64, 4096, tp=tp, link="nvlink" if tp > 1 else None)
        for tp in (1, 8)
    )
    assert shared.least.bytes == pytest.approx(alone.least.bytes / 8)  # one cache, not eight
    read = [one.parts["attention"].bytes for one in (alone, shared)]
    assert read[1] > 0.5 * read[0]
    assert shared.least.t_network == pytest.approx(shared.t_network / 1.75)
    spread = llm.decode("deepseek-v3", "h200-sxm", 64, 4096, tp=1, ep=8, link="nvlink")
    assert spread.least.t_network == 0  # each token's experts may all be at home


@settings(max_examples=60)
@given(
    st.sampled_from(DECODERS),
    st.sampled_from(["a100-sxm-80", "h200-sxm", "tpu-v5e", "mi300x"]),
    sizes,
    sizes,
    st.sampled_from([{}, {"w": "int8"}, {"w": "bf16,experts=int4", "kv": "int8"}]),
    st.sampled_from([(1, 1), (2, 1), (2, 4), (1, 8)]),
)
def test_no_operator_by_operator_is_below_the_speed_of_light(key, on, batch, seen, fm, many):
    one, (tp, ep) = model(key).extended(5000), many
    chips = {"tp": tp, "ep": ep if one.experts else 1}
    try:
        llm.weight_bytes(one, llm.formats(), **chips)
    except ValueError:
        chips = {}
    how = {**fm, **chips, "link": 1e11 if max(chips.values(), default=1) > 1 else None}
    assert held(llm.decode(one, on, [batch, 1], seen, **how))
    assert held(llm.prefill(one, on, batch, [seen, 1], **how))
    step = llm.decode(one, on, batch, seen, **how)
    assert llm.decode(one, on, [batch, 1], seen, **how).speed_of_light[0] == step.speed_of_light
    if how.get("ep", 1) == 1:
        speed, shared = batch / step.speed_of_light * (1 - 1e-12), how.get("tp", 1)
        assert llm.check_claim(one, on, speed, batch, context=seen, **fm, tp=shared).possible


def test_steps_one_after_another_are_one_program_too():
    step = llm.decode("mixtral-8x7b", H100, 16, 4096)
    both = total(one=step, two=step)
    assert both.speed_of_light == 2 * step.speed_of_light < both.lower
    assert total(both=both, one=step).speed_of_light == pytest.approx(3 * step.speed_of_light)
    plain = total(**step.parts)
    assert plain.speed_of_light == max(plain.t_math, plain.t_memory) <= plain.lower
