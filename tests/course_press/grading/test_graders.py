"""A lab names its grader and its answers; what is wrong in its lab.toml is named with file and key."""

import re
from pathlib import Path

import pytest

from course_lib import CourseError
from course_press import grading
from course_press.grading import lab as labs
from tests.course_press.conftest import need
from tests.course_press.grading.words import failures

LABS = Path(__file__).parents[3] / "labs"
OTHERS = """\
file = "mine.py"
criteria = ["runs"]
"""
ANSWER = """
[answers.A]
cause = "none"
operators = ["aten::mm"]
tells = { en = "all is well", es = "todo va bien", ko = "이상 없음" }
"""


# What its stub is told; lab 02's and lab 00's have tests of their own.
KINDLY = {
    "01": "raise NotImplementedError.*not implemented yet: your code goes here",
    "03": r"not implemented yet: fit\(steps\)",
    "04": "not implemented yet: add, bias_gelu_dropout, softmax, matmul, attention",
    "05": r"task 1 .*raise NotImplementedError.*not implemented yet",
}


@pytest.fixture
def lab(tmp_path):
    """A lab whose lab.toml holds what the test writes."""

    def put(text):
        folder = tmp_path / "07-small"
        folder.mkdir()
        (folder / "lab.toml").write_bytes(
            text if isinstance(text, bytes) else (OTHERS + text).encode()
        )
        return folder

    return put


def test_every_lab_has_a_grader_and_every_grader_a_lab():
    found = {folder.name[:2]: grading.grading(folder).grader for folder in LABS.glob("[0-9]*")}
    assert found == {
        "00": "benchmark",
        "01": "ring",
        "02": "diagnosis",
        "03": "serving",
        "04": "kernels",
        "05": "sharding",
    }
    assert set(found.values()) == set(grading.GRADERS)


@pytest.mark.parametrize("folder", [one.parent for one in sorted(LABS.glob("*/reference.py"))])
def test_the_reference_passes_every_criterion_that_its_lab_names(folder, supervised, lent):
    needs(folder)
    name = grading.grading(folder).grader  # begun anew they import for seconds, as cells' tests do
    verdicts = grading.GRADERS[name].grade(folder / "reference.py", supervisor=supervised(name))
    assert failures(verdicts) == {}
    assert [one.criterion for one in verdicts] == grading.graded_by(folder).criteria


def test_a_grader_begins_what_its_lab_asks_for(monkeypatch):
    begun = []

    def supervisor(preload, **more):
        begun.append((preload, more["environment"], more["readable"]))
        raise CourseError("enough")

    monkeypatch.setattr(labs, "Supervisor", supervisor)
    asked = [one for one in grading.GRADERS.values() if one.preload is not None]
    for one in asked:
        with pytest.raises(CourseError, match="enough"):
            one.grade(Path("mine.py"))
    assert begun == [(one.preload, one.environment, one.readable) for one in asked]


@pytest.mark.parametrize("number", KINDLY)
def test_the_stub_is_told_kindly(number, supervised):
    (folder,) = LABS.glob(f"{number}-*")
    needs(folder)
    name = grading.grading(folder).grader
    stub = folder / grading.graded_by(folder).file
    found = failures(grading.GRADERS[name].grade(stub, supervisor=supervised(name)))
    assert list(found) == ["runs"]
    assert re.search(KINDLY[number], found["runs"])


def needs(folder):
    """Skip where what a lab is about is not installed."""
    package = {"01": "torch", "04": "triton", "05": "jax"}.get(folder.name[:2], "numpy")
    need(package)


@pytest.mark.parametrize("folder", sorted(LABS.glob("[0-9]*")))
def test_a_missing_file_and_one_that_is_no_text_are_named(folder, tmp_path):
    name = grading.graded_by(folder).file
    with pytest.raises(
        CourseError, match=rf"'nowhere\.py' is not a file: give the path of your {name}"
    ):
        grading.grade(folder, Path("nowhere.py"))
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(CourseError, match="not text in UTF-8"):
        grading.grade(folder, tmp_path / "bytes.py")


def test_a_new_lab_needs_no_edit_of_the_press(lab, tmp_path):
    folder = lab('grader = "diagnosis"' + ANSWER)
    mine = tmp_path / "mine.py"
    mine.write_text('DIAGNOSIS = {"A": {"cause": "none", "operator": "aten::mm"}}')
    verdicts = grading.grade(folder, mine)
    assert [verdict.criterion for verdict in verdicts] == ["runs", "keys", "A"]
    assert all(verdict.passed for verdict in verdicts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "missing required field `grader`"),
        ('grader = "rings"', "unknown grader 'rings': did you mean 'ring'"),
        ("grader = 3", r"at `\$\.grader`"),
        ('grader = "ring"\nworlds = 4', "unknown field `worlds`"),
        ('grader = "ring', "lab.toml: "),
        (b"\xff", "lab.toml: "),
        (b'grader = "ring"\ncriteria = ["runs"]', "missing required field `file`"),
        (
            b'grader = "ring"\nfile = "x.py"\ncriteria = []',
            r"`array` of length >= 1 - at `\$\.criteria`",
        ),
        ('grader = "diagnosis"', "grader 'diagnosis' needs answers"),
        ('grader = "ring"' + ANSWER, "grader 'ring' takes no answers"),
        (
            'grader = "diagnosis"' + ANSWER.replace(', ko = "이상 없음"', ""),
            r"answers\.A\.tells has no text in 'ko'",
        ),
        (
            'grader = "diagnosis"' + ANSWER.replace('"none"', '"fate"'),
            r"'fate' - at `\$\.answers\[\.\.\.\]\.cause`",
        ),
        (
            'grader = "diagnosis"' + ANSWER.replace('["aten::mm"]', "[]"),
            r"at `\$\.answers\[\.\.\.\]\.operators`",
        ),
    ],
)
def test_a_wrong_lab_toml_is_named_with_its_key(lab, text, said):
    with pytest.raises(
        CourseError, match=r"^07-small/lab\.toml: .*" + said.removeprefix("lab.toml: ")
    ):
        grading.grade(lab(text), Path("mine.py"))


def test_a_lab_without_one_names_those_that_have(lab, tmp_path):
    lab('grader = "ring"')
    with pytest.raises(CourseError, match="lab '08' has nothing to grade: choose from 07"):
        grading.grade(tmp_path / "08-more", Path("mine.py"))
