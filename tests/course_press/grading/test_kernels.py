"""The grader of lab 04: right kernels pass, each planted mistake fails its own criterion with the
hint that helps, and what the reference says of its bytes is what the library says.
"""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_lib import CourseError
from course_book.text import in_language
from course_press.grading.kernels import KERNELS
from tests.course_press.conftest import edited, need
from tests.course_press.grading.words import failures, written

need("torch", "triton")
LAB = Path(__file__).parents[3] / "labs" / "04-kernels"
grade = KERNELS.grade

ADD_AT = "at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
ADD_STORE = "tl.store(out + at, total, mask=inside)"
FUSED_STORE = "tl.store(out + row * width + column, value.to(out.dtype.element_ty), mask=inside)"
RESCALED = "total = total * tl.exp(top - higher) + tl.sum(tl.exp(value - higher), 0)"
DOT = "total = tl.dot(left, right, total)"
FIRST_PASS = """\
        higher = tl.maximum(top, tl.max(value, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(value - higher), 0)
        top = higher
"""
THREE_PASSES = """\
        top = tl.maximum(top, tl.max(value, 0))
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        at = x + row * x_row + column * x_column
        value = tl.load(at, mask=column < width, other=-float("inf"))
        total += tl.sum(tl.exp(value - top), 0)
"""
APART = """
@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    kept = tl.rand(seed, at) >= p
    tl.store(out + at, tl.where(kept, value / (1 - p), 0.0).to(tl.float16), mask=at < n)


def bias_gelu_dropout(x, bias, p, seed, block=(4, 256)):
    between = first_part(x, bias, 0.0, seed, block)
    out = torch.empty_like(between)
    n = out.numel()
    dropout_kernel[(triton.cdiv(n, 64),)](between, out, n, p, seed, BLOCK=64)
    return out


def bias_gelu_dropout_bytes("""
STRIPED = """\
    lane = tl.arange(0, BLOCK)
    at = lane * tl.num_programs(0) + tl.program_id(0)
"""
BY_TORCH = "import torch\n\ndef matmul(a, b, block=None):\n    return a @ b\n"
BY_NUMPY = """
import torch

def matmul(a, b, block=None):
    return torch.from_numpy(a.numpy() @ b.numpy())
"""
FLASH = "result = tl.dot(weight.to(value.dtype), value, result * rescale[:, None])"

