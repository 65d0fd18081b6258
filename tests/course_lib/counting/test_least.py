"""What no program beats, and what needs the least work, beside counts by hand and by torch's own
counter.
"""

import json
import random
import time

import pytest

from course_lib import CourseError, chip, llm
from course_lib.counting import OTHERS, ask, building, count, folded, named
from course_lib.counting.tracing import Recorder
from tests.course_lib.counting.configs import CASES

torch = pytest.importorskip("torch")
nn = torch.nn
BF16 = torch.bfloat16


def zeros(*shape, dtype=BF16):
    return torch.empty(shape, dtype=dtype, device="meta")


# --- torch's own counter ------------------------------------------------------------------------

try:
    from torch.utils.flop_counter import flop_registry
except ImportError:
    flop_registry = {}
REGISTERED = {one._qualified_op_name: one for one in flop_registry if hasattr(one, "default")}
FORWARD = ("aten::_scaled_dot_product", "aten::_flash", "aten::_efficient")


def arguments(op, draw):
    """Random arguments of an operator by its schema, and what it returns."""
    name, few = op._qualified_op_name, lambda: draw.randint(1, 9)
    b, m, k, n = few(), few(), few(), few()
    if name.endswith("mm"):
        stacked = "bmm" in name
        left, right, out = ((b, m, k), (b, k, n), (b, m, n)) if stacked else ((m, k), (k, n), (m, n))
        more = [zeros(1, dtype=torch.float32)] * 2 if "scaled" in name else []
        first = [zeros(*out)] if "add" in name else []
        return [*first, zeros(*left), zeros(*right), *more], zeros(*out)
    if name.startswith(FORWARD):
        return attention(op, draw)
    ends, groups = draw.choice((1, 2, 3)), draw.choice((1, 2))
    transposed = draw.random() < 0.5 and "cudnn" not in name and "slow" not in name
    ends, groups = (2, 1) if "slow" in name else (ends, groups)
    stride = [draw.randint(1, 3)] * ends
    inner, outer, side = groups * few(), groups * few(), [3] * ends
    x = zeros(b, inner, *(draw.randint(5, 9) for _ in range(ends)))
    pair = (inner, outer // groups) if transposed else (outer, inner // groups)
    weight, none, one = zeros(*pair, *side), [0] * ends, [1] * ends
    way = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{ends}d")
    out = way(x, weight, stride=stride, groups=groups)
    if "backward" in name:
        mask = [draw.random() < 0.7, draw.random() < 0.7, False]
        how = [stride, none, one, transposed, none, groups]
        result = tuple(like if on else None for like, on in zip((x, weight), mask, strict=False))
        return [out, x, weight, None, *how, mask], (*result, None)
    if "slow" in name:
        return [x, weight, side, None, stride, none], out
    if "cudnn" in name:
        return [x, weight, none, stride, one, groups, False, False, False], out
    more = [True, True, True, True] if name == "aten::_convolution" else []
    return [x, weight, None, stride, none, one, transposed, none, groups, *more], out


def attention(op, draw):
    """Queries that are as many as keys: torch counts the whole square, masked or not."""
    b, heads, tokens, width = (draw.randint(1, 9) for _ in range(4))
    late = "scaled_dot" not in op._qualified_op_name
    shape = (b, tokens, heads, width) if late else (b, heads, tokens, width)
    found = []
    for one in op.default._schema.arguments:
        kind, optional = str(one.real_type), str(one.real_type).startswith("Optional")
        if one.kwarg_only:
            continue
        optional = optional or one.name.startswith("cum_seq")  # one sequence after another
        main = one.name.rstrip("_") in ("query", "key", "value", "grad_out", "out")
        plain = {"Tensor": zeros(1), "bool": False, "float": 0.0}
        found.append(
            zeros(*shape) if main else None if optional else plain.get(kind, [True] * 4)
            if not kind.startswith(("int", "SymInt")) else 1
        )  # fmt: skip
    return found, (zeros(*shape),) * 4


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(i, marks=pytest.mark.exhaustive) for i in range(2, 60))]
)
@pytest.mark.parametrize("name", sorted(REGISTERED))
def test_every_operator_counts_as_torch_counts_it(name, seed):
    op = REGISTERED[name]
    args, out = arguments(op, random.Random(f"{name} {seed}"))
    recorder = Recorder(nn.Identity(), BF16, causal=False, tokens=1)
    recorder.see(op.default, tuple(args), {}, out)
    if "slow_conv2d" in name:  # torch's own counter lacks arguments of its formula
        args, op = [*args[:2], None, args[4], args[5], [1, 1], False, [0, 0], 1], "convolution"
        op = getattr(torch.ops.aten, op)
    assert sum(one.flops for one in recorder.operations) == flop_registry[op](*args, out_val=out)
    assert not recorder.uncounted


def test_what_torch_counts_beside_its_operators_is_attention_of_ones_own():
    others = {str(one) for one in flop_registry if not hasattr(one, "default")}
    assert others <= {"flex_attention", "flex_attention_backward"}


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_a_transposed_convolution_counts_its_input_at_every_stride(stride):
    found = count(nn.ConvTranspose2d(8, 16, 3, stride=stride), torch.zeros(2, 8, 32, 32))
    assert found.flops == 2 * (2 * 8 * 32 * 32) * 16 * 9  # 4.72 MFLOP
