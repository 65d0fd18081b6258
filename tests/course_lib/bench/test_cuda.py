"""The whole path on an NVIDIA GPU, for real. Elsewhere its parts are tested on simulated devices, and
nothing says that torch, CUDA and the driver are as those assume: this does.

On a GPU machine with `.[press,labs,torch,test]`: pytest -n 0 tests/course_lib/bench/test_cuda.py
"""

import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from course_lib import bench, chip
from course_lib.bench import operands, results
from course_tools.campaigns import collectives
from course_tools.measured.ladder import steps

torch = pytest.importorskip(
    "torch", reason="torch is not installed: NOTHING of the CUDA path is exercised here"
)
pytestmark = [
    # One release of torch wants tf32 to be asked for in another way, and the next does not.
    pytest.mark.filterwarnings("ignore:Please use the new API settings"),
    pytest.mark.skipif(
        not torch.cuda.is_available(),
        reason="no CUDA device is here: NOT exercised are CUDA events, what NVML says under load, "
        "products in bf16, fp16, tf32 and fp8, the naive product on a GPU, an all-reduce by NCCL, a "
        "compiled Triton kernel, and lab 00's reference on a GPU",
    ),
]

LABS = Path(__file__).parents[3] / "labs"
SIDE = 4096
"""Of products that keep any GPU busy far longer than it takes to ask it something."""
EXACT = {"fp32": 1e-5, "tf32": 5e-3, "fp16": 5e-3, "bf16": 2e-2, "fp8": 2e-2}
"""By format: the largest error of a product, relative to the largest value, that rounding explains:
that of the result, and of tf32 that of the operands.
"""


@pytest.fixture(scope="module")
def here():
    return bench.machine("cuda")


@pytest.fixture
def square():
    """Two matrices in fp32, multiplied already: the library is loaded and the clock awake."""
    a, b = torch.randn(2, SIDE, SIDE, device="cuda")
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    return a, b


