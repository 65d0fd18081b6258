"""Traces as somebody else would construct them: by hand, with other names, orders and gaps than the
library's own generator has, to find out what its verdicts rest on.
"""

import json
import random
import tempfile
from functools import partial
from pathlib import Path

from course_tools.diagnosis import diagnose

GPUS = {
    "NVIDIA H100 80GB HBM3": (132, 3.35e12, 989e12, 67e12, 85.0e9),
    "NVIDIA A100-SXM4-80GB": (108, 2.0e12, 312e12, 19.5e12, 85.0e9),
    "NVIDIA A100-SXM4-40GB": (108, 1.55e12, 312e12, 19.5e12, 42.3e9),
    "NVIDIA H200": (132, 4.8e12, 989e12, 67e12, 150.7e9),
}
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_{0}<c10::BFloat16>, at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_{0}<c10::BFloat16>, at::detail::Array<char*, 3>)"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


class Pen:
    """Writes rows; the host's and the device's clocks are the caller's affair."""

    def __init__(self, seed=0, gpu="NVIDIA H100 80GB HBM3", shapes=True, links=True, device=0):
        self.random, self.gpu, self.shapes, self.links = random.Random(seed), gpu, shapes, links
        self.sms, self.bandwidth, self.peak, self.vector, self.memory = GPUS[gpu]
        self.rows, self.host, self.gpu_free, self.n, self.device = [], 5_000_000.0, 0.0, 100, device

    def jitter(self, x, by=0.1):
        return x * self.random.uniform(1 - by, 1 + by)

    def row(self, cat, name, ts, dur, pid, tid, **args):
        self.rows.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": round(ts, 3),
                "dur": round(dur, 3),
                "args": args,
            }
        )

    def launch(
        self,
        op,
        kernel,
        micros,
        dims=None,
        types=None,
        *,
        cpu=12.0,
        grid=(512, 1, 1),
        strides=None,
        pause=3.0,
        cat="kernel",
        **more,
    ):
        self.n += 1
        cpu = self.jitter(cpu)
        args = {"External id": self.n}
        if self.shapes and dims is not None:
            args |= {"Input Dims": dims, "Input type": types or ["c10::BFloat16"] * len(dims)}
            if strides:
                args["Input Strides"] = strides
        self.row("cpu_op", op, self.host, cpu, 77, 77, **args)
        at = self.host + cpu * 0.4
        if self.links:
            self.row(
                "cuda_runtime",
                "cudaLaunchKernel",
                at,
                cpu * 0.4,
                77,
                77,
                correlation=self.n,
                **{"External id": self.n, "cbid": 211},
            )
        start = max(at + 5, self.gpu_free)
        link = {"External id": self.n, "correlation": self.n} if self.links else {}
        shape = {"grid": list(grid), "block": [256, 1, 1]} if cat == "kernel" else {}
        dur = self.jitter(micros, 0.04)
        self.row(
            cat,
            kernel,
            start,
            dur,
            self.device,
            7,
            device=self.device,
            stream=7,
            **link,
            **shape,
            **more,
        )
        self.gpu_free = start + dur + 0.8
        self.host += cpu + self.jitter(pause)

    def gemm(
        self, m, k, n, rate=0.75, kernel=GEMM, dtype="c10::BFloat16", peak=None, grid=None, **more
    ):
        size = {"float": 4, "double": 8}.get(dtype, 2)
        micros = (
            max(
                2 * m * k * n / (peak or self.peak), size * (m * k + k * n + m * n) / self.bandwidth
            )
            / rate
            * 1e6
        )
        grid = grid or (-(-m // 128) * -(-n // 128), 1, 1)
        self.launch("aten::mm", kernel, micros, [[m, k], [k, n]], [dtype] * 2, grid=grid, **more)

    def pointwise(self, name, n, inputs=1, rate=0.85, dtype="c10::BFloat16", size=2, **more):
        micros = n * size * (inputs + 1) / self.bandwidth / rate * 1e6 + 1.5
        more = {"kernel": ELEMENTWISE.format(name), **more}
        self.launch(
            f"aten::{name}", more.pop("kernel"), micros, [[n]] * inputs, [dtype] * inputs, **more
        )

    def sync(self, name="cudaStreamSynchronize", extra=3.0):
        end = max(self.host + 2, self.gpu_free + extra)
        self.row("cuda_runtime", name, self.host, end - self.host, 77, 77, correlation=0)
        self.host = end + 2

    def memcpy(self, name, moved, rate, blocking=True):
        self.n += 1
        start = max(self.host + 6, self.gpu_free)
        dur = moved / rate * 1e6 + 1
        self.row(
            "cuda_runtime",
            "cudaMemcpyAsync",
            self.host,
            (start + dur - self.host) if blocking else 6,
            77,
            77,
            correlation=self.n,
        )
        self.row(
            "gpu_memcpy",
            name,
            start,
            dur,
            self.device,
            7,
            device=self.device,
            stream=7,
            bytes=moved,
            correlation=self.n,
            **{"memory bandwidth (GB/s)": rate / 1e9},
        )
        self.gpu_free = start + dur
        self.host = (start + dur if blocking else self.host + 6) + 5

    def trace(self, **more):
        return {
            "schemaVersion": 1,
            "deviceProperties": [
                {
                    "id": 0,
                    "name": self.gpu,
                    "totalGlobalMem": int(self.memory),
                    "computeMajor": 9,
                    "computeMinor": 0,
                    "numSms": self.sms,
                }
            ],
            **more,
            "traceEvents": self.rows,
        }


def launch_bound(p, part=1.0):
    for _ in range(int(200 * part)):
        for op in ("add", "mul", "tanh"):
            p.launch(
                f"aten::{op}", ELEMENTWISE.format(op), 2.2, [[1, 2048]] * 2, cpu=9, grid=(4, 1, 1)
            )
    p.sync("cudaDeviceSynchronize")


def host_bound(p, part=1.0):
    for _ in range(int(12 * part)):
        p.row(
            "user_annotation",
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
            p.host,
            24_000,
            77,
            77,
        )
        p.host += 24_100
        p.memcpy("Memcpy HtoD (Pinned -> Device)", 2_000_000, 24e9, blocking=False)
        for _ in range(10):
            p.gemm(4096, 4096, 4096)
            p.pointwise("relu", 4096 * 4096)


def host_bound_python(p, part=1.0):
    for _ in range(int(60 * part)):
        p.row("python_function", "tokenizer.py(21): encode", p.host, 1900, 77, 77)
        p.host += 2000
        p.gemm(2048, 2048, 2048)


def host_bound_quiet(p, part=1.0):
    for _ in range(int(25 * part)):
        p.host += 6000
        for _ in range(4):
            p.gemm(4096, 4096, 2048)


def synchronisation(p, part=1.0):
    for _ in range(int(120 * part)):
        p.gemm(1024, 1024, 1024)
        p.pointwise("sum", 1024 * 1024)
        start = p.host
        end = max(p.gpu_free, p.host) + 12
        p.row("cpu_op", "aten::item", start, end - start, 77, 77)
        p.row("cpu_op", "aten::_local_scalar_dense", start + 1, end - start - 2, 77, 77)
        p.row(
            "gpu_memcpy",
            "Memcpy DtoH (Device -> Pageable)",
            p.gpu_free + 1,
            1.1,
            p.device,
            7,
            device=p.device,
            stream=7,
            bytes=4,
        )
        p.row("cuda_runtime", "cudaStreamSynchronize", start + 6, end - start - 8, 77, 77)
        p.gpu_free += 2
        p.host = end + p.jitter(45)


def synchronisation_each(p, part=1.0):
    for _ in range(int(150 * part)):
        p.gemm(512, 1024, 1024, cpu=14)
        p.sync("cudaDeviceSynchronize", extra=9)
        p.host += 20


def copies(p, part=1.0):
    for _ in range(int(30 * part)):
        p.gemm(2048, 4096, 4096)
        p.memcpy("Memcpy DtoH (Device -> Pageable)", 16 << 20, 6e9)
        p.memcpy("Memcpy HtoD (Pageable -> Device)", 16 << 20, 8e9)


def copies_device(p, part=1.0):
    for _ in range(int(60 * part)):
        p.gemm(1024, 4096, 1024)
        n = 64 << 20
        p.launch(
            "aten::copy_",
            "Memcpy DtoD (Device -> Device)",
            2 * n * 2 / p.bandwidth / 0.8 * 1e6,
            [[n], [n]],
            cat="gpu_memcpy",
            bytes=2 * n,
        )


def copies_cat(p, part=1.0):
    for _ in range(int(60 * part)):
        p.gemm(512, 4096, 1024)
        n = 1 << 24
        p.launch(
            "aten::cat",
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 3, 64, 64>",
            n * 4 / p.bandwidth / 0.6 * 1e6,
        )


def unfused(p, part=1.0):
    for _ in range(int(25 * part)):
        p.gemm(4096, 1024, 4096)
        for op, inputs in (
            ("pow", 1),
            ("mul", 1),
            ("add", 2),
            ("mul", 1),
            ("tanh", 1),
            ("add", 1),
            ("mul", 2),
            ("mul", 1),
        ):
            p.pointwise(op, 4096 * 4096, inputs)


def unfused_norm(p, part=1.0):
    for _ in range(int(40 * part)):
        p.gemm(4096, 512, 4096)
        n = 4096 * 4096
        p.pointwise("pow", n)
        p.launch(
            "aten::mean",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, at::native::MeanOps<c10::BFloat16, float, float, float> > >",
            n * 2 / p.bandwidth / 0.8 * 1e6,
            [[4096, 4096]],
        )
        p.pointwise("rsqrt", 4096)
        p.pointwise("mul", n, 1)
        p.pointwise("mul", n, 1)


def strided(p, part=1.0):
    for _ in range(int(30 * part)):
        p.gemm(2048, 2048, 2048)
        n = 8192
        p.launch(
            "aten::copy_",
            "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>",
            4 * n * n / p.bandwidth / 0.2 * 1e6,
            [[n, n], [n, n]],
            strides=[[n, 1], [1, n]],
            cpu=15,
        )


def strided_add(p, part=1.0):
    for _ in range(int(30 * part)):
        p.gemm(2048, 2048, 2048)
        n = 8192
        p.launch(
            "aten::add",
            "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<c10::BFloat16>>",
            6 * n * n / p.bandwidth / 0.15 * 1e6,
            [[n, n], [n, n]],
            strides=[[n, 1], [1, n]],
        )


def misaligned(p, part=1.0):
    for _ in range(int(40 * part)):
        p.gemm(
            4095,
            4097,
            4093,
            rate=0.2,
            kernel="cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align1",
        )


def wrong_format(p, part=1.0):
    for _ in range(int(30 * part)):
        p.gemm(
            4096,
            4096,
            4096,
            kernel="ampere_sgemm_128x64_tn",
            dtype="float",
            peak=p.vector,
            rate=0.85,
        )
        p.pointwise("relu", 4096 * 4096, dtype="float", size=4)


def wrong_format_upcast(p, part=1.0):
    copy = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}>"
    for _ in range(int(30 * part)):
        p.gemm(4096, 1024, 4096)
        n = 4096 * 4096
        p.launch("aten::_to_copy", copy, n * 6 / p.bandwidth / 0.8 * 1e6, [[n]], ["c10::BFloat16"])
        p.pointwise("mul", n, 1, dtype="float", size=4)
        p.launch(
            "aten::copy_",
            copy,
            n * 6 / p.bandwidth / 0.8 * 1e6,
            [[n], [n]],
            ["c10::BFloat16", "float"],
        )


def wrong_format_double(p, part=1.0):
    for _ in range(int(20 * part)):
        p.gemm(
            2048,
            2048,
            2048,
            kernel="cutlass_80_tensorop_d884gemm_64x64_16x4_tn_align1",
            dtype="double",
            peak=p.vector,
            rate=0.8,
        )


def ragged(p, part=1.0):
    for _ in range(int(80 * part)):
        sms = p.sms
        m = 128 * (sms + 2)
        p.gemm(m, 4096, 128, rate=0.75 * 0.51, grid=(sms + 2, 1, 1))


def ragged_small(p, part=1.0):
    for _ in range(int(80 * part)):
        p.gemm(
            128,
            8192,
            1024,
            rate=0.05,
            grid=(8, 1, 1),
            **{"blocks per SM": 8 / p.sms, "est. achieved occupancy %": 1},
        )


def ragged_attention(p, part=1.0):
    for _ in range(int(80 * part)):
        p.gemm(64, 4096, 4096, rate=0.8, grid=(p.sms, 1, 1))
        p.launch(
            "aten::_scaled_dot_product_flash_attention",
            "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>",
            320,
            [[1, 16, 512, 128]] * 3,
            grid=(4, 1, 16 // 4),
        )


def exposed(p, part=1.0):
    for _ in range(int(40 * part)):
        for _ in range(2):
            p.gemm(4096, 4096, 4096)
        n = 32 << 20
        start = max(p.gpu_free, p.host + 10)
        dur = p.jitter(2 * n * 1.75 / 350e9 * 1e6 * 3)
        p.row(
            "kernel",
            NCCL,
            start,
            dur,
            p.device,
            20,
            device=p.device,
            stream=20,
            grid=[16, 1, 1],
            block=[512, 1, 1],
            **{
                "Collective name": "allreduce",
                "In msg nelems": n,
                "Out msg nelems": n,
                "dtype": "BFloat16",
                "Group size": 8,
            },
        )
        p.gpu_free = start + dur + 2
        p.row("cuda_runtime", "cudaLaunchKernelExC", p.host, 8, 77, 77)
        p.host += 15


def exposed_gather(p, part=1.0):
    for _ in range(int(30 * part)):
        start = max(p.gpu_free, p.host + 10)
        dur = p.jitter(900)
        p.row(
            "kernel",
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            start,
            dur,
            p.device,
            22,
            device=p.device,
            stream=22,
        )
        p.gpu_free = start + dur
        p.gemm(4096, 4096, 4096)


def imbalance(p, part=1.0):
    """Of one rank: what it waits for another shows in the spread of its all-reduces."""
    for i in range(int(40 * part)):
        p.gemm(4096, 4096, 4096)
        start = max(p.gpu_free, p.host + 10)
        dur = 120 + (0 if i % 4 == 0 else p.random.uniform(600, 2600))
        p.row(
            "kernel",
            NCCL,
            start,
            dur,
            p.device,
            20,
            device=p.device,
            stream=20,
            **{
                "Collective name": "allreduce",
                "In msg nelems": 1 << 24,
                "dtype": "BFloat16",
                "Group size": 8,
            },
        )
        p.gpu_free = start + dur + 2


def at_roof(p, part=1.0):
    for _ in range(int(30 * part)):
        p.gemm(8192, 8192, 8192, rate=0.78)


def at_roof_memory(p, part=1.0):
    for _ in range(int(60 * part)):
        p.gemm(
            1,
            8192,
            28672,
            rate=0.88,
            kernel="void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false>",
            grid=(7168, 1, 1),
        )


def at_roof_hidden(p, part=1.0):
    """Collectives run all the time, under products."""
    for _ in range(int(30 * part)):
        before = max(p.gpu_free, p.host + 5)
        p.gemm(8192, 8192, 8192, rate=0.74)
        p.row("kernel", NCCL, before + 20, 700, p.device, 20, device=p.device, stream=20)


def graph(p, part=1.0):
    for _ in range(int(50 * part)):
        p.n += 1
        p.row("cuda_runtime", "cudaGraphLaunch", p.host, 12, 77, 77, correlation=p.n)
        start = max(p.host + 8, p.gpu_free)
        p.row(
            "kernel",
            "CUDAGraph",
            start,
            1500,
            p.device,
            7,
            device=p.device,
            stream=7,
            correlation=p.n,
        )
        p.gpu_free = start + 1502
        p.host = max(p.host + 20, p.gpu_free - 200)


def opaque(p, part=1.0):
    """Kernels of which nothing is known, back to back."""
    for i in range(int(100 * part)):
        p.launch("my_extension::op", f"my_kernel_{i % 3}", 900)


CASES = {
    "launch-bound": [launch_bound],
    "host-bound": [host_bound, host_bound_python, host_bound_quiet],
    "synchronisation": [synchronisation, synchronisation_each],
    "copies": [copies, copies_device, copies_cat],
    "unfused-elementwise": [unfused, unfused_norm],
    "strided": [strided, strided_add, misaligned],
    "wrong-format": [wrong_format, wrong_format_upcast, wrong_format_double],
    "ragged-waves": [ragged, ragged_small, ragged_attention],
    "exposed-collectives": [exposed, exposed_gather],
    "load-imbalance": [imbalance],
    "at-roof": [at_roof, at_roof_memory, at_roof_hidden],
    "unknown": [graph, opaque],
}
MAKERS = {make.__name__: (cause, make) for cause, makes in CASES.items() for make in makes}


def ranks(seed=0, world=4, collectives=True):
    """Several ranks in one file: the second has more to do than the others."""
    pens = [Pen(seed + i, device=i) for i in range(world)]
    for _ in range(20):
        for i, p in enumerate(pens):
            for _ in range(4 if i == 1 else 1):
                p.gemm(4096, 4096, 4096)
        if collectives:
            end = max(p.gpu_free for p in pens) + 90
            for p in pens:
                p.row(
                    "kernel",
                    NCCL,
                    p.gpu_free + 3,
                    end - p.gpu_free,
                    p.device,
                    20,
                    device=p.device,
                    stream=20,
                )
        else:
            end = max(p.gpu_free for p in pens)
        for p in pens:
            p.gpu_free = end + 100
            p.host = max(p.host, end - 50)
    merged = [row for p in pens for row in p.rows]
    for i, p in enumerate(pens):  # each rank has a process of its own
        for row in p.rows:
            row["pid"] += 10 * i if row["pid"] == 77 else 0
    about = {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": world}}
    return pens[0].trace(**about) | {"traceEvents": merged}


def of_jax(pen, tpu=False):
    """The same rows as JAX writes them: no categories, names of processes and threads instead."""
    thread = "XLA Ops" if tpu else "Stream #16(Compute,MemcpyD2H)"
    whose = [
        ("process_name", 1, 0, "/device:TPU:0" if tpu else "/device:GPU:0"),
        ("thread_name", 1, 7, thread),
        ("thread_name", 1, 8, "Framework Ops - from #16"),
        ("process_name", 701, 0, "/host:CPU"),
    ]
    rows = [
        {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
        for what, pid, tid, name in whose
    ]
    for row in pen.rows:
        cat, of = row.pop("cat"), row.pop("args")
        row["args"] = {"correlation_id": str(of.get("correlation", 0))}
        row["name"] = "PjitFunction(f)" if cat == "cpu_op" else row["name"]
        row["pid"] = 701 if row["pid"] == 77 else 1
        if cat == "gpu_memcpy":
            row["name"] = "MemcpyD2H"
        rows += [row] if row["pid"] == 701 else [row, row | {"tid": 8}]
    return {"traceEvents": rows}


def mixed(main, other, times, seed=5):
    """A trace in which one cause takes so many times as long as another."""
    length = {}
    for one in (main, other):
        pen = Pen(seed)
        MAKERS[one][1](pen, 1.0)
        length[one] = max(row["ts"] + row["dur"] for row in pen.rows) - 5e6
    pen = Pen(seed)
    for _ in range(4):
        MAKERS[main][1](pen, 0.5)
        MAKERS[other][1](pen, 0.5 * length[main] / length[other] / times)
        pen.host = max(pen.host, pen.gpu_free - 20)
    return pen.trace()


def drawn(make, part, *, rows=None, **about):
    pen = Pen(**about)
    make(pen, part)
    return pen.trace() if rows is None else pen.trace() | {"traceEvents": rows(pen)}


def on_device(pen):
    return [one for one in pen.rows if one["cat"] in ("kernel", "gpu_memcpy")]


def known_causes(each=1):
    """Traces whose cause is known, in pairs: of every maker on every GPU, less what some recordings
    lack, and of two causes of which one takes longer; or one in so many of these.
    """
    every = []
    for seed, gpu in enumerate(GPUS):
        for cause, make in MAKERS.values():
            about = {"seed": seed, "gpu": gpu}
            one = partial(drawn, make, 0.3 + 0.2 * seed, **about)
            every += [(cause, one), (cause, partial(one, shapes=False))]
            every += [(cause, partial(one, rows=on_device))]
    for main, (cause, _) in MAKERS.items():
        for other in MAKERS:
            if not {cause, MAKERS[other][0]} & {"at-roof", "unknown"} and cause != MAKERS[other][0]:
                every += [(cause, partial(mixed, main, other, times)) for times in (2, 3)]
    for cause, make in every[::each]:
        yield cause, make()


# Where a bucket of confidences begins; below a half, a cause is asked, not said.
BUCKETS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)


def confidences(known):
    """How many causes are stated with a confidence of each bucket, and how many of them are right,
    over traces whose cause is known: pairs of the cause and the trace. ``"unknown"`` states none.
    """
    found = dict.fromkeys(BUCKETS, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        for cause, trace in known:
            file.write_text(json.dumps(trace), encoding="utf-8")
            one = diagnose(file)
            if one.cause != "unknown":
                at = max(bucket for bucket in BUCKETS if bucket <= one.confidence)
                count, right = found[at]
                found[at] = count + 1, right + (one.cause == cause)
    return found
