from dataclasses import FrozenInstanceError
from fractions import Fraction
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from course_lib import (
    CourseError,
    Work,
    attainable,
    chip,
    chips,
    critical_batch,
    ops,
    ridge,
    roofline,
    total,
)
from course_lib.core import BITS, BOUNDS, RATES, Estimate, checks, formulas, sensitivity
from tests.each import each

positive = st.floats(1e-3, 1e18)
dtypes = st.sampled_from(sorted(BITS))
sizes = st.integers(1, 20_000)
WITH_16_BITS = [key for key in chips() if {"matrix.bf16", "matrix.fp16"} & set(chip(key).peaks)]


class Machine:
    """A chip with one peak."""

    def __init__(self, peak, bandwidth):
        self.bandwidth, self._peak = bandwidth, peak

    def peak(self, dtype, unit="matrix"):
        return self._peak


@pytest.mark.parametrize("check", [checks.positive, checks.nonnegative, checks.whole])
@given(one=st.floats() | st.integers() | st.sampled_from([1e40, 1e-40, 2**53, 2**63, True, -0.0]))
def test_one_number_is_checked_as_an_array_of_it_is(check, one):
    """Plain numbers take a shorter way, which refuses the same."""

    def told(given):
        try:
            found = check("x", given)
        except CourseError as error:
            return str(error).split(" (got")[0]
        return np.ravel(found).tolist()

    assert told(one) == told(np.array([one]))


@given(flops=positive, moved=positive, peak=positive, bandwidth=positive, comms=st.floats(0, 1e6))
def test_bounds_of_one_operator(flops, moved, peak, bandwidth, comms):
    step = roofline(Work(flops, moved, "bf16"), Machine(peak, bandwidth), comms=comms)
    times = (step.t_math, step.t_memory, step.t_network)
    assert max(times) <= step.lower <= step.upper <= 3 * step.lower
    assert step.attainable <= peak * (1 + 1e-12)
    assert step.attainable <= step.intensity * bandwidth * (1 + 1e-12)
    assert times[("compute-bound", "memory-bound", "communication-bound").index(step.bound)] == max(
        times
    )


@given(flops=positive, moved=positive, peak=positive, bandwidth=positive)
def test_two_ceilings_are_within_a_factor_of_two(flops, moved, peak, bandwidth):
    step = roofline(Work(flops, moved, "bf16"), Machine(peak, bandwidth))
    assert step.lower <= step.upper <= 2 * step.lower
    assert step.attainable == pytest.approx(attainable(step.intensity, peak, bandwidth))
    assert step.lower == pytest.approx(flops / attainable(flops / moved, peak, bandwidth))


@given(intensity=positive, peak=positive, bandwidth=positive)
def test_the_roof_is_the_lower_of_its_two_ceilings(intensity, peak, bandwidth):
    roof = attainable(intensity, peak, bandwidth)
    assert roof in (peak, intensity * bandwidth)
    assert roof <= peak
    assert roof <= intensity * bandwidth
    assert attainable(ridge(peak, bandwidth), peak, bandwidth) == pytest.approx(peak)


def test_each_unit_has_its_own_peak():
    h100 = chip("h100-sxm")
    assert roofline(ops.dot(1000), h100).t_math == 1999 / 67e12
    assert roofline(ops.matmul(10, 10, 10), h100).t_math == 2000 / 989.4e12


def test_copying_computes_nothing():
    copy = roofline(Work(0, 100.0, "bf16"), Machine(1.0, 10.0))
    assert (copy.bound, copy.lower, copy.upper, copy.attainable) == ("memory-bound", 10, 10, 0)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=5))
