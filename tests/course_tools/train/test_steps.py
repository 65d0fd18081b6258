"""Training: memory by hand, what a step is made of, layouts, whole runs, and what is refused."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import CourseError, network
from course_lib.specs import model
from course_tools import train
from course_tools.train import counts, footprints, parallelism, steps

LLAMA = model("llama-3-8b")
ON = "64xh100-sxm"
POWERS = st.sampled_from([1, 2, 4, 8])


def pipeline_of(one, layout):
    """What the stages of a layout hold."""
    at = parallelism.columns([train.layout(layout)], 4096)
    return next(footprints.by_pipeline(counts.layer_sizes(one), at))[1]


@pytest.mark.parametrize(
    "spelled",
    ["2x8xh100-sxm", "2 nodes x 8 H100 SXM", "16 x h100-sxm", "16 H100 SXM", "2*8*h100-sxm"],
)
def test_machines_are_counted_however_a_cluster_is_spelled(spelled):
    found = train.cluster(spelled)
    assert (found.chip.key, found.count, found.machines) == ("h100-sxm", 16, 2)


@pytest.mark.parametrize(
    ("spelled", "said"),
    [
        ("4xh100-sxm+4xa100-sxm-80", "one kind"),
        ("4 h100-sxm and 4 a100-sxm-80", "one kind"),
        ("2x4xh100-sxm", "has 8 chips in its file"),
        ("h100-sxm", "must say their number"),
    ],
)
def test_a_cluster_that_is_none_is_refused_by_what_is_wrong(spelled, said):
    with pytest.raises(CourseError, match=said):
        train.cluster(spelled)


def test_a_layout_says_its_chips_and_sequences_and_is_read_back():
    one = train.layout("dp=4, tp=2,pp=2,mbs=2,acc=3,recompute=full")
    assert (one.chips, one.batch) == (16, 24)
    assert train.layout(str(one)) == one
    assert train.layout(one) is one


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dp=8;tp=8", "dp must be one whole number"),
        ("dp", "must be name=value"),
        ("ddp=8", "did you mean 'dp'"),
        ("dp=2,dp=4", "names dp twice"),
        ("dp=0", "dp must be"),
        ("dp=1.5", "dp must be one whole number"),
        ("zero=4", "zero must be 0, 1, 2 or 3"),
        ("ep=3,dp=2", "ep must divide dp"),
        ("interleave=2", "interleave needs a pipeline"),
        ("recompute=some", "unknown recompute"),
        ("schedule=gpipe", "unknown schedule"),
    ],
)
def test_a_wrong_layout_is_refused_with_its_fault(text, said):
    with pytest.raises(CourseError, match=said):
        train.layout(text)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("dp=8", "takes dp \\* tp \\* pp \\* cp = 8 chips, and there are 64"),
        ("dp=8,cp=8", None),
        ("tp=64", "tp must divide"),
        ("dp=64,ep=2", "ep must divide the model's experts 0"),
    ],
)
def test_a_step_asks_for_a_layout_that_divides_the_model(layout, said):
    if said is None:
        assert train.step(LLAMA, ON, layout, 4096).expected_s > 0
        return
    with pytest.raises(CourseError, match=said):
        train.step(LLAMA, ON, layout, 4096)


@pytest.mark.parametrize("given", ["h100-sxm", "0xh100-sxm", "8xh200", "8-h100-sxm"])
def test_chips_are_a_number_of_a_chip(given):
    with pytest.raises(CourseError):
        train.cluster(given)


def test_memory_of_one_small_case_by_hand():
    """One chip, one sequence: every byte of it counted here."""
    small, how = train.shapes()["1B"], train.constants()
    tokens, width, hidden = 2048, 2048, 8192
    each = 4 * width**2 + 3 * width * hidden + 2 * width
    parameters = 16 * each + 131072 * width + width
    assert small.parameters == parameters
    found = train.memory(small, "dp=1", tokens)
    assert found.weights == pytest.approx(2 * parameters)
    assert found.gradients == pytest.approx(4 * parameters)
    assert found.optimizer == pytest.approx(12 * parameters)
    # Two residuals, two norms, queries, keys, values, the rotated two, attention's result; gate,
    # up, the activation function's result and its product with up.
    kept = (2 + 2 + 3 + 2 + 1) * width + 4 * hidden
    assert found.activations == pytest.approx(2 * tokens * 16 * kept)
    assert found.logits == pytest.approx(how.logits * 4 * tokens * 131072)
    assert found.buffers == pytest.approx(how.runtime)
    needed = 18 * parameters + found.activations + found.logits
    assert found.total == pytest.approx(how.fragmentation * needed + how.runtime)


def test_zero_shards_ever_more_and_recomputation_keeps_ever_less():
    shards = [train.memory(LLAMA, f"dp=8,zero={zero}", 4096) for zero in range(4)]
    for name, stage in (("optimizer", 1), ("gradients", 2), ("weights", 3)):
        values = [getattr(one, name) for one in shards]
        assert values[stage] == pytest.approx(values[stage - 1] / 8)
        assert values[:stage] == [values[0]] * stage
    kept = [
        train.memory(LLAMA, f"recompute={name}", 4096).activations
        for name in ("none", "selective", "full")
    ]
    assert kept == sorted(kept, reverse=True)
    assert kept[2] < kept[0] / 5


def test_no_bucket_holds_all_gradients_where_copies_share_them():
    whole, shared = (train.memory(LLAMA, f"dp=8,zero={zero}", 4096).buffers for zero in (1, 2))
    assert whole - shared == pytest.approx(2 * model("llama-3-8b").parameters)


def test_the_first_stage_keeps_as_many_microbatches_as_there_are_stages():
    one = train.memory(LLAMA, "pp=4,acc=8", 4096).activations
    few = train.memory(LLAMA, "pp=4,acc=1", 4096).activations
    every = train.memory(LLAMA, "pp=4,acc=8,schedule=afab", 4096).activations
    assert one == pytest.approx(4 * few)
    assert every == pytest.approx(8 * few)
    piecewise = parallelism.in_flight_microbatches(4, np.array([8.0]), 2, np.array([0.0]))
    assert piecewise[0, 0] == pytest.approx((2 * 3 + 4 + 1) / 2)


def test_many_layouts_at_once_are_as_each_alone():
    texts = ["dp=8,zero=1", "dp=2,tp=2,pp=2,acc=4", "pp=8,acc=16,interleave=2", "tp=8,mbs=4"]
    every = [train.layout(text) for text in texts]
    together = train.memory(LLAMA, every, 4096)
    for i, one in enumerate(every):
        alone = train.memory(LLAMA, one, 4096)
        assert together.total[i] == pytest.approx(alone.total)
        assert alone.total == pytest.approx(sum(alone.parts.values()))


@pytest.mark.parametrize("name", ["1B", "8B"])
def test_passes_of_the_operators_are_the_rule_and_attention(name):
    """The backward pass is two forward ones, and 6ND with attention's causal half the sum."""
    one, length = train.shapes()[name], 4096
    found = train.backward(one, length)
    assert found.backward == 2 * found.forward
    embedding = one.vocab * one.width if one.head == "own" else 0
    norms = one.parts["norms"]
    attention = 12 * one.layers * one.width * (length + 1) / 2
    assert found.total == pytest.approx(6 * (one.parameters - embedding - norms) + attention)
    again = train.backward(one, length, recompute="full")
    assert again.total == pytest.approx(found.total + found.forward - found.parts["head"])
    exact = train.flops(one, length, causal=True, parameters=one.parameters - embedding - norms)
    assert found.total == pytest.approx(exact)


