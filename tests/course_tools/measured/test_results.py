import errno
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from course_lib import CourseError
from course_lib.bench import results
from course_lib.bench.results import append, compare, done, read, write_manifest
from course_lib.bench.rows import Manifest, Row
from course_tools.measured.gaps import gap
from course_book.reports.products import plot, report
from tests.each import each

GPU = {
    "device": "NVIDIA H200",
    "kind": "cuda",
    "op": "matmul",
    "dtype": "bf16",
    "shape": "8192x8192x8192",
}
SHAPED = {"timing": "cold", "data": "random", "status": "ok"}

WRITER = """
import os, resource, signal, sys
from pathlib import Path
from course_lib import CourseError
from course_lib.bench.rows import Row
from course_lib.bench.results import append

def row(device, number):
    return Row(device=device, kind="cpu", op="copy", dtype="fp32", shape=str(number), timing="warm", data="random", status="ok",
               seconds_median=0.1 * number, note="a note, with \\"quotes\\" and a comma")

def appended(path, device, count):
    for number in range(count):
        append(Path(path), row(device, number))
        os.write(1, b"%d\\n" % number)  # said only once it is safe
"""


def a_row(**more):
    return Row(**{**GPU, **SHAPED, **more})


def writer(code, *arguments):
    command = [sys.executable, "-c", WRITER + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)


def written(path, count=3):
    rows = [a_row(shape=str(number), seconds_median=number / 7) for number in range(1, count + 1)]
    for row in rows:
        append(path, row)
    return rows


@pytest.fixture
def path(tmp_path):
    return tmp_path / "local" / "results.csv"


def test_a_row_comes_back_as_it_was(path):
    full = a_row(
        achieved_tflops=1 / 3,
        mfu=0.1 + 0.2,
        seconds_median=1e-300,
        repeats=7,
        noisy=False,
        flops=2 * 8192.0**3,
        temperature_c=-3.5,
        throttle="sw power cap, hw thermal",
        settings='tf32=off "x"',
        note="coma, ñ, 한국어",
    )
    bare = a_row(status="out-of-memory", dtype="fp16")
    append(path, full)
    append(path, bare)
    assert read(path) == [full, bare]
    header = path.read_text(encoding="utf-8").partition("\n")[0].split(",")
    assert header == list(Row.__struct_fields__)
    assert header[:3] + header[-3:] == ["device", "kind", "op", "backend", "date", "note"]
    assert len(header) == 33


def test_a_row_stays_on_one_line(path):
    append(path, a_row(note="Traceback:\n  out of memory\r\n\0"))
    assert path.read_bytes().count(b"\n") == 2
    assert read(path)[0].note == "Traceback:   out of memory"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mfu", float("nan")),
        ("error", float("inf")),
        ("kind", "gpu"),
        ("status", "Ok"),
        ("repeats", 1.5),
        ("power_w", -1.0),
    ],
)
def test_what_could_not_be_read_back_is_refused_before_it_is_written(path, field, value):
    with pytest.raises(CourseError, match=field):
        append(path, a_row(**{field: value}))
    assert not path.exists()


def test_a_file_that_is_not_there_has_no_rows(path):
    assert read(path) == []
    assert done(path) == set()


