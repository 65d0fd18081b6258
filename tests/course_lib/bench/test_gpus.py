"""Products on GPUs of several makers and releases of torch, each played as its documents describe it.

gfx numbers and fp8: hipBLASLt's table of data types. fp8's two results: torch before 2.5. MPS: torch's notes on it.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from course_lib import bench
from course_lib.bench import products, record
from course_lib.bench.device import Machine, Observed
from course_lib.bench.operands import TorchArrays
from tests.course_lib.bench.fakes import FakeArrays


def played(capability=(9, 0), *, arch=None, two_results=False):
    """A torch whose GPU is of this capability or, of AMD's, of this architecture."""
    asked = []

    def scaled(a, b, *, scale_a, scale_b, out_dtype):
        asked.append((a, b, out_dtype))
        return ("product", "largest") if two_results else "product"

    kinds = ("float64", "float32", "bfloat16", "float16", "int8", "float8_e4m3fn")
    return SimpleNamespace(
        __version__="2.8.0",
        version=SimpleNamespace(hip="6.4" if arch else None, cuda=None if arch else "12.8"),
        cuda=SimpleNamespace(
            get_device_capability=lambda _: capability,
            get_device_properties=lambda _: SimpleNamespace(gcnArchName=arch),
        ),
        mps=SimpleNamespace(synchronize=lambda: asked.append("waited")),
        ones=lambda shape, device: "one",
        _scaled_mm=scaled,
        asked=asked,
        float8_e4m3fnuz="float8_e4m3fnuz",
        **{kind: kind for kind in kinds},
    )


@pytest.mark.parametrize(
    ("capability", "arch", "fp8"),
    [
        ((9, 0), None, "float8_e4m3fn"),  # H100
        ((10, 0), None, "float8_e4m3fn"),  # B200
        ((8, 9), None, "float8_e4m3fn"),  # RTX 4090
        ((8, 0), None, ""),  # A100
        ((9, 4), "gfx942:sramecc+:xnack-", "float8_e4m3fnuz"),  # MI300X
        ((9, 5), "gfx950:sramecc+:xnack-", "float8_e4m3fn"),  # MI355X
        ((12, 0), "gfx1201", "float8_e4m3fn"),  # RX 9070 XT
        ((9, 0), "gfx90a:sramecc+:xnack-", ""),  # MI250X, whose number is that of an H100
        ((11, 0), "gfx1100", ""),  # RX 7900 XTX, whose number is above
    ],
)
def test_fp8_is_asked_of_units_that_have_it_in_their_own_format(capability, arch, fp8):
    arrays = TorchArrays(played(capability, arch=arch), "cuda")
    assert bool(arrays.supports("fp8")) == (not fp8)
    if fp8:
        assert arrays._types["fp8"] == fp8
    assert bool(arrays.supports("tf32")) == bool(
        arch
    )  # AMD's, where it has one, is asked otherwise
    assert not arrays.supports("fp16")


@pytest.mark.parametrize("two_results", [False, True])
def test_a_product_in_fp8_is_one_matrix_in_every_release_of_torch(two_results):
    torch = played(two_results=two_results)
    assert TorchArrays(torch, "cuda").multiply("a", "b", "fp8") == "product"
    assert torch.asked == [("a", "b", "bfloat16")]


@pytest.mark.parametrize("dtype", ["fp64", "int8", "fp8", "tf32"])
def test_an_apple_gpu_has_no_wide_and_no_narrow_formats(dtype):
    arrays = TorchArrays(played(), "mps")
    assert arrays.supports(dtype) == f"torch has no {dtype} here"
    assert [arrays.supports(one) for one in ("fp32", "fp16", "bf16")] == ["", "", ""]


def test_an_apple_gpu_is_waited_for_before_the_clock_is_read_too():
    torch = played()
    arrays = TorchArrays(torch, "mps")
    arrays.timed(lambda: torch.asked.append("asked"), 2)
    assert torch.asked == ["waited", "asked", "asked", "waited"]


class Lacking(FakeArrays):
    """A library that says of one format what torch says of what a build or a device lacks."""

    def __init__(self, failure):
        super().__init__()
        self.failure = failure

    def multiply(self, a, b, dtype):
        raise self.failure


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("_int_mm_out_cuda not compiled for this platform."),
        RuntimeError("CUDA error: HIPBLAS_STATUS_NOT_SUPPORTED when calling `hipblasLtMatmul`"),
        RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"),
        NotImplementedError(
            "The operator 'aten::_int_mm' is not currently implemented for the MPS"
        ),
        TypeError("BFloat16 is not supported on MPS"),
        RuntimeError("MPS BFloat16 is only supported on MacOS 14 or newer"),
        RuntimeError("not implemented\nin /home/somebody/torch/lib.so"),
    ],
)
def test_a_lab_goes_on_after_a_product_that_a_build_or_device_lacks(fake, failure):
    fake(Lacking(failure))
    row = bench.matmul(64, 64, 64, "fp16", "cuda", budget=1.0)
    assert row.status == "unsupported"
    assert row.note
    assert "somebody" not in row.note


@pytest.mark.parametrize(
    "failure",
    [RuntimeError("CUDA error: an illegal memory access was encountered"), ValueError("ours")],
)
def test_a_failure_of_another_kind_is_none_of_the_formats(fake, failure):
    fake(Lacking(failure))
    with pytest.raises(type(failure)):
        bench.matmul(64, 64, 64, "fp16", "cuda", budget=1.0)


def test_a_folder_that_a_failure_names_is_the_readers(fake):
    fake(Lacking(RuntimeError("cannot load /home/somebody/x.so: out of memory")))
    row = bench.matmul(64, 64, 64, "fp16", "cuda", budget=1.0)
    assert (row.status, row.note) == ("out-of-memory", "cannot load … out of memory")


def test_every_probe_asks_first_whether_the_device_has_the_format(monkeypatch):
    library = FakeArrays(lacks=("bf16",))
    here = Machine(name="one", kind="cuda", cache=1e6)
    monkeypatch.setattr(products, "arrays", lambda kind: library)
    monkeypatch.setattr(products, "machine", lambda kind: here)
    monkeypatch.setattr(record, "observe", lambda kind: Observed())
    rows = [
        bench.matmul(64, 64, 64, "bf16", "cuda", budget=1.0),
        bench.outer_products("cuda", "bf16", budget=1.0),
        bench.bandwidth("cuda", dtype="bf16", budget=1.0),
        products.layer("cuda", "bf16", budget=1.0),
    ]
    assert {(row.status, row.note) for row in rows} == {("unsupported", "no bf16 here")}
    assert library.made == []
    assert np.isfinite(library.now)
