"""Files of weights, of which only the beginning is read."""

import json
import struct

import pytest

from course_lib import CourseError
from course_tools.counting import named
from course_tools.serve import pool

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2,
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 512,
}  # fmt: skip


def safetensors(path, tensors):
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)  # and no weights behind it
    return path


def gguf(path, values, tensors):
    """A file as docs/gguf.md has it, without the tensors' bytes."""

    def text(said):
        return struct.pack("<Q", len(said)) + said.encode()

    made = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    for key, value in values.items():
        if isinstance(value, str):
            made += text(key) + struct.pack("<I", 8) + text(value)
        elif isinstance(value, list):
            made += text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        else:
            made += text(key) + struct.pack("<II", 4, value)
    for name, (sizes, kind) in tensors.items():
        made += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, 0)
    path.write_bytes(made)
    return path


def test_weights_are_as_many_bytes_as_the_header_says(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    tensors = {
        "a": {"dtype": "F8_E4M3", "shape": [1000], "data_offsets": [0, 1000]},
        "b": {"dtype": "BF16", "shape": [100], "data_offsets": [1000, 1200]},
    }
    file = safetensors(tmp_path / "model.safetensors", tensors)
    meant = named(str(file))
    assert meant.stored == 1200
    assert pool(meant, "l4").kept.weights == 1200
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 7_777}, "weight_map": {}}))
    assert named(str(index)).stored == 7_777


def test_a_gguf_says_which_model_it_holds(tmp_path):
    values = {
        "general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 256,
        "llama.feed_forward_length": 512, "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2, "llama.context_length": 1_024,
        "tokenizer.ggml.tokens": ["a", "b"],
    }  # fmt: skip
    tensors = {
        "token_embd.weight": ((256, 1_000), 14),  # q6_K
        "output_norm.weight": ((256,), 0),
        "blk.0.attn_q.weight": ((256, 256), 12),  # q4_K
    }
    meant = named(str(gguf(tmp_path / "small.gguf", values, tensors)))
    assert meant.stored == 1_000 * 210 + 256 * 4 + 256 * 144
    assert (meant.model.layers, meant.model.kv_heads, meant.model.vocab) == (2, 2, 1_000)
    assert meant.model.head == "tied"
    assert meant.limit == 1_024
    assert pool(meant, "l4", "llama.cpp@b7000").kept.weights == meant.stored
    with pytest.raises(CourseError, match="weights 'int8'"):
        pool(meant, "l4", w="int8")


def test_parts_of_a_file_are_read_together_and_a_lost_one_is_named(tmp_path):
    """As gguf-split and the hub cut them: the first part has the values, and any the tensors."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    values = {
        "general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 256,
        "llama.feed_forward_length": 512, "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2, "llama.context_length": 1_024,
    }  # fmt: skip
    tensors = {
        "token_embd.weight": ((256, 1_000), 40),  # nvfp4
        "output.weight": ((256, 1_000), 14),
        "blk.0.attn_q.weight": ((256, 256), 12),
    }
    whole = named(str(gguf(tmp_path / "whole.gguf", values, tensors)))
    parts = [tmp_path / f"cut-{i:05}-of-00004.gguf" for i in range(1, 5)]
    gguf(parts[0], values, {})
    for part, (name, one) in zip(parts[1:], tensors.items(), strict=True):
        gguf(part, {"split.no": 1}, {name: one})
    for part in parts:
        meant = named(str(part))
        assert meant.stored == whole.stored == 1_000 * (144 + 210) + 256 * 144
        assert meant.config == whole.config
    parts[2].unlink()
    with pytest.raises(CourseError, match=parts[2].name):
        named(str(parts[0]))
    for i in (1, 2):
        one = {"a": {"dtype": "BF16", "shape": [100], "data_offsets": [0, 200]}}
        safetensors(tmp_path / f"model-{i:05}-of-00002.safetensors", one)
    assert named(str(tmp_path / "model-00002-of-00002.safetensors")).stored == 400


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.safetensors", b"\xff" * 40),
        ("a.safetensors", b"\x02\x00\x00\x00\x00\x00\x00\x00{]"),
        ("a.gguf", b"GGML" + b"\x00" * 40),
        ("a.gguf", b"GGUF\x03\x00"),
        ("a.index.json", b"{}"),
    ],
)
def test_what_is_no_such_file_is_refused_by_its_name(tmp_path, name, content):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(CourseError, match=r"a\.\w+"):
        named(str(file))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(CourseError, match=r"nowhere\.gguf"):
        named("nowhere.gguf")
