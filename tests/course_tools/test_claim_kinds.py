"""Rows of tables as people write them, each judged with a pencil: bytes over bandwidth, FLOPs over
the dense peak. Of each kind, what must hold of all of it.
"""

import pytest

from course_lib import CourseError
from course_tools.claims import SPEEDS, VERDICTS, claimed, verify
from tests.each import each

# By kind, rows and whether a pencil finds them possible. An H100 reads 3.35 TB/s and multiplies
# 989 TFLOP/s in bf16, an H200 reads 4.8 TB/s, an A100 2.04, an L4 0.3; 8B are 16 GB in bf16, 70B
# 141 GB, 13B 26 GB.
KINDS = {
    "total": [  # tokens/s of all sequences together
        ({"model": "Llama-3-8B", "gpu": "H100", "tok/s": 180, "batch": 1, "dtype": "bf16"}, True),
        ({"model": "Llama-3-8B", "gpu": "H100", "tok/s": 2400, "batch": 16, "dtype": "bf16"}, True),
        ({"model": "Llama-3-8B", "gpu": "H100", "tok/s": 2400, "batch": 8, "dtype": "bf16"}, False),
        ({"model": "llama-2-13b", "gpu": "A100", "tok/s": 95, "batch": 1, "dtype": "fp16"}, False),
        ({"model": "llama-3-8b", "gpu": "L4", "tps": 30, "batch": 1, "precision": "fp16"}, False),
        ({"model": "llama-3-8b", "gpu": "L4", "tps": 30, "concurrency": 1}, True),  # in 8 bit
    ],
    "user": [  # tokens/s that each user sees
        ({"model": "llama-3-8b", "gpu": "H100", "tok/s/user": 150, "concurrency": 64}, True),
        ({"model": "llama-3-70b", "gpu": "H200", "tps_per_user": 30, "dtype": "bf16"}, True),
        ({"model": "llama-3-70b", "gpu": "H200", "tps_per_user": 50, "dtype": "bf16"}, False),
        ({"model": "llama-3-70b", "gpu": "4xH200", "tps_per_user": 50, "dtype": "bf16"}, True),
    ],
    "replicas": [  # a sum over engines, and what each chip gives of it
        ({"model": "llama-3-8b", "gpu": "H100", "tok/s": 1400, "batch": 1, "replicas": 8}, True),
        ({"model": "llama-3-8b", "gpu": "H100", "tok/s": 9000, "batch": 1, "replicas": 8}, False),
        (
            {"model": "llama-3-8b", "gpu": "H100", "tok/s": 700, "bs": 1, "dp": 4, "dtype": "bf16"},
            True,
        ),
        (
            {"model": "llama-3-8b", "gpu": "H100", "tp": 2, "gpus": 8, "tok/s": 1300, "bs": 1}
            | {"dtype": "bf16"},
            True,  # of 8 chips, 1672
        ),
        ({"model": "llama-3-70b", "gpu": "8x H100", "tok/s/gpu": 20, "bs": 1}, True),
        ({"model": "llama-3-70b", "gpu": "8x H100", "tok/s/gpu": 200, "bs": 1}, False),
    ],
    "speculation": [  # several tokens a pass
        (
            {"model": "llama-3-70b", "gpu": "H200", "tok/s": 90, "bs": 1, "dtype": "bf16"}
            | {"acceptance_length": 3.1},
            True,  # 34 passes a second, of 34 tokens
        ),
        (
            {"model": "llama-3-70b", "gpu": "H200", "tok/s": 190, "bs": 1, "dtype": "bf16"}
            | {"acceptance_length": 3.1},
            False,
        ),
        (
            {"model": "llama-3-70b", "gpu": "H200", "tpot_ms": 9, "dtype": "bf16"}
            | {"num_speculative_tokens": 3},
            True,  # at best four tokens in 29 ms
        ),
        (
            {"model": "llama-3-70b", "gpu": "H200", "tpot_ms": 5, "dtype": "bf16"}
            | {"num_speculative_tokens": 3},
            False,
        ),
    ],
    "prompts": [  # two FLOPs a parameter and token
        ({"model": "llama-3-8b", "gpu": "H100", "prompt_tok_s": 50_000, "dtype": "bf16"}, True),
        ({"model": "llama-3-8b", "gpu": "H100", "prompt_tok_s": 150_000, "compute": "bf16"}, False),
        ({"model": "llama-3-8b", "gpu": "A100", "ttft_ms": 600, "context": 8000}, True),
        ({"model": "llama-3-8b", "gpu": "A100", "ttft_ms": 60, "context": 8000}, False),
    ],
    "rates": [
        ({"gpu": "H100 SXM", "tflops": 640, "format": "bf16"}, True),
        ({"gpu": "H100 SXM", "tflops": 1979, "format": "bf16"}, False),  # the sparse headline
        ({"gpu": "A100", "tflops": 624, "format": "fp16"}, False),  # and another
        ({"gpu": "A100", "tflops": 290, "format": "fp16"}, True),
        ({"gpu": "H100", "gb_s": 3000, "bytes": 4e9}, True),
        ({"gpu": "H100", "gb_s": 24_000, "bytes": 4e9}, False),  # in bits
        ({"gpu": "H100", "mfu_percent": 52}, True),
        ({"gpu": "H100", "mfu": "131 %"}, False),
    ],
}
ROWS = [(kind, row, verdict) for kind, rows in KINDS.items() for row, verdict in rows]
POSSIBLE = [row for _, row, verdict in ROWS if verdict]
IMPOSSIBLE = [(kind, row) for kind, row, verdict in ROWS if not verdict]


