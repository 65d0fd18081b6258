"""A class is graded once, in cells, each student alike, whatever is handed in."""

import csv
import json
import os
import shutil
import subprocess
import time

import pytest

from course_lib import CourseError
from course_book.text import in_language
from course_press import grading
from course_press.grading.classroom import (
    driver,
    exports,
    grade_class,
    marking,
    read_roster,
    record,
)
from course_press.grading.classroom.submissions import Submission, find
from course_press.grading.isolation import isolated
from tests.course_press.conftest import course
from tests.course_press.grading.classroom.simulated import (
    FOLDERS,
    LABS,
    handed_in,
    submissions,
    wanted,
)

STUBS = {lab: grading.graded_by(folder).file for lab, folder in FOLDERS.items()}
FEW = ("student-02", "student-09", "student-21", "student-23")
"""Right and wrong ones of two labs that are graded fast."""


def rows(file):
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def graded(folder, out, **more):
    with isolated():
        return grade_class(folder, FOLDERS, out, **more)


def same(tmp_path, students, jobs):
    done = graded(handed_in(tmp_path / "in", students), tmp_path / "grades.csv", jobs=jobs)
    assert done.wrong == []
    for one in done.graded:
        failed = [mark.criterion for mark in one.marks if not mark.passed]
        assert (one.passed, failed) == wanted(one.student), one
        results = json.loads(
            (tmp_path / "grades" / "gradescope" / f"{one.student}-{one.lab}.json").read_text()
        )
        assert results["extra_data"]["passed"] == one.passed
        assert (results["score"] == 100) == one.passed
    table = rows(tmp_path / "grades.csv")
    assert {row["student"]: row["verdict"] == "passed" for row in table} == {
        student: wanted(student)[0] for student in students
    }
    book = rows(tmp_path / "grades" / "nbgrader.csv")
    assert {row["student_id"]: float(row["score"]) == 100 for row in book} == {
        student: wanted(student)[0] for student in students
    }


def test_there_are_ten_right_ones_and_twenty_with_a_mistake_in_all_labs():
    found = submissions()
    assert len(found) == 30
    assert sum(not criterion for _, _, criterion in found.values()) == 10
    assert {lab for lab, *_ in found.values()} == set(FOLDERS)


def test_each_of_a_few_gets_the_verdict_that_its_mistake_deserves(tmp_path, cells):
    same(tmp_path, FEW, jobs=2)


@pytest.mark.exhaustive
def test_each_of_thirty_gets_the_verdict_that_its_mistake_deserves(tmp_path, cells):
    same(tmp_path, submissions(), jobs=2)


@pytest.fixture
def fast(monkeypatch):
    """Grades by lab 02's way, which executes nothing, and counts."""
    calls = []

    def apart(one, folder):
        calls.append(one.student)
        return marking.mark(one, folder)

    monkeypatch.setattr(marking, "apart", apart)
    return calls


DIAGNOSED = ("student-09", "student-21", "student-22")


def test_a_second_run_grades_only_what_changed(tmp_path, fast):
    folder, out = handed_in(tmp_path / "in", DIAGNOSED), tmp_path / "grades.csv"
    grade_class(folder, FOLDERS, out)
    assert sorted(fast) == sorted(DIAGNOSED)
    before = out.read_text()
    fast.clear()
    grade_class(folder, FOLDERS, out)
    assert fast == []
    assert out.read_text() == before
    file = folder / "student-21" / STUBS["02"]
    shutil.copy(folder / "student-09" / STUBS["02"], file)
    done = grade_class(folder, FOLDERS, out)
    assert fast == ["student-21"]
    assert [one.passed for one in done.graded] == [True, True, False]


def test_what_a_killed_run_left_is_kept_and_its_half_line_graded_again(tmp_path, fast):
    folder, out = handed_in(tmp_path / "in", DIAGNOSED), tmp_path / "grades.csv"
    grade_class(folder, FOLDERS, out)
    kept = tmp_path / "grades" / "record.jsonl"
    content = kept.read_bytes()
    kept.write_bytes(content[:-20])
    fast.clear()
    done = grade_class(folder, FOLDERS, out)
    assert len(fast) == 1
    assert len(done.graded) == 3
    assert len(kept.read_bytes().splitlines()) == 3


