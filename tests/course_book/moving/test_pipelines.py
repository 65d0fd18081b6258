"""A pipeline's timeline: nobody computes before the neighbor has, and idles as the formula says."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError
from course_tools import train
from course_book import moving, n, t
from course_book.moving import timelines
from course_book.text import in_language

STAGES, BATCHES, CHUNKS, FORWARD = 4, 8, 2, 0.1
EACH = pytest.mark.parametrize("way", timelines.WAYS)
MANY = {"afab": 1, "1f1b": 1, "interleaved": CHUNKS}


@pytest.fixture(scope="module")
def picture():
    return moving.pipeline(STAGES, BATCHES, CHUNKS, forward=FORWARD)


@EACH
@given(stages=st.integers(1, 6), groups=st.integers(1, 4), chunks=st.integers(1, 4))
def test_every_pass_is_computed_once_after_what_it_needs(way, stages, groups, chunks):
    batches, chunks = stages * groups, chunks if way == "interleaved" else 1
    slots = timelines.timetable(way, stages, batches, chunks)
    ends = {one[:4]: one.end for one in slots}
    assert len(ends) == len(slots) == 2 * stages * batches * chunks
    last = stages * chunks - 1
    for one in slots:
        place = one.chunk * stages + one.stage
        if one.backward:
            assert one.end - one.start == 2
            needed = (one.stage, one.chunk, one.batch, False)
            assert ends[needed] <= one.start
            if place < last:
                after = ((place + 1) % stages, (place + 1) // stages, one.batch, True)
                assert ends[after] <= one.start
        elif place:
            before = ((place - 1) % stages, (place - 1) // stages, one.batch, False)
            assert ends[before] <= one.start
    for stage in range(stages):
        own = sorted((one.start, one.end) for one in slots if one.stage == stage)
        assert all(a[1] <= b[0] for a, b in pairwise(own))


@EACH
@given(stages=st.integers(1, 6), groups=st.integers(1, 4), chunks=st.integers(1, 4))
def test_the_idle_share_of_a_step_is_the_closed_formula(way, stages, groups, chunks):
    batches, chunks = stages * groups, chunks if way == "interleaved" else 1
    slots = timelines.timetable(way, stages, batches, chunks)
    busy = sum(one.end - one.start for one in slots)
    whole = stages * max(one.end for one in slots)
    assert 1 - busy / whole == pytest.approx(train.bubble(stages, batches, chunks), abs=1e-12)


def test_one_of_each_in_turn_holds_no_more_than_there_are_stages():
    for way, wanted in {"afab": 8, "1f1b": 4, "interleaved": 4 * (1 + 3 / 8)}.items():
        plan = timelines._Schedule(
            timelines.timetable(way, STAGES, BATCHES, MANY[way]), STAGES, MANY[way]
        )
        assert plan.held(plan.end) == wanted


@EACH
@pytest.mark.parametrize("narrow", [False, True])
def test_what_is_drawn_is_the_bubble_that_is_said(picture, way, narrow):
    scene = picture.scenes[t(f"moving-pipeline-{way}")][narrow]
    last = len(scene.says) - 1
    rects = [one for one in scene.shapes if one.tag == "rect" and one.at("height", 0) != 12]
    areas = {
        line: sum(one.at("width", last) + (1 if line != "alarm" else 0)
                  for one in rects if one.at("line", 0) == line and one.at("width", last))
        for line in ("alarm", "math", "memory")
    }  # fmt: skip
    idle = areas["alarm"] / sum(areas.values())
    wanted = train.bubble(STAGES, BATCHES, MANY[way])
    assert idle == pytest.approx(wanted, rel=0.01)
    assert areas["memory"] == pytest.approx(2 * areas["math"], rel=0.01)
    assert n(wanted, "%") in scene.says[-1]
    texts = [one.at("text", last) for one in scene.shapes if one.tag == "text"]
    time = (BATCHES * MANY[way] + STAGES - 1) * 3 * FORWARD / MANY[way]
    assert {n(wanted, "%"), n(time, "s")} <= set(texts)


def test_time_runs_at_one_pace(picture):
    paces = {
        round((BATCHES * MANY[way] + STAGES - 1) * 3 * FORWARD / MANY[way]
              / sum(picture.scenes[t(f"moving-pipeline-{way}")][0].seconds[:-1]), 9)
        for way in timelines.WAYS
    }  # fmt: skip
    assert len(paces) == 1


@pytest.mark.parametrize("lang", ["en", "es", "ko"])
def test_what_waits_is_told(lang):
    with in_language(lang):
        one = moving.pipeline(STAGES, BATCHES, forward=FORWARD)
        fill, drain = (t(f"moving-pipeline-{key}").split("{")[0] for key in ("fill", "drain"))
        for wide, _ in one.scenes.values():
            assert any(says.startswith(fill) for says in wide.says)
            assert any(says.startswith(drain) for says in wide.says)
            assert not any("{" in says for says in wide.says)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        (("1f1b", 4, 8, 2), "chunks must be 1"),
        (("interleaved", 4, 6, 2), "multiple of the 4 stages"),
        (("gpipe", 4, 8, 1), "way"),
        (("afab", 0, 8, 1), "stages"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(given, refused):
    with pytest.raises(CourseError, match=refused):
        timelines.timetable(*given)
