"""Watts, joules and grams: what holds for any chip and any work, and what was counted by hand."""

import csv
import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from course_lib import CourseError, chip, llm, ops, roofline
from course_lib.specs import chips
from course_tools import energy, serve, train
from course_tools.files import DATA
from tests.each import each

POWERED = [key for key in chips() if chip(key).power]
SHARES = np.linspace(0, 1, 6)


@each("key", POWERED)
def test_a_chip_draws_between_its_idle_and_its_limit_and_more_the_more_it_does(key):
    of = energy.constants(key)
    assert min(of.idle, of.arithmetic, of.memory, of.link) >= 0
    assert of.source
    every = np.meshgrid(SHARES, SHARES, SHARES, indexing="ij")
    watts = sum(energy.draw(key, *every).values())
    assert watts.min() == pytest.approx(of.idle)
    assert watts.max() <= chip(key).power * (1 + 1e-9)
    for axis in range(3):
        assert np.all(np.diff(watts, axis=axis) >= -1e-9)


def test_a_chip_without_a_published_limit_is_refused_by_name():
    for key in set(chips()) - set(POWERED):
        with pytest.raises(
            CourseError, match=rf"{key} has no published power limit: give .*\[power\]"
        ):
            energy.draw(key, memory=0.5)


@pytest.mark.parametrize("key", ["h100-sxm", "b200-sxm", "a100-sxm-80", "mi300x", "rtx-4090"])
def test_prompts_draw_more_than_single_tokens_and_neither_passes_the_limit(key):
    steps = [llm.decode("llama-3-8b", key, b, 1024) for b in (1, 32)]
    steps.append(llm.prefill("llama-3-8b", key, 1, 4096))
    used = [energy.of_step(step, key) for step in steps]
    assert used[0].watts < used[1].watts < used[2].watts <= chip(key).power
    for one in used:
        assert one.low < one.joules < one.high
        assert sum(one.parts.values()) == pytest.approx(one.watts)
    # A token of many costs less than one of a few: the weights are read once.
    assert used[1].joules / 32 < used[0].joules / 4


OWN = ("h100-sxm", "h200-sxm", "b200-sxm")
"""Chips that have constants of their own, and whose products are measured to meet the limit."""


@pytest.mark.parametrize("key", OWN)
def test_a_few_sequences_draw_half_the_limit_and_a_large_product_all_of_it(key):
    limit = chip(key).power
    for batch in (1, 4, 16):
        few = energy.of_step(llm.decode("llama-3-8b", key, batch, 1024), key)
        assert 0.5 <= few.watts / limit <= 0.65
    product = energy.of_step(roofline(ops.matmul(8192, 8192, 8192), chip(key)), key)
    assert 0.95 <= product.watts / limit <= 1


@pytest.mark.parametrize("key", ["h100-sxm", "b200-sxm", "a100-sxm-80", "mi300x", "rtx-4090"])
def test_the_same_work_in_more_time_draws_less_and_never_less_than_waiting(key):
    for step in (llm.decode("llama-3-8b", key, 8, 1024), llm.prefill("llama-3-8b", key, 1, 4096)):
        seconds = float(step.lower) * np.geomspace(1, 1e4, 9)
        used = [energy.of_step(step, key, float(each)) for each in seconds]
        watts = [one.watts for one in used]
        assert all(one >= other for one, other in pairwise(watts))
        assert watts[0] <= chip(key).power * (1 + 1e-9)
        assert watts[-1] == pytest.approx(energy.constants(key).idle, rel=0.01)
        # Time takes energy, too: whoever is slower takes more of it.
        assert all(one.joules <= other.joules for one, other in pairwise(used))


@pytest.mark.parametrize("key", OWN)
def test_watts_grow_with_the_batch_and_joules_of_a_token_shrink(key):
    batches = [2**i for i in range(9)]
    used = [energy.of_step(llm.decode("llama-3-8b", key, b, 1024), key) for b in batches]
    assert all(one.watts <= other.watts * (1 + 1e-9) for one, other in pairwise(used))
    each = [one.joules / b for one, b in zip(used, batches, strict=True)]
    assert all(one > other for one, other in pairwise(each))


@each("key", POWERED)
def test_a_lower_clock_never_draws_more(key):
    clocks = np.linspace(0.3, 1, 8)
    watts = sum(energy.draw(key, 0.7 * clocks, 0.3, clock=clocks).values())
    assert np.all(np.diff(watts) >= -1e-9)
    assert watts[0] >= energy.constants(key).idle


def test_energy_is_watts_times_the_seconds_that_were_measured_of_all_chips():
    step = llm.decode("llama-3-70b", "h100-sxm", 16, 1024, tp=4, link="nvlink")
    one, four = (energy.of_step(step, "h100-sxm", 0.02, chips=many) for many in (1, 4))
    assert four.joules == pytest.approx(4 * one.joules)
    assert one.joules == pytest.approx(one.watts * 0.02)
    slow = energy.of_step(step, "h100-sxm", 20.0)
    assert slow.watts == pytest.approx(energy.constants("h100-sxm").idle, rel=0.01)
    assert slow.low >= 20.0 * energy.constants("h100-sxm").idle


