"""Kinds of traces that others record: a device with a full queue, other vendors' runtimes, ranks
without a device, chips that no name tells, files of any shape.
"""

import gzip
import json
import sqlite3
from contextlib import closing
from importlib import import_module

import pytest

from course_lib import CourseError
from course_tools import diagnosis
from course_tools.diagnosis.account import Account
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.stream import ZSTD
from course_tools.diagnosis.root_cause import _root_cause
from course_book.text import words
from tests.course_tools.diagnosis import others
from tests.course_tools.diagnosis.others import GEMM, MAKERS, Pen

IDLE = {"host-bound", "launch-bound", "synchronisation"}


def found(tmp_path, pen, **more):
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(pen.trace() if isinstance(pen, Pen) else pen))
    return diagnosis.diagnose(file, **more)


def idle_share(one):
    shares = dict(one.alternatives) | {one.cause: one.share}
    return sum(shares.get(cause, 0.0) for cause in IDLE)


def product(pen, micros=500.0, **more):
    pen.launch("aten::mm", GEMM, micros, [[2048, 2048]] * 2, **more)


@pytest.mark.parametrize("ahead", [2_000, 90_000, 3_000_000])
def test_a_device_with_a_full_queue_waits_for_nobody(tmp_path, ahead):
    pen = Pen()
    pen.gpu_free = pen.host + ahead  # what ran before the recording began
    for _ in range(100):
        product(pen, 1000)
    one = found(tmp_path, pen)
    assert idle_share(one) < 0.01
    assert one.busy > 0.95


def test_what_the_host_does_after_the_last_kernel_is_nobodys_loss(tmp_path):
    pen = Pen()
    for _ in range(50):
        product(pen)
    pen.sync()
    pen.row("cpu_op", "aten::to", pen.host, 400_000, 77, 77)
    assert idle_share(found(tmp_path, pen)) < 0.05


def test_time_between_annotated_steps_belongs_to_none(tmp_path):
    pen = Pen()
    for step in range(4):
        begun = pen.host
        for _ in range(20):
            product(pen)
        pen.sync()
        pen.row("user_annotation", f"ProfilerStep#{step}", begun, pen.host - begun, 77, 77)
        pen.host += 60_000
    one = found(tmp_path, pen)
    assert idle_share(one) < 0.05
    assert one.window < 0.06


def test_gaps_inside_a_replayed_graph_are_not_the_hosts(tmp_path):
    pen = Pen()
    for _ in range(20):
        pen.n += 1
        pen.row("cuda_runtime", "cudaGraphLaunch", pen.host, 9, 77, 77, correlation=pen.n)
        start = max(pen.host + 8, pen.gpu_free)
        for _ in range(30):
            about = {"device": 0, "stream": 7, "correlation": pen.n, "graph node id": 5}
            pen.row("kernel", GEMM, start, 40, 0, 7, **about)
            start += 60
        pen.gpu_free, pen.host = start, pen.host + 20
    assert idle_share(found(tmp_path, pen)) < 0.02


WAITING = ["cudaStreamSynchronize", "hipDeviceSynchronize", "hipMemcpyWithStream", "hipMemcpy",
    "cudaMemcpy", "cuMemcpyDtoH_v2", "cudaMemcpyAsync", "zeEventHostSynchronize", "urQueueFinish",
    "cuStreamSynchronize_ptsz", "torch_mtia_synchronize"]  # fmt: skip


def waits(name, category="cuda_runtime"):
    pen = Pen()
    for _ in range(40):
        product(pen, 600)
        begun, until = pen.host, max(pen.host, pen.gpu_free) + 4000
        pen.row(category, name, begun, until - begun, 77, 77, correlation=0)
        pen.host = until
    return pen


@pytest.mark.parametrize("name", WAITING)
def test_a_call_that_blocks_is_synchronisation_whoever_made_it(tmp_path, name):
    one = found(tmp_path, waits(name))
    assert (one.cause, one.evidence[0].what) == ("synchronisation", name)
    assert one.confidence > 0.8


@pytest.mark.parametrize("category", ["cuda_runtime", "npu_runtime", "privateuse1_driver"])
def test_a_call_that_nobody_knows_is_named_and_less_sure(tmp_path, category):
    one = found(tmp_path, waits("acceleratorAwaitAll", category))
    assert one.evidence[0].what == "acceleratorAwaitAll"
    assert "call" in one.cannot_tell
    assert one.confidence < found(tmp_path, waits("cudaDeviceSynchronize")).confidence - 0.2


