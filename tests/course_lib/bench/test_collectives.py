"""Real processes on this computer: what they measure, and what is said when one of them dies."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from course_lib import CourseError, network
from course_lib.bench import results
from course_lib.bench.rows import Manifest, Row
from course_tools.campaigns import collectives
from course_tools.measured.collectives import fits, predicted
from course_book import reports

pytest.importorskip("torch")
SCRIPT = Path(__file__).parents[3] / "labs" / "01-collectives" / "collectives.py"
ABOUT = {
    "device": "cpu",
    "kind": "cpu",
    "dtype": "fp32",
    "timing": "warm",
    "data": "random",
    "status": "ok",
}


def launched(file, *arguments, world=2):
    said = []
    collectives.launch(SCRIPT, "--out", str(file), *arguments, world=world, say=said.append)
    return said


def finished(file, count, *arguments, world=2):
    """Run until so many measurements are there: a busy computer may spend its budget before."""
    for _ in range(4):
        launched(file, "--budget", "7", *arguments, world=world)
        if len(results.done(file)) == count:
            break


def rows_of(link, world=2, ops=collectives.OPS):
    """Rows as they would be measured on a link that the model describes."""
    sizes = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
    return [
        collectives_row(op, size, network_time(op, size, link, world), world)
        for op in ops
        for size in sizes
    ]


def network_time(op, size, link, world):
    return getattr(network, op.replace("-", "_"))(size, link, world)


def collectives_row(op, size, seconds, world=2):
    bus = network.bus_bandwidth(size, seconds, world, collective=op) / 1e9
    return Row(
        **ABOUT,
        op=op,
        shape=str(int(size)),
        bytes=size,
        seconds_median=seconds,
        ci_low=0.9 * seconds,
        ci_high=1.1 * seconds,
        achieved_bw_gbps=bus,
        settings=f"world={world} backend=gloo",
    )


STORY = """
import os, runpy, shutil, sys
import torch.distributed as dist
from course_lib.bench import record

record.MOST = record.FEWEST
script, file, begun, wrong = sys.argv[1:]
right, begin = dist.all_to_all_single, dist.init_process_group
rank = int(os.environ["RANK"])


def run(count, out, *arguments):
    if count:  # torchrun's store knows the ports of the first time
        store = dist.FileStore(f"{file}.{count}", 2)
        how = {"store": store, "rank": rank, "world_size": 2}
        dist.init_process_group = lambda *given, **more: begin(*given, **more, **how)
    sys.excepthook = sys.__excepthook__  # each beginning has it name the rank once more
    sys.argv[1:] = ["--out", out, *arguments]
    runpy.run_path(script, run_name="__main__")


def amiss(to, of):
    right(to, of)
    to[-1] += rank == 1


run(0, file, "--budget", "0.4", "--sizes", "1001", "262144")
if rank == 0:
    shutil.copy(file, begun)
for count in range(1, 5):  # a busy computer may spend its budget before
    run(count, file, "--budget", "3", "--sizes", "1001", "262144")
dist.all_to_all_single = amiss
run(5, wrong, "--budget", "2", "--sizes", "4096", "--ops", "all-reduce", "all-to-all")
"""
"""One start of two processes, and in them what three would do: to start takes most of the time."""


def test_two_processes_measure_and_go_on_where_they_stopped_and_time_no_wrong_result(tmp_path):
    """A collective that loses an operand in one rank: the message names the rank, and no row is
    written.
    """
    file, stopped, wrong = (tmp_path / name for name in ("results.csv", "begun.csv", "wrong.csv"))
    (script := tmp_path / "story.py").write_text(STORY)
    said = []
    with pytest.raises(
        CourseError, match=r"^rank 1 got a wrong result from all-to-all of 4096 B: relative error"
    ):
        collectives.launch(
            script, str(SCRIPT), str(file), str(stopped), str(wrong), say=said.append
        )
    assert [row.op for row in results.read(wrong)] == ["all-reduce"]
    begun = results.read(stopped)
    assert 0 < len(begun) < 10
    assert said[len(begun)].startswith("the budget is spent: ")
    rows = results.read(file)
    assert rows[: len(begun)] == begun
    measured = {row.key: row for row in rows if row.status == "ok"}.values()
    assert {(row.op, row.bytes) for row in measured} == {
        (op, size) for op in collectives.OPS for size in (1000, 262144)
    }
    for row in measured:
        assert (row.settings, row.kind, row.data, row.dtype) == (
            "world=2 backend=gloo",
            "cpu",
            "random",
            "fp32",
        )
        assert int(row.shape) == row.bytes
        assert row.error < collectives.WRONG
        assert 0 < row.seconds_min <= row.seconds_median <= row.seconds_p80
        assert row.ci_low <= row.seconds_median <= row.ci_high
        bus = network.bus_bandwidth(row.bytes, row.seconds_median, 2, collective=row.op)
        assert row.achieved_bw_gbps * 1e9 == pytest.approx(bus)


@pytest.mark.exhaustive
def test_three_processes(tmp_path):
    """Another number of ranks is another measurement, in the same file; and an odd one has other
    parts to check.
    """
    file = tmp_path / "results.csv"
    results.append(file, collectives_row("all-reduce", 1200.0, 1.0))
    finished(file, 1 + len(collectives.OPS), "--sizes", "1200", world=3)
    found = [row for row in results.read(file)[1:] if row.status == "ok"]
    assert {row.op for row in found} == set(collectives.OPS)
    assert {(row.settings, row.bytes) for row in found} == {("world=3 backend=gloo", 1200.0)}


def pid_of(rank, out):
    """The process of a rank, by its command and its environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (
                (folder / "cmdline").read_bytes(),
                (folder / "environ").read_bytes(),
            )
        except OSError:
            continue
        if os.fsencode(out) in command and f"\0RANK={rank}\0".encode() in b"\0" + environment:
            return int(folder.name)
    return None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the rank in /proc")