def test_total_adds_and_is_not_the_maximum_of_sums(parts):
    machine = Machine(1e12, 1e11)
    steps = {f"part{i}": roofline(Work(f, b, "bf16"), machine) for i, (f, b) in enumerate(parts)}
    whole = total(**steps)
    assert whole.lower == pytest.approx(sum(s.lower for s in steps.values()))
    assert whole.upper == pytest.approx(sum(s.upper for s in steps.values()))
    assert max(whole.t_math, whole.t_memory) <= whole.lower * (1 + 1e-12)
    assert whole.lower <= whole.upper * (1 + 1e-12) <= 2 * whole.lower * (1 + 1e-11)
    assert whole.kernels == len(parts)
    assert whole.parts == steps
    for field in ("t_math", "t_memory", "t_network", "flops", "bytes"):
        assert getattr(whole, field) == pytest.approx(
            sum(getattr(s, field) for s in steps.values())
        )


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1e6)),
        min_size=1,
        max_size=5,
    )
)
def test_total_with_three_ceilings(parts):
    steps = [roofline(Work(f, b, "bf16"), Machine(1.0, 1.0), comms=c) for f, b, c in parts]
    whole = total(**{f"part{i}": step for i, step in enumerate(steps)})
    sums = [sum(column) for column in zip(*parts, strict=True)]
    assert whole.lower == pytest.approx(sum(map(max, parts)))
    assert max(sums) <= whole.lower * (1 + 1e-12)
    assert whole.lower <= whole.upper * (1 + 1e-12)
    assert whole.upper <= 3 * whole.lower * (1 + 1e-12)
    assert whole.upper == pytest.approx(sum(step.upper for step in steps))
    assert ("compute-bound", "memory-bound", "communication-bound").index(
        whole.bound
    ) in np.flatnonzero(np.isclose(sums, max(sums)))


def test_totals_of_totals_keep_their_parts():
    a, b, c = (roofline(Work(f, 2.0, "bf16"), Machine(1.0, 1.0)) for f in (1.0, 2.0, 5.0))
    inner = total(a=a, b=b)
    outer = total(inner=inner, c=c)
    assert list(outer.parts) == ["inner", "c"]
    assert outer.parts["inner"].parts == {"a": a, "b": b}
    assert outer.parts["c"] is c
    assert (outer.lower, outer.upper) == (2 + 2 + 5, 3 + 4 + 7)


def test_total_names_the_longest_sum():
    machine = Machine(1e12, 1e12)
    long_memory, short_math = Work(1, 1e12, "bf16"), Work(1e10, 1, "bf16")
    assert (
        total(a=roofline(long_memory, machine), b=roofline(short_math, machine)).bound
        == "memory-bound"
    )


def test_operators_do_not_hide_each_others_traffic():
    reads, computes = Work(1.0, 10.0, "bf16"), Work(10.0, 1.0, "bf16")
    both = total(
        reads=roofline(reads, Machine(1.0, 1.0)), computes=roofline(computes, Machine(1.0, 1.0))
    )
    assert (both.lower, both.t_math, both.t_memory) == (20, 11, 11)


def test_a_tie_is_compute_bound():
    assert (
        roofline(Work(10.0, 10.0, "bf16"), Machine(1.0, 1.0), comms=10.0).bound == "compute-bound"
    )


@pytest.mark.parametrize(
    ("times", "bound"),
    [
        ((2, 2, 1), "compute-bound"),
        ((2, 1, 2), "compute-bound"),
        ((1, 2, 2), "memory-bound"),
        ((1, 2, 1), "memory-bound"),
        ((1, 1, 2), "communication-bound"),
    ],
)
def test_a_tie_goes_to_the_earlier_ceiling(times, bound):
    flops, moved, comms = times
    assert roofline(Work(flops, moved, "bf16"), Machine(1.0, 1.0), comms=comms).bound == bound
    in_array = roofline(
        Work(np.array([flops]), np.array([moved]), "bf16"), Machine(1.0, 1.0), comms=[comms]
    ).bound
    assert list(in_array) == [bound]


def test_work_scales_with_a_number_and_with_an_array():
    work = ops.matmul(4, 8, 16)
    assert ((3 * work).flops, (3 * work).bytes, (3 * work).kernels) == (
        3 * work.flops,
        3 * work.bytes,
        3,
    )
    assert np.array_equal((np.array([1, 2]) * work).flops, [work.flops, 2 * work.flops])
    assert isinstance(np.float64(3) * work, Work)
    assert ((work * 3).bytes, (np.int64(3) * work).bytes) == (3 * work.bytes, 3 * work.bytes)


