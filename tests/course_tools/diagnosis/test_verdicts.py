"""The verdicts: on the seeded traces, on traces constructed by other hands, on what is recorded
here, and on mixtures.
"""

import gzip
import json
import random

import pytest

from course_lib import chip
from course_tools import diagnosis
from course_tools.diagnosis.amounts import Operand, tensors
from course_tools.diagnosis.causes import FOLDER
from course_tools.diagnosis.reading.rows import OP, OpType
from course_tools.diagnosis.root_cause import Operator
from tests.course_tools.diagnosis import others, seeded_traces
from tests.course_tools.diagnosis.others import MAKERS, Pen
from tests.course_tools.diagnosis.seeded_traces import MADE
from tests.each import each

GPUS = list(others.GPUS)
NEEDS_SHAPES = {"strided_add", "at_roof", "at_roof_memory", "at_roof_hidden", "misaligned"}
NEEDS_CHIP = {*NEEDS_SHAPES, "ragged", "ragged_small", "ragged_attention"} - {"misaligned"}
NEEDS_HOST = {"synchronisation", "synchronisation_each"}
MAIN = [
    "launch_bound",
    "host_bound",
    "synchronisation",
    "copies",
    "unfused",
    "strided",
    "wrong_format",
    "ragged",
    "exposed",
    "imbalance",
    "at_roof",
]


def verdict(tmp_path, trace, **more):
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace))
    return diagnosis.diagnose(file, **more)


def drawn(maker, part=0.4, **about):
    pen = Pen(**about)
    MAKERS[maker][1](pen, part)
    return pen.trace()


def right(found, cause):
    """Right, or not sure of something else."""
    return found.cause == cause or found.confidence < 0.5


@each("cause", diagnosis.SEEDED)
def test_a_seeded_trace_shows_the_cause_that_it_was_made_for(cause):
    file = diagnosis.seeded(cause)
    found = diagnosis.diagnose(file)
    assert found.cause == cause
    assert found.confidence > 0.6 or cause == "unknown"
    assert file.stat().st_size <= 40_000
    assert sum(one.seconds for one in found.evidence) <= found.window * 1.0001
    assert found.evidence or cause == "unknown"
    if cause not in ("at-roof", "unknown"):
        most = sum(one.share for one in found.evidence)
        assert found.share == pytest.approx(most, rel=0.35)
        assert all(share <= found.share for _, share in found.alternatives)


@each("cause", diagnosis.SEEDED)
def test_a_seeded_trace_says_what_it_is_and_not_where_it_was_made(cause):
    found = json.loads(gzip.decompress(diagnosis.seeded(cause).read_bytes()))
    assert not {"host_name", "traceName", "trace_id"} & set(found)
    assert found["constructed"] is (cause in CONSTRUCTED)
    assert ("no measurements" in found["note"]) is (cause in CONSTRUCTED)


CONSTRUCTED = {
    "launch-bound",
    "synchronisation",
    "copies",
    "ragged-waves",
    "exposed-collectives",
    "load-imbalance",
    "at-roof",
    "unknown",
}


def test_every_cause_has_its_trace():
    assert {file.name for file in FOLDER.iterdir()} == {f"{one}.json.gz" for one in MADE}
    assert list(MADE) == list(diagnosis.SEEDED) == list(diagnosis.CAUSES)


def test_constructed_traces_are_what_their_generator_makes():
    for cause in sorted(CONSTRUCTED)[:3]:
        kept = json.loads(gzip.decompress(diagnosis.seeded(cause).read_bytes()))
        assert kept == json.loads(json.dumps(MADE[cause]()))


@pytest.mark.parametrize("maker", ["host_bound_python", "synchronisation_each", "copies_device",
    "unfused_norm", "misaligned", "wrong_format_upcast", "ragged_attention", "at_roof_memory",
    "exposed_gather", "at_roof_hidden", "graph", "opaque"])  # fmt: skip
