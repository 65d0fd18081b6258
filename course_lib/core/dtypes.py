"""How wide each number format is. A format not listed here is an error, never a guess."""

from collections.abc import Mapping
from typing import Any

from course_lib.core.checks import CourseError, known

# Bits an element occupies in memory. TF32 is a mode of the matrix unit: its operands are stored as
# fp32.
BITS = {
    "fp64": 64,
    "fp32": 32,
    "tf32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,
    "int8": 8,
    "fp4": 4,
    "int4": 4,
}

# Bits of the scale that a group of quantised elements shares, where a format has no name.
SCALE_BITS = 16

# Formats by the names that people type: of what their elements are, how many of them make a group,
# and how many bits that group has beside them, scales and zero points.
SCALED: Mapping[str, tuple[str, int, float]] = {
    # OCP Microscaling Formats (MX) v1.0, 5.2: 32 elements share an E8M0 scale of 8 bits.
    "mxfp4": ("fp4", 32, 8),
    "mxfp8": ("fp8", 32, 8),
    # "Pretraining Large Language Models with NVFP4", arXiv:2509.25149, 2: 16 elements share an E4M3
    # scale; the fp32 scale of the whole matrix is no bits of an element.
    "nvfp4": ("fp4", 16, 8),
    # DeepSeek-V3, arXiv:2412.19437, 3.3.2 and its checkpoints' weight_scale_inv: an fp32 scale for
    # 128 x 128 elements.
    "fp8-block": ("fp8", 128 * 128, 32),
    # QLoRA, arXiv:2305.14314, 2 and 3: 64 elements share an fp32 constant; double quantisation
    # keeps it in 8 bits, and 256 of these share an fp32 one. bitsandbytes' fp4 has other codes.
    "nf4": ("fp4", 64, 32),
    "nf4-double": ("fp4", 64, 8 + 32 / 256),
    "bnb-fp4": ("fp4", 64, 32),
    "bnb-fp4-double": ("fp4", 64, 8 + 32 / 256),
    # AutoAWQ's WQLinear_GEMM and AutoGPTQ's QuantLinear: a group has scales in fp16, and qzeros, a
    # zero point of as many bits as an element.
    "awq": ("int4", 128, 16 + 4),
    "gptq": ("int4", 128, 16 + 4),
    "gptq8": ("int8", 128, 16 + 8),
    # llama.cpp, ggml-common.h: block_q4_0 and block_q8_0 are 32 elements with an fp16 scale.
    "q4_0": ("int4", 32, 16),
    "q8_0": ("int8", 32, 16),
    # The same file: 256 elements of block_q4_K have 128 bits beside them, 4.5 in all; block_q6_K
    # has 6.5625. llama-quant.cpp takes q6_K for the output matrix, and in half the layers for v and
    # down: over the parameters of Llama-3.1-8B that is 4.89 bits; other models are near it.
    "q4_k_m": ("int4", 256, 256 * 0.89),
}


def itemsize(dtype: str, argument: str = "") -> float:
    """Bytes that one element of `dtype` occupies in memory, its share of a group's scale included.

    Parameters
    ----------
    dtype : one of `BITS` or `SCALED`; ``"int4/32"`` is int4 in groups of 32 elements that share a
        16-bit scale, ``"awq/64"`` what `SCALED` has in groups of 64.
    argument : what the caller called it, for the message.

    Examples
    --------
    >>> itemsize("bf16"), itemsize("int4"), 8 * itemsize("int4/32"), 8 * itemsize("awq")
    (2.0, 0.5, 4.5, 4.15625)
    """
    _require_format(dtype, argument)
    parts = dtype.split("/")
    bare, group, shared = parts[0], 0, 1.0 * SCALE_BITS
    if bare in SCALED:
        group, shared = SCALED[bare][1], 1.0 * SCALED[bare][2]
        bare = SCALED[bare][0]
    if len(parts) > 1:
        group = int(parts[1])
    return (BITS[bare] + (shared / group if group > 0 else 0)) / 8


def element(dtype: str, argument: str = "") -> str:
    """The format of the elements alone, without the group that shares a scale: int4 of int4/32."""
    _require_format(dtype, argument)
    name = dtype.split("/")[0]
    return SCALED[name][0] if name in SCALED else name


def _require_format(dtype: Any, argument: str) -> None:
    if isinstance(dtype, str) and dtype in BITS:
        return
    name, slash, group = dtype.partition("/") if isinstance(dtype, str) else (dtype, "", "")
    if slash and not (group.isdecimal() and len(group) < 16 and int(group)):
        what = f"{argument or 'dtype'} {dtype!r}"
        raise CourseError(
            f"{what} must name its group as in 'int4/32': a positive whole number of elements"
        )
    known("dtype", name, (*BITS, *SCALED), argument and f"argument {argument}")


def widest(*dtypes: str) -> str:
    """The widest of these formats, in which operands are multiplied when nothing else is said."""
    elements = {element(dtype) for dtype in dtypes}
    bits = max(BITS[dtype] for dtype in elements)
    widest_of_all = sorted(dtype for dtype in elements if BITS[dtype] == bits)
    if len(widest_of_all) > 1:
        raise CourseError(
            f"compute is not clear from operands in {' and '.join(widest_of_all)}: pass compute="
        )
    return widest_of_all[0]
