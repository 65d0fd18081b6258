"""Explorers: their tables are the library's own values, whatever is chosen, and their prints are
complete.
"""

import os
import random
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from course_lib import CourseError, chip, critical_batch, llm, network, ops, roofline
from course_lib.network import Link
from course_lib.specs import model
from course_book import explore, n, t
from course_book.explore.grid import NONE
from course_book.explore.views import marks, ranges
from course_press.outputs.explorer import html

NAMES = (
    "roofline",
    "batch",
    "attention",
    "upgrade",
    "network",
    "decode",
    "slo",
    "capacity",
    "layouts",
)

# These have every mark between them.
PICTURED = ("network", "slo", "layouts")


@pytest.fixture(scope="module", params=NAMES)
def explorer(request):
    return getattr(explore, request.param)()


def choices(explorer, count=25):
    """Some choices of every control, the same in every run."""
    pick = random.Random(explorer.name)
    return [
        {name: pick.choice(explorer.values(name)) for name in explorer.controls}
        for _ in range(count)
    ]


def quantities(explorer, chosen, **over):
    here = explorer.here(**chosen)
    place = {**here.state(**chosen), **over}
    return SimpleNamespace(
        **{
            name: here.number(name, place)
            for name, f in here.fields.items()
            if set(f.axes) <= set(place)
        }
    )


def bound(explorer, value):
    return explorer.fields["bound"].words[int(value)]


def test_roofline_is_the_rooflines():
    one = explore.roofline()
    for chosen in choices(one, 60):
        found, on = quantities(one, chosen), chip(chosen["chip"])
        unit = "vector" if chosen["kernel"] in ("dot", "gelu", "norm") else "matrix"
        dtype = "fp32" if unit == "vector" else chosen["dtype"]
        if f"{unit}.{dtype}" not in on.peaks:
            assert np.isnan([found.ridge, found.rate, found.time]).all()
            continue
        assert found.ridge == on.ridge(dtype, unit)
        assert found.rate == pytest.approx(min(on.peak(dtype, unit), found.I * on.bandwidth))
        if chosen["kernel"].startswith("matmul"):
            work = ops.matmul(
                int(chosen["kernel"][7:]), 8192, 8192, x=dtype, w=dtype, compute=dtype
            )
            assert (found.I, found.time) == (work.intensity, roofline(work, on).lower)
            assert bound(one, found.bound) == roofline(work, on).bound


def test_the_corners_of_a_roof_are_its_ridge():
    one = explore.roofline("h200-sxm", "tpu-v5e")
    for layer, on in zip(one.layers[:2], (chip("tpu-v5e"), chip("h200-sxm")), strict=True):
        ((_, name, xs, ys),) = marks(one, layer, one.state())
        assert (name, xs[1], ys[1]) == (on.short, on.ridge("bf16"), on.peak("bf16"))
        assert ys[0] == pytest.approx(xs[0] * on.bandwidth)


def test_a_roofline_says_in_a_sentence_what_limits_it():
    one = explore.roofline()
    step = one.met()
    other = n(1 - min(step.t_math, step.t_memory) / step.lower, "%", digits=2)
    assert other in one.sentence()
    missing = explore.roofline("v100-sxm2", dtype="bf16")
    assert missing.met() is None
    assert "V100" in missing.sentence()
    assert html(missing).count(f"<output>{NONE}</output>") == 2


def test_batch_is_the_matrix_products():
    one = explore.batch()
    for chosen in choices(one):
        for i, key in enumerate(one.axes["chip"].values):
            found, on, c = quantities(one, chosen, chip=i), chip(key), chosen
            if f"matrix.{c['compute']}" not in on.peaks:
                assert np.isnan(found.rate)
                continue

            def work(B, c=c):
                return ops.matmul(B, c["D"], c["F"], x=c["compute"], w=c["w"], compute=c["compute"])

            step = roofline(work(c["B"]), on)
            assert (found.rate, found.time) == (step.attainable, step.lower)
            assert bound(one, found.bound) == step.bound
            assert found.first == critical_batch(work, on)
            # What the mark says is what the table says: compute-bound from there on.
            assert (step.bound == "compute-bound") == (c["B"] >= found.first)