@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.exhaustive), 1])
def test_a_killed_rank_is_named_and_the_rows_are_kept(tmp_path, rank):
    file = tmp_path / "results.csv"
    killed = []

    def kill():
        end = time.monotonic() + 60
        while time.monotonic() < end and len(results.read(file)) < 2:
            time.sleep(0.05)
        killed.append(pid_of(rank, file))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(
        CourseError, match=rf"^rank {rank} was killed by signal 9.*rows measured before are kept"
    ):
        launched(file, "--budget", "100", "--ops", "all-reduce")
    killer.join()
    before = results.read(file)
    assert len(before) >= 2
    assert {row.status for row in before} == {"ok"}


def test_a_rank_that_fails_is_named(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("import os\nif os.environ['RANK'] == '1':\n    raise OSError('no cable')\n")
    with pytest.raises(CourseError, match="rank 1 failed with exit code 1"):
        collectives.launch(script)


def test_fits_and_predictions():
    link = network.Link(2e9, latency=3e-5)
    rows = rows_of(link)
    found = fits(rows)
    assert list(found) == list(collectives.OPS)
    for fit in found.values():
        assert fit.latency == pytest.approx(3e-5, rel=1e-3)
        assert fit.bandwidth == pytest.approx(2e9, rel=1e-3)
    for row in rows:
        assert predicted(row, link) == pytest.approx(row.seconds_median)
    assert fits(rows[:2]) == {}
    # What failed, and what was measured again, does not count.
    stale = [
        msgspec.structs.replace(rows[0], seconds_median=99.0),
        msgspec.structs.replace(rows[0], status="over-budget"),
    ]
    assert fits([stale[0], *rows, stale[1]])["all-reduce"].latency == pytest.approx(3e-5, rel=1e-3)


def test_settings_tell_measurements_apart():
    two, four = (collectives_row("all-reduce", 1e6, 1.0, world) for world in (2, 4))
    assert two.key != four.key
    copies = [
        Row(**ABOUT, op="copy", shape="1", settings=settings)
        for settings in ("threads=1", "threads=2")
    ]
    assert copies[0].key == copies[1].key
    assert (two.world, four.world, copies[0].world) == (2, 4, None)
    with pytest.raises(CourseError, match="fit each by itself"):
        fits([two, four])
    with pytest.raises(CourseError, match="row must be of a collective"):
        predicted(msgspec.structs.replace(two, settings=""), network.Link(1e9))


def test_the_report_and_the_figure():
    link = network.Link(2e9, latency=3e-5)
    rows = [*rows_of(link), *rows_of(link, world=4)]
    skipped = msgspec.structs.replace(
        rows[0], shape="7", status="over-budget", seconds_median=None, note="too long"
    )
    text = reports.collectives.report(
        [*rows, skipped], Manifest(lab="01", command="course lab run 01")
    )
    assert "## cpu, world=2 backend=gloo" in text
    assert "## cpu, world=4 backend=gloo" in text
    assert "all-reduce of 7 B: over-budget, too long." in text
    lines = [line for line in text.splitlines() if line.startswith("| all-to-all |")]
    assert len(lines) == 2 * (1 + 6)
    axes = reports.collectives.plot(rows[:30]).figure.axes[0]
    dots = [line for line in axes.lines if line.get_marker() not in ("None", "")]
    assert len(dots) == len(collectives.OPS)
    assert len({(dot.get_marker(), dot.get_color()) for dot in dots}) == len(dots)
    assert list(dots[0].get_ydata()) == [row.seconds_median for row in rows[:6]]
    assert set(collectives.OPS) <= {label.get_text() for label in axes.texts}
    with pytest.raises(CourseError, match="at least three sizes of all-reduce"):
        reports.collectives.plot(rows[:2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: collectives.launch(Path("nowhere.py")), "script 'nowhere.py' is not a file"),
        (lambda: collectives.launch(SCRIPT, world=0), "world must be a positive whole number"),
        (lambda: collectives.sweep(Path("r.csv"), device="tpu"), "unknown device 'tpu'"),
        (lambda: collectives.sweep(Path("r.csv"), budget=0), "budget must be positive"),
        (
            lambda: collectives.sweep(Path("r.csv"), ops=["all-reduc"]),
            "unknown op 'all-reduc': did you mean 'all-reduce'",
        ),
        (
            lambda: collectives.sweep(Path("r.csv")),
            "RANK is not set: start the script with torchrun",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(CourseError, match=message):
        call()