PLANTED = {
    "no mask on load": (
        "add",
        {"tl.load(x + at * x_step, mask=inside)": "tl.load(x + at * x_step)"},
        "shapes",
        r"loads \d+ B beyond the end of an array .* give tl\.load a mask",
    ),
    "no mask on store": (
        "add",
        {ADD_STORE: "tl.store(out + at, total)"},
        "shapes",
        r"stores \d+ B beyond the end .* give tl\.store a mask",
    ),
    "last block missing": (
        "add",
        {"add_kernel[(triton.cdiv(n, block),)]": "add_kernel[(max(1, n // block),)]"},
        "shapes",
        "unwritten .* round up with triton.cdiv",
    ),
    "wrong stride": (
        "matmul",
        {"a, b, out, M, N, K, *a.stride(), *b.stride(),": "a, b, out, M, N, K, N, 1, *b.stride(),"},
        "matmul",
        r"A row is read with another array's stride",
    ),
    "assumes contiguous": (
        "matmul",
        {"a, b, out, M, N, K, *a.stride(), *b.stride(),": "a, b, out, M, N, K, K, 1, N, 1,"},
        "strides",
        r"pass stride\(0\) and stride\(1\)",
    ),
    "copies instead of strides": (
        "softmax",
        {"    rows, width = x.shape\n    out = torch.empty((rows, width), dtype=x.dtype, "
         "device=x.device)\n    softmax": "    x = x.contiguous()\n    rows, width = x.shape\n"
         "    out = torch.empty((rows, width), dtype=x.dtype, device=x.device)\n    softmax"},
        "strides",
        r"copies arrays .* torch: clone in line \d+",
    ),
    "refuses what is not contiguous": (
        "add",
        {"    n = x.numel()": "    assert x.is_contiguous()\n    n = x.numel()"},
        "strides",
        r"line \d+: 'assert x.is_contiguous\(\)': AssertionError",
    ),
    "fp16 accumulation": (
        "matmul",
        {DOT: f"{DOT.replace('total)', 'total.to(tl.float32))')}.to(tl.float16)",
         "tl.zeros((BM, BN), tl.float32)": "tl.zeros((BM, BN), tl.float16)"},
        "precision",
        "keep the accumulator in tl.float32",
    ),
    "fp16 accumulation in attention": (
        "attention",
        {FLASH: f"{FLASH}.to(tl.float16).to(tl.float32)"},
        "precision",
        "keep the accumulator in tl.float32",
    ),
    "softmax without rescale": (
        "softmax",
        {RESCALED: "total = total + tl.sum(tl.exp(value - higher), 0)"},
        "softmax",
        r"multiplied by exp\(old maximum - new maximum\)",
    ),
    "softmax of the last block": (
        "softmax",
        {RESCALED: "total = tl.sum(tl.exp(value - higher), 0)"},
        "softmax",
        "all that was summed before",
    ),
    "attention without rescale of its result": (
        "attention",
        {"value, result * rescale[:, None])": "value, result)"},
        "attention",
        r"multiplied by exp\(old maximum - new maximum\)",
    ),
    "attention without rescale of its sum": (
        "attention",
        {"total = total * rescale + tl.sum(weight, 1)": "total = total + tl.sum(weight, 1)"},
        "attention",
        r"multiplied by exp\(old maximum - new maximum\)",
    ),
    "maximum not subtracted": (
        "softmax",
        {FIRST_PASS: "        total += tl.sum(tl.exp(value), 0)\n", "tl.exp(value - top)": "tl.exp(value)"},
        "softmax",
        "overflows with large numbers: subtract the maximum",
    ),
    "attention's maximum not subtracted": (
        "attention",
        {"        higher = tl.maximum(top, tl.max(score, 1))\n": "        higher = tl.zeros_like(top)\n",
         "top = tl.full((QUERIES,), -float(\"inf\"), tl.float32)": "top = tl.zeros((QUERIES,), tl.float32)"},
        "attention",
        "overflows with large numbers: subtract the maximum",
    ),
    "lanes left out count": (
        "softmax",
        {', other=-float("inf")': ""},
        "shapes",
        "gives NaN .* Name it by other=",
    ),
    "two programs for one place": (
        "add",
        {ADD_AT: ADD_AT.replace("tl.program_id(0)", "(tl.program_id(0) // 2)"),
         "add_kernel[(triton.cdiv(n, block),)]": "add_kernel[(2 * triton.cdiv(n, block),)]"},
        "overlap",
        r"add_kernel at sizes 256: 1,024 B are stored by more than one program",
    ),
    "tile reloaded": (
        "matmul",
        {f"        {DOT}": "        right = tl.load(b + down * b_row + column * b_column, "
         f"mask=(down < K) & (column < N), other=0.0)\n        {DOT}"},
        "bytes",
        r"loads .* these blocks need .* loaded again",
    ),
    "three passes": ("softmax", {FIRST_PASS: THREE_PASSES}, "bytes", "two passes .* online normalizer"),
    "stored in between": (
        "fused",
        {"def bias_gelu_dropout(": "def first_part(", "\n\ndef bias_gelu_dropout_bytes(": f"\n{APART}"},
        "bytes",
        "do all in one kernel",
    ),
    "stripes instead of blocks": (
        "add",
        {f"    {ADD_AT}\n": STRIPED},
        "bytes",
        r"touches sectors of .* neighboring lanes neighboring addresses",
    ),
    "gelu before the bias": (
        "fused",
        {"gelu(value) / (1 - p)": "value / (1 - p)",
         "mask=inside).to(tl.float32)\n    value +=": "mask=inside).to(tl.float32)\n"
         "    value = gelu(value)\n    value +="},
        "fused",
        r"GELU has to come after the bias",
    ),
    "dropout not scaled": (
        "fused",
        {"gelu(value) / (1 - p)": "gelu(value)"},
        "fused",
        r"has to be divided by 1 - p",
    ),
    "one mask for all programs": (
        "fused",
        {"tl.rand(seed, row * width + column)": "tl.rand(seed, tl.arange(0, ROWS)[:, None] * COLUMNS "
         "+ tl.arange(0, COLUMNS)[None, :])"},
        "fused",
        "the dropout mask repeats from block to block",
    ),
    "one mask for all rows": (
        "fused",
        {"tl.rand(seed, row * width + column)": "tl.rand(seed, row * 0 + column)"},
        "fused",
        "the dropout mask repeats",
    ),
    "mask without the seed": (
        "fused",
        {"tl.rand(seed, row": "tl.rand(0, row"},
        "fused",
        "hand the seed to tl.rand",
    ),
    "mask by block": (
        "fused",
        {"tl.rand(seed, row * width + column)": "tl.rand(seed, (tl.program_id(0) * 7 + "
         "tl.program_id(1)) * 4096 + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])"},
        "fused",
        "depends on the size of the block",
    ),
    "drops what it should keep": (
        "fused",
        {"column) >= p": "column) < p"},
        "fused",
        "keep an element where tl.rand is p or more",
    ),
    "attention not scaled": (
        "attention",
        {"tl.dot(query, key) * scale": "tl.dot(query, key)"},
        "attention",
        "divided by the square root of the size of a head",
    ),
    "causal mask wrong way round": (
        "attention",
        {"seen & (across <= row)": "seen & (across >= row)",
         "end = tl.minimum(keys, (tl.program_id(0) + 1) * QUERIES)": "end = keys"},
        "attention",
        "The causal mask is the wrong way around",
    ),
    "causal mask without itself": (
        "attention",
        {"seen & (across <= row)": "seen & (across < row)"},
        "attention",
        "A query sees itself too",
    ),
    "no causal mask": (
        "attention",
        {"if CAUSAL": "if False"},
        "attention",
        "The causal mask is missing",
    ),
    "inner loop too short": (
        "matmul",
        {"range(0, K, BK)": "range(0, K // BK * BK, BK)"},
        "shapes",
        "The last block of the loop is missing",
    ),
    "accumulator overwritten": (
        "matmul",
        {DOT: "total = tl.dot(left, right)"},
        "matmul",
        "add to the accumulator, do not overwrite it",
    ),
    "formula forgets the store": (
        "add",
        {"4 * (2 * n + n)": "4 * 2 * n"},
        "formula",
        r"add_bytes gives 2,048 B at sizes 256, and 3,072 B were counted: it forgets what is stored",
    ),
    "formula counts padding": (
        "matmul",
        {"    read = M * K": "    M, N, K = (triton.cdiv(x, y) * y for x, y in zip((M, N, K), block))\n"
         "    read = M * K"},
        "formula",
        "it counts blocks at the edge as full",
    ),
    "formula counts each array once": (
        "matmul",
        {"M * K * triton.cdiv(N, block[1]) + K * N * triton.cdiv(M, block[0])": "M * K + K * N"},
        "formula",
        "every block loads its own part again",
    ),
    "formula counts elements": (
        "softmax",
        {"4 * (2 * rows * width + rows * width)": "3 * rows * width"},
        "formula",
        "it counts elements, not bytes",
    ),
    "formula returns nothing": (
        "add",
        {"return 4 * (2 * n + n)": "print(n)"},
        "formula",
        "add_bytes returned NoneType: return a number",
    ),
    "another shape": (
        "softmax",
        {"dtype=x.dtype, device=x.device)\n    softmax_kernel": "dtype=torch.float64, "
         "device=x.device)\n    softmax_kernel"},
        "runs",
        r"returned float64\[3, 256\], and the lab asks for float32\[3, 256\]",
    ),
    "an error inside a kernel": (
        "add",
        {ADD_STORE: ADD_STORE.replace("total,", "total + nowhere,")},
        "runs",
        r"line \d+: 'tl.store\(out \+ at, total \+ nowhere.*NameError",
    ),
}  # fmt: skip
ROW = "row = tl.program_id(0) * BM"
COLUMN = "column = tl.program_id(1) * BN"
OTHERWISE = {
    "fused": {
        "return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))": "return 0.5 * x * "
        "(1 + tl.erf(x * 0.7071067811865476))"
    },
    "matmul": {
        ROW: ROW.replace("tl.program_id(0)", "(tl.program_id(0) % tl.cdiv(M, BM))"),
        COLUMN: COLUMN.replace("tl.program_id(1)", "(tl.program_id(0) // tl.cdiv(M, BM))"),
        "grid = (triton.cdiv(M, block[0]), triton.cdiv(N, block[1]))": "grid = (triton.cdiv(M, block[0]) "
        "* triton.cdiv(N, block[1]),)",
    },
    "attention": {
        "end = tl.minimum(keys, (tl.program_id(0) + 1) * QUERIES)": "end = keys",
        "end = min(keys, start + block[0]) if causal else keys": "end = keys",
        "tl.load(q + row * q_row + lane * q_column, mask=row < queries, other=0.0)": "(tl.load(q + row "
        "* q_row + lane * q_column, mask=row < queries, other=0.0) * scale).to(tl.float16)",
        "tl.dot(query, key) * scale": "tl.dot(query, key)",
    },
}
REPRESENTATIVE = (
    "no mask on load", "wrong stride", "assumes contiguous", "fp16 accumulation",
    "softmax without rescale", "two programs for one place", "tile reloaded", "dropout not scaled",
    "attention not scaled", "formula forgets the store", "an error inside a kernel",
)  # fmt: skip
"""One of each class."""