def test_upgrade_is_the_ratio_of_two_decodes():
    one = explore.upgrade()
    for chosen in choices(one):
        found = quantities(one, chosen)
        a, b = chip(chosen["chip"]), chip(chosen["to"])
        forms = ["bf16" if "matrix.bf16" in on.peaks else "fp16" for on in (a, b)]
        steps = [
            llm.decode(chosen["model"], on, chosen["batch"], explore.CONTEXT, w=w)
            for on, w in zip((a, b), forms, strict=True)
        ]
        assert found.gain == pytest.approx(steps[0].lower / steps[1].lower)
        assert found.rates == pytest.approx(b.peak(forms[1]) / a.peak(forms[0]))
        assert found.widths == pytest.approx(b.bandwidth / a.bandwidth)
        fits = llm.fits(chosen["model"], b, chosen["batch"], explore.CONTEXT).fits
        assert one.fields["to_fit"].words[int(found.to_fit)] == t(
            "fits" if fits else "does-not-fit"
        )


def test_a_chip_is_no_faster_than_itself():
    one = explore.upgrade()
    for key in explore.CHIPS:
        assert [row[1] for row in one.shown(chip=key, to=key)[2:]] == ["1×", "1×", "1×"]


def test_network_is_the_sharded_product():
    one = explore.network()
    for chosen in choices(one):
        found, (key, _, name) = quantities(one, chosen), chosen["link"].partition(".")
        on = chip(key)
        B, D, count = chosen["B"], chosen["D"], chosen["chips"]
        link = Link(on.links["nvlink" if name == "nodes" else name].total_per_direction)
        link = replace(link, latency=chosen["latency"])
        if name == "nodes":
            # Two nodes of one, two, four or eight GPUs with a port each, then more nodes of eight.
            node = structs.replace(on.node, ports=replace(on.node.ports, latency=link.latency))
            link = network.between_nodes(node, link, min(count // 2, 8))
        assert found.math == pytest.approx(
            2 * B * D * D / count / on.peak("bf16" if "matrix.bf16" in on.peaks else "fp16")
        )
        assert found.memory == pytest.approx(
            2 * (B * D / count + D / count * D + B * D) / on.bandwidth
        )
        assert found.comms == pytest.approx(network.all_reduce(2 * B * D, link, count))
        longest = max(
            ("compute-bound", found.math),
            ("memory-bound", found.memory),
            ("communication-bound", found.comms),
            key=lambda x: x[1],
        )
        assert bound(one, found.bound) == longest[0]
        if not chosen["latency"]:
            assert (found.math >= found.comms) == (found.width <= D)


def test_decode_is_the_models_and_its_limit_is_the_memory():
    one = explore.decode()
    for chosen in choices(one):
        found, on, c = quantities(one, chosen), chip(chosen["chip"]), chosen
        w = "bf16" if "matrix.bf16" in on.peaks else "fp16"
        longer = model(c["model"]).extended(c["context"])
        step = llm.decode(longer, on, c["batch"], c["context"], w=w)
        # Sums over many choices at once may end in another last bit than one alone.
        assert (found.time, found.rate) == pytest.approx(
            (step.lower, c["batch"] / step.lower), rel=1e-12
        )
        assert one.here(**c).fields["bound"].words[int(found.bound)] == t(step.bound)
        fit = llm.fits(c["model"], on, c["batch"], c["context"], w=w)
        assert (found.needed, found.available, found.most) == (
            fit.needed,
            fit.available,
            fit.max_batch,
        )
        assert bool(found.fit) == fit.fits == (c["batch"] <= found.most)
        if 1 <= found.most <= 1024:
            limit = llm.decode(longer, on, found.most, c["context"], w=w).lower
            assert found.limit == pytest.approx(limit, rel=1e-12)
        else:
            assert np.isnan([found.limit, found.end]).all()


def test_the_line_is_dashed_from_the_largest_batch_that_fits_on():
    one = explore.decode()
    (solid, dashed) = (marks(one.here(), layer, one.here().state()) for layer in one.layers[1:3])
    ((_, name, xs, ys),), ((_, said, later, _),) = solid, dashed
    assert (name, said) == ("H100", t("does-not-fit"))
    limit = quantities(one, {}).limit
    assert xs[0] < xs[-1] == limit == later[0] < later[-1]
    assert len(xs) + len(later) > 70
    assert ys == sorted(ys)
    all_of_it = one.here(context=128)
    assert not list(marks(all_of_it, one.layers[2], all_of_it.state()))
    assert not list(marks(all_of_it, one.layers[0], all_of_it.state()))


def test_every_batch_and_the_old_contexts_are_offered():
    one = explore.decode(batch=1000)
    assert list(one.values("batch")) == list(range(1, 1025))
    contexts = one.values("context")
    assert {128, 512, 1024, 2048, 4096, 8192, 131072} <= set(contexts)
    assert all(1 < b / a <= 1.1 for a, b in pairwise(contexts))
    assert {"t4", "b300-sxm", "tpu-v7", *explore.CHIPS} <= set(one.values("chip"))
    with pytest.raises(CourseError, match=r"offers: 1 to 1024, in steps \(got 0\)"):
        explore.decode(batch=0)


def test_rows_are_written_as_the_page_writes_numbers(monkeypatch):
    monkeypatch.setenv("COURSE_LANG", "es")
    rows = dict(explore.decode().shown(batch=1, context=1024))
    assert (
        rows["latencia"] == n(llm.decode("llama-3-8b", "h100-sxm", 1, 1024).lower, "s") == "4,52 ms"
    )
    assert rows["límite"] == "limitado por memoria"
    critical = [row[-1] for row in explore.batch().shown(D=512, F=512)]
    assert critical[0] == n(critical_batch(lambda B: ops.matmul(B, 512, 512), chip("a100-sxm-80")))
    assert critical[1] == "nunca"  # H100: what grows with the batch has 256 FLOP/B, below its ridge
    assert explore.roofline("v100-sxm2").shown(dtype="fp8")[0][-1] == NONE


@pytest.mark.parametrize("count", [6, pytest.param(25, marks=pytest.mark.exhaustive)])
def test_the_axes_hold_every_state(explorer, count):
    for chosen in choices(explorer, count):
        here = explorer.here(**chosen)
        (left, right), (low, high) = ranges(here)
        for layer in here.layers:
            for _, _, xs, ys in marks(here, layer, here.state(**chosen)):
                assert layer.mark in ("level", "turn") or left < min(xs) <= max(xs) < right
                assert layer.mark in ("rule", "turn") or low < min(ys) <= max(ys) < high


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=() if one in PICTURED else pytest.mark.exhaustive) for one in NAMES],
)
def test_a_notebook_gets_one_picture_the_same_every_time(name, monkeypatch):
    explorer = getattr(explore, name)()
    monkeypatch.setenv("COURSE_PRINT", "notebook")
    bundle = explorer._repr_mimebundle_()
    assert list(bundle) == ["image/png"]
    assert bundle == getattr(explore, explorer.name)()._repr_mimebundle_()
    monkeypatch.delenv("COURSE_PRINT")
    assert explorer._repr_mimebundle_() == bundle  # no kernel here: nothing to be live with
    assert repr(explorer) == f"explore.{explorer.name}()"


