"""An assistant gets what the command line prints, from a server that starts at once."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course_book.answers import schema
from course_press.cli import assistants
from course_press.cli.app import app

ROOT = Path(__file__).parents[3]
COMMANDS = assistants.commands()
TRACE = sorted((ROOT / "course_tools/data/traces").glob("*.json*"))[0]
ASKED = {
    "fits": (
        {"model": "llama-3-8b", "chip": "l4", "engine": "vllm@0.11.1", "users": 2},
        "llama-3-8b l4 --engine vllm@0.11.1 --users 2",
    ),
    "verify": (
        {"claim": "h100-sxm", "collective": "all-reduce", "bytes": 1e9, "chips": 8, "ms": 0.5},
        "h100-sxm --collective all-reduce --bytes 1e9 --chips 8 --ms 0.5",
    ),
    "predict": (
        {"model": "llama-3-8b", "chip": "h100-sxm", "batch": 8},
        "llama-3-8b h100-sxm --batch 8",
    ),
    "serve": (
        {"model": "llama-3-8b", "chip": "l4", "rate": 0.5, "requests": 20, "bounds": True},
        "llama-3-8b l4 --rate 0.5 --requests 20 --bounds",
    ),
    "train": (
        {"model": "llama-3-8b", "chips": "8xh100-sxm", "layout": "dp=8,zero=3,mbs=1,acc=1"},
        "llama-3-8b --chips 8xh100-sxm --layout dp=8,zero=3,mbs=1,acc=1",
    ),
    "diagnose": ({"recordings": [str(TRACE)]}, str(TRACE)),
}


@pytest.mark.parametrize("verb", ASKED)
def test_an_assistant_and_the_command_line_get_one_answer(verb):
    given, line = ASKED[verb]
    printed = CliRunner().invoke(app, [verb, *line.split(), "--json"])
    found = json.loads(json.dumps(assistants.ask(COMMANDS[verb], given)))
    assert found == json.loads(printed.stdout)
    wanted = schema()
    assert set(wanted["required"]) <= set(found)
    assert found["question"] == verb
    assert set(found["answer"]) == {"en", "es", "ko"}
    assert all(found["answer"].values())
    assert all(found[name] == value for name, value in found["values"].items())


def test_a_model_may_be_given_as_its_config():
    config = (
        json.loads((ROOT / "tests/course_tools/counting/configs/llama.json").read_text())
        if (ROOT / "tests/course_tools/counting/configs/llama.json").is_file()
        else {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "max_position_embeddings": 8192,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        }
    )
    found = assistants.ask(COMMANDS["predict"], {"model": config, "chip": "h100-sxm"})
    assert found["parameters"] == 8030261248


@pytest.mark.parametrize(
    ("given", "argument", "value"),
    [
        ({"model": "llama-3-8", "chip": "h100-sxm"}, "model", "'llama-3-8'"),
        ({"model": "llama-3-8b", "chip": "h100-sxm", "batch": 0}, "batch", "0"),
        ({"model": "llama-3-8b", "chip": "h100-sxm", "plot": "x.svg"}, "argument", "'plot'"),
        ({"model": "-", "chip": "h100-sxm"}, "model", "'-'"),
    ],
)
def test_what_is_refused_is_data(given, argument, value):
    found = assistants.ask(COMMANDS["predict"], given)
    assert (found["argument"], found["value"]) == (argument, value)
    assert found["remedy"]


def test_options_are_described_by_their_types():
    takes = assistants.takes(COMMANDS["predict"])
    assert takes["required"] == ["model", "chip"]
    assert takes["properties"]["batch"]["type"] == "integer"
    assert takes["properties"]["prefill"]["type"] == "boolean"
    assert "plot" not in takes["properties"]
    assert assistants.takes(COMMANDS["diagnose"])["properties"]["recordings"]["type"] == "array"


def test_a_server_over_standard_input_answers(tmp_path):
    mcp = pytest.importorskip("mcp", reason="the package mcp is not installed")
    from mcp.client.stdio import stdio_client

    async def talk():
        of = mcp.StdioServerParameters(
            command=sys.executable, args=["-m", "course_press", "mcp"], cwd=str(tmp_path)
        )
        async with stdio_client(of) as (reads, writes), mcp.ClientSession(reads, writes) as client:
            await client.initialize()
            tools = await client.list_tools()
            answer = await client.call_tool("predict", {"model": "llama-3-8b", "chip": "l4"})
            wrong = await client.call_tool("predict", {"model": "no-such", "chip": "l4"})
            return [one.name for one in tools.tools], answer, wrong

    names, answer, wrong = asyncio.run(talk())
    assert {"predict", "serve", "train", "diagnose"} <= set(names)
    assert json.loads(answer.content[0].text)["question"] == "predict"
    assert wrong.is_error
    assert json.loads(wrong.content[0].text)["argument"] == "model"


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("fits", {"model": "llama-3-8b", "chip": "rtx-4090", "engine": "vllm@0.11.1"}),
        ("predict", {"model": "llama-3-8b", "chip": "h100-sxm"}),
        (
            "verify",
            {
                "claim": "llama-2-70b",
                "chip": "h100-sxm",
                "tokens_per_second": 60,
                "batch": 1,
                "weights": "fp16",
            },
        ),
    ],
)
def test_what_is_offered_next_can_be_asked_as_it_stands(verb, given):
    offered = assistants.ask(COMMANDS[verb], given)["next"]
    assert any(one["options"] for one in offered)
    for one in offered:
        found = assistants.ask(COMMANDS[verb], given | one["options"])
        assert found["question"] == verb, one


def test_a_claim_may_be_about_a_config():
    config = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": False,
    }  # fmt: skip
    given = {"claim": config, "chip": "h100-sxm", "ms_per_token": 0.1, "batch": 1}
    assert assistants.ask(COMMANDS["verify"], given)["verdict"] == "impossible"
