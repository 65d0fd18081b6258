"""Bytes counted while Triton's interpreter runs a kernel: by hand for small kernels, by the library
for those of lab 04. They run in a process of their own, for triton settles when it is imported
whether it interprets.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from course_lib import ops
from course_tools.campaigns.traffic import SECTOR, Launch, counted

ROOT = Path(__file__).parents[3]
LAB = ROOT / "labs" / "04-kernels"
pytest.importorskip("torch")
if find_spec("triton") is None:  # importing it here would settle whether it interprets
    pytest.skip("triton is not here: nothing is counted", allow_module_level=True)

SMALL = """
import json, sys
import torch, triton, triton.language as tl
from course_tools.campaigns.traffic import counted
sys.path.insert(0, "labs/04-kernels")
import reference as lab

@triton.jit
def copy(x, out, n, step, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * step, mask=at < n), mask=at < n)

@triton.jit
def careless(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.program_id(0))

@triton.jit
def some(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < 2))

@triton.jit
def count(out, BLOCK: tl.constexpr):
    tl.atomic_add(out + tl.arange(0, BLOCK), 1)

@triton.jit
def described(x, out, n, BLOCK: tl.constexpr):
    rows = tl.make_tensor_descriptor(x, [n, 16], [16, 1], [BLOCK, 16])
    to = tl.make_tensor_descriptor(out, [n, 16], [16, 1], [BLOCK, 16])
    at = tl.program_id(0) * BLOCK
    to.store([at, 0], rows.load([at, 0]))

def launched(kernel, grid, *given, **named):
    with counted() as launches:
        kernel[grid](*given, **named)
    return launches[0]._asdict()

def zeros(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)

found = {
    "copy": launched(copy, (4,), torch.ones(100), zeros(100), 100, 1, BLOCK=32),
    "apart": launched(copy, (4,), torch.ones(1000), zeros(100), 100, 10, BLOCK=32),
    "past": launched(careless, (1,), torch.ones(8), zeros(12), BLOCK=16),
    "twice": launched(careless, (3,), torch.ones(16), zeros(16), BLOCK=16),
    "atomic": launched(count, (3,), zeros(16, dtype=torch.int32), BLOCK=16),
    "described": launched(described, (2,), torch.ones(5, 16), zeros(5, 16), 5, BLOCK=4),
    "half": launched(copy, (1,), torch.ones(32).half(), zeros(32, dtype=torch.float16), 32, 1, BLOCK=32),
}
out = zeros(16)
with counted() as outer:
    with counted() as inner:
        some[(1,)](torch.ones(16), out, BLOCK=16)
found["nested"] = [len(outer), len(inner)]
found["left out"] = out.isnan().tolist()
room, before = torch.zeros(16), torch.zeros(16)
with counted():
    careless[(1,)](torch.ones(16), room[:8], BLOCK=16)
found["spared"] = room.tolist()
copy[(1,)](torch.ones(4), before, 4, 1, BLOCK=4)
found["after"] = [before[:5].tolist(), len(outer)]

def moved(call):
    with counted() as launches:
        call()
    return sum(one.bytes for one in launches)

def half(*shape):
    return torch.randn(shape).half()

for n in (256, 1000, 37):
    found[f"add {n}"] = [moved(lambda: lab.add(torch.ones(n), torch.ones(n), 64)), lab.add_bytes(n)]
for rows, width in ((8, 64), (7, 50), (1, 5)):
    call = lambda: lab.bias_gelu_dropout(half(rows, width), half(width), 0.1, 1, (4, 32))
    found[f"fused {rows} {width}"] = [moved(call), lab.bias_gelu_dropout_bytes(rows, width, (4, 32))]
    call = lambda: lab.softmax(torch.ones(rows, width), 32)
    found[f"softmax {rows} {width}"] = [moved(call), lab.softmax_bytes(rows, width)]
for M, N, K in ((32, 64, 96), (50, 70, 45), (16, 16, 200)):
    call = lambda: lab.matmul(half(M, K), half(K, N), (32, 16, 16))
    found[f"matmul {M} {N} {K}"] = [moved(call), lab.matmul_bytes(M, N, K, (32, 16, 16))]
    q, k = half(M, 16), half(N, 16)
    call = lambda: lab.attention(q, k, k, False, (32, 16))
    found[f"attention {M} {N} 16"] = [moved(call), lab.attention_bytes(M, N, 16, False, (32, 16))]
    call = lambda: lab.attention(q, q, q, True, (32, 16))
    found[f"causal {M} {M} 16"] = [moved(call), lab.attention_bytes(M, M, 16, True, (32, 16))]
