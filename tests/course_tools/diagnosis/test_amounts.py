"""FLOPs and bytes of operators, against counts by hand."""

import json

import pytest

from course_tools import diagnosis
from course_tools.diagnosis import amounts
from course_tools.diagnosis.amounts import count, tensors
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import OP, OpType
from tests.course_tools.diagnosis.others import Pen
from tests.each import each

B, F, L, E = "c10::BFloat16", "float", "long int", "c10::Float8_e4m3fn"


def counted(name, dims, types=B, concrete=(), strides=()):
    every = types.split(",") if isinstance(types, str) else types
    every = list(every) * (len(dims) if len(every) == 1 else 1)
    of = OpType(OP, name, dims=dims, types=every, strides=strides, concrete=concrete)
    found = count(of, tensors(of))
    return None if found is None else (found.flops, found.bytes)


def conv(name, *said):
    """Arguments of a convolution as the profiler writes them, tensors left empty."""
    return ["" if one is None else str(one) for one in said]


PATCHES = [[4, 3, 224, 224], [768, 3, 16, 16]]
IN_PATCHES = 2 * 4 * 14 * 14 * 768 * 3 * 256, 2.0 * (4 * 3 * 224**2 + 768 * 768 + 4 * 768 * 14**2)
HALF = [[2, 64, 56, 56], [128, 64, 1, 1]]
DEEP = [[2, 64, 56, 56], [64, 1, 3, 3]]
QKV = [[2, 4429, 38, 64]] * 3
CACHE = [[888, 2, 64], [888, 2, 64], [40000, 16, 2, 64], [40000, 16, 2, 64], [888]]
WRITTEN = 4 * 888 * 2 * 64 * 2 + 888 * 8
CAUSAL = 4.0 * 16 * 128 * (512 * 513 // 2)

CASES = [
    ("aten::mm", [[8, 16], [16, 32]], B, (), (2 * 8 * 16 * 32, 2 * (128 + 512 + 256))),
    ("aten::addmm", [[32], [8, 16], [16, 32]], B, (), (8192, 2 * (32 + 128 + 512 + 256))),
    ("aten::bmm", [[4, 8, 16], [4, 16, 32]], F, (), (4 * 8192, 4 * 4 * (128 + 512 + 256))),
    ("aten::baddbmm", [[4, 8, 32], [4, 8, 16], [4, 16, 32]], B, (),
     (4 * 8192, 2 * 4 * (256 + 128 + 512 + 256))),
    ("aten::linear", [[4, 8, 16], [32, 16], [32]], B, (),
     (4 * 8192, 2 * (512 + 512 + 32 + 1024))),
    ("aten::matmul", [[4, 8, 16], [16, 32]], B, (), (4 * 8192, 2 * (512 + 512 + 1024))),
    ("aten::matmul", [[4, 8, 16], [3, 4, 16, 32]], B, (), None),  # broadcasts
    ("aten::mm", [[8, 16], [17, 32]], B, (), None),
    ("aten::_scaled_mm", [[8, 16], [16, 32]], E, (), (8192, 128 + 512 + 256)),
    ("aten::mv", [[8, 16], [16]], F, (), (256, 4 * (128 + 16 + 8))),
    ("aten::addmv", [[8], [8, 16], [16]], F, (), (256, 4 * (8 + 128 + 16 + 8))),
    ("aten::dot", [[16], [16]], F, (), (32, 4 * 33)),
    ("aten::einsum", [[[8, 16], [16, 32]]], "TensorList", (), None),
    ("aten::cudnn_convolution", PATCHES, B,
     conv("", None, None, [0, 0], [16, 16], [1, 1], 1, False, False, True), IN_PATCHES),
    ("aten::convolution", PATCHES, B,
     conv("", None, None, None, [16, 16], [0, 0], [1, 1], False, [0, 0], 1), IN_PATCHES),
    ("aten::cudnn_convolution", PATCHES, B, (), None),  # without its arguments, nothing
    ("aten::miopen_convolution", HALF, B,
     conv("", None, None, None, [0, 0], [2, 2], [1, 1], 1, False, False),
     (2 * 2 * 28 * 28 * 128 * 64, 2.0 * (2 * 64 * 28 * 28 + 128 * 64 + 2 * 128 * 28 * 28))),
    ("aten::_convolution", DEEP, F,
     conv("", None, None, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 64, False, False, True),
     (2 * 2 * 56 * 56 * 64 * 9, 4.0 * (2 * 2 * 64 * 56 * 56 + 64 * 9))),
    ("aten::mkldnn_convolution", [[1, 8, 10], [4, 8, 3], [4]], F,
     conv("", None, None, None, [0], [1], [2], 1),
     (2 * 6 * 4 * 8 * 3, 4.0 * (80 + 96 + 4 + 24))),
    ("aten::convolution", [[1, 8, 10], [8, 4, 2]], F,
     conv("", None, None, None, [2], [0], [1], True, [0], 1),
     (2 * 10 * 8 * 4 * 2, 4.0 * (80 + 64 + 4 * 20))),
    ("aten::_flash_attention_forward", QKV, B, (),
     (4 * 2 * 38 * 4429**2 * 64, 2.0 * 4 * 2 * 4429 * 38 * 64)),
    ("aten::_efficient_attention_forward", QKV, B, (),
     (4 * 2 * 38 * 4429**2 * 64, 2.0 * 4 * 2 * 4429 * 38 * 64)),
    ("aten::_scaled_dot_product_flash_attention", [[2, 38, 4429, 64]] * 3, B, (),
     (4 * 2 * 38 * 4429**2 * 64, 2.0 * 4 * 2 * 4429 * 38 * 64)),
    ("aten::_scaled_dot_product_flash_attention", [[1, 16, 512, 128]] * 3, B,
     ["", "", "", "0.", "True", "False", ""], (CAUSAL, 2 * 4 * 16 * 512 * 128)),
    ("aten::scaled_dot_product_attention", [[1, 32, 8, 128], [1, 8, 512, 128], [1, 8, 512, 128]],
     B, (), (4 * 32 * 8 * 512 * 128, 2.0 * (2 * 32 * 8 * 128 + 2 * 8 * 512 * 128))),
    ("aten::_flash_attention_forward", [[888, 16, 64]] * 3, B, (), None),  # packed
    ("aten::_efficient_attention_forward", [*QKV, [3]], f"{B},{B},{B},int", (), None),
    ("vllm::unified_attention", QKV, B, (), None),
    ("_C_cache_ops::reshape_and_cache_flash", CACHE, f"{B},{B},{B},{B},{L}", (), (0, WRITTEN)),
    ("_C_cache_ops::reshape_and_cache", [*CACHE[:4], [444]], f"{B},{B},{B},{B},{L}", (),
     (0, WRITTEN / 2)),
    ("sglang::store_cache", CACHE, f"{B},{B},{B},{B},{L}", (), (0, WRITTEN)),
    ("_C_cache_ops::reshape_and_cache_flash", CACHE, f"{B},{B},{E},{E},{L}", (),
     (0, 3 * 888 * 2 * 64 * 2 + 888 * 8)),
    ("aten::index_put_", [[40000, 128], [[888]], [888, 128]], f"{B},TensorList,{B}", (),
     (0, 888 * 8 + 2 * 888 * 128 * 2)),
    ("aten::index_put_", [[40000, 128], [[888]], [1]], f"{B},TensorList,{B}", (),
     (0, 888 * 8 + 2 + 888 * 128 * 2)),
    ("aten::index_copy_", [[4000, 128], [8], [8, 128]], f"{B},{L},{B}", (), (0, 64 + 2 * 2048)),
    ("aten::index_add_", [[4000, 128], [8], [8, 128]], f"{B},{L},{B}", (), (0, 64 + 3 * 2048)),
    ("aten::scatter_", [[4000, 128], [8, 128], [8, 128]], f"{B},{L},{B}", (),
     (0, 8192 + 2 * 2048)),
    ("aten::embedding", [[32000, 4096], [2, 7]], f"{B},{L}", (), (0, 14 * 8 + 2 * 14 * 8192)),
    ("aten::gather", [[100, 100], [10, 10]], f"{F},{L}", (), (0, 800 + 800)),
    ("aten::native_dropout", [[64, 64]], B, (), (0, 5 * 4096)),
    ("aten::add", [[64, 64], [64]], B, (), (4096, 2 * (4096 + 64 + 4096))),
    ("aten::add", [[64, 64], [64, 64]], f"{B},{F}", (), (4096, 4096 * (2 + 4 + 4))),
    ("aten::gt", [[64, 64], [64, 64]], F, (), (4096, 4096 * 9)),
    ("aten::where", [[64], [64], [64]], f"bool,{F},{F}", (), (64, 64 * 13)),
    ("aten::copy_", [[64], [64]], f"{F},{B}", (), (0, 64 * 6)),
    ("aten::fill_", [[64]], F, (), (0, 256)),
    ("aten::clone", [[64]], F, (), (0, 512)),
    ("aten::sum", [[64, 64]], F, (), (4096, 16384)),
    ("aten::_softmax", [[64, 64]], F, (), (amounts._FLOPS["_softmax"] * 4096, 2 * 16384)),
    ("aten::native_layer_norm", [[8, 64], [64], [64]], F, (),
     (amounts._FLOPS["layer_norm"] * 512, 4 * (512 + 128 + 512))),
    ("aten::native_batch_norm", [[2, 64, 8, 8], [64], [64], [64], [64]], F, (),
     (8192, 4 * (8192 + 256 + 8192))),
    ("aten::cat", [[[64], [64]]], "TensorList", (), None),
    ("mylib::fused_thing", [[64, 64], [64, 64]], F, (), None),
    ("torch_ipex::mm", [[64, 64], [64, 64]], F, (), None),
]  # fmt: skip


@each(("name", "dims", "types", "concrete", "by_hand"), CASES)
def test_an_operator_is_counted_as_by_hand(name, dims, types, concrete, by_hand):
    found = counted(name, dims, types, concrete)
    assert found == (None if by_hand is None else pytest.approx(by_hand))


def test_every_table_has_a_count_by_hand():
    tried = {name.rpartition("::")[2] for name, *_, by_hand in CASES if by_hand}
    kinds = {"convolution", "attention", "product", "elementwise", "reduce", "gather", "copy"}
    assert kinds <= {names.operator_kind(f"aten::{one}") for one in tried} | {"convolution"}
    assert {"index_copy_", "index_add_", "scatter_"} <= tried


def test_memory_holds_an_expanded_dimension_once():
    given = {"dims": [[64, 64], [64, 64]], "strides": [[64, 1], [0, 1]]}
    assert counted("aten::add", **given, types=F) == (4096, 4 * (4096 + 64 + 4096))


def traced(tmp_path, pen):
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(pen.trace()))
    return diagnosis.diagnose(file)


def test_the_kernels_of_an_operator_share_its_work(tmp_path):
    once, split = Pen(), Pen()
    for _ in range(20):
        once.launch("aten::mm", "gemm_bf16", 400, [[4096, 4096]] * 2)
        split.launch("aten::mm", "gemm_bf16", 300, [[4096, 4096]] * 2)
        made = [row for row in split.rows if row["cat"] == "kernel"][-1]
        more = {**made, "name": "splitKreduce_kernel", "ts": made["ts"] + made["dur"], "dur": 100}
        split.rows.append(more)
        split.gpu_free += 100
    one, two = (traced(tmp_path, pen).operators for pen in (once, split))
    assert [len(one), len(two)] == [1, 1]
    assert (one[0].calls, one[0].bytes) == (two[0].calls, two[0].bytes)
    assert two[0].bound == pytest.approx(one[0].bound)


def test_a_row_below_its_bound_is_overcounted_and_decides_nothing(tmp_path):
    pen = Pen()
    for _ in range(50):
        pen.launch("aten::add", "add_kernel_elementwise", 20, [[1 << 28], [1 << 28]])
    found = traced(tmp_path, pen)
    assert found.operators[0].overcounted
    assert found.cause == "unknown"
    assert found.path == ()