def holds(name, category="cuda_runtime", times=40, lasted=4000.0):
    """The host does something that has a name while nothing is queued."""
    pen = Pen()
    pen.row("cuda_runtime", "cudaGetDeviceCount", pen.host - 5, 2, 77, 77)
    product(pen, 600)
    for _ in range(times):
        pen.host = max(pen.host, pen.gpu_free + 20)
        pen.row(category, name, pen.host, lasted, 77, 77)
        pen.host += lasted + 5
        product(pen, 600)
    return pen


@pytest.mark.parametrize(
    ("name", "category", "advice"),
    [
        ("hipFree", "cuda_runtime", "allocator"),
        ("cudaMalloc", "cuda_runtime", "allocator"),
        ("cuMemUnmap", "cuda_driver", "allocator"),
        ("zeMemAllocDevice", "xpu_runtime", "allocator"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "cpu_op", "loader"),
        ("Python GC", "user_annotation", "collection"),
        ("trainer.py(7): save_checkpoint", "python_function", "checkpoint"),
        ("torch/_dynamo/convert_frame.py(9): compile", "python_function", "compilation"),
        ("some_vendor_call", "cuda_runtime", "host-bound"),
    ],
)
def test_the_advice_fits_what_the_host_does(tmp_path, name, category, advice):
    one = found(tmp_path, holds(name, category))
    assert (one.cause, one.advice, one.evidence[0].what) == ("host-bound", advice, name)


@pytest.mark.parametrize("name", ["cuModuleLoadData", "cudaLaunchKernel", "hipModuleLoad"])
def test_what_a_program_does_once_is_a_cold_start(tmp_path, name):
    one = found(tmp_path, holds(name, times=1, lasted=900_000.0))
    assert (one.cause, one.advice) == ("host-bound", "start")


def test_the_advice_fits_what_is_slow(tmp_path):
    misaligned = found(tmp_path, others.drawn(others.misaligned, 0.4))
    layout = found(tmp_path, others.drawn(others.strided, 0.4))
    assert (misaligned.advice, layout.advice) == ("misaligned", "strided")
    pen = Pen()
    for i in range(60):  # no cause has much of it, and all is recorded
        product(pen, 120 + 4 * (i % 7))
    spread = found(tmp_path, pen)
    assert (spread.cause, spread.cannot_tell, spread.advice) == ("unknown", (), "spread")
    # Without the chip's name all else is recorded: nothing asks for it once more.
    assert found(tmp_path, pen.trace() | {"deviceProperties": []}).advice == "operators"


def test_the_first_call_of_all_creates_a_context_whatever_its_name(tmp_path):
    pen = Pen()
    pen.row("cuda_runtime", "cudaDeviceSynchronize", pen.host - 10, 5, 77, 77)
    pen.row("cuda_runtime", "cudaFree", pen.host - 20, 1_500_000, 78, 78)
    pen.host += 1_500_000
    for _ in range(10):
        product(pen)
    assert found(tmp_path, pen).advice == "start"


def test_activation_checkpointing_is_no_saving():
    assert names.host_work("torch/utils/checkpoint.py(451): checkpoint") == ""
    assert names.host_work("torch/_dynamo/eval_frame.py(3): _fn") == ""


def test_every_call_of_the_table_has_one_behaviour_and_a_source():
    rows = names.rows_of("calls")
    assert {row["does"] for row in rows} == {
        "waits", "copies", "allocates", "launches", "starts", "returns"
    }  # fmt: skip
    assert {"CUDA", "HIP", "XPU", "MTIA"} == {row["runtime"] for row in rows}
    assert all(row["source"].startswith("https://") for row in rows)
    assert names.call("cudaMallocAsync") == names.call("hipFreeAsync") == "returns"
    assert names.call("cudaLaunchKernelExC_v11060") == names.call("hipGraphLaunch") == "launches"
    assert names.call("somethingElse") == ""


def account(**lost):
    one = Account(1.0, busy=0.6)
    for cause, seconds in lost.items():
        one.add(cause.replace("_", "-"), seconds, "aten::mm")
    return one


@pytest.mark.parametrize("format_", [0.2, 0.28])
def test_parts_of_one_loss_compete_as_a_whole(format_):
    idle = account(host_bound=0.2, launch_bound=0.1, wrong_format=format_)
    assert _root_cause(idle, 1.0)[1] == "host-bound"
    ranks = account(exposed_collectives=0.16, load_imbalance=0.14, wrong_format=format_)
    assert _root_cause(ranks, 1.0)[1] == "exposed-collectives"


