"""The grader of lab 02: the reference passes, each mistake is told what it is, and the programs are
as slow as it says.
"""

import re
import sys
from pathlib import Path

import pytest

from course_tools.diagnosis import trace
from course_press.grading import grading
from course_press.grading.diagnosis import CAUSES, CONFUSED, DIAGNOSIS
from tests.course_press.grading.words import failures

LAB = Path(__file__).parents[3] / "labs" / "02-fusion-and-profiling"
ANSWERS = grading(LAB).answers
REFERENCE = "\n".join(
    [
        "DIAGNOSIS = {",
        *(
            f'    "{name}": {{"cause": "{one.cause}", "operator": "{one.operators[0]}"}},'
            for name, one in ANSWERS.items()
        ),
        "}",
    ]
)


def grade(path):
    return DIAGNOSIS.grade(path, [ANSWERS])


def graded(folder, text):
    file = folder / "diagnosis.py"
    file.write_text(text, encoding="utf-8")
    return grade(file)


def test_the_reference_passes_every_criterion(tmp_path):
    verdicts = graded(tmp_path, REFERENCE)
    assert [verdict.criterion for verdict in verdicts] == ["runs", "keys", *"ABCDE"]
    assert failures(verdicts) == {}


def test_the_stub_is_told_kindly():
    found = failures(grade(LAB / "diagnosis.py"))
    assert list(found) == list("ABCDE")
    assert set(found.values()) == {"no cause yet: record the trace, and read what is on top"}


def test_the_stub_names_the_causes_that_the_grader_knows():
    stub = (LAB / "diagnosis.py").read_text()
    assert all(f'"{cause}"' in stub for cause in CAUSES)
    assert set(ANSWERS) == set(re.findall(r'^    "(\w)": ', stub, re.MULTILINE))
    assert {program.cause for program in ANSWERS.values()} == set(CAUSES)
    assert {cause for pair in CONFUSED for cause in pair} <= set(CAUSES)


@pytest.mark.parametrize(
    ("name", "right", "wrong", "why"),
    [
        ("A", '"strided-copies"', '"round-trip"', "formats are the same on both sides here"),
        ("E", '"round-trip"', '"strided-copies"', "formats or devices are not"),
        ("B", '"tiny-batches"', '"none"', "look at its calls"),
        ("D", '"unfused-chain"', '"none"', "how many arrays of one shape"),
        ("C", '"none"', '"unfused-chain"', "fused already"),
        ("B", '"tiny-batches"', '"round-trip"', "look at which operator is on top"),
        ("B", '"tiny-batches"', '"tiny-batch"', "did you mean 'tiny-batches'"),
        ("B", '"tiny-batches"', '"gremlins"', "choose from none, unfused-chain"),
        ("B", '"aten::mm"', '"aten::linear"', "aten::linear only calls aten::mm"),
        ("A", '"aten::copy_"', '"aten::contiguous"', "aten::contiguous only calls aten::copy_"),
        ("D", '"aten::mul"', '"mul"', "full name in the trace: 'aten::mul'"),
        ("D", '"aten::mul"', '"aten::mm"', "takes little time by itself"),
        ("E", '"aten::copy_"', '""', "name the operator"),
    ],
)
def test_each_mistake_is_named(tmp_path, name, right, wrong, why):
    lines = [
        line.replace(right, wrong) if f'"{name}":' in line else line
        for line in REFERENCE.splitlines()
    ]
    found = failures(graded(tmp_path, "\n".join(lines)))
    assert list(found) == [name]
    assert why in found[name]


@pytest.mark.parametrize(
    ("text", "criterion", "why"),
    [
        ("DIAGNOSIS = {", "runs", "syntax error in line 1"),
        ("diagnosis = {}", "runs", "nothing is assigned to DIAGNOSIS"),
        ("DIAGNOSIS = dict(A=1)", "runs", "is computed"),
        ("import os; os._exit(3)\nDIAGNOSIS = 5", "keys", "must be a dict (got 5)"),
        ("DIAGNOSIS: dict = {}", "keys", "patient A is missing"),
        (REFERENCE.replace('"E":', '"F":'), "keys", "patient E is missing"),
        (REFERENCE.replace('    "E":', '    "F": {},\n    "E":'), "keys", "no patient 'F'"),
        (
            REFERENCE.replace('"cause": "none"', '"reason": "none"'),
            "keys",
            "patient C must have a cause and an operator",
        ),
        (REFERENCE.replace('"none"', "None"), "keys", "must be texts"),
    ],
)
def test_a_file_of_another_form(tmp_path, text, criterion, why):
    found = failures(graded(tmp_path, text))
    assert list(found) == [criterion]
    assert why in found[criterion]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # other tests have the other core
    sys.path.insert(0, str(LAB))
    try:
        import slow_models
    finally:
        sys.path.remove(str(LAB))
    from course_tools.campaigns import pages, profiling

    folder = tmp_path_factory.mktemp("traces")
    with pages.kept():
        yield (
            slow_models,
            {
                name: {
                    one.name: one
                    for one in trace.hot(
                        profiling.record(slow_models.build(name), folder / f"{name}.json", tries=2)
                    )
                }
                for name in slow_models.PATIENTS
            },
        )
    torch.set_num_threads(threads)


def test_all_patients_take_the_same_step(traces):
    slow_models, _ = traces
    results = [slow_models.build(name)() for name in slow_models.PATIENTS]
    for result in results:
        assert (result - results[2]).abs().max() < 1e-4


def test_the_patients_are_ill_as_the_grader_says(traces):
    """What does not hang on this computer's speed: calls, shapes, strides, formats."""
    slow_models, found = traces
    tokens, hidden = slow_models.TOKENS, slow_models.TOKENS * slow_models.HIDDEN
    assert found["B"]["aten::mm"].calls == 2 * tokens
    assert all(found[name]["aten::mm"].calls == 2 for name in "ACDE")
    assert found["B"]["aten::mm"].bytes > 20 * found["C"]["aten::mm"].bytes
    assert (
        found["A"]["aten::copy_"].calls,
        found["A"]["aten::copy_"].strided,
        found["A"]["aten::copy_"].types,
    ) == (4, True, ("float",))
    assert (found["E"]["aten::copy_"].calls, found["E"]["aten::copy_"].strided) == (4, False)
    assert found["E"]["aten::copy_"].types == ("double", "float")
    assert sum(found["D"][name].calls for name in ("aten::mul", "aten::add", "aten::tanh")) >= 9
    assert "aten::gelu" not in found["D"]
    assert "aten::copy_" not in found["C"]
    assert found["C"]["aten::gelu"].bytes == 8 * hidden


def test_what_the_grader_wants_named_is_among_the_first(traces):
    _, found = traces
    for name, program in ANSWERS.items():
        first = sorted(found[name].values(), key=lambda one: -one.seconds)[:3]
        assert {one.name for one in first} & set(program.operators), name
