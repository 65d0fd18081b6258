"""Single operators of torch, each beside its count by hand."""

import pytest

from course_lib import CourseError, chip, chips, ops
from course_lib.workloads.precision import formats
from course_lib.workloads.weights import distinct
from course_tools.counting import building, passes
from course_tools.counting.building import Built
from course_tools.counting.estimates import _bounded as bounded
from course_tools.counting.estimates import estimate, kernels, size_of
from tests.each import each

torch = pytest.importorskip("torch")
nn = torch.nn
FM = formats()


def trace(make, *shapes, dtype=torch.bfloat16):
    mode = building.without_memory()
    module = make().to(dtype)
    building.take_memory(module, mode)
    with mode:
        inputs = tuple(
            torch.zeros(shape, dtype=torch.long) if whole else torch.zeros(shape, dtype=dtype)
            for *shape, whole in shapes
        )
    built = Built(module, "module", type(module).__name__, dtype, mode, inputs=inputs)
    return passes.run(built, 1, 1).prompt


def works(found, *, fused=False):
    return [(name, work) for _, name, work, _ in kernels(found, FM, fused=fused)]


def run(function):
    """A module that is nothing but a function."""

    class Function(nn.Module):
        def forward(self, *args):
            return function(*args)

    return Function


def test_a_linear_layer_is_the_librarys_product():
    ((name, work),) = works(trace(lambda: nn.Linear(64, 32, bias=False), (8, 64, False)))
    product = ops.matmul(8, 64, 32)
    assert name == "mm"
    assert (work.flops, work.bytes, work.kind) == (product.flops, product.bytes, "matmul")
    assert (work.unit, work.dtype, work.shape) == ("matrix", "bf16", (8.0, 64.0, 32.0, 1.0))


def test_weights_have_the_format_of_the_step():
    found = trace(lambda: nn.Linear(64, 32, bias=False), (8, 64, False))
    ((_, _, work, _),) = kernels(found, formats("int8"), fused=False)
    assert work.bytes == ops.matmul(8, 64, 32, w="int8").bytes
    assert work.dtype == "bf16"


@each("key", chips())
@each("dtype", ["fp32", "fp64", "int8", "bf16"])
def test_a_traced_product_is_computed_at_a_rate_that_the_chip_publishes(key, dtype):
    on, work = chip(key), ops.matmul(64, 64, 64, x=dtype, w=dtype)
    try:
        assert bounded(work, on).t_math >= work.flops / max(on.peaks.values())
    except CourseError as error:
        assert dtype == "bf16"
        assert "no published peak" in str(error)  # noqa: PT017 - either outcome counts


def test_a_batch_of_products():
    found = works(trace(run(torch.bmm), (4, 8, 16, False), (4, 16, 32, False)))
    assert found[0][1].flops == 2 * 4 * 8 * 16 * 32
    assert found[0][1].bytes == 2 * 4 * (8 * 16 + 16 * 32 + 8 * 32)


def test_views_are_free_and_repeated_elements_are_read_once():
    def viewed(x):
        return x.transpose(0, 1).unsqueeze(0).expand(5, 16, 8)[:, :4]

    assert works(trace(run(viewed), (8, 16, False))) == []
    ((_, work),) = works(
        trace(
            run(lambda x: torch.bmm(x.expand(5, 8, 16), x.expand(5, 8, 16).mT)), (1, 8, 16, False)
        )
    )
    assert work.bytes == 2 * (8 * 16 + 8 * 16 + 5 * 8 * 8)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shared", [8, 2])
def test_attention_is_the_librarys_one_kernel(causal, shared):
    def attend(q, k, v):
        return nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=True
        )

    sizes = ((1, 8, 32, 64, False), (1, shared, 32, 64, False), (1, shared, 32, 64, False))
    ((_, work),) = works(trace(run(attend), *sizes))
    same = ops.attention(1, 32, 32, 8, shared, 64, causal=causal)
    assert (work.flops, work.bytes, work.shape) == (same.flops, same.bytes, same.shape)


def test_a_gather_reads_the_rows_that_are_asked_for():
    ((_, work),) = works(trace(lambda: nn.Embedding(1000, 64), (8, True)))
    assert work.flops == 0
    assert work.bytes == 8 * 64 * (2 + 2) + 8 * 8


