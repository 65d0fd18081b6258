from itertools import pairwise

import pytest

from course_lib import CourseError
from course_lib.specs import (
    DATA,
    ConvNet,
    cited_by,
    listed_models,
    load_toml,
    model,
    models,
    sources,
)
from course_lib.specs.catalog import model_from
from tests.each import each


@each("key", models())
def test_parameters_add_up_to_the_published_count(key):
    one = model(key)
    assert one.parameters == sum(one.parts.values())
    assert one.parameters == pytest.approx(one.published.si, rel=1e-3)
    assert one.key == key
    assert set(cited_by(one)) <= set(sources())


@pytest.mark.parametrize(
    ("key", "billions"),
    [
        ("llama-2-7b", 6.74),
        ("llama-3-405b", 405.9),
        ("gpt-3-175b", 174.6),
        ("deepseek-v3", 671.0),
        ("mpt-70b", 64.9),
        ("gpt-oss-120b", 116.8),
        ("qwen3-235b-a22b", 235.1),
        ("kimi-k2", 1026.4),
        ("llama-4-maverick", 401.6),
    ],
)
def test_counts_that_the_field_knows_by_heart(key, billions):
    assert model(key).parameters / 1e9 == pytest.approx(billions, abs=0.06)


def test_a_list_has_every_model_but_mpt_by_vendor_and_the_latest_first():
    assert sorted(listed_models()) == [key for key in models() if not key.startswith("mpt-")]
    every = [model(key) for key in listed_models()]
    firsts = [one for i, one in enumerate(every) if i == 0 or one.vendor != every[i - 1].vendor]
    assert len({one.vendor for one in every}) == len(firsts)
    assert [one.year for one in firsts] == sorted((one.year for one in firsts), reverse=True)
    for one, after in pairwise(every):
        assert one.vendor != after.vendor or one.year >= after.year


def test_a_token_meets_some_of_the_experts():
    assert model("mixtral-8x7b").active_parameters / 1e9 == pytest.approx(12.88, abs=0.01)
    assert model("deepseek-v3").active_parameters / 1e9 == pytest.approx(37.6, abs=0.1)
    assert model("llama-3-8b").active_parameters == model("llama-3-8b").parameters


def test_an_embedding_is_counted_once_where_the_head_is_tied():
    tied, own = model("gemma-2b").parts, model("llama-3-8b").parts
    assert tied["head"] == 0
    assert own["head"] == own["embedding"] == 128256 * 4096


def test_resnet_50_has_its_famous_count():
    one = model("resnet-50")
    assert isinstance(one, ConvNet)
    assert one.parts == {"convolutions": 23_454_912, "norms": 53_120, "head": 2_049_000}


def test_an_unknown_model_suggests_the_nearest():
    with pytest.raises(
        CourseError,
        match=r"unknown model 'lama-3-8b': did you mean 'llama-3-8b'\? \(models\(\) or course models lists them; ",
    ):
        model("lama-3-8b")
    with pytest.raises(
        CourseError,
        match=r"model 'llama-3' is ambiguous: choose one of llama-3-405b, llama-3-70b, llama-3-8b",
    ):
        model("llama-3")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"layers": 0}, ["layers", "positive whole"]),
        ({"heads": 30}, ["kv_heads 8 does not divide heads 30"]),
        ({"width": -1}, ["width", "-1"]),
        ({"configuration": []}, ["configuration", "no source"]),
        ({"configuration": ["meta"]}, ["source", "'meta'"]),
        ({"head": "both"}, ["both"]),
        ({"layer": 3}, ["layer"]),
        ({"experts": {"count": 8, "active": 9}}, ["experts.active", "got 9"]),
        (
            {
                "published": {
                    "value": 8e9,
                    "unit": "GB",
                    "sources": ["hf-llama-3"],
                    "status": "single",
                }
            },
            ["published", "GB"],
        ),
    ],
    ids=str,
)
def test_a_file_that_cannot_be_is_refused(change, parts):
    raw = {**load_toml(DATA / "models" / "llama-3-8b.toml", dict), **change}
    with pytest.raises(CourseError) as error:
        model_from("llama-3-8b.toml", raw)
    for part in ("llama-3-8b.toml", *parts):
        assert part in str(error.value)


@pytest.mark.parametrize("given", ["Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"])
def test_a_model_is_found_as_its_publisher_spells_it(given):
    assert model(given) is model("llama-3.1-8b")


@pytest.mark.parametrize("given", ["./llama-3.1-8b", "llama-3.1-8", "a/b/llama-3.1-8b", "llama3"])
def test_what_may_be_another_model_is_not_guessed(given):
    with pytest.raises(CourseError, match=r"model '.*(llama-3|config\.json)"):
        model(given)