def test_the_surer_the_more_of_a_loss_one_part_is():
    even = _root_cause(account(host_bound=0.25, launch_bound=0.24), 1.0)[2]
    most = _root_cause(account(host_bound=0.44, launch_bound=0.05), 1.0)[2]
    assert even < most


def test_one_rank_alone_is_asked_and_several_files_are_said(tmp_path):
    alone = Pen()
    others.imbalance(alone)
    one = found(tmp_path, alone)
    assert one.confidence < 0.5
    assert "ranks" in one.cannot_tell
    whole = others.ranks()
    files = []
    for rank in range(4):
        mine = [row for row in whole["traceEvents"] if row["pid"] in (77 + 10 * rank, rank)]
        shift = 1e9 * rank  # no two machines have one clock
        rows = [{**row, "ts": row["ts"] + shift, "pid": row["pid"] % 7} for row in mine]
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps({**whole, "traceEvents": rows}))
    together = diagnosis.diagnose(files)
    assert (together.cause, together.devices) == ("load-imbalance", 4)
    assert together.confidence > 0.5
    assert "ranks" not in together.cannot_tell


def test_the_path_is_what_the_trace_answers():
    for cause in diagnosis.SEEDED[:-1]:
        one = diagnosis.diagnose(diagnosis.seeded(cause))
        answers = dict(one.path)
        assert set(answers.values()) <= {"yes", "mostly", "no", "not-known"}
        assert answers["busy"] == (
            "yes" if one.busy >= 0.88 else "no" if one.busy < 0.5 else "mostly"
        )
        if not any(op.bound for op in one.operators):
            assert answers.get("near", "not-known") == "not-known"


def test_a_verdict_that_the_answers_contradict_is_only_asked(tmp_path):
    pen = Pen()
    for _ in range(40):  # large enough a share, on a device that does nothing most of the time
        product(pen, 120)
        pen.launch("aten::copy_", "direct_copy_kernel", 100, [[1 << 20], [1 << 20]])
        pen.gpu_free += 500
    one = found(tmp_path, pen)
    assert dict(one.path).get("busy", "no") == "no"
    assert one.cause in IDLE | {"unknown"} or one.confidence < 0.5


WITHOUT = {
    "gloo": [("user_annotation", "gloo:all_reduce", 2_100_000), ("cpu_op", "aten::add", 15)],
    "ranks": [("cpu_op", "c10d::allreduce_", 900), ("cpu_op", "aten::mm", 4000)],
    "lost": [("cuda_runtime", "cudaLaunchKernel", 5), ("cpu_op", "aten::mm", 20)],
    "mtia": [("mtia_runtime", "runGraph", 20_000), ("cpu_op", "aten::mm", 20)],
    "runtime alone": [("hip_runtime", "hipLaunchKernel", 20)],
}


@pytest.mark.parametrize("kind", WITHOUT)
def test_without_rows_of_a_device_nothing_is_said_of_it(tmp_path, kind):
    pen = Pen()
    for _ in range(20):
        for category, name, lasted in WITHOUT[kind]:
            pen.row(category, name, pen.host, lasted, 77, 77)
            pen.host += lasted + 300
    one = found(tmp_path, {"traceEvents": pen.rows})
    assert (one.cause, one.confidence, one.advice) == ("unknown", 0.0, "unknown")
    assert "device" in one.cannot_tell
    longest = max(WITHOUT[kind], key=lambda row: row[2])[1]
    assert one.evidence[0].what == longest


def aside(category, name):
    """Rows that are of no device, whatever they are called, over all of a trace."""

    def add(rows):
        last = rows[-1]["ts"] + rows[-1]["dur"]
        about = {"ph": "X", "pid": 0, "tid": 7, "ts": rows[0]["ts"], "dur": last - rows[0]["ts"]}
        return [*rows, {**about, "cat": category, "name": name, "args": {"stream": 7, "device": 0}}]

    return add


def spread(rows):
    """On several threads."""
    return [{**row, "tid": row["tid"] + i % 3} for i, row in enumerate(rows)]


