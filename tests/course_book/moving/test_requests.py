"""Requests in a small engine: what is drawn is what the simulation says, in every way of serving."""

from itertools import pairwise

import numpy as np
import pytest

from course_tools import serve
from course_book import moving, n, t
from course_book.moving import requests
from course_book.text import in_language

WAYS = ("static", "whole", "chunks", "little")
EACH = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def picture():
    return moving.batching("llama-3-8b", "h100-sxm")


@pytest.fixture(scope="module")
def runs():
    return {way: requests._run("llama-3-8b", "h100-sxm", way) for way in WAYS}


def scenes(picture, way):
    return picture.scenes[t(f"moving-batching-{way}")]


def texts(scene, step):
    return [shape.at("text", step) for shape in scene.shapes if shape.tag == "text"]


@EACH
def test_all_answers_are_given_and_steps_follow_one_another(runs, way):
    run = runs[way]
    assert [len(times) for times in run.made] == run.requests.output.tolist()
    assert all(list(times) == sorted(times) for times in run.made)
    assert all(b.start >= a.end for a, b in pairwise(run.steps))
    assert all(len(step.cached) <= requests._PLACES for step in run.steps)


def test_each_way_shows_what_it_is_for(runs):
    first, pause = (
        {way: value(run) for way, run in runs.items()}
        for value in (
            lambda run: float(np.mean([times[0] for times in run.made] - run.requests.arrived)),
            lambda run: run.pause(run.end),
        )
    )
    begun = {way: {next(iter(step.chunks)) for step in run.steps if step.chunks}
             for way, run in runs.items()}  # fmt: skip
    assert len(begun["static"]) == 2  # two batches, each begun in one step
    assert first["static"] > 2 * first["whole"]
    assert pause["whole"] > 3 * pause["chunks"]
    # Only where the cache is too small is anything computed twice.
    prompts = {way: sum(sum(step.chunks.values()) for step in run.steps)
               for way, run in runs.items()}  # fmt: skip
    asked = int(runs["whole"].requests.prompt.sum())
    assert [prompts[way] == asked for way in WAYS] == [True, True, True, False]
    assert runs["little"].end > runs["whole"].end


@EACH
def test_the_engine_of_each_way_is_the_one_of_the_library(picture, runs, way):
    run, engine = runs[way], serve.engine("vllm", **requests._ALL | requests._WAYS[way])
    if way != "static":
        done = serve.service("llama-3-8b", "h100-sxm", engine_of=engine).run(run.requests)
        assert [times[-1] for times in run.made] == pytest.approx(done.last)
        assert [times[0] for times in run.made] == pytest.approx(done.first)
        assert run.end == pytest.approx(done.makespan)
    for scene in scenes(picture, way):
        assert len(scene.says) == len(run.steps) + 2
        assert n(run.end, "s") in scene.says[-1]
        assert {n(run.end, "s"), n(int(run.requests.output.sum()))} <= set(
            texts(scene, len(scene.says) - 1)
        )


@EACH
@pytest.mark.parametrize("size", [0, 1])
def test_steps_are_as_wide_as_they_are_long_and_bars_end_at_their_ends(picture, runs, way, size):
    scene, steps = scenes(picture, way)[size], runs[way].steps
    last = len(scene.says) - 1
    columns = [shape for shape in scene.shapes if shape.tag == "rect"][: len(steps)]
    wide = [column.at("width", 0) for column in columns]
    assert np.ptp(np.divide(wide, [step.end - step.start for step in steps])) < 30  # px/s of 590
    ends = {round(column.at("x", 0) + column.at("width", 0), 0) for column in columns}
    bars = [shape for shape in scene.shapes if shape.tag == "rect"
            and shape.at("tone", 0) in ("math", "memory") and shape.at("width", last) > 6
            and shape.at("opacity", 0) == 1 and shape.at("height", 0) == 14]  # fmt: skip
    assert len(bars) >= 2 * len(runs[way].made) - 1
    for bar in bars:
        right = bar.at("x", last) + bar.at("width", last)
        assert min(abs(right - end) for end in ends) <= 1


@pytest.mark.parametrize("size", [0, 1])
def test_the_present_step_stands_in_the_boxes_and_the_cache(picture, runs, size):
    scene, run = scenes(picture, "whole")[size], runs["whole"]
    step = run.steps[picture.still - 1]
    assert step.decoding
    ((joined, chunk),) = step.chunks.items()
    shown = texts(scene, picture.still)
    assert shown.count(n(chunk)) >= 1
    for words in (n(sum(step.cached.values())), n(run.room)):
        assert any(words in text for text in shown)
    says = scene.says[picture.still]
    assert n(joined + 1) in says
    assert n(step.end - step.start, "s") in says


@pytest.mark.parametrize("lang", ["en", "es", "ko"])
def test_every_event_is_told(runs, lang):
    with in_language(lang):
        says = {way: requests._messages(way, run) for way, run in runs.items()}
        lost = t("moving-batching-lost").split("{who}")[0]
        empty = t("moving-batching-empty").split("{empty}")[0].format(places=n(4))
    for way, sentences in says.items():
        assert any(lost in one for one in sentences) == (way == "little")
        assert any(empty in one for one in sentences) == (way == "static")
        assert not any("{" in one for one in sentences)


@pytest.mark.parametrize("seed", range(5))
def test_a_checked_step_yields_the_guesses_before_the_first_wrong_one_and_a_token(seed):
    scene = moving.guesses({"": (0.25, 2.0)}, seed=seed).scenes[""][0]
    drafts = [shape for shape in scene.shapes if shape.tag == "rect"][:4]
    made = 0
    for check in range(2, len(scene.says), 2):
        looks = [(draft.at("tone", check), draft.at("opacity", check)) for draft in drafts]
        kept = [tone == "math" for tone, _ in looks].index(False) if looks[3][0] != "math" else 4
        # Behind the first wrong one nothing is kept, and what was not even read is pale.
        assert [tone for tone, _ in looks[kept:]] == ["none"] * (4 - kept)
        assert all(pale < 1 for _, pale in looks[kept + 1 :])
        made += kept + 1
        shown = [shape for shape in scene.shapes if shape.at("opacity", check)]
        assert (
            sum(shape.at("height", check) == 22 for shape in shown if shape.tag == "rect") == made
        )
        assert sum(scene.seconds[1 : check + 1]) == pytest.approx(check / 2 * (4 * 0.25 + 2.0))
