"""A learner's process that answers what it likes: frames near those that judges expect, and wrong in
some place, by a seed.
"""

import json
import os
import random
from functools import partial
from math import prod
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from course_tools import hlo
from course_book.text import in_language, languages
from course_press import grading
from course_press.grading import benchmark, graders, lab, ring, serving
from course_press.grading.kernels import Given, exact
from course_press.grading.learner import EndedError, Learner
from course_press.grading.sandbox import frames as wire
from course_press.grading.sharding import TASKS
from course_press.grading.verdict import message

LABS = Path(__file__).parents[3] / "labs"
FOLDERS = {one.name[:2]: one for one in sorted(LABS.glob("[0-9][0-9]-*"))}
ODD = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**40, -(10**40), 1e308, -0.0, 5e-324, "", "\x1b[2J\npassed",
    "other-size", "changed", "not-ready", "0x1p+1023", "nan", "-inf", "x" * 3000, [], {}, [[]], [-1, 5],
    [[0, 10**9]], {"kind": "other-size"}, {"kind": "ready-made", "line": 10**30, "code": "\u2028"},
)  # fmt: skip
NOTHING = os.open(os.devnull, os.O_RDONLY)
"""Where there is always something to be read."""


def frames(seed):
    """Hostile answers to every judge, by a seed.

    Yields
    ------
    A lab's number, and what judges a process that answers like that: a list of verdicts, and their
    words in every language.
    """
    for number in FOLDERS:
        yield number, partial(_judged, number, random.Random(f"{seed} {number}"))


def _judged(number, rng):
    folder = FOLDERS[number]
    stub = folder / grading.graded_by(folder).file
    answers = grading.graded_by(folder).answers
    with pytest.MonkeyPatch.context() as patch:
        if number == "02":
            stub = SimpleNamespace(read_text=lambda **_: _diagnosis(rng, answers))
            patch.setattr(graders, "existing", lambda file, _: file)
        else:
            for module in (lab, benchmark):
                patch.setattr(module, "Supervisor", partial(Pretended, number, rng))
            patch.setattr(ring, "STUCK", 0.0)
        verdicts = grading.grade(folder, stub)
    words = []
    for lang in languages():
        with in_language(lang):
            words += [f"{one.title}: {one.text}" for one in verdicts]
    return verdicts, words


class Pretended:
    """A supervisor whose learners are those below."""

    def __init__(self, number, rng, *_, **__):
        self.number, self.rng, self.missing = number, rng, {}
        self.wrong = rng.choice([0.0, 0.01, 0.05, 0.3])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def clear(self):
        pass

    def ended(self, pid):
        return self.rng.choice([(0, None), (-9, None), (None, None), (-99, None)])

    def start(self, kind, source, limit, **job):
        return Liar(self, kind, job)