OPERATORS_ALONE = {
    "bare": list,
    "annotated": aside("user_annotation", "forward"),
    "annotated on the device": aside("gpu_user_annotation", "forward"),
    "named after a kernel": aside("user_annotation", "ampere_bf16_s16816gemm_bf16_128x128"),
    "a step": aside("user_annotation", "ProfilerStep#3"),
    "python": aside("python_function", "train.py(3): step"),
    "flow": aside("ac2g", "ac2g"),
    "overhead": aside("overhead", "CUDA profile buffer"),
    "threads": spread,
    "on a device's lane": lambda rows: [
        {**row, "pid": 0, "tid": 7, "args": {**row.get("args", {}), "device": 0, "stream": 7}}
        for row in rows
    ],
    "begun and ended": lambda rows: [
        {**row, "ph": ph, "ts": at}
        for row in rows
        for ph, at in (("B", row["ts"]), ("E", row["ts"] + row["dur"]))
    ],
}


@pytest.mark.parametrize("kind", OPERATORS_ALONE)
@pytest.mark.parametrize("maker", ["launch_bound", "copies_cat", "opaque"])
def test_operators_alone_are_never_surely_launch_bound(tmp_path, maker, kind):
    """They may be the half of a program that launches what a device does."""
    trace = others.drawn(MAKERS[maker][1], 0.4)
    rows = [row for row in trace["traceEvents"] if row["cat"] == "cpu_op"]
    rows = OPERATORS_ALONE[kind](sorted(rows, key=lambda row: row["ts"]))
    one = found(tmp_path, {"traceEvents": rows})
    assert one.cause != "launch-bound" or one.confidence < 0.5
    assert {"cpu", "device"} & set(one.cannot_tell)
    # Where the file says that there is a device, nothing is said of it at all.
    one = found(tmp_path, trace | {"traceEvents": rows})
    assert (one.cause, one.confidence) == ("unknown", 0.0)


A100 = {"numSms": 108, "totalGlobalMem": 42_297_786_368}


@pytest.mark.parametrize(
    ("about", "chip", "like"),
    [
        ({"name": "NVIDIA A100-PG509-200", **A100}, "a100-sxm-40", set()),
        ({"name": "NVIDIA A100-PG509-200", **A100, "totalGlobalMem": 85e9}, "a100-sxm-80", set()),
        ({"name": "NVIDIA A100-PG509-200", **A100, "numSms": 98}, None, {"a100-sxm-40"}),
        ({"name": "NVIDIA A100-PG509-200"}, None, {"a100-sxm-40", "a100-sxm-80"}),
        ({"name": "NVIDIA A100-PG509-200", "numSms": 108}, None, {"a100-sxm-40", "a100-sxm-80"}),
        ({"name": "NVIDIA A100-SXM4-80GB", **A100}, "a100-sxm-40", set()),
        ({"name": "NVIDIA A100-SXM4-80GB"}, "a100-sxm-80", set()),
        ({"name": "Some accelerator", **A100}, None, set()),
        ({"name": "", **A100}, None, {"a100-sxm-40"}),
        ({"name": ""}, None, set()),
    ],
)
def test_a_chip_is_never_guessed(tmp_path, about, chip, like):
    pen = Pen()
    for _ in range(10):
        product(pen)
    trace = pen.trace() | {"deviceProperties": [about]}
    one = found(tmp_path, trace)
    assert one.chip == chip
    assert like <= set(one.like)
    assert bool(one.like) == bool(like)
    assert ("chip" in one.cannot_tell) is (chip is None)


def test_what_stands_before_the_events_may_be_as_long_as_it_likes(tmp_path):
    pen = Pen()
    for _ in range(10):
        product(pen)
    plain = pen.trace()
    before = {"note": 'x\\" ]}' * 4_000_000, "rows": [{"a": [1, '"']}] * 3, "n": 3}
    assert found(tmp_path, before | plain) == found(tmp_path, plain)


@pytest.mark.parametrize("pack", [gzip.compress, import_module(ZSTD).compress])
def test_packed_files_are_read_and_cut_ones_are_named(tmp_path, pack):
    whole = json.dumps(others.ranks()).encode()
    file = tmp_path / "trace.json"
    file.write_bytes(whole)
    plain = diagnosis.diagnose(file)
    file.write_bytes(pack(whole))
    assert diagnosis.diagnose(file) == plain
    file.write_bytes(pack(whole)[:-200])
    with pytest.raises(CourseError, match="is cut off inside its compression"):
        diagnosis.diagnose(file)


def test_several_files_are_of_ranks_with_a_device(tmp_path):
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps([{**row, "ph": "X"} for row in holds("x").rows if row["pid"] == 77]))
    with pytest.raises(CourseError, match=r"bare\.json holds no rows of a device"):
        diagnosis.diagnose([diagnosis.seeded("copies"), bare])
    with pytest.raises(CourseError, match="holds no trace"):
        diagnosis.diagnose([])


