"""What files of weights say of themselves at their beginning: how many bytes, of what model."""

import json
import re
import struct
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from course_lib.core.checks import CourseError
from course_tools.counting.quantization import CALLED
from course_tools.files import DATA, read_rows

# ggml.h and ggml-common.h: a type, its elements in a block, and the block's bytes.
TYPES = {one["type"]: one for one in read_rows(DATA / "counting" / "ggml.csv", dict[str, int])}
# docs/gguf.md: how a value's type is packed; 8 is text and 9 a list.
PACKED = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
KINDS = {"qwen3moe": "qwen3_moe", "gpt-oss": "gpt_oss", "glm4moe": "glm4_moe"}
KEYS = CALLED["gguf"]  # of a GGUF file, and of a config.json
SUFFIXES = (".safetensors", ".gguf", ".index.json")
PART = re.compile(r"-\d{5}-of-(\d{5})(?=\.)")  # of a file that was cut


def stored(path: Path) -> tuple[float, dict[str, Any] | None]:
    """Bytes of all tensors that a file or its parts name, and a configuration where it has one."""
    names, said, rows = [path.name], dict[str, Any](), dict[str, int]()
    if part := PART.search(path.name):
        names = [PART.sub(f"-{1 + i:05}-of-{part[1]}", path.name) for i in range(int(part[1]))]
    total = sum(_header(path.with_name(name), said, rows) for name in names)
    if path.suffix != ".gguf":
        return total, None
    own = str(said.get("general.architecture"))
    config = {here: said[f"{own}.{key}"] for key, here in KEYS.items() if f"{own}.{key}" in said}
    config |= {"model_type": KINDS.get(own, own), "vocab_size": rows.get("token_embd.weight", 0)}
    return total, config | {"tie_word_embeddings": "output.weight" not in rows}


def _header(path: Path, said: dict[str, Any], rows: dict[str, int]) -> float:
    """Bytes of one file's tensors; a GGUF's values and its tensors' rows go into what is given."""
    try:
        with path.open("rb") as file:
            if path.suffix == ".gguf":
                return _gguf(file, said, rows)
            if path.suffix == ".json":
                return float(json.load(file)["metadata"]["total_size"])
            (size,) = struct.unpack("<Q", file.read(8))
            if size > path.stat().st_size:
                raise ValueError("its header would be longer than the file")
            found = json.loads(file.read(size))
        ends = [one["data_offsets"][1] for name, one in found.items() if name != "__metadata__"]
        return float(max(ends))
    except OSError as error:
        raise CourseError(f"file {str(path)!r} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, struct.error, MemoryError, OverflowError) as error:
        why = f"file {str(path)!r} is no {''.join(path.suffixes[-2:])} that can be read: {error!r}"
        raise CourseError(f"{why}; pass one as its program wrote it") from None


def _gguf(file: BinaryIO, said: dict[str, Any], rows: dict[str, int]) -> float:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    _, tensors, values = _of(file, "IQQ")
    said |= {_text(file): _value(file, *_of(file, "I")) for _ in range(values)}
    total = 0.0
    for _ in range(tensors):
        name = _text(file)
        sizes = _of(file, f"{_of(file, 'I')[0]}Q")
        kind, _ = _of(file, "IQ")
        total += prod(sizes) / TYPES[kind]["elements"] * TYPES[kind]["bytes"]
        rows[name] = sizes[-1]
    return total


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
