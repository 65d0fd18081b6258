"""A lab names its grader and its answers; what is wrong in its lab.toml is named with file and key."""

from pathlib import Path

import pytest

from course_lib import CourseError
from course_press import grading

LABS = Path(__file__).parents[3] / "labs"
ANSWER = """
[answers.A]
cause = "none"
operators = ["aten::mm"]
tells = { en = "all is well", es = "todo va bien", ko = "이상 없음" }
"""


@pytest.fixture
def lab(tmp_path):
    """A lab whose lab.toml holds what the test writes."""

    def put(text):
        folder = tmp_path / "07-small"
        folder.mkdir()
        (folder / "lab.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
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
