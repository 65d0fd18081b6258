"""What Nsight writes, constructed: exports of the seeded traces, and tables of counters."""

import gzip
import json
import sqlite3

from course_tools import diagnosis

PROCESS = 77
TABLES = {
    "StringIds": "id, value",
    "TARGET_INFO_GPU": "id, name, smCount",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName, gridX, gridY, gridZ",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId",
    "NVTX_EVENTS": "start, end, eventType, text, textId, globalTid",
}


def seeded(cause):
    return json.loads(gzip.decompress(diagnosis.seeded(cause).read_bytes()))


def export(trace, path, without=()):
    """The SQLite export that Nsight Systems would write of the same program."""
    base, names = sqlite3.connect(path), {}

    def name(text):
        return names.setdefault(text, len(names) + 1)

    def put(table, *values):
        if table not in without:
            held = ", ".join("?" * len(values))
            base.execute(f"INSERT INTO {table} VALUES ({held})", values)

    for table, columns in TABLES.items():
        if table not in without:
            base.execute(f"CREATE TABLE {table} ({columns})")
    for one in trace.get("deviceProperties", [])[:1]:
        put("TARGET_INFO_GPU", 0, one["name"], one.get("numSms"))
    for one in trace["traceEvents"]:
        if one.get("ph") != "X":
            continue
        args, serial = one.get("args", {}), PROCESS << 24
        start, end = round(one["ts"] * 1e3), round((one["ts"] + one["dur"]) * 1e3)
        on = (args.get("device"), args.get("stream"), args.get("correlation"), serial)
        written = name(one["name"])
        if one["cat"] == "kernel":
            grid = args.get("grid", [None] * 3)
            put("CUPTI_ACTIVITY_KIND_KERNEL", start, end, *on, written, written, *grid)
        elif one["cat"] == "gpu_memcpy":
            way = 1 if "HtoD" in one["name"] else 2
            put("CUPTI_ACTIVITY_KIND_MEMCPY", start, end, *on, args.get("bytes"), way)
        elif one["cat"] == "cuda_runtime":
            called = name(f"{one['name']}_v7000")
            put("CUPTI_ACTIVITY_KIND_RUNTIME", start, end, serial | 1, on[2], called)
        elif one["cat"] in ("cpu_op", "user_annotation"):
            more = ", seq = 3, op_id = 4" if one["cat"] == "cpu_op" else ""
            put("NVTX_EVENTS", start, end, 59, one["name"] + more, None, serial | 1)
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, n) for n, i in names.items()])
    base.commit()
    base.close()
    return path


BEFORE = ("ID", "Process ID", "Process Name", "Kernel Name", "Grid Size", "Device")
ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
ACTIVE = ".avg.pct_of_peak_sustained_active"


def quoted(cells):
    return ",".join('"' + str(one).replace('"', '""') + '"' for one in cells)


def raw(*kernels):
    """The raw page: of each kernel, its name and pairs of unit and value by metric."""
    metrics = sorted({one for _, held in kernels for one in held})
    units = {one: unit for _, held in kernels for one, (unit, _) in held.items()}
    rows = [[*BEFORE, *metrics], [""] * len(BEFORE) + [units[one] for one in metrics]]
    for i, (name, held) in enumerate(kernels):
        values = [held[one][1] if one in held else "n/a" for one in metrics]
        rows.append([i, 1, "python", name, "(264, 1, 1)", 0, *values])
    return "".join(quoted(row) + "\n" for row in rows)


def details(*kernels, rules=()):
    """The details page, whose rows have fewer columns where no rule speaks."""
    rule = ("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup")
    rows = [[*BEFORE, "Section Name", "Metric Name", "Metric Unit", "Metric Value", *rule]]
    for i, (name, held) in enumerate(kernels):
        at = [i, 1, "python", name, "(264, 1, 1)", 0, "Some Section"]
        rows += [[*at, metric, unit, value] for metric, (unit, value) in held.items()]
        rows += [[*at, "", "", "", one, "OPT", 'it says "so"', gain] for one, gain in rules]
    return "".join(quoted(row) + "\n" for row in rows)