def imported(path):
    spec = spec_from_file_location(f"lab_{path.parent.name[:2]}", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_set_up_is_told(here):
    setup = bench.inspect("cuda")
    assert setup.name == here.name == torch.cuda.get_device_name(0)
    assert setup.cuda == torch.version.cuda
    assert [fault for fault in setup.faults if "torch" in fault or "no GPU" in fault] == []
    assert str(setup).splitlines()[0].startswith("Python")


def test_events_agree_with_a_host_clock_that_waits(square):
    a, b = square
    calls = 20
    each = operands.TorchArrays(torch, "cuda").timed(lambda: a @ b, calls)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        a @ b
    torch.cuda.synchronize()
    waited = time.perf_counter() - start
    assert len(each) == calls
    assert all(seconds > 0 for seconds in each)
    assert sum(each) == pytest.approx(waited, rel=0.3)


def test_the_mistakes_that_the_grader_simulates_are_mistakes_on_a_gpu(square):
    a, b = square
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin = time.perf_counter()
    start.record()
    for _ in range(20):
        a @ b
    end.record()
    queued = time.perf_counter() - begin
    with pytest.raises(RuntimeError, match=r"not ready|must be completed"):
        start.elapsed_time(end)
    end.synchronize()
    took = start.elapsed_time(end) / 1e3
    assert queued < took / 2  # a clock that does not wait times the queueing
    # In milliseconds: taken for seconds, the rate would be a thousandth.
    assert 2 * SIDE**3 * 20 / took > 1e12
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(torch.cuda.Event(enable_timing=True))


def test_the_driver_is_read_while_the_gpu_works():
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed: NVML is NOT exercised")
    seen = bench.observe("cuda")
    if not seen.driver:
        pytest.fail(seen.note)
    assert seen.driver.partition(".")[0].isdecimal()
    row = bench.matmul(SIDE, SIDE, SIDE, "fp16", "cuda", budget=5.0)
    asleep = [name for name in ("clock_mhz", "power_w", "temperature_c") if not getattr(row, name)]
    if asleep:
        pytest.skip(f"this GPU's driver does not tell {', '.join(asleep)}: NOT exercised")
    assert 100 < row.clock_mhz < 5000
    assert 0 < row.power_w < 3000
    assert 10 < row.temperature_c < 120
    one = row.peak_tflops and chip(bench.machine("cuda").key)
    if one and one.clock:
        assert row.mfu_at_clock == pytest.approx(row.mfu * one.clock / row.clock_mhz / 1e6)


@pytest.mark.parametrize("dtype", EXACT)
def test_a_product_in_every_format_is_right_or_said_to_be_unsupported(here, dtype):
    row = bench.matmul(SIDE, SIDE, SIDE, dtype, "cuda", budget=5.0)
    least = {"fp8": (8, 9), "tf32": (8, 0), "bf16": (8, 0)}.get(dtype, (0, 0))
    if torch.cuda.get_device_capability(0) < least:
        assert (row.status, row.seconds_median) == ("unsupported", None)
        return
    assert row.status == "ok", row.note
    assert row.error <= EXACT[dtype]
    assert row.kind == "cuda"
    assert row.device == here.name
    # An eighth more than the datasheet: a chip may run above the clock at which that states it.
    assert row.mfu is None or 0.02 < row.mfu < 1.125


def test_the_naive_product_moves_at_the_rate_of_a_copy(here):
    copy = bench.bandwidth("cuda", "copy", budget=3.0)
    naive = bench.outer_products("cuda", budget=3.0)
    library = bench.matmul(SIDE, SIDE, SIDE, "fp32", "cuda", budget=5.0)
    assert {row.status for row in (copy, naive, library)} == {"ok"}
    assert naive.error <= EXACT["fp32"]
    assert 0.3 < naive.achieved_bw_gbps / copy.achieved_bw_gbps < 1.3
    if here.key:
        assert copy.achieved_bw_gbps * 1e9 < 1.05 * chip(here.key).bandwidth
        (step,) = steps([copy, naive, library])
        assert step.measured > 5
        assert abs(step.error) < 0.7


def test_an_all_reduce_by_nccl_gives_the_sum(tmp_path):
    if not torch.distributed.is_nccl_available():
        pytest.skip("torch has no NCCL here: an all-reduce between GPUs is NOT exercised")
    world, file = torch.cuda.device_count(), tmp_path / "results.csv"
    how = ["--device", "cuda", "--budget", "20", "--ops", "all-reduce", "--sizes", "4194304"]
    # sweep itself compares every result with the sum, and raises where it is another.
    collectives.launch(
        LABS / "01-collectives" / "collectives.py", "--out", str(file), *how, world=world
    )
    (row,) = results.read(file)
    assert (row.op, row.status, row.kind) == ("all-reduce", "ok", "cuda")
    assert (row.world, row.transport) == (world, "nccl")
    assert (row.achieved_bw_gbps > 0) == (world > 1)  # alone, nothing goes over a link


def test_a_triton_kernel_is_compiled_and_right():
    file = LABS / "04-kernels" / "reference.py"
    if not file.exists():
        pytest.skip("labs/04-kernels/reference.py is not here: Triton is NOT exercised")
    triton = pytest.importorskip("triton", reason="triton is not installed: NOT exercised")
    lab = imported(file)
    assert isinstance(lab.add_kernel, triton.runtime.JITFunction)  # not the interpreter's
    x, y = torch.randn(2, 10_001, device="cuda")
    assert torch.equal(lab.add(x, y), x + y)


def test_the_reference_of_lab_00_measures_a_gpu_as_the_library_does():
    lab = imported(LABS / "00-three-accelerators" / "reference.py")
    own = lab.measure(SIDE, "fp16", "cuda", repeats=20)
    ours = bench.matmul(SIDE, SIDE, SIDE, "fp16", "cuda", timing="warm", budget=5.0)
    assert own["flops"] == ours.flops
    assert own["tflops"] == pytest.approx(own["flops"] / own["seconds"] / 1e12)
    assert own["seconds"] == pytest.approx(ours.seconds_median, rel=0.5)


def test_a_step_at_a_length_not_met_before_takes_no_longer_than_one_that_was():
    pytest.importorskip(
        "transformers", reason="transformers is not installed: a replay on a GPU is NOT exercised"
    )
    from course_tools.campaigns import serving

    engine = serving.SmallEngine("cuda")
    place = {0: range(64)}
    engine.step(place)

    def step(keep):
        begin = time.perf_counter()
        engine.step({0: [1]}, keep=keep)
        return time.perf_counter() - begin

    step(keep=False)
    same, new = (sorted(step(keep) for _ in range(30))[15] for keep in (False, True))
    assert new < 2 * same


@pytest.mark.parametrize("dtype", ["int8", "fp8"])
def test_a_product_of_bytes_runs_on_the_unit_for_bytes(here, dtype):
    arrays = operands.TorchArrays(torch, "cuda")
    if arrays.supports(dtype):
        pytest.skip(f"{arrays.supports(dtype)}: a product in {dtype} is NOT exercised")
    rate = {
        one: bench.products.matmul(4096, 4096, 4096, one, "cuda", budget=3).achieved_tflops
        for one in (dtype, "bf16")
    }
    assert rate[dtype] > 0.7 * rate["bf16"]  # by rows, int8 takes a kernel of a sixth
