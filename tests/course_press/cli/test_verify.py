"""`course verify` as it is typed: its exit codes, its tables, and what it prints."""

import json
import shutil

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from course_lib import CourseError
from course_tools.claims import SPEEDS
from course_tools.measured import FOLDER
from course_press.cli.app import app

HEADLINE = ("llama-2-70b", "h200-sxm", "--tokens-per-second", "155")
ALL_REDUCE = ("--collective", "all-reduce", "--bytes", "1e9", "--chips", "8")


def verify(*arguments, **how):
    return CliRunner().invoke(app, ["verify", *map(str, arguments)], **how)


@pytest.mark.parametrize(
    ("arguments", "code", "verdict"),
    [
        ((*HEADLINE, "--batch", "1"), 1, "impossible"),
        ((*HEADLINE, "--batch", "1", "--weights", "fp16"), 1, "impossible"),
        (HEADLINE, 0, "possible"),
        ((*HEADLINE, "--users", "64"), 0, "possible"),
        (("h100-sxm", "--bytes-per-second", "3.6e12"), 0, "cache-only"),
        (("h100-sxm", "--flops", "1.2e15", "--format", "bf16"), 1, "impossible"),
        (("h100-sxm", "--flops", "1.2e15", "--format", "bf16", "--sparse"), 0, "possible"),
        (("--mfu", "0.72"), 0, "possible"),
        (("h100-sxm", "--mfu", "1.4"), 1, "impossible"),
        (("h100-sxm", *ALL_REDUCE, "--ms", "0.5"), 1, "impossible"),
        (("llama-3-8b", "h100-sxm", "--ttft", "0.001", "--context", "8000"), 1, "impossible"),
        (("llama-3-8b", "h100-sxm", "--ms", "40", "--prefill", "--context", "512"), 0, "possible"),
        (("llama-3-8b", "h100-sxm", "--tokens-per-second", "50", "--mfu", "2"), 1, "impossible"),
    ],
)
def test_exit_codes_and_verdicts(arguments, code, verdict):
    found = verify(*arguments, "--json")
    assert found.exit_code == code, found.output
    record = json.loads(found.stdout)
    assert (record["verdict"], record["question"]) == (verdict, "verify")
    assert {"factor", "claimed", "limit", "answer", "because", "next"} <= record.keys()
    assert verify(*arguments).exit_code == code


@pytest.mark.parametrize(
    "arguments",
    [(), ("llama-3-8b", "h100-sxm"), ("nowhere.csv",), ("llama-3-8b", "h1", "--ms", "3")],
)
def test_bad_input_says_what_to_give(arguments):
    found = verify(*arguments)
    assert found.exit_code != 0
    assert str(found.exception) not in ("", "1")


@pytest.mark.parametrize("lang", ["en", "es", "ko"])
def test_it_answers_in_the_readers_language_and_fits_a_terminal(lang, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", lang)
    first = verify(*HEADLINE, "--batch", "1").stdout
    word = {"en": "Impossible", "es": "Imposible", "ko": "불가능"}[lang]
    assert word in first.splitlines()[0]
    assert all(cell_len(line) < 80 for line in first.splitlines()[1:])


def test_a_config_is_judged_as_its_model_is(tmp_path):
    sizes = {"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336}
    sizes |= {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}
    config = {"model_type": "llama", "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config | sizes))
    for place in (tmp_path, tmp_path / "config.json", "llama-3-8b"):
        found = verify(place, "h100-sxm", "--ms-per-token", "1.3", "--json")
        assert json.loads(found.stdout)["formats"] == ["int4"]


def test_a_lab_s_results_and_a_folder_are_judged_row_by_row(tmp_path):
    file = next(iter(sorted(FOLDER.glob("lab-00/nvidia-h100*/results.csv"))))
    assert verify(file).exit_code == 0
    shutil.copy(file, tmp_path / "results.csv")
    lines = "model,chip,tokens_per_second,batch\nllama-2-70b,h200-sxm,155,1\nnone,h200-sxm,1,1\n"
    (tmp_path / "others.csv").write_text(lines)
    found = verify(tmp_path, "--json")
    record = json.loads(found.stdout)
    assert found.exit_code == 1
    assert (record["verdict"], record["impossible"]) == ("impossible", 1)
    rows = {row["where"]: row for row in record["claims"]}
    assert rows["others.csv:2"]["verdict"] == "impossible"
    assert "none" in rows["others.csv:3"]["unread"]
    assert rows["results.csv:2"]["verdict"] == "possible"
    shown = verify(tmp_path)
    assert shown.exit_code == 1
    assert "others.csv:2" in shown.stdout
    (tmp_path / "empty.csv").write_text("model,chip\n")
    assert "no rows" in str(verify(tmp_path / "empty.csv").exception)


@pytest.mark.parametrize(
    "written",
    [
        "model,gpu,tok/s,batch\nllama-3-8b,H100,100,1\nllama-3-8b,H100,90000,1\n",
        json.dumps(
            [
                {"model": "llama-3-8b", "gpu": "H100", "tok/s": rate, "batch": 1}
                for rate in (100, 90_000)
            ]
        ),
    ],
    ids=["csv", "json"],
)
def test_a_table_comes_by_standard_input(written):
    done = CliRunner().invoke(app, ["verify", "-", "--json"], input=written)
    found = json.loads(done.stdout)
    assert (done.exit_code, found["n"], found["impossible"]) == (1, 2, 1)
    assert [one["where"][:6] for one in found["claims"]] == ["stdin."] * 2


def test_with_nothing_said_there_is_an_example_of_each_kind_and_all_run(tmp_path, monkeypatch):
    done = CliRunner().invoke(app, ["verify"])
    assert isinstance(done.exception, CourseError)
    examples = [line.partition("  #")[0].split()[1:] for line in done.stdout.splitlines()]
    said = {one.removeprefix("--").replace("-", "_") for line in examples for one in line}
    assert said >= {*SPEEDS, "collective"}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results.csv").write_text("model,gpu,tok/s\nllama-3-8b,H100,9\n")
    for line in examples:
        assert CliRunner().invoke(app, line).exit_code == 0, line
    asked = CliRunner().invoke(app, ["verify", "--json"])
    assert asked.stdout == ""
