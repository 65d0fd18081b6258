import io
import json
import re
import sys
import tomllib

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from course_lib import CourseError, llm, specs
from course_lib.bench.results import append
from course_tools import calibrate
from course_tools.counting import ask, named
from course_tools.measured import FOLDER
from course_book import n
from course_press.cli.app import app
from course_press.cli.predict import show
from tests.course_tools.calibrate.test_fit import TRUE, rows
from tests.course_tools.counting.configs import CASES


def course(*arguments):
    return CliRunner().invoke(app, arguments)


def predict(*arguments):
    return CliRunner().invoke(app, ["predict", *arguments])


LATENT = {
    "model_type": "glm4_moe_lite",
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
}
"""A tiny model that transformers runs in a form of more work than it needs."""


def test_a_step_is_shown_operator_by_operator_with_its_fit():
    done = predict(
        "llama-3-8b", "h100-sxm", "--batch", "32", "--context", "4096", "--weights", "int8"
    )
    assert done.exit_code == 0
    step = llm.decode("llama-3-8b", "h100-sxm", 32, 4096, w="int8")
    light, lower, upper = (n(one, "s") for one in (step.speed_of_light, step.lower, step.upper))
    said = re.findall(
        r"^(speed of light|operator by operator|no overlap) +(\S+\s\S+)  ", done.output, re.M
    )
    assert said == [
        ("speed of light", light),
        ("operator by operator", lower),
        ("no overlap", upper),
    ]
    assert done.output.count("at least") == 1  # only of what no program beats
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


@pytest.mark.parametrize("lang", ["en", "es", "ko"])
def test_no_number_is_broken_at_80_columns(monkeypatch, lang):
    """A terminal breaks a line that is longer than it wherever that ends."""
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, no_color=True, width=80)
    monkeypatch.setattr("course_press.cli.console.out_console", terminal)
    monkeypatch.setenv("COURSE_LANG", lang)
    answer = ask(named("mixtral-8x7b"), "h200-sxm", 16, 4096, tp=2, link="nvlink")
    show(answer, "NVIDIA H200 SXM 141 GB")
    whole = [n(answer.parameters), n(answer.active), n(answer.step.speed_of_light, "s")]
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())
    assert all(cell_len(line.rstrip()) <= 80 for line in text.splitlines())
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert all(any(number in line for line in text.splitlines()) for number in whole)


def test_a_trace_folds_what_takes_little(tmp_path):
    pytest.importorskip("transformers")
    (file := tmp_path / "config.json").write_text(json.dumps(LATENT))
    few, every = (predict(str(file), "h100-sxm", *more).output for more in ((), ("--all",)))
    assert re.search(r"^ +\d+ more ", few, re.M)
    assert not re.search(r"^ +\d+ more ", every, re.M)
    assert len(few.splitlines()) < len(every.splitlines())
    found = json.loads(predict(str(file), "h100-sxm", "--json").stdout)
    three = [found[name] for name in ("speed_of_light_s", "lower_s", "as_written_s")]
    assert three == sorted(three)
    for name, seconds in zip(
        ("speed of light", "operator by operator", "as written"), three, strict=True
    ):
        assert re.search(rf"^{name} +{re.escape(n(seconds, 's'))} ", few, re.M)


def test_what_the_cache_can_hold_is_said():
    at = ("qwen2.5-0.5b", "mi300x", "--context", "8")
    wide, narrow = (
        json.loads(predict(*at, "--weights", w, "--json").stdout) for w in ("bf16", "int4")
    )
    assert wide["cached_s"] is None
    assert 0 < narrow["cached_s"] < narrow["speed_of_light_s"]
    assert "from the cache" in predict(*at, "--weights", "int4").output
    assert "from the cache" not in predict(*at).output


def test_the_first_line_says_which_formats_and_where_they_are_from(tmp_path):
    file = tmp_path / "config.json"
    q = {"quant_method": "awq", "bits": 4, "group_size": 128}
    file.write_text(json.dumps({**CASES["llama-3-8b"].config, "quantization_config": q}))
    said = predict(str(file), "h100-sxm").output.splitlines()[0]
    assert "weights awq, head bf16 as the file declares" in said
    asked = predict(str(file), "h100-sxm", "--weights", "fp8", "--json").stdout
    formats = json.loads(asked)["assumed"]["formats"]
    assert formats == {"weights": "fp8 as asked, not as the file declares"}
    assert "weights bf16" in predict("llama-3-8b", "h100-sxm").output.splitlines()[0]
    file.write_text(json.dumps({**CASES["llama-3-8b"].config, "quantization_config": {"a": 1}}))
    refused = predict(str(file), "h100-sxm")
    assert refused.exit_code
    assert "--weights" in str(refused.exception)


