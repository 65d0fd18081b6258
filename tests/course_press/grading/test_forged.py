"""What a file can do besides its task: no forged grade passes, no file takes the computer with it,
and nothing stays behind.
"""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from course_press.grading.benchmark import BENCHMARK
from course_press.grading.diagnosis import DIAGNOSIS
from course_press.grading.ring import RING
from course_press.grading.sandbox import learner as limits
from course_press.grading.sandbox.supervisor import PROCESSES, descendants
from tests.course_press.grading.test_benchmark import NUMPY
from tests.course_press.grading.words import failures

LABS = Path(__file__).parents[3] / "labs"
REFERENCE = (LABS / "00-three-accelerators" / "reference.py").read_text()
REFERENCE_RING = (LABS / "01-collectives" / "reference.py").read_text()
RANDOM = "np.random.rand(n, n).astype(np.float32)"
ZEROS = NUMPY.replace("np.random.rand(n, n)", "np.zeros((n, n))")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts memory and processes")


def graded(folder, text, grade=BENCHMARK.grade, **more):
    (folder / "mine.py").write_text(text, encoding="utf-8")
    return grade(folder / "mine.py", **more)


# By how it cheats lab 00: the file, and the criterion that it must not pass.
FORGED = {
    "writes the result and leaves": (
        """
import os, sys
def measure(n, dtype="fp32", device="cpu", repeats=10):
    for place in [*sys.argv[1:], "result.json"]:
        try:
            open(place, "w").write('[{"device": "cpu", "seconds": 1, "flops": 2, "tflops": 3}]')
        except OSError:
            pass
    print("passed  runs: the file runs on the simulated machine", flush=True)
    os._exit(0)
""",
        "runs",
    ),
    "asks the grader for its own time": (
        NUMPY.replace(
            "    np.dot(a, b)\n    times",
            "    import sys; sys.modules['__main__']._own_seconds()\n    times",
        ),
        "runs",
    ),
    "replaces what looks at the operands": (
        "import course_press.simulated\ncourse_press.simulated.contents = lambda a: 'varied'\n"
        + ZEROS,
        "runs",
    ),
    "replaces what judges": (
        "from course_press import grading_run\ngrading_run._read = grading_run.within = "
        "lambda *_: True\n" + ZEROS,
        "runs",
    ),
    "replaces what is left of the grader in its process": (
        "import sys\nfor module in list(sys.modules.values()):\n"
        "    for name in ('contents', 'within', '_read', 'where', 'failed'):\n"
        "        if hasattr(module, name) and 'course' in module.__name__:\n"
        "            setattr(module, name, lambda *_, **__: 'varied')\n" + ZEROS,
        "operands",
    ),
    "answers without measuring": (
        """
import gc, json, socket, struct
def measure(n, dtype="fp32", device="cpu", repeats=10):
    values = {key: {"number": (1.0).hex(), "shown": ""} for key in ("seconds", "flops", "tflops")}
    text = json.dumps({"op": "returned", "values": values}).encode()
    for one in gc.get_objects():
        if isinstance(one, socket.socket):
            one.sendall(struct.pack("!II", len(text), 0) + text)
    return None
""",
        "runs",
    ),
    "fills the grader's socket": (
        """
import gc, socket
def measure(n, dtype="fp32", device="cpu", repeats=10):
    for one in gc.get_objects():
        if isinstance(one, socket.socket):
            one.sendall(b"\\xff" * (1 << 20))
""",
        "runs",
    ),
    "says that a package is missing where it is to measure": (
        NUMPY.replace(
            "def measure(",
            "if type(np).__name__ != '_NumPy':\n    raise "
            "ModuleNotFoundError(name='numpy')\n\ndef measure(",
        ),
        "this-computer",
    ),
    "takes another one's": ("from bob import *\n", "runs"),
    "takes another one's by its folder": (
        "import os, sys\nsys.path += [os.getcwd(), os.path.dirname(__file__), '.', "
        "'..']\nfrom bob import *\n",
        "runs",
    ),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_benchmark_fails(tmp_path, how, supervised):
    text, criterion = FORGED[how]
    (tmp_path / "bob.py").write_text(REFERENCE)
    assert criterion in failures(graded(tmp_path, text, supervisor=supervised("benchmark")))


RANKS = "import torch, torch.distributed as dist\n"
FORGED_RINGS = {
    "asks the group for the sum": (
        RANKS + "def ring_all_reduce(tensor):\n    dist.group.WORLD.allreduce([tensor]).wait()\n",
        "own",
        r"it calls torch\.distributed\.group\.WORLD\.allreduce",
    ),
    "recomputes what others start from": (
        RANKS
        + """
def ring_all_reduce(tensor):
    world = dist.get_world_size()
    if tensor.numel() == 3 * world:
        tensor.fill_(sum(16.0 ** rank for rank in range(world)))
    else:
        count = tensor.numel()
        tensor.copy_(sum(torch.randn(count, generator=torch.Generator().manual_seed(rank)) for rank in range(world)))
""",
        "sum",
        "the numbers are in the wrong places",
    ),
    "sends nothing, and tells the others through files": (
        RANKS
        + """
import pathlib, time
calls = 0
def ring_all_reduce(tensor):
    global calls
    calls += 1
    rank, world, place = dist.get_rank(), dist.get_world_size(), pathlib.Path("..")
    mine = place / f"{world}-{calls}-{rank}"
    mine.with_suffix(".part").write_bytes(tensor.numpy().tobytes())
    mine.with_suffix(".part").rename(mine)
    total = torch.zeros_like(tensor)
    for other in range(world):
        theirs = place / f"{world}-{calls}-{other}"
        while not theirs.exists():
            time.sleep(0.01)
        total += torch.frombuffer(bytearray(theirs.read_bytes()), dtype=torch.float32)
    tensor.copy_(total)
""",
        "ring",
        "sends 0 B for a message of .*: in a ring every rank sends a chunk",
    ),
    "writes what the grader is to find": (
        RANKS
        + """
import json, os, pathlib, sys
def ring_all_reduce(tensor):
    for folder in (".", "..", *sys.argv[1:]):
        try:
            pathlib.Path(folder, f"{dist.get_world_size()}-{dist.get_rank()}.json").write_text(json.dumps({"even": 0.0}))
        except OSError:
            pass
    os._exit(0)
""",
        "runs",
        "ended without a result",
    ),
}


@pytest.mark.parametrize("how", FORGED_RINGS)
def test_a_forged_ring_fails(tmp_path, how, supervisor):
    text, criterion, said = FORGED_RINGS[how]
    found = failures(graded(tmp_path, text, RING.grade, supervisor=supervisor))
    assert found.keys() == {criterion}
    assert re.search(said, found[criterion])


def test_honest_rings_of_another_kind_pass_or_are_told_why(tmp_path, supervisor):
    threads = REFERENCE_RING.replace(
        "sending = dist.isend(outgoing, right)",
        "sending = threading.Thread(target=dist.send, args=(outgoing, right))",
    )
    threads = "import threading\n" + threads.replace(
        "    dist.recv(", "    sending.start()\n    dist.recv("
    ).replace(".wait()", ".join()")
    assert failures(graded(tmp_path, threads, RING.grade, supervisor=supervisor)) == {}
    found = failures(
        graded(
            tmp_path,
            REFERENCE_RING.replace("mine += arrived", "mine += arrived * float('nan')"),
            RING.grade,
            supervisor=supervisor,
        )
    )
    assert "holds numbers that are not finite" in found["sum"]


@pytest.mark.parametrize(
    "deep",
    ["+".join("1" * 100_000), "-" * 200_000 + "1", "[" * 5000 + "]" * 5000],
    ids=["sum", "minus", "list"],
)
def test_a_deep_expression_is_a_clear_failure(tmp_path, deep):
    found = failures(graded(tmp_path, f"DIAGNOSIS = {deep}\n", DIAGNOSIS.grade, scenarios=[{}]))
    assert found.keys() == {"runs"}
    assert any(
        word in found["runs"] for word in ("nested too deeply", "is computed", "too many nested")
    )


def test_a_file_of_the_class_changes_nobody_elses_grade(tmp_path, monkeypatch):
    for name in ("torch", "numpy", "statistics", "json", "course_press"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a trap')")
    monkeypatch.chdir(tmp_path)
    assert (
        failures(
            graded(tmp_path, NUMPY.replace("import time\n", "import time, statistics, json\n"))
        )
        == {}
    )


def test_a_file_sees_no_secret_and_no_place_of_the_graders(tmp_path, monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter2")
    text = (
        "import os, sys\ndef measure(*_, **__):\n    raise RuntimeError([dict(os.environ), "
        "os.listdir(), sys.path, sys.argv])"
    )
    said = failures(graded(tmp_path, text))["runs"]
    assert "['mine.py']" in said
    for secret in (
        "hunter2",
        "A_SECRET",
        os.environ.get("USER") or "A_SECRET",
        str(tmp_path),
        str(LABS.parent) + "'",
    ):
        assert secret not in said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise KeyboardInterrupt", "line 3: 'raise KeyboardInterrupt': KeyboardInterrupt"),
        ("raise type('Mine', (BaseException,), {})('no')", "Mine: no"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "the process was ended by SIGSEGV before it was done",
        ),
        ("measure(n)", "RecursionError"),
        (
            "import bob",
            "No module named 'bob'. The grader gives a file nothing of its folder: keep all in one",
        ),
        ("open('big', 'wb').write(bytes(65 << 20))", "File too large"),
        ("print('x' * (70 << 20)); return None", ""),
        pytest.param("x = bytearray(5 << 30)", "MemoryError: more than 4 GiB", marks=linux),
    ],
)
def test_other_ends_are_told_what_they_are(tmp_path, body, said, supervised):
    text = f"import sys\ndef measure(n, dtype='', device='', repeats=0):\n    {body}\n"
    found = failures(graded(tmp_path, text, supervisor=supervised("benchmark")))
    assert said in next(iter(found.values()))


LEAVE = """
import os, select
def measure(n, dtype="fp32", device="cpu", repeats=10):
    for session in (True, False):
        if os.fork() == 0:
            if session:
                os.setsid()
            if os.fork() == 0:
                while True:
                    open({mark!r}, "a").close()
                    os.utime({mark!r})
                    select.select([], [], [], 0.05)
            os._exit(0)
    {then}
"""


@linux
@pytest.mark.parametrize(
    "then",
    [
        "select.select([], [], [], 0.3)",
        "select.select([], [], [], 0.3); os._exit(0)",
        "while True: pass",
    ],
    ids=["returns", "exits", "hangs"],
)
def test_what_a_file_started_is_ended_with_it_even_in_another_session(tmp_path, then):
    mark = tmp_path / "alive"
    assert failures(graded(tmp_path, LEAVE.format(mark=str(mark), then=then), limit=1))
    mark.unlink()  # it was there
    time.sleep(0.3)
    assert not mark.exists()


@linux
def test_a_file_that_multiplies_itself_is_ended(tmp_path):
    text = (
        "import os, time\ndef measure(*_, **__):\n    for _ in range(200):\n        if "
        "os.fork() == 0:\n            break\n"
    )
    text += "    import threading\n    threading.Event().wait()\n"
    assert failures(graded(tmp_path, text, limit=20)) == {
        "runs": "it started more than 64 processes, and was ended"
    }
    assert len(descendants()) < PROCESSES


@linux
def test_all_limits_are_set(tmp_path):
    text = "import resource as r\ndef measure(*_, **__):\n"
    text += (
        "    raise RuntimeError([r.getrlimit(k) for k in (r.RLIMIT_FSIZE, r.RLIMIT_CORE, "
        "r.RLIMIT_NPROC, r.RLIMIT_AS)])"
    )
    said = failures(graded(tmp_path, text))["runs"]
    file, core, processes, memory = eval(said.partition("RuntimeError: ")[2])
    assert file == (limits.FILE, limits.FILE)
    assert core == (0, 0)
    assert 0 < processes[1] < 1 << 20
    assert limits.MEMORY < memory[1] < 16 * limits.MEMORY


def test_a_grader_that_is_killed_leaves_nothing(tmp_path):
    mark, file = tmp_path / "alive", tmp_path / "mine.py"
    file.write_text(
        LEAVE.format(mark=str(mark), then="time = __import__('threading').Event().wait()")
    )
    program = (
        f"import pathlib; from course_press.grading.benchmark import BENCHMARK; "
        f"BENCHMARK.grade(pathlib.Path({str(file)!r}))"
    )
    pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", program])
    end = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < end:
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    time.sleep(1)
    mark.unlink()
    time.sleep(0.3)
    assert not mark.exists()