def test_what_was_graded_unsafely_is_no_record_for_cells(tmp_path, fast, cells):
    folder, out = handed_in(tmp_path / "in", DIAGNOSED[:1]), tmp_path / "grades.csv"
    grade_class(folder, FOLDERS, out)
    graded(folder, out)
    assert len(fast) == 2
    grade_class(folder, FOLDERS, out)
    assert len(fast) == 2


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise KeyError('came')", "KeyError: 'came'"),
        *(
            pytest.param(*one, marks=pytest.mark.exhaustive)
            for one in (
                ("raise CourseError('busy')", "busy"),
                ("raise SystemExit('gone')", "ended without a word (gone)"),
            )
        ),
        ("os.kill(os.getpid(), 9)", "ended without a word ()"),
        ("time.sleep(60)", "judging it did not end within 8 s"),
        ("return msgspec.structs.replace(mark(one, folder), file='\\ud800')", "UnicodeEncodeError"),
    ],
)
def test_one_whose_judge_fails_keeps_nobody_from_a_grade_and_is_tried_again(
    tmp_path, monkeypatch, program, said
):
    """The judge of one student fails in some way, in the process that judges it, or here."""
    two = DIAGNOSED[:2]
    folder, out = handed_in(tmp_path / "in", two), tmp_path / "grades.csv"
    popen = subprocess.Popen

    def broken(call, **more):
        lines = (
            "import os, time, msgspec",
            "from course_lib import CourseError",
            "from course_press.grading.classroom import marking",
            "mark = marking.mark",
            "def broken(one, folder):",
            f"    if one.student == 'student-21': {program}",
            "    return mark(one, folder)",
            "marking.mark = broken",
            "marking.main()",
        )
        return popen([*call[:-2], "\n".join(lines), call[-1]], **more)

    with monkeypatch.context() as patch:
        patch.setattr(marking.subprocess, "Popen", broken)
        patch.setattr(marking, "LIMIT", 8.0 if "sleep" in program else 100.0)
        done = grade_class(folder, FOLDERS, out, jobs=2)
    assert [one.student for one in done.graded] == list(two)
    (wrong,) = done.wrong
    assert wrong.startswith("student-21, lab 02, could not be graded: ")
    assert said in wrong
    verdicts = {row["student"]: row["verdict"] for row in rows(out)}
    assert verdicts == {"student-09": "passed", "student-21": "unjudged"}
    assert said in (tmp_path / "grades" / "reports" / "student-21.txt").read_text()
    monkeypatch.setattr(marking, "apart", marking.mark)
    again = grade_class(folder, FOLDERS, out)
    assert again.wrong == []
    assert {row["verdict"] for row in rows(out)} == {"passed", "failed"}


def test_two_runs_do_not_write_one_record(tmp_path):
    with (
        record.Record(tmp_path / "record.jsonl"),
        pytest.raises(CourseError, match="in use by another run"),
        record.Record(tmp_path / "record.jsonl"),
    ):
        pass


def test_where_the_reference_fails_nobody_is_graded(tmp_path):
    broken = tmp_path / "03-serving"
    shutil.copytree(FOLDERS["03"], broken)
    shutil.copy(broken / "serving.py", broken / "reference.py")
    folder = handed_in(tmp_path / "in", ["student-23"])
    with pytest.raises(CourseError, match="reference of lab 03 itself fails on this computer"):
        grade_class(folder, {"03": broken}, tmp_path / "grades.csv")


def test_each_student_is_told_in_their_language_and_the_summary_names_nobody(tmp_path):
    folder, roll = handed_in(tmp_path / "in", DIAGNOSED), tmp_path / "roll.csv"
    roll.write_text("id,language\nstudent-09,ko\nstudent-21,es\nstudent-22,\nzoe,en\n")
    with in_language("en"):
        grade_class(folder, FOLDERS, tmp_path / "grades.csv", roster=read_roster(roll))
    beside = tmp_path / "grades"
    told = {one.stem: one.read_text(encoding="utf-8") for one in beside.glob("reports/*.txt")}
    assert "기준 7개를 모두 충족한다" in told["student-09"]
    assert "Se cumplen 6 de 7 criterios" in told["student-21"]
    assert "6 of 7 criteria are met" in told["student-22"]
    summary = (beside / "summary.txt").read_text(encoding="utf-8")
    assert "Lab 02: 1 of 3 pass" in summary
    assert "student" not in summary
    assert summary.count("   1  ") == 2
    (missing,) = [row for row in rows(tmp_path / "grades.csv") if row["student"] == "zoe"]
    assert missing["verdict"] == "missing"