@given(times=st.integers(1, 1000), flops=positive, moved=positive)
def test_scaled_work_is_that_many_operators(times, flops, moved):
    work, machine = Work(flops, moved, "bf16", "vector", kernels=2), Machine(1e12, 1e11)
    scaled, once = roofline(times * work, machine), roofline(work, machine)
    assert scaled.lower == pytest.approx(times * once.lower)
    assert scaled.upper == pytest.approx(times * once.upper)
    assert scaled.kernels == 2 * times
    assert scaled.intensity == pytest.approx(once.intensity)
    assert ((times * work).dtype, (times * work).unit) == ("bf16", "vector")


def test_zero_times_work_names_the_factor():
    with pytest.raises(CourseError, match="times"):
        0 * Work(1, 1, "bf16")


@given(
    st.lists(st.tuples(positive, positive, st.floats(0, 1e3)), min_size=1, max_size=5),
    st.sampled_from([0.99, 1.01]),
)
def test_sensitivity_is_the_slope_of_the_bound(parts, faster):
    def bound(peak=1.0, bandwidth=1.0, link=1.0):
        steps = [
            roofline(
                Work(1e15 * f, 1e12 * b, "bf16"),
                Machine(1e15 * peak, 1e12 * bandwidth),
                comms=c / link,
            )
            for f, b, c in parts
        ]
        return total(**{f"part{i}": step for i, step in enumerate(steps)})

    # Away from ridges, where the slope has two sides.
    assume(
        all(
            abs(np.log(one / other)) > 0.05
            for f, b, c in parts
            for one, other in ((f, b), (f, c or 1e-9), (b, c or 1e-9))
        )
    )
    slopes = sensitivity(bound())
    assert sum(slopes.values()) == pytest.approx(1)
    for rate in RATES:
        change = bound(**{rate: faster}).lower / bound().lower - 1
        assert change == pytest.approx(slopes[rate] * (1 / faster - 1), rel=1e-6, abs=1e-12)


def test_sensitivity_of_parts_of_parts_weighs_each_by_its_time():
    times = {"peak": (3.0, 1.0, 0.0), "bandwidth": (1.0, 2.0, 0.0), "link": (1.0, 1.0, 5.0)}
    steps = {name: Estimate(*seconds, flops=1.0, bytes=1.0) for name, seconds in times.items()}
    nested = total(
        inner=total(peak=steps["peak"], bandwidth=steps["bandwidth"]), link=steps["link"]
    )
    assert sensitivity(nested) == pytest.approx({"peak": 0.3, "bandwidth": 0.2, "link": 0.5})
    assert [sensitivity(step)[name] for name, step in steps.items()] == [1.0, 1.0, 1.0]


def test_sensitivity_broadcasts_and_gives_a_tie_to_the_earlier():
    steps = Estimate(
        np.array([1.0, 2.0, 1.0]), np.array([2.0, 1.0, 1.0]), 0.0, flops=1.0, bytes=1.0
    )
    assert sensitivity(steps)["peak"].tolist() == [0.0, 1.0, 1.0]
    assert [BOUNDS[i] for i, rate in enumerate(RATES) if sensitivity(steps)[rate][0]] == [
        "memory-bound"
    ]


def test_work_and_estimates_do_not_change():
    work = Work(1, 1, "bf16")
    with pytest.raises(FrozenInstanceError):
        work.flops = 2
    with pytest.raises(FrozenInstanceError):
        roofline(work, Machine(1.0, 1.0)).t_math = 0


