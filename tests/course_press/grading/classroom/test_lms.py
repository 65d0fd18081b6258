"""What is packed for Gradescope, Otter-Grader and nbgrader gives the verdicts that `course grade` does.

Gradescope's image and nbgrader are played by what they run and by the rule by which they count; where
`otter` or `nbgrader` are on PATH, they run themselves.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nbclient
import nbformat
import pytest

from course_lib import CourseError
from course_book.text import in_language
from course_press import grading
from course_press.grading.classroom import SYSTEMS, write_package
from tests.course_press.grading.classroom.simulated import FOLDERS, LABS, submissions, wanted

ROOT = LABS.parent
PYTHON = os.environ.get("COURSE_PYTHON", sys.executable)
STUBS = {lab: grading.graded_by(folder).file for lab, folder in FOLDERS.items()}
FEW = ("student-02", "student-21")
OTHERS = [student for student in submissions() if student not in FEW]
others = [pytest.param(one, marks=pytest.mark.exhaustive) for one in OTHERS]
wrong = pytest.param(FEW[1], marks=pytest.mark.exhaustive)  # others that fail are told of below


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """A lab's kit, packed once."""
    packed = {}

    def make(kind, lab, isolate=True):
        if (kind, lab, isolate) not in packed:
            out = tmp_path_factory.mktemp(kind) / "kit.zip"
            with in_language("en"):
                write_package(kind, ROOT, FOLDERS[lab], out, isolate=isolate)
            packed[kind, lab, isolate] = out
        return packed[kind, lab, isolate]

    return make


@pytest.fixture(scope="module")
def image(kit, tmp_path_factory):
    """A folder like Gradescope's /autograder, by lab."""
    made = {}

    def make(lab):
        if lab not in made:
            made[lab] = tmp_path_factory.mktemp("autograder")
            with zipfile.ZipFile(kit("gradescope", lab)) as opened:
                opened.extractall(made[lab] / "source")
        for name in ("submission", "results"):
            shutil.rmtree(made[lab] / name, ignore_errors=True)
            (made[lab] / name).mkdir()
        return made[lab]

    return make


