"""What Nsight Systems and Nsight Compute wrote: the same causes, and none that it does not show."""

import json
import sqlite3
import tempfile
from contextlib import suppress
from math import prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import CourseError
from course_tools import diagnosis
from course_tools.diagnosis.differences import compare
from course_tools.diagnosis.ncu import CAUSES, SECTIONS, read_counters
from course_tools.diagnosis.reading.names import bare
from course_tools.diagnosis.reading.tables import read_tables, scale, source
from course_tools.diagnosis.sums import read_sums
from tests.course_tools.diagnosis.nsight import ACTIVE, ELAPSED, details, export, raw, seeded
from tests.course_tools.diagnosis.test_verdicts import drawn
from tests.each import each

ON_GPU = ("launch-bound", "synchronisation", "copies", "ragged-waves", "exposed-collectives", "load-imbalance")  # fmt: skip


@pytest.mark.parametrize("cause", ON_GPU)
def test_an_export_of_nsys_shows_the_cause_that_the_trace_does(cause, tmp_path):
    file, trace = export(seeded(cause), tmp_path / "no matter"), diagnosis.seeded(cause)
    found, known = diagnosis.diagnose(file), diagnosis.diagnose(trace)
    assert found.cause == cause
    assert found.window == pytest.approx(known.window, rel=1e-6)
    assert (found.busy, found.devices) == (pytest.approx(known.busy, rel=1e-3), known.devices)
    assert found.chip == known.chip
    assert "nsys-shapes" in found.cannot_tell


@pytest.mark.parametrize("calls", [True, False])
def test_an_export_of_calls_alone_asks_for_a_newer_nsys(tmp_path, calls):
    file = tmp_path / "calls.sqlite"
    without = ["CUPTI_ACTIVITY_KIND_KERNEL", *(() if calls else ["CUPTI_ACTIVITY_KIND_RUNTIME"])]
    export(seeded("copies"), file, without=without)
    with pytest.raises(CourseError, match="no row in CUPTI_ACTIVITY_KIND_KERNEL") as said:
        diagnosis.diagnose(file)
    assert ("as new as the driver" in str(said.value)) == calls


def test_a_graph_in_one_row_is_not_judged(tmp_path):
    file = tmp_path / "graph.sqlite"
    export(seeded("copies"), file, without=["CUPTI_ACTIVITY_KIND_KERNEL"])
    base = sqlite3.connect(file)
    base.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, correlationId)")  # fmt: skip
    base.execute("DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY")
    base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1e9, 1.5e9, 0, 7, 3)")
    base.commit()
    base.close()
    found = diagnosis.diagnose(file)
    assert found.cause == "unknown"
    assert "nsys-graph" in found.cannot_tell


def test_an_export_without_calls_or_ranges_is_read_and_says_what_it_lacks(tmp_path):
    lacking = ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "TARGET_INFO_GPU")
    found = diagnosis.diagnose(export(seeded("copies"), tmp_path / "few.sqlite", without=lacking))
    assert found.cause == "copies"
    assert {"nsys-host", "chip"} <= set(found.cannot_tell)


def test_steps_that_a_program_marks_are_steps(tmp_path):
    trace = drawn("copies", 0.1)
    first = min(one["ts"] for one in trace["traceEvents"])
    last = max(one["ts"] + one["dur"] for one in trace["traceEvents"] if one.get("dur"))
    middle = (first + last) / 2
    for name, ts, end in (("step 1", first, middle), ("Training step 2", middle, last)):
        trace["traceEvents"].append(
            {"ph": "X", "cat": "user_annotation", "name": name, "ts": ts, "dur": end - ts}
        )
    file = export(trace, tmp_path / "steps.sqlite")
    assert compare(file, file).steps == (2, 2)


def refused(file, read=diagnosis.diagnose):
    with pytest.raises(CourseError) as said:
        read(file)
    return str(said.value)


