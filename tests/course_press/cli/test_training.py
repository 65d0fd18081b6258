import json

import pytest
from typer.testing import CliRunner

from course_lib import CourseError
from course_tools import train
from course_press.cli.app import app

KEYS = ["memory_bytes", "fits", "risk", "warning", "trainable", "step_s", "evidence", "measured_s"]
KEYS += ["tokens_per_s_per_chip", "mfu", "conventions", "parts"]
LAYOUT = ("--layout", "dp=8,tp=8,pp=1,zero=1,mbs=2,acc=4")
ON = ("--chips", "64xh100-sxm")


def run(*arguments, written=None):
    return CliRunner().invoke(app, ["train", *arguments], input=written)


def test_a_step_as_json_has_its_keys_and_the_librarys_numbers():
    found = json.loads(run("llama-3-8b", *ON, *LAYOUT, "--sequence", "4096", "--json").stdout)
    assert set(KEYS) <= set(found)
    assert found["question"] == "train"
    assert list(found["step_s"]) == ["lower", "expected", "low", "high"]
    step = train.step("llama-3-8b", "64xh100-sxm", LAYOUT[1], 4096)
    assert found["step_s"]["expected"] == step.expected_s
    assert found["memory_bytes"] == step.memory.total
    assert sum(found["parts"].values()) == pytest.approx(step.expected_s)
    whole = json.loads(run("llama-3-8b", *ON, *LAYOUT, "--tokens", "15e12", "--json").stdout)
    assert {*KEYS, "days", "usd"} <= set(whole)


def test_a_config_from_standard_input_is_the_model_of_its_sizes():
    config = {
        "model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192,
        "intermediate_size": 28672, "num_attention_heads": 64, "num_key_value_heads": 8,
        "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": False,
    }  # fmt: skip
    asked = (*ON, "--layout", "dp=2,tp=8,pp=4,zero=1,acc=16", "--json")
    found = json.loads(run("-", *asked, written=json.dumps(config)).stdout)
    assert found == json.loads(run("llama-3-70b", *asked).stdout)
    assert found["fits"]


def test_a_step_is_shown_with_its_parts_and_what_it_costs():
    said = run("llama-3-8b", *ON, *LAYOUT, "--tokens", "1e12", "--usd", "2").output
    for word in (
        "a step of 262,144 tokens",
        "MFU",
        "by nanotron",
        "half of attention",
        "fits",
        "gradients",
        "days",
        "USD",
    ):
        assert word in said
    assert "too little memory" in run("llama-3-8b", *ON, "--layout", "dp=64").output


def test_without_a_layout_a_ranked_list():
    found = json.loads(run("llama-3-8b", *ON, "--batch", "256", "--json").stdout)
    assert {"layout", *KEYS, "behind", "why"} <= set(found[0])
    behind = [one["behind"] for one in found]
    assert behind == sorted(behind)
    assert "behind" in run("llama-3-8b", *ON).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("llama-3-8b", *ON, *LAYOUT, "--batch", "8"), "--batch is for ranking"),
        (("llama-3-8b", *ON, *LAYOUT, "--usd", "2"), "--usd needs --tokens"),
        (("llama-3-8b", "--chips", "1xh100-sxm"), "no layout of 1 chips fits"),
        (("resnet-50", *ON), "must be one that sizes describe here"),
        (("llama-3-8b", "--chips", "h100-sxm"), "must say their number"),
    ],
)
def test_what_cannot_be_answered_says_why(arguments, said):
    with pytest.raises(CourseError, match=said):
        raise run(*arguments).exception
