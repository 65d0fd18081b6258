import json

import pytest
from typer.testing import CliRunner

from course_lib import CourseError
from course_tools import serve
from course_tools.serve import evidence
from course_press.cli.app import app


def run(*arguments, written=None):
    return CliRunner().invoke(app, ["serve", *arguments], input=written)


REPLAYED = ("llama-3-8b", "rtx-4090", "--arrivals", str(evidence.LOG))
FEW = ("--rate", "4", "--requests", "40", "--output", "20")


def test_a_log_is_replayed_with_its_own_settings():
    done = run(*REPLAYED, "--engine", str(evidence.LOG.with_suffix(".json")), "--json")
    found = json.loads(done.stdout)
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        assert list(found[name]) == ["p50", "p95", "p99"]
    assert found["makespan_s"] == pytest.approx(evidence.read_log().makespan, rel=0.1)
    assert (found["requests"], found["calibrated"]) == (300, True)
    assert found["preemptions"] > 0
    assert found["tokens_per_s"] == pytest.approx(195754 / found["makespan_s"], rel=0.01)


def test_what_is_drawn_is_shown_with_its_limits():
    done = run("llama-3-8b", "h100-sxm", *FEW, "--slo", "ttft=1,tpot=0.1")
    assert done.exit_code == 0
    assert "40 requests in" in done.output
    assert "to the first token" in done.output
    assert "100% keep the limits" in done.output
    assert "likely times" in done.output
    bounds = run("llama-3-8b", "h100-sxm", *FEW, "--bounds")
    assert "every step at its lower bound" in bounds.output


def test_a_config_from_standard_input_and_chips_that_share_it():
    config = {
        "model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192,
        "intermediate_size": 28672, "num_attention_heads": 64, "num_key_value_heads": 8,
        "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": False,
    }  # fmt: skip
    shared = ("h100-sxm", *FEW, "--tp", "4", "--json")
    found = json.loads(run("-", *shared, written=json.dumps(config)).stdout)
    assert found["tpot_s"] == json.loads(run("llama-3-70b", *shared).stdout)["tpot_s"]


def test_a_plan_names_layout_price_and_what_moves_it():
    asked = ("--slo", "ttft=0.5,tpot=0.05", "--plan", "--tp", "1", "--json")
    found = json.loads(run("llama-3-8b", "h100-sxm", *FEW, *asked).stdout)
    assert found["layout"] == {"tp": 1, "ep": 1, "replicas": 1, "chips": 1}
    assert found["replicas"] == 1
    assert found["usd_per_mtoken"] > 0
    assert found["sensitivity"]["usd"] == pytest.approx(1)
    assert found["replica"]["goodput_per_s"] > 0
    said = run("llama-3-8b", "h100-sxm", *FEW, *asked[:-1], "--usd", "2").output
    assert "USD per million tokens" in said
    assert "+1% of tokens per answer" in said
    each = f"{1e3 * found['joules_per_token']:.3g} mJ a token"
    assert each in said
    assert each in found["answer"]["en"]


def test_experts_are_spread_and_planned():
    asked = ("mixtral-8x7b", "h100-sxm", *FEW)
    spread, cut = (
        json.loads(run(*asked, *of, "--json").stdout) for of in (("--ep", "4"), ("--tp", "4"))
    )
    assert spread["tpot_s"]["p50"] != cut["tpot_s"]["p50"]
    limits = ("--ep", "4", "--slo", "tpot=0.05", "--plan", "--tp", "2", "--usd", "2")
    found = json.loads(run(*asked, *limits, "--json").stdout)
    assert found["layout"] == {"tp": 2, "ep": 4, "replicas": 1, "chips": 4}
    assert "4, 2 for attention" in run(*asked, *limits).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("llama-3-8b", "h100-sxm"), "by --arrivals FILE, --rate or --users"),
        ((*REPLAYED, "--rate", "1"), "by --arrivals FILE, --rate or --users"),
        ((*REPLAYED, "--plan"), "--plan needs --rate"),
        (("llama-3-8b", "h100-sxm", *FEW, "--plan"), "--plan needs --slo"),
        (("llama-3-8b", "h100-sxm", *FEW, "--slo", "fast"), "--slo"),
        (("llama-3-8b", "h100-sxm", *FEW, "--slo", "ttft=soon"), "--slo must be name=seconds"),
        (("llama-3-8b", "h100-sxm", *FEW, "--router", "best"), "unknown router 'best'"),
        (("llama-3-8b", "h100-sxm", *FEW, "--ep", "2"), "ep must be 1: llama-3-8b has no experts"),
        (("mixtral-8x7b", "h100-sxm", *FEW, "--ep", "2", "--tp", "4"), "ep must be a multiple"),
        (("llama-3-70b", "h100-sxm", *FEW), "leaves no room for a cache"),
        (("llama-3-8b", "h100-sxm", "--rate", "-1"), "rate must be"),
        (("resnet-50", "h100-sxm", *FEW), "'resnet-50' must be one that sizes describe"),
        (("llama-3-8b", "l4", *FEW, "--plan", "--slo", "tpot=0.001"), "no layout keeps --slo"),
    ],
)
def test_what_is_wrong_is_said_with_its_remedy(arguments, said):
    refused = run(*arguments).exception
    assert isinstance(refused, CourseError)
    assert said in str(refused)


def test_every_router_of_the_library_is_named_in_the_help():
    assert all(router in run("--help").output for router in serve.ROUTERS)
