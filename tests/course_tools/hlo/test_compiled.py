"""What is read from a compiled program: kinds, bytes, groups, loops, and what the CPU's compiler
makes of bf16."""

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from course_lib import CourseError, network
from course_tools import hlo
from course_tools.hlo.compiled import program
from tests.each import each

LAB = Path(__file__).parents[3] / "labs" / "05-sharding"
HEAD = "HloModule m, is_scheduled=true, num_partitions=8\n\n"
ADD = """\
%add{suffix} (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}}

"""


def sizes():
    """The sizes at which lab 05 compiles its programs."""
    spec = importlib.util.spec_from_file_location("programs", LAB / "programs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.B, module.D, module.F


def entry(*lines, before=""):
    """A program whose entry holds these lines."""
    return (
        HEAD + before + "ENTRY %main () -> f32[] {\n" + "".join(f"  {x}\n" for x in lines) + "}\n"
    )


def one(line, *more, before=""):
    """The collective of a program with this line."""
    (found,) = hlo.compiled_collectives(entry(line, *more, before=before))
    return found


def by_kind(found):
    total = Counter()
    for one in found:
        total[one.collective, one.group] += one.bytes * one.times
    return total


def expected(scheme):
    """What the network model says of a scheme."""
    total = Counter()
    for step in network.sharded_mlp(scheme, *sizes()):
        total[step.collective, network.SCHEMES[scheme][step.axis]] += step.bytes
    return total


@pytest.mark.parametrize("scheme", network.SCHEMES)
def test_six_shardings_exchange_exactly_the_bytes_of_the_model(scheme):
    found = hlo.compiled_collectives(hlo.compiled_example(scheme))
    assert by_kind(found) == expected(scheme)
    assert {each.dtype for each in found} == {"bf16"}
    assert all(each.widened for each in found), "no CPU adds or sends bf16 as XLA compiles it"
    link = network.resolve_link("h100-sxm", "nvlink", 8)
    steps = network.sharded_mlp(scheme, *sizes())
    assert hlo.compiled_seconds(found, link) == pytest.approx(sum(x.seconds for x in steps))


def test_what_is_read_from_the_kept_programs_is_what_jax_compiles_today(tmp_path):
    pytest.importorskip("jax")
    script = [sys.executable, "programs.py", "--out", str(tmp_path)]
    subprocess.run(script, cwd=LAB, check=True, capture_output=True, timeout=300)
    for scheme in network.SCHEMES:
        text = (tmp_path / f"{scheme}.txt").read_text(encoding="utf-8")
        assert by_kind(hlo.compiled_collectives(text)) == expected(scheme), scheme
        assert not re.search(r"^\d+ \"|/", text.partition("%")[0], re.MULTILINE), (
            "paths of a person"
        )


def test_the_experts_share_their_tokens_by_hand():
    """Eight chips with 1,024 tokens of 4,096 numbers each send all of them, and get them back."""
    first, second = network.sharded_mlp("experts", 8192, 4096, 16384, algorithm="switched")
    assert first.bytes == second.bytes == 1024 * 4096 * 2
    assert first.seconds == pytest.approx(7 / 8 * 1024 * 4096 * 2 / 450e9)


@pytest.mark.parametrize(
    ("scheme", "mesh", "sizes", "said"),
    [
        ("tensors", {"model": 8}, (64, 64, 64), "unknown scheme 'tensors': did you mean 'tensor'"),
        ("both", {"model": 8}, (64, 64, 64), "mesh must have the axes of scheme='both'"),
        ("experts", {"expert": 8}, (32, 64, 64), "B must give every chip as many tokens"),
        ("tensor", {"model": 16}, (64, 64, 64), "at most the 8 chips that nvlink joins"),
        ("fsdp", {"data": 8}, (64, 4, 64), "must divide by the chips of axis 'data'"),
    ],
)
def test_a_layer_that_cannot_be_shared_so_is_refused(scheme, mesh, sizes, said):
    with pytest.raises(CourseError, match=said):
        network.sharded_mlp(scheme, *sizes, mesh)


@each(
    ("line", "kind", "size", "group"),
    [
        ("%a = f32[64]{0} all-reduce(%x), replica_groups=[1,8]<=[8]", "all-reduce", 256, 8),
        ("%a = bf16[64]{0} all-gather(%x), replica_groups=[2,4]<=[8]", "all-gather", 128, 4),
        ("%a = s8[8]{0} reduce-scatter(%x), replica_groups=[1,8]<=[8]", "reduce-scatter", 64, 8),
        ("%a = f32[16,4] all-to-all(%x), replica_groups={}, dimensions={0}", "all-to-all", 256, 8),
        (
            "%a = (f32[4]{0}, f32[4]{0}, /*index=2*/f32[4]{0}, f32[4]{0}) all-to-all(%x, %y, %z, %w), "
            "replica_groups={{0,1,2,3},{4,5,6,7}}",
            "all-to-all",
            64,
            4,
        ),
        ("%a = (f32[4], bf16[8]) all-reduce(%x, %y), replica_groups={{0,1}}", "all-reduce", 32, 2),
        (
            "%a = f32[4]{0} collective-permute(%x), source_target_pairs={{0,1},{1,2},{2,0}}",
            "send",
            16,
            2,
        ),
        (
            "%a = (f32[8]{0}, f32[64]{0}) all-gather-start(%x), replica_groups=[1,8]<=[8]",
            "all-gather",
            256,
            8,
        ),
        (
            "%a = ((f32[8], f32[2]), (f32[64], f32[16])) all-gather-start(%x, %y), "
            "replica_groups=[1,8]<=[8]",
            "all-gather",
            320,
            8,
        ),
        ("%a = f32[64]{0} all-reduce-start(%x), replica_groups=[1,8]<=[8]", "all-reduce", 256, 8),
        (
            "%a = ((f32[64]), f32[8]) reduce-scatter-start(%x), replica_groups=[1,8]<=[8]",
            "reduce-scatter",
            256,
            8,
        ),
        (
            "%a = (f32[4], f32[4], u32[], u32[]) collective-permute-start(%x), "
            "source_target_pairs={{0,1}}",
            "send",
            16,
            2,
        ),
        (
            "%a = bf16[4,2]{1,0:T(8,128)(2,1)} all-gather(%x), replica_groups={}",
            "all-gather",
            16,
            8,
        ),
        ("%a = f8e4m3fn[64] all-gather(%x), replica_groups={}", "all-gather", 64, 8),
        ("%a = pred[64] all-gather(%x), replica_groups={}", "all-gather", 64, 8),
    ],
)
def test_kinds_bytes_and_groups_in_every_form(line, kind, size, group):
    found = one(line)
    assert (found.collective, found.bytes, found.group, found.times) == (kind, size, group, 1)
    assert not found.widened
    assert not found.sliced


PAIRS, EVENS = ((0, 4), (1, 5), (2, 6), (3, 7)), ((0, 2, 4, 6), (1, 3, 5, 7))


@each(
    ("form", "groups"),
    [
        ("{{0,4},{1,5},{2,6},{3,7}}", PAIRS),
        ("[4,2]<=[2,4]T(1,0)", PAIRS),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[2,4]<=[4,2]T(1,0)", EVENS),
        ("mesh['axis_0'=2,'axis_1'=4] {'axis_0'}", PAIRS),
        ("mesh['axis_0'=2,'axis_1'=4] {'axis_1'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['axis_0'=2,'axis_1'=4] {'axis_0','axis_1'}", (tuple(range(8)),)),
        ("mesh['a'=4,'b'=1,'c'=2], device_ids=([2,4]T(1,0)) {'a'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=4,'b'=2], device_ids=(0,4,1,5,2,6,3,7) {'b'}", PAIRS),
        ("mesh[data=8] {data:(1)2}", PAIRS),
        ("mesh[data=8] {data:(2)4}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh[data=8] {data:(1)4}", EVENS),
    ],
)
def test_groups_in_every_form(form, groups):
    found = one(f"%a = f32[4] all-reduce(%x), replica_groups={form}, use_global_device_ids=true")
    assert found.groups == groups
    assert found.group == len(groups[0])


def test_a_promoted_addition_counts_as_it_was_written():
    for suffix, widened, size in (("_promoted", True, 128), (".clone", False, 256)):
        found = one(
            "%p = bf16[64]{0} parameter(0)",
            "%w = f32[64]{0} convert(%p)",
            f"%a = f32[64] all-reduce(%w), replica_groups={{}}, to_apply=%add{suffix}",
            "ROOT %c = bf16[64] convert(%a)",
            before=ADD.format(suffix=suffix),
        )
        assert (found.widened, found.bytes) == (widened, size), suffix
        assert found.dtype == ("bf16" if widened else "fp32")


def test_a_gather_in_fp32_counts_as_what_it_was_converted_from_only_if_it_goes_on_so():
    gather = "%a = f32[64]{0} all-gather(%w), replica_groups={}"
    widened = one(gather, "ROOT %c = bf16[64] convert(%a)")
    assert (widened.dtype, widened.bytes, widened.widened) == ("bf16", 128, True)
    meant = one(gather, "%c = bf16[64] convert(%a)", "ROOT %d = f32[64] negate(%a)")
    assert (meant.dtype, meant.bytes, meant.widened) == ("fp32", 256, False)
    inside = """\
%narrow (p: f32[64]) -> f32[64] {
  %p = f32[64]{0} parameter(0)
  %c = bf16[64]{0} convert(%p)
  ROOT %w = f32[64]{0} convert(%c)
}

"""
    fused = one(gather, "ROOT %f = f32[64] fusion(%a), kind=kLoop, calls=%narrow", before=inside)
    assert (fused.dtype, fused.bytes) == ("bf16", 128)
    inside += (
        "%outer (q: f32[64]) -> f32[64] {\n  %q = f32[64]{0} parameter(0)\n  ROOT %g = f32[64] "
    )
    inside += "fusion(%q), kind=kLoop, calls=%narrow\n}\n\n"
    called = one(gather, "ROOT %f = f32[64] call(%a), to_apply=%outer", before=inside)
    assert (called.dtype, called.bytes) == ("bf16", 128)


def test_an_all_reduce_of_which_each_keeps_a_part_is_a_reduce_scatter():
    reduce = "%a = f32[64,4] all-reduce(%x), replica_groups=[1,8]<=[8]"
    part = "%s = f32[8,4] dynamic-slice(%c, %i, %z), dynamic_slice_sizes={8,4}"
    copy = "%c = f32[64,4] copy(%a)"
    found = one(reduce, copy, part)
    assert (found.collective, found.bytes, found.sliced) == ("reduce-scatter", 1024, True)
    kept = one(reduce, copy, part, "ROOT %all = f32[64,4] negate(%a)")
    assert (kept.collective, kept.sliced) == ("all-reduce", False)
    half = one(reduce, copy, "%s = f32[32,4] dynamic-slice(%c, %i, %z), dynamic_slice_sizes={32,4}")
    assert half.collective == "all-reduce"
    scaled = one(reduce, "%m = f32[64,4] multiply(%a, %k)", part.replace("%c", "%m"))
    assert scaled.collective == "all-reduce", "a compiler pairs only what stands side by side"
    asynchronous = one(
        reduce.replace("all-reduce(", "all-reduce-start("),
        "%c = f32[64,4] all-reduce-done(%a)",
        part,
    )
    assert asynchronous.collective == "reduce-scatter"


def loops(*trips, unknown=False):
    """A program with one all-gather in loops, each in the one before."""
    bodies, inner = [], "%a = f32[64] all-gather(%x), replica_groups={}"
    for depth, count in enumerate(reversed(trips)):
        bodies.append(f"%body.{depth} (p: f32[64]) -> f32[64] {{\n  {inner}\n}}\n\n")
        known = f'backend_config={{"known_trip_count":{{"n":"{count}"}},"other":{{"n":"9"}}}}'
        inner = f"%w.{depth} = f32[64] while(%t), condition=%c, body=%body.{depth}"
        inner += "" if unknown and depth == 0 else f", {known}"
    return hlo.compiled_collectives(entry(inner, before="".join(bodies)))


def test_a_collective_in_loops_runs_as_often_as_they_do_together():
    (found,) = loops(3, 5)
    assert (found.loops, found.times) == ((3, 5), 15)
    once, often = (hlo.compiled_seconds(loops(count), 450e9) for count in (1, 7))
    assert often == pytest.approx(7 * once)
    (unknown,) = loops(3, 5, unknown=True)
    assert (unknown.loops, unknown.times) == ((3, None), None)
    with pytest.raises(CourseError, match="found holds a in a loop whose number of runs is not in"):
        hlo.compiled_seconds([unknown], 450e9)


def test_calls_branches_and_fusions_are_looked_into():
    inner = "%{name} (p: f32[8]) -> f32[64] {{\n  ROOT %a = f32[64] all-gather(%p), replica_groups={{}}\n}}\n\n"
    before = "".join(inner.format(name=name) for name in ("one", "two"))
    for line, count in (
        ("%c = f32[64] call(%x), to_apply=%one", 1),
        ("%c = f32[64] conditional(%p, %x, %x), branch_computations={%one, %two}", 2),
        ("%c = f32[64] conditional(%p, %x, %x), true_computation=%one, false_computation=%two", 2),
        ("%c = f32[64] fusion(%x), kind=kCustom, calls=%two", 1),
        ("%c = ((f32[8]), f32[64]) async-start(%x), calls=%one", 1),
        ("%c = f32[64] map(%x), to_apply=%one", 0),
    ):
        assert len(hlo.compiled_collectives(entry(line, before=before))) == count, line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "text must be a compiled program"),
        ("%a = f32[4] all-reduce(%x)", "text must be a compiled program"),
        ("HloModule m\n", "text must hold an ENTRY computation"),
        (entry("%a = f32[4] ragged-all-to-all(%x)"), "a ragged-all-to-all, which network does not"),
        (entry("%a = f32[] call(%x), to_apply=%main"), "a computation that calls itself: main"),
        (
            entry("%a = f32[4] all-reduce(%x), replica_groups=[2,4]<=[9]"),
            "text is no whole program",
        ),
        (entry("%a = () all-gather(%x)", "%b = f32[4] convert(%a)"), "text is no whole program|"),
    ],
)
def test_what_is_no_program_is_refused(text, said):
    with pytest.raises(CourseError, match=said):
        hlo.compiled_collectives(text)


@pytest.mark.parametrize("cut", [0.3, 0.5, 0.9])
def test_a_text_that_breaks_off_is_refused_or_has_fewer(cut):
    whole = hlo.compiled_example("experts")
    try:
        found = hlo.compiled_collectives(whole[: int(cut * len(whole))])
    except CourseError:
        return
    assert len(found) < 2


def test_where_the_program_is_asked_for_no_devices_there_is_one():
    assert (
        program(entry("ROOT %z = f32[] constant(0)").replace(", num_partitions=8", "")).devices == 1
    )
    with pytest.raises(CourseError, match="unknown scheme 'fspd': did you mean 'fsdp'"):
        hlo.compiled_example("fspd")
    for found in ("x", 3, [3]):
        with pytest.raises(CourseError, match="found must hold compiled collectives"):
            hlo.compiled_seconds(found, 450e9)