@pytest.mark.parametrize("each", [61, pytest.param(29, marks=pytest.mark.exhaustive)])
def test_causes_that_are_stated_are_right_as_often_as_said(each):
    for least, (count, right) in others.confidences(others.known_causes(each)).items():
        assert right >= least * count


@pytest.mark.parametrize("name", ["matmul_k", "void my_sgemm"])
def test_a_kernel_of_somebodys_own_is_not_surely_of_the_wrong_format(tmp_path, name):
    for kernel, sure in (
        (f"{name}(float*, float const*, int)", False),
        ("volta_sgemm_64x64_tn", True),
    ):
        pen = Pen(gpu="NVIDIA A100-SXM4-80GB", shapes=False)
        for _ in range(50):
            pen.launch("my::op", kernel, 2000)
        one = found(tmp_path, pen)
        assert one.cause == "wrong-format"
        assert (one.confidence >= 0.5) == sure


@pytest.mark.parametrize("many", [1, 40])
def test_one_long_launch_is_not_surely_many_small_ones(tmp_path, many):
    pen = Pen()
    pen.launch("aten::mm", GEMM, 20, [[64, 64]] * 2)
    for _ in range(many):
        pen.launch("aten::mm", GEMM, 20, [[64, 64]] * 2, cpu=130.0)
    one = found(tmp_path, pen)
    assert one.cause == "launch-bound"
    assert (one.confidence >= 0.5) == (many > 1)


def test_files_that_name_their_ranks_are_of_ranks(tmp_path):
    paths = [tmp_path / f"{rank}.json" for rank in range(2)]
    for ranks in ((0, 1), (0, 0)):
        for path, rank in zip(paths, ranks, strict=True):
            pen = Pen()
            product(pen)
            path.write_text(json.dumps(pen.trace(distributedInfo={"rank": rank})))
        assert diagnosis.of_ranks(paths) == (ranks == (0, 1))


@pytest.mark.parametrize("name", ["moe_permute_kernel<T>", "permuteInputRowsKernel<T>"])
def test_tokens_that_are_sorted_by_expert_are_gathered_not_laid_out_anew(name):
    assert names.kernel(name)[0] == "gather"
    assert names.kernel("permute_0213<T>")[0] == "layout"


def test_a_name_alone_is_no_sure_sign_of_a_layout(tmp_path):
    pen = Pen(shapes=False)
    for _ in range(50):
        pen.launch("my::op", "transpose_lookup(float const*, float*, int)", 900)
    assert found(tmp_path, pen).confidence < 0.5


@pytest.mark.parametrize("late", [0.0, 0.6])
def test_numbers_of_calls_in_place_of_operators_name_no_operator(tmp_path, late):
    # Some versions of Kineto do so: whatever operator has that number launched nothing.
    pen, seen = Pen(), Pen()
    for one, other in ((pen, "aten::view"), (seen, "aten::view")):
        for _ in range(20):
            one.launch("aten::mm", GEMM, 800, [[2048, 2048]] * 2)
            one.row("cpu_op", other, one.host, 4.0, 77, 77, **{"External id": 5000 + one.n})
            one.host += 10
    for row in pen.rows:
        row["ts"] += late  # the two clocks' fractions
        if row["cat"] == "kernel":
            row["args"]["External id"] += 5000
    one = found(tmp_path, pen)
    assert [of.name for of in one.operators] == ["aten::mm"]
    assert one.operators[0].bytes == found(tmp_path, seen).operators[0].bytes


@pytest.mark.parametrize("many", [1, 40])
@pytest.mark.parametrize("device", [True, False])
def test_one_hole_without_a_row_is_not_surely_the_hosts_loss(tmp_path, many, device):
    pen = Pen()
    for _ in range(many + 1):
        product(pen, 600.0, cpu=12.0 if device else 600.0)
        pen.host = max(pen.host, pen.gpu_free) + 20_000.0
    if not device:
        pen.rows = [row for row in pen.rows if row["cat"] == "cpu_op"]
    one = found(tmp_path, pen.trace() if device else {"traceEvents": pen.rows})
    assert (one.cause, one.advice) == ("host-bound", "silent")
    assert (one.confidence >= 0.6) == (many > 1)


