"""Traces as tools, vendors and accidents change them: each variant makes another of a trace whose
cause is known, and says whether that cause can still be known.
"""

import copy
import random

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
# What other vendors' libraries call their kernels.
VENDORS = {
    "hip": (
        "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x16x1_SN",
        "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    ),
    "xpu": ("gemm_kernel", "oneccl_allreduce_kernel"),
    "ascend": ("MatMulV2", "hcom_allReduce__1"),
    "opaque": ("kernel_7f3a", "kernel_91bc"),
}


def rows_of(trace):
    return trace["traceEvents"]


def on_device(row):
    return row.get("cat") in DEVICE


def changed(trace, keep=lambda row: True, change=lambda row: row, **head):
    """A trace with some of its rows, changed."""
    rows = [change(copy.deepcopy(row)) for row in rows_of(trace) if keep(row)]
    return {**trace, **head, "traceEvents": rows}


def scaled(factor, only=lambda row: True):
    def change(row):
        if only(row):
            row["ts"], row["dur"] = row["ts"] * factor, row["dur"] * factor
        return row

    return lambda trace: changed(trace, change=change)


def without(*keys):
    """No such arguments."""

    def change(row):
        row["args"] = {key: one for key, one in row["args"].items() if key not in keys}
        return row

    return lambda trace: changed(trace, change=change)


def renamed(vendor):
    product, exchange = VENDORS[vendor]

    def change(row):
        name = row["name"].lower()
        if row["cat"] == "kernel" and "nccl" in name:
            row["name"] = exchange
        elif row["cat"] == "kernel" and "gemm" in name:
            row["name"] = product
        elif row["cat"] == "cuda_runtime":
            row["name"] = row["name"].replace("cuda", "hip")
        return row

    return lambda trace: changed(trace, change=change)


def added(make):
    """More rows."""

    def variant(trace):
        rows = [row for row in rows_of(trace) if "dur" in row]
        first, last = min(r["ts"] for r in rows), max(r["ts"] + r["dur"] for r in rows)
        return {**trace, "traceEvents": [*rows_of(trace), *make(rows, first, last)]}

    return variant


def row(cat, name, ts, dur, pid=77, tid=77, **args):
    about = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "args": args}
    return {**about, "ts": ts, "dur": dur}


def some(part, which=on_device, seed=3):
    """Only a part of some rows, as buffers that overflow leave them."""
    pick = random.Random(seed)
    return lambda trace: changed(trace, keep=lambda one: not which(one) or pick.random() < part)