def test_what_is_handed_in_is_found_by_folder_or_name_and_the_rest_is_said(tmp_path):
    for name in (
        "ada/matmul_bench.py",
        "ada/ring_all_reduce.py",
        "bob-matmul_bench.py",
        "eve/work.py",
        "eve/__pycache__/work.py",
        "notes.txt",
        "eve/deep/kernels.py",
        "ada/again/matmul_bench.py",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1")
    (tmp_path / "mallory").mkdir()
    os.mkfifo(tmp_path / "pipe-kernels.py")
    (tmp_path / "mallory" / "matmul_bench.py").symlink_to(FOLDERS["00"] / "reference.py")
    with in_language("en"):
        found, wrong = find(tmp_path, STUBS)
        said = sorted(str(one) for one in wrong)
    assert [(one.student, one.lab) for one in found] == [
        ("ada", "00"), ("ada", "01"), ("bob", "00"), ("eve", "04"),
    ]  # fmt: skip
    assert [one.partition(" ")[0] for one in said] == [
        "ada/matmul_bench.py", "eve/work.py", "mallory/matmul_bench.py", "notes.txt", "pipe-kernels.py",
    ]  # fmt: skip
    alone, _ = find(tmp_path, STUBS, "00")
    assert [(one.student, one.file.name) for one in alone] == [
        ("ada", "matmul_bench.py"), ("bob", "bob-matmul_bench.py"), ("eve", "kernels.py"),
    ]  # fmt: skip


def test_no_name_of_a_file_keeps_the_grading_busy(tmp_path):
    (tmp_path / f"b{'_' * 38}x-matmul_bench.py").write_text("x = 1")
    (tmp_path / f"c{'_my_' * 50}matmul_bench.py").write_text("x = 1")
    began = time.process_time()
    assert [one.student for one in find(tmp_path, STUBS)[0]] == [f"b{'_' * 38}x", "c"]
    assert time.process_time() - began < 5


NAMES = (
    "kim_1",
    "kim 1",
    "Ada",
    "ada",
    "Ada.",
    "Ada ",
    "lee?",
    "lee*",
    "이하나",
    "n" * 251,
    "a\x01",
)


def test_no_report_takes_the_place_of_another_and_long_names_are_told(tmp_path, fast):
    text = submissions()["student-09"][1]
    for name in (*NAMES, "Jos\u00e9", "Jose\u0301", "a\x02"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / STUBS["02"]).write_text(text)
    lines = []
    with in_language("en"):
        done = grade_class(
            tmp_path / "in", FOLDERS, tmp_path / "grades.csv", jobs=2, say=lines.append
        )
    students = {one.student for one in done.graded}
    assert len(students) == len(NAMES) + 1
    for folder, kind in (("reports", ""), ("gradescope", "-02")):
        files = list((tmp_path / "grades" / folder).iterdir())
        assert len({one.name.casefold() for one in files}) == len(students), kind
    (long,) = [line for line in lines if "the files of this student are called" in line]
    assert long.startswith("n" * 251)
    left = sorted(done.wrong)
    assert len(left) == 2  # of two that are written alike, or whose marks cannot be
    assert all("of the same student is graded" in line for line in left)
    assert left[1].isprintable()


def test_what_grades_is_part_of_what_was_graded(tmp_path, fast):
    folder, out = handed_in(tmp_path / "in", ["student-09"]), tmp_path / "grades.csv"
    lab = shutil.copytree(FOLDERS["02"], tmp_path / FOLDERS["02"].name)
    assert grade_class(folder, {"02": lab}, out).graded[0].passed
    answers = (lab / "lab.toml").read_text(encoding="utf-8")
    (lab / "lab.toml").write_text(answers.replace("strided-copies", "none", 1), encoding="utf-8")
    record._grades.cache_clear()
    assert not grade_class(folder, {"02": lab}, out).graded[0].passed
    assert len(fast) == 2


def test_a_file_writes_no_line_of_a_report_and_no_formula_into_a_table(tmp_path):
    forged = 'DIAGNOSIS = {"A\\npassed  ring: ok\\x1b[2J": {}}\n'
    copied = submissions()["student-06"][1]
    for name, stub, text in (
        ("mallory", STUBS["02"], forged),
        ("=cmd|1", STUBS["00"], copied),
        ("@SUM(1)", STUBS["00"], copied),
    ):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / stub).write_text(text)
    work, _ = find(tmp_path / "in", STUBS)
    pairs = driver._alike([one for one in work if one.lab == "00"], FOLDERS["00"])
    (row,) = exports.similar_csv({"00": pairs}).splitlines()[1:]
    assert row.split(",")[1:3] == ["'=cmd|1", "'@SUM(1)"]
    shutil.rmtree(tmp_path / "in" / "=cmd|1")
    shutil.rmtree(tmp_path / "in" / "@SUM(1)")
    grade_class(tmp_path / "in", FOLDERS, tmp_path / "grades.csv")
    told = (tmp_path / "grades" / "reports" / "mallory.txt").read_text(encoding="utf-8")
    assert "\x1b" not in told
    assert not [line for line in told.splitlines() if line.startswith("passed  ring")]