@given(POWERS, POWERS, POWERS, st.sampled_from([0, 1, 2, 3]), POWERS, POWERS)
@settings(max_examples=60, deadline=None)
def test_a_step_is_the_sum_of_its_parts_and_never_below_its_bound(dp, tp, pp, zero, mbs, acc):
    layout = train.Layout(dp=dp, tp=tp, pp=pp, zero=zero, mbs=mbs, acc=acc)
    step = train.step(LLAMA, train.cluster("h100-sxm", layout.chips), layout, 2048)
    assert sum(step.parts.values()) == pytest.approx(step.expected_s)
    assert 0 < step.bound_s <= step.low_s <= step.expected_s <= step.high_s
    assert step.memory.total == pytest.approx(sum(step.memory.parts.values()))
    assert 0 < step.mfu < 1
    for one in step.exchanges:
        assert one.hidden >= -1e-12
        assert one.bound <= one.seconds * (1 + 1e-9)
    assert set(step.parts) == set(train.PARTS)


@given(POWERS, POWERS, st.sampled_from([512, 1024, 4096]))
@settings(max_examples=30, deadline=None)
def test_more_sequences_or_tokens_never_take_less(mbs, acc, sequence):
    one = train.Layout(dp=2, tp=2, pp=2, zero=1, mbs=mbs, acc=acc)
    base = train.step(LLAMA, "8xh100-sxm", one, sequence)
    for more in (
        train.step(LLAMA, "8xh100-sxm", dataclasses.replace(one, mbs=2 * mbs), sequence),
        train.step(LLAMA, "8xh100-sxm", dataclasses.replace(one, acc=2 * acc), sequence),
        train.step(LLAMA, "8xh100-sxm", one, 2 * sequence),
    ):
        assert more.expected_s >= base.expected_s
        assert more.bound_s >= base.bound_s
        assert more.memory.total >= base.memory.total


