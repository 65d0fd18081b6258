"""The grader of lab 01: right solutions pass, each planted mistake fails its own criterion, and
nothing hangs.
"""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from course_press.grading.ring import RING
from tests.course_press.conftest import edited, need
from tests.course_press.grading.words import failures, written

need("torch")
LAB = Path(__file__).parents[3] / "labs" / "01-collectives"
grade = RING.grade
LIMIT = 1.5
"""Seconds for files that wait forever: a right one takes a fraction of one."""

ALL_GATHER = """\
    for step in range(world - 1):
        exchange(chunks[(rank + 1 - step) % world], chunks[(rank - step) % world], right, left)
"""
BATCHED = """
import torch
from torch.distributed import P2POp, batch_isend_irecv, get_rank, get_world_size, irecv, isend

def ring_all_reduce(tensor):
    rank, world = get_rank(), get_world_size()
    chunks = torch.tensor_split(tensor, world)
    def exchange(out, into):
        for work in batch_isend_irecv([P2POp(isend, out, (rank + 1) % world), P2POp(irecv, into, (rank - 1) % world)]):
            work.wait()
    for step in range(world - 1):
        got = torch.zeros_like(chunks[(rank - step - 1) % world])
        exchange(chunks[(rank - step) % world], got)
        chunks[(rank - step - 1) % world].add_(got)
    for step in range(world - 1):
        exchange(chunks[(rank + 1 - step) % world], chunks[(rank - step) % world])
"""
WHOLE_TENSOR = """
import torch
import torch.distributed as dist

def ring_all_reduce(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    travelling = tensor.clone()
    for _ in range(world - 1):
        sending, got = dist.isend(travelling, (rank + 1) % world), torch.empty_like(tensor)
        dist.recv(got, (rank - 1) % world)
        sending.wait()
        tensor += got
        travelling = got
"""
READY_MADE = (
    "import torch.distributed as dist\n\ndef ring_all_reduce(tensor):\n    "
    "dist.all_reduce(tensor)\n"
)
RETURNS = "def ring_all_reduce(tensor):\n    return tensor * 2\n"
REFERENCE = (LAB / "reference.py").read_text()
EQUAL_CHUNKS = REFERENCE.replace("torch.empty_like(mine)", "torch.empty(tensor.numel() // world)")
CRASHES = REFERENCE.replace("mine += arrived", "mine += arrived.nowhere")
EXITS = "import os\n" + REFERENCE.replace(
    "    right, left", "    if rank == 2:\n        os._exit(0)\n    right, left"
)
WAITS = "import time\n" + REFERENCE.replace(
    "    right, left", "    while rank == 1:\n        time.sleep(1)\n    right, left"
)
SWAPPED = REFERENCE.replace("    mine += arrived", "    mine += arrived.flip(0)")


def limited(criterion):
    """Only what is known to wait forever is ended soon: a busy computer may need longer for the
    others.
    """
    return {"limit": LIMIT} if criterion == "ends" else {}


@pytest.mark.parametrize(
    ("edits", "criterion", "why"),
    [
        (
            {"chunks[(rank - step - 1)": "chunks[(rank - step)"},
            "sum",
            r"chunk \d of rank \d is wrong: .* Look at the chunk indices",
        ),
        ({ALL_GATHER: ""}, "sum", "only one complete chunk .* the all-gather is missing"),
        (
            {"sending = dist.isend": "dist.send", "    sending.wait()\n": ""},
            "ends",
            "All wait in send, .* none gets to its recv",
        ),
        ({ALL_GATHER: f"{ALL_GATHER}    tensor /= world\n"}, "sum", "the result is the average"),
    ],
    ids=["wrong-chunk", "no-all-gather", "send-first", "average"],
)
def test_each_planted_mistake_fails_for_its_own_reason(edits, criterion, why, tmp_path, supervisor):
    file = written(tmp_path, edited(LAB / "reference.py", edits))
    found = failures(grade(file, supervisor=supervisor, **limited(criterion)))
    assert list(found) == [criterion]
    assert re.search(why, found[criterion])


@pytest.mark.parametrize(
    ("text", "criterion", "why"),
    [
        (WHOLE_TENSOR, "ring", "send one chunk a step, not the whole tensor"),
        (READY_MADE, "own", "it calls torch\\.distributed\\.all_reduce"),
        (RETURNS, "sum", "the tensor is as it was before: write into it"),
        (EQUAL_CHUNKS, "uneven", "wrong for 401 elements in 4 ranks"),
        (CRASHES, "runs", r"line \d+: 'mine \+= arrived.nowhere': AttributeError"),
        (EXITS, "runs", "rank 2 of 4 ended without a result"),
        (WAITS, "ends", r"rank 1 in line \d+: '(while rank == 1|time.sleep)"),
        (SWAPPED, "sum", "the numbers are in the wrong places"),
        ("def ring_all_reduce(tensor) -> None", "runs", "line 1: .*expected ':'"),
    ],
    ids=[
        "whole tensor",
        "ready-made",
        "returns",
        "equal chunks",
        "crash",
        "exit",
        "waits",
        "swapped",
        "syntax",
    ],
)
def test_other_mistakes_are_told_apart(tmp_path, text, criterion, why, supervisor):
    found = failures(grade(written(tmp_path, text), supervisor=supervisor, **limited(criterion)))
    assert list(found) == [criterion]
    assert re.search(why, found[criterion])


def test_batched_point_to_point_is_as_good(tmp_path, supervisor):
    assert failures(grade(written(tmp_path, BATCHED), supervisor=supervisor)) == {}


def test_nothing_is_left_running(tmp_path, supervisor):
    """Ranks that wait forever are ended, and so is what they started."""
    mark = tmp_path / "alive"
    text = "import pathlib, subprocess, sys, time\n"
    text += f'program = """import time, pathlib\nwhile True: time.sleep(0.1); pathlib.Path({str(mark)!r}).touch()"""\n'
    text += (
        "def ring_all_reduce(tensor):\n    subprocess.Popen([sys.executable, '-c', "
        "program])\n    time.sleep(600)\n"
    )
    assert list(failures(grade(written(tmp_path, text), supervisor=supervisor, limit=LIMIT))) == [
        "ends"
    ]
    mark.unlink(missing_ok=True)
    time.sleep(0.5)
    assert not mark.exists()


def test_two_gradings_do_not_get_in_each_others_way(supervisor):
    with ThreadPoolExecutor(2) as pool:
        given = [{"supervisor": supervisor}, {}]
        found = list(pool.map(lambda more: grade(LAB / "reference.py", **more), given))
    assert [failures(verdicts) for verdicts in found] == [{}, {}]