def test_json_is_what_the_library_says():
    done = predict(
        "mixtral-8x7b", "h200-sxm", "--tp", "2", "--link", "nvlink", "--batch", "4", "--json"
    )
    found = json.loads(done.stdout)
    step = llm.decode("mixtral-8x7b", "h200-sxm", 4, 1024, tp=2, link="nvlink")
    assert (found["bound"], found["lower_s"], found["flops"]) == (
        step.bound,
        step.lower,
        step.flops,
    )
    assert (found["speed_of_light_s"], found["as_written_s"]) == (step.speed_of_light, None)
    assert found["decode"]["speed_of_light_s"] == step.speed_of_light < step.lower
    assert found["parameters"] == specs.model("mixtral-8x7b").parameters
    assert found["uncounted"] == []
    assert set(found["parts"]) == set(step.parts)
    assert (
        found["parts"]["experts"]["parts"]["router"]["t_memory_s"]
        == step.parts["experts"].parts["router"].t_memory
    )
    assert found["fits"] is True
    memory = found["memory"]
    assert memory["needed"] == memory["weights"] + memory["cache"] + memory["activations"]
    assert found["crossover"] == {"batch": None, "reason": "it is of one chip: tp is more"}
    assert sum(found["share_by_bound"].values()) == pytest.approx(1)
    assert sum(one["share"] for one in found["roofline"]) < 1  # the rest is the all-reduces'
    assert found["prefill"]["lower_s"] > found["lower_s"] == found["decode"]["lower_s"]


def test_a_model_that_does_not_fit_says_so():
    for more in ((), ("--json",)):
        done = predict("llama-2-70b", "h100-sxm", *more)
        assert done.exit_code == 1
        assert (
            "llama-2-70b does not fit: it needs 138 GB on each chip and h100-sxm has 85.9 GB"
            in done.stderr
        )
        assert "memory-bound" in done.stdout
    assert json.loads(done.stdout)["memory"]["largest_batch"] == 0


def test_prefill_of_a_decoder_and_an_encoder():
    done = predict("llama-3-8b", "h100-sxm", "--prefill", "--context", "8192")
    assert done.exit_code == 0
    assert "prefill: compute-bound" in done.stdout
    done = predict("bert-large", "h100-sxm", "--prefill", "--context", "512", "--json")
    found = json.loads(done.stdout)
    assert found["memory"]["largest_batch"] is None
    assert found["decode"] == {"reason": "its only pass is a prefill"}
    assert json.loads(predict("bert-large", "h100-sxm", "--json").stdout)["context"] == 512
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
            "batch must be one positive whole number (got 0)",
        ),
        (["llama-3-8b", "h100-sxm", "--weights", "int9"], "unknown dtype 'int9'"),
        (["llama-3-8b", "tpu-v2", "--tp", "2", "--link", "nvlink"], "nvlink"),
        (["llama-3-8b", "v100-sxm2", "--compute", "bf16"], "it has fp16"),
        (
            ["llama-3-8b", "i5-8250u", "--compute", "bf16"],
            "nothing is published for its matrix unit, but fp32, fp64",
        ),
        (["llama-3-8b", "i5-8250u", "--compute", "fp32"], "--memory in GB"),
    ],
)
def test_what_is_wrong_is_the_librarys_error(arguments, message):
    done = predict(*arguments)
    assert isinstance(done.exception, CourseError)
    assert message in str(done.exception)


def test_chips_that_share_a_model_take_the_first_link_as_a_service_does():
    of_first, of_named = (
        predict("llama-3-8b", "h100-sxm", "--tp", "2", *more, "--json").stdout
        for more in ((), ("--link", "nvlink"))
    )
    assert of_first == of_named


def test_a_laptop_computes_at_the_rate_that_it_publishes():
    done = predict("llama-3-8b", "i5-8250u", "--compute", "fp32", "--memory", "32", "--json")
    found = json.loads(done.stdout)
    prompt = found["prefill"]
    assert done.exit_code == 0
    assert prompt["lower_s"] >= 0.99 * prompt["flops"] / specs.chip("i5-8250u").peak(
        "fp32", "vector"
    )
    assert found["memory"]["available"] == 32e9


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
    found = json.loads(course("predict", "llama-2-7b", "h100-sxm", "--json").stdout)
    expected = found["expected"]
    assert expected["expected_s"] == found["expected_s"]
    ends = (expected["low_s"], expected["expected_s"], expected["high_s"])
    assert found["lower_s"] <= ends[0] <= ends[1] <= ends[2]


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
    done = course("calibrate", str(results), "--out", "/dev/null")  # a CPU that no table has
    assert done.exit_code == 0
    (row,) = (line.split() for line in done.output.splitlines() if line.startswith("fp32"))
    assert all(20 < float(share.rstrip("%")) <= 100 for share in row[1:3])
    assert "left out: products in bf16, fp16, int8" in done.output