def first_half(trace):
    """The device's rows end in the middle: its buffer was not collected."""
    times = sorted(one["ts"] for one in rows_of(trace) if on_device(one))
    middle = times[len(times) // 20]
    return changed(trace, keep=lambda one: not on_device(one) or one["ts"] <= middle)


def shifted(by):
    """The device's clock is not the host's."""

    def change(one):
        one["ts"] += by * on_device(one)
        return one

    return lambda trace: changed(trace, change=change)


def streams(trace):
    """Kernels on four streams in turn."""
    for i, one in enumerate(rows_of(trace := changed(trace))):
        if one["cat"] == "kernel":
            one["tid"] = one["args"]["stream"] = 7 + i % 4
    return trace


def graphed(trace):
    """The same kernels, replayed by one launch."""

    def change(one):
        if one["cat"] == "kernel":
            one["args"] |= {"correlation": 5, "graph node id": 9, "External id": 0}
        return one

    first = min(one["ts"] for one in rows_of(trace))
    kept = changed(
        trace, lambda one: "Launch" not in one["name"] and one["cat"] != "cpu_op", change
    )
    launch = row("cuda_runtime", "cudaGraphLaunch", first, 30, correlation=5)
    return {**kept, "traceEvents": [launch, *rows_of(kept)]}


def nested(rows, first, last):
    """Within each kernel a shorter one, as parent and child."""
    inner = [one for one in rows if one["cat"] == "kernel"][::2]
    return [{**one, "ts": one["ts"] + one["dur"] / 4, "dur": one["dur"] / 2} for one in inner]


def negative(rows, first, last):
    return [{**one, "dur": -1 - one["dur"]} for one in rows[::3]]


def warm_up(rows, first, last):
    """The profiler's own steps, of which the last two are recorded."""
    half = (last - first) / 2
    steps = [row("user_annotation", f"ProfilerStep#{i}", first + i * half, half) for i in (0, 1)]
    return [*steps, row("overhead", "CUPTI initialization", first - 9e5, 8e5)]


def annotated(rows, first, last):
    names = ("forward", "ampere_sgemm_128x64_tn", "nccl:all_reduce", "ProfilerStep#1")
    return [
        row(cat, name, first, last - first, pid, 7, stream=7, device=0)
        for cat, pid in (("gpu_user_annotation", 0), ("user_annotation", 77))
        for name in names[: 3 if cat == "gpu_user_annotation" else 1]
    ]


def stacks(rows, first, last):
    """Python's frames, all of which are open over everything."""
    names = ("train.py(9): main", "torch/nn/modules/module.py(1532): _call_impl")
    return [row("python_function", name, first - 5, last - first + 9) for name in names]


def threads(trace):
    def change(one):
        if one["cat"] == "cpu_op":
            one["tid"] = 77 + one["args"].get("External id", 0) % 3
        return one

    return changed(trace, change=change)


def text(trace):
    def change(one):
        one["ts"], one["dur"] = str(one["ts"]), str(one["dur"])
        return one

    return changed(trace, change=change)


def second_device(trace):
    """A second device that has one short kernel."""
    copied = next(one for one in rows_of(trace) if one["cat"] == "kernel")
    args = {**copied["args"], "device": 1, "External id": 0, "correlation": 0}
    return {**trace, "traceEvents": [*rows_of(trace), {**copied, "pid": 1, "args": args}]}


def two_clocks(trace):
    """The same rank a second time, with another process and a clock an hour on."""

    def change(one):
        one["pid"] = one["pid"] + 1000
        one["ts"] += 3.6e9
        for key in ("correlation", "External id"):
            if one["args"].get(key):
                one["args"][key] += 100_000
        return one

    twin = changed(trace, change=change)
    return {**trace, "traceEvents": [*rows_of(trace), *rows_of(twin)]}


def idle_before(rows, first, last):
    """A second of the host's before anything runs."""
    return [row("cpu_op", "aten::empty", first - 1e6, 9e5)]


# What only changes how the same is written: the cause is as plain as before.
WRITTEN = {
    "times as text": text,
    "another epoch": lambda trace: changed(
        trace, change=lambda one: {**one, "ts": one["ts"] + 1e15}
    ),
    "no external ids": without("External id"),
    "no correlations": without("correlation"),
    "neither": without("External id", "correlation"),
    "no shapes": without("Input Dims", "Input type", "Input Strides"),
    "no grids": without("grid", "block"),
    "no streams": without("stream", "device"),
    "no properties": lambda trace: {"traceEvents": rows_of(trace)},
    "hip names": renamed("hip"),
    "xpu names": renamed("xpu"),
    "ascend names": renamed("ascend"),
    "opaque names": renamed("opaque"),
    "annotated": added(annotated),
    "stacks": added(stacks),
    "nested": added(nested),
    "negative": added(negative),
    "twice": lambda trace: {**trace, "traceEvents": rows_of(trace) * 2},
    "warm-up": added(warm_up),
    "four streams": streams,
    "host threads": threads,
    "idle before": added(idle_before),
    "second device": second_device,
    "two clocks": two_clocks,
    "scaled up": scaled(3.0),
}
# What takes away what the cause shows by: then it cannot be known, and nothing must be sure.
TAKEN = {
    "host alone": lambda trace: changed(trace, keep=lambda one: not on_device(one)),
    "operators alone": lambda trace: changed(trace, lambda one: one["cat"] == "cpu_op"),
    "operators without properties": lambda trace: {
        "traceEvents": [one for one in rows_of(trace) if one["cat"] == "cpu_op"]
    },
    "operators and annotations": lambda trace: {
        "traceEvents": [
            one for one in rows_of(trace) if not on_device(one) and one["cat"] != "cuda_runtime"
        ]
    },
    "device cut": first_half,
    "one kernel in twenty": some(0.05),
    "half of the kernels": some(0.5),
    "nanoseconds": scaled(1000.0),
    "replayed": graphed,
    "device alone": lambda trace: changed(trace, keep=on_device),
    "clock off by a second": shifted(1e6),
    "clock behind": shifted(-1e6),
    "host slower": scaled(3.0, lambda one: not on_device(one)),
}
VARIANTS = {**WRITTEN, **TAKEN}
