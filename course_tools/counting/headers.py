"""What files of weights say of themselves at their beginning: how many bytes, of what model."""

import json
import struct
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from course_lib.core.checks import CourseError
from course_tools.counting.quantization import CALLED

# ggml.h and ggml-common.h: a type's elements in a block, and the block's bytes.
TYPES = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
# docs/gguf.md: how a value's type is packed; 8 is text and 9 a list.
PACKED = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
KINDS = {"qwen3moe": "qwen3_moe", "gpt-oss": "gpt_oss", "glm4moe": "glm4_moe"}
KEYS = CALLED["gguf"]  # of a GGUF file, and of a config.json
SUFFIXES = (".safetensors", ".gguf", ".index.json")


def stored(path: Path) -> tuple[float, dict[str, Any] | None]:
    """Bytes of all tensors that a file names, and a configuration where it holds one."""
    try:
        with path.open("rb") as file:
            if path.suffix == ".gguf":
                return _gguf(file)
            if path.suffix == ".json":
                return float(json.load(file)["metadata"]["total_size"]), None
            (size,) = struct.unpack("<Q", file.read(8))
            if size > path.stat().st_size:
                raise ValueError("its header would be longer than the file")
            found = json.loads(file.read(size))
        ends = [one["data_offsets"][1] for name, one in found.items() if name != "__metadata__"]
        return float(max(ends)), None
    except OSError as error:
        raise CourseError(f"file {str(path)!r} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, struct.error, MemoryError, OverflowError) as error:
        said = f"file {str(path)!r} is no {''.join(path.suffixes[-2:])} that can be read: {error!r}"
        raise CourseError(f"{said}; pass one as its program wrote it") from None


def _gguf(file: BinaryIO) -> tuple[float, dict[str, Any]]:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    _, tensors, values = _of(file, "IQQ")
    said = {_text(file): _value(file, *_of(file, "I")) for _ in range(values)}
    total, names, vocab = 0.0, set(), 0
    for _ in range(tensors):
        name = _text(file)
        sizes = _of(file, f"{_of(file, 'I')[0]}Q")
        kind, _ = _of(file, "IQ")
        many, bytes_ = TYPES[kind]
        total += prod(sizes) / many * bytes_
        names.add(name)
        vocab = sizes[-1] if name == "token_embd.weight" else vocab
    own = str(said["general.architecture"])
    config = {here: said[f"{own}.{key}"] for key, here in KEYS.items() if f"{own}.{key}" in said}
    config |= {"model_type": KINDS.get(own, own), "vocab_size": vocab}
    return total, config | {"tie_word_embeddings": "output.weight" not in names}


def _of(file: BinaryIO, how: str) -> tuple[Any, ...]:
    size = struct.calcsize(f"<{how}")
    return struct.unpack(f"<{how}", file.read(size))


def _text(file: BinaryIO) -> str:
    return file.read(_of(file, "Q")[0]).decode()


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == 8:
        return _text(file)
    if kind == 9:
        inner, many = _of(file, "IQ")
        return [_value(file, inner) for _ in range(many)]
    return _of(file, PACKED[kind])[0]