@pytest.fixture
def interpreting(supervised):
    """A supervisor that has imported torch and triton, for all gradings here."""
    return supervised("kernels")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in REPRESENTATIVE else pytest.mark.exhaustive)
        for name in PLANTED
    ],
)
def test_each_planted_mistake_fails_for_its_own_reason(name, tmp_path, interpreting):
    step, edits, criterion, why = PLANTED[name]
    file = written(tmp_path, edited(LAB / "reference.py", edits))
    found = failures(grade(file, scenarios=[step], supervisor=interpreting))
    assert list(found) == [criterion], found
    assert re.search(why, found[criterion])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BY_TORCH, r"leaves work to torch: mm in line 4"),
        (BY_NUMPY, r"launched no kernel: call it as add_kernel\[grid\]"),
    ],
    ids=["torch", "numpy"],
)
def test_whoever_lets_others_do_the_work_is_told(text, why, tmp_path, interpreting):
    found = failures(grade(written(tmp_path, text), scenarios=["matmul"], supervisor=interpreting))
    assert list(found) == ["own"]
    assert re.search(why, found["own"])


def test_a_step_that_is_done_is_judged_though_others_are_not(tmp_path, interpreting):
    stub, whole = ((LAB / name).read_text() for name in ("kernels.py", "reference.py"))
    done = whole[whole.index("@triton.jit\ndef add_kernel") : whole.index("@triton.jit\ndef gelu")]
    text = stub.replace("def add_kernel(", "def unused(").replace("def add(", "def old_add(")
    text = text.replace("def add_bytes(", "def old_bytes(") + "\n\n" + done
    verdicts = grade(written(tmp_path, text), scenarios=["add", "softmax"], supervisor=interpreting)
    found = failures(verdicts)
    assert list(found) == ["runs"]
    assert "not implemented yet: softmax." in found["runs"]
    assert {"add", "formula"} <= {one.criterion for one in verdicts if one.passed}


