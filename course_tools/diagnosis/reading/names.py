"""What names tell: which kernel does what, in which format; which calls of the host wait, and which
launch.

Names are those that libraries give their kernels; none of them is documented, so each pattern says
where it was seen.
"""

import csv
import re
from functools import cache

from course_tools.files import DATA

# What the host does besides launching, by the names that annotations and Python frames have.
HOST_WORK = {
    # torch's own is enumerate(DataLoader)#….__next__
    "loader": r"dataloader|data_?loading|load_?batch|fetch_?batch|next_?batch|tokeniz",
    "checkpoint": r"save_?checkpoint|checkpoint\w*[._ ]?(save|write)|torch.serialization.\w+.*save",
    "collection": r"python gc|gc\.collect|garbage.?collect",
    "compilation": (
        r"_dynamo.convert_frame|_inductor.(compile_fx|codecache|async_compile)|triton.compiler|"
        r"nvrtc|torch\.?compile.*compil"
    ),
}
# Collectives of the host, as torch.distributed annotates them.
TALK = re.compile(r"^(gloo|mpi|ucc|nccl):")
# Rows of the host that only a program on several ranks has.
RANKS = re.compile(r"^(c10d::|record_param_comms|gloo:|mpi:|ucc:|nccl:)")
# Operators that need a result on the host.
WAITS = re.compile(r"^aten::(item|_local_scalar_dense|is_nonzero|nonzero|equal)$")
# A row of the device for a whole replayed graph; kernels have other names.
GRAPH_ROW = re.compile(r"graph", re.I)
CONVERTING = re.compile(r"^aten::(to|_to_copy|copy_|type_as|float|double|half|bfloat16)$")
COPYING = re.compile(r"^aten::(copy_|clone|contiguous|_to_copy|to|cat|stack|repeat|_reshape_copy)$")