@given(st.lists(sizes, min_size=1, max_size=6), st.sampled_from(WITH_16_BITS))
def test_broadcasting_equals_a_loop(batches, key):
    machine = chip(key)
    dtype = "fp16" if "matrix.fp16" in machine.peaks else "bf16"
    at_once = roofline(ops.matmul(np.array(batches), 512, 1024, x=dtype, w=dtype), machine)
    singly = [roofline(ops.matmul(b, 512, 1024, x=dtype, w=dtype), machine) for b in batches]
    for field in (
        "t_math",
        "t_memory",
        "lower",
        "upper",
        "attainable",
        "intensity",
        "flops",
        "bytes",
    ):
        assert np.array_equal(getattr(at_once, field), [getattr(step, field) for step in singly])
    assert list(at_once.bound) == [step.bound for step in singly]
    assert np.array_equal(ridge(np.array([1.0, 2.0]), 4.0), [ridge(1.0, 4.0), ridge(2.0, 4.0)])
    assert np.array_equal(
        attainable(np.array([1.0, 9.0]), 4.0, 2.0),
        [attainable(1.0, 4.0, 2.0), attainable(9.0, 4.0, 2.0)],
    )


lists = st.lists(positive, min_size=1, max_size=3)


@given(lists, lists, lists)
def test_roofs_broadcast_over_every_argument(intensities, peaks, bandwidths):
    column = [[intensity] for intensity in intensities]
    assert ridge([[peak] for peak in peaks], bandwidths).tolist() == [
        [ridge(p, b) for b in bandwidths] for p in peaks
    ]
    for bandwidth in bandwidths:
        expected = [[attainable(i, p, bandwidth) for p in peaks] for i in intensities]
        assert attainable(column, peaks, bandwidth).tolist() == expected


@given(lists, lists, lists)
def test_estimates_broadcast_over_every_argument(flops, moved, comms):
    machine = Machine(1e12, 1e11)
    other = roofline(Work(1e12, 1e12, "bf16"), machine)
    step = roofline(
        Work(np.array(flops)[:, None, None], np.array(moved)[:, None], "bf16"), machine, comms=comms
    )
    both = total(step=step, other=other)
    for i, j, k in np.ndindex(len(flops), len(moved), len(comms)):
        one = roofline(Work(flops[i], moved[j], "bf16"), machine, comms=comms[k])
        for grid, single in ((step, one), (both, total(step=one, other=other))):
            assert grid.bound[i, j, k] == single.bound
            assert grid.lower[i, j, k] == single.lower
            assert grid.upper[i, j, k] == single.upper
            assert grid.attainable[i, j, k] == single.attainable


def test_a_single_number_stays_a_plain_float():
    step = roofline(ops.matmul(np.int64(2), 3, 4), chip("h100-sxm"))
    for value in (
        step.lower,
        step.upper,
        step.attainable,
        ridge(np.float64(1), 2),
        critical_batch(ops.dot, Machine(1.0, 1.0)),
    ):
        assert type(value) is float
    assert type(step.bound) is str


def exact_batch(D, F, x, w, out, ridge):
    """The same question in whole bits and exact rationals, with none of the library's code."""
    # Compute-bound from B on, where 2BDF >= ridge * (B * item + weights) / 8.
    gain = 16 * D * F - ridge * (D * BITS[x] + F * BITS[out])
    return max(1, ceil(ridge * D * F * BITS[w] / gain)) if gain > 0 else inf


near_the_ridge = st.integers(
    100, 700
)  # here some sizes never get there and others only at large batches


@settings(max_examples=300)
@given(
    D=sizes | near_the_ridge,
    F=sizes | near_the_ridge,
    x=dtypes,
    w=dtypes,
    out=dtypes,
    key=st.sampled_from(WITH_16_BITS),
)
def test_critical_batch_is_where_brute_force_finds_it(D, F, x, w, out, key):
    machine = chip(key)
    compute = "fp16" if "matrix.fp16" in machine.peaks else "bf16"
    ridge = Fraction(machine.peak(compute)) / Fraction(machine.bandwidth)
    batch = critical_batch(
        lambda B: ops.matmul(B, D, F, x=x, w=w, out=out, compute=compute), machine
    )
    assert batch == exact_batch(D, F, x, w, out, ridge)

    def bound(B):
        return roofline(ops.matmul(B, D, F, x=x, w=w, out=out, compute=compute), machine).bound

    if batch == inf:
        # Exact rationals: the intensity's limit for endless batches does not exceed the ridge.
        limit = Fraction(2 * D * F * 8, D * BITS[x] + F * BITS[out])
        assert limit <= ridge
        assert bound(10**9) == "memory-bound"
    else:
        assert batch == int(batch) >= 1
        assert bound(batch) == "compute-bound"
        assert batch == 1 or bound(batch - 1) == "memory-bound"