def test_a_cause_is_found_where_somebody_else_drew_it(tmp_path, maker):
    found = verdict(tmp_path, drawn(maker))
    assert found.cause == MAKERS[maker][0]
    assert found.confidence > 0.5 or found.cause == "unknown"


def asked(kernel, gap, times=50):
    """A loop that waits after each kernel, and then does something that no row names, µs."""
    pen = Pen()
    for _ in range(times):
        pen.launch("aten::mm", others.GEMM, kernel, [[1024, 1024]] * 2)
        pen.sync()
        pen.host += gap
    return pen.trace()


def test_a_loop_without_its_waits_gains_no_more_than_they_take(tmp_path):
    long, brief = (verdict(tmp_path, asked(kernel, 30)) for kernel in (120, 20))
    assert long.cause == brief.cause == "synchronisation"
    assert long.gain == pytest.approx(long.seconds)  # what the host does would hide
    assert brief.gain < brief.seconds
    waits = [row["dur"] for row in asked(20, 30)["traceEvents"] if "Synchronize" in row["name"]]
    assert brief.gain <= sum(waits) * 1e-6 * 1.001
    assert brief.confidence < long.confidence


def test_what_no_row_names_is_blamed_on_nobody_for_sure(tmp_path):
    for gap in (30, 60, 120):
        found = verdict(tmp_path, asked(4, gap))
        assert found.cause in ("synchronisation", "host-bound")
        assert found.confidence < 0.5


def test_of_several_devices_the_shares_of_all_operators_are_one_whole(tmp_path):
    found = verdict(tmp_path, others.ranks())
    assert found.devices == 4
    assert sum(one.share for one in found.operators) <= 1
    assert found.busy == pytest.approx(
        sum(one.share for one in found.operators if "nccl" not in one.name), rel=0.01
    )


@pytest.mark.parametrize("cause", ["launch-bound", "copies", "synchronisation"])
def test_as_many_devices_as_do_the_same_lose_what_one_does(cause):
    one = diagnosis.diagnose(diagnosis.seeded(cause))
    twice = diagnosis.diagnose([diagnosis.seeded(cause)] * 2)
    assert (twice.cause, twice.devices) == (cause, 2)
    assert (twice.seconds, twice.share) == pytest.approx((one.seconds, one.share))


@pytest.mark.parametrize("calls", [1, 10, 10_000])
def test_how_small_an_operator_is_does_not_hang_on_how_often_it_is_called(calls):
    small, large = (
        Operator("aten::add", calls, calls * 1e-5, 0.1, calls * each, 0.0, 0.0).small
        for each in (0.9e-6, 1.1e-6)
    )
    assert (small, large) == (True, False)


@pytest.mark.parametrize("collectives", [True, False])
def test_ranks_of_unequal_work_in_one_file(tmp_path, collectives):
    assert verdict(tmp_path, others.ranks(collectives=collectives)).cause == "load-imbalance"


@pytest.mark.exhaustive
@pytest.mark.parametrize("maker", MAKERS)
def test_a_cause_is_found_on_every_gpu(tmp_path, maker):
    every = {
        (gpu, seed): verdict(tmp_path, drawn(maker, 0.3 + 0.3 * seed, gpu=gpu, seed=seed))
        for gpu in GPUS
        for seed in range(3)
    }
    wrong = {at: one.cause for at, one in every.items() if one.cause != MAKERS[maker][0]}
    assert wrong == {}
    assert [at for at, one in every.items() if one.chip is None] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("main", MAIN)
def test_the_larger_of_two_causes_wins(tmp_path, main):
    length = {
        one: max(row["ts"] + row["dur"] for row in drawn(one, 1.0)["traceEvents"]) - 5e6
        for one in MAIN
    }
    wrong = {}
    for other in MAIN[:-1]:
        pen = Pen(seed=5)
        for _ in range(4):
            MAKERS[main][1](pen, 0.5)
            MAKERS[other][1](pen, length[main] / length[other] / 6)
            pen.host = max(pen.host, pen.gpu_free - 20)
        found = verdict(tmp_path, pen.trace())
        if other != main and not right(found, MAKERS[main][0]):
            wrong[other] = found.cause, found.confidence
    assert wrong == {}