def test_live_agrees_with_the_table_where_both_know(explorer):
    for chosen in choices(explorer, 4):
        here, same = explorer.at(chosen)
        assert here.shown(**same) == explorer.shown(**chosen)
        here.plot(**same)


def test_live_computes_what_no_table_has():
    one = explore.batch()
    start = {name: axis.start for name, axis in one.controls.items()}
    here, chosen = one.at({**start, "B": 77, "D": 5000})
    step = roofline(ops.matmul(77, 5000, 8192), chip("h100-sxm"))
    assert here.shown(**chosen)[1][1:3] == [n(step.attainable, "FLOP/s"), n(step.lower, "s")]
    with pytest.raises(
        CourseError, match=r"B must be one that the explorer 'batch' offers: .* \(got 77\)"
    ):
        one.shown(B=77)


def texts(table):
    return [cell.value for cell in table.children]


def test_the_widget_recomputes_and_says_what_it_cannot():
    pytest.importorskip("ipywidgets")
    decode = explore.decode().widget()
    fields = {
        child.description: child for child in decode.children if getattr(child, "description", "")
    }
    picture, table = decode.children[-2:]
    before = picture.value
    fields[t("batch")].value = 33
    assert picture.value != before
    assert n(llm.decode("llama-3-8b", "h100-sxm", 33, 2048).lower, "s") in texts(table)
    fields[t("chip")].value = "b300-sxm"
    assert n(llm.decode("llama-3-8b", "b300-sxm", 33, 2048).lower, "s") in texts(table)
    split = explore.network().widget()
    next(
        child for child in split.children if getattr(child, "description", "") == "D = F"
    ).value = 1000
    next(
        child for child in split.children if getattr(child, "description", "") == t("chips")
    ).value = 7
    assert "must divide by the chips" in split.children[-1].children[0].value


