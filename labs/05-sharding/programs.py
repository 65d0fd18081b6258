"""Lab 05: compiles the six programs of tasks 1 to 6 at the sizes of a real layer, and saves their
texts. Nothing runs but the compiler. The notebook calls this file. By hand, in this folder:

python programs.py --file reference.py --out results/local
"""

import argparse
import importlib.util
import re
from pathlib import Path

B, D, F = 4096, 8192, 28672
MICROBATCHES, DEVICES = 4, 8
FUNCTIONS = {
    "tensor": "tensor_parallel",
    "data": "data_parallel",
    "both": "both",
    "fsdp": "fsdp",
    "sequence": "sequence_parallel",
    "experts": "experts",
}
"""The function of the file by the scheme, as `network.sharded_mlp` calls it."""
ROWS, WEIGHTS = (B, D), ((D, F), (F, D))
SHAPES = {
    "tensor": (ROWS, *WEIGHTS),
    "data": (ROWS, ROWS, *WEIGHTS),
    "both": (ROWS, ROWS, *WEIGHTS),
    "fsdp": (*((MICROBATCHES, B // MICROBATCHES, D),) * 2, *WEIGHTS),
    "sequence": (ROWS, *WEIGHTS),
    "experts": ((DEVICES, DEVICES, B // DEVICES**2, D), *((DEVICES, *shape) for shape in WEIGHTS)),
}
SOURCES = re.compile(
    r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d.*\n)*"
    r"| (?:stack_frame_id|source_\w+)=(?:\"[^\"]*\"|\d+)"
)
"""Where each line of the program comes from, in a file on this computer."""


def load(file):
    """The learner's file, or the reference, as a module."""
    spec = importlib.util.spec_from_file_location("sharded", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(file):
    """The compiled text of each program that the file has, by scheme."""
    module = load(file)

    import jax
    import jax.numpy as jnp

    found = {}
    for scheme, name in FUNCTIONS.items():
        arrays = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in SHAPES[scheme]]
        try:
            program = getattr(module, name)()
        except NotImplementedError:
            continue
        text = SOURCES.sub("", program.lower(*arrays).compile().as_text())
        found[scheme] = re.sub(r"\n{3,}", "\n\n", text)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compile the programs, and keep their texts.")
    parser.add_argument("--file", type=Path, default=Path("reference.py"))
    parser.add_argument("--out", type=Path, default=Path("results/local"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for scheme, text in texts(given.file).items():
        (given.out / f"{scheme}.txt").write_text(text, encoding="utf-8")