def by_gradescope(home, path=os.environ["PATH"]):
    env = {"PATH": path, "AUTOGRADER": str(home), "COURSE_PYTHON": PYTHON}
    subprocess.run(["bash", home / "source" / "run_autograder"], env=env, check=False)
    return json.loads((home / "results" / "results.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("student", [FEW[0], wrong, *others])
def test_gradescope_gives_the_same_verdict(student, image, cells):
    lab, text, _ = submissions()[student]
    home = image(lab)
    (home / "submission" / STUBS[lab]).write_text(text, encoding="utf-8")
    results = by_gradescope(home)
    criteria = grading.graded_by(FOLDERS[lab]).criteria
    said = {"not judged before the others are met"}
    failed = [
        name
        for name, one in zip(criteria, results["tests"], strict=True)
        if one["status"] == "failed" and one["output"] not in said
    ]
    assert (results["extra_data"]["passed"], failed) == wanted(student)
    assert (results["score"] == 100) == results["extra_data"]["passed"]
    assert sum(one["score"] for one in results["tests"]) == pytest.approx(results["score"], abs=0.1)


def test_gradescopes_package_holds_no_reference_and_its_scripts_can_be_run(kit):
    with zipfile.ZipFile(kit("gradescope", "02")) as opened:
        names = set(opened.namelist())
        scripts = {one.filename for one in opened.infolist() if one.external_attr >> 16 & 0o111}
    assert scripts == {"setup.sh", "run_autograder"}
    assert "labs/02-fusion-and-profiling/lab.toml" in names
    assert not {name for name in names if name.endswith("reference.py") or "__pycache__" in name}


FORGES = """
import os, pathlib
def measure(*_, **__):
    for place in ({results!r}, "/proc/%d/cwd/../results/results.json" % os.getppid()):
        try:
            pathlib.Path(place).write_text('{{"score": 100.0, "tests": []}}')
        except OSError:
            pass
    {then}
"""


def without_cells(folder):
    """A PATH without bubblewrap."""
    for tool in ("bash", "ls", "head", "chmod"):
        (folder / tool).symlink_to(shutil.which(tool))
    return str(folder)


def test_where_gradescope_lets_no_cell_be_made_nobody_gets_points_and_it_is_told(image, tmp_path):
    home, mark = image("00"), tmp_path / "ran"
    mark.parent.mkdir(exist_ok=True)
    (home / "submission" / "work.py").write_text(f"open({str(mark)!r}, 'w')\n")
    results = by_gradescope(home, without_cells(tmp_path))
    assert results["score"] == 0
    assert "cannot be isolated here" in results["output"].replace("\n", " ")
    assert not mark.exists()


def test_a_file_that_fails_in_gradescopes_cell_is_not_run_outside_of_one(image, cells):
    home = image("00")
    place = str(home / "results" / "results.json")
    text = FORGES.format(results=place, then="raise type('E', (Exception,), {'kind': 'x'})()")
    (home / "submission" / STUBS["00"]).write_text(text)
    results = by_gradescope(home)
    assert results["score"] == 0
    assert results["tests"]


@pytest.fixture
def another_user():
    """Skips, loudly, where no other user can run Python as this one does."""
    become = (
        "import os; os.setuid(61183); import numpy; open('course_press/grading/sandbox/frames.py')"
    )
    done = subprocess.run([PYTHON, "-c", become], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("NOT EXERCISED, another user's rights: Python cannot be run by one here")


def test_a_package_without_cells_lets_no_file_write_its_results(kit, another_user):
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        with zipfile.ZipFile(kit("gradescope", "00", isolate=False)) as opened:
            opened.extractall(home / "source")
        for name in ("submission", "results"):
            (home / name).mkdir()
        text = FORGES.format(results=str(home / "results" / "results.json"), then="os._exit(0)")
        text = text.replace("def measure", "assert os.getuid() != 0\ndef measure")
        (home / "submission" / STUBS["00"]).write_text(text)
        results = by_gradescope(home)
    assert results["score"] == 0
    assert "exit status 0" in results["tests"][0]["output"]


def test_without_a_file_gradescope_is_told_so(image):
    results = by_gradescope(image("02"))
    assert results["score"] == 0
    assert "not a file" in results["output"].replace("\n", " ")


@pytest.fixture
def notebook(kit, tmp_path):
    """nbgrader's notebook beside a student's file."""

    def make(student):
        lab, text, _ = submissions()[student]
        source = kit("nbgrader", lab) / "source" / f"lab-{lab}"
        there = tmp_path / "autograded"
        shutil.copytree(source, there)
        (there / STUBS[lab]).write_text(text, encoding="utf-8")
        return there / f"lab-{lab}.ipynb"

    return make


def counted(cell):
    """The points of a cell as nbgrader counts them: none after an error, or what it shows last."""
    if any(one.output_type == "error" for one in cell.outputs):
        return 0.0
    shown = [one.data["text/plain"] for one in cell.outputs if one.output_type == "execute_result"]
    return float(shown[-1]) if shown else float(cell.metadata.nbgrader.points)


@pytest.mark.parametrize("student", [FEW[0], wrong, *others])
def test_nbgrader_gives_the_same_verdict(student, notebook, cells):
    file = notebook(student)
    read = nbformat.read(file, as_version=4)
    nbclient.NotebookClient(
        read, timeout=300, resources={"metadata": {"path": file.parent}}
    ).execute()
    cell = read.cells[-1]
    assert (counted(cell) == 100) == wanted(student)[0]
    if not wanted(student)[0]:
        assert 0 < counted(cell) < 100
        assert "FAILED" in cell.outputs[0].text


def test_nbgrader_answers_in_the_language_that_was_asked_for(tmp_path):
    lab, text, _ = submissions()["student-21"]
    with in_language("es"):
        write_package("nbgrader", ROOT, FOLDERS[lab], tmp_path, isolate=False)
    file = tmp_path / "source" / f"lab-{lab}" / f"lab-{lab}.ipynb"
    (file.parent / STUBS[lab]).write_text(text, encoding="utf-8")
    read = nbformat.read(file, as_version=4)
    nbclient.NotebookClient(
        read, timeout=300, resources={"metadata": {"path": file.parent}}
    ).execute()
    assert "Se cumplen 6 de 7 criterios" in read.cells[-1].outputs[0].text
    assert 0 < counted(read.cells[-1]) < 100


@pytest.mark.exhaustive
@pytest.mark.skipif(
    not shutil.which("nbgrader"), reason="NOT EXERCISED, nbgrader itself: it is not on PATH"
)
@pytest.mark.parametrize("lab", FOLDERS)
def test_nbgrader_itself_gives_the_same_verdicts(lab, kit, tmp_path, cells):
    course = shutil.copytree(kit("nbgrader", lab), tmp_path / "course")
    subprocess.run(["nbgrader", "generate_assignment", f"lab-{lab}"], cwd=course, check=True)
    hers = {one: text for one, (which, text, _) in submissions().items() if which == lab}
    for student, text in hers.items():
        there = shutil.copytree(
            course / "release" / f"lab-{lab}", course / "submitted" / student / f"lab-{lab}"
        )
        (there / STUBS[lab]).write_text(text, encoding="utf-8")
    subprocess.run(["nbgrader", "autograde", f"lab-{lab}"], cwd=course, check=True)
    subprocess.run(["nbgrader", "export"], cwd=course, check=True)
    with (course / "grades.csv").open(encoding="utf-8") as opened:
        found = {row["student_id"]: float(row["score"]) == 100 for row in csv.DictReader(opened)}
    assert found == {student: wanted(student)[0] for student in hers}


@pytest.mark.exhaustive
@pytest.mark.skipif(
    not shutil.which("otter"), reason="NOT EXERCISED, Otter-Grader itself: it is not on PATH"
)
@pytest.mark.parametrize("student", submissions())
def test_otter_itself_gives_the_same_verdict(student, kit, tmp_path, cells):
    lab, text, _ = submissions()[student]
    file, out = tmp_path / STUBS[lab], tmp_path / "out"
    file.write_text(text, encoding="utf-8")
    out.mkdir()
    call = ["otter", "run", "-a", kit("otter", lab), "-o", out, "--no-logo", file.name]
    subprocess.run(call, cwd=tmp_path, check=True)
    results = json.loads((out / "results.json").read_text())
    assert (results["score"] == pytest.approx(100)) == wanted(student)[0]


def test_otters_package_has_a_test_for_each_criterion(kit):
    with zipfile.ZipFile(kit("otter", "03")) as opened:
        text = opened.read("tests/lab.py").decode()
    compile(text, "lab.py", "exec")
    for name in grading.graded_by(FOLDERS["03"]).criteria:
        assert f"@test_case(name={name!r}, " in text


@pytest.mark.parametrize("kind", SYSTEMS)
def test_the_same_files_make_the_same_kit(kind, tmp_path):
    for name in ("one", "two"):
        write_package(kind, ROOT, FOLDERS["02"], tmp_path / name / "kit")
    files = [
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("one", "two")
    ]
    assert files[0] == files[1]


def test_another_kit_is_refused(tmp_path):
    with pytest.raises(CourseError, match="unknown kit 'gradscope': did you mean 'gradescope'"):
        write_package("gradscope", ROOT, FOLDERS["00"], tmp_path / "kit.zip")
