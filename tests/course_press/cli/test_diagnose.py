import json

import pytest
from typer.testing import CliRunner

from course_tools import diagnosis
from course_tools.diagnosis import differences, gaps, ncu
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.root_cause import BOUNDS
from course_book.text import in_language, t
from course_press.cli.app import app
from tests.course_tools.diagnosis.nsight import details


def diagnose(*arguments):
    return CliRunner().invoke(app, ["diagnose", *map(str, arguments)])


def test_a_verdict_is_told_in_sentences():
    done = diagnose(diagnosis.seeded("copies"))
    assert done.exit_code == 0
    assert done.output.startswith("copies: ")
    for said in ("cause-copies", "advice-copies", "flow-busy"):
        assert t(said) in done.output
    assert "Memcpy DtoH" in done.output
    assert "aten::mm" in done.output
    assert "it is constructed, not recorded" in done.output


def test_json_is_what_the_library_says():
    for cause in ("strided", "at-roof", "unknown"):
        found = diagnosis.diagnose(diagnosis.seeded(cause))
        done = diagnose(diagnosis.seeded(cause), "--json")
        assert done.exit_code == 0
        told = json.loads(done.stdout)
        assert (told["cause"], told["confidence"]) == (found.cause, found.confidence)
        assert [one["seconds"] for one in told["evidence"]] == [
            one.seconds for one in found.evidence
        ]
        assert told["gain"]["seconds"] == found.gain == (found.seconds if cause == "strided" else 0)
        assert len(told["cannot_tell"]) == len(found.cannot_tell)
        assert [(one["question"], one["answer"]) for one in told["path"]] == [
            (t(f"flow-{key}"), answer) for key, answer in found.path
        ]


def test_each_answer_names_what_it_rests_on():
    with_bounds, without = (
        json.loads(diagnose(diagnosis.seeded(cause), "--json").stdout)["path"]
        for cause in ("at-roof", "wrong-format")
    )
    assert with_bounds[2]["basis"].endswith("times its bound")
    assert [one["answer"] for one in without[2:4]] == ["not-known"] * 2
    assert [one["basis"] for one in without[2:4]] == ["", ""]
    assert "aten::mm" in without[1]["basis"]
    assert "no question after that" in diagnose(diagnosis.seeded("unknown")).output.replace(
        "\n", " "
    )


def test_small_calls_are_not_called_slow():
    assert " small" in diagnose(diagnosis.seeded("launch-bound")).output
    assert " small" not in diagnose(diagnosis.seeded("at-roof")).output


def test_every_key_that_a_verdict_has_is_put_into_words():
    for cause in diagnosis.CAUSES:
        assert t(f"cause-{cause}")
        assert t(f"advice-{cause}")
    for advice in (
        *names._patterns("host work"),
        "allocator",
        "start",
        "misaligned",
        "spread",
        "function",
        "loader-cpu",
    ):
        assert t(f"advice-{advice}")
    for key in ("graph", "shapes", "host", "device", "ranks", "window", "call", *BOUNDS):
        assert t(f"lacks-{key}")


def test_what_the_trace_cannot_tell_is_said_with_the_remedy():
    done = diagnose(diagnosis.seeded("unknown"))
    assert done.exit_code == 0
    assert "enforce_eager=True" in done.output


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    file = tmp_path / "half.json"
    file.write_text('{"traceEvents": [{"ph": "X"')
    done = diagnose(file)
    assert done.exit_code == 1
    assert "half.json is cut off after" in done.output
    assert diagnose(tmp_path / "none.json").exit_code == 1


def test_a_chip_that_nobody_knows_is_bad_input():
    done = diagnose(diagnosis.seeded("at-roof"), "--chip", "h1000")
    assert "chip" in str(done.exception)
    told = json.loads(diagnose(diagnosis.seeded("at-roof"), "--chip", "h200-sxm", "--json").stdout)
    assert told["chip"] == "h200-sxm"


def test_counters_sums_and_differences_are_told_in_every_language(tmp_path, monkeypatch):
    counters, sums = tmp_path / "counters", tmp_path / "sums"
    counters.write_text(
        details(("sgemm", {"DRAM Throughput": ("%", "91"), "Duration": ("us", "9")}))
    )
    sums.write_text("Time (%),Total Time (ns),Instances,Name\n100.0,2500,5,add\n")
    product = diagnosis.seeded("at-roof")
    for lang in ("en", "es", "ko"):
        monkeypatch.setenv("COURSE_LANG", lang)
        for arguments, said in (
            ([counters], ("tell-ncu-near-roof", "tell-ncu-lacks-tensor", "tell-roof-dram")),
            ([sums], ("tell-no-timeline", "tell-kernel")),
            ([diagnosis.seeded("copies"), product], ("tell-part-idle", "tell-unmarked")),
            ([counters, counters], ("tell-part-own", "tell-no-timeline")),
        ):
            done = diagnose(*arguments)
            assert done.exit_code == 0, done.output
            assert all(t(key) in done.output for key in said)
            assert json.loads(diagnose(*arguments, "--json").stdout)


def test_counters_beside_a_trace_have_what_it_counts_in_either_order(tmp_path):
    file = tmp_path / "counters"
    file.write_text(details(("k", {"DRAM Throughput": ("%", "91")})))
    for arguments in ([file, diagnosis.seeded("at-roof")], [diagnosis.seeded("at-roof"), file]):
        told = json.loads(diagnose(*arguments, "--json").stdout)
        assert told["kernels"][0]["counted"] is None


def test_json_of_a_difference_adds_up():
    files = diagnosis.seeded("launch-bound"), diagnosis.seeded("at-roof")
    told = json.loads(diagnose(*files, "--steps", "2,4", "--json").stdout)
    assert told["steps"] == [2, 4]
    assert sum(told["parts"].values()) == pytest.approx(told["difference"])
    assert "two numbers such as 10,20" in str(diagnose(*files, "--steps", "2").exception)
    assert diagnose(files[0], "none").exit_code == 1


def test_every_key_that_counters_have_is_put_into_words():
    for cause in ncu.CAUSES:
        assert t(f"tell-ncu-{cause}")
    for key in ncu.SECTIONS:
        assert t(f"tell-ncu-lacks-{key}")
    for key in differences.PARTS:
        assert t(f"tell-part-{key}")
    for key in ("graph", "shapes", "host"):
        assert t(f"lacks-nsys-{key}")
    for roof in ("dram", "l2", "l1", "tensor", "issue", "pipe", "memory"):
        assert t(f"tell-roof-{roof}")


@pytest.mark.parametrize("lang", ["es", "ko"])
def test_what_has_no_row_of_its_own_is_named_in_the_readers_language(lang, monkeypatch):
    found = diagnosis.diagnose(diagnosis.seeded("host-bound"))
    assert found.evidence[0].what == gaps.NO_ROW
    monkeypatch.setenv("COURSE_LANG", lang)
    done = diagnose(diagnosis.seeded("host-bound"))
    assert gaps.NO_ROW not in done.output
    with in_language(lang):
        assert t("tell-one-host") in done.output