@pytest.mark.parametrize("even", [True, False])
def test_who_waits_for_a_rank_with_as_much_work_is_told_that_its_host_is_late(tmp_path, even):
    paths = [tmp_path / f"{rank}.json" for rank in range(4)]
    pens = [Pen(rank) for rank in range(4)]
    for step in range(20):
        for rank, pen in enumerate(pens):
            if even and rank == step % 2:
                pen.host = max(pen.host, pen.gpu_free) + 6_000.0
            for _ in range(4 if rank == 1 and not even else 1):
                pen.gemm(8192, 8192, 4096)
        end = max(pen.gpu_free for pen in pens) + 90
        for pen in pens:
            pen.launch("nccl:all_reduce", others.NCCL, end - pen.gpu_free)
    for path, pen in zip(paths, pens, strict=True):
        path.write_text(json.dumps(pen.trace()))
    one = diagnosis.diagnose(paths)
    assert one.cause == ("host-bound" if even else "load-imbalance")
    assert one.advice == ("late" if even else "load-imbalance")


@pytest.mark.parametrize("late", [0.0, 500.0, 2_000.0])
def test_a_late_host_is_blamed_for_no_more_than_it_was_late(tmp_path, late):
    """Ranks with as much work in all, which falls on another one in each step."""
    pens, paths, steps = [Pen(rank) for rank in range(2)], [], 20
    for step in range(steps):
        for rank, pen in enumerate(pens):
            if rank == step % 2:
                pen.host = max(pen.host, pen.gpu_free) + late
            for _ in range(4 if rank == step % 2 else 1):
                pen.gemm(8192, 8192, 4096)
        end = max(pen.gpu_free for pen in pens) + 90
        for pen in pens:
            pen.launch("nccl:all_reduce", others.NCCL, end - pen.gpu_free)
    for rank, pen in enumerate(pens):
        paths.append(tmp_path / f"{rank}.json")
        paths[-1].write_text(json.dumps(pen.trace()))
    one = diagnosis.diagnose(paths)
    lost = dict(one.alternatives) | {one.cause: one.share}
    # Its own device waits for it, and then the other one as long.
    assert lost.get("host-bound", 0.0) * one.window == pytest.approx(steps * late * 1e-6, abs=2e-3)
    more = 3 * 2 * 8192 * 8192 * 4096 / pens[0].peak / 0.75  # for which one of two devices waits
    assert lost["load-imbalance"] * one.window == pytest.approx(steps * more / 2, rel=0.05)


@pytest.mark.parametrize("tpu", [False, True])
@pytest.mark.parametrize("name", ["launch_bound", "host_bound_quiet", "synchronisation", "copies"])
def test_a_trace_of_jax_is_read_as_one_of_torch(tmp_path, name, tpu):
    (cause, make), pen = MAKERS[name], Pen()
    make(pen)
    one = found(tmp_path, others.of_jax(pen, tpu))
    assert one.cause == cause
    assert "jax-shapes" in one.cannot_tell


@pytest.mark.parametrize("kernel", ["(anonymous namespace)::mine", "at::native::<unnamed>::mine"])
def test_a_kernel_of_a_namespace_without_a_name_has_one(tmp_path, kernel):
    pen = Pen(shapes=False)
    for _ in range(20):
        pen.launch("my::op", f"void {kernel}<(int)4, float>(float*, int)", 900)
    pen.rows = [row for row in pen.rows if row["cat"] != "cpu_op"]
    assert [of.name for of in found(tmp_path, pen).operators] == ["mine"]


def test_a_name_without_an_end_leaves_room_in_a_table(tmp_path):
    pen = Pen(shapes=False)
    for _ in range(20):
        pen.launch("my::op", "Cijk_Alik_Bljk_" * 40, 900)
    pen.rows = [row for row in pen.rows if row["cat"] != "cpu_op"]
    assert len(found(tmp_path, pen).operators[0].name) <= 80


def test_a_database_of_another_profiler_is_named(tmp_path):
    file = tmp_path / "1_results.db"
    with closing(sqlite3.connect(file)) as base:
        base.execute("CREATE TABLE rocpd_kernel_dispatch_1 (id INTEGER)")
    with pytest.raises(CourseError, match=r"rocprofv3.*torch\.profiler"):
        diagnosis.diagnose(file)


def test_a_gap_under_functions_of_python_is_named_by_the_innermost_of_the_program(tmp_path):
    pen = Pen()
    for _ in range(6):
        began = pen.host
        pen.gemm(2048, 2048, 2048)
        pen.host = max(pen.host, pen.gpu_free) + 4_000.0
        for i, name in enumerate(
            ("threading.py(9): run", "s.py(1): main", "s.py(5): load", "torch/a.py(2): get")
        ):
            pen.row("python_function", name, began + i, pen.host - began - 2 * i, 77, 77)
    one = found(tmp_path, pen.trace())
    assert (one.cause, one.evidence[0].what) == ("host-bound", "s.py(5): load")
    assert one.advice == "function"


