import json

import pytest
from typer.testing import CliRunner

from course_lib import CourseError, llm
from course_press.cli.predict import app


def course(*arguments):
    return CliRunner().invoke(app, arguments)


def test_a_step_is_shown_operator_by_operator_with_its_fit():
    done = course(
        "llama-3-8b", "h100-sxm", "--batch", "32", "--context", "4096", "--weights", "int8"
    )
    assert done.exit_code == 0
    step = llm.decode("llama-3-8b", "h100-sxm", 32, 4096, w="int8")
    assert f"memory-bound, {1e3 * step.lower:.2f} ms at least" in done.output
    for operator in (
        "embedding",
        "norms",
        "projections",
        "attention",
        "mlp",
        "head",
        "gate",
        "down",
    ):
        assert operator in done.output
    assert "25.7 GB of 85.9 GB on each chip; at most 144 sequences" in done.output


def test_json_is_what_the_library_says():
    done = course(
        "mixtral-8x7b", "h200-sxm", "--tp", "2", "--link", "nvlink", "--batch", "4", "--json"
    )
    found = json.loads(done.stdout)
    step = llm.decode("mixtral-8x7b", "h200-sxm", 4, 1024, tp=2, link="nvlink")
    assert (found["bound"], found["lower"], found["flops"]) == (step.bound, step.lower, step.flops)
    assert set(found["parts"]) == set(step.parts)
    assert (
        found["parts"]["experts"]["parts"]["router"]["t_memory"]
        == step.parts["experts"].parts["router"].t_memory
    )
    assert found["fit"]["fits"] is True
    assert found["fit"]["needed"] == sum(found["fit"]["memory"].values())


def test_a_model_that_does_not_fit_says_so():
    for more in ((), ("--json",)):
        done = course("llama-2-70b", "h100-sxm", *more)
        assert done.exit_code == 1
        assert (
            "llama-2-70b does not fit: it needs 138 GB on each chip and h100-sxm has 85.9 GB"
            in done.stderr
        )
        assert "memory-bound" in done.stdout
    assert json.loads(done.stdout)["fit"]["max_batch"] == 0


def test_prefill_of_a_decoder_and_an_encoder():
    done = course("llama-3-8b", "h100-sxm", "--prefill", "--context", "8192")
    assert done.exit_code == 0
    assert "prefill: compute-bound" in done.stdout
    done = course("bert-large", "h100-sxm", "--prefill", "--context", "512", "--json")
    assert json.loads(done.stdout)["fit"]["max_batch"] is None
    assert "at most" not in course("bert-large", "h100-sxm", "--prefill", "--context", "512").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llama-3-9b", "h100-sxm"], "did you mean 'llama-3-8b'"),
        (["llama-3-8b", "h100"], "choose one of h100-pcie, h100-sxm"),
        (
            ["llama-3-8b", "h100-sxm", "--batch", "0"],
            "batch must be a positive whole number (got 0)",
        ),
        (["llama-3-8b", "h100-sxm", "--weights", "int9"], "unknown dtype 'int9'"),
        (["llama-3-8b", "h100-sxm", "--tp", "2"], "link must be given for tp 2"),
        (["llama-3-8b", "v100-sxm2"], "it has fp16"),
    ],
)
def test_what_is_wrong_is_the_librarys_error(arguments, message):
    done = course(*arguments)
    assert isinstance(done.exception, CourseError)
    assert message in str(done.exception)


def test_the_help_has_an_example():
    assert "course predict llama-3-8b h100-sxm" in course("--help").output