def test_the_bound_of_one_chip_is_its_arithmetic_at_the_peak():
    step = train.step(LLAMA, "1xh100-sxm", "mbs=2,acc=3", 4096)
    work = train.backward(LLAMA, 4096).total * step.tokens
    assert step.bound_s == pytest.approx(work / step.chips.chip.peak("bf16"), rel=1e-3)


def test_a_pipeline_of_equal_stages_waits_as_long_as_its_bubble_says():
    equal = dataclasses.replace(
        train.step(LLAMA, "8xh100-sxm", "pp=8,acc=8", 4096).layout, interleave=1
    )
    found = pipeline_of(LLAMA, "pp=8")
    assert found.layers.sum() == LLAMA.layers
    step = train.step(LLAMA, "8xh100-sxm", equal, 4096)
    moving = sum(
        step.parts[name] for name in ("products", "attention", "traffic", "launches", "bubble")
    )
    assert step.parts["bubble"] / moving == pytest.approx(train.bubble(8, 8))


def test_pieces_of_a_pipeline_shorten_its_bubble():
    for pieces in (1, 2, 4):
        step = train.step(LLAMA, "4xh100-sxm", f"pp=4,acc=8,interleave={pieces}", 4096)
        filled = step.parts["bubble"] + 8 / (3 / pieces) * step.parts["bubble"]
        assert step.parts["bubble"] / filled == pytest.approx(train.bubble(4, 8, pieces))
        moving = ("products", "attention", "traffic", "launches", "bubble")
        assert filled == pytest.approx(sum(step.parts[name] for name in moving))


def test_stages_get_blocks_by_their_arithmetic_and_none_may_be_empty():
    small = train.shapes()["1B"]
    assert pipeline_of(small, "pp=2").layers.tolist() == [11, 5]
    assert not pipeline_of(small, "pp=8").empty
    assert pipeline_of(small, "pp=16").empty
    step = train.step(small, "16xh100-sxm", "pp=16,acc=16", 4096)
    assert not step.fits
    assert "more stages" in step.why_not


def test_gradients_of_many_machines_go_through_the_ports():
    step = train.step(LLAMA, ON, "dp=8,tp=8,zero=1,acc=4", 4096)
    by_name = {one.name: one for one in step.exchanges}
    assert by_name["tensor"].link == "NVLink 4"
    assert "ports" in by_name["gradients"].link
    # Each chip sends its shard's sums, less its own eighth, through a port of its own.
    port = step.chips.chip.node.ports.total_per_direction / 8
    parameters = by_name["weights"].bytes / footprints.WEIGHT
    assert by_name["weights"].bound == pytest.approx(2 * parameters * 7 / 8 / port)
    whole = network.all_gather(by_name["weights"].bytes, port, 8)
    assert by_name["weights"].bound == pytest.approx(whole)


