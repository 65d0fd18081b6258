"""Parts of a chip: they build its peak and its bandwidth, and what cannot be is refused."""

import msgspec
import pytest

from course_lib import CourseError, chip, chips
from course_lib.specs import DATA, PARTS, Accelerator
from course_lib.specs.ranges import check_figures

BUILT = [key for key in chips() if "multiply_adds" in chip(key).parts]


@pytest.mark.parametrize(
    ("key", "units", "each", "clock", "printed"),
    [
        ("h100-sxm", 132 * 4, 512, 1.83e9, 989.4e12),
        ("a100-sxm-80", 108 * 4, 256, 1.41e9, 312e12),
        ("tpu-v5e", 4, 128 * 128, 1.5e9, 197e12),
        ("tpu-v5p", 8, 128 * 128, 1.75e9, 459e12),
    ],
)
def test_parts_give_the_printed_peak(key, units, each, clock, printed):
    one = chip(key)
    assert one.multiprocessors * one.parts["matrix_units"] == units
    assert (one.parts["multiply_adds"], one.clock) == (each, clock)
    assert 2 * units * each * clock == pytest.approx(printed, rel=0.003)
    assert one.peak("bf16") == printed


@pytest.mark.parametrize(("key", "clock"), [("h100-sxm", 2619e6), ("a100-sxm-80", 1593e6)])
def test_pins_give_the_printed_bandwidth(key, clock):
    one = chip(key)
    assert 8 * one.parts["pin_rate"] == pytest.approx(2 * clock)
    assert one.parts["pins"] * one.parts["pin_rate"] == pytest.approx(one.bandwidth, rel=0.001)


def test_a_load_takes_the_cycles_that_the_report_prints():
    h100 = chip("h100-sxm")
    names = ("shared_latency", "l1_latency", "cache_latency")
    times = [*(h100.parts[name] for name in names), h100.latency]
    cycles = [time * 1.98e9 for time in times]
    assert cycles == pytest.approx([29.88, 38, 219.35, 834.48], rel=0.003)


def test_only_what_was_looked_up_is_there():
    assert len(BUILT) == 4
    assert chip("t4").parts == {}
    assert all(set(chip(key).parts) <= set(PARTS) for key in chips())
    with pytest.raises(TypeError):
        chip("h100-sxm").parts["pins"] = 1


@pytest.mark.parametrize("name", ["multiply_adds", "matrix_units", "pin_rate", "pins"])
@pytest.mark.parametrize("factor", [0.5, 2])
def test_parts_that_do_not_make_the_whole_are_refused(name, factor):
    figures = dict(chip("h100-sxm").figures)
    figures[name] = msgspec.structs.replace(figures[name], value=figures[name].value * factor)
    with pytest.raises(CourseError, match=r"give of what is printed (0\.5|2), not 0\.97"):
        check_figures(figures)


def test_a_near_memory_does_not_answer_later_than_a_far_one():
    figures = dict(chip("h100-sxm").figures)
    figures["cache_latency"] = msgspec.structs.replace(figures["cache_latency"], value=900.0)
    with pytest.raises(CourseError, match="cache_latency"):
        check_figures(figures)


def test_an_unknown_part_is_refused(tmp_path):
    text = (DATA / "chips" / "a100-sxm-80.toml").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("[parts.pins]", "[parts.pin]"))
    with pytest.raises(CourseError, match=r"mine\.toml: unknown part 'pin': did you mean 'pins'"):
        Accelerator.from_toml(file)