@pytest.mark.parametrize(
    "content",
    [
        b"device,kind\n",
        b"\n",
        b"notes of mine",
        b"\xff\xfe\n",
        b"x" + results.HEADER.encode() + b"\n",
    ],
)
def test_a_damaged_header_is_an_error_and_the_file_stays(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    for use in (read, done, lambda path: append(path, a_row())):
        with pytest.raises(
            CourseError, match=r"results\.csv: line 1 is not the header .* move the file aside"
        ):
            use(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", [b"NVIDIA H200,cuda", b"\xff", b'"', b""])
def test_a_damaged_line_before_the_last_is_named(path, damage):
    written(path)
    lines = path.read_bytes().split(b"\n")
    lines[2] = damage
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(CourseError, match=r"results\.csv: line 3 is damaged .* delete that line"):
        read(path)


def test_line_ends_of_another_system_are_read(path):
    rows = written(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read(path) == rows


def test_a_line_torn_at_any_byte_costs_that_row_only(path):
    rows = written(path)
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        complete = length == len(whole) - 1  # all but the line end, which editors take away
        assert read(path) == rows[: 2 + complete]
        assert path.read_bytes() == whole[:length]
        append(path, rows[2])
        assert path.read_bytes() == whole + complete * whole[last:]


def test_a_mark_that_a_spreadsheet_put_in_front_is_passed_over(path):
    rows = written(path)
    whole = path.read_bytes()
    for content in (b"", whole):
        path.write_bytes(b"\xef\xbb\xbf" + content)
        assert read(path) == rows * bool(content)
        append(path, rows[0])
        assert read(path) == [*rows * bool(content), rows[0]]


@pytest.mark.parametrize("cell", ["inf", "-inf", "nan", "1e999", "infinity"])
def test_what_the_writer_refuses_is_not_read(path, cell):
    append(path, a_row(temperature_c=41.5))
    path.write_text(path.read_text().replace("41.5", cell))
    with pytest.raises(CourseError, match=r"line 2 is damaged \(.*temperature_c"):
        read(path)


def test_a_lone_surrogate_touches_no_file(path):
    with pytest.raises(CourseError, match="row does not fit"):
        append(path, a_row(note="\ud800"))
    assert not path.exists()


@each("call", [read, lambda path: append(path, a_row()), done])
@each("what", ["/dev/zero", "/dev/full", 3, None, ""])
def test_only_a_file_is_a_results_csv(call, what):
    with pytest.raises(CourseError, match="path"):
        call(what)


def test_a_path_may_be_text(path):
    rows = written(path)
    assert read(str(path)) == rows


def test_a_torn_header_is_written_again(path):
    rows = written(path, 1)
    whole = path.read_bytes()
    for length in range(len(results.HEADER) + 1):
        path.write_bytes(whole[:length])
        assert read(path) == []
        append(path, rows[0])
        assert path.read_bytes() == whole


@pytest.mark.parametrize("attempt", range(5))
def test_a_writer_killed_at_a_random_moment_loses_at_most_the_row_in_flight(path, attempt):
    moment = random.Random()
    process = writer("appended(sys.argv[1], 'cpu', 200)", path)
    said = [int(process.stdout.readline()) for _ in range(moment.randrange(1, 150))]
    time.sleep(moment.random() / 500)
    process.kill()
    rest, errors = process.communicate()
    said += [int(line) for line in rest.split()]
    assert process.returncode == -9, errors
    rows = read(path)
    assert [row.shape for row in rows] == [str(number) for number in range(len(rows))]
    assert said == list(range(len(said)))
    assert len(said) <= len(rows) <= len(said) + 1
    append(path, a_row())
    assert read(path) == [*rows, a_row()]
    assert path.read_bytes().count(results.HEADER.encode()) == 1


@pytest.mark.parametrize("kept", [0, 2])
def test_a_writer_killed_within_a_write_leaves_a_half_line_that_the_next_one_cuts_off(path, kept):
    torn = """
appended(sys.argv[1], 'cpu', int(sys.argv[2]))
write = os.write
def die(descriptor, data):
    write(descriptor, data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
os.write = die
append(Path(sys.argv[1]), row('cpu', 99))
"""
    process = writer(torn, path, kept)
    process.communicate()
    assert process.returncode == -9
    assert not path.read_bytes().endswith(b"\n")
    rows = read(path)
    assert len(rows) == kept
    append(path, a_row())
    assert read(path) == [*rows, a_row()]


def test_two_writers_at_once_lose_and_tear_nothing(path):
    both = [
        writer("appended(sys.argv[1], sys.argv[2], 100)", path, device) for device in ("one", "two")
    ]
    for process in both:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert path.read_bytes().count(results.HEADER.encode()) == 1
    assert path.read_bytes().count(b"\n") == 201
    for device in ("one", "two"):
        assert [row.shape for row in read(path) if row.device == device] == [
            str(number) for number in range(100)
        ]


@pytest.mark.parametrize("spare", [0, 1, 150])
def test_a_file_that_may_not_grow_keeps_its_rows_and_says_so(path, spare):
    rows = written(path)
    before = path.read_bytes()
    limited = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    append(Path(sys.argv[1]), row('x' * 200, 1))
except CourseError as error:
    print(error)
"""
    said, errors = writer(limited, path, len(before) + spare).communicate()
    assert not errors
    assert said.decode().startswith(
        "cannot append to results.csv: File too large; 3 rows before it are safe"
    )
    assert path.read_bytes() == before
    append(path, a_row())
    assert read(path) == [*rows, a_row()]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_disk_that_fills_within_a_line_keeps_the_rows_before(path, monkeypatch, count, code):
    rows = written(path, count)
    before = path.read_bytes() if count else b""
    write = os.write

    def half(descriptor, data):
        write(descriptor, data[: len(data) // 2])
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(CourseError) as caught:
            append(path, a_row())
    safe = "1 row before it is safe" if count == 1 else f"{count} rows before it are safe"
    assert str(caught.value).startswith(
        f"cannot append to results.csv: {os.strerror(code)}; {safe}"
    )
    assert path.read_bytes() == before
    assert read(path) == rows
    append(path, a_row())
    assert read(path) == [*rows, a_row()]


def test_a_write_cut_short_goes_on(path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
    rows = written(path)
    assert read(path) == rows


def test_what_the_disk_does_not_confirm_is_not_kept(path, monkeypatch):
    rows = written(path)

    def fails(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(CourseError, match="Input/output error; 3 rows before it are safe"):
            append(path, a_row())
    assert read(path) == rows


def test_an_interrupted_append_leaves_no_half_line(path, monkeypatch):
    rows = written(path)
    write = os.write

    def interrupted(descriptor, data):
        write(descriptor, data[:20])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        append(path, a_row())
    assert path.read_bytes().endswith(b"\n")
    assert read(path) == rows


def test_a_path_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(CourseError, match=f"cannot append to {tmp_path.name}: Is a directory"):
        append(tmp_path, a_row())
    with pytest.raises(CourseError, match="cannot be read: Is a directory"):
        read(tmp_path)


def test_a_rerun_skips_all_but_what_ran_out_of_budget(path):
    plan = [a_row(shape=str(number)) for number in range(4)]
    outcome = ["ok", "out-of-memory", "unsupported", "over-budget"]
    for row, status in zip(plan, outcome, strict=True):
        append(path, msgspec.structs.replace(row, status=status))
    assert [row.shape for row in plan if row.key not in done(path)] == ["3"]
    append(path, plan[3])
    assert done(path) == {row.key for row in plan}


def test_a_key_tells_apart_what_is_measured_apart():
    other = {
        "device": "x",
        "op": "copy",
        "dtype": "fp32",
        "shape": "1x1x1",
        "timing": "warm",
        "data": "zeros",
    }
    assert len({a_row(**{name: value}).key for name, value in other.items()} | {a_row().key}) == 7
    assert a_row(status="over-budget", note="x", settings="tf32=off").key == a_row().key


def manifest(**more):
    return Manifest(**{"lab": "00-three-accelerators", "command": "course lab run 00", **more})


def test_a_manifest_is_written_whole_and_comes_back(tmp_path):
    path = tmp_path / "local" / "manifest.json"
    whole = manifest(
        seed=7,
        packages={"torch": "2.9.1"},
        clocks={"sm_max_mhz": 1980.0},
        host={"cores": 2, "cpu": "x"},
        cost_usd=0.5,
    )
    write_manifest(path, manifest())
    write_manifest(path, whole)
    assert msgspec.json.decode(path.read_bytes(), type=Manifest) == whole
    assert [file.name for file in path.parent.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_manifest_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch, name):
    path = tmp_path / "manifest.json"
    write_manifest(path, manifest(seed=1))
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os if name == "fsync" else Path, name, full)
    with pytest.raises(
        CourseError, match=r"cannot write manifest\.json: No space left on device; .* untouched"
    ):
        write_manifest(path, manifest(seed=2))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "host", [{"hostname": "x"}, {"User": "x"}, {"cpu": "ada"}, {"machine": "babbage"}]
)
def test_a_manifest_names_neither_the_machine_nor_its_user(tmp_path, monkeypatch, host):
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setattr("platform.node", lambda: "babbage")
    with pytest.raises(CourseError, match=r"names the machine or its user .* leave it out"):
        write_manifest(tmp_path / "manifest.json", manifest(host=host))
    assert not list(tmp_path.iterdir())


def timed(median, half=None, **more):
    interval = {} if half is None else {"ci_low": median - half, "ci_high": median + half}
    return a_row(seconds_median=median, **interval, **more)


@pytest.mark.parametrize(
    ("before", "after", "beyond"),
    [
        (timed(1.0, 0.1), timed(1.15, 0.1), False),
        (timed(1.0, 0.1), timed(1.3, 0.1), True),
        (timed(1.3, 0.1), timed(1.0, 0.1), True),
        (timed(1.0, 0.5), timed(1.0, 0.001), False),
        (timed(1.0), timed(1.3, 0.1), None),
    ],
)
def test_a_difference_is_told_from_noise(before, after, beyond):
    (change,) = compare([before], [after])
    assert change.beyond_noise is beyond
    assert change.ratio == pytest.approx(after.seconds_median / before.seconds_median)
    assert (change.key, change.before, change.after) == (
        before.key,
        before.seconds_median,
        after.seconds_median,
    )


def test_only_what_both_runs_measured_is_compared():
    before = [timed(1.0, shape="1"), timed(1.0, shape="2"), timed(1.0, shape="3"), a_row(shape="4")]
    after = [
        timed(2.0, shape="3"),
        timed(4.0, shape="3"),
        timed(1.0, shape="2", status="out-of-memory"),
        timed(1.0, shape="4"),
    ]
    assert [(change.key[3], change.ratio) for change in compare(before, after)] == [("3", 4.0)]


FP32 = {"dtype": "fp32", "seconds_median": 1e-3, "mfu": 0.5}
CAUSES = {
    "above-peak": ({"mfu": 1.02, "throttle": "thermal"}, "102%"),
    "none": ({"mfu": 0.85, "mfu_at_clock": 0.95}, "85%"),
    "clock": (
        {"mfu": 0.7, "mfu_at_clock": 0.88, "clock_mhz": 1575.0, "throttle": "sw power cap"},
        "1,575 MHz",
    ),
    "throttled": (
        {"mfu": 0.7, "mfu_at_clock": 0.72, "throttle": "hw thermal", "temperature_c": 87.0},
        "87 °C",
    ),
    "launch": ({"mfu": 0.02, "seconds_median": 2e-5}, "20 µs"),
    "dtype-path": ({"seconds_median": 1.1e-3, "mfu": 0.3}, "1.1 ms"),
    "wave": ({"shape": "1664x8192x1664", "mfu": 0.6, "seconds_median": 1e-4}, "169 tiles"),
    "unknown": ({"mfu": 0.6, "seconds_median": 1e-4}, "was not measured"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_gap_has_the_cause_that_its_numbers_show_and_the_report_cites_it(cause):
    fields, cited = CAUSES[cause]
    row = a_row(peak_tflops=989.4, achieved_tflops=500.0, **fields)
    rows = [row, a_row(**FP32)]
    assert gap(row, rows, multiprocessors=132) == cause
    assert cited in report(rows, manifest(), multiprocessors={row.device: 132})


@each(
    ("fields", "multiprocessors", "cause"),
    [
        ({"mfu": 1.0}, None, "none"),
        ({"mfu": 0.7, "mfu_at_clock": 0.74}, None, "unknown"),
        ({"mfu": 0.04, "seconds_median": 1e-4}, None, "dtype-path"),
        ({"mfu": 0.04, "seconds_median": 1e-4, "dtype": "fp32"}, None, "unknown"),
        ({"mfu": 0.04, "op": "triad", "shape": "4096", "seconds_median": 1e-4}, 132, "unknown"),
        ({"seconds_median": 2e-3}, None, "dtype-path"),
        ({"seconds_median": 2e-3, "data": "zeros"}, None, "unknown"),
        ({"seconds_median": 2e-3, "device": "other"}, None, "unknown"),
        ({"seconds_median": 2e-3, "dtype": "tf32"}, None, "dtype-path"),
        ({"seconds_median": 2e-3, "dtype": "fp64"}, None, "unknown"),
        ({"seconds_median": 9e-4, "ci_low": 8e-4, "ci_high": 1e-3}, None, "dtype-path"),
        ({"seconds_median": 5e-4, "ci_low": 4e-4, "ci_high": 6e-4}, None, "unknown"),
        ({"shape": "1664x8192x1664"}, None, "unknown"),
        ({"shape": "1664x8192x1664", "kind": "cpu"}, 132, "unknown"),
        ({"shape": "1408x8192x1408"}, 132, "unknown"),
        ({"status": "out-of-memory", "throttle": "thermal"}, 132, "unknown"),
    ],
)
def test_a_gap_is_given_no_cause_that_was_not_measured(fields, multiprocessors, cause):
    row = a_row(**fields)
    fp32 = a_row(**FP32, ci_low=9.5e-4, ci_high=1.05e-3)
    assert gap(row, [row, fp32], multiprocessors) == cause


def test_waves_need_a_shape():
    with pytest.raises(CourseError, match=r"shape must be BxDxF, .* \(got '8192'\)"):
        gap(a_row(shape="8192"), [], multiprocessors=132)


def test_a_report_says_what_was_not_measured_and_nothing_more():
    gpu = a_row(
        achieved_tflops=700.0, mfu=0.7075, peak_tflops=989.4, noisy=False, achieved_bw_gbps=300.0
    )
    cpu = {**SHAPED, "device": "CPU", "kind": "cpu", "dtype": "fp32"}
    rows = [
        gpu,
        msgspec.structs.replace(gpu, achieved_tflops=1.0, shape="64x64x64"),
        Row(**cpu, op="matmul", shape="1024x1024x1024", achieved_tflops=0.2),
        Row(**{**cpu, "status": "out-of-memory"}, op="matmul", shape="9x9x9"),
        Row(**{**cpu, "device": "bare"}, op="triad", shape="1000", achieved_bw_gbps=20.0),
    ]
    text = report(rows, manifest(started="2026-01-01T00:00:00Z", wall_seconds=90.0, cost_usd=0.25))
    assert "`course lab run 00`, started 2026-01-01T00:00:00Z, took 90 s, cost 0.25 USD." in text
    assert (
        "| matmul | bf16 | 8192x8192x8192 | cold | random | 700 TFLOP/s | 300 GB/s | "
        "70.8% | not measured | no | ok |" in text
    )
    assert (
        "bf16 reached 700 TFLOP/s at 8192x8192x8192 (cold, random), 70.8% of a peak of 989 TFLOP/s"
        in text
    )
    assert (
        "fp32 reached 200 GFLOP/s at 1024x1024x1024 (cold, random), against a peak that "
        "is not known" in text
    )
    assert (
        "| triad | fp32 | 1000 | cold | random | – | 20 GB/s | – | – | not measured | ok |" in text
    )
    assert "No matmul was measured." in text.partition("## bare")[2]
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## NVIDIA H200",
        "## CPU",
        "## bare",
    ]
    assert "None" not in text
    assert "nan" not in text


def test_zeros_do_not_stand_for_real_data_in_a_report():
    rows = [a_row(achieved_tflops=700.0), a_row(achieved_tflops=800.0, data="zeros")]
    assert "bf16 reached 700 TFLOP/s" in report(rows, manifest())


def test_a_repeated_key_is_reported_once():
    rows = [a_row(status="over-budget"), a_row(achieved_tflops=700.0)]
    assert report(rows, manifest()).count("| matmul |") == 1


def devices():
    cpu = {**SHAPED, "device": "CPU", "kind": "cpu", "dtype": "fp32"}
    bandwidth = {**GPU, "dtype": "fp32", "shape": "4000000000"}
    return [
        Row(**{**bandwidth, **SHAPED, "op": "copy"}, achieved_bw_gbps=4000.0),
        Row(
            **{**bandwidth, **SHAPED, "op": "triad"},
            achieved_bw_gbps=4200.0,
            achieved_tflops=0.7,
            intensity=0.17,
        ),
        Row(**{**bandwidth, **SHAPED, "op": "triad", "timing": "warm"}, achieved_bw_gbps=9000.0),
        a_row(achieved_tflops=700.0, peak_tflops=989.4, intensity=2731.0),
        a_row(achieved_tflops=50.0, peak_tflops=67.0, intensity=1365.0, dtype="fp32"),
        a_row(achieved_tflops=750.0, peak_tflops=989.4, intensity=2731.0, data="zeros"),
        Row(**cpu, op="copy", shape="400000000", achieved_bw_gbps=20.0),
        Row(**cpu, op="matmul", shape="1024x1024x1024", achieved_tflops=0.1, intensity=171.0),
        Row(
            **{**cpu, "device": "dots only"},
            op="matmul",
            shape="1024x1024x1024",
            achieved_tflops=0.01,
            intensity=20_000.0,
        ),
    ]


def test_every_device_is_on_one_roofline_with_its_measured_roof_and_dots():
    axes = plot(devices()).figure.axes[0]
    lines = {line.get_marker() for line in axes.lines}
    assert lines == {"None", "o"}
    roofs = [line.get_ydata() for line in axes.lines if line.get_marker() == "None"]
    assert [max(roof) for roof in roofs] == [
        989.4e12
    ]  # a CPU whose peak nobody states has dots only
    assert [min(roof) / axes.get_xlim()[0] for roof in roofs] == pytest.approx([4200e9])
    dots = {
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() == "o"
    }
    assert dots == {
        (row.intensity, row.achieved_tflops * 1e12) for row in devices() if row.op == "matmul"
    }
    (low, high), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert all(low < x < high and bottom < y < top for x, y in dots)
    assert {text.get_text() for text in axes.texts} >= {
        "NVIDIA H200",
        "bf16",
        "CPU fp32",
        "dots only fp32",
    }


def test_a_roofline_needs_a_measured_roof():
    unstated = [msgspec.structs.replace(row, peak_tflops=None) for row in devices()]
    for rows in ([], devices()[-1:], devices()[:1], unstated):
        with pytest.raises(
            CourseError, match="rows must hold a device with a measured copy or triad"
        ):
            plot(rows)


def test_a_gap_that_nothing_else_explains_is_set_against_the_fastest_sample():
    row = Row(
        **{**ABOUT_CPU, "shape": "512x512x512"},
        achieved_tflops=0.18,
        peak_tflops=0.33,
        mfu=0.18 / 0.33,
    )
    host = {"fp32_best_sample_tflops": 0.2, "fp32_peak_assumes": "2 cores x 512 bit"}
    text = report([row], Manifest(lab="00", command="c", device="this cpu", host=host))
    assert "it is 90% of the fastest single sample among products small enough to stay" in text
    assert "in the cache, 200 GFLOP/s" in text
    assert "the assumptions behind the peak: 2 cores x 512 bit" in text
    assert "was not measured" in report(
        [row], Manifest(lab="00", command="c", device="another", host=host)
    )


ABOUT_CPU = {
    "device": "this cpu",
    "kind": "cpu",
    "op": "matmul",
    "dtype": "fp32",
    "timing": "cold",
    "data": "random",
    "status": "ok",
}