class Liar(Learner):
    """Says what its judge may expect, and changes some of it."""

    def __init__(self, supervisor, kind, job):
        self.kind, self.rng, self.job, self.left = kind, supervisor.rng, job, 400
        super().__init__(supervisor, 60.0, None, None)
        self.asked, self.payload, self.events = {}, b"", 0
        self.wrong = supervisor.wrong

    def tell(self, header, payload=b""):
        self.asked, self.payload = json.loads(json.dumps(header)), payload

    def fileno(self):
        return NOTHING

    def stands(self, patience=0.0):
        return 0

    def hear(self, kind):
        self.left -= 1
        if self.left < 0 or self.rng.random() < self.wrong / 50:
            raise EndedError(self.gone())
        header, payload = getattr(self, f"_{self.kind}")()
        if self.rng.random() < self.wrong:
            header = self._twisted(header)
        if self.rng.random() < self.wrong / 4:
            payload = payload[self.rng.randrange(9) :] or self.rng.randbytes(40)
        text = json.dumps(header).encode()[: wire.HEADER]
        try:
            return msgspec.json.decode(text, type=kind), payload
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise EndedError(message("unasked")) from None

    def _twisted(self, one):
        """With something odd in one place."""
        if isinstance(one, dict) and one and self.rng.random() < 0.9:
            key = self.rng.choice(list(one))
            return {**one, key: self._twisted(one[key])}
        if isinstance(one, list) and one and self.rng.random() < 0.6:
            at = self.rng.randrange(len(one))
            return [*one[:at], self._twisted(one[at]), *one[at + 1 + self.rng.randrange(2) :]]
        return self.rng.choice(ODD)

    def _failed(self):
        kinds = ("crash", "other-size", "not-ready", "no-package", "memory", "ready-made", "\x00")
        about = {"kind": self.rng.choice(kinds), "line": 3, "code": "x\n", "what": "\x1b[31m"}
        return {"op": "failed", "failure": about}, b""

    def _benchmark(self):
        if "own" in self.job:
            return {"op": "times", "times": [0.001] * 11}, b""
        ops = ["ready", "multiply", "read", "record", "wait", "elapsed", "sleep", "done"]
        op = self.rng.choices(
            ops, [0, 9, 9, 9, 2 if self.events else 0, 9 if self.events else 0, 1, 1]
        )[0]
        op = op if self.asked else "ready"
        about = {"op": op, "device": "cuda", "dtype": "fp32", "shapes": [[61, 1], [1, 61]]}
        about |= {"event": self.rng.randrange(-1, max(1, self.events)), "end": -1, "seconds": 1e300}
        self.events += op == "record"
        about |= {"values": {key: {"number": self.rng.choice(["0x1p-1074", "0x1p+1023", "0x1p-9"]),
                  "shown": "x"} for key in ("seconds", "flops", "tflops")}}  # fmt: skip
        payload = np.array([0.5, 0.25]).tobytes() if op == "multiply" else b""
        return (about, payload) if self.rng.random() > self.wrong / 20 else self._failed()

    def _ring(self):
        op = self.rng.choices(["done", "send", "receive", "wait", "failed"], [9, 2, 2, 1, 1])[0]
        if op == "failed" and self.rng.random() < self.wrong:
            return self._failed()
        total = sum(16.0**rank for rank in range(self.job["world"]))
        values = np.full(len(self.payload) // 4, total, np.float32)
        about = {"op": "done" if op == "failed" else op, "id": self.left, "to": 0, "peer": -1}
        payload = self.payload if self.rng.random() < 0.5 else values.tobytes()
        return {**about, "bytes": 4, "dtype": "torch.float32", "of": self.left, "line": 2}, payload

    def _serving(self):
        if not self.asked:
            return {"op": "ready"}, b""
        if self.asked["function"] == "summary":
            named = dict.fromkeys(
                serving.KEYS, self.rng.choice(["0x1p+0", "nan", "inf", "0x1p+1023"])
            )
            return {"op": "done", "named": named}, b""
        given = self.asked["given"]
        rows = {"fit": (3, 1), "serve": (len(given.get("requests", ())), 3)}
        number, width = rows.get(self.asked["function"], (1, 1))
        value = self.rng.choice(["0x0p+0", "0x1p+0", "0x1p+1023", "-0x1p-1074"])
        return {"op": "done", "rows": [[value] * width] * number}, b""

    def _kernels(self):
        if not self.asked:
            return {"op": "ready"}, b""
        if "sizes" in self.asked:
            return {"op": "done", "number": self.rng.choice(["0x1p+9", "nan", "x"])}, b""
        arrays = self.asked["arrays"]
        shape = list(arrays[0]["shape"])
        if self.asked["function"] == "matmul":
            shape = [arrays[0]["shape"][0], arrays[1]["shape"][1]]
        dtype = arrays[0]["dtype"]
        size = prod(shape) * np.dtype(dtype).itemsize
        launch = ["k", 0, 0, size, 0, 0, 0, 0, 0]  # as `campaigns.traffic.Launch` has it
        about = {"op": "done", "shape": shape, "dtype": dtype, "launches": [launch]}
        step, at, operands = self.asked["function"].removeprefix("bias_gelu_"), 0, []
        for one in arrays:
            operands.append(np.frombuffer(self.payload, one["dtype"], prod(one["shape"]), at))
            operands[-1], at = operands[-1].reshape(one["shape"]), at + operands[-1].nbytes
        case = Given((), 0, causal=self.asked["named"].get("causal", False))
        right = exact("fused" if step == "dropout" else step, operands, case).astype(dtype)
        payload = self.rng.choice([right.tobytes()] * 9 + [bytes(size), b"\xff" * size])
        return {**about, "changed": False, "calls": []}, payload

    def _sharding(self):
        if not self.asked:
            return {"op": "ready"}, b""
        task = next(one for one in TASKS if one.name == self.asked["function"])
        outputs = [list(task.shape(one)) for one in task.outputs]
        shards = [
            [number, device, [[0, size] for size in shape]]
            for number, shape in enumerate(outputs)
            for device in range(2)
        ]
        texts = [hlo.compiled_example("tensor")] * (2 if task.large else 1)
        whole = np.frombuffer(self.payload, np.float32)
        ends = np.cumsum([prod(shape) for shape in self.asked["shapes"]])[:-1]
        split = zip(np.split(whole, ends), self.asked["shapes"], strict=True)
        right = task.results([one.reshape(shape) for one, shape in split])
        payload = "".join(texts).encode()
        payload += b"".join(one.astype(np.float32).tobytes() for one in right for _ in range(2))
        inputs = [list(task.part(one)) for one in task.inputs]
        about = {"op": "done", "inputs": inputs, "outputs": outputs, "shards": shards}
        return {**about, "texts": [len(text) for text in texts]}, payload


def _diagnosis(rng, answers):
    """A file for lab 02: an answer, with something odd in it."""
    right = {
        name: {"cause": one.cause, "operator": one.operators[0]} for name, one in answers.items()
    }
    odd = rng.choice(["0x" + "f" * 20_000, "'\\ud800'", "-" * 5000 + "1", "[" * 150 + "]" * 150,
                      "{1: 2}", "b''", "1e999", "...", "'\\x1b[2J\\npassed'", "x" * 10**5])  # fmt: skip
    text = f"DIAGNOSIS = {right!r}"
    return rng.choice([
        f"\ufeff{text}", f"DIAGNOSIS = {odd}", text.replace("'none'", odd), text.replace("'A'", odd),
        text.replace("'cause'", odd), text[: rng.randrange(len(text))], text + f"; DIAGNOSIS[{odd}]",
    ])  # fmt: skip
