"""Throws what nobody means at the commands that read files, and at the judges of labs, and counts
what comes back: `python -m tests.fuzz`, or `python -m tests.fuzz serve 17` for one case again.

Right is an answer of finite numbers, or one sentence that names what was wrong: a key of the file,
the option, the line or, where it is no file of its kind at all, the file.
"""

import gzip
import json
import math
import multiprocessing
import random
import re
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track
from typer.testing import CliRunner

from course_lib import CourseError
from course_tools.diagnosis.causes import FOLDER as TRACES
from course_press.cli.app import app
from tests.course_tools.counting.configs import CASES

COUNTS = {"predict": 2000, "diagnose": 1000, "serve": 400, "train": 400, "judges": 300}
"""How many cases of each; of the judges, for each lab."""
HOSTILE = "tests.course_press.grading.hostile"
"""Makes, by a seed, what a learner's process may answer, for each lab's judge."""
LIMIT = 30
"""Seconds of the processor after which a case hangs."""
GOOD = ("answered", "refused")

ODD = (
    None, True, False, 0, -1, 1, 2, 3, 7, 0.5, 8.0, -0.0, 1e308, 5e-324, math.nan, math.inf, 2**31, 2**53,
    2**63, 10**20, 10**400, -(10**20), "", "x", "8", "\ud800", "a\x1b[2J\n", "é" * 5000, "../x", [], [1], [None],
    ["\ud800"], {}, {"a": 1}, [[[[[[]]]]]], ["full_attention"] * 4, [2**63] * 3, "auto", "fp8", "int4",
)  # fmt: skip
"""What may stand where something else should."""
MORE = (
    "sliding_window", "layer_types", "mlp_only_layers", "architectures", "head_dim", "rope_scaling",
    "quantization_config", "torch_dtype", "num_experts", "tie_word_embeddings", "attention_bias", "text_config",
)  # fmt: skip
"""Keys that a configuration may have besides."""
MODELS = [
    {
        key: value[:4] if isinstance(value, list) and key.endswith("types") else value
        for key, value in {**case.config, "num_hidden_layers": 4}.items()
    }
    for case in CASES.values()
    if case.described
]
"""Configurations whose sizes say all, with so few layers that what is traced after all is soon."""
TRACED = [{"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 512}]
ENGINE = {
    "max_num_seqs": 64, "max_num_batched_tokens": 2048, "max_model_len": 4096, "block_size": 16,
    "num_gpu_blocks": 2000, "gpu_memory_utilization": 0.9, "enable_prefix_caching": True,
    "enable_chunked_prefill": True, "async_scheduling": True, "tensor_parallel_size": 1, "dtype": "auto",
    "kv_cache_dtype": "auto", "memory": 8e10, "bandwidth": 1.0, "step": 0.0, "source": "mine", "name": "vllm",
    "data_parallel_size": 1, "enable_expert_parallel": False, "skew": 1.0, "num_speculative_tokens": 0,
    "acceptance": 0.5,
}  # fmt: skip
OPTIONS = {
    "predict": {"--batch": 8, "--context": 128, "--weights": "int8", "--cache": "fp8", "--tp": 2,
                "--activations": "bf16", "--compute": "bf16", "--link": "nvlink"},
    "serve": {"--rate": 4.0, "--requests": 30, "--prompt": 200, "--output": 20, "--spread": 0.5, "--burst": 1.0,
              "--seed": 1, "--tp": 2, "--ep": 2, "--link": "nvlink", "--replicas": 2, "--router": "prefix",
              "--weights": "fp8", "--cache": "fp8", "--slo": "ttft=0.5,tpot=0.05", "--usd": 2.0},
    "train": {"--chips": "64xh100-sxm", "--sequence": 2048, "--batch": 512, "--tokens": 1e12, "--usd": 2.0,
              "--layout": "dp=8,tp=8,pp=1,cp=1,ep=1,zero=1,mbs=2,acc=4,interleave=1,recompute=none"},
}  # fmt: skip

CALLED = {"--weights": "w", "--activations": "x", "--cache": "kv", "--tp": "tensor_parallel_size", "--usd": "usd_per_hour"}  # fmt: skip
"""What the library calls an option."""


class Case(NamedTuple):
    """A call of `course`, and what its refusal must name: one of these."""

    arguments: list[str]
    names: frozenset[str]


class HangError(BaseException):
    """A case took longer than it may."""


def odd(one: Any, rng: random.Random) -> Any:
    """Something else in the place of a value, or a relation of it."""
    if isinstance(one, int | float) and abs(one) < 10**40 and rng.random() < 0.5:
        return rng.choice([one + 1, -one, one * 2, float(one), str(one), [one], one * 10**6])
    if isinstance(one, str) and rng.random() < 0.3:
        return rng.choice([one[:-1], one + one, one.upper(), f" {one}", [one], {one: one}])
    return rng.choice(ODD)


def mutated(one: Any, rng: random.Random, names: set[str]) -> Any:
    """With something odd in one place, whose keys are noted."""
    if isinstance(one, dict) and one and rng.random() < 0.95:
        key = rng.choice(list(one))
        names.add(key)
        if rng.random() < 0.15:
            return {name: value for name, value in one.items() if name != key}
        return {**one, key: mutated(one[key], rng, names)}
    if isinstance(one, list) and one and rng.random() < 0.8:
        at = rng.randrange(len(one))
        return [*one[:at], mutated(one[at], rng, names), *one[at + 1 + (rng.random() < 0.1) :]]
    return odd(one, rng)


def broken(text: bytes, rng: random.Random) -> bytes:
    """A file that is damaged somewhere."""
    at = rng.randrange(len(text) + 1)
    byte = rng.choice(
        [b"\xff", b"\x00", b"{", b"]", b'"', b",", b"\\ud800", b"\n", b"1e999", b"[" * 3000]
    )
    return rng.choice(
        [text[:at], text[:at] + byte + text[at:], b"\xef\xbb\xbf" + text, text + text, b"[]"]
    )


def predict(rng: random.Random, folder: Path) -> Case:
    of = MODELS if rng.random() < 0.97 else TRACED
    config, names = dict(rng.choice(of)), {"config.json"}
    names |= set(config)  # a size may contradict another
    if rng.random() < 0.3:
        config[rng.choice(MORE)] = odd(rng.choice([8, "x", ["x"]]), rng)
        names |= set(config)
    for _ in range(rng.choice([0, 0, 1, 1, 1, 2, 3])):
        config = mutated(config, rng, names)
    text = json.dumps(config).encode()
    (folder / "config.json").write_bytes(broken(text, rng) if rng.random() < 0.08 else text)
    options = given("predict", rng, names, rng.choice([0, 0, 1, 2]))
    if of is TRACED and "--context" not in options:
        options += ["--context", "16"]  # its tokens are traced one by one
    passes = rng.choice([[], [], ["--prefill"], ["--calibrated"]])
    chip = rng.choice(["h100-sxm", "a100-sxm-80", "l4", "i5-8250u"])
    asked = ["predict", f"{folder}/config.json", chip, "--json", *options, *passes]
    return Case(asked, frozenset(names | {chip}))


def diagnose(rng: random.Random, folder: Path) -> Case:
    file = rng.choice(sorted(TRACES.glob("*.json.gz")))
    trace, names = json.loads(gzip.decompress(file.read_bytes())), {"trace.json"}
    for _ in range(rng.choice([1, 2, 5, 50])):
        at = rng.randrange(len(trace["traceEvents"]))
        trace["traceEvents"][at] = mutated(trace["traceEvents"][at], rng, names)
    for _ in range(rng.choice([0, 0, 0, 1])):
        trace = mutated(trace, rng, names)
    text = json.dumps(trace).encode()
    text = broken(text, rng) if rng.random() < 0.15 else text
    if rng.random() < 0.3:
        text = gzip.compress(text)
        text = broken(text, rng) if rng.random() < 0.3 else text
    (folder / "trace.json").write_bytes(text)
    chip = rng.choice([[], ["--chip", "h100-sxm"]])
    return Case(
        ["diagnose", f"{folder}/trace.json", "--json", *chip], frozenset({"trace.json", "--chip"})
    )


def serve(rng: random.Random, folder: Path) -> Case:
    names, more = {"--slo", "max_model_len", "takes"}, []
    kind = rng.choice(["options", "arrivals", "engine", "plan"])
    options = given("serve", rng, names, rng.choice([1, 2, 3]) if kind == "options" else 0)
    base = ["--rate", "4", "--requests", "30", "--output", "20"]
    if kind == "arrivals":
        rows: Any = [
            {
                "arrival_time": 0.1 * at,
                "input_toks": 50 + at,
                "output_toks": 5,
                "prefix_id": "a",
                "prefix_toks": 9,
            }
            for at in range(20)
        ]
        for _ in range(rng.choice([1, 2, 5])):
            rows = mutated(rows, rng, names) if isinstance(rows, list) else rows
        lines = rows if isinstance(rows, list) else [rows]
        text = "\n".join(json.dumps(one) for one in lines).encode()
        names.add("arrivals.jsonl")
        (folder / "arrivals.jsonl").write_bytes(broken(text, rng) if rng.random() < 0.2 else text)
        base = ["--arrivals", f"{folder}/arrivals.jsonl"]
    elif kind == "engine":
        engine: Any = ENGINE
        for _ in range(rng.choice([1, 2, 4])):
            engine = mutated(engine, rng, names) if isinstance(engine, dict) else engine
        if rng.random() < 0.3:
            engine = {rng.choice(["engine_kwargs", "cache_config", "resolved_config"]): engine}
        text = json.dumps(engine).encode()
        # A setting that is odd lets another one miss: the error may name either.
        names |= {"engine.json", *ENGINE}
        (folder / "engine.json").write_bytes(broken(text, rng) if rng.random() < 0.1 else text)
        more = ["--engine", f"{folder}/engine.json"]
    elif kind == "plan":
        options = given("serve", rng, names, rng.choice([0, 1]))
        more = ["--plan", "--tp", "1", "--slo", "ttft=0.5,tpot=0.05"]
    model, chip = rng.choice(
        [("llama-3-8b", "h100-sxm"), ("mixtral-8x7b", "h200-sxm"), ("llama-3-8b", "l4")]
    )
    return Case(
        ["serve", model, chip, "--json", *base, *more, *options], frozenset(names | {model, chip})
    )


def train(rng: random.Random, folder: Path) -> Case:
    names: set[str] = set()
    options = given("train", rng, names, rng.choice([1, 2, 3]))
    if "--layout" in options and rng.random() < 0.8:
        at = options.index("--layout") + 1
        name, value = rng.choice(
            [part.split("=") for part in OPTIONS["train"]["--layout"].split(",")]
        )
        names.add(name)
        options[at] = OPTIONS["train"]["--layout"].replace(
            f"{name}={value}", f"{name}={odd(value, rng)}"
        )
    base = [] if "--chips" in options else ["--chips", "64xh100-sxm"]
    model = rng.choice(["llama-3-8b", "mixtral-8x7b", "gpt2-xl"])
    return Case(
        ["train", model, "--json", *base, *options], frozenset(names | {model, "chips", "layout"})
    )


def given(command: str, rng: random.Random, names: set[str], many: int) -> list[str]:
    """Options, half of them with something odd."""
    found = []
    for option in rng.sample(list(OPTIONS[command]), many):
        value = OPTIONS[command][option]
        value = odd(value, rng) if rng.random() < 0.5 else value
        text = (
            str(value)[:200].encode("utf-8", "replace").decode()
        )  # no shell gives half a character
        found += [option, text.replace("\x00", "")]
        names |= {option, option.removeprefix("--"), CALLED.get(option, option)}
    return found


MAKE: dict[str, Callable[[random.Random, Path], Case]] = {
    "predict": predict, "diagnose": diagnose, "serve": serve, "train": train
}  # fmt: skip


@contextmanager
def limited() -> Iterator[None]:
    """Ends what takes too long, by the processor's clock: other work is no reason."""

    def end(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)  # a number that is none, on its way
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(command: str, number: int) -> tuple[str, str]:
    """What became of a case: one of `GOOD`, or what it was instead, and what was said."""
    if command == "judges":
        return judged(number)
    with tempfile.TemporaryDirectory() as place:
        case = MAKE[command](random.Random(f"{command} {number}"), Path(place))
        try:
            with limited():
                done = CliRunner().invoke(app, case.arguments)
        except HangError:
            return "hung", " ".join(case.arguments)
    said = str(done.exception) if isinstance(done.exception, CourseError) else done.stderr.strip()
    about = f"{' '.join(case.arguments)}\n{said}"
    if not isinstance(done.exception, CourseError | SystemExit | None):
        return "raw", about + "".join(traceback.format_exception(done.exception))[-1500:]
    try:
        numbers = list(floats(json.loads(done.stdout)))
    except ValueError:
        named = any(re.search(rf"(?<![\w-]){re.escape(name)}(?!\w)", said) for name in case.names)
        usage = (
            isinstance(done.exception, SystemExit) and command != "diagnose"
        )  # typer's, in a box
        return "refused" if named and (usage or said.isprintable()) else "unnamed", about
    return "answered" if all(map(math.isfinite, numbers)) else "no number", about


def floats(one: Any) -> Iterator[float]:
    if isinstance(one, float):
        yield one
    for inner in one.values() if isinstance(one, dict) else one if isinstance(one, list) else ():
        yield from floats(inner)


def judged(seed: int) -> tuple[str, str]:
    """What every lab's judge makes of odd answers."""
    for lab, judge in import_module(HOSTILE).frames(seed):
        try:
            with limited():
                verdicts, words = judge()
        except HangError:
            return "hung", f"lab {lab}"
        except Exception:  # noqa: BLE001 - what else a judge raises is what is looked for
            return "raw", f"lab {lab}\n{traceback.format_exc()[-1500:]}"
        if not verdicts or not all(word.isprintable() for word in words):
            return "unnamed", f"lab {lab}: {words}"
    return "answered", ""


def main() -> None:
    """Throw all, or those named, and print the counts; exit with 1 where one was not right."""
    console, wanted = Console(), sys.argv[1:2] or list(COUNTS)
    if len(sys.argv) > 2:
        console.print(*outcome(wanted[0], int(sys.argv[2])), markup=False, highlight=False)
        return
    wrong = 0
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        for command in wanted:
            if command == "judges" and find_spec(HOSTILE) is None:
                console.print(f"{HOSTILE} is not there: NO JUDGE WAS THROWN AT")
                wrong += 1
                continue
            numbers = range(COUNTS[command])
            found = pool.imap(partial(outcome, command), numbers, chunksize=4)
            counts: Counter[str] = Counter()
            for number, (what, said) in enumerate(
                track(found, command, len(numbers), console=console)
            ):
                counts[what] += 1
                if what not in GOOD:
                    console.print(
                        f"{command} {number}: {what}: {said}",
                        markup=False,
                        highlight=False,
                        soft_wrap=True,
                    )
            console.print(f"{command}: {len(numbers)} cases, {dict(counts)}", markup=False)
            wrong += sum(counts[what] for what in counts if what not in GOOD)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
