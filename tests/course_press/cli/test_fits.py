import json
import re

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from course_press.cli.app import app


def fits(*arguments, env=None):
    return CliRunner().invoke(app, ["fits", *arguments], env=env)


@pytest.mark.parametrize("lang", ["en", "es", "ko"])
def test_the_first_line_is_the_verdict_with_the_cache_of_a_token(lang):
    found = fits("llama-3-8b", "h100-sxm", "--engine", "vllm@0.11.1", env={"COURSE_LANG": lang})
    assert found.exit_code == 0, found.output
    first, *rest = found.stdout.splitlines()
    assert "131" in first
    assert "H100" in first
    rows = [line for line in rest[:7] if line]
    assert all(cell_len(line) <= 80 for line in rows)


@pytest.mark.parametrize("lang", ["es", "ko"])
@pytest.mark.parametrize(
    "how",
    [
        ("llama-3-8b", "rtx-5090"),
        ("gpt-oss-20b", "l4", "--engine", "vllm@0.8.5"),
        ("gemma-3-4b", "h100-sxm", "--engine", "vllm@0.40"),
        ("gpt-oss-20b", "l40s", "--engine", "llama.cpp"),
        ("llama-3-8b", "h100-sxm", "--method", "lora,r=16"),
    ],
)
def test_what_was_taken_is_told_without_english(how, lang):
    told = fits(*how, env={"COURSE_LANG": lang}).stdout.splitlines()
    start = {"es": "supuesto: ", "ko": "말하지 않아 가정한 것: "}[lang]
    taken = [line.removeprefix(start) for line in told if line.startswith(start)]
    assert taken
    for line in taken:
        assert not re.search(r"\b(the|of|and|as|tokens and|bytes a|seen)\b|[{}]", line)


def test_what_does_not_fit_exits_with_1():
    found = fits("llama-3-70b", "h100-sxm", "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["fits"] is False


def test_json_has_every_key_and_no_table():
    found = fits("llama-3-8b", "l4", "--engine", "sglang@0.4.6", "--context", "4096", "--json")
    said = json.loads(found.stdout)
    names = "fits needed_bytes reserved_bytes left_bytes kv_bytes_per_token longest_context"
    assert set(names.split()) <= set(said)
    assert {"most_users", "question", "answer", "assumed", "because", "next"} <= set(said)
    assert said["question"] == "fits"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--engine", "tgi"), "engine"),
        (("--engine", "vllm@new"), "vllm@new"),
        (("--users", "0"), "users"),
        (("--context", "0"), "context"),
        (("--tokens", "0"), "tokens"),
        (("--sequences", "-2"), "sequences"),
        (("--memory", "-1"), "--memory"),
        (("--utilization", "2"), "utilization"),
        (("--method", "dpo"), "method"),
        (("--tp", "3"), "tp"),
        (("--cache", "fp7"), "fp7"),
    ],
)
def test_bad_options_are_named(arguments, said):
    found = fits("llama-3-8b", "h100-sxm", *arguments)
    assert found.exit_code != 0
    assert said in str(found.exception) + found.output


def test_configurations_on_standard_input_are_asked_of():
    config = {
        "model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 64, "head_dim": 16,
        "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 256, "max_position_embeddings": 512,
    }  # fmt: skip
    found = CliRunner().invoke(app, ["fits", "-", "l4", "--json"], input=json.dumps(config))
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["kv_bytes_per_token"] == 2 * 2 * 2 * 16 * 2
