"""FLOPs and bytes of the operators that models are made of. Knows no hardware."""

from course_lib.ops.access import SECTOR, WARP, sectors
from course_lib.ops.attention_kernels import attention, attention_standard, attention_tiled, kv_read
from course_lib.ops.blocks import KERNELS, Blocked, blocked
from course_lib.ops.products import dot, grouped_matmul, matmul, outer_products, tiled_matmul
from course_lib.ops.vector import (
    CONVENTIONS,
    Pass,
    bias,
    dropout,
    elementwise,
    embedding,
    fuse,
    gelu,
    norm,
    quantize,
    residual,
    rotary,
    softmax,
    swiglu,
)

__all__ = [
    "CONVENTIONS",
    "KERNELS",
    "SECTOR",
    "WARP",
    "Blocked",
    "Pass",
    "attention",
    "attention_standard",
    "attention_tiled",
    "bias",
    "blocked",
    "dot",
    "dropout",
    "elementwise",
    "embedding",
    "fuse",
    "gelu",
    "grouped_matmul",
    "kv_read",
    "matmul",
    "norm",
    "outer_products",
    "quantize",
    "residual",
    "rotary",
    "sectors",
    "softmax",
    "swiglu",
    "tiled_matmul",
]
