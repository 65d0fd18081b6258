"""One window, one account: whatever was recorded, its parts add up to the whole."""

import json

import pytest

from course_lib import chip
from course_lib.specs import chips
from course_tools.diagnosis import SEEDED, page, seeded
from course_tools.diagnosis.causes import WHOLES
from course_tools.diagnosis.reading.rows import gather
from tests.course_tools.diagnosis import others
from tests.course_tools.diagnosis.adversarial import VARIANTS, rows_of
from tests.course_tools.diagnosis.others import MAKERS, Pen, drawn
from tests.each import each

KNOWN = [chip(key) for key in chips()]


def accounted(file, trace=None):
    if trace is not None:
        file.write_text(json.dumps(trace))
    return page.dropped([gather(file)], KNOWN)


def quiet(made):
    """Seconds in which a device does nothing, and no cause is known."""
    lost = sum(made["lost"][one] for of in WHOLES for one in of)
    return (1 - made["found"].busy) * made["found"].window - lost


def adds_up(made):
    """Whether the parts are the whole, and the strip shows as much of each."""
    found = made["found"]
    idle, exchange = (sum(made["lost"][one] for one in of) for of in WHOLES)
    parts = found.busy * found.window, idle, exchange, quiet(made)
    assert min(parts) > -1e-9
    columns = [sum(column) for column in zip(*made["strip"], strict=True)]
    assert max(columns) < 1 + 1e-6
    shown = sum(columns) / len(columns)
    assert shown == pytest.approx(1 - quiet(made) / found.window, abs=1e-6)
    assert sum(made["host"]) <= found.window * (1 + 1e-6)
    # What devices do is what they are busy with; operators that are not listed are the rest.
    busy = found.busy * found.window * found.devices
    assert sum(took for _, took in made["kinds"]) == pytest.approx(busy, abs=1e-7)
    # With exchange that nothing hides, that is what its operators take; a CPU's are called, too.
    listed, _, rest = made["rest"]
    all_of = sum(one.seconds for one in found.operators[:listed]) + rest
    runs = sum(map(sum, made["strip"][:3])) / len(columns) * found.window * found.devices
    assert runs - 1e-6 <= all_of <= found.window * found.devices * (1 + 1e-6)
    if made["kernels"][0]:
        assert all_of == pytest.approx(runs, rel=1e-5)


def loads(steps=3, load=100_000.0, work=50, before=0):
    """Annotated steps, each of which begins with loading; some work runs from before them."""
    pen = Pen()
    for _ in range(before):
        pen.gemm(2048, 2048, 2048)
    begun = []
    for _ in range(steps):
        begun.append(pen.host)
        pen.row("user_annotation", "enumerate(DataLoader)#__next__", pen.host, load, 77, 77)
        pen.host += load
        for _ in range(work):
            pen.gemm(4096, 4096, 4096)
        pen.sync()
    for i, start in enumerate(begun):
        end = [*begun, pen.host][i + 1]
        pen.row("user_annotation", f"ProfilerStep#{i}", start, end - start - 5, 77, 77)
    return pen.trace()


def memsets():
    pen = Pen()
    for _ in range(30):
        pen.launch("aten::zero_", "Memset (Device)", 200, cat="gpu_memset")
        pen.gemm(512, 512, 512)
        pen.host += 300
    return pen.trace()


def under_exchange():
    """Copies while ranks exchange data, and while none does."""
    pen = Pen()
    for _ in range(20):
        pen.gemm(2048, 2048, 2048)
        start = pen.gpu_free
        pen.row("kernel", others.NCCL, start, 500, 0, 20, device=0, stream=20)
        pen.row("gpu_memcpy", "Memcpy DtoH", start + 300, 400, 0, 7, device=0, stream=7)
        pen.gpu_free = pen.host = start + 900
    return pen.trace()


MADE = {
    **{name: lambda make=make: drawn(make, 0.2) for name, (_, make) in MAKERS.items()},
    "loads": loads,
    "work before": lambda: loads(before=400),
    "one step": lambda: loads(1),
    "ranks": others.ranks,
    "alone": lambda: others.ranks(collectives=False),
    "memsets": memsets,
    "under exchange": under_exchange,
    "host alone": lambda: drawn(others.at_roof, 0.2, rows=lambda pen: pen.rows[:-1:3]),
    "cpu": lambda: drawn(
        others.unfused, 0.2, rows=lambda p: [one for one in p.rows if one["cat"] == "cpu_op"]
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_the_parts_of_a_constructed_trace_are_the_whole(tmp_path, name):
    adds_up(accounted(tmp_path / "trace.json", MADE[name]()))


@each("cause", SEEDED)
def test_the_parts_of_a_seeded_trace_are_the_whole(cause):
    adds_up(accounted(seeded(cause)))


@pytest.mark.parametrize("variant", list(VARIANTS)[::4])
def test_whatever_befalls_a_trace_its_parts_are_the_whole(tmp_path, variant):
    trace = VARIANTS[variant](loads(work=20))
    if rows_of(trace):
        adds_up(accounted(tmp_path / "trace.json", trace))


@pytest.mark.parametrize("before", [0, 400])
def test_the_whole_time_is_that_of_the_annotated_steps(tmp_path, before):
    trace = loads(before=before)
    steps = [row for row in rows_of(trace) if row["name"].startswith("ProfilerStep")]
    made = accounted(tmp_path / "trace.json", trace)
    assert made["found"].window == pytest.approx(sum(row["dur"] for row in steps) * 1e-6, rel=1e-3)
    assert (made["found"].cause, made["found"].advice) == ("host-bound", "loader")


def test_of_a_first_load_no_more_is_idle_than_of_the_others(tmp_path):
    """What ran before the first step has no row: as long as in later steps, the device may work."""
    alike, ahead = (accounted(tmp_path / "t.json", loads(steps)) for steps in (3, 1))
    first = 0.1 / alike["found"].window
    assert alike["lost"]["host-bound"] == pytest.approx(0.3, rel=0.02)
    assert quiet(alike) < 0.02 * first * alike["found"].window
    assert quiet(ahead) == pytest.approx(0.1, rel=0.01)  # one step alone tells nothing of it


def test_the_idle_end_of_a_step_belongs_to_it(tmp_path):
    pen = Pen()
    for i in range(3):
        start = pen.host
        pen.gemm(4096, 4096, 4096)
        pen.host = max(pen.host, pen.gpu_free) + 9_000.0
        pen.row("python_function", "train.py(7): log", pen.gpu_free, 9_000.0, 77, 77)
        pen.row("user_annotation", f"ProfilerStep#{i}", start, pen.host - start, 77, 77)
    found = accounted(tmp_path / "t.json", pen.trace())["found"]
    assert found.cause == "host-bound"
    assert found.seconds == pytest.approx(0.027, rel=0.02)
    assert found.evidence[0].what == "train.py(7): log"
