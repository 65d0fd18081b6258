import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest

from course_lib import CourseError, bench, chip
from course_lib.bench import device, products
from course_lib.bench import operands as backends
from course_lib.bench.device import Observed
from course_lib.bench.record import FEWEST, MOST
from tests.course_lib.bench.fakes import H100, STRANGER, FakeArrays


def test_a_timed_call_takes_as_long_as_it_sleeps():
    slept = [backends.NumpyArrays().timed(lambda: time.sleep(0.02), 3)[0] for _ in range(5)]
    assert 0.02 <= min(slept) < 0.04


def test_a_slow_first_call_is_no_sample():
    calls = []

    def once(count):
        calls.append(count)
        return [1.0 if len(calls) == 1 else 0.01]

    timing = bench.sample(once, budget=10)
    assert (timing.median, timing.fastest, timing.p80, timing.noisy) == (0.01, 0.01, 0.01, False)


def test_warming_up_ends_after_a_share_of_the_budget_although_nothing_settles():
    called = 0

    def once(count):
        nonlocal called
        called += 1
        return [0.1 * (1 + called % 2)]

    timing = bench.sample(once, budget=4.0)
    assert timing.noisy
    assert timing.repeats == pytest.approx(3 / 0.15, abs=2)


@pytest.mark.parametrize(("seconds", "repeats"), [(10.0, FEWEST), (1e-9, MOST)])
def test_samples_are_never_too_few_and_stop_in_time(seconds, repeats):
    assert bench.sample(lambda calls: [seconds], budget=1.0).repeats == repeats


def test_short_calls_are_timed_in_bundles_longer_than_the_clock_can_blur():
    bundles = []
    bench.sample(lambda calls: bundles.append(calls) or [1e-6], budget=1.0)
    assert max(bundles) * 1e-6 >= 1e-3


@pytest.mark.parametrize(
    "marks", [lambda calls: 1, lambda calls: calls], ids=["clock around all", "mark at each"]
)
def test_short_calls_spend_the_budget_with_every_one_of_their_bundle(marks):
    """Warm-up and samples together: no more than the budget and what the last bundle takes beyond
    it.
    """
    made = []
    timing = bench.sample(lambda calls: made.append(calls) or [1e-4] * marks(calls), budget=0.008)
    assert timing.median == pytest.approx(1e-4)
    assert 0.008 <= sum(made) * 1e-4 * (1 + 1e-9) <= 0.008 + max(made) * 1e-4


def test_every_launch_of_a_device_is_a_sample():
    timing = bench.sample(lambda calls: [1e-4 * (1 + i) for i in range(calls)], budget=1.0)
    assert timing.fastest == 1e-4
    assert timing.median == pytest.approx(5.5e-4)


def test_an_outlier_moves_the_mean_and_not_the_median():
    timing = bench.summary([1.0] * 9 + [100.0])
    assert timing.median == timing.low == 1.0
    assert timing.p80 == 1.0
    assert not timing.noisy


def test_the_interval_narrows_with_samples_and_repeats_with_its_seed():
    drawn = np.random.default_rng(3).normal(1.0, 0.1, 400)
    few, many = bench.summary(drawn[:10]), bench.summary(drawn)
    assert few.low <= few.median <= few.high
    assert many.high - many.low < few.high - few.low
    assert bench.summary(drawn) == bench.summary(drawn)


def test_a_gpu_is_timed_launch_by_launch_and_waited_for(monkeypatch):
    now = 0.0

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = now

        def synchronize(self):
            log.append("wait")

        def elapsed_time(self, other):
            assert log[-1] == "wait"
            return (other.at - self.at) * 1e3

    def launch():
        nonlocal now
        now += 0.002

    log = []
    torch = pytest.importorskip("torch", reason="torch is not installed: no GPU's timing to check")
    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert backends.TorchArrays(torch, "cuda").timed(launch, 3) == pytest.approx([0.002] * 3)


