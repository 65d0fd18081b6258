"""What engines' constants are fitted to, and how far the simulation is off on the rest: two thirds
of a published log, and services on a chip that is left out.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib.specs import Transformer, load_toml
from course_lib.specs.catalog import decoder
from course_tools.calibrate.errors import LENT, TEST, FamilyErrors
from course_tools.files import DATA
from course_tools.measured.published import table
from course_tools.serve.clock import TESTED
from course_tools.serve.fleet import Service, service, simulate
from course_tools.serve.requests import SHARES, Requests, Served, closed_workload, read_requests
from course_tools.serve.settings import engine, engines

# 300 requests to vLLM 0.19 on an RTX 4090, with its settings beside it.
LOG = DATA / "measured" / "serving" / "vllm-rtx-4090-llama-3.1-8b.jsonl"
# Llama-3.1-8B has the sizes of Llama-3-8B, and these requests are within the context of both.
MODEL, CHIP = "llama-3-8b", "rtx-4090"


class Log(NamedTuple):
    """A measured log: its requests, and s from the first arrival to each first and last token."""

    requests: Requests
    first: NDArray[np.float64]
    last: NDArray[np.float64]

    @property
    def makespan(self) -> float:
        """From the first arrival to the last token, s."""
        return float(np.max(self.last))

    def latencies(self, chosen: slice) -> dict[str, NDArray[np.float64]]:
        """What `Served` has of some requests, as it was measured."""
        arrived, more = self.requests.arrived, np.maximum(self.requests.output - 1, 1)
        found = {
            "ttft": self.first - arrived,
            "tpot": (self.last - self.first) / more,
            "e2e": self.last - arrived,
        }
        return {name: times[chosen] for name, times in found.items()}


def read_log() -> Log:
    """The published log."""
    rows = [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines()]
    # Tokens are timed on another clock than arrivals; requests were queued as they came.
    start, names = rows[0]["queued_ts"], ("first_token_ts", "last_token_ts")
    first, last = (np.array([row[name] - start for row in rows]) for name in names)
    return Log(read_requests(LOG), first, last)


def serve_log(log: Log, *, calibrated: bool = True, **settings: float) -> Served:
    """The log's requests, as an engine of its settings is expected to serve them."""
    how = engine(LOG.with_suffix(".json"), **settings)
    return simulate(MODEL, CHIP, log.requests, engine_of=how, calibrated=calibrated)


