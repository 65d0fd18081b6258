"""A valid call of every public function of the library, and who is left out, for the test that
spoils their arguments.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import course_lib
from course_lib import bench, block, chip, llm, network, occupancy, ops, resnet, specs
from course_lib.bench import record, results
from course_lib.core import (
    Work,
    attainable,
    critical_batch,
    dtypes,
    ridge,
    roofline,
    sensitivity,
    total,
)
from course_lib.workloads import transformer, weights
import course_tools
from course_tools import calibrate, counting, hlo, measured, serve, train
from course_tools.campaigns import campaign as bench_plan
from course_tools.campaigns import kernels as bench_kernels
from course_tools.campaigns import operators as bench_operators
from course_tools.hlo.compiled import program
from course_tools.measured import published
import course_book
from course_book import exercises, text

H100, LLAMA, FORMATS = chip("h100-sxm"), specs.model("llama-3-8b"), llm.formats()
NVLINK = H100.links["nvlink"]
MATMUL = ops.matmul(64, 4096, 4096)
ESTIMATE = roofline(MATMUL, H100)
STEP = {
    "model": "llama-3-8b",
    "chip": "h100-sxm",
    "batch": 4,
    "w": "bf16",
    "x": "bf16",
    "kv": "bf16",
    "compute": "bf16",
}
LAYOUT = "dp=8,tp=8,zero=1,mbs=2,acc=4"
TRAINING = {"model": "llama-3-8b", "chips": "64xh100-sxm", "sequence": 4096}
TRAINED = {
    "model": "llama-3-8b",
    "chip": "h100-sxm",
    "tokens_per_second": 8000.0,
    "sequence": 4096,
    "causal": True,
}
COLLECTIVE = {"bytes": 1e9, "link": 450e9, "n": 8}
SIZES, TIMES = [1e3, 1e4, 1e5, 1e6, 1e7], [1e-5, 1.1e-5, 2e-5, 1.1e-4, 1e-3]
HEADS = {"heads": 32, "kv_heads": 8, "head_dim": 128}
PRODUCT = {
    "B": 16,
    "D": 4096,
    "F": 4096,
    "x": "bf16",
    "w": "int8",
    "out": "fp32",
    "compute": "bf16",
}
BENCH = {"dtype": "fp32", "device": "cpu", "budget": 1e-9, "seed": 0}


class Call(NamedTuple):
    """A call that is valid, and whether infinity is an answer of it."""

    function: Callable[..., Any]
    given: dict[str, Any]
    endless: bool = False

    @property
    def name(self) -> str:
        return f"{self.function.__module__}.{self.function.__name__}"


def ways(tp: int) -> dict[str, Any]:
    return {**STEP, "tp": tp, **({"link": "nvlink"} if tp > 1 else {})}


CALLS = [
    Call(roofline, {"work": MATMUL, "chip": H100, "comms": 1e-6}),
    Call(
        counting.from_config,
        {
            "config": {
                "model_type": "gpt2",
                "n_layer": 2,
                "n_embd": 64,
                "n_head": 4,
                "vocab_size": 128,
                "n_positions": 96,
            },
            "name": "mine",
        },
    ),
    Call(total, {"up": ESTIMATE, "down": ESTIMATE}),
    Call(sensitivity, {"estimate": ESTIMATE}),
    Call(ridge, {"peak": 989.4e12, "bandwidth": 3.35e12}),
    Call(attainable, {"intensity": 10.0, "peak": 989.4e12, "bandwidth": 3.35e12}),
    Call(
        critical_batch,
        {"work": lambda B: ops.matmul(B, 4096, 4096), "chip": H100, "exact": True},
        endless=True,
    ),
    Call(Work, {"flops": 1e9, "bytes": 1e6, "dtype": "bf16", "unit": "matrix", "kernels": 2}),
    Call(MATMUL.__mul__, {"times": 3}),
    Call(ops.dot, {"N": 1000, "x": "bf16", "y": "fp32", "out": "fp32", "compute": "fp32"}),
    Call(ops.matmul, PRODUCT),
    Call(ops.tiled_matmul, {**PRODUCT, "bm": 8, "bn": 128}),
    Call(ops.sectors, {"stride": 2, "start": 1, "x": "fp32", "threads": 32}),
    Call(occupancy.resident, {"chip": "h100-sxm", "threads": 256, "registers": 64, "memory": 4096}),
    Call(occupancy.sustained, {"chip": "h100-sxm", "warps": 8, "load": 16}),
    Call(
        occupancy.slice_of,
        {"chip": "h100-sxm", "bm": 128, "bn": 128, "bk": 64, "patch": (11, 12), "x": "bf16"},
    ),
    Call(ops.grouped_matmul, {**PRODUCT, "groups": 4}),
    Call(ops.outer_products, {"B": 64, "D": 16, "F": 32, "dtype": "fp32"}),
    Call(
        ops.attention,
        {
            "batch": 2,
            "q_len": 4,
            "kv_len": 64,
            **HEADS,
            "causal": True,
            "x": "bf16",
            "kv": "int8",
            "value_dim": 64,
            "values_in_keys": False,
            "compute": "bf16",
        },
    ),
    Call(ops.attention_standard, {"batch": 2, "q_len": 64, "kv_len": 64, **HEADS, "x": "bf16"}),
    Call(
        ops.attention_tiled,
        {
            "batch": 2,
            "q_len": 64,
            "kv_len": 64,
            **HEADS,
            "sram": 1e5,
            "outer": "queries",
            "x": "bf16",
        },
    ),
    Call(ops.kv_read, {"batch": 2, "context": 64, **HEADS, "kv": "int8"}),
    Call(
        ops.elementwise,
        {"shape": (4, 8), "flops": 2, "dtype": "bf16", "reads": 2, "writes": 1, "compute": "fp32"},
    ),
    *(Call(one, {"shape": (4, 8), "x": "bf16"}) for one in (ops.gelu, ops.swiglu, ops.residual)),
    Call(ops.blocked, {"kernel": "matmul", "sizes": (8, 16, 32), "block": (4, 8, 8)}),
    Call(ops.dropout, {"shape": (4, 8), "x": "bf16", "mask": True}),
    Call(ops.norm, {"tokens": 4, "width": 64, "kind": "layer", "x": "bf16", "w": "fp32"}),
    Call(ops.softmax, {"rows": 4, "width": 64, "x": "bf16"}),
    Call(ops.bias, {"tokens": 4, "width": 64, "x": "bf16", "w": "fp32"}),
    Call(ops.rotary, {"tokens": 4, "heads": 8, "head_dim": 64, "x": "bf16", "table": "fp32"}),
    Call(ops.embedding, {"tokens": 4, "width": 64, "tables": 2, "w": "int8", "x": "bf16"}),
    Call(ops.fuse, {"works": [ops.gelu((4, 8)), ops.residual((4, 8))], "keep": [0]}),
    Call(llm.decode, {**ways(1), "context": 1024}),
    Call(llm.decode, {**ways(8), "context": 1024}),
    Call(llm.prefill, {**ways(2), "prompt": 1024, "causal": False}),
    Call(
        llm.check_claim, {**ways(1), "tokens_per_second": 155, "tokens_per_pass": 1.5, "context": 0}
    ),
    Call(
        llm.fits,
        {
            "model": "llama-3-8b",
            "chip": "h100-sxm",
            "batch": 4,
            "context": 1024,
            "w": "bf16",
            "x": "bf16",
            "kv": "bf16",
            "tp": 2,
            "tokens": 4,
            "capacity": 80e9,
        },
        endless=True,
    ),
    Call(
        llm.memory,
        {
            "model": "llama-3-8b",
            "batch": 4,
            "context": 1024,
            "w": "bf16",
            "x": "bf16",
            "kv": "bf16",
            "tp": 2,
            "tokens": 4,
        },
    ),
    Call(
        llm.first_compute_bound_batch,
        {
            **{name: value for name, value in STEP.items() if name != "batch"},
            "context": 256,
            "capacity": 80e9,
        },
        endless=True,
    ),
    Call(
        llm.coefficients,
        {"model": "llama-3-8b", "w": "int8", "x": "bf16", "kv": "fp8", "compute": "bf16"},
    ),
    Call(llm.formats, {"w": "int8", "x": "bf16", "kv": "fp8", "compute": "bf16"}),
    Call(llm.distinct, {"tokens": 4, "experts": 8, "active": 2}),
    Call(llm.max_expert_load, {"tokens": 4, "experts": 8, "active": 2, "chips": 4, "skew": 1.5}),
    Call(weights.layout, {"model": specs.model("mixtral-8x7b"), "tp": 2, "ep": 4}),
    Call(llm.streamed_bytes, {"model": LLAMA, "tokens": 4, "fm": FORMATS, "tp": 2}),
    Call(llm.weight_bytes, {"model": LLAMA, "fm": FORMATS, "tp": 2}),
    Call(llm.weight_bytes, {"model": specs.model("mixtral-8x7b"), "fm": FORMATS, "tp": 1, "ep": 4}),
    Call(llm.cache_bytes, {"model": LLAMA, "fm": FORMATS, "tp": 2}),
    Call(llm.cache_bytes, {"model": specs.model("deepseek-v3"), "fm": FORMATS, "tp": 2}),
    Call(weights.matrices, {"model": LLAMA, "tp": 2, "absorbed": True}),
    Call(weights.kv_heads, {"model": LLAMA, "tp": 2}),
    Call(weights.norm_parameters, {"model": LLAMA}),
    Call(weights.activation_bytes, {"model": LLAMA, "tokens": 4, "fm": FORMATS, "tp": 2}),
    Call(
        transformer.operators,
        {
            "model": LLAMA,
            "batch": 2,
            "new": 4,
            "context": 64,
            "fm": FORMATS,
            "tp": 2,
            "decoding": True,
            "causal": True,
        },
    ),
    Call(LLAMA.extended, {"context": 16384}),
    *(
        Call(one, {**COLLECTIVE, "algorithm": "switched"})
        for one in (
            network.all_gather,
            network.all_reduce,
            network.reduce_scatter,
            network.all_to_all,
        )
    ),
    Call(network.all_reduce, {**COLLECTIVE, "link": NVLINK, "n": (4, 4), "algorithm": "torus"}),
    Call(network.send, {**COLLECTIVE, "algorithm": "store-and-forward"}),
    Call(network.Link, {"per_direction": 25e9, "count": 18, "latency": 1e-6}),
    Call(network.between_nodes, {"node": H100.node, "inside": NVLINK, "each": 4}),
    Call(
        network.fewest_nodes,
        {"node": H100.node, "inside": NVLINK, "n": 16, "least": 2, "name": "n"},
    ),
    Call(network.resolve_link, {"chip": H100, "link": "nodes", "n": 16, "name": "n"}),
    Call(
        network.phases,
        {
            "collective": "all-reduce",
            "bytes": 1e9,
            "link": network.between_nodes(H100.node, NVLINK),
            "n": 16,
            "algorithm": "hierarchical",
            "limit": False,
        },
    ),
    Call(network.cost, {"collective": "all-reduce", "n": 8, "algorithm": "ring", "limit": False}),
    Call(
        network.latency_bound_size,
        {
            "link": network.Link(25e9, count=18, latency=1e-6),
            "n": 8,
            "collective": "all-reduce",
            "algorithm": "ring",
        },
    ),
    Call(
        network.bus_bandwidth, {"bytes": 1e9, "seconds": 1e-2, "n": 8, "collective": "all-reduce"}
    ),
    Call(
        network.fit,
        {
            "bytes": SIZES,
            "seconds": TIMES,
            "n": 4,
            "collective": "all-reduce",
            "algorithm": "ring",
            "resamples": 20,
            "seed": 0,
        },
        endless=True,
    ),
    Call(
        network.sharded_matmul,
        {
            "B": 64,
            "D": 128,
            "F": 256,
            "chip": H100,
            "link": 450e9,
            "mesh": {"X": 4, "Y": 2},
            "x_axes": {"D": "X"},
            "w_axes": {"D": "X", "F": "Y"},
            "gather": "w",
            "scatter": "B",
            "algorithm": "ring",
            "x": "bf16",
            "w": "bf16",
            "out": "fp32",
            "compute": "bf16",
        },
    ),
    Call(
        network.sharded_mlp,
        {
            "scheme": "both",
            "B": 64,
            "D": 128,
            "F": 256,
            "mesh": {"data": 2, "model": 4},
            "chip": H100,
            "link": "nvlink",
            "algorithm": "switched",
            "x": "bf16",
        },
    ),
    Call(hlo.compiled_collectives, {"text": hlo.compiled_example("tensor")}),
    Call(
        hlo.compiled_seconds,
        {
            "found": hlo.compiled_collectives(hlo.compiled_example("both")),
            "link": 450e9,
            "algorithm": "switched",
        },
    ),
    Call(hlo.compiled_example, {"scheme": "both"}),
    Call(program, {"text": hlo.compiled_example("tensor")}),
    Call(
        network.critical_contraction,
        {"peak": 1e15, "link": 450e9, "n": 8, "out": "bf16", "algorithm": "ring"},
    ),
    Call(
        network.data_parallel_tokens,
        {"peak": 1e15, "link": 450e9, "n": 8, "grad": "bf16", "algorithm": "ring"},
    ),
    Call(
        network.tensor_parallel_width,
        {"peak": 1e15, "link": 450e9, "n": 8, "matrices": 3, "x": "bf16", "algorithm": "ring"},
    ),
    Call(
        network.tensor_parallel_tokens,
        {
            "D": 8192,
            "F": 28672,
            "peak": 1e15,
            "link": network.Link(25e9, count=18, latency=1e-6),
            "n": 8,
            "matrices": 3,
            "x": "bf16",
            "algorithm": "ring",
        },
        endless=True,
    ),
    Call(
        calibrate.predict,
        {
            "estimate": ESTIMATE,
            "chip": "h100-sxm",
            "dtype": "bf16",
            "constants": calibrate.calibration(H100),
            "state": "sustained",
            "engine": "typical",
        },
    ),
    Call(
        calibrate.breakdown,
        {
            "estimate": ESTIMATE,
            "chip": "h100-sxm",
            "dtype": "bf16",
            "constants": calibrate.calibration(H100),
            "engine": "typical",
        },
    ),
    Call(
        calibrate.collective,
        {
            "kind": "all-reduce",
            "bytes": 1e6,
            "chip": "h100-sxm",
            "n": 8,
            "link": "nvlink",
            "in_switch": None,
            "constants": calibrate.calibration(H100),
        },
    ),
    Call(calibrate.engines, {}),
    Call(ops.quantize, {"rows": 4, "width": 64, "x": "bf16", "out": "fp8"}),
    Call(
        calibrate.calibration,
        {"chip": "h100-sxm", "dtype": "bf16", "engine": "typical"},
        endless=True,  # No grouped kernel where none was measured
    ),
    Call(calibrate.calibrations, {}),
    Call(calibrate.mean_error, {"expected": 2.0, "measured": 1.5}),
    Call(calibrate.Prediction, {"expected": 2.0, "low": 1.0, "high": 3.0, "source": ""}),
    Call(
        train.flops,
        {
            "model": "llama-3-8b",
            "sequence": 4096,
            "causal": True,
            "recompute": "full",
            "parameters": 8e9,
        },
    ),
    Call(train.mfu, {**TRAINED, "dtype": "bf16", "parameters": 8e9}),
    Call(train.backward, {"model": "llama-3-8b", "sequence": 4096, "recompute": "full"}),
    Call(train.bubble, {"pp": 4, "acc": 8, "interleave": 2}),
    Call(train.check, {"name": "8B", "framework": "nanotron"}),
    Call(
        train.conventions,
        {
            "model": "llama-3-8b",
            "chip": "h100-sxm",
            "tokens_per_second": 6000.0,
            "sequence": 4096,
            "recompute": "full",
            "dtype": "bf16",
        },
    ),
    Call(train.frameworks, {}),
    Call(train.method, {"text": "lora,r=16"}),
    Call(train.checkpoint_interval, {"checkpoint": 30.0, "between_failures": 1e5}),
    Call(train.cluster, {"chips": "h100-sxm", "number": 64}),
    Call(train.constants, {"framework": "nanotron"}),
    Call(
        train.goodput,
        {"checkpoint": 30.0, "between_failures": 1e5, "restart": 600.0, "interval": 2e3},
    ),
    Call(train.layout, {"text": LAYOUT}),
    Call(
        train.Layout,
        {"dp": 2, "tp": 2, "pp": 2, "cp": 2, "ep": 2, "zero": 1, "mbs": 2, "acc": 4}
        | {"interleave": 2, "recompute": "full", "schedule": "1f1b"},
    ),
    Call(
        train.layouts,
        {**TRAINING, "chips": "8xh100-sxm", "batch": 32, "zeros": (1,), "recompute": ("none",)}
        | {"most": 3, "framework": "nanotron"},
    ),
    Call(
        train.memory,
        {"model": "llama-3-8b", "layout": LAYOUT, "sequence": 4096}
        | {"optimizer": "adamw", "framework": "nanotron"},
    ),
    Call(train.published_runs, {"name": "1B"}),
    Call(
        train.run,
        {**TRAINING, "layout": LAYOUT, "tokens": 1e12, "chip_failure_days": 2e3}
        | {"restart": 600.0, "disk": 2e9, "save_fixed": 5.0}
        | {"usd_per_hour": 2.0, "framework": "nanotron"},
    ),
    Call(train.save_time, {"size": 112e9, "rate": 4e12, "fixed": 5.0}),
    Call(train.shapes, {}),
    Call(train.step, {**TRAINING, "layout": LAYOUT, "framework": "nanotron"}),
    Call(train.hfu, {**TRAINED, "recompute": "full", "dtype": "bf16", "parameters": 8e9}),
    Call(train.utilisation, {"flops_per_second": 4e14, "chip": "h100-sxm", "dtype": "bf16"}),
    Call(
        train.tokens_per_second,
        {
            "model": "llama-3-8b",
            "chip": "h100-sxm",
            "utilised": 0.5,
            "sequence": 4096,
            "causal": True,
            "dtype": "bf16",
        },
    ),
    Call(
        block.operators,
        {
            "model": "llama-3-8b",
            "batch": 2,
            "new": 8,
            "context": 64,
            "w": "int8",
            "x": "bf16",
            "fused": True,
            "dropout": False,
            "rotary": True,
        },
    ),
    Call(block.estimate, {"works": {"product": MATMUL}, "chip": "h100-sxm"}),
    Call(block.lines, {"works": {"product": MATMUL}, "chip": "h100-sxm"}),
    Call(
        block.ridge_share, {"work": MATMUL, "chip": "h100-sxm", "dtype": "bf16", "unit": "matrix"}
    ),
    Call(resnet.layers, {"net": "resnet-50"}),
    Call(
        resnet.work, {"net": "resnet-50", "batch": 8, "w": "fp16", "x": "fp32", "counted": "eager"}
    ),
    Call(
        resnet.forward,
        {
            "net": "resnet-50",
            "chip": "h100-sxm",
            "batch": 8,
            "w": "fp16",
            "x": "fp16",
            "counted": "eager",
        },
    ),
    Call(dtypes.itemsize, {"dtype": "int4/32"}),
    Call(dtypes.element, {"dtype": "int4/32"}),
    Call(specs.chip, {"key": "h100-sxm"}),
    Call(specs.chips, {"vendor": "NVIDIA", "year": 2022}),
    Call(specs.chip_of_device, {"device_name": "Tesla T4"}),
    Call(specs.unreadable, {}),
    Call(H100.peak, {"dtype": "bf16", "unit": "matrix", "accumulate": "fp32"}),
    Call(specs.model, {"key": "llama-3-8b"}),
    Call(counting.configured, {"key": "vit-l-16"}),
    Call(specs.listed_models, {}),
    Call(specs.models, {}),
    Call(text.n, {"value": 16384, "unit": "B/s", "digits": 3, "sci": False}),
    Call(text.t, {"term": "memory-bound"}),
    Call(text.words, {"lang": "es", "kind": "term"}),
    Call(text.table, {"header": ["chip", "ridge"], "rows": [["H100", "295"]], "align": "lr"}),
    Call(text.language, {}),
    Call(text.languages, {}),
    Call(text.glossary, {}),
    Call(exercises.check, {"id": "rooflines-trillion", "value": 1e-3, "seed": 3}),
    Call(exercises.exercise, {"id": "rooflines-trillion", "seed": 3}),
    Call(exercises.get, {"id": "rooflines-trillion"}),
    Call(exercises.texts, {"chapter": "rooflines", "lang": "en"}),
    Call(exercises.phrases, {}),
    Call(exercises.wrong_unit, {"unit": "s"}),
    Call(exercises.example, {"unit": "s"}),
    Call(exercises.common_texts, {"lang": "es"}),
    Call(exercises.all, {}),
    Call(exercises.predictions, {"lang": "es"}),
    Call(exercises.parity, {}),
    Call(
        exercises.predict,
        {"id": "rooflines-trillion", "truth": 1e-3, "unit": "s", "low": 1e-9, "high": 1.0},
    ),
    Call(measured.table, {"name": "matmul_mamf"}),
    Call(measured.best_published, {"dtype": "bf16"}),
    Call(published.runs, {"name": "decode_gptfast_bs1"}),
    Call(results.read, {"path": "nothing-measured-yet.csv"}),
    Call(results.done, {"path": "nothing-measured-yet.csv"}),
    Call(
        bench.cpu_peak, {"cores": 4, "clock": 1.6e9, "simd_bits": 256, "bits": 32, "fma_units": 2}
    ),
    Call(bench.matmul, {"M": 64, "N": 64, "K": 64, "timing": "warm", "data": "random", **BENCH}),
    Call(bench.machine, {"device": "cpu"}),
    Call(bench.inspect, {"device": "cpu"}),
    Call(bench.summary, {"samples": TIMES, "seed": 0}),
    Call(record.sample, {"once": lambda calls: [0.01], "budget": 1.0, "seed": 0}),
    Call(
        bench.manifest,
        {
            "lab": "00",
            "command": "python",
            "here": bench.machine("cpu"),
            "started": bench.start(),
            "seed": 1,
            "usd_per_hour": 2.5,
        },
    ),
    Call(
        serve.synthetic_workload,
        {
            "rate": 2.0,
            "requests": 5,
            "prompt": 100,
            "output": 10,
            "burst": 1.0,
            "spread": 0.5,
            "groups": 2,
            "shared": 16,
            "seed": 1,
        },
    ),
    Call(
        serve.closed_workload,
        {"users": 2, "prompt": 100, "output": 10, "rounds": 2, "least": 0.5, "seed": 1},
    ),
    Call(serve.in_system, {"rate": 2.0, "seconds": 3.0}),
    Call(serve.wait, {"rate": 0.5, "service": 1.0, "spread": 0.5}, endless=True),
    Call(serve.speculated, {"acceptance": 0.8, "guesses": 3}),
    Call(serve.speedup, {"acceptance": 0.8, "guesses": 3, "cost": 0.1, "verify": 1.5}),
    Call(serve.usd_per_mtoken, {"usd_per_hour": 2.0, "tokens_per_s": 100.0}),
    Call(bench_plan.plan, {"device": "cpu"}),
    Call(bench_operators.plan, {"device": "cpu"}),
    Call(bench_kernels.plan, {"device": "cpu"}),
]

TEXT = ("lab", "command", "source", "device_name", "kind", "sku", "price_source")
"""Arguments that are text of any kind: nothing is computed from them."""
ROOMS = {
    "course_book.answers.claims": "takes a judgment of the library's own; see answers/test_claims",
    "course_book.answers.checkup": "takes a set-up and rows that were measured; see test_me",
    "course_book.answers.memory": "hands what it is given to serve.pool; see test_pool",
    "course_book.answers.record": "takes text and records of the library's own; see test_answers",
    "course_tools.serve.memory": "takes an engine and its version; see test_pool",
    "course_book.explore.operators": "draws; its controls are chosen from lists",
    "course_book.explore.inference": "draws; its controls are chosen from lists",
    "course_book.explore.engines": "draws; its controls are chosen from lists",
    "course_book.explore.training": "draws; its controls are chosen from lists",
    "course_book.explore.serving": "answers the page's form, whose controls are lists; see test_serving",
    "course_book.moving.anatomy": "draws",
    "course_book.moving.collectives": "draws",
    "course_book.moving.memory": "draws",
    "course_book.moving.multiprocessors": "draws",
    "course_book.moving.tiles": "draws",
    "course_book.moving.timelines": "draws",
    "course_book.moving.requests": "draws",
    "course_book.plot.charts": "draws",
    "course_book.plot.diagram": "draws",
    "course_book.plot.paper": "draws",
    "course_tools.diagnosis.root_cause": "reads a trace; see tests/course_tools/diagnosis",
    "course_tools.serve.clock": "tabulates; see test_clock",
    "course_tools.serve.fleet": "takes a service's settings; see test_service",
    "course_tools.serve.settings": "reads names and files; see test_service",
    "course_lib.specs.rental": "takes rows of prices.csv; see test_prices",
    "course_lib.specs.rows": "prints the spec tables",
    "course_lib.specs.provenance": "reads the library's own files",
}
LEFT_OUT = {
    "course_book.text.numbers.retold": "takes sentences of the library's own; see test_phrases",
    "course_book.text.vocabulary.english": "takes text of any kind",
    "course_book.text.vocabulary.named": "takes a name of any kind",
    "course_book.exercises.guesses.bias": "takes guesses; see test_guesses",
    "course_book.exercises.answers.capital": "takes text of any kind",
    "course_lib.core.checks.known": "is how arguments are refused; see test_refusals",
    "course_lib.core.bounds.summed": "total, for estimates of the library's own",
    "course_lib.specs.configurations.cited_by": "takes a model of the table",
    "course_tools.diagnosis.causes.seeded": "takes a cause of the fixed list",
    "course_tools.measured.published.lab": "takes a lab of this repository",
    "course_book.plot.colors.own_tone": "takes any label",
    "course_book.plot.colors.tones": "takes any labels",
    "course_tools.serve.requests.read_requests": "reads a file; see test_service",
    "course_lib.bench.products.bandwidth": "allocates four times the cache",
    "course_lib.bench.products.ceiling": "measures",
    "course_lib.bench.products.outer_products": "allocates four times the cache",
    "course_book.text.markdown.code": "takes text of any kind",
    "course_book.text.numbers.marks": "takes a language of the book",
    "course_book.text.parsing.page_grammar": "takes a language of the book",
    "course_book.text.parsing.parse_number": "takes what check has found to be text",
    "course_book.text.vocabulary.in_language": "is entered; see test_writing",
    "course_book.text.markdown.plain": "takes text of any kind",
    "course_book.text.markdown.widget_bundle": "takes anything that is shown",
    "course_lib.bench.record.start": "takes nothing",
    "course_lib.bench.device.cpu_peak_here": "measures",
    "course_lib.bench.device.observe": "measures",
    "course_tools.counting.answers.ask": "hands what it is given to llm",
    "course_tools.counting.answers.told": "takes the formats that llm.formats has checked",
    "course_tools.counting.estimates.count": "takes any module and inputs; see tests/course_tools/counting",
    "course_tools.counting.sources.named": "takes a name of any kind, or a path",
    "course_tools.counting.sources.config_of": "takes text of any kind",
}


def public() -> Iterator[tuple[str, str]]:
    """Every public function, that is one in an `__all__`, by where it is defined, and
    that module.
    """
    packages = (course_lib, course_tools, course_book)
    found = [one for p in packages for one in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]
    for where in found:
        module = importlib.import_module(where.name)
        for name in getattr(module, "__all__", ()):
            one = getattr(module, name)
            if inspect.isfunction(one):
                room = one.__module__
                yield f"{room}.{one.__name__}", room
