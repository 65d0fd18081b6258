"""The answer to whether a model fits, in each language."""

import pytest

from course_lib import CourseError
from course_book.answers import fits


def test_a_served_model_is_told_of_in_each_language():
    one = fits("llama-3-8b", "h100-sxm", "vllm@0.11.1", users=4, context=8_192)
    assert set(one.answer) == {"en", "es", "ko"}
    assert all("131" in said and "8" in said for said in one.answer.values())
    assert "caché KV" in one.answer["es"]
    found = one.as_json()
    names = ("fits", "needed_bytes", "reserved_bytes", "left_bytes", "kv_bytes_per_token")
    assert set(names) | {"longest_context", "most_users"} <= set(found)
    parts = found["needed_bytes"] + found["reserved_bytes"] + found["left_bytes"]
    assert parts == pytest.approx(found["total_bytes"])
    assert sum(term.value for term in one.because) == pytest.approx(found["total_bytes"])
    assert sum(term.share for term in one.because) == pytest.approx(1)
    assert one.because[-1].name == "left"
    assert one.range.low < found["pool_bytes"] < one.range.high


def test_nothing_is_reserved_without_an_engine_and_that_is_said():
    one = fits("llama-3-8b", "h100-sxm")
    assert one.values["reserved_bytes"] == 0
    assert "only what must be kept" in one.assumed["engine"]
    assert one.range is None


def test_other_versions_have_a_wider_range_and_are_named():
    seen, other = (
        fits("llama-3-8b", "h100-sxm", f"vllm@{version}") for version in ("0.12.0", "0.40.0")
    )
    assert "engine" not in seen.assumed
    assert "nearest" in other.assumed["engine"]
    assert other.range.high - other.range.low > seen.range.high - seen.range.low


# github.com/vllm-project/vllm, issues 27508 and 21348, and of Kimi-K2-Thinking over eight H200:
# Available KV cache memory, GiB. Of the second no version is said, and a connector was loaded.
@pytest.mark.parametrize(
    ("key", "chip", "version", "how", "said"),
    [
        ("gpt-oss-120b", "h100-sxm", "0.11.0", {"utilization": 0.95, "tokens": 1_024}, 1.71),
        ("qwen3-235b-a22b", "h100-sxm", "0.9.2", {"tp": 4, "w": "fp8-block"}, 8.11),
        ("kimi-k2", "h200-sxm", "0.11.1", {"tp": 8, "w": "bf16,experts=int4/32"}, 46.8),
        ("qwen3-0.6b", "l40s", "0.11.2", {}, 37.42),
        ("llama-3.2-1b", "l40s", "0.10.0", {}, 37.1),
    ],
)
def test_the_range_holds_what_either_sampler_leaves(key, chip, version, how, said):
    found = fits(key, chip, f"vllm@{version}", **how)
    assert found.range.low <= said * 2**30 <= found.range.high
    assert "sampler" in found.assumed


def test_what_sees_has_a_wider_range_and_is_named():
    found = [fits(key, "h200-sxm", "vllm@0.12.0") for key in ("gemma-3-27b", "mistral-small-3")]
    wide, narrow = (one.range.high - one.range.low for one in found)
    assert wide > 2 * narrow
    assert ["encoder" in one.assumed for one in found] == [True, False]


def test_what_keeps_a_state_has_a_wider_range():
    wide, narrow = (
        fits(key, "b300-sxm", "vllm@0.12.0").range for key in ("qwen3-next-80b-a3b", "qwen3-32b")
    )
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_both_conventions_of_windows_are_told():
    said = fits("gemma-3-27b", "h200-sxm", "vllm@0.12.0").assumed["sliding_windows"]
    assert said["all_layers_bytes_per_token"] == 62 * 8192 * 2 / 2
    assert said["past_the_window_bytes_per_token"] == 10 * 8192


@pytest.mark.parametrize("engine", [None, "vllm@0.11.1", "sglang@0.4.6", "trtllm", "transformers"])
def test_remedies_give_what_they_promise(engine):
    one = fits("qwen3-32b", "h100-sxm", engine, context=4_096)
    assert 0 < len(one.next) <= 3
    for remedy in one.next:
        own = {"weights": "w", "cache": "kv"}
        options = {own.get(name, name): value for name, value in remedy.options.items()}
        options = {"context": 4_096} | options
        then = fits("qwen3-32b", "h100-sxm", engine, **options).values["most_users"]
        assert then == pytest.approx(remedy.factor * one.values["most_users"], rel=0.4, abs=8)
        assert then > one.values["most_users"]
    assert [each.factor for each in one.next] == sorted((x.factor for x in one.next), reverse=True)


@pytest.mark.exhaustive
def test_a_model_with_states_gains_what_its_remedies_say():
    one = fits("nemotron-3-super", "b300-sxm", context=8_192)
    (wider,) = (remedy for remedy in one.next if remedy.options == {"tp": 2})
    then = fits("nemotron-3-super", "b300-sxm", context=8_192, tp=2).values["most_users"]
    assert then == pytest.approx(wider.factor * one.values["most_users"], rel=0.02)


def test_training_keeps_what_the_room_for_training_says():
    from course_tools import train

    one = fits("llama-3-8b", "h100-sxm", method="lora,r=16", context=4_096)
    kept = train.memory("llama-3-8b", "tp=1,mbs=1", 4_096, method="lora,r=16")
    assert one.values["needed_bytes"] == pytest.approx(kept.total)
    most = one.values["most_users"]
    for many, inside in ((most, True), (most + 1, False)):
        again = fits("llama-3-8b", "h100-sxm", method="lora,r=16", context=4_096, users=many)
        assert again.values["fits"] is inside
    assert fits("llama-3-8b", "h100-sxm", method="full").values["fits"] is False
    with pytest.raises(CourseError, match="engine"):
        fits("llama-3-8b", "h100-sxm", "vllm", method="full")