def test_a_file_that_cannot_be_executed_is_told_once(tmp_path, interpreting):
    found = failures(grade(written(tmp_path, "def add(x, y) -> None"), supervisor=interpreting))
    assert list(found) == ["runs"]
    assert "syntax error in line 1" in found["runs"]


def test_a_kernel_that_never_ends_is_ended(tmp_path, interpreting):
    edits = {"    total = tl.load(x": "    while True:\n        pass\n    total = tl.load(x"}
    file = written(tmp_path, edited(LAB / "reference.py", edits))
    found = failures(grade(file, scenarios=["add"], limit=3.0, supervisor=interpreting))
    assert list(found) == ["runs"]
    assert "did not end within 3 s" in found["runs"]


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ({"torch": "ModuleNotFoundError: No module named 'torch'"}, "hace falta torch: make labs"),
        ({"triton": "ModuleNotFoundError: No module named 'triton'"}, "paquetes son para Linux"),
        ({"triton": "OSError: libtriton.so"}, "triton, y no se puede importar: OSError"),
    ],
)
def test_without_torch_or_triton_it_is_refused_in_the_readers_language(missing, told):
    with in_language("es"), pytest.raises(CourseError, match=told):
        KERNELS.check([SimpleNamespace(missing=missing)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", OTHERWISE)
def test_another_way_is_as_good(step, tmp_path, interpreting):
    """GELU by erf; a grid of one dimension; all keys loaded, and the queries scaled."""
    file = written(tmp_path, edited(LAB / "reference.py", OTHERWISE[step]))
    assert failures(grade(file, scenarios=[step], supervisor=interpreting)) == {}