@given(D=st.integers(1, 64), F=st.integers(1, 64), ratio=st.integers(1, 40))
def test_critical_batch_where_times_are_exactly_equal(D, F, ratio):
    # Whole-numbered ridges make ties, where rounding could put the crossing one off.
    machine = Machine(float(ratio), 1.0)
    batch = critical_batch(lambda B: ops.matmul(B, D, F), machine)
    steps = roofline(ops.matmul(np.arange(1, 5000), D, F), machine)
    first = np.flatnonzero(steps.bound == "compute-bound")
    assert batch == (first[0] + 1 if len(first) else batch)
    assume(len(first) == 0)
    assert batch > 4999


@pytest.mark.parametrize(("D", "F"), [(1275, 1000), (600, 8500)])
def test_a_limit_equal_to_the_ridge_is_never_reached(D, F):
    v6e = chip("tpu-v6e")
    assert Fraction(D * F, D + F) == Fraction(v6e.peak("bf16")) / Fraction(v6e.bandwidth)
    assert critical_batch(lambda B: ops.matmul(B, D, F), v6e) == inf
    assert critical_batch(lambda B: ops.matmul(B, D, F + 1), v6e) < inf


@pytest.mark.parametrize(
    ("D", "F", "w", "batch"),
    [
        (1275, 1500, "bf16", 3000),
        (1275, 1500, "int8", 1500),
        (900, 1500, "bf16", 153_000),
        (895, 1500, "bf16", 3_043_000),
    ],
)
def test_a_batch_at_which_both_times_are_equal_is_compute_bound(D, F, w, batch):
    v6e = chip("tpu-v6e")
    work = ops.matmul(batch, D, F, w=w)
    assert Fraction(work.flops) / Fraction(work.bytes) == Fraction(v6e.peak("bf16")) / Fraction(
        v6e.bandwidth
    )
    assert critical_batch(lambda B: ops.matmul(B, D, F, w=w), v6e) == batch


def test_critical_batch_of_work_that_is_never_or_always_compute_bound():
    assert critical_batch(lambda B: Work(B, 2.0 * B, "bf16"), Machine(1.0, 1.0)) == inf
    assert critical_batch(lambda B: Work(2.0 * B, B, "bf16"), Machine(1.0, 1.0)) == 1
    assert (
        critical_batch(lambda B: Work(0.0, 5.0 + B, "bf16"), Machine(1.0, 1.0), exact=False) == inf
    )


def test_critical_batch_broadcasts_and_says_never():
    widths = np.array([256, 1024, 8192])
    at_once = critical_batch(lambda B: ops.matmul(B, widths, widths), chip("tpu-v5e"))
    assert list(at_once) == [
        critical_batch(lambda B, w=w: ops.matmul(B, w, w), chip("tpu-v5e")) for w in widths
    ]
    assert at_once[0] == inf


@pytest.mark.parametrize(
    ("key", "w", "expected"),
    [("tpu-v5e", "bf16", 241), ("h100-sxm", "bf16", 296), ("tpu-v5e", "int8", 121)],
)
def test_rule_of_thumb_is_the_ridge_times_half_the_bytes_of_a_weight(key, w, expected):
    batch = critical_batch(lambda B: ops.matmul(B, 8192, 8192, w=w), chip(key), exact=False)
    assert batch == expected == ceil(chip(key).ridge("bf16") * {"bf16": 2, "int8": 1}[w] / 2)


