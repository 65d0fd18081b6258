"""What may be meant by a model, and what is said where nothing is."""

import json
import sys

import pytest

from course_lib import CourseError, llm, specs
from course_tools.counting import ask, building, config_of, named
from tests.course_tools.counting.configs import CASES

LLAMA = CASES["llama-3-8b"].config


def test_a_configuration_comes_from_a_file_a_folder_and_the_standard_input(tmp_path):
    folder = tmp_path / "my-llama"
    folder.mkdir()
    file = folder / "config.json"
    file.write_text(json.dumps(LLAMA))
    for found in (named(str(file)), named(str(folder)), named("-", json.dumps(LLAMA))):
        assert found.model.parameters == specs.model("llama-3-8b").parameters
        assert found.limit == 8192
    assert named(str(file)).name == "my-llama"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"model_type": "llama",\n "hidden_size": }', "line 2, column 17: no JSON"),
        ("", "line 1, column 1: no JSON"),
        ("[1]", "must hold an object"),
        ("{}", "config lacks 'model_type'"),
        ('{"model_type": 3}', "'model_type' must be text"),
        (json.dumps({**LLAMA, "num_hidden_layers": None}), "config lacks 'num_hidden_layers'"),
        (json.dumps({**LLAMA, "vocab_size": "many"}), "config's 'vocab_size' is 'many'"),
        (json.dumps({**LLAMA, "hidden_size": -4096}), "config's 'hidden_size' is -4096"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_named(content, said):
    with pytest.raises(CourseError) as refused:
        named("-", content)
    assert said in str(refused.value)


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(CourseError, match="is not there"):
        named(str(tmp_path / "config.json"))
    (tmp_path / "config.json").write_bytes(b"\xff\xfe")
    with pytest.raises(CourseError, match="cannot be read as text"):
        named(str(tmp_path))


def test_a_context_is_as_long_as_the_model_was_made_for():
    assert (
        ask(named("-", json.dumps({**LLAMA, "max_position_embeddings": 256})), "h100-sxm").context
        == 256
    )
    with pytest.raises(CourseError, match="at most the 8192 tokens"):
        ask(named("-", json.dumps(LLAMA)), "h100-sxm", 1, 8193)
    with pytest.raises(CourseError, match=r"model\('llama-3-8b'\).extended"):
        ask(named("llama-3-8b"), "h100-sxm", 1, 8193)


READ = [name for name in CASES if named("-", json.dumps(CASES[name].config)).model]


@pytest.mark.parametrize("key", [name for name in READ if name in specs.models()])
def test_a_configuration_has_the_sizes_of_the_model_in_the_table(key):
    read, held = named("-", json.dumps(CASES[key].config)).model, specs.model(key)
    parts = {**held.parts}
    if held.experts and held.latent:  # what evens out the load is a buffer to transformers
        parts["mlp"] -= (held.layers - held.experts.dense_layers) * held.experts.count
    if read.chunked:  # of a text alone
        parts.pop("vision")
    assert read.parts == parts
    assert (read.windowed, read.window, read.qk_norm) == (held.windowed, held.window, held.qk_norm)


def test_a_key_of_the_table_is_what_the_library_says():
    answer = ask(named("mixtral-8x7b"), "h200-sxm", 4, 2048)
    step = llm.decode("mixtral-8x7b", "h200-sxm", 4, 2048)
    assert (answer.step.lower, answer.traced) == (step.lower, False)
    assert (
        answer.crossover.batch
        == llm.first_compute_bound_batch("mixtral-8x7b", "h200-sxm", 2048).batch
    )
    assert answer.fused is None
    assert answer.missing["fused"]


def test_fusing_saves_what_the_block_says():
    answer = ask(named("llama-3-8b"), "h100-sxm", 8, 1024, prefill=True)
    assert 0 < answer.fused.saved < answer.fused.lower
    assert answer.fused.saved_bytes < answer.fused.bytes


def test_a_networks_key_that_is_no_transformer_is_refused():
    with pytest.raises(CourseError, match="must be a transformer"):
        ask(named("resnet-50"), "h100-sxm")


@pytest.mark.parametrize("bad", ["llama-3-8b", None])
def test_a_name_alone_is_no_named_model(bad):
    with pytest.raises(CourseError, match="named must be"):
        ask(bad, "h100-sxm")


def test_config_of_wants_text():
    with pytest.raises(CourseError, match="content must be text"):
        config_of(None, "x")


class TestWithTransformers:
    """What only the installed transformers can answer."""

    @pytest.fixture(autouse=True)
    def installed(self):
        pytest.importorskip("torch")
        pytest.importorskip("transformers")

    def test_code_that_a_configuration_names_is_never_run(self, tmp_path):
        config = {
            "model_type": "stranger",
            "auto_map": {"AutoModelForCausalLM": "modeling_stranger.Stranger"},
        }
        with pytest.raises(CourseError, match=r"its own code \(auto_map\) is not run"):
            ask(named("-", json.dumps(config)), "h100-sxm")

    def test_an_architecture_that_nobody_knows_is_refused(self):
        with pytest.raises(CourseError, match="is not an architecture of transformers"):
            ask(named("-", '{"model_type": "stranger"}'), "h100-sxm")

    def test_a_size_that_is_missing_is_named_and_not_assumed(self):
        config = {"model_type": "cohere", "hidden_size": 64, "vocab_size": 100}
        with pytest.raises(CourseError, match="config lacks 'num_hidden_layers'"):
            ask(named("-", json.dumps(config)), "h100-sxm")

    def test_sizes_that_transformers_assumes_are_said(self):
        config = {
            "model_type": "mamba",
            "hidden_size": 64,
            "num_hidden_layers": 4,
            "vocab_size": 100,
        }
        answer = ask(named("-", json.dumps(config)), "h100-sxm", 1, 8)
        assert answer.assumed["state_size"] == 16
        assert answer.uncounted == ()
        assert answer.traced

    def test_what_a_code_makes_of_nonsense_is_one_line(self):
        config = {**LLAMA, "model_type": "cohere", "num_attention_heads": 0}
        with pytest.raises(CourseError) as refused:
            ask(named("-", json.dumps(config)), "h100-sxm")
        assert "\n" not in str(refused.value)

    def test_a_traced_model_is_not_split(self):
        config = {**LLAMA, "num_hidden_layers": 2}
        with pytest.raises(CourseError, match="tp 2 must be left out"):
            ask(named("-", json.dumps(config)), "h100-sxm", trace=True, tp=2, link="nvlink")

    def test_a_window_is_beyond_a_transformer_and_within_a_trace(self):
        config = {
            **LLAMA, "model_type": "mistral", "num_hidden_layers": 3, "sliding_window": 128,
        }  # fmt: skip
        inside, beyond = (ask(named("-", json.dumps(config)), "h100-sxm", 1, n) for n in (128, 512))
        assert (inside.traced, beyond.traced) == (False, True)
        # The cache ends with the window: it holds 127 tokens beside the new one.
        assert beyond.fit.memory.kv == inside.fit.memory.kv * 127 / 128
        assert beyond.decode.flops == pytest.approx(inside.decode.flops, rel=1e-3)

    def test_an_encoder_and_a_decoder_have_both_passes(self):
        config = {
            "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 64,
            "d_ff": 128, "d_kv": 16, "num_heads": 4, "num_layers": 3, "vocab_size": 100,
        }  # fmt: skip
        answer = ask(named("-", json.dumps(config)), "h100-sxm", 2, 32)
        # Keys and values of three layers: of the decoder's own tokens, and of the encoder's.
        assert answer.fit.memory.kv == 2 * (2 * 2 * 3 * 32 * 64) * 2
        assert answer.prefill.flops > 20 * answer.decode.flops


def test_without_transformers_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(CourseError, match=r"needs transformers: .*\[torch,models\]"):
        ask(named("-", '{"model_type": "mamba"}'), "h100-sxm")


def test_without_torch_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch._subclasses.fake_tensor", None)
    with pytest.raises(CourseError, match=r"needs torch: .*\[torch,models\]"):
        ask(named("-", '{"model_type": "mamba"}'), "h100-sxm")


OWN = """
import torch

def build():
    return torch.nn.Linear(64, 32, bias=False), torch.zeros(8, 64)

def words():
    return torch.nn.Embedding(100, 64)

def narrow():
    return torch.nn.Linear(64, 32, bias=False).to(torch.float16), torch.zeros(8, 64).half()

def nothing():
    return 3

def broken():
    raise RuntimeError("no luck\\nat all")

class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(4, 4)

    def forward(self, x):
        return x if x.sum() > 0 else -x

def branches():
    return Branches(), torch.zeros(4)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "owncode.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("owncode", None)


@pytest.mark.usefixtures("own")
def test_a_readers_function_is_run_with_its_example():
    answer = ask(named("owncode:build"), "h100-sxm")
    assert (answer.parameters, answer.step.flops) == (64 * 32, 2 * 8 * 64 * 32)
    assert answer.step.bytes == 2 * (8 * 64 + 64 * 32 + 8 * 32)
    assert ask(named("owncode:narrow"), "h100-sxm").step.bytes == answer.step.bytes
    assert answer.missing["decode"] == "a module that is given its inputs has one pass"
    assert ask(named("owncode:words"), "h100-sxm", 2, 16).step.bytes == 2 * 16 * (64 * 4 + 8)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("owncode:nothing", r"must return a torch.nn.Module.*\(got 3\)"),
        ("owncode:broken", "owncode:broken failed: RuntimeError: no luck$"),
        ("owncode:missing", "owncode has no function 'missing'"),
        ("nowhere:build", "'nowhere' cannot be imported"),
        ("owncode:branches", "Branches cannot be traced: DataDependentOutputException"),
    ],
)
def test_what_a_readers_function_does_wrong_is_said_in_a_line(function, said):
    with pytest.raises(CourseError, match=said):
        ask(named(function), "h100-sxm")


def test_built_knows_its_parameters():
    torch = pytest.importorskip("torch")
    one = torch.nn.Linear(2, 3)
    assert building.Built(one, "module", "Linear", torch.float32, None).parameters == 9


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"num_attention_heads": 33}, "config's 'num_attention_heads' is 33"),
        ({"text_config": 3}, "config's 'text_config' is 3"),
        (
            {"num_attention_heads": 33, "text_config": 3},
            "more than one is wrong of config's model_",
        ),
        ({"vocab_size": 0}, "config's 'vocab_size' must be one positive whole number"),
    ],
)
def test_what_transformers_will_not_build_or_trace_names_the_key(more, said):
    config = {**LLAMA, "num_hidden_layers": 2, "architectures": ["LlamaModel"], **more}
    with pytest.raises(CourseError) as refused:
        ask(named("-", json.dumps(config)), "h100-sxm")
    assert said in str(refused.value)


def test_a_link_of_a_traced_model_is_named_itself():
    with pytest.raises(CourseError, match="link 'nvlink' must be left out for a model that is tra"):
        ask(named("-", json.dumps(LLAMA)), "h100-sxm", trace=True, link="nvlink")
