import json

from typer.testing import CliRunner

from course_tools import diagnosis
from course_tools.diagnosis.reading import names
from course_book.text import t
from course_press.cli.app import app


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
    for advice in (*names._patterns("host work"), "allocator", "start"):
        assert t(f"advice-{advice}")
    for key in ("graph", "shapes", "host", "device", "chip", "ranks", "window", "cpu", "call"):
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