def test_work_is_counted_by_its_formats(fake):
    fake(FakeArrays())
    rows = {
        dtype: bench.matmul(16, 32, 8, dtype, "cuda", budget=1.0)
        for dtype in ("bf16", "fp32", "int8", "fp8")
    }
    assert {row.flops for row in rows.values()} == {2 * 16 * 32 * 8}
    a, b, c = 16 * 8, 8 * 32, 16 * 32
    assert {dtype: row.bytes for dtype, row in rows.items()} == {
        "bf16": 2 * (a + b + c),
        "fp32": 4 * (a + b + c),
        "int8": a + b + 4 * c,
        "fp8": a + b + 2 * c,
    }
    assert rows["bf16"].intensity == rows["bf16"].flops / rows["bf16"].bytes


def test_rates_come_from_the_median(fake):
    fake(FakeArrays(rate=4e9))
    row = bench.matmul(64, 64, 64, "bf16", "cuda", budget=1.0)
    assert row.achieved_tflops == pytest.approx(0.004)
    assert row.achieved_bw_gbps == pytest.approx(row.bytes / row.seconds_median / 1e9)
    assert row.mfu == pytest.approx(4e9 / chip("h100-sxm").peak("bf16"))
    assert (row.status, row.noisy, row.repeats) == ("ok", False, MOST)


def test_operands_are_seeded_random_numbers_unless_zeros_are_asked_for(fake):
    library = fake(FakeArrays())
    bench.matmul(8, 8, 8, "bf16", "cuda", budget=1.0, timing="warm", seed=7)
    assert {data for _, _, data, _ in library.made} == {"random"}
    assert [seed for *_, seed in library.made[-2:]] == [7, 8]
    row = bench.matmul(8, 8, 8, "bf16", "cuda", budget=1.0, timing="warm", data="zeros")
    assert library.made[-1][2] == row.data == "zeros"


@pytest.mark.parametrize("library", [backends.NumpyArrays, lambda: backends.arrays("cpu")])
def test_real_operands_vary_and_repeat(library):
    one = library()
    first, again, other = (
        np.asarray(one.operand(32, 32, "fp32", "random", seed)) for seed in (1, 1, 2)
    )
    assert len(np.unique(first)) > 1000
    assert (first == again).all()
    assert (first != other).any()
    assert not np.asarray(one.operand(4, 4, "fp32", "zeros", 0)).any()


def test_cold_operands_rotate_through_more_than_the_cache(fake):
    library = fake(FakeArrays())
    bench.matmul(200, 200, 200, "fp16", "cuda", budget=2.0)
    turns = library.order[-60:]
    assert len(set(turns)) * 2 * 200 * 200 * 2 > products.CACHES * H100.cache
    assert all(one != other for one, other in pairwise(turns))
    bench.matmul(200, 200, 200, "fp16", "cuda", budget=2.0, timing="warm")
    assert len(set(library.order[-60:])) == 1


def test_what_a_stream_moves_exceeds_the_cache_and_is_counted_by_stream_convention(fake):
    fake(FakeArrays(rate=1e9))
    copy, triad = (bench.bandwidth("cuda", op, budget=1.0) for op in ("copy", "triad"))
    assert float(copy.shape) >= products.CACHES * H100.cache
    assert (copy.bytes, triad.bytes) == (2 * float(copy.shape), 3 * float(triad.shape))
    assert copy.achieved_tflops is None
    assert copy.mfu is None


def test_a_naive_product_passes_its_whole_result_through_memory(fake):
    library = fake(FakeArrays(rate=1e10))
    row = bench.outer_products("cuda", budget=20.0)
    B, D, F = row.sizes
    assert products.CACHES * H100.cache < 4 * B * F
    assert row.bytes == 4 * (2 * B * D * F + B * D + D * F)
    assert row.flops == 2 * B * D * F
    # The fake takes eight bytes an element.
    assert row.achieved_bw_gbps == pytest.approx(1e10 / 2 / 1e9)
    assert (row.op, row.mfu, row.error) == ("outer", None, pytest.approx(0, abs=1e-12))
    assert row.key[3] == row.shape
    assert library.made[0][2] == "zeros"


