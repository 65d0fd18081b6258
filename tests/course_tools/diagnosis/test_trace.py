"""The analyser of traces, on traces whose answer is known."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, ops
from course_tools.diagnosis import trace
from course_tools.diagnosis.trace import Hot, TraceEvent
from tests.each import each


def op(name, ts, dur, dims=(), types=(), strides=(), **more):
    return TraceEvent(
        name=name,
        cat="cpu_op",
        ts=ts,
        dur=dur,
        dims=list(dims),
        types=list(types),
        strides=list(strides),
        **more,
    )


@st.composite
def nests(draw, start=0.0, depth=3):
    """Calls within calls, and the time that each spends by itself."""
    own, events, at = draw(st.integers(1, 9)), [], start
    at += own
    if depth:
        for _ in range(draw(st.integers(0, 3))):
            inner, until = draw(nests(at, depth - 1))
            events += inner
            at = until + draw(st.sampled_from([0, 2]))
            own += at - until
    return [(op(f"op{draw(st.integers(0, 2))}", start, at - start), own), *events], at


@given(nests())
def test_own_times_are_those_of_the_calls_themselves(nest):
    events, end = nest
    found = trace.hot([event for event, _ in events])
    wanted = {}
    for event, own in events:
        wanted[event.name] = wanted.get(event.name, 0) + own
    assert {one.name: round(one.seconds * 1e6, 6) for one in found} == wanted
    assert sum(one.seconds for one in found) * 1e6 == pytest.approx(end)
    assert sum(one.share for one in found) == pytest.approx(1)
    assert [one.seconds for one in found] == sorted((one.seconds for one in found), reverse=True)


def test_threads_do_not_nest_in_one_another():
    found = trace.hot([op("a", 0.0, 10.0, tid=1), op("b", 2.0, 5.0, tid=2)])
    assert {one.name: one.seconds for one in found} == {"a": 1e-5, "b": 5e-6}


def test_a_kernels_time_is_that_of_the_operator_that_launched_it():
    """On a GPU the host's time says nothing: the launch returns before the work is done."""
    events = [
        op("aten::linear", 0.0, 10.0, id=1),
        op("aten::mm", 1.0, 8.0, [[64, 32], [32, 16]], ["float", "float"], id=2),
        op("aten::gelu", 20.0, 90.0, [[64, 16]], ["float"], id=3),
        TraceEvent(name="sgemm", cat="kernel", ts=50.0, dur=70.0, tid=7, id=2),
        TraceEvent(name="gelu", cat="kernel", ts=130.0, dur=30.0, tid=7, id=3),
    ]
    found = {one.name: one for one in trace.hot(events)}
    assert {name: round(one.share, 9) for name, one in found.items()} == {
        "aten::mm": 0.7,
        "aten::gelu": 0.3,
        "aten::linear": 0,
    }
    assert found["aten::mm"].flops == ops.matmul(64, 32, 16).flops
    assert found["aten::linear"].bytes == 0


F = "float"