def errors(*, calibrated: bool = True) -> Mapping[str, float]:
    """How far the simulation is off on what was not fitted: the makespan, and percentiles of the
    last two thirds.
    """
    log = read_log()
    rest, done = slice(len(log.requests) // 3, None), serve_log(log, calibrated=calibrated)
    found = {"makespan": done.makespan / log.makespan - 1}
    for name, times in log.latencies(rest).items():
        likely = np.percentile(getattr(done, name)[rest], SHARES)
        ratios = likely / np.percentile(times, SHARES) - 1
        found |= {f"{name} p{share}": float(off) for share, off in zip(SHARES, ratios, strict=True)}
    return found


# Llama-3.1 has the sizes of Llama 3, and a longer context; R1 those of V3. Qwen3-32B is a Llama
# whose queries and keys are normed: its config.json.
_CONTEXT = 131072
_KNOWN = load_toml(DATA / "evidence.toml", dict)
_QWEN: Mapping[str, Any] = _KNOWN["qwen3-32b"]
# How InferenceMAX launched engines, by engine and model, chip and format, and for few users, groups
# of chips, or answers as long as prompts on few chips.
_LAUNCHED: Mapping[str, Mapping[str, Any]] = _KNOWN["launched"]
_FORMATS = {"fp8": ("fp8", "fp8"), "fp8_block": ("fp8", "fp8"), "nvfp4": ("nvfp4", "fp4")}
_ASKED: Mapping[str, Any] = _KNOWN["asked"]  # what users asked, usually and of some versions
PERCENTILES = "services, percentiles"  # of the log, in the table of errors
MANY = 60  # services of an engine that are drawn to be tested


class MeasuredService(NamedTuple):
    """A service under so many users at once: its layout, lengths, and mean s to the first token and
    for each later one.
    """

    engine: str
    version: str
    model: str
    chip: str
    dtype: str
    users: int
    prompt: int
    output: int
    tp: int
    dp: int
    ep: int
    first: float
    token: float

    def serve(self, **settings: Any) -> Service:
        """The service as an engine with such constants is expected to be."""
        w, compute = _FORMATS.get(self.dtype, ("bf16", "bf16"))
        # NVIDIA's checkpoints in 8 bits and less declare a cache in fp8.
        kv = "fp8" if self.engine == "trtllm" and self.dtype else None
        layout: dict[str, Any] = {
            "tensor_parallel_size": self.tp,
            "data_parallel_size": self.dp,
            "enable_expert_parallel": self.ep > 1,
        }
        kind = f"{self.engine} {self.model.partition('-')[0]}"
        kinds = {"": True, f" {self.chip} {self.dtype}": True, f" {self.chip} few": self.users < 16}
        kinds |= {" dp": self.dp > 1, " chat": self.prompt == self.output and self.tp < 8}
        kinds[f" {self.version}"] = True
        for name in (kind + more for more, so in kinds.items() if so):
            layout |= _LAUNCHED.get(name, {})
        if kind == "trtllm DeepSeek" and self.version < "1.2":  # a prompt, and a token of each user
            most = (self.users // self.dp + self.prompt + 127) // 64 * 64
            layout["max_num_batched_tokens"] = most
        how = engine(self.engine, **layout, **settings)
        link = "nvlink" if max(self.tp, self.ep) > 1 else None
        of = _transformer(self.model)
        return service(of, self.chip, engine_of=how, link=link, w=w, compute=compute, kv=kv)

    @property
    def requests(self) -> Requests:
        """What its users ask."""
        asked = _ASKED["usual"] | _ASKED.get(self.version, {})
        return closed_workload(self.users, self.prompt, self.output, **asked)


@cache
def _transformer(name: str) -> Transformer:
    if name.startswith("Qwen3-32B"):
        return msgspec.structs.replace(decoder("llama-3-8b").extended(_CONTEXT), **_QWEN)
    if name.startswith("DeepSeek"):
        return decoder("deepseek-v3")
    return decoder("llama-3-70b" if "70B" in name else "llama-3-8b").extended(_CONTEXT)


@cache
def services() -> tuple[MeasuredService, ...]:
    """The published services of one pool, each once."""
    return tuple(dict.fromkeys(map(_service, table("services_aiconfigurator"))))


def _service(row: Mapping[str, str]) -> MeasuredService:
    sizes = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    tp, dp, by, ep = (int(row[name] or 1) or 1 for name in sizes)
    if tp * dp > 8 and by == ep:  # multiplied twice
        tp, dp = (ep, 1) if tp > 1 else (1, ep)
    name = row["model_path"].rpartition("/")[2].replace("V3", "R1")
    return MeasuredService(
        engine=row["backend"],
        version=row["backend_version"],
        model=name,
        chip=row["system"].replace("_", "-"),
        dtype=row["gemm_quant_mode"],
        users=int(row["concurrency"] or int(row["batch_size"]) * dp),
        prompt=int(row["isl"]),
        output=int(row["osl"]),
        tp=tp,
        dp=dp,
        ep=ep if name.startswith("DeepSeek") else 1,
        first=float(row["ttft_ms"]) / 1e3,
        token=float(row["tpot_ms"]) / 1e3,
    )


def drawn(some: Iterable[MeasuredService], many: int) -> list[MeasuredService]:
    """So many of them, by a fixed draw."""
    every = list(some)
    return [every[i] for i in np.random.default_rng(0).permutation(len(every))[:many]]


def means(done: Served) -> tuple[float, float]:
    """Mean s to the first token, and for each later one."""
    return float(done.ttft.mean()), float(done.tpot.mean())


def error_rows() -> list[FamilyErrors]:
    """First tokens and times per token of services, with constants fitted without their chip; and
    percentiles of the log's last two thirds.
    """
    rows = []
    for name in engines():
        for one in drawn((each for each in services() if each.engine == name), MANY):
            made, asked = one.serve(**engine(name).without.get(one.chip, {})), one.requests
            low, high = made.ends(asked)
            times = zip(*map(means, (made.run(asked), low, high)), strict=True)
            seen = zip(TESTED, (one.first, one.token), strict=True)
            for (what, measured), three in zip(seen, times, strict=True):
                family = f"services, {name}, {what}"
                rows.append(FamilyErrors(family, LENT, (one.chip,), measured, *three))
    log = read_log()
    rest = slice(len(log.requests) // 3, None)
    made = service(MODEL, CHIP, engine_of=engine(LOG.with_suffix(".json")))
    low, high = made.ends(log.requests)
    runs = (made.run(log.requests), low, high)
    for what, taken in log.latencies(rest).items():
        expected, *ends = (np.percentile(getattr(run, what)[rest], SHARES) for run in runs)
        found = np.percentile(taken, SHARES)
        rows.append(FamilyErrors(PERCENTILES, TEST, (CHIP,), found, expected, *ends))
    return rows