@pytest.mark.parametrize("library", [backends.NumpyArrays, lambda: backends.arrays("cpu")])
def test_real_outer_products_add_up_to_the_product(library):
    one = library()
    to = one.operand(48, 40, "fp32", "zeros", 0)
    a, b = one.operand(48, 8, "fp32", "random", 1), one.operand(8, 40, "fp32", "random", 2)
    one.outer(to, a, b)
    one.outer(to, a, b)
    assert np.asarray(to) == pytest.approx(2 * np.asarray(a) @ np.asarray(b), abs=1e-5)


def test_a_naive_product_that_is_slow_wrong_or_too_large_is_a_row(fake, monkeypatch):
    library = fake(FakeArrays(rate=1e6))
    row = bench.outer_products("cuda", budget=2.0)
    assert (row.status, row.seconds_median) == ("over-budget", None)
    assert "16 outer products take about" in row.note
    assert bench.outer_products("cuda", "int8", budget=2.0).status == "unsupported"
    fake(FakeArrays(memory=500_000))
    assert bench.outer_products("cuda", budget=2.0).status == "out-of-memory"
    library = fake(FakeArrays(rate=1e11))
    right = library.outer
    monkeypatch.setattr(library, "outer", lambda to, a, b: right(to, a * 1.1, b))
    assert bench.outer_products("cuda", budget=2.0).error == pytest.approx(0.1)


def test_a_slow_format_is_foretold_and_not_waited_for(fake):
    library = fake(FakeArrays(rate=1e6))
    row = bench.matmul(4096, 4096, 4096, "fp16", "cuda", budget=2.0)
    assert row.status == "over-budget"
    assert "the budget is 2 s" in row.note
    assert row.seconds_median is None
    assert library.calls == 3
    assert library.now < 15


def test_a_product_that_is_slower_than_its_probe_foretold_is_given_up_after_one(fake, monkeypatch):
    library = fake(FakeArrays(rate=1e10))
    one = library.multiply

    def slower_when_large(a, b, dtype):
        library.now += 100.0 if a.shape[0] >= 512 else 0.0
        return one(a, b, dtype)

    monkeypatch.setattr(library, "multiply", slower_when_large)
    row = bench.matmul(512, 512, 512, "fp16", "cuda", budget=10.0)
    assert (row.status, row.repeats) == ("over-budget", None)
    assert 100 <= library.now < 200


def test_out_of_memory_is_a_row(fake):
    fake(FakeArrays(rate=1e12, memory=500_000))
    row = bench.matmul(1000, 1000, 1000, "bf16", "cuda", budget=1.0)
    assert (row.status, row.achieved_tflops) == ("out-of-memory", None)
    assert "CUDA out of memory" in row.note
    assert bench.bandwidth("cuda", budget=1.0).status == "out-of-memory"


def test_another_failure_is_not_taken_for_want_of_memory(fake, monkeypatch):
    library = fake(FakeArrays())
    monkeypatch.setattr(
        library,
        "multiply",
        lambda *_: (_ for _ in ()).throw(RuntimeError("CUBLAS_STATUS_INTERNAL_ERROR")),
    )
    with pytest.raises(RuntimeError, match="CUBLAS"):
        bench.matmul(8, 8, 8, "bf16", "cuda", budget=1.0)


def test_a_format_that_is_not_there_is_a_row(fake):
    fake(FakeArrays(lacks=("fp8",)))
    row = bench.matmul(8, 8, 8, "fp8", "cuda", budget=1.0)
    assert (row.status, row.note, row.mfu) == ("unsupported", "no fp8 here", None)


def test_an_unknown_device_has_no_peak_and_says_what_to_do(fake):
    fake(FakeArrays(), STRANGER)
    row = bench.matmul(64, 64, 64, "bf16", "cuda", budget=1.0)
    assert (row.status, row.mfu, row.peak_tflops) == ("ok", None, None)
    assert "not in the spec table" in row.note