def as_text(trace):
    for row in trace["traceEvents"]:
        row["ts"], row["dur"] = str(row["ts"]), str(row["dur"])
        row["args"] = {
            key: str(value) if isinstance(value, int | float) else value
            for key, value in row["args"].items()
        }
    return trace


def in_pairs(trace):
    host, device = [], []
    for row in trace["traceEvents"]:
        if row["cat"] in ("kernel", "gpu_memcpy"):
            device.append(row)
        else:
            begun = {**row, "ph": "B"}
            ended = {"ph": "E", "pid": row["pid"], "tid": row["tid"]}
            host += [begun, {**ended, "ts": row["ts"] + begun.pop("dur")}]
    host.sort(key=lambda row: (row["ts"], row["ph"] == "B"))
    return {**trace, "traceEvents": host + device}


def in_disorder(trace):
    random.Random(1).shuffle(trace["traceEvents"])
    return trace


def properties_last(trace):
    return {name: trace[name] for name in ("traceEvents", "deviceProperties", "schemaVersion")}


def among_others(trace):
    """Rows that say nothing of the device's time, with numbers that JSON does not have."""
    until = max(row["ts"] + row["dur"] for row in trace["traceEvents"])
    about = {"ph": "X", "pid": 77, "tid": 77, "ts": 5e6, "dur": until - 5e6}
    more = [
        {"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "args": {"name": "python"}},
        {**about, "cat": "python_function", "name": "train.py(3): main"},
        {**about, "cat": "user_annotation", "name": "forward"},
        {**about, "cat": "gpu_user_annotation", "name": "ProfilerStep#1", "pid": 0, "tid": 7},
        {**about, "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "ts": 0},
        {**about, "cat": "cpu_op", "name": "odd", "ts": float("nan"), "args": {"x": float("inf")}},
        {**about, "cat": "cpu_op", "name": "odder", "ts": None, "args": "none"},
        {"ph": "s", "id": 4, "cat": "ac2g", "name": "ac2g", "ts": 5e6, "pid": 77, "tid": 77},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": until},
    ]
    return {**trace, "traceEvents": more + trace["traceEvents"]}


STYLES = [as_text, in_pairs, in_disorder, properties_last, among_others]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("maker", ["synchronisation", "strided"])
def test_the_verdict_does_not_hang_on_how_a_trace_is_written(tmp_path, maker, style):
    plain, written = (verdict(tmp_path, one) for one in (drawn(maker), style(drawn(maker))))
    assert written.cause == plain.cause == MAKERS[maker][0]
    assert written.share == pytest.approx(plain.share, rel=0.02)


@pytest.mark.exhaustive
@pytest.mark.parametrize("maker", MAKERS)
def test_no_style_of_writing_changes_a_verdict(tmp_path, maker):
    found = {style.__name__: verdict(tmp_path, style(drawn(maker))).cause for style in STYLES}
    assert found == dict.fromkeys(found, MAKERS[maker][0])


@pytest.mark.exhaustive
@pytest.mark.parametrize("maker", MAKERS)
def test_without_shapes_names_or_host_nothing_is_claimed(tmp_path, maker):
    cause = MAKERS[maker][0]
    bare = verdict(tmp_path, drawn(maker)["traceEvents"])
    assert right(bare, cause)
    assert "chip" in bare.cannot_tell
    assert bare.cause == cause or maker in NEEDS_CHIP
    shapeless = verdict(tmp_path, drawn(maker, shapes=False))
    assert right(shapeless, cause)
    assert "shapes" in shapeless.cannot_tell or maker == "graph"
    assert shapeless.cause == cause or maker in NEEDS_SHAPES
    device = drawn(maker)
    device["traceEvents"] = [
        row for row in device["traceEvents"] if row["cat"] in ("kernel", "gpu_memcpy")
    ]
    alone = verdict(tmp_path, device)
    assert right(alone, cause)
    assert "host" in alone.cannot_tell
    assert alone.cause == cause or maker in NEEDS_SHAPES | NEEDS_HOST


def test_a_graph_in_one_row_is_not_guessed_at(tmp_path):
    found = verdict(tmp_path, drawn("graph"))
    assert (found.cause, found.confidence, found.evidence) == ("unknown", 0, ())
    assert "graph" in found.cannot_tell
    assert "shapes" not in diagnosis.diagnose(diagnosis.seeded("unknown")).cannot_tell


def test_a_trace_that_launches_and_has_no_device_is_not_guessed_at(tmp_path):
    trace = drawn("at_roof")
    trace["traceEvents"] = [
        row for row in trace["traceEvents"] if row["cat"] in ("cpu_op", "cuda_runtime")
    ]
    found = verdict(tmp_path, trace)
    assert (found.cause, "device" in found.cannot_tell) == ("unknown", True)


def test_operators_are_placed_on_the_roofline(tmp_path):
    trace = drawn("at_roof")
    one = verdict(tmp_path, trace).operators[0]
    least = 2 * 8192**3 / chip("h100-sxm").peak("bf16")
    assert one.name == "aten::mm"
    assert one.bound == pytest.approx(one.calls * least, rel=1e-6)
    assert one.distance == pytest.approx(1 / 0.78, rel=0.03)
    assert one.flops == one.calls * 2 * 8192**3
    named = verdict(tmp_path, trace["traceEvents"], chip="a100-sxm-80")
    assert named.operators[0].bound > one.bound
    assert (named.chip, named.cannot_tell) == ("a100-sxm-80", ())


def test_a_name_that_the_table_lacks_is_taken_only_with_its_multiprocessors(tmp_path):
    trace = drawn("at_roof")
    trace["deviceProperties"][0] |= {"name": "NVIDIA H200 NVL", "totalGlobalMem": 150_100_000_000}
    found = verdict(tmp_path, trace)
    assert (found.chip, found.taken_for) == ("h200-sxm", "NVIDIA H200 NVL")
    trace["deviceProperties"][0]["numSms"] = 100
    found = verdict(tmp_path, trace)
    assert (found.chip, found.cause) == (None, "unknown")


def test_what_hides_under_products_is_no_cause(tmp_path):
    found = verdict(tmp_path, drawn("at_roof_hidden"))
    assert dict(found.alternatives).get("exposed-collectives", 0) < 0.05


def test_every_cause_has_its_place_in_the_flow():
    leaves = {cause for fork in diagnosis.FLOW for cause in fork.causes}
    assert leaves | {"at-roof", "unknown"} == set(diagnosis.CAUSES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("cause", sorted(set(MADE) - CONSTRUCTED))
def test_each_recorded_trace_can_be_recorded_anew(tmp_path, cause):
    seeded_traces.write(tmp_path, [cause])
    assert diagnosis.diagnose(tmp_path / f"{cause}.json.gz").cause == cause


def test_the_models_kernels_take_what_their_bounds_allow():
    scene = seeded_traces.SyntheticTrace("h100-sxm", 0)
    scene.product(8192, 8192, 8192)
    row = next(one for one in scene.events if one["cat"] == "kernel")
    least = 2 * 8192**3 / scene.chip.peak("bf16") * 1e6
    assert row["dur"] == pytest.approx(least / seeded_traces.REACHED, rel=0.06)


@pytest.mark.parametrize(
    ("dims", "strides", "kept"),
    [
        ([4, [4]], [], []),
        ([[4], 5], [], [(4,)]),
        ([[10**400]], [], []),
        ([["x"]], [[]], []),
        ([[4, 4]], [[[1], 4]], [(4, 4)]),
    ],
)
def test_shapes_that_are_none_are_no_shapes(dims, strides, kept):
    of = OpType(OP, "aten::add", dims=[dims], strides=[strides], types=["float"])
    assert tensors(of) == [Operand(one, (), "fp32") for one in kept]