def test_neighbours_fuse_where_one_reads_what_the_other_wrote():
    def chain(x, y):
        return torch.nn.functional.silu(x) * y + 1

    found = trace(run(chain), (8, 64, False), (8, 64, False))
    plain, fused = works(found), works(found, fused=True)
    assert [name for name, _ in plain] == ["silu", "mul", "add"]
    assert sum(work.bytes for _, work in plain) == 2 * 8 * 64 * (2 + 3 + 2)
    ((name, work),) = fused
    assert name == "silu+mul+add"
    assert work.bytes == 2 * 8 * 64 * 3
    assert work.flops == 8 * 64 * (4 + 1 + 1)


def test_a_gate_waits_for_the_product_that_it_is_multiplied_by():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up = (nn.Linear(64, 32, bias=False) for _ in range(2))

        def forward(self, x):
            return nn.functional.silu(self.gate(x)) * self.up(x)

    names = [name for name, _ in works(trace(Gated, (8, 64, False)), fused=True)]
    assert names == ["mm", "mm", "silu+mul"]


def test_what_is_wanted_later_is_written_though_it_is_fused():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.one = nn.LayerNorm(64), nn.Linear(64, 64, bias=False)

        def forward(self, x, y):
            total = x + y
            return total + self.one(self.norm(total))

    found = works(trace(Block, (8, 64, False), (8, 64, False)), fused=True)
    names = [name for name, _ in found]
    assert names == ["add+native_layer_norm", "mm", "add"]
    # Two arrays in, the sum and the norm out, statistics of the rows nobody reads, parameters.
    assert found[0][1].bytes == 2 * (4 * 8 * 64 + 2 * 64)


def test_an_operator_that_nobody_counted_is_named_and_its_bytes_count():
    found = trace(run(lambda x: torch.linalg.inv(x.float())), (2, 8, 8, False))
    assert found.uncounted
    assert all(one.endswith(" in the model") for one in found.uncounted)
    assert sum(work.bytes for _, work in works(found)) > 0


def test_experts_that_are_looped_over_count_as_evenly_chosen():
    class Experts(nn.Module):
        num_experts, active = 8, 2

        def __init__(self):
            super().__init__()
            self.up = nn.Parameter(torch.empty(8, 32, 64))

        def forward(self, x, top, weights):
            out = torch.zeros(x.shape[0], 32, dtype=x.dtype)
            mask = nn.functional.one_hot(top, 8).permute(2, 1, 0)
            for hit in mask.sum((-1, -2)).greater(0).nonzero():
                place, token = torch.where(mask[hit[0]])
                made = nn.functional.linear(x[token], self.up[hit[0]])
                out.index_add_(0, token, made * weights[token, place, None])
            return out

    found = trace(Experts, (4, 64, False), (4, 2, True), (4, 2, False))
    ((_, work),) = [one for one in works(found) if one[1].kind == "matmul"]
    met = float(distinct(4, 8, 2))
    assert work.flops == 2 * (4 * 2) * 64 * 32
    assert work.bytes == pytest.approx(2 * (8 * 64 + met * 64 * 32 + 8 * 32))


def test_an_estimate_names_parts_by_their_modules():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    step = estimate(trace(Two, (8, 64, False)), chip("h100-sxm"), FM)
    assert list(step.parts) == ["layers.*"]
    assert step.kernels == 3
    assert step.flops == 3 * 2 * 8 * 64 * 64


def test_what_the_code_does_in_fp32_takes_a_peak_that_the_chip_has():
    found = trace(run(lambda x: x.float() @ x.float().mT), (64, 64, False))
    on_matrix = estimate(found, chip("h100-sxm"), FM)
    (product,) = [
        one
        for part in on_matrix.parts.values()
        for one in part.parts.values()
        if one.work.kind == "matmul"
    ]
    assert product.work.dtype == "tf32"
    assert estimate(found, chip("v100-sxm2"), formats("fp16")).flops == on_matrix.flops


def test_a_trace_without_operators_is_refused():
    with pytest.raises(CourseError, match="has no operator"):
        estimate(trace(nn.Identity, (8, 8, False)), chip("h100-sxm"), FM)


def test_sizes_are_in_the_formats_of_the_step():
    found = trace(lambda: nn.Linear(64, 32, bias=False), (8, 64, False))
    (one,) = found.operations
    assert {each.format for each in one.reads} == {"x", "w"}
    assert sum(size_of(each, formats("int4")) for each in one.reads if each.format == "w") == 1024
