"""How the operators of a model are counted, each with its source."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from course_lib.core import Unit


class Convention(msgspec.Struct, frozen=True):
    """How an operator is counted.

    Attributes
    ----------
    flops : FLOP for each `per`. A transcendental function or a division is one; a
        multiply-accumulate is two.
    reads, writes : arrays of the result's size that pass through main memory when the operator is a
        kernel of its own.
    counted : what the FLOPs are.
    source : where the operator is defined, or the count is printed; a key of the bibliography.
    unit : ``"matrix"`` or ``"vector"``.
    per : what they are counted for.
    """

    flops: float
    reads: float
    counted: str
    source: str
    writes: float = 1
    unit: Unit = "vector"
    per: str = "element"


_GELU = "x^3 and its factor 3, sum 1, factor 1, tanh 2, sum 1, products 2"
_SWIGLU = "negation, exponential, sum, division, and the product with the other half"
_DROPOUT = "comparison with a random number, whose making is not counted; product"
_LAYER = "mean, difference, square, sum, product with the root's inverse, scale, bias"
_MATMUL, _PAIR = "multiply-accumulate", "pair of tokens and element of a head"

CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        "bias": Convention(1, 1, "a sum", "ivanov2021"),
        "residual": Convention(1, 2, "a sum", "ivanov2021"),
        "relu": Convention(1, 1, "a comparison", "ivanov2021"),
        "gelu": Convention(10, 1, _GELU, "hendrycks2016"),
        "swiglu": Convention(5, 2, _SWIGLU, "shazeer2020"),
        "dropout": Convention(2, 1, _DROPOUT, "srivastava2014"),
        "softmax": Convention(5, 1, "maximum, difference, exponential, sum, division", "yuan2024"),
        "rms": Convention(4, 1, "square, sum, product with the root's inverse, scale", "zhang2019"),
        "layer": Convention(7, 1, _LAYER, "yuan2024"),
        "rotary": Convention(3, 1, "two products and a sum: a rotation of pairs", "su2021"),
        "embedding": Convention(
            0, 1, "a gather; one sum for each table after the first", "vaswani2017"
        ),
        "matmul": Convention(2, 2, "a product and a sum", "austin2025", 1, "matrix", _MATMUL),
        "attention": Convention(
            4, 3, "a score's and a value's multiply-accumulate", "dao2022", 1, "matrix", _PAIR
        ),
    }
)
"""By operator: FLOPs, arrays read and written, the unit, and the convention's source."""
