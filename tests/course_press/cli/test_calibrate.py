import json
import tomllib

from typer.testing import CliRunner

from course_lib import CourseError, calibrate, llm, n
from course_lib.measured import FOLDER
from course_lib.measured.results import append
from course_press.cli.app import app
from tests.course_lib.calibrate.test_fit import TRUE, rows


def course(*arguments):
    return CliRunner().invoke(app, arguments)


def test_predict_shows_range_and_provenance():
    done = course("predict", "llama-2-7b", "a100-sxm-80", "--calibrated")
    likely = calibrate.predict(llm.decode("llama-2-7b", "a100-sxm-80", 1, 1024), "a100-sxm-80")
    assert done.exit_code == 0
    assert (
        f"likely {n(likely.expected, 's')}, in 80 of 100 cases {n(likely.low, 's')} to "
        f"{n(likely.high, 's')}" in done.output
    )
    assert likely.source in done.output


def test_predict_says_whose_constants_it_took():
    assert (
        "a100-sxm-80's constants, for nobody measured l40s"
        in course("predict", "llama-2-7b", "l40s", "--calibrated").output
    )


def test_json_has_the_range_beside_an_unchanged_bound():
    plain, with_range = (
        json.loads(course("predict", "llama-2-7b", "h100-sxm", "--json", *more).stdout)
        for more in ((), ("--calibrated",))
    )
    found = with_range.pop("calibrated")
    assert plain == with_range
    assert plain["lower"] <= found["low"] <= found["expected"] <= found["high"]


def test_calibrate_writes_what_predict_takes(tmp_path):
    results, mine = tmp_path / "results.csv", tmp_path / "mine.toml"
    for row in rows(TRUE):
        append(results, row)
    done = course("calibrate", str(results), "--out", str(mine))
    assert done.exit_code == 0
    assert "62" in done.output
    assert tomllib.loads(mine.read_text())["points"] == 12
    shown = course(
        "predict", "llama-2-7b", "a100-sxm-80", "--calibrated", "--constants", str(mine)
    ).output
    assert "own measurements of NVIDIA A100-SXM4-80GB" in shown


def test_several_devices_need_a_choice(tmp_path):
    results = tmp_path / "results.csv"
    for row in rows(TRUE):
        append(results, row)
    refused = course("calibrate", str(results), "--device", "NVIDIA H300")
    assert isinstance(refused.exception, CourseError)
    assert "one device" in str(refused.exception)


def test_formats_without_a_peak_are_named():
    results = FOLDER / "lab-00" / "amd-epyc-2-cores" / "results.csv"
    done = course("calibrate", str(results), "--chip", "i5-8250u", "--out", "/dev/null")
    assert done.exit_code == 0
    assert "left out: products in bf16, fp16, int8" in done.output


def test_errors_say_what_to_do(tmp_path):
    missing = course("calibrate", str(tmp_path / "nothing.csv")).exception
    assert "is not there" in str(missing)
    lonely = course("predict", "llama-2-7b", "a100-sxm-80", "--constants", "mine.toml").exception
    assert "--constants needs --calibrated" in str(lonely)