@given(
    D=sizes,
    F=sizes,
    w=dtypes,
    key=st.sampled_from(["a100-sxm-80", "h100-sxm", "tpu-v5e", "tpu-v5p"]),
)
def test_rule_of_thumb_does_not_ask_for_the_widths(D, F, w, key):
    ridge = Fraction(chip(key).peak("bf16")) / Fraction(chip(key).bandwidth)
    batch = critical_batch(
        lambda B: ops.matmul(B, D, F, w=w, compute="bf16"), chip(key), exact=False
    )
    assert batch == ceil(ridge * Fraction(BITS[w], 8) / 2)


def test_exact_needs_at_least_the_rule_of_thumb():
    widths = np.array([600, 1000, 5000, 10**5, 10**7])
    rule, exact = (
        critical_batch(lambda B: ops.matmul(B, widths, widths), chip("h100-sxm"), exact=exact)
        for exact in (False, True)
    )
    assert list(rule) == [296] * 5
    assert list(exact) == sorted(exact, reverse=True)
    assert exact[-1] == 296 < exact[0]


@pytest.mark.parametrize(
    "work",
    [
        lambda B: Work(float(B) ** 2, 1e3, "bf16"),
        lambda B: Work(1.0 * B, 1e3 + float(B) ** 1.5, "bf16"),
        lambda B: ops.matmul(-(-B // 8) * 8, 512, 512),  # padded to eight rows
        # One row of tiles up to a batch of 2048, two above: the straight line says 2939, which is
        # memory-bound.
        lambda B: ops.tiled_matmul(B, 65536, 33000, 2048, 330),
    ],
    ids=["square", "power", "padded", "tiles-larger-than-the-batches-tried"],
)
def test_work_that_is_not_linear_is_refused(work):
    with pytest.raises(CourseError, match="work must grow linearly with the batch"):
        critical_batch(work, chip("h100-sxm"))


def test_published_numbers_come_out():
    h100, v5e, v6e = chip("h100-sxm"), chip("tpu-v5e"), chip("tpu-v6e")
    assert 1e12 / h100.peak("bf16") == pytest.approx(1.01e-3, rel=5e-3)
    assert 1e12 / v6e.peak("bf16") == pytest.approx(1.1e-3, rel=2e-2)
    assert v5e.ridge("bf16") == pytest.approx(240.5, abs=0.05)
    assert chip("tpu-v5p").classic["vector"].si / chip("tpu-v5p").bandwidth == pytest.approx(
        2.5, abs=0.05
    )
    # D = F = 512 never gets there on an H100; on a v5e only just, at thousands of tokens.
    assert critical_batch(lambda B: ops.matmul(B, 512, 512), h100) == inf
    assert critical_batch(lambda B: ops.matmul(B, 480, 480), v5e) == inf


@each(
    ("call", "parts"),
    [
        (lambda: Work(-1, 1, "bf16"), ["flops", "-1", "zero or more"]),
        (lambda: Work(1, 0, "bf16"), ["bytes", "positive", "got 0"]),
        (lambda: Work(float("nan"), 1, "bf16"), ["flops", "nan"]),
        (lambda: Work(1, 1, "bf61"), ["dtype", "'bf61'", "did you mean 'bf16'"]),
        (lambda: Work(1, 1, "bf16", unit="scalar"), ["unit", "'scalar'", "matrix"]),
        (lambda: Work("many", 1, "bf16"), ["flops", "'many'", "number"]),
        (lambda: ridge(0, 1), ["peak", "positive", "got 0"]),
        (lambda: ridge([1.0, -2.0], 1), ["peak", "-2", "index (1,)"]),
        (lambda: ridge(1, float("inf")), ["bandwidth", "inf"]),
        (lambda: attainable(-1, 1, 1), ["intensity", "-1"]),
        (lambda: attainable(1, 1, [[1.0], [0.0]]), ["bandwidth", "got 0", "index (1, 0)"]),
        (lambda: attainable(True, 1, 1), ["intensity", "number", "True"]),
        (lambda: Work(1, 1, "bf16", kernels=-1), ["kernels", "-1", "zero or more"]),
        (lambda: Work(1, np.array([1.0, np.inf]), "bf16"), ["bytes", "inf", "index (1,)"]),
        (lambda: -2 * Work(1, 1, "bf16"), ["times", "-2", "finite"]),
        (lambda: Work(1, 1, "bf16") * float("nan"), ["times", "nan"]),
        (lambda: roofline(Work(1, 1, "bf16"), Machine(0.0, 1.0)), ["peak", "positive", "got 0"]),
        (lambda: roofline(Work(1, 1, "bf16"), Machine(1.0, float("nan"))), ["bandwidth", "nan"]),
        (
            lambda: roofline(Work(1, 1, "bf16"), chip("h100-sxm"), comms="fast"),
            ["comms", "number", "'fast'"],
        ),
        (
            lambda: roofline(Work(1, 1, "bf16", unit="vector"), chip("l4")),
            ["'bf16'", "vector unit", "it has fp32, fp64"],
        ),
        (
            lambda: critical_batch(ops.dot, chip("tpu-v5e")),
            ["tpu-v5e", "'fp32'", "vector unit", "nothing is published"],
        ),
        (total, ["total", "at least one part"]),
        (lambda: total(a=3), ["a must be an Estimate", "got 3", "roofline(work, chip)"]),
        (
            lambda: roofline(Work(1, 1, "bf16"), "h100-sxm"),
            ["chip", "'h100-sxm'", "chip('h100-sxm')"],
        ),
        (lambda: roofline(Work(1, 1, "bf16"), chip("h100-sxm"), comms=-1), ["comms", "-1"]),
        (
            lambda: roofline(Work(1, 1, "fp8"), chip("a100-sxm-80")),
            ["a100-sxm-80", "'fp8'", "matrix unit", "bf16"],
        ),
        (lambda: 2j * Work(1, 1, "bf16"), ["times", "2j"]),
        (
            lambda: critical_batch(lambda B: ops.tiled_matmul(B, 300, 300, 7, 7), chip("h100-sxm")),
            ["work", "linearly", "search"],
        ),
    ],
)
def test_errors_name_argument_value_and_remedy(call, parts):
    with pytest.raises(CourseError) as error:
        call()
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize("batch", [4, [4, 8]])
def test_an_estimate_shows_itself_on_a_line(batch):
    step = roofline(ops.matmul(batch, 8192, 8192), chip("h100-sxm"))
    many = total(**{f"an operator with a long name {number}": step for number in range(40)})
    for one in (step, many):
        assert len(repr(one)) < 200
        assert "\n" not in repr(one)
    assert "an operator with a long name 0" in repr(many)
    assert ("memory-bound" in repr(step)) == (batch == 4)


def test_an_amount_is_its_five_parts_at_a_batch_and_a_context():
    # 100 once, 10 a sequence, 1 a token in a cache, and of 8 for experts all but 0.75 ** 2.
    assert formulas.amount([100.0, 10.0, 1.0, 8.0, 0.75], 2, 5) == 100 + 20 + 10 + 3.5


def test_a_million_tokens_cost_what_their_seconds_are_rented_for():
    assert formulas.dollars(3.6, 1000.0) == 1.0  # 1000 s at 0.001 USD each


def test_a_value_between_two_places_lies_on_their_line_and_beyond_the_last_on_the_last_line():
    found = [formulas.between([1, 2, 4], [10.0, 20.0, 60.0], x) for x in (1, 1.5, 2, 3, 4, 5)]
    assert found == [10.0, 15.0, 20.0, 40.0, 60.0, 80.0]


def test_no_batch_passes_what_prompts_and_tokens_add_to_the_steps():
    assert formulas.ceiling(0.02, 300, 1e-4) == pytest.approx(1 / (0.02 + 0.03))