def test_a_torus_has_no_machines_and_its_program_no_launches():
    step = train.step(LLAMA, "64xtpu-v5p", "dp=16,tp=4,zero=3,mbs=1,acc=2", 4096)
    assert step.chips.machines == 1
    assert step.parts["launches"] == pytest.approx(0, abs=1e-9)
    assert {one.link for one in step.exchanges} == {"ICI"}


def test_beyond_a_slice_gradients_go_through_the_ports():
    one, two = (train.step(LLAMA, f"{n}xtpu-v5e", f"dp={n},zero=1,mbs=1", 4096) for n in (256, 512))
    inside, across = (next(e for e in s.exchanges if e.name == "gradients") for s in (one, two))
    assert inside.link == "ICI"
    assert across.link == "ICI and ports"
    # Half of each chip's 256th of the array, through its share of the ports, 25 Gb/s, which goes on
    # while the torus adds up, and after it at the pace that is expected.
    ports = across.bytes / 2 / 256 / 3.125e9 * across.messages
    assert across.bound == pytest.approx(max(inside.bound, ports))
    assert across.seconds > inside.seconds + ports


def test_experts_are_spread_and_sent_to():
    mixtral = model("mixtral-8x7b")
    alone = train.step(mixtral, ON, "dp=16,tp=4,zero=1", 4096)
    spread = train.step(mixtral, ON, "dp=16,tp=4,ep=8,zero=1", 4096)
    assert spread.memory.weights < alone.memory.weights / 2
    assert spread.parts["experts"] > 0 == alone.parts["experts"]


def test_memory_of_a_mixture_by_hand():
    """With ZeRO everything is cut over all 64 chips, experts by whichever axis: by `ep` first."""
    mixtral = model("mixtral-8x7b")
    for ep in (1, 2, 8):
        found = train.memory(mixtral, f"dp=16,tp=4,ep={ep},zero=3", 4096)
        assert found.weights == pytest.approx(2 * mixtral.parameters / 64)
        assert found.gradients == pytest.approx(4 * mixtral.parameters / 64)
        assert found.optimizer == pytest.approx(12 * mixtral.parameters / 64)
    routed = 32 * 8 * 3 * 4096 * 14336
    whole = train.memory(mixtral, "dp=16,tp=4,ep=8", 4096)
    assert whole.weights == pytest.approx(2 * ((mixtral.parameters - routed) / 4 + routed / 32))


@pytest.mark.parametrize("tp", [2, 8])
def test_buffers_of_tensor_parallelism_by_hand(tp):
    """Each layer gathers two inputs, of which a chip has its own part already."""
    how, tokens = train.constants(), 2048
    found = train.memory(LLAMA, f"tp={tp}", tokens)
    array = 2 * tokens * LLAMA.width
    gathered = LLAMA.layers * 2 * array * (tp - 1) / tp
    by_hand = how.runtime + how.gathered * gathered + how.passing * array
    assert found.buffers == pytest.approx(by_hand)


def test_experts_messages_by_hand():
    """Tokens go to their experts and come back, in the forward pass and in the backward one."""
    mixtral = model("mixtral-8x7b")
    step = train.step(mixtral, ON, "dp=16,tp=4,ep=8,zero=1,mbs=2,acc=3", 4096)
    (sent,) = [one for one in step.exchanges if one.name == "experts"]
    assert (sent.n, sent.messages) == (8, 3 * mixtral.layers * 2 * 2)
    # Two experts of each token, in bf16, of a quarter of the tokens of two sequences.
    assert sent.bytes == pytest.approx(2 * 4096 * 2 * mixtral.width * 2 / 4)