def test_errors_say_what_to_do(tmp_path):
    missing = course("calibrate", str(tmp_path / "nothing.csv")).exception
    assert "is not there" in str(missing)
    lonely = course("predict", "llama-2-7b", "a100-sxm-80", "--constants", "mine.toml").exception
    assert "--constants needs --calibrated" in str(lonely)
    engine = course("predict", "llama-2-7b", "a100-sxm-80", "--engine", "gpt-fast").exception
    assert "--engine needs --calibrated" in str(engine)


CONFIG = CASES["llama-3-8b"].config
KEYS = (
    "parameters",
    "flops",
    "bytes",
    "uncounted",
    "fits",
    "lower_s",
    "expected_s",
    "parts",
    "memory",
    "decode",
    "prefill",
    "crossover",
    "roofline",
    "share_by_bound",
    "fusing",
    "expected",
    "not_modelled",
    "assumed",
)


def test_a_config_is_counted_from_a_file_and_from_standard_input(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    step = llm.decode("llama-3-8b", "h100-sxm", 2, 512)
    more = ("h100-sxm", "--batch", "2", "--context", "512", "--json")
    of_file = json.loads(predict(str(file), *more).stdout)
    typed = CliRunner().invoke(app, ["predict", "-", *more], input=json.dumps(CONFIG))
    of_input = json.loads(typed.stdout)
    named = {"model": "", "answer": ""}
    assert {**of_file, **named} == {**of_input, **named}
    assert set(KEYS) <= set(of_file)
    assert (of_file["parameters"], of_file["lower_s"]) == (8030261248, step.lower)
    assert of_file["counted_from"] == "its sizes"


def test_a_config_that_only_a_trace_can_count(tmp_path):
    pytest.importorskip("transformers")
    config = {
        "architectures": ["MambaForCausalLM"],
        "model_type": "mamba",
        "num_hidden_layers": 4,
        "hidden_size": 64,
        "vocab_size": 1000,
    }
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps(config))
    found = json.loads(predict(str(file), "h100-sxm", "--context", "8", "--json").stdout)
    assert set(KEYS) <= set(found)
    assert (found["architecture"], found["uncounted"]) == ("MambaForCausalLM", [])
    assert found["counted_from"] == "a trace of its code"
    assert found["flops"] == sum(one["flops"] for one in found["roofline"])
    assert found["flops"] == sum(found["flops_by_unit"].values())
    assert found["bytes"] < found["fusing"]["unfused_bytes"]
    assert found["expected_s"] > found["lower_s"]
    done = predict(str(file), "h100-sxm", "--context", "8")
    assert "traced, MambaForCausalLM" in done.output
    assert "the config leaves to transformers: state_size 16" in done.output


def test_a_module_of_the_readers_is_found_in_the_working_folder(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "mine_here.py").write_text(
        "import torch\n\n\ndef build():\n    return torch.nn.Linear(64, 32, False), torch.zeros(8, 64)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    found = json.loads(predict("mine_here:build", "h100-sxm", "--json").stdout)
    assert (found["parameters"], found["flops"]) == (64 * 32, 2 * 8 * 64 * 32)


def test_broken_json_names_file_and_line(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama",\n"hidden_size": 4096,}')
    refused = predict(str(file), "h100-sxm").exception
    assert isinstance(refused, CourseError)
    assert "config.json, line 2, column" in str(refused)


@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_roofline_is_drawn_with_every_operator(tmp_path, form):
    file = tmp_path / f"roofline.{form}"
    assert predict("llama-3-8b", "h100-sxm", "--plot", str(file)).exit_code == 0
    drawn = file.read_bytes()
    assert drawn.startswith(b"<?xml" if form == "svg" else b"\x89PNG")
    if form == "svg":
        assert b"attention" in drawn
    refused = predict("llama-3-8b", "h100-sxm", "--plot", str(tmp_path / "roofline.pdf"))
    assert "must name an .svg or a .png file" in str(refused.exception)


def test_no_calibration_leaves_the_likely_time_empty_with_its_reason(monkeypatch):
    def unknown(*_, **__):
        raise CourseError("nobody measured it")

    monkeypatch.setattr(calibrate, "predict", unknown)
    found = json.loads(predict("llama-3-8b", "h100-sxm", "--json").stdout)
    assert found["expected_s"] is None
    assert found["expected"] == {"reason": "nobody measured it"}