def test_a_live_kernel_gets_the_widget_beside_the_picture(monkeypatch):
    pytest.importorskip("ipywidgets")
    import IPython

    monkeypatch.delenv("COURSE_PRINT", raising=False)
    assert set(explore.decode()._repr_mimebundle_()) == {"image/png"}
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    bundle = explore.decode()._repr_mimebundle_()
    assert set(bundle) == {"image/png", "application/vnd.jupyter.widget-view+json"}
    monkeypatch.setenv("COURSE_PRINT", "notebook")
    assert set(explore.decode()._repr_mimebundle_()) == {"image/png"}


def test_what_is_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("course_book.explore.views.find_spec", lambda name: None)
    with pytest.raises(CourseError, match="a live explorer needs ipywidgets"):
        explore.decode().widget()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: explore.roofline("h10"), "unknown chip 'h10'"),
        (lambda: explore.roofline(dtype="fp64"), "unknown dtype 'fp64'"),
        (
            lambda: explore.batch(B=3),
            r"B must be one that the explorer 'batch' offers: 1, 2, .* \(got 3\)",
        ),
        (
            lambda: explore.upgrade("i5-8250u"),
            "chip must be one that the explorer 'upgrade' offers",
        ),
        (lambda: explore.decode().shown(speed=1), "unknown control 'speed'"),
        (
            lambda: explore.decode("gpt-3-175b"),
            "model must be one that the explorer 'decode' offers",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(CourseError, match=message):
        call()


def test_a_fourth_explorer_needs_no_code_of_ours():
    """An explorer of a reader's own: axes, quantities, marks."""
    one = explore.Explorer(
        "squares",
        {"x": explore.Axis((1, 2, 3)), "k": explore.Axis((1, 10), "k", start=1)},
        lambda at: {
            "x": explore.Field(("x",), np.asarray(at["x"], dtype=float)),
            "y": explore.Field(("k", "x"), np.outer(at["k"], np.square(at["x"])).astype(float)),
        },
        [explore.ChartLayer("line", "x", "y", ("x",), color=0)],
        [explore.TableRow(("@x", "y"), ("x",))],
        x_label="x",
        y_label="y",
    )
    assert one.shown(k=10) == [["1", "10"], ["2", "40"], ["3", "90"]]
    assert os.environ.get("COURSE_PRINT") is None
    assert html(one).startswith('<div class="explorer" id="squares-')