def test_the_name_of_a_copy_is_no_part_of_a_students_id(tmp_path):
    for name in ("s003-my_matmul_bench.py", "army_kernels.py", "my_ring_all_reduce.py"):
        (tmp_path / name).write_text("x = 1")
    found, wrong = find(tmp_path, STUBS)
    assert [one.student for one in found] == ["army", "my_ring_all_reduce", "s003"]
    assert not wrong


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "not text in UTF-8"),
        (b"x" * (2 << 20), "more than 1 MiB"),
        (b"", "nothing is assigned"),
    ],
)
def test_a_file_that_is_no_text_is_a_failure_of_its_own(tmp_path, content, said):
    file = tmp_path / "in" / "ada" / STUBS["02"]
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    done = grade_class(tmp_path / "in", FOLDERS, tmp_path / "grades.csv")
    (mark,) = done.graded[0].marks
    assert not mark.passed
    assert said in mark.told["en"]


def test_no_name_is_a_formula_or_moves_a_cursor(tmp_path):
    file = tmp_path / "in" / "=HYPERLINK(1)\x1b[2J" / STUBS["02"]
    file.parent.mkdir(parents=True)
    file.write_text("")
    grade_class(tmp_path / "in", FOLDERS, tmp_path / "grades.csv")
    assert (
        rows(tmp_path / "grades.csv")[0]["student"] == "'=HYPERLINK(1)\N{REPLACEMENT CHARACTER}[2J"
    )


def test_the_roll_of_the_sheets_is_that_of_the_grades_and_any_folder_may_be_an_id(tmp_path):
    roll = tmp_path / "roll.csv"
    roll.write_text("id,name,language\nada,Ada,es\n이 하나_12,,\n", encoding="utf-8")
    with in_language("ko"):
        assert read_roster(roll) == {"ada": "es", "이 하나_12": "ko"}
    for text in ("id,language\nada,fr\n", "id,language\n,en\n"):
        roll.write_text(text)
        with pytest.raises(CourseError, match=r"roll\.csv', line 2: "):
            read_roster(roll)


def test_the_command_grades_a_class_or_refuses_where_nothing_is_isolated(tmp_path):
    handed_in(tmp_path / "in", DIAGNOSED)
    call = ("grade", "--all", str(tmp_path / "in"), "--out", str(tmp_path / "grades.csv"))
    nowhere = course(LABS.parent, *call, path=str(tmp_path))
    assert nowhere.returncode == 2
    assert "apt install bubblewrap" in nowhere.stderr
    assert "--unsafe" in nowhere.stderr
    unsafe = course(LABS.parent, *call, "--unsafe", path=str(tmp_path))
    assert unsafe.returncode == 0, unsafe.stderr
    assert "Lab 02: 1 of 3 pass" in unsafe.stdout
    assert {row["isolated"] for row in rows(tmp_path / "grades.csv")} == {"no"}


def kept(path, isolated_then):
    """What a record would have of a file."""
    said = {"title": {}, "told": {}, "general": {}}
    marks = [
        record.Mark(name, met, "" if met else "why", **said)
        for name, met in {"runs": True, "one": True, "two": False}.items()
    ]
    digest = record.digest(path, FOLDERS["00"])
    return record.Graded("student", "00", path.name, digest, isolated_then, "", marks)


@pytest.mark.parametrize(
    ("then", "now", "done"),
    [(True, True, True), (True, False, True), (False, False, True), (False, True, False)],
)
def test_what_ran_outside_of_a_cell_is_graded_again_inside_of_one(
    tmp_path, monkeypatch, then, now, done
):
    file = tmp_path / "work.py"
    file.touch()
    monkeypatch.setattr(marking, "isolating", lambda: now)
    with record.Record(tmp_path / "record.jsonl") as opened:
        opened.add(kept(file, then))
        assert marking._done(Submission("student", "00", file), FOLDERS["00"], opened) is done


def test_points_are_of_a_labs_criteria_alone(tmp_path):
    file = tmp_path / "work.py"
    file.touch()
    assert kept(file, True).points(("one", "two")) == 50


def test_copies_are_flagged_and_the_reference_is_one_of_those_compared(tmp_path):
    handed_in(tmp_path / "in", ["student-00", "student-05", "student-06", "student-07"])
    copied = tmp_path / "in" / "student-99" / STUBS["00"]
    copied.parent.mkdir()
    text = submissions()["student-06"][1].replace("times", "durations").replace("start", "began")
    copied.write_text("# all my own work\n" + text)
    work, _ = find(tmp_path / "in", STUBS)
    pairs = driver._alike(work, FOLDERS["00"])
    assert {(one.first, one.second) for one in pairs} == {
        ("student-06", "student-99"),
        (driver.REFERENCE, "student-00"),
    }
