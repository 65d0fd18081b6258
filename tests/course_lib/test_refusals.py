"""What was once answered with a wrong number, without a word: a class each. `test_arguments` spoils
everything else.
"""

import numpy as np
import pytest

from course_lib import CourseError, Work, bench, chip, llm, network, ops, roofline, total
from course_lib.specs import model
from course_tools import calibrate, train
from tests.each import each

H100 = chip("h100-sxm")
MATMUL = roofline(ops.matmul(4096, 8192, 8192), H100)


@each(
    ("call", "said"),
    [
        (lambda: llm.distinct(3, 8, 16), "active must be at most experts 8 .got 16"),
        (
            lambda: calibrate.predict(MATMUL, "a100-sxm-80"),
            "estimate is of h100-sxm, and chip is a100-sxm-80",
        ),
        (
            lambda: calibrate.predict(total(one=MATMUL), "t4"),
            "estimate is of h100-sxm, and chip is t4",
        ),
        (
            lambda: train.tokens_per_second("llama-3-8b", H100, 40, 8192),
            "utilised must be a fraction.*40 % is 0.4",
        ),
        (
            lambda: network.all_gather(8e9, 50e9, (16, 16)),
            "torus of several axes.*algorithm='torus'",
        ),
        (lambda: network.critical_contraction(1e15, 5e10, (4, 4)), "torus of several axes"),
        (
            lambda: ops.matmul(np.ma.array([1, 2], mask=[0, 1]), 64, 64),
            "B must have no masked elements",
        ),
        (lambda: llm.formats(w="nonsense", compute="bf16"), "unknown dtype 'nonsense'.*argument w"),
        (
            lambda: llm.decode("llama-2-7b", H100, 1, 10**7),
            "context must be at most the 4096 tokens.*extended",
        ),
        (
            lambda: llm.prefill("gpt2-xl", H100, 1, 100_000),
            "prompt must be at most the 1024 tokens.*extended",
        ),
        (lambda: llm.decode("llama-3-8b", H100, 1, 64, link="nvlink"), "link joins several chips"),
        (
            lambda: llm.fits("llama-2-70b", H100, 1, 4096, tp=[1, 2]),
            "tp must be one positive whole number",
        ),
        (lambda: ops.matmul(2**53 + 1, 64, 64), r"B must be below 2\*\*53"),
        (lambda: ops.matmul([1, 2], [1, 2, 3], 4), r"B and D must broadcast.*B \(2,\), D \(3,\)"),
        (lambda: ops.gelu(np.array([4, 8])), r"shape must be a tuple of sizes"),
        (lambda: roofline("x", H100), "work must be a Work"),
        (lambda: roofline(MATMUL, H100), "it is bounded already"),
        (lambda: calibrate.mean_error([], []), "expected must hold at least one number"),
        (lambda: bench.cpu_peak(4, 1e9, -256), "simd_bits"),
        (lambda: bench.matmul(np.float16(64.5), 64, 64), "M must be one positive whole number"),
    ],
)
def test_no_wrong_number_without_a_word(call, said):
    with pytest.raises(CourseError, match=said):
        call()


def test_narrow_types_reach_no_sum_and_no_product():
    half = Work(flops=np.array([2**31 - 1], np.int32), bytes=np.array([64], np.int32), dtype="bf16")
    twice = total(a=roofline(half, H100), b=roofline(half, H100))
    assert twice.flops.tolist() == [2.0 * (2**31 - 1)]
    assert twice.flops.dtype == np.float64
    assert (
        roofline(Work(flops=np.float16(60000), bytes=np.float16(64), dtype="bf16"), H100).t_math > 0
    )
    assert ops.kv_read(1, 1024, np.int8(64), 8, 128).flops == ops.kv_read(1, 1024, 64, 8, 128).flops
    assert Work(flops=[1, 2], bytes=[3, 4], dtype="bf16").intensity.tolist() == [1 / 3, 0.5]
    exact, narrow = (llm.fits("llama-2-70b", H100, 1, 4096, tp=tp) for tp in (2, np.float16(2)))
    assert (narrow.needed, narrow.max_batch) == (exact.needed, exact.max_batch)


def test_a_step_says_whether_its_batch_has_room():
    assert llm.decode("llama-3-8b", H100, [1, 10_000], 8192).fits.tolist() == [True, False]
    assert not llm.decode("llama-2-70b", H100, 1, 4096).fits
    assert llm.decode("llama-2-70b", H100, 1, 4096, tp=2, link="nvlink").fits
    assert llm.prefill("llama-3-8b", H100, 1, 8192).fits
    assert MATMUL.fits is None


def test_a_longer_context_is_asked_for_by_name():
    longer = model("gpt2-xl").extended(100_000)
    assert (longer.context, longer.positions) == (100_000, 100_000)
    assert llm.decode(longer, H100, 1, 100_000).lower > llm.decode("gpt2-xl", H100, 1, 1024).lower
    assert model("llama-2-7b").extended(10).context == 4096


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("llama-3-8b", {"layers": 40}, "published is 8.03.*e.09, but the sizes add up"),
        ("llama-3-8b", {"positions": -1}, "positions"),
        ("deepseek-v3", {"experts": {"shared": -1}}, "experts.shared"),
        ("deepseek-v3", {"latent": {"rope": 0}}, "latent.rope"),
        ("resnet-50", {"stem": -64}, "stem"),
        ("resnet-50", {"blocks": [3, 4, 0, 3]}, r"blocks\[2\]"),
        ("llama-3-8b", {"year": -1}, "year"),
    ],
)
def test_a_model_of_impossible_sizes_does_not_load(name, change, said):
    from course_lib.specs import DATA, load_toml
    from course_lib.specs.catalog import model_from

    raw = load_toml(DATA / "models" / f"{name}.toml", dict)
    for key, value in change.items():
        raw[key] = {**raw[key], **value} if isinstance(value, dict) else value
    with pytest.raises(CourseError, match=rf"{name}.toml: .*{said}"):
        model_from(f"{name}.toml", raw)
