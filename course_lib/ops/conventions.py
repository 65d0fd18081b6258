"""How the operators of a model are counted, each with its source."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from course_lib.core import Unit


class Convention(msgspec.Struct, frozen=True, kw_only=True):
    """How an operator is counted.

    Attributes
    ----------
    flops : FLOP for each `per`. A transcendental function or a division is one; a
        multiply-accumulate is two.
    reads, writes : arrays of the result's size that pass through main memory when the operator is a
        kernel of its own.
    unit : ``"matrix"`` or ``"vector"``.
    counted : what the FLOPs are.
    source : where the operator is defined, or the count is printed; a key of the bibliography.
    per : what they are counted for.
    """

    flops: float
    reads: float
    writes: float
    unit: Unit
    counted: str
    source: str
    per: str = "element"


def _on_vectors(flops: float, reads: float, counted: str, source: str) -> Convention:
    return Convention(
        flops=flops, reads=reads, writes=1, unit="vector", counted=counted, source=source
    )


CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        "bias": _on_vectors(1, 1, "a sum", "ivanov2021"),
        "residual": _on_vectors(1, 2, "a sum", "ivanov2021"),
        "relu": _on_vectors(1, 1, "a comparison", "ivanov2021"),
        "gelu": _on_vectors(
            10,
            1,
            "x^3 and its factor 3, sum 1, factor 1, tanh 2, sum 1, products 2",
            "hendrycks2016",
        ),
        "swiglu": _on_vectors(
            5,
            2,
            "negation, exponential, sum, division, and the product with the other half",
            "shazeer2020",
        ),
        "dropout": _on_vectors(
            2,
            1,
            "comparison with a random number, whose making is not counted; product",
            "srivastava2014",
        ),
        "softmax": _on_vectors(5, 1, "maximum, difference, exponential, sum, division", "yuan2024"),
        "rms": _on_vectors(
            4, 1, "square, sum, product with the root's inverse, scale", "zhang2019"
        ),
        "layer": _on_vectors(
            7,
            1,
            "mean, difference, square, sum, product with the root's inverse, scale, bias",
            "yuan2024",
        ),
        "rotary": _on_vectors(3, 1, "two products and a sum: a rotation of pairs", "su2021"),
        "embedding": _on_vectors(
            0, 1, "a gather; one sum for each table after the first", "vaswani2017"
        ),
        "matmul": Convention(
            flops=2,
            reads=2,
            writes=1,
            unit="matrix",
            counted="a product and a sum",
            source="austin2025",
            per="multiply-accumulate",
        ),
        "attention": Convention(
            flops=4,
            reads=3,
            writes=1,
            unit="matrix",
            counted="a score's and a value's multiply-accumulate",
            source="dao2022",
            per="pair of tokens and element of a head",
        ),
    }
)
"""By operator: FLOPs, arrays read and written, the unit, and the convention's source."""
