"""Compiles and runs a learner's programs on eight devices of this computer's CPU, and tells the
grader what the compiler wrote and what came out.
"""

import json
import socket
import sys
from typing import Any

import numpy as np

from course_press.grading.inside import frames, learner

DEVICES = 8


class NotJittedError(TypeError):
    """A task returns something that JAX cannot compile."""

    kind = "not-jitted"


def main(job: dict[str, Any], talk: socket.socket) -> None:
    """Do each task that the grader names, until it names none."""
    try:
        # Threads do not outlive a fork: the devices are made here and not where JAX was imported.
        config = _jax().config
        config.update("jax_platforms", "cpu")
        config.update("jax_num_cpu_devices", DEVICES)
        own = _Own()
        learner.load(job, "")
    except BaseException as error:  # noqa: BLE001
        frames.send(talk, {"op": "failed", "failure": learner.failed(error, job)})
        return
    frames.send(talk, {"op": "loaded"})
    while True:
        header, payload = frames.receive(talk)
        about = json.loads(header)
        try:
            told, parts = _tried(about, payload, own)
            frames.send(talk, {"op": "done", **told}, parts)
        except BaseException as error:  # noqa: BLE001
            frames.send(talk, {"op": "failed", "failure": learner.failed(error, job)})


class _Own:
    """What is JAX's own, from before the file ran: nothing that looks alike is taken for it."""

    def __init__(self) -> None:
        from jax.stages import Compiled, Lowered

        self.program, self.lowered, self.compiled = type(_jax().jit(abs)), Lowered, Compiled
        self.compile, self.text, self.shardings = (
            Lowered.compile, Compiled.as_text, Compiled.input_shardings
        )  # fmt: skip

    def compiled_of(self, made: Any, shapes: list[list[int]]) -> Any:
        """A task's program, compiled for arrays of these shapes."""
        jax = _jax()
        arrays = [jax.ShapeDtypeStruct(tuple(shape), jax.numpy.bfloat16) for shape in shapes]
        lowered = made.lower(*arrays) if type(made) is self.program else made
        if type(lowered) is not self.lowered:
            raise NotJittedError(type(made).__name__)
        compiled = self.compile(lowered)
        if type(compiled) is not self.compiled:
            raise NotJittedError(type(compiled).__name__)
        return compiled


def _tried(about: dict[str, Any], payload: bytes, own: _Own) -> tuple[dict[str, Any], bytes]:
    jax = _jax()
    function = getattr(sys.modules["learner"], about["task"], None)
    if not callable(function):
        return {"failure": {"kind": "no-function"}}, b""
    made = function()
    compiled = own.compiled_of(made, about["shapes"])
    texts = [str(own.text(compiled)).encode()]
    if about["large"]:
        texts.append(str(own.text(own.compiled_of(made, about["large"]))).encode())
    numbers = np.frombuffer(payload, np.float32)
    ends = np.cumsum([int(np.prod(shape)) for shape in about["shapes"]])
    inputs = [
        np.asarray(part).reshape(shape).astype(jax.numpy.bfloat16)
        for part, shape in zip(np.split(numbers, ends[:-1]), about["shapes"], strict=True)
    ]
    results = jax.tree.leaves(compiled(*inputs))
    shards, values = [], []
    for number, result in enumerate(results):
        for shard in result.addressable_shards:
            bounds = [
                part.indices(size)[:2] for part, size in zip(shard.index, result.shape, strict=True)
            ]
            shards.append([number, int(shard.device.id), bounds])
            values.append(np.asarray(shard.data).astype(np.float32).tobytes())
    shardings = own.shardings.__get__(compiled)
    told = {
        "inputs": [
            list(sharding.shard_shape(tuple(shape))) if sharding is not None else None  # unused
            for sharding, shape in zip(shardings[0], about["shapes"], strict=True)
        ],
        "outputs": [list(result.shape) for result in results],
        "shards": shards,
        "texts": [len(text) for text in texts],
    }
    return told, b"".join([*texts, *values])


def _jax() -> Any:
    import jax

    return jax