def test_a_function_between_operators_of_a_cpu_alone_has_its_name(tmp_path):
    pen = Pen()
    for step in range(6):
        began = 20_000.0 * step
        pen.row("python_function", "s.py(5): load", began, 18_000.0, 77, 77)
        pen.row("cpu_op", "aten::mm", began + 18_500.0, 1_000.0, 77, 77)
    one = found(tmp_path, pen.trace() | {"deviceProperties": []})
    assert (one.cause, one.evidence[0].what) == ("host-bound", "s.py(5): load")


@pytest.mark.parametrize("part", [0.1, 0.45, 0.55, 0.9])
@pytest.mark.parametrize("device", [True, False])
def test_a_function_names_the_gaps_of_which_it_takes_more_than_half(tmp_path, device, part):
    pen = Pen()
    for _ in range(6):
        product(pen, 600.0, cpu=12.0 if device else 600.0)
        began = max(pen.host, pen.gpu_free) if device else pen.host
        pen.host = began + 4_000.0
        pen.row("python_function", "s.py(1): main", began - 5, 4_010.0, 77, 77)
        pen.row("python_function", "s.py(5): load", began + 5, part * 4_000.0, 77, 77)
    product(pen, 600.0)
    if not device:
        pen.rows = [row for row in pen.rows if row["cat"] in ("cpu_op", "python_function")]
    one = found(tmp_path, pen.trace() if device else pen.trace() | {"deviceProperties": []})
    assert one.cause == "host-bound"
    assert one.evidence[0].what == ("s.py(5): load" if part > 0.5 else "s.py(1): main")


def test_gaps_of_a_cpu_are_named_by_what_runs_in_those_of_their_length(tmp_path):
    pen, took = Pen(), {"s.py(5): load": 40 * 2_000.0, "s.py(9): log": 40 * 180.0}
    for name, lasts in took.items():
        for _ in range(40):
            pen.row("cpu_op", "aten::mm", pen.host, 600.0, 77, 77)
            pen.row("python_function", name, pen.host + 600.0, lasts / 40, 77, 77)
            pen.host += 600.0 + lasts / 40
    pen.row("cpu_op", "aten::mm", pen.host, 600.0, 77, 77)
    one = found(tmp_path, pen.trace() | {"deviceProperties": []})
    said = {each.what: each.seconds for each in one.evidence}
    assert one.cause == "host-bound"
    assert said == pytest.approx({name: lasts * 1e-6 for name, lasts in took.items()})


def test_each_call_that_fills_a_gap_has_its_own_time(tmp_path):
    pen, took = Pen(), {"cudaFree": 30_000.0, "cudaMalloc": 20_000.0}
    pen.gemm(512, 512, 512)
    pen.host = max(pen.host, pen.gpu_free)
    for name, lasts in took.items():
        pen.row("cuda_runtime", name, pen.host, lasts, 77, 77)
        pen.host += lasts
    pen.host += 10_000.0  # no row says what
    pen.gemm(512, 512, 512)
    said = {one.what: one for one in found(tmp_path, pen.trace()).evidence}
    for name, lasts in took.items():
        assert said[name].seconds == pytest.approx(lasts * 1e-6, rel=0.02)
        assert said[name].rows == 1  # its own, not all gaps once more


def test_operators_of_a_machine_without_a_device_compute_on_its_cpu(tmp_path):
    """Kineto lists the devices that it found: where there are none, nothing is hidden on one."""
    pen = Pen()
    for _ in range(40):
        pen.row("cpu_op", "enumerate(DataLoader)#__next__", pen.host, 5_000.0, 77, 77)
        pen.row("cpu_op", "aten::relu", pen.host + 5_000.0, 8.0, 77, 77)
        pen.host += 5_020.0
    trace = pen.trace()
    listed, silent = (found(tmp_path, trace | {"deviceProperties": of}) for of in ([], None))
    assert listed.cause == silent.cause == "host-bound"
    # What is pinned is copied to a device: that helps where there may be one.
    assert (listed.advice, silent.advice) == ("loader-cpu", "loader")
    assert listed.cannot_tell == ("shapes", "processor")
    assert listed.confidence > 0.8
    assert "cpu" in silent.cannot_tell
    assert silent.confidence < 0.5


