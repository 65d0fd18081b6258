"""Whatever befalls a trace, no verdict is surely wrong."""

import json

import pytest

from course_tools import diagnosis
from tests.course_tools.diagnosis import others
from tests.course_tools.diagnosis.adversarial import TAKEN, VARIANTS, changed, on_device, rows_of

# A verdict above is taken for sure; one that asks is below a half.
SURE, ASKED = 0.8, 0.5
NO_DEVICE = [name for name in TAKEN if name.startswith(("host alone", "operators"))]
MAKERS = {**others.MAKERS, "ranks": ("load-imbalance", None)}
# Each kind of accident once; the cause of its trace in turn.
FEW = {
    "operators without properties": "host_bound_python",
    "operators and annotations": "unfused",
    "one kernel in twenty": "copies",
    "device cut": "imbalance",
    "nanoseconds": "synchronisation",
    "clock behind": "synchronisation_each",
    "second device": "at_roof",
    "two clocks": "launch_bound",
    "annotated": "wrong_format",
}


def diagnosed(folder, trace):
    file = folder / "trace.json"
    file.write_text(json.dumps(trace))
    return diagnosis.diagnose(file)


def surely_wrong(folder, variant, maker):
    cause, make = MAKERS[maker]
    trace = VARIANTS[variant](others.drawn(make, 0.4) if make else others.ranks())
    if not rows_of(trace):
        return False
    found = diagnosed(folder, trace)
    limit = ASKED if variant in NO_DEVICE else SURE
    named = found.cause if variant in NO_DEVICE else found.cause != cause and found.cause
    return named and named != "unknown" and found.confidence >= limit


@pytest.mark.parametrize(("variant", "maker"), FEW.items())
def test_no_accident_makes_a_verdict_surely_wrong(tmp_path, variant, maker):
    assert not surely_wrong(tmp_path, variant, maker)


@pytest.mark.exhaustive
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_variant_of_any_cause_is_surely_wrong(tmp_path, variant):
    # The same rank twice waits for no other that shows: what it waits for it carries.
    twins = {"two clocks": {"imbalance"}}.get(variant, set())
    assert [one for one in {*MAKERS} - twins if surely_wrong(tmp_path, variant, one)] == []


def test_operators_that_compute_on_a_cpu_may_be_judged(tmp_path):
    trace = VARIANTS["operators without properties"](others.drawn(others.unfused, 0.4))
    quick, slow = (diagnosed(tmp_path, one) for one in (trace, slower(trace)))
    assert quick.cause == slow.cause == "unfused-elementwise"
    assert quick.confidence < ASKED < slow.confidence
    assert "cpu" in quick.cannot_tell
    assert "cpu" not in slow.cannot_tell


def slower(trace):
    """As slow as a CPU is: what took a launch takes some milliseconds."""
    return changed(
        trace, change=lambda one: {**one, "ts": one["ts"] * 1e3, "dur": one["dur"] * 1e3}
    )


@pytest.mark.parametrize("rank", range(4))
def test_some_of_several_ranks_are_never_sure(tmp_path, rank):
    whole = others.ranks()
    assert diagnosed(tmp_path, whole).confidence > SURE
    rest = changed(whole, keep=lambda one: not on_device(one) or one["pid"] != rank)
    found = diagnosed(tmp_path, rest)
    assert found.cause == "load-imbalance" or found.confidence < SURE
    assert "ranks" in found.cannot_tell


def waiting(dur, sent):
    pen = others.Pen()
    for _ in range(12):
        pen.gemm(4096, 4096, 4096)
        start = max(pen.gpu_free, pen.host + 10)
        about = {"Collective name": "allreduce", "In msg nelems": sent, "dtype": "BFloat16"}
        pen.row("kernel", others.NCCL, start, dur, 0, 20, device=0, stream=20, **about)
        pen.gpu_free = start + dur
    return pen.trace()


def test_an_exchange_that_no_port_is_so_slow_for_waits(tmp_path):
    carries, waits = (diagnosed(tmp_path, waiting(9_000, sent)) for sent in (90_000_000, 9_000_000))
    assert carries.cause == "exposed-collectives"
    assert (waits.cause, waits.confidence < ASKED) == ("load-imbalance", True)
    assert carries.confidence < SURE  # of one rank


def attention(pen, far, last):
    """Scores that pass through memory, each operator so far from its bound."""
    n = 96 * 2048 * 2048
    for _ in range(20):
        pen.launch("aten::bmm", others.GEMM, 300, [[96, 2048, 64], [96, 64, 2048]])
        pen.pointwise("mul", n)
        name = (
            "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float>"
        )
        micros = far * 4 * n / pen.bandwidth * 1e6
        pen.launch("aten::_softmax", name, micros, [[8, 12, 2048, 2048], [], []])
        pen.launch("aten::copy_", "direct_copy_kernel_cuda", 20, [[96, 2048, 64]] * 2)
        last(pen)
    return pen.trace()


@pytest.mark.parametrize("far", [1.2, 5.0])
def test_attention_in_pieces_is_unfused_however_slow_its_softmax(tmp_path, far):
    ends = {
        "attention": lambda p: p.launch(
            "aten::bmm", others.GEMM, 300, [[96, 2048, 2048], [96, 2048, 64]]
        ),
        "none": lambda p: p.gemm(512, 512, 512),
    }
    whole, other = (diagnosed(tmp_path, attention(others.Pen(), far, one)) for one in ends.values())
    assert (whole.cause, whole.evidence[0].what) == ("unfused-elementwise", "aten::_softmax")
    softmax = next(one for one in whole.operators if one.name == "aten::_softmax")
    assert whole.evidence[0].seconds == pytest.approx(softmax.seconds)
    assert whole.confidence > SURE
    assert dict(other.alternatives).get("unfused-elementwise", other.share) < whole.share / 1.5
