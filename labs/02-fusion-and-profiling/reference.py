"""Lab 02, reference solution: what is wrong with each patient."""

DIAGNOSIS = {
    "A": {"cause": "strided-copies", "operator": "aten::copy_"},
    "B": {"cause": "tiny-batches", "operator": "aten::mm"},
    "C": {"cause": "none", "operator": "aten::mm"},
    "D": {"cause": "unfused-chain", "operator": "aten::mul"},
    "E": {"cause": "round-trip", "operator": "aten::copy_"},
}
