"""What the shell's parser refuses is data with --json, as every other error."""

import json
import random

import pytest

from tests.course_press.conftest import course

VERBS = ("fits", "predict", "verify", "serve", "train", "diagnose", "chip", "compare", "chips")


@pytest.mark.parametrize(
    ("line", "argument", "value", "remedy"),
    [
        ("serve llama-3-8b t4 --nope", "nope", None, "take --ep or --tp"),
        ("predict llama-3-8b", "chip", None, "see course predict --help"),
        ("train llama-3-8b", "chips", None, "see course train --help"),
        ("fits llama-3-8b t4 --users many", "users", "'many'", "write it as 1234.5"),
        ("fits llama-3-8b t4 --users=", "users", "''", "write it as 1234.5"),
        ("fits llama-3-8b t4 again", "argument", "'again'", "see course fits --help"),
        ("fits llama-3-8b t4 --users", "users", None, "see course --help"),
        ("fit llama-3-8b t4", "command", "'fit'", "see course --help"),
        ("lab nope", "command", "'nope'", "see course lab --help"),
        ("doctor", "json", None, "see course doctor --help"),
    ],
)
def test_misuse_is_data_and_ends_as_without(line, argument, value, remedy):
    before, *after = line.split()
    more = after if line.endswith("--users") else [*after, "--json"]
    json_first = ["--json"] if line.endswith("--users") else []
    done = course(".", before, *json_first, *more)
    found = json.loads(done.stdout)
    assert (found["argument"], found["value"], found["remedy"]) == (argument, value, remedy)
    assert done.stderr == f"{found['error']}\n"
    if before != "doctor":
        assert done.returncode == course(".", *line.split()).returncode == 2


WORDS = (
    *VERBS, "nope", "llama-3-8b", "h100-sxm", "t4", "nobody", "", "-", "--", "[x]", "0", "-1",
    "1e9", "nan", "é", "a/b.csv", "config.json", "all-reduce", "ttft=0.1", "dp=2,tp=2", "2xh100-sxm",
    "--chips", "--batch", "--users", "--context", "--tp", "--weights", "--cache", "--engine",
    "--rate", "--slo", "--layout", "--tokens-per-second", "--ms", "--flops", "--mfu", "--bytes",
    "--collective", "--format", "--prefill", "--steps", "--nope", "--json=1", "-x", "--users=x",
    "--clock", "--method", "--memory", "--utilization", "--dtype", "--sequence", "fp8", "vllm@0.9",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_typed_there_is_json_and_never_a_traceback(seed, tmp_path):
    dice = random.Random(seed)
    for _ in range(50):
        verb = dice.choice(VERBS) if dice.random() < 0.9 else dice.choice(WORDS)
        typed = [verb, *(dice.choice(WORDS) for _ in range(dice.randrange(7)))]
        if dice.random() < 0.5:  # near to what is right
            typed[1:1] = ["llama-3-8b", "h100-sxm"]
        typed.insert(dice.randrange(1, len(typed) + 1), "--json")
        if "--" in typed[: typed.index("--json")]:
            continue
        done = course(tmp_path, *typed)
        assert done.returncode in (0, 1, 2, 3), typed
        assert "Traceback" not in done.stdout + done.stderr, typed
        found = json.loads(done.stdout)
        if done.returncode in (2, 3):
            assert set(found) == {"error", "argument", "value", "remedy"}, typed
            assert done.stderr == f"{found['error']}\n", typed