print(json.dumps(found))
"""
FILES = {
    "add": {"x": "*fp32", "y": "*fp32", "out": "*fp32"},
    "fused": {"x": "*fp16", "bias": "*fp16", "out": "*fp16", "p": "fp32"},
    "softmax": {"x": "*fp32", "out": "*fp32"},
    "matmul": {"a": "*fp16", "b": "*fp16", "out": "*fp16"},
    "attention": {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp16", "scale": "fp32"},
}
"""The formats of each kernel's arguments; others are whole numbers, or fixed when it is compiled."""
FIXED = {
    "BLOCK": 1024, "ROWS": 4, "COLUMNS": 256, "BM": 128, "BN": 128, "BK": 64, "CAUSAL": True,
    "QUERIES": 64, "KEYS": 64, "DIM": 64,
}  # fmt: skip
COMPILED = """
import json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
sys.path.insert(0, {folder!r})
import mine
formats, fixed, found = {formats!r}, {fixed!r}, {{}}
for capability in (80, 90, 100):
    for name, of in formats.items():
        kernel = getattr(mine, f"{{name}}_kernel")
        given = {{one: fixed[one] for one in kernel.arg_names if one in fixed}}
        kinds = {{one: "constexpr" if one in given else of.get(one, "i32") for one in kernel.arg_names}}
        source = ASTSource(fn=kernel, signature=kinds, constexprs=given)
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32))
        found[f"{{name}} {{capability}}"] = len(made.asm["cubin"])
print(json.dumps(found))
"""


def in_a_process(text, **environment):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_DEFAULT_FP_FUSION": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    file = tmp_path_factory.mktemp("traffic") / "small.py"  # the interpreter reads its source
    file.write_text(SMALL)
    text = f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')"
    return in_a_process(text, TRITON_INTERPRET="1")


def one(found, name, *fields):
    return tuple(found[name][field] for field in fields)


def test_what_a_mask_leaves_out_moves_nothing(found):
    assert one(found, "copy", "kernel", "programs", "loaded", "stored") == ("copy", 4, 400, 400)
    assert one(found, "half", "loaded", "stored") == (64, 64)


def test_the_counter_and_the_model_know_one_sector():
    assert SECTOR == ops.SECTOR  # the counter imports nothing of the library


def test_a_stride_shows_in_sectors(found):
    # 400 B lie in 13 sectors, the last one half used.
    assert one(found, "copy", "loaded_sectors", "stored_sectors") == (416, 416)
    # Every tenth element of 4 B: each has a sector of its own.
    assert one(found, "apart", "loaded", "loaded_sectors") == (400, 3200)


def test_what_lies_past_an_array_is_counted_and_spared(found):
    assert one(found, "past", "loaded", "outside_loaded", "outside_stored") == (64, 32, 16)
    assert found["spared"] == [1.0] * 8 + [0.0] * 8


def test_bytes_that_several_programs_store_are_counted(found):
    assert one(found, "twice", "stored", "overlap") == (192, 128)
    assert one(found, "copy", "overlap") == (0,)


def test_atomic_operations_load_and_store_and_may_meet(found):
    assert one(found, "atomic", "loaded", "stored", "overlap") == (192, 192, 0)


def test_descriptors_are_counted_too(found):
    assert one(found, "described", "loaded", "stored") == (320, 320)


def test_lanes_left_out_hold_what_no_sum_survives(found):
    assert found["left out"] == [False] * 2 + [True] * 14


def test_counting_may_be_nested_and_leaves_nothing_behind(found):
    assert found["nested"] == [1, 1]
    assert found["after"] == [[1.0] * 4 + [0.0], 1]


def expected(name, sizes):
    """Bytes by the library's operators."""
    blocks = {"add": (64,), "fused": (4, 32), "softmax": (32,), "matmul": (32, 16, 16)}
    kernel = "attention" if name == "causal" else name
    return ops.blocked(kernel, sizes, blocks.get(name, (32, 16)), causal=name == "causal").bytes


def test_the_reference_moves_what_it_says_and_what_the_library_says(found):
    compared = {name: value for name, value in found.items() if isinstance(value, list)}
    compared = {key: value for key, value in compared.items() if key[-1].isdigit()}
    assert len(compared) == 18
    for key, (counted_, formula) in compared.items():
        name, *sizes = key.split()
        assert counted_ == formula == expected(name, tuple(map(int, sizes))), key


def test_nothing_is_counted_where_nothing_runs():
    with counted() as launches:
        pass
    assert launches == []
    assert Launch("none", 0).bytes == 0


@pytest.mark.exhaustive
def test_the_reference_compiles_for_gpus_that_are_not_here(tmp_path):
    """By Triton's own compiler and assembler, for the chips of the page: only running it needs one."""
    text = (LAB / "reference.py").read_text()
    interpreted = 'os.environ["TRITON_INTERPRET"] = "1"'
    assert interpreted in text
    (tmp_path / "mine.py").write_text(text.replace(interpreted, "pass"))
    code = COMPILED.format(folder=str(tmp_path), formats=FILES, fixed=FIXED)
    found = in_a_process(code, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path / "cache"))
    assert len(found) == 3 * len(FILES)
    assert all(found.values())