@each(
    ("event", "flops", "moved"),
    [
        (op("aten::mm", 0, 1, [[8, 16], [16, 4]], [F, F]), 2 * 8 * 16 * 4, 4 * (128 + 64 + 32)),
        (
            op("aten::addmm", 0, 1, [[4], [8, 16], [16, 4]], [F] * 3),
            2 * 8 * 16 * 4,
            4 * (4 + 128 + 64 + 32),
        ),
        (
            op("aten::bmm", 0, 1, [[3, 8, 16], [3, 16, 4]], ["c10::Half"] * 2),
            3 * 2 * 8 * 16 * 4,
            3 * 2 * (128 + 64 + 32),
        ),
        (op("aten::add", 0, 1, [[8, 16], [16], []], [F, F, "Scalar"]), 128, 4 * (128 + 16 + 128)),
        (op("aten::add_", 0, 1, [[8, 16], [8, 16]], [F, F]), 128, 4 * 3 * 128),
        (op("aten::mul", 0, 1, [[8, 1], [1, 16]], [F, F]), 128, 4 * (8 + 16 + 128)),
        (op("aten::gelu", 0, 1, [[8, 16]], [F]), 10 * 128, 8 * 128),
        (op("aten::_softmax", 0, 1, [[8, 16]], ["double"]), 5 * 128, 16 * 128),
        (op("aten::copy_", 0, 1, [[8, 16], [8, 16]], ["double", F]), 0, 12 * 128),
        (op("aten::copy_", 0, 1, [[8, 16], [8, 16]], [F, F], [[16, 1], [0, 1]]), 0, 4 * (128 + 16)),
        (op("aten::fill_", 0, 1, [[8, 16], []], [F, F]), 0, 4 * 128),
        (op("aten::t", 0, 1, [[8, 16]], [F]), 0, 0),
        (op("aten::zeros", 0, 1, [[]], ["ScalarList"]), 0, 0),
        (op("aten::cat", 0, 1, [[[8, 16], [8, 16]], []], ["TensorList", "Scalar"]), 0, 0),
        (
            op(
                "aten::_scaled_dot_product_flash_attention_for_cpu",
                0,
                1,
                [[2, 4, 32, 8], [2, 4, 64, 8], [2, 4, 64, 8]],
                [F] * 3,
            ),
            ops.attention(2, 32, 64, 4, 4, 8, causal=False, x="fp32").flops,
            ops.attention(2, 32, 64, 4, 4, 8, causal=False, x="fp32").bytes,
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_flops_and_bytes_from_shapes(event, flops, moved):
    assert trace.amount(event) == (flops, moved)


def test_an_operator_that_only_calls_others_moves_nothing():
    dims, types = [[8, 16], [16, 4]], [F, F]
    events = [op("aten::matmul", 0.0, 10.0, dims, types), op("aten::mm", 0.5, 9.0, dims, types)]
    found = {one.name: one for one in trace.hot(events)}
    assert found["aten::matmul"].flops == found["aten::matmul"].bytes == 0
    assert found["aten::mm"].flops == 1024


@pytest.mark.parametrize(
    ("dims", "strides", "strided"),
    [
        ([8, 16], [16, 1], False),
        ([8, 16], [1, 8], True),
        ([8, 16], [0, 1], False),
        ([1, 16], [1, 1], False),
        ([2, 8, 16], [128, 16, 1], False),
        ([2, 8, 16], [128, 1, 8], True),
        ([8, 16], [32, 1], True),
    ],
)
def test_what_is_not_read_row_by_row(dims, strides, strided):
    (one,) = trace.hot([op("aten::copy_", 0.0, 1.0, [dims, dims], [F, F], [[], strides])])
    assert one.strided == strided


def test_formats_are_those_of_arrays_not_of_numbers():
    (one,) = trace.hot([op("aten::mul", 0.0, 1.0, [[8], []], [F, "double"])])
    assert one.types == (F,)


@given(st.floats(1e-9, 1e3), st.floats(0, 1e15), st.floats(1, 1e12))
def test_the_ceiling_named_is_the_one_that_takes_longer(seconds, flops, moved):
    one = Hot(
        name="x",
        calls=1,
        seconds=seconds,
        share=1,
        flops=flops,
        bytes=moved,
        types=(),
        strided=False,
    )
    t_math, t_memory = flops / 1e12, moved / 1e11
    said = trace.bound(one, 1e12, 1e11)
    if seconds > trace.FAR * max(t_math, t_memory):
        assert said == "neither"
    else:
        assert said == ("compute-bound" if t_math >= t_memory else "memory-bound")


def test_a_written_trace_is_read_back_and_another_file_refused(tmp_path):
    events, file = [op("aten::mm", 0.0, 1.0, [[2, 3], [3, 4]], [F, F])], tmp_path / "trace.json"
    file.write_bytes(msgspec.json.encode(events))
    assert trace.read(file) == events
    for text in ("{}", "[1]", "nonsense"):
        file.write_text(text)
        with pytest.raises(CourseError, match="not a trace that the lab recorded"):
            trace.read(file)
    with pytest.raises(CourseError, match="record it with record_shapes"):
        trace.hot([])


def test_a_recorded_trace_names_what_ran_and_not_the_machine(tmp_path):
    import platform

    torch = pytest.importorskip("torch")
    from course_tools.campaigns import profiling

    a, b = torch.randn(64, 256), torch.randn(256, 128)
    file = tmp_path / "trace.json"
    events = profiling.record(
        lambda: torch.nn.functional.gelu((a @ b).t().contiguous()).double(), file, tries=2
    )
    assert trace.read(Path(file)) == events
    assert f'"{platform.node()}"' not in file.read_text()
    found = {one.name: one for one in trace.hot(events)}
    assert found["aten::mm"].flops == ops.matmul(64, 256, 128).flops
    assert found["aten::mm"].bytes == ops.matmul(64, 256, 128, x="fp32", w="fp32").bytes
    assert found["aten::copy_"].types == ("double", "float")
    assert found["aten::copy_"].strided
    assert found["aten::mm"].calls == 1