_KINDS = {
    # ncclDevKernel_AllReduce_Sum_bf16_RING_LL, ncclKernel_…, vLLM's cross_device_reduce_1stage
    "collective": r"nccl|rccl|cross_device_reduce|(all|reduce)_?(gather|scatter|reduce|to_?all)_?k",
    "layout": r"nchwTo|nhwcTo|transpose|permute",
    "convert": r"(b?float16|float8\w*|half)_copy_kernel|_to_copy(?!\w*(mul|add))|cast_kernel",
    "copy": r"direct_copy_kernel|CatArrayBatchedCopy|copy_kernel|memcpy",
    "attention": r"flash|fmha|attention|attn|paged|sdpa|mha_",
    "product": (
        r"gemm|gemv|cutlass|cublas|xmma|nvjet|wgmma|splitk|matmul|convolve|conv[123]d|wgrad|"
        r"dgrad|winograd|marlin|Cijk_|triton_tem|tensorop|_mm_|::mm\b"
    ),
    "reduce": (
        r"reduce_kernel|softmax|layer_?norm|rms_?norm|group_?norm|batch_norm|triton_(red|per)|"
        r"GammaBeta|RowwiseMoments"
    ),
    "gather": (
        r"index|gather|scatter|embedding|sort|topk|cumsum|reshape_and_cache|multi_tensor|"
        r"multi_tensor_apply|adam"
    ),
    "elementwise": (
        r"elementwise|triton_poi|pointwise|Functor|dropout|gelu|silu|relu|act_and_mul|"
        r"rotary|sigmoid|tanh|fill"
    ),
}
_OPERATORS = {
    "product": (
        r"^aten::(mm|addmm|bmm|baddbmm|linear|matmul|_scaled_mm|convolution|_convolution|"
        r"conv\w*|(cudnn|miopen|mkldnn)_\w*convolution\w*|mkldnn_linear|addmv|mv|dot|einsum)$"
    ),
    "attention": r"attention|attn",
    "copy": r"^aten::(copy_|clone|contiguous|_to_copy|to|cat|stack|repeat)$",
    "reduce": (
        r"^aten::(sum|mean|var|std|norm|amax|max|min|argmax|_?softmax|_?log_softmax|"
        r"native_layer_norm|layer_norm|linalg_vector_norm|var_mean|native_group_norm|rms_norm|"
        r"_fused_rms_norm|\w*batch_norm)$"
    ),
    "gather": (
        r"^aten::(index\w*|gather|scatter\w*|embedding\w*|sort|topk|cumsum|nonzero|_foreach\w*|"
        r"_fused_adam\w*|multinomial|native_dropout|normal_|uniform_|random_|randn|rand|bernoulli_)$"
    ),
    "elementwise": (
        r"^aten::(add|sub|mul|div|pow|tanh|exp|log|sqrt|rsqrt|neg|abs|sigmoid|silu|gelu|"
        r"relu|erf|sin|cos|where|masked_fill|clamp\w*|reciprocal|square|add_|sub_|mul_|div_|relu_|rsub|"
        r"threshold\w*|maximum|minimum|lerp|addcmul|addcdiv|fill_|zero_|eq|ne|gt|lt|ge|le|tanh_|exp_|"
        r"bitwise\w*|logical\w*|gelu_backward|silu_backward|tanh_backward|hardtanh|leaky_relu|softplus|"
        r"mish|elu|sigmoid_|pow_|expm1|log1p|erfc|floor|round|sign|logit|atan2?|sinh|cosh|tan|masked_fill_)$"
    ),
}
_FORMATS = {
    "fp64": r"dgemm|d884|_f64|f64f64|double",
    "tf32": r"tf32|s1688gemm(?!_(bf16|fp?16))",
    "fp8": r"e4m3|e5m2|fp8|f8f6",
    "int8": r"i8816|i16832|int8|_s8_|imma",
    "bf16": r"bf16|bfloat16|nvjet_t[so]t",
    "fp16": r"h(gemm|884|1688|16816)|f16|half|nvjet_h[sho][hst]",
    "fp32": r"sgemm|f32f32|ffma|simt|fp32|nvjet_s[so]s|\bfloat\b",
}
_TYPES = {
    "float": "fp32", "float32": "fp32", "fp32": "fp32",
    "double": "fp64", "float64": "fp64", "fp64": "fp64",
    "half": "fp16", "float16": "fp16", "fp16": "fp16",
    "bfloat16": "bf16", "bf16": "bf16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float8_e4m3fnuz": "fp8",
    "int": "int32", "int32": "int32", "long int": "int64", "long": "int64", "int64": "int64",
    "bool": "bool", "signed char": "int8", "int8": "int8", "unsigned char": "uint8",
}  # fmt: skip
BYTES = {
    "fp64": 8, "int64": 8, "fp32": 4, "int32": 4, "tf32": 4,
    "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
# What a template says of the deed, and namespaces without a name, which hold brackets.
_FUNCTOR = re.compile(r"\b(?!ReduceOp)(?:\w*(?:[Ff]unctor|Ops?\b|_kernel_cuda)\w*|cutlass_\w+)")
_UNNAMED = re.compile(r"(\(anonymous namespace\)|[<]unnamed[>]|\(anonymous class\))::")
# Formats for which a tensor core has a narrower and faster one.
WIDE = ("fp32", "tf32", "fp64")


@cache
def _calls() -> tuple[tuple[str, re.Pattern[str]], ...]:
    with (DATA / "diagnosis" / "calls.csv").open(encoding="utf-8", newline="") as file:
        return tuple((row["does"], re.compile(row["call"])) for row in csv.DictReader(file))


@cache
def call(name: str) -> str:
    """What a call of a runtime does to the host: ``"waits"`` for the device, ``"copies"``, which
    may block it, ``"allocates"``, ``"launches"``, ``"starts"`` what every program starts once, or
    ``"returns"`` at once; nothing where that is not known.
    """
    bare = re.sub(r"_(v\d+|ptsz|ptds)$", "", name)
    return next((does for does, pattern in _calls() if pattern.fullmatch(bare)), "")


def host_work(name: str) -> str:
    """What else the host does under an annotation: a key of the table above, or nothing."""
    return _first(HOST_WORK, name, re.I)


def kernel(name: str, operator: str = "") -> tuple[str, str | None]:
    """What a kernel does, by its name, and by that of the operator that launched it where its own
    says nothing; and in which format a product is computed, where the name says so.
    """
    kind = _first(_KINDS, name, re.I)
    launched = operator_kind(operator)
    if kind in ("", "elementwise", "gather") and launched in ("product", "attention", "reduce"):
        kind = launched
    if kind in ("", "gather") and launched == "elementwise":
        kind = launched
    if kind == "elementwise" and launched == "copy":
        kind = "copy"
    return kind or launched or "other", _first(_FORMATS, name, re.I) or None


def operator_kind(name: str) -> str:
    """What an operator does, by its name; nothing where that is not known."""
    return _first(_OPERATORS, name)


def bare(name: str) -> str:
    """A kernel's name without return type, arguments and namespaces, and of its template what it
    computes; without the number that Triton's compiler counts its kernels by.
    """
    outer, depth, inside = "", 0, ""
    for piece in re.split(r"([<>(])", _UNNAMED.sub("", name.removeprefix("void "))):
        if piece == "(" and not depth:
            break
        depth += (piece == "<") - (piece == ">")
        outer, inside = outer + piece * (not depth and piece != ">"), inside + piece * (depth > 0)
    called = re.sub(r"^(triton_\w*?)_\d+$", r"\1", outer.strip().rpartition("::")[2])
    computes = _FUNCTOR.search(inside)
    return f"{called}<{computes[0]}>" if computes else called or name


def does(name: str) -> str:
    """What an operator or a kernel does, all that only copies counting as a copy."""
    kind = operator_kind(name) or kernel(name)[0]
    only = COPYING.search(name) or CONVERTING.search(name)
    return "copy" if only or kind in ("layout", "convert") else kind


def dtype(written: str) -> str | None:
    """The format that a trace calls so: ``"c10::BFloat16"``, ``"float"``, ``"torch.float16"``."""
    return _TYPES.get(written.lower().removeprefix("c10::").removeprefix("torch.").strip())


def _first(patterns: dict[str, str], name: str, flags: int = 0) -> str:
    return next((key for key, one in patterns.items() if re.search(one, name, flags)), "")