def test_layouts_fit_are_ranked_and_say_what_the_others_lose_by():
    ranked = train.layouts(LLAMA, ON, 256, 4096)
    behind = [one.behind for one in ranked]
    assert behind == sorted(behind)
    # The first is the fastest but for what its memory may cost.
    fastest = min(ranked, key=lambda one: one.step.expected_s)
    assert ranked[0].step.expected_s < 1.1 * fastest.step.expected_s
    assert ranked[0].step.risk <= max(fastest.step.risk, 0.1)
    assert ranked[0].why == ""
    assert ranked[0].behind == 0
    for one in ranked[1:20]:
        best = ranked[0].step
        assert one.step.fits
        assert one.layout.batch == 256
        assert one.why in train.PARTS
        assert one.step.expected_s < best.expected_s or (
            one.step.parts[one.why] >= best.parts[one.why]
        )
    assert train.layouts(LLAMA, "1xh100-sxm", 4, 4096, recompute=("full",)) == []
    assert len(train.layouts(LLAMA, ON, 256, 4096, most=3)) == 3


def test_a_run_costs_its_days_and_failures_cost_more():
    asked = (LLAMA, ON, "dp=8,tp=8,zero=1,mbs=2,acc=4", 4096, 1e12)
    one = train.run(*asked, usd_per_hour=2.0)
    assert one.usd == pytest.approx(one.days * 24 * 64 * 2)
    assert one.days * one.goodput * 86400 == pytest.approx(one.steps * one.step.expected_s)
    often = train.run(*asked, usd_per_hour=2.0, chip_failure_days=20.0)
    assert often.days > one.days
    assert often.interval < one.interval
    with pytest.raises(CourseError, match="no time to train"):
        train.run(*asked, chip_failure_days=0.001)


def test_the_best_interval_between_checkpoints_is_the_best():
    stops, apart = 30.0, 86400.0
    best = train.checkpoint_interval(stops, apart)
    around = [train.goodput(stops, apart, interval=best * by) for by in (0.5, 0.9, 1.0, 1.1, 2.0)]
    # Young's rule leaves out what a failure costs a checkpoint: it is next to the best.
    assert max(around) == pytest.approx(around[2], rel=1e-3)
    assert around[0] < around[2] > around[4]


def test_a_save_takes_its_fixed_time_however_many_nodes_write():
    # By hand: 16,384 chips that each fail every 2,000 days fail every 10,547 s, and
    # sqrt(2 * 5 * 10547) = 325 s; 14 bytes of 8e9 parameters over 2,048 nodes at 2 GB/s are 27 ms.
    apart = 2000 * 86400 / 16384
    save = train.save_time(14 * 8e9, 2048 * 2e9)
    assert save == pytest.approx(5.027, abs=1e-3)
    assert train.checkpoint_interval(save, apart) == pytest.approx(325.6, abs=0.1)
    assert train.goodput(save, apart, restart=600) == pytest.approx(0.913, abs=5e-4)
    assert train.save_time(112e9, 2e9, fixed=0) == 56
    many = ("llama-3-8b", "1024xh100-sxm", "dp=128,tp=8,zero=1,mbs=2,acc=4", 4096, 1e12)
    assert train.run(*many).interval > 2 * train.run(*many, save_fixed=0).interval


def test_refused_layouts_say_why():
    assert footprints.refuse_layout(LLAMA, train.Layout(tp=5), 4096).startswith("tp must divide")
    assert footprints.refuse_layout(LLAMA, train.Layout(cp=3, dp=3), 4096).startswith(
        "cp must divide"
    )
    assert footprints.refuse_layout(LLAMA, train.Layout(), 4096) == ""


def test_far_machines_are_slow_on_the_cluster_measured_alone():
    """512 chips are slower than 256 by the constants of one cluster, and by those alone."""
    few, many = (
        train.step(LLAMA, f"{n}xh100-sxm", f"dp={n // 2},tp=2,zero=1,acc={2048 // n}", 4096)
        for n in (256, 512)
    )
    assert many.expected_s < 0.6 * few.expected_s
    assert many.measured_s["nanotron"] > few.measured_s["nanotron"]
    named = train.step(
        LLAMA, "512xh100-sxm", "dp=256,tp=2,zero=1,acc=4", 4096, framework="nanotron"
    )
    assert named.expected_s == many.measured_s["nanotron"]


