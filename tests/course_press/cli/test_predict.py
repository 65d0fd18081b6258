import json
import tomllib

import pytest
from typer.testing import CliRunner

from course_lib import CourseError, calibrate, llm, n
from course_lib.measured import FOLDER
from course_lib.measured.results import append
from course_press.cli.app import app
from tests.course_lib.calibrate.test_fit import TRUE, rows


def course(*arguments):
    return CliRunner().invoke(app, arguments)


def predict(*arguments):
    return CliRunner().invoke(app, ["predict", *arguments])


def test_a_step_is_shown_operator_by_operator_with_its_fit():
    done = predict(
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
    done = predict(
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
        done = predict("llama-2-70b", "h100-sxm", *more)
        assert done.exit_code == 1
        assert (
            "llama-2-70b does not fit: it needs 138 GB on each chip and h100-sxm has 85.9 GB"
            in done.stderr
        )
        assert "memory-bound" in done.stdout
    assert json.loads(done.stdout)["fit"]["max_batch"] == 0


def test_prefill_of_a_decoder_and_an_encoder():
    done = predict("llama-3-8b", "h100-sxm", "--prefill", "--context", "8192")
    assert done.exit_code == 0
    assert "prefill: compute-bound" in done.stdout
    done = predict("bert-large", "h100-sxm", "--prefill", "--context", "512", "--json")
    assert json.loads(done.stdout)["fit"]["max_batch"] is None
    assert (
        "at most" not in predict("bert-large", "h100-sxm", "--prefill", "--context", "512").stdout
    )


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
    done = predict(*arguments)
    assert isinstance(done.exception, CourseError)
    assert message in str(done.exception)


def test_the_help_has_an_example():
    assert "course predict llama-3-8b h100-sxm" in predict("--help").output


def test_predict_shows_range_and_provenance():
    done = course("predict", "llama-2-7b", "a100-sxm-80", "--calibrated")
    likely = calibrate.predict(llm.decode("llama-2-7b", "a100-sxm-80", 1, 1024), "a100-sxm-80")
    assert done.exit_code == 0
    assert (
        f"likely {n(likely.expected, 's')}, in 80 of 100 cases {n(likely.low, 's')} to "
        f"{n(likely.high, 's')}" in done.output
    )
    assert likely.source in done.output


def test_predict_says_whose_constants_it_took():
    assert (
        "a100-sxm-80's constants, since no one measured l40s"
        in course("predict", "llama-2-7b", "l40s", "--calibrated").output
    )


def test_json_has_the_range_beside_an_unchanged_bound():
    plain, with_range = (
        json.loads(course("predict", "llama-2-7b", "h100-sxm", "--json", *more).stdout)
        for more in ((), ("--calibrated",))
    )
    found = with_range.pop("calibrated")
    assert plain == with_range
    assert plain["lower"] <= found["low"] <= found["expected"] <= found["high"]


def test_calibrate_writes_what_predict_takes(tmp_path):
    results, mine = tmp_path / "results.csv", tmp_path / "mine.toml"
    for row in rows(TRUE):
        append(results, row)
    done = course("calibrate", str(results), "--out", str(mine))
    assert done.exit_code == 0
    assert "62" in done.output
    assert tomllib.loads(mine.read_text())["points"] == 12
    shown = course(
        "predict", "llama-2-7b", "a100-sxm-80", "--calibrated", "--constants", str(mine)
    ).output
    assert "own measurements of NVIDIA A100-SXM4-80GB" in shown


def test_several_devices_need_a_choice(tmp_path):
    results = tmp_path / "results.csv"
    for row in rows(TRUE):
        append(results, row)
    refused = course("calibrate", str(results), "--device", "NVIDIA H300")
    assert isinstance(refused.exception, CourseError)
    assert "one device" in str(refused.exception)


def test_formats_without_a_peak_are_named():
    results = FOLDER / "lab-00" / "amd-epyc-2-cores" / "results.csv"
    done = course("calibrate", str(results), "--chip", "i5-8250u", "--out", "/dev/null")
    assert done.exit_code == 0
    assert "left out: products in bf16, fp16, int8" in done.output


def test_errors_say_what_to_do(tmp_path):
    missing = course("calibrate", str(tmp_path / "nothing.csv")).exception
    assert "is not there" in str(missing)
    lonely = course("predict", "llama-2-7b", "a100-sxm-80", "--constants", "mine.toml").exception
    assert "--constants needs --calibrated" in str(lonely)
    engine = course("predict", "llama-2-7b", "a100-sxm-80", "--engine", "gpt-fast").exception
    assert "--engine needs --calibrated" in str(engine)