def test_device_names_are_matched_whole():
    assert device.chip_of_device("NVIDIA H100 80GB HBM3").key == "h100-sxm"
    assert device.chip_of_device("NVIDIA H100") is None
    assert "COURSE_CHIPS" in device._missing(None)


def test_more_than_the_peak_is_flagged(fake):
    peak = chip("h100-sxm").peak("bf16")
    fake(FakeArrays(rate=1.02 * peak))
    row = bench.matmul(512, 512, 512, "bf16", "cuda", budget=1e-5)
    assert row.mfu == pytest.approx(1.02)
    assert "above 100 % of the peak" in row.note


def test_the_peak_at_the_observed_clock_stands_beside_the_datasheets(fake):
    one = chip("h100-sxm")
    fake(
        FakeArrays(rate=0.5 * one.peak("bf16")),
        seen=Observed(clock_mhz=one.clock / 2e6, power_w=700.0, throttle="power cap"),
    )
    row = bench.matmul(512, 512, 512, "bf16", "cuda", budget=1e-5)
    assert (row.mfu, row.mfu_at_clock) == (pytest.approx(0.5), pytest.approx(1.0))
    assert (row.power_w, row.throttle) == (700.0, "power cap")


def test_noise_is_called_so(fake):
    fake(FakeArrays(rate=1e6, noise=lambda call: 1 + call % 2))
    row = bench.matmul(64, 64, 64, "bf16", "cuda", budget=30.0)
    assert row.noisy
    assert row.note.startswith("noisy")


def test_a_wrong_product_shows_in_its_error(fake, monkeypatch):
    library = fake(FakeArrays())
    assert bench.matmul(32, 32, 32, "bf16", "cuda", budget=1.0).error < 1e-12
    right = library.multiply
    monkeypatch.setattr(library, "multiply", lambda a, b, dtype: right(a, b, dtype) * 1.1)
    assert bench.matmul(32, 32, 32, "bf16", "cuda", budget=1.0).error == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("dtype", "most"), [("fp32", 1e-5), ("bf16", 2e-2), ("fp16", 5e-3), ("int8", 0.0)]
)
def test_real_products_are_as_exact_as_their_format(dtype, most):
    row = bench.matmul(96, 64, 128, dtype, budget=1.0)
    if row.status == "unsupported":
        pytest.skip(f"{dtype}: {row.note}")
    assert row.status == "ok"
    assert row.error <= most
    assert row.device == bench.machine().name


def test_without_torch_numpy_measures_and_says_so(monkeypatch):
    for module in (device, backends):
        monkeypatch.setattr(module, "torch_or_none", lambda: None)
    row = bench.matmul(64, 64, 64, "fp32", budget=0.5)
    assert row.status == "ok"
    assert row.backend.startswith("numpy")
    assert "install torch" in bench.matmul(8, 8, 8, "bf16", budget=0.5).note
    with pytest.raises(CourseError, match="'cuda' is not here: use 'cpu', or install torch"):
        bench.machine("cuda")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"M": 0}, "M must"),
        ({"dtype": "fp13"}, "dtype 'fp13'"),
        ({"device": "tpu"}, "device 'tpu'"),
        ({"timing": "hot"}, "timing 'hot'"),
        ({"data": "ones"}, "data 'ones'"),
        ({"budget": -1.0}, "budget must"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(CourseError, match=message):
        bench.matmul(**{"M": 8, "N": 8, "K": 8, **arguments})


def test_the_ceiling_is_a_real_rate():
    assert bench.ceiling(budget=0.5) > 1e8
    assert bench.ceiling(dtype="tf32", budget=0.5) is None


@pytest.mark.parametrize("name", ["pynvml", "torch"])
def test_the_base_installation_measures_a_cpu(name):
    script = f"""
import sys
sys.modules["{name}"] = None
from course_lib import bench
row = bench.matmul(64, 64, 64, budget=1.0)
print(row.status, row.device == bench.machine().name)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.stderr) == ("ok True", "")
