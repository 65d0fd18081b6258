"""Training FLOPs: against published MFU and HFU, a hand count, and the operators of a
forward pass.
"""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, llm
from course_lib.specs import model, models
from course_tools import train
from course_tools.measured import table
from tests.each import each

FOUNDRY = table("train_mfu_llmfoundry")
CHIP = {"a100_80gb": "a100-sxm-80", "a100_40gb": "a100-sxm-40"}


@each(
    "row",
    FOUNDRY,
    ids=lambda row: f"{row['Model']}-{row['SeqLen (T)']}-{row['# GPUs']}-{row['GPU']}",
)
def test_mfu_and_hfu_of_every_published_row(row):
    length = int(row["SeqLen (T)"])
    # The table's positions are as many as its sequence is long.
    one = msgspec.structs.replace(model(f"mpt-{row['Model']}"), positions=length)
    assert one.parameters == int(row["NumParams"])
    speed = float(row["Throughput (T/s)"]) / int(row["# GPUs"])
    recompute = "full" if row["Activation Checkpointing"] == "True" else "none"
    assert 100 * train.mfu(one, CHIP[row["GPU"]], speed, length) == pytest.approx(
        float(row["MFU"]), rel=0.0025
    )
    assert 100 * train.hfu(
        one, CHIP[row["GPU"]], speed, length, recompute=recompute
    ) == pytest.approx(float(row["HFU"]), rel=0.0025)


def test_causal_counting_would_miss_the_published_rows():
    row = max(FOUNDRY, key=lambda row: int(row["SeqLen (T)"]))
    speed, length = float(row["Throughput (T/s)"]) / int(row["# GPUs"]), int(row["SeqLen (T)"])
    causal = train.mfu(
        f"mpt-{row['Model']}",
        CHIP[row["GPU"]],
        speed,
        length,
        causal=True,
        parameters=int(row["NumParams"]),
    )
    assert 100 * causal < 0.9 * float(row["MFU"])


@each(
    "row",
    [row for row in table("train_mfu_maxtext_tpu") if row["mfu_pct"] and row["tflops_per_chip"]],
)
def test_mfu_of_maxtext_as_far_as_its_rates_are_printed(row):
    rate = float(row["tflops_per_chip"])
    # Rates are printed as whole TFLOP/s, cut or rounded: they are known to one, which the share
    # inherits.
    low, high = (100 * train.utilisation((rate + off) * 1e12, "tpu-v5e") for off in (-1, 1))
    assert float(row["peak_used"]) * 1e12 == pytest.approx(
        train.utilisation(1e12, "tpu-v5e") ** -1 * 1e12
    )
    assert low <= float(row["mfu_pct"]) <= high


def test_counted_by_hand():
    # Two layers of width 8, two heads of 4, a gated MLP of 16, ten words, an output matrix of its
    # own.
    tiny = msgspec.structs.replace(
        model("llama-2-7b"),
        layers=2,
        width=8,
        heads=2,
        kv_heads=2,
        head_dim=4,
        ffn=16,
        vocab=10,
        key="tiny",
    )
    parameters = 10 * 8 + 2 * (4 * 8 * 8 + 3 * 8 * 16 + 2 * 8) + 8 + 8 * 10
    assert tiny.parameters == parameters
    scores_and_values = 2 * (
        2 * 2 * 5 * 8
    )  # two layers; a query against five keys, and five values summed
    assert train.flops(tiny, 5) == 3 * (2 * parameters + scores_and_values)
    assert train.flops(tiny, 5, recompute="full") == 4 * (2 * parameters + scores_and_values)


@pytest.mark.parametrize("key", ["llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gpt-3-175b"])
def test_a_forward_pass_is_what_prefill_multiplies(key):
    one, length = model(key), 512
    step = llm.prefill(key, "h100-sxm", 1, length)
    matrix = sum(
        part.flops
        for name, part in step.parts.items()
        if name in ("projections", "attention", "mlp", "experts")
    )
    # 6ND counts more: embedding and norms, which no product multiplies, and the head, which prefill
    # spares all tokens but one.
    others = (
        one.parts["embedding"] + one.parts["norms"] + one.parts["head"] + sum(one.other.values())
    )
    counted = (
        train.flops(one, length, causal=True, parameters=one.active_parameters - others)
        / 3
        * length
    )
    assert counted == pytest.approx(matrix, rel=2e-3)


@given(st.sampled_from(["llama-3-8b", "mixtral-8x7b", "deepseek-v3"]), st.integers(1, 10**6))
def test_what_is_counted_more_costs_more(key, length):
    whole_square, causal = train.flops(key, length), train.flops(key, length, causal=True)
    assert 6 * model(key).active_parameters < causal <= whole_square
    assert whole_square == causal or length > 1
    assert train.flops(key, length, recompute="full") == pytest.approx(whole_square * 4 / 3)


def test_broadcasts():
    speeds = np.array([1000.0, 2000.0])
    assert np.allclose(
        train.mfu("llama-3-8b", "h100-sxm", speeds, 8192)[1],
        2 * train.mfu("llama-3-8b", "h100-sxm", 1000, 8192),
    )
    assert train.flops("llama-3-8b", [1024, 2048]).shape == (2,)


def test_layers_with_a_window_see_no_more_than_it():
    oss = model("gpt-oss-20b")
    whole = msgspec.structs.replace(oss, windowed=0, window=0)
    assert train.flops(oss, 128) == train.flops(whole, 128)
    pairs = sum(min(place, 128) for place in range(1, 4097)) / 4096  # of those that look at 128
    less = 6 * 12 * 64 * (64 + 64) * np.array([4096 - 128, 4097 / 2 - pairs])
    for causal, by in zip((False, True), less, strict=True):
        gap = train.flops(whole, 4096, causal=causal) - train.flops(oss, 4096, causal=causal)
        assert gap == pytest.approx(by)
    attention = [train.backward(one, 4096).parts["attention"] for one in (whole, oss)]
    assert attention[0] - attention[1] == pytest.approx(less[1] / 3)
    steps = [train.step(one, "8xh100-sxm", "dp=8,zero=3", 4096).parts for one in (whole, oss)]
    assert steps[0] != steps[1]


def test_every_transformer_counts():
    assert all(train.flops(key, 128) > 0 for key in models() if model(key).kind != "convnet")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"model": "resnet-50"}, "model"),
        ({"sequence": 0}, "sequence"),
        ({"recompute": "half"}, "recompute"),
        ({"parameters": -1}, "parameters"),
    ],
)
def test_errors_name_the_argument(wrong, named):
    with pytest.raises(CourseError, match=named):
        train.flops(**{"model": "llama-3-8b", "sequence": 128, **wrong})


def test_missing_peaks_are_errors():
    with pytest.raises(CourseError, match="fp8"):
        train.mfu("llama-3-8b", "a100-sxm-80", 1000, 8192, dtype="fp8")