def test_a_database_that_is_no_export_is_refused_with_the_remedy(tmp_path):
    foreign, empty, half = (tmp_path / name for name in ("foreign", "empty", "half"))
    base = sqlite3.connect(foreign)
    base.execute("CREATE TABLE moz_places (url)")
    base.commit()
    assert "tables: 'moz_places'" in refused(foreign)
    export({"traceEvents": []}, empty)
    assert "nsys profile --trace=cuda" in refused(empty)
    whole = export(seeded("copies"), tmp_path / "whole").read_bytes()
    half.write_bytes(whole[: len(whole) // 2])
    assert "export the report again" in refused(half)
    locked = export(seeded("copies"), tmp_path / "locked")
    holder = sqlite3.connect(locked, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert "is in use by another program" in refused(locked)
    holder.close()


@pytest.mark.parametrize("name", ["a.nsys-rep", "a.qdrep", "a.ncu-rep"])
def test_a_report_that_only_nsight_reads_names_the_command_that_exports_it(name, tmp_path):
    assert ("ncu --csv" if "ncu" in name else "nsys export") in refused(tmp_path / name)


TRACE = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,Bytes (MB),Device,Ctx,Strm,Name"
CALLS = "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid"


def test_traces_in_csv_have_a_timeline(tmp_path):
    gpu = "NVIDIA A100-SXM4-80GB (0)"
    rows = [f'{i}000000,400000,{i},64,1,1,,"{gpu}",1,7,"add(int, float *)"' for i in range(1, 40)]
    copy = f"40000000,9000000,99,,,,4.194,{gpu},1,7,[CUDA memcpy Host-to-Device]"
    calls = [f"{i}000000,5000,cudaLaunchKernel_v7000,0,{i},9,9" for i in range(1, 40)]
    text = [f"Processing [x] with [cuda_gpu_trace.py]...\n{TRACE}", *rows, copy, "", CALLS, *calls]
    file = tmp_path / "trace.csv"
    file.write_text("\n".join(text) + "\n")
    found = diagnosis.diagnose(file)
    assert found.window == pytest.approx(48e-3)
    assert found.busy == pytest.approx((39 * 0.4 + 9) / 48, rel=1e-6)
    assert found.chip == "a100-sxm-80"
    assert {one.name: one.calls for one in found.operators} == {
        "add": 39,
        "[CUDA memcpy Host-to-Device]": 1,
    }
    assert next(one.bytes for one in found.operators if one.calls == 1) == 4.194e6
    file.write_text("\n".join([CALLS, *calls]) + "\n")
    assert "cuda_gpu_trace" in refused(file)


SUMS = """Generating SQLite file
Time (%),Total Time ({unit}),Instances,Avg ({unit}),Name
80.0,"8,000",4,2000,"void add<float>(int, float *)"
20.0,2000,4,500,"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)"

Time (%),Total Time ({unit}),Num Calls,Avg ({unit}),Name
90.0,900,9,100,pthread_cond_wait

Time (%),Total Time ({unit}),Num Calls,Avg ({unit}),Name
100.0,300,3,100,cudaLaunchKernel
"""


@pytest.mark.parametrize(("unit", "si"), [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)])
def test_sums_are_read_in_the_unit_of_their_column(unit, si, tmp_path):
    file = tmp_path / "sums.txt"
    file.write_text(SUMS.format(unit=unit))
    found = read_sums(file)
    assert [one.seconds for one in found["kernel"]] == pytest.approx([8000 * si, 2000 * si])
    assert [one.share for one in found["kernel"]] == pytest.approx([0.8, 0.2])
    assert [(one.name, one.calls) for one in found["cuda-call"]] == [("cudaLaunchKernel", 3)]
    assert "without a timeline" in refused(file)


def test_sums_of_the_operating_system_alone_are_refused_with_the_option(tmp_path):
    file = tmp_path / "os.csv"
    file.write_text("Time (%),Total Time (ns),Num Calls,Name\n99.0,12,3,poll\n")
    assert "nsys profile --trace=cuda" in refused(file, read_sums)


@each(
    ("unit", "si"),
    [
        *(("byte", 1), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9), ("Kbyte/block", 1e3)),
        *(("nsecond", 1e-9), ("usecond", 1e-6), ("msecond", 1e-3), ("second", 1), ("us", 1e-6)),
        *(("Gbyte/second", 1e9), ("Tbyte/s", 1e12), ("byte/nsecond", 1e9), ("Ghz", 1e9)),
        *(("cycle/second", 1), ("register/thread", 1), ("%", 1), ("", 1), ("inst", 1)),
    ],
)
def test_units_are_read_as_ncu_writes_them(unit, si):
    assert scale(unit) == pytest.approx(si)


def test_a_trace_that_speaks_of_kernels_is_a_trace(tmp_path):
    trace = seeded("copies") | {"note": ["Kernel Name", "Metric Name", "a__b.sum"]}
    file = tmp_path / "no.csv"
    for indent in (None, 1):
        file.write_text(json.dumps({"note": trace.pop("note", None), **trace}, indent=indent))
        assert source(file) == "trace"


def judged(tmp_path, text, encoding="utf-8"):
    file = tmp_path / "counters.log"
    file.write_text(text, encoding=encoding)
    return read_counters(file)


ADD = {
    "gpu__time_duration.sum": ("usecond", "1,205.50"),
    f"dram__throughput{ELAPSED}": ("%", "91.25"),
    f"lts__throughput{ELAPSED}": ("%", "40.00"),
    "dram__bytes_read.sum": ("Mbyte", "2,684.35"),
    "dram__bytes_write.sum": ("Gbyte", "1.34"),
}
LABELS = {
    "Duration": ("us", "1,205.50"),
    "DRAM Throughput": ("%", "91.25"),
    "L2 Cache Throughput": ("%", "40.00"),
    "dram__bytes_read.sum": ("byte", "2,684,350,000"),
    "dram__bytes_write.sum": ("Kbyte", "1,340,000"),
}
OLD = {
    "Duration": ("nsecond", "1205500"),
    "SOL FB": ("%", "91.25"),
    "SOL L2": ("%", "40.00"),
    "dram__bytes.sum": ("byte", "4024350000"),
}


@pytest.mark.parametrize(
    "page", [raw(("add", ADD)), details(("add", LABELS)), details(("add", OLD))]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_pages_units_and_versions_tell_the_same(page, encoding, tmp_path):
    text = f"==PROF== Connected\nloss 1.25, step 3\n{page}==PROF== Disconnected\n"
    (one,) = judged(tmp_path, text, encoding)
    assert (one.name, one.calls, one.cause, one.roof) == ("add", 1, "near-roof", "dram")
    assert one.seconds == pytest.approx(1.2055e-3)
    assert one.reached == pytest.approx(0.9125)
    assert one.bytes == pytest.approx(4.02435e9)


def test_numbers_with_a_decimal_comma_are_read_so(tmp_path):
    held = {
        name: (unit, value.replace(",", " ").replace(".", ",").replace(" ", "."))
        for name, (unit, value) in ADD.items()
    }
    (one,) = judged(tmp_path, raw(("add", held)))
    assert one.seconds == pytest.approx(1.2055e-3)
    assert one.reached == pytest.approx(0.9125)


def test_a_summary_has_averages_over_its_launches(tmp_path):
    text = (
        '"Process ID","Kernel Name","Invocations","Metric Name","Metric Unit","Minimum","Average"\n'
        '"1","a","20","Duration","us","1","3"\n"1","a","20","DRAM Throughput","%","5","70"\n'
    )
    (one,) = judged(tmp_path, text)
    assert (one.calls, one.roof) == (20, "dram")
    assert one.seconds == pytest.approx(60e-6)


def test_memory_throughput_is_dram_only_where_dram_is_busy(tmp_path):
    low = {"DRAM Throughput": ("%", "12"), "Memory Throughput": ("%", "94")}
    levels = {"L2 Cache Throughput": ("%", "31"), "L1/TEX Cache Throughput": ("%", "38")}
    (unknown,) = judged(tmp_path, details(("k", low)))
    (path,) = judged(tmp_path, details(("k", low | levels)))
    assert unknown.roof == "memory"
    assert (path.roof, path.reached) == ("l1", pytest.approx(0.94))
    busy = low | levels | {"DRAM Throughput": ("%", "94")}
    assert judged(tmp_path, details(("k", busy)))[0].roof == "dram"
    pipes = low | levels | {"Mem Pipes Busy": ("%", "94")}
    assert judged(tmp_path, details(("k", pipes)))[0].roof == "l1"
    no_dram = {"Memory Throughput": ("%", "94"), **levels}
    (one,) = judged(tmp_path, details(("k", no_dram)))
    assert one.roof == "memory"
    assert "dram" in one.lacks


BUSY = {"DRAM Throughput": ("%", "30"), "L1/TEX Cache Throughput": ("%", "85"), "Duration": ("us", "9")}  # fmt: skip
SLOW = {"DRAM Throughput": ("%", "20"), "L2 Cache Throughput": ("%", "25"), "Duration": ("us", "9")}
OCCUPANCY = {"Theoretical Occupancy": ("%", "25"), "One or More Eligible": ("%", "30")}
LIMITS = ("Registers", "Shared Mem", "Warps", "SM")
STALLS = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def limits(least):
    return {f"Block Limit {one}": ("block", "2" if one == least else "16") for one in LIMITS}


CASES = [
    ("near-roof", "k", BUSY, ()),
    ("uncoalesced", "k", BUSY | {"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": ("byte/sector", "4")}, ()),
    ("near-roof", "k", BUSY | {"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": ("byte/sector", "31")}, ()),
    ("uncoalesced", "k", BUSY | {"memory_l2_theoretical_sectors_global": ("sector", "1,000"), "derived__memory_l2_theoretical_sectors_global_excessive": ("sector", "750")}, ()),
    ("uncoalesced", "k", BUSY, [("UncoalescedGlobalAccess", "61.5")]),
    ("bank-conflicts", "k", BUSY, [("SharedMemoryConflicts", "40.1")]),
    ("bank-conflicts", "k", BUSY | {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": ("", "3,000"), "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("", "4,000")}, ()),
    ("near-roof", "k", BUSY | {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": ("", "3"), "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("", "4,000")}, ()),
    ("occupancy-registers", "k", SLOW | OCCUPANCY | limits("Registers"), ()),
    ("occupancy-shared", "k", SLOW | OCCUPANCY | limits("Shared Mem"), ()),
    ("occupancy-block", "k", SLOW | OCCUPANCY | limits("Warps"), ()),
    ("near-roof", "k", BUSY | OCCUPANCY | limits("Registers"), ()),
    ("launch-size", "k", SLOW | OCCUPANCY | limits("Registers") | {"Waves Per SM": ("", "0.06")}, ()),
    ("tail-wave", "k", SLOW | {"Waves Per SM": ("", "1.02")}, ()),
    ("unknown", "k", SLOW | {"Waves Per SM": ("", "1.97")}, ()),
    ("tensor-idle", "sgemm_128x128", SLOW | {f"sm__pipe_tensor_cycles_active{ACTIVE}": ("%", "0"), "Compute (SM) Throughput": ("%", "88")}, ()),
    ("near-roof", "sm90_gemm_bf16", SLOW | {f"sm__pipe_tensor_cycles_active{ACTIVE}": ("%", "86")}, ()),
    ("unknown", "sm90_gemm_bf16", SLOW | OCCUPANCY | limits("Shared Mem") | {f"sm__pipe_tensor_op_hmma_cycles_active{ACTIVE}": ("%", "45")}, ()),
    ("near-roof", "gemm_int8", SLOW | {f"sm__pipe_tensor_op_hmma_cycles_active{ACTIVE}": ("", "0"), f"sm__pipe_tensor_op_imma_cycles_active{ACTIVE}": ("", "81")}, ()),
    ("stalls", "k", SLOW | {STALLS.format("long_scoreboard"): ("inst", "9"), STALLS.format("selected"): ("inst", "1"), "Warp Cycles Per Issued Instruction": ("cycle", "12"), "One or More Eligible": ("%", "22")}, ()),
    ("near-roof", "k", SLOW | {STALLS.format("long_scoreboard"): ("inst", "3"), "Warp Cycles Per Issued Instruction": ("cycle", "12"), "One or More Eligible": ("%", "92")}, ()),
    ("stalls", "k", SLOW, [("CPIStall", "35")]),
]  # fmt: skip


@pytest.mark.parametrize(("cause", "name", "metrics", "rules"), CASES)
def test_counters_show_their_cause(cause, name, metrics, rules, tmp_path):
    (one,) = judged(tmp_path, details((name, metrics), rules=rules))
    assert one.cause == cause
    assert 0 <= one.lost <= 1
    assert (one.lost > 0) is (cause not in ("near-roof", "unknown"))
    assert cause in ("unknown", "near-roof") or one.evidence


@pytest.mark.parametrize(
    ("said", "cause"), [("0.7", "launch-size"), ("7.0", "occupancy-registers")]
)
def test_a_rule_says_how_many_waves_where_no_section_does(said, cause, tmp_path):
    kernel = ("k", SLOW | OCCUPANCY | limits("Registers"))
    text = details(kernel, rules=[("SOLBottleneck", "")])
    assert 'it says ""so""' in text
    said = f"too small, resulting in only {said} full waves across all SMs"
    (one,) = judged(tmp_path, text.replace('it says ""so""', said))
    assert one.cause == cause


def test_every_cause_of_counters_is_tried():
    assert {cause for cause, *_ in CASES} == set(CAUSES)


def test_what_is_not_recorded_is_said_by_the_section_that_has_it(tmp_path):
    (one,) = judged(tmp_path, details(("sgemm", SLOW)))
    assert set(one.lacks) == set(SECTIONS) - {"dram"}
    for lacking in ({"Duration": ("us", "9")}, {"launch__registers_per_thread": ("", "32")}):
        with pytest.raises(CourseError, match="ncu --set full"):
            judged(tmp_path, details(("k", lacking)))
    for columns, cells in (("", ""), (',"Metric Value"', ',"9"'), (',"Metric Unit"', ',"us"')):
        text = f'"ID","Kernel Name","Metric Name"{columns}\n"0","k","Duration"{cells}\n'
        with pytest.raises(CourseError, match="no column Metric Unit or Value"):
            judged(tmp_path, text)
    without = raw(("k", ADD)).splitlines(keepends=True)
    with pytest.raises(CourseError, match="no row of units"):
        judged(tmp_path, without[0] + without[2])
    (tmp_path / "said").write_text("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM\n")
    with pytest.raises(CourseError, match="ERR_NVGPUCTRPERM"):
        source(tmp_path / "said")
    with pytest.raises(CourseError, match="and no row"):
        judged(tmp_path, details(("k", SLOW)).partition("\n")[0] + "\n")


@given(st.integers(0, 10**6), st.sampled_from([raw, details]))
@settings(max_examples=60, deadline=None)
def test_a_table_that_is_cut_off_is_refused_or_read_up_to_a_whole_row(at, page):
    text = page(("add", ADD if page is raw else LABELS), ("mul", ADD if page is raw else LABELS))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cut"
        file.write_text(text[: at % len(text)])
        said, rows = "", 0
        try:
            rows = sum(len(one.rows) for one in read_tables(file))
        except CourseError as error:
            said = str(error)
    whole = [text[: i + 1] for i, mark in enumerate(text) if mark in '\n"']
    assert "cut off in line" in said or "no row" in said or text[: at % len(text)] in whole
    assert rows < text.count("\n")


def test_measured_bytes_stand_beside_those_that_a_trace_counts(tmp_path):
    trace = seeded("at-roof")
    product = next(one for one in trace["traceEvents"] if one.get("cat") == "kernel")
    held = {f"dram__throughput{ELAPSED}": ("%", "90"), "dram__bytes.sum": ("Gbyte", "1.5")}
    file = tmp_path / "raw.csv"
    file.write_text(raw((product["name"], held), ("nobody knows", held)))
    shapes = [
        one["args"]["Input Dims"]
        for one in trace["traceEvents"]
        if one.get("cat") == "cpu_op" and one["name"] == "aten::mm"
    ]
    moved = [2 * (prod(a) + prod(b) + a[0] * b[1]) for a, b in shapes]
    counted = sum(moved) / len(moved)
    found = {one.name: one for one in read_counters(file, diagnosis.seeded("at-roof"))}
    assert found["nobody knows"].ratio is None
    assert found[bare(product["name"])].counted == pytest.approx(counted)
    assert found[bare(product["name"])].ratio == pytest.approx(1.5e9 / counted)
    with pytest.raises(CourseError, match="record_shapes=True"):
        read_counters(file, export(trace, tmp_path / "without"))


@each("before", diagnosis.SEEDED)
def test_the_parts_of_a_difference_add_up_both_ways(before):
    one = diagnosis.seeded(before)
    for other in ("copies", "launch-bound", "load-imbalance"):
        two = diagnosis.seeded(other)
        found, back = compare(one, two), compare(two, one)
        assert sum(s for s in found.parts.values()) == pytest.approx(found.difference, abs=1e-12)
        for key, there in found.parts.items():
            assert there == pytest.approx(-back.parts[key], abs=1e-12), key
    windows = [diagnosis.diagnose(file).window for file in (one, two)]
    # A diagnosis leaves out what passes before a device is known to be idle.
    assert found.seconds == pytest.approx(windows, rel=5e-3)
    same = compare(one, one)
    assert same.difference == 0
    assert all(seconds == 0 for seconds in same.parts.values())


def test_each_part_has_its_own_change(tmp_path):
    def file(name, rows, gap=0.0):
        events, now = [], 0.0
        for kernel, lasted in rows:
            events.append({"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": now, "dur": lasted})  # fmt: skip
            now += lasted + gap
        (tmp_path / name).write_text(json.dumps(events))
        return tmp_path / name

    add, comm = "void add<float>(int)", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"
    base = file("base", [(add, 10), ("mul", 20), (comm, 5)])
    cases = {
        "own": [(add, 14), ("mul", 20), (comm, 5)],
        "launches": [(add, 10), (add, 10), ("mul", 20), (comm, 5)],
        "replaced": [(add, 10), ("fused", 25), (comm, 5)],
        "communication": [(add, 10), ("mul", 20), (comm, 11)],
    }
    for part, rows in cases.items():
        found = compare(base, file(part, rows))
        changed = {key: seconds for key, seconds in found.parts.items() if abs(seconds) > 1e-12}
        assert changed == {part: pytest.approx(found.difference)}
    idle = compare(base, file("idle", [(add, 10), ("mul", 20), (comm, 5)], gap=3))
    assert idle.parts["idle"] == pytest.approx(6e-6) == pytest.approx(idle.difference)
    twice = file("twice", [(add, 10), ("mul", 20), (comm, 5)] * 2)
    assert compare(base, twice, (1, 2)).difference == pytest.approx(0, abs=1e-15)
    with pytest.raises(CourseError, match="steps"):
        compare(base, twice, (1, 0))


def test_recordings_without_a_timeline_are_compared_among_themselves(tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    copies = "Time (%),Total Time (us),Count,Operation\n99.0,{},4,[CUDA memcpy Host-to-Device]\n"
    one.write_text(SUMS.format(unit="ns") + copies.format(0))
    two.write_text(SUMS.format(unit="ns").replace('"8,000"', '"9,000"') + copies.format(7))
    found = compare(one, two)
    assert not found.timed
    assert found.parts["own"] == pytest.approx(1e-6)
    assert found.parts["copies"] == pytest.approx(7e-6)
    assert found.difference == pytest.approx(8e-6)
    assert found.seconds[0] == pytest.approx(10e-6)
    with pytest.raises(CourseError, match=r"one\.csv has no timeline"):
        compare(one, diagnosis.seeded("copies"))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<c10::BFloat16>)", "vectorized_elementwise_kernel<CUDAFunctor_add>"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)", "vectorized_layer_norm_kernel"),
        ("triton_poi_fused_add_mul_3", "triton_poi_fused_add_mul"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long)", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64>(Params)", "Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64>"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_name_is_left_without_its_templates_noise(name, short):
    assert bare(name) == short


PAGES = [raw(("add", ADD)), details(("add", LABELS), rules=[("CPIStall", "35")]), SUMS.format(unit="us"), f'{TRACE}\n5,9,1,64,1,1,,"A (0)",1,7,add\n']  # fmt: skip


@given(
    st.sampled_from(PAGES),
    st.lists(st.tuples(st.integers(0), st.integers(0, 9), st.text('",\na1%-.', max_size=3))),
)
@settings(max_examples=150, deadline=None)
def test_what_is_spoiled_is_read_or_refused_and_nothing_else(page, changes):
    for number, length, more in changes:
        at = number % (len(page) + 1)
        page = page[:at] + more + page[at + length :]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spoiled"
        file.write_text(page)
        with suppress(CourseError):
            assert compare(file, file).difference == 0
            assert read_counters(file) if source(file) == "counters" else True


@pytest.mark.parametrize("value", [None, -1, 2**62, "x", 1.5, b"\xff\xfe"])
@pytest.mark.parametrize("column", ["start", "globalPid", "streamId", "correlationId", "gridX", "demangledName"])  # fmt: skip
def test_a_value_of_another_type_in_an_export_is_read_or_refused(value, column, tmp_path):
    file = export(seeded("ragged-waves"), tmp_path / "odd")
    base = sqlite3.connect(file)
    base.execute(
        f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {column} = ? WHERE rowid % 3 = 0", (value,)
    )
    base.commit()
    base.close()
    with suppress(CourseError):
        assert diagnosis.diagnose(file).window > 0
