"""Explorers of a serving engine: what they hold of its steps is what `serve` says, and what they
find by averages is what the closed forms give.
"""

import random
from types import SimpleNamespace

import pytest

from course_lib import chip
from course_tools import serve
from course_book import explore, t
from course_book.explore import averages, engines
from course_book.explore.grid import NONE

PICKED = [("llama-3-8b", "h100-sxm", 1), ("mixtral-8x7b", "mi300x", 1), ("llama-3-70b", "l4", 8)]


def paced(name, key, gpus):
    return engines._pace(name, key, gpus)[0]


def seconds(pace, decoding, chunk, seen):
    """A step as the chapter's cells ask for it."""
    cached = decoding * seen
    pairs = cached + chunk * (chunk + 1) / 2
    new, sequences = decoding + chunk, decoding + (chunk > 0)
    return pace.seconds(new, sequences, pairs, new, cached + chunk)


@pytest.mark.parametrize("machine", PICKED)
def test_steps_in_few_numbers_are_those_of_the_engine(machine):
    name, key, gpus = machine
    of, pick = engines.times(name, key, str(gpus), engines.STEPS), random.Random(name)
    for _ in range(200):
        batch, chunk = pick.randint(1, averages.USERS), int(pick.choice(engines.CHUNKS))
        seen = pick.choice(engines.CONTEXTS)
        found = averages.step_time(of, engines.STEPS, batch, chunk, seen)
        wanted = seconds(paced(*machine), batch, chunk, seen)
        assert found == pytest.approx(wanted, rel=2e-3), (batch, chunk, seen)


@pytest.mark.parametrize("machine", PICKED)
def test_a_load_is_what_the_chapter_counts(machine):
    name, key, gpus = machine
    of, pace = engines.times(name, key, str(gpus), engines.LOADS), paced(*machine)
    for prompt in (16, 1024, 3584):
        seen = prompt + 100
        one = averages.load(of, engines.LOADS, prompt, 200)
        each = (seconds(pace, 256, 0, seen) - seconds(pace, 1, 0, seen)) / 255
        adds = seconds(pace, 64, prompt, seen) - seconds(pace, 64, 0, seen)
        wanted = (seconds(pace, 1, 0, seen) - each, each, 1 / (adds + 200 * each))
        assert (one.fixed, one.each, one.most) == pytest.approx(wanted, rel=1e-3)


def test_the_largest_batches_are_where_limit_and_memory_end():
    server = serve.service("llama-3-8b", "h100-sxm", engine_of="vllm")
    rows = dict(explore.slo().shown())
    within = [b for b in range(1, 1025) if seconds(server.steps, b, 0, 1152) <= 0.03]
    room = server.blocks * server.engine.block_size // 1152
    assert (rows[t("slo-allowed")], rows[t("largest-batch")]) == (str(within[-1]), str(room))
    assert dict(explore.slo().shown(batch=within[-1]))[t("slo-limit-short")] == t("slo-within")
    assert dict(explore.slo().shown(batch=within[-1] + 1))[t("slo-limit-short")] == t("slo-over")
    assert dict(explore.slo().shown(batch=room))[t("in-memory")] == t("fits")
    assert dict(explore.slo().shown(batch=room + 1))[t("in-memory")] == t("does-not-fit")
    large = dict(explore.slo("llama-3-70b").shown(batch=1))
    assert (large[t("in-memory")], large[t("slo-first")]) == (t("does-not-fit"), t("memory"))
    open_end = dict(explore.slo(key="b200-sxm", seen=128, limit=500).shown())
    assert (open_end[t("slo-allowed")], open_end[t("slo-first")]) == ("1,024", NONE)


LOAD = averages.Load(
    fixed=0.01, each=1e-4, adds=0.02, most=20.0, output=300.0, places=256.0, admits=256.0
)


@pytest.mark.parametrize(
    ("first", "tpot", "places", "kept", "binds"),
    [
        (9.0, 0.04, 256, 20 * (1 - 0.01 / 0.04), 0),
        # Little: places = rate * output * fixed / (1 - rate / most)
        (9.0, 9.0, 256, 1 / (1 / 20 + 300 * 0.01 / 256), 2),
        (9.0, 9.0, 40, 1 / (1 / 20 + 300 * 0.01 / 40), 3),
        (0.01, 9.0, 256, 0, 1),
        (9.0, 0.009, 256, 0, 0),
        (9.0, 9.0, 0, 0, 4),
    ],
)
def test_what_a_replica_bears_is_where_the_first_average_ends(first, tpot, places, kept, binds):
    one = SimpleNamespace(
        **averages.fleet(LOAD._replace(places=places), first, tpot, 0.9, 50.0, 2, 3.0, 0.5)
    )
    assert one.kept == pytest.approx(kept, rel=1e-9)
    assert one.binds == binds
    if not kept:
        assert one.replicas == one.usd == float("inf")
        assert one.load != one.load
        return
    assert one.replicas - 1 < 50 / (0.9 * kept) <= one.replicas
    assert one.gpus == 2 * one.replicas
    assert one.tpot == pytest.approx(0.01 / (1 - one.load / 20))
    assert one.users == pytest.approx(serve.in_system(one.load, 300 * one.tpot))
    assert one.usd == pytest.approx(serve.usd_per_mtoken(3.0 * one.gpus, 50 * 300.0))
    assert one.month == 3.0 * one.gpus * 365 * 24 / 12 / 1000


def test_the_time_to_first_token_ends_a_replica_where_it_reaches_its_limit():
    one = SimpleNamespace(**averages.fleet(LOAD, 0.1, 9.0, 1.0, 50.0, 1, 3.0, 0.5))
    assert one.binds == 1
    at = SimpleNamespace(**averages.fleet(LOAD, 9.0, 9.0, 1.0, one.kept, 1, 3.0, 0.5))
    assert at.load == one.kept
    assert at.first == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["rate", "output", "share", "tpot", "ttft"])
def test_a_plan_is_monotone(name):
    figure, pick = explore.capacity(), random.Random(name)
    values = sorted(pick.sample(list(figure.values(name)), 6))
    rows = [dict(figure.shown(**{name: value})) for value in values]
    gpus = [
        float("inf") if row["GPUs"] == t("never") else int(row["GPUs"].replace(",", ""))
        for row in rows
    ]
    assert gpus == sorted(gpus, reverse=name in ("share", "tpot", "ttft"))


def test_a_plan_by_averages_is_that_of_the_chapter_and_a_narrow_margin_saves():
    whole, chosen = (dict(explore.capacity(price=3.0, share=share).shown()) for share in (100, 90))
    assert (whole["GPUs"], chosen["GPUs"]) == ("5", "6")
    for key in ("h100-sxm", "a100-sxm-80"):
        of = engines.times("llama-3-8b", key, "1", engines.LOADS)
        assert of.admits == serve.engine(engines.ENGINE).on(chip(key)).max_num_seqs