def test_a_page_adds_up_the_joules_that_a_step_takes():
    on = chip("h100-sxm")
    of = energy.constants(on)
    of = SimpleNamespace(**{part: getattr(of, part) for part in energy.PARTS}, limit=on.power)
    for step in (llm.decode("llama-3-8b", on, 8, 1024), llm.prefill("llama-3-8b", on, 1, 4096)):
        for slower in (1.0, 1.5, 20.0):
            took = float(step.lower) * slower
            assert energy.joules(of, step, took) == pytest.approx(
                energy.of_step(step, on, took).joules
            )


def test_arithmetic_draws_the_cube_of_its_clock():
    """The energy of an operation is as the voltage squared, and there are fewer of them."""
    full, slow = (
        energy.draw("h100-sxm", 0.3 * clock, clock=clock)["arithmetic"] for clock in (1.0, 0.8)
    )
    assert slow == pytest.approx(0.8**3 * full)


def test_a_lower_clock_saves_more_watts_than_speed():
    full = sum(energy.draw("h100-sxm", 0.6).values())
    slow = sum(energy.draw("h100-sxm", 0.6 * 0.8, clock=0.8).values())
    assert slow < 0.8 * full


def test_production_watts_of_a_chip_that_its_maker_published_are_met():
    """Jouppi and others 2023: 121 W at least, 170 on average, 192 at most, of TPU v4."""
    step, read = (
        llm.decode("llama-3-8b", "tpu-v4", 8, 512),
        llm.prefill("llama-3-8b", "tpu-v4", 1, 2048),
    )
    for one in (step, read):
        assert 121 <= energy.of_step(one, "tpu-v4").watts <= 192


def test_a_service_that_waits_draws_its_idle_and_a_loaded_one_more():
    of = energy.constants("h100-sxm")
    found = []
    for rate in (0.01, 20.0):
        came = serve.synthetic_workload(rate, 40, 512, 64)
        done = serve.service("llama-3-8b", "h100-sxm").run(came)
        found.append(energy.of_service(done, "llama-3-8b", "h100-sxm"))
    assert of.idle <= found[0].watts < 1.1 * of.idle
    assert 2 * of.idle < found[1].watts < 700
    assert found[0].joules > found[1].joules


def test_training_draws_more_the_better_it_uses_its_chips():
    good, poor = (
        train.step("llama-3-8b", "64xh100-sxm", train.layout(how), 4096)
        for how in ("dp=64,zero=1,mbs=1,acc=4", "dp=4,tp=16,mbs=1,acc=1")
    )
    used = [energy.of_training(one) for one in (good, poor)]
    assert good.mfu > poor.mfu
    assert used[1].watts < used[0].watts <= 700
    assert used[0].joules == pytest.approx(64 * used[0].watts * good.expected_s)


def test_cooling_counts_once_and_for_the_host_too():
    assert energy.at_the_meter(700, 300, 1.3) == pytest.approx(1300)
    with pytest.raises(CourseError, match="pue must be at least 1"):
        energy.at_the_meter(700, 300, 0.9)


def test_a_kilowatt_hour_emits_what_its_grid_says_or_its_contract():
    for name, grid in energy.grids().items():
        assert grid.source, name
        assert 2000 < grid.year < 2100
        assert energy.emissions(energy.KWH, name) == pytest.approx(grid.grams_per_kwh)
    assert energy.emissions(5 * energy.KWH, 0.0) == 0
    day = energy.emissions(np.full(24, energy.KWH), np.linspace(100, 400, 24))
    assert day.sum() == pytest.approx(24 * 250)
    with pytest.raises(CourseError, match="grid 'Span'"):
        energy.emissions(1.0, "Span")


def test_a_reader_replaces_the_grids_by_a_file(tmp_path):
    (tmp_path / "own.csv").write_text("grid,year,grams_per_kwh\nroof,2026,41\n", encoding="utf-8")
    assert energy.grids(tmp_path / "own.csv")["roof"].grams_per_kwh == 41
    (tmp_path / "bad.csv").write_text("grid,year\nroof,2026\n", encoding="utf-8")
    with pytest.raises(CourseError, match="path must be a table of GridIntensity"):
        energy.grids(tmp_path / "bad.csv")


def test_no_measured_system_draws_less_than_its_chip_that_waits():
    with (DATA / "measured" / "decode_consumer_systems.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["peak_wall_power_w"]]
    named = {"4090": "rtx-4090", "Framework Mainboard (128GB)": "strix-halo"}
    met = [
        (float(row["peak_wall_power_w"]), energy.constants(key).idle)
        for row in rows
        for name, key in named.items()
        if name in row["system"]
    ]
    assert len(met) == 5
    assert all(wall > idle for wall, idle in met)


def test_energy_of_a_wider_range_of_time_is_a_wider_range():
    step = llm.decode("llama-3-8b", "h100-sxm", 8, 1024)
    measured, expected = (energy.of_step(step, "h100-sxm", s) for s in (0.009, None))
    assert measured.high / measured.low < expected.high / expected.low
    assert math.isclose(measured.high, measured.joules * 1.12)