def judged(row):
    return verify(claimed(row))


@each(("kind", "row", "possible"), ROWS)
def test_a_row_is_judged_as_with_a_pencil(kind, row, possible):
    assert len(ROWS) >= 30
    assert (judged(row).verdict == "possible") is possible, kind


@each("row", POSSIBLE)
def test_what_is_slower_or_said_with_less_is_never_refused(row):
    claim = claimed(row)
    name = next(name for name in SPEEDS if getattr(claim, name) is not None)
    slower = getattr(claim, name) / 3 if SPEEDS[name][1] else 3 * getattr(claim, name)
    fields = {one: getattr(claim, one) for one in claim.__struct_fields__}
    assert verify(type(claim)(**fields | {name: slower})).verdict == "possible"
    for left_out in ("weights", "batch", "users", "format"):
        assert verify(type(claim)(**fields | {left_out: None})).verdict == "possible", left_out


@each(("kind", "row"), IMPOSSIBLE)
def test_a_refusal_names_how_such_a_number_comes_about(kind, row):
    found = judged(row)
    hints = {
        "total": {"speculation", "chips", "batch"},
        "user": {"speculation"},
        "replicas": {"chips"},
        "speculation": {"speculation"},
        "prompts": {"prefix-cache"},
        "rates": {"sparse", "bits", "other-peak"},
    }
    assert hints[kind] & found.explanations.keys() or found.formats, found
    if "speculation" in found.explanations:
        more = {**row, "acceptance_length": found.explanations["speculation"]}
        more.pop("num_speculative_tokens", None)
        assert VERDICTS.index(judged(more).verdict) < VERDICTS.index("impossible")


@pytest.mark.parametrize(
    ("column", "cell", "speed", "why"),
    [
        ("speculative_decoding", "eagle", "tok/s", "acceptance_length"),
        ("draft_model", "llama-3-1b", "tpot_ms", "acceptance_length"),
        ("prefix_cache_hit_rate", "0.9", "ttft_ms", "cache"),
        ("enable_prefix_caching", True, "prompt_tok_s", "cache"),
    ],
)
def test_a_row_that_keeps_back_what_decides_is_not_judged_and_without_it_is(
    column, cell, speed, why
):
    row = {"model": "llama-3-8b", "gpu": "H100", speed: 1e6 if "tok" in speed else 0.01}
    row |= {"batch": 1, "context": 8000}
    with pytest.raises(CourseError, match=why):
        judged({**row, column: cell})
    for nothing in ("", "no", "off", 0, False, None):
        assert judged({**row, column: nothing}).verdict == "impossible"


def test_a_cache_of_prompts_says_nothing_of_decoding():
    row = {"model": "llama-3-8b", "gpu": "H100", "tok/s": 1e6, "batch": 1}
    assert judged({**row, "enable_prefix_caching": True}).verdict == "impossible"