@pytest.mark.parametrize("dtype", ["float", "c10::BFloat16"])
def test_large_products_of_a_cpu_are_at_no_bound_that_is_known(tmp_path, dtype):
    pen = Pen()
    given = {"Input Dims": [[1024, 1024]] * 2, "Input type": [dtype] * 2}
    for _ in range(30):
        pen.row("cpu_op", "aten::mm", pen.host, 20_000.0, 77, 77, **given)
        pen.host += 20_010.0
    one = found(tmp_path, pen.trace() | {"deviceProperties": []})
    assert (one.cause, one.advice) == ("at-roof", "operators")
    assert one.confidence < 0.5
    said = dict(one.path)
    assert {said[key] for key in ("near", "memory", "fast-unit")} == {"not-known"}
    assert "chip" not in one.cannot_tell  # the spec table has none to name


def test_advice_for_a_gap_without_a_row_asks_for_what_is_not_there():
    for lang in ("en", "es", "ko"):
        assert "with_stack=True" in words(lang)["advice-silent"]
        assert "ProfilerActivity.CPU" not in words(lang)["advice-silent"]


@pytest.mark.parametrize("beside", [True, False])
def test_a_kernel_of_few_blocks_wastes_nothing_while_another_fills_the_rest(tmp_path, beside):
    pen = Pen(shapes=False)
    for _ in range(40):
        pen.launch("my::few", "void few_blocks(float*)", 900, grid=(20, 1, 1))
        row = pen.rows[-1]
        if beside:
            args = row["args"] | {"stream": 9, "grid": [528, 1, 1], "correlation": -1}
            pen.rows.append(row | {"name": GEMM, "tid": 9, "args": args})
    one = found(tmp_path, pen)
    assert (one.cause == "ragged-waves") is not beside
    assert not beside or dict(one.alternatives).get("ragged-waves", 0.0) < 0.05


@pytest.mark.parametrize("inner", ["internode::dispatch<false, 8>", "intranode::combine<8>"])
def test_an_exchange_of_experts_is_a_collective_whatever_its_library(inner):
    for room in ("deep_ep", "other::ep"):
        assert names.kernel(f"void {room}::{inner}(int4*, float*)")[0] == "collective"


@pytest.mark.parametrize("dropped", [True, False])
def test_idle_time_beside_a_full_queue_is_not_surely_the_hosts(tmp_path, dropped):
    pen = Pen()
    for _ in range(30):
        for _ in range(6):
            product(pen)
        pen.host = max(pen.host, pen.gpu_free) + 2_000.0  # the device runs dry for a while
    if dropped:  # a sample keeps the first rows of each stretch and the last
        rows = [row for row in pen.rows if row["cat"] == "kernel"]
        gone = {id(row) for i, row in enumerate(rows) if i % 6 in (2, 3, 4)}
        pen.rows = [row for row in pen.rows if id(row) not in gone]
    one = found(tmp_path, pen)
    assert one.cause in IDLE
    assert (one.confidence < 0.5) is dropped


def test_a_trace_of_rocprof_is_read_by_its_processes(tmp_path):
    rows = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in ((2, "CPU HIP API"), (1, "COPY"), (6, "GPU0"), (7, "GPU1"))
    ]

    def put(name, pid, at, dur, **args):
        args |= {"dev-id": "4", "stream-id": str(pid)} if pid != 2 else {}
        row = {"ph": "X", "name": name, "pid": str(pid), "tid": "1", "args": args}
        rows.append(row | {"ts": str(at), "dur": str(dur)})

    for at in range(0, 200_000, 20_000):
        put("hipMemcpy", 2, at, 15_000)
        put("CopyHostToDevice", 1, at + 500, 14_000)
        put("hipLaunchKernel", 2, at + 15_100, 8)
        put("vector_add(float*, float*)", 7, at + 15_200, 4_000)
    one = found(tmp_path, {"traceEvents": rows})
    assert (one.cause, one.evidence[0].what, one.devices) == ("copies", "CopyHostToDevice", 1)


def test_a_host_without_a_row_near_short_gaps_launches_nothing(tmp_path):
    pen = Pen(shapes=False)
    pen.launch("my::add", "void add(float*)", 900)
    for _ in range(80):  # what moves as the host touches it, which no call asks for
        args = {"device": 0, "stream": 7, "bytes": 65_536}
        pen.row("gpu_memcpy", "Memcpy HtoD", pen.gpu_free + 90, 10, 0, 7, **args)
        pen.gpu_free += 100
    one = found(tmp_path, pen)
    assert (one.cause, one.evidence[0].what) == ("host-bound", "host (no row)")
