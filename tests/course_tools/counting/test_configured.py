"""Models that are counted from their published configurations, beside what is published of them."""

import csv
import json

import pytest

from course_lib import CourseError, specs
from course_tools.counting import ask, configured, diffusion, named
from course_tools.counting.sources import DATA, config_of, configurations
from course_tools.serve import memory, pool
from course_book.answers import fits
from course_book.tables import every_model
from tests.each import each

KEYS = list(configurations())
QUICK = ("flux.1-dev", "whisper-large-v3")


def quickly(keys, *quick):
    return [pytest.param(key, marks=() if key in quick else pytest.mark.exhaustive) for key in keys]


def test_every_configuration_has_its_row_and_every_row_a_source():
    assert {path.stem for path in (DATA / "configs").glob("*.json")} == set(KEYS)
    assert {one.source for one in configurations().values()} <= set(specs.sources())
    assert set(KEYS).isdisjoint(specs.models())


@each("one", every_model(), ids=lambda one: one.key)
def test_every_count_agrees_with_the_published_one(one):
    published = getattr(one.published, "si", one.published)
    assert one.parameters == pytest.approx(published, rel=5e-3)


@pytest.mark.parametrize("key", quickly(KEYS, *QUICK))
def test_the_table_has_what_a_trace_counts(key):
    pytest.importorskip("transformers")
    one, answer = configurations()[key], ask(configured(key), "h200-sxm")
    assert (answer.parameters, answer.active) == (one.parameters, one.active_parameters)
    assert answer.uncounted == ()
    assert answer.step.speed_of_light <= answer.step.lower


def test_a_list_has_both_tables_by_vendor_and_the_latest_first():
    listed = every_model()
    assert {one.key for one in listed} == {*specs.listed_models(), *KEYS}
    vendors = [one.vendor for one in listed]
    assert vendors == sorted(vendors, key=vendors.index)  # each one's stand together
    years = {}
    for one in listed:
        assert one.year <= years.setdefault(one.vendor, one.year)
        years[one.vendor] = one.year


def test_an_indexer_is_what_sparse_attention_adds():
    config = configured("deepseek-v3.2-exp").config
    heads, each = config["index_n_heads"], config["index_head_dim"]
    width, rank = config["hidden_size"], config["q_lora_rank"]
    # Queries from their latent vectors, one key with its norm, and a weight for each head.
    indexer = rank * heads * each + width * each + 2 * each + width * heads
    one = specs.model("deepseek-v3")
    biases = (one.layers - one.experts.dense_layers) * one.experts.count  # buffers, when traced
    found = configurations()["deepseek-v3.2-exp"].parameters
    assert found == one.parameters - biases + one.layers * indexer


@pytest.mark.parametrize(("batch", "picture"), [(1, 4096), (2, 1024)])
def test_blocks_of_a_painter_are_counted_by_hand(batch, picture):
    pytest.importorskip("torch")
    config = configured("flux.1-dev").config
    d, text = config["hidden_size"], diffusion.TEXT
    tokens, blocks = picture + text, config["depth"] + config["depth_single_blocks"]
    # Twelve squares of the width for each token of each block, and what shifts a picture's.
    products = 2 * tokens * 12 * d * d * blocks
    products += 2 * d * d * (12 * config["depth"] + 3 * config["depth_single_blocks"])
    attention = 4 * tokens * tokens * d * blocks
    answer = ask(named("flux.1-dev"), "h100-sxm", batch, picture)
    assert answer.step.flops == pytest.approx(batch * (products + attention), rel=1e-3)


@pytest.mark.parametrize(
    ("key", "less"),
    [
        ("whisper-large-v3", {"encoder_layers": 2, "decoder_layers": 2}),
        *(pytest.param(key, {}, marks=pytest.mark.exhaustive) for key in KEYS),
    ],
)
def test_a_cache_of_any_length_is_that_of_a_trace_over_few_tokens(key, less, monkeypatch):
    pytest.importorskip("transformers")
    one = named("-", json.dumps({**configured(key).config, **less})) if less else configured(key)
    context = min(one.limit or 1024, 1024)
    short = pool(one, "b200-sxm", context=context)
    monkeypatch.setattr(memory, "TRACED", context)
    whole = pool(one, "b200-sxm", context=context)
    assert short.sequence(context) == pytest.approx(whole.sequence(context), rel=1e-9)
    assert short.kept.weights == whole.kept.weights


def test_windows_are_filled_before_a_cache_is_taken_to_grow_evenly(monkeypatch):
    pytest.importorskip("transformers")
    config = {"model_type": "cohere2", "num_hidden_layers": 4, "hidden_size": 64, "head_dim": 16}
    config |= {"intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}
    config |= {"vocab_size": 128, "max_position_embeddings": 4096, "sliding_window": 512}
    one = named("-", json.dumps(config))
    found = pool(one, "h100-sxm", context=4096)
    each = 2 * 2 * 16 * 2  # keys and values of two heads, two bytes each
    assert found.sequence(4096) == each * (4096 + 3 * 511)  # one layer in four sees all


def test_a_model_that_must_be_traced_needs_no_context():
    pytest.importorskip("transformers")
    found = fits("nemotron-3-super", "b200-sxm")
    assert found.values["kv_bytes_per_token"] == 8192  # eight layers, two heads of 128, two bytes
    assert found.assumed["context"] == configured("nemotron-3-super").limit


def test_a_key_that_is_in_neither_table_is_refused():
    with pytest.raises(CourseError, match="unknown model 'qwen3-next': did you mean"):
        configured("qwen3-next")
    assert config_of(next((DATA / "configs").glob("*.json")).read_text(), "")
    with (DATA / "configs.csv").open(newline="") as file:
        assert next(csv.reader(file))[0] == "key"
