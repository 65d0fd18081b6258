import pytest

from course_lib import CourseError, chip, llm
from course_lib.measured import TABLES, UNSEEN, median_error, runs, table
from course_lib.specs import model


@pytest.mark.parametrize("name", TABLES + UNSEEN)
def test_no_published_run_is_faster_than_its_bound(name, record_property):
    found = runs(name)
    assert len(found) >= 4
    for run in found:
        assert run.measured > run.predicted > 0, run
    record_property("median_error", median_error(name))
    assert 0 < median_error(name) < 1.5


def test_what_is_left_out_is_what_cannot_be_compared():
    for name in TABLES:
        known = [
            row for row in table(name) if "llama" in row["model"].lower() and row["gpu"] != "AMD"
        ]
        assert len(known) - len(runs(name)) == (3 if name == "decode_lmdeploy_a100_static" else 0)
    left = {
        (run.batch, run.prompt + run.output)
        for run in runs("decode_lmdeploy_a100_static")
        if run.model == "llama-2-7b"
    }
    assert (64, 4096) not in left
    assert not llm.fits("llama-2-7b", "a100-sxm-80", 64, 4096, w="fp16").fits


def test_a_row_by_hand():
    run = next(
        run
        for run in runs("decode_lmdeploy_a100_static")
        if (run.batch, run.prompt, run.output) == (16, 128, 2048)
    )
    assert run.measured == pytest.approx(16 * 2048 / 1010.62)
    on, one = chip("a100-sxm-80"), model("llama-2-7b")
    weights, token = 2 * (one.parameters - 32000 * 4096), 32 * 2 * 4096 * 2
    must = 2047 * (weights + 16 * (128 + 1024) * token) / on.bandwidth
    assert must < run.predicted < 1.05 * must
    assert run.bound == "memory-bound"


def test_tensor_parallel_rows_count_all_chips():
    run = next(
        run for run in runs("decode_trtllm_v061_static") if run.tp == 4 and run.output == 2048
    )
    assert run.measured == pytest.approx(240 * 2048 / (4 * 525))


def test_an_unknown_table():
    with pytest.raises(CourseError, match="unknown table 'decode'"):
        runs("decode")