def test_a_range_widens_with_chips_tokens_formats_and_machines_unseen():
    how = train.constants()
    near = steps.step_range(how, train.cluster("512xh100-sxm"), 4096)
    for chips, tokens, dtype in (
        ("512xb200-sxm", 4096, "bf16"),
        ("512xh100-sxm", 10**6, "bf16"),
        ("512xh100-sxm", 4096, "fp8"),
        ("100000xh100-sxm", 4096, "bf16"),
    ):
        low, high = steps.step_range(how, train.cluster(chips), tokens, dtype)
        assert low < near[0]
        assert high > near[1]


def test_time_does_not_jump_where_memory_is_nearly_full():
    """A tenth more memory, which nobody predicts better, costs no factor of two."""
    at = parallelism.columns([train.Layout(mbs=m) for m in range(1, 40)], 128)
    one, on = train.shapes()["1B"], train.cluster("1xh100-sxm")
    done = steps.times(one, on, at, train.constants("nanotron"))
    full = done.parts["pressure"] / (done.expected - done.parts["pressure"])
    rise = np.diff(full) / np.diff(np.log(done.memory["total"]))
    how = train.constants("nanotron")
    assert np.max(rise) < 1.1 * how.pressure * 1.702 / 4 / how.memory


def test_a_tied_embedding_warns_and_does_not_refuse():
    step = train.step("mpt-1b", "16xh100-sxm", "dp=8,pp=2,acc=4", 2048)
    assert step.fits
    assert "tied embedding" in step.warning
    assert train.step("mpt-1b", "16xh100-sxm", "dp=8,pp=2,acc=4,zero=1", 2048).warning == ""


def test_fp8_halves_the_products_of_layers_and_nothing_else():
    given = LLAMA, "8xh100-sxm", "dp=8,zero=3,mbs=2", 4096
    wide, narrow = (train.step(*given, dtype=dtype) for dtype in ("bf16", "fp8"))
    head = wide.parts["products"] - 2 * (wide.parts["products"] - narrow.parts["products"])
    assert 0 < head < 0.1 * wide.parts["products"]
    assert narrow.parts["attention"] == wide.parts["attention"]
    assert narrow.bound_s < wide.bound_s
    with pytest.raises(CourseError, match="fp8"):
        train.step(LLAMA, "8xa100-sxm-80", "dp=8,zero=3,mbs=2", 4096, dtype="fp8")


def test_frozen_weights_cost_two_passes_and_no_states():
    given = LLAMA, "1xh100-sxm", "mbs=2", 1024
    full, lora, qlora = (train.step(*given, method=how) for how in ("full", "lora", "qlora"))
    assert train.method("lora,r=8").trainable(model("llama-2-7b")) == 32 * 8 * 2 * 8192
    assert lora.bound_s == pytest.approx(full.bound_s * 2 / 3, rel=0.04)
    assert lora.memory.optimizer < full.memory.optimizer / 500
    assert qlora.memory.weights < 0.4 * lora.memory.weights
    assert (full.fits, qlora.fits) == (False, True)
    assert qlora.parts["traffic"] > lora.parts["traffic"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("lora,rank=4", "unknown name"), ("lora,r=x", "must be as"), ("dora", "unknown method"),
     ("lora,w=nf4", "is for method qlora"), ("lora,on=q", "unknown on")],
)  # fmt: skip
def test_a_wrong_method_is_refused_with_its_fault(text, said):
    with pytest.raises(CourseError, match=said):
        train.method(text)


def test_conventions_lie_in_their_order():
    said = train.conventions(LLAMA, "h100-sxm", 6000, 8192, recompute="full")
    assert list(said) == ["6nd", "causal", "square", "hfu"]
    assert list(said.values()) == sorted(said.values())
