"""Compiles and runs a learner's programs on eight CPU devices, and tells what came of it."""

import socket
from typing import Any

import numpy as np

from course_press.grading.sandbox import learner

DEVICES = 8


class NotJittedError(TypeError):
    """A task returns something that JAX cannot compile."""

    kind = "not-jitted"


def main(job: dict[str, Any], talk: socket.socket) -> None:
    """Do each task that the grader names, until it names none."""
    learner.serve(job, talk, _prepared)


def _prepared() -> learner.Answer:
    """What tries a task by what is JAX's own, from before the file runs."""
    import jax
    from jax.stages import Compiled, Lowered

    # Threads do not outlive a fork: the devices are made here and not where JAX was imported.
    config: Any = jax.config
    config.update("jax_platforms", "cpu")
    config.update("jax_num_cpu_devices", DEVICES)
    program, compile_, text = type(jax.jit(abs)), Lowered.compile, Compiled.as_text
    input_shardings, bf16, leaves = Compiled.input_shardings, jax.numpy.bfloat16, jax.tree.leaves
    array: Any = jax.ShapeDtypeStruct

    def compiled_of(made: Any, shapes: list[list[int]]) -> Any:
        """A task's program, compiled for arrays of these shapes."""
        arrays = [array(tuple(shape), bf16) for shape in shapes]
        lowered = made.lower(*arrays) if type(made) is program else made
        if type(lowered) is not Lowered:
            raise NotJittedError(type(made).__name__)
        compiled = compile_(lowered)
        if type(compiled) is not Compiled:
            raise NotJittedError(type(compiled).__name__)
        return compiled

    def tried(function: Any, asked: dict[str, Any], payload: bytes) -> learner.Reply:
        made, shapes = function(), asked["shapes"]
        compiled = compiled_of(made, shapes)
        texts = [str(text(compiled)).encode()]
        if asked["large"]:
            texts.append(str(text(compiled_of(made, asked["large"]))).encode())
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        parts = np.split(np.frombuffer(payload, np.float32), ends[:-1])
        inputs = [
            part.reshape(shape).astype(bf16) for part, shape in zip(parts, shapes, strict=True)
        ]
        results = leaves(compiled(*inputs))
        shards, values = [], []
        for number, result in enumerate(results):
            for shard in result.addressable_shards:
                place = zip(shard.index, result.shape, strict=True)
                bounds = [part.indices(size)[:2] for part, size in place]
                shards.append([number, int(shard.device.id), bounds])
                values.append(np.asarray(shard.data).astype(np.float32).tobytes())
        held = zip(input_shardings.__get__(compiled)[0], shapes, strict=True)
        reply = {
            "inputs": [
                list(sharding.shard_shape(tuple(shape))) if sharding is not None else None  # unused
                for sharding, shape in held
            ],
            "outputs": [list(result.shape) for result in results],
            "shards": shards,
            "texts": [len(one) for one in texts],
        }
        return reply, b"".join([*texts, *values])

    return tried
