"""A class that does not exist: thirty submissions, of which ten are right and twenty have a mistake
that the graders' own tests know.
"""

from functools import cache
from pathlib import Path

from course_press import grading
from tests.course_press.conftest import edited
from tests.course_press.grading import (
    test_benchmark,
    test_diagnosis,
    test_kernels,
    test_ring,
    test_serving,
    test_sharding,
)

LABS = Path(__file__).parents[4] / "labs"
FOLDERS = {one.name[:2]: one for one in sorted(LABS.glob("[0-9][0-9]-*"))}
BENCHMARK = ("half the operations", "no warm-up", "milliseconds", "mean", "zeros", "unit")
SERVING = ("fit without the fixed part", "no places", "TTFT on the clock", "TPOT of all tokens")
SHARDING = ("weights whole by accident", "weights gathered in the loop")
RINGS = {
    test_ring.WHOLE_TENSOR: "ring",
    test_ring.READY_MADE: "own",
    test_ring.RETURNS: "sum",
    test_ring.EQUAL_CHUNKS: "uneven",
    test_ring.SWAPPED: "sum",
}
DIAGNOSES = {"A": ('"strided-copies"', '"round-trip"'), "D": ('"aten::mul"', '"mul"')}


@cache
def submissions():
    """By student: the lab, the text, and the one criterion that it fails; none if it is right."""
    reference = {lab: folder / "reference.py" for lab, folder in FOLDERS.items()}
    found = [(lab, reference[lab].read_text(), "") for lab in ("00", "01", "03", "04", "05")]
    found += [
        ("00", text, "")
        for text in (test_benchmark.NUMPY, test_benchmark.EVENTS, test_benchmark.NANOSECONDS)
    ]
    found += [("01", test_ring.BATCHED, ""), ("02", test_diagnosis.REFERENCE, "")]
    for name in BENCHMARK:
        edits, criterion, _ = test_benchmark.PLANTED[name]
        found.append(("00", edited(reference["00"], edits), criterion))
    found += [("01", text, criterion) for text, criterion in RINGS.items()]
    for program, (right, wrong) in DIAGNOSES.items():
        lines = test_diagnosis.REFERENCE.splitlines()
        text = [line.replace(right, wrong) if f'"{program}":' in line else line for line in lines]
        found.append(("02", "\n".join(text), program))
    for name in SERVING:
        edits, criterion, _ = test_serving.MISTAKES[name]
        found.append(("03", edited(reference["03"], edits), criterion))
    _, edits, criterion, _ = test_kernels.PLANTED["wrong stride"]
    found.append(("04", edited(reference["04"], edits), criterion))
    for name in SHARDING:
        _, edits, criterion, _ = test_sharding.PLANTED[name]
        found.append(("05", edited(reference["05"], edits), criterion))
    return {f"student-{at:02}": one for at, one in enumerate(found)}


def handed_in(folder, students):
    """Write what they hand in."""
    for student in students:
        lab, text, _ = submissions()[student]
        file = folder / student / grading.graded_by(FOLDERS[lab]).file
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    return folder


def wanted(student):
    """The verdict that everything must give: whether it passes, and what fails."""
    criterion = submissions()[student][2]
    return not criterion, [criterion] if criterion else []
