"""Lab 04, reference solution: five kernels, and the bytes that each loads and stores."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # triton reads this when it is imported
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, x_step, y_step, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at * x_step, mask=inside) + tl.load(y + at * y_step, mask=inside)
    tl.store(out + at, total, mask=inside)


def add(x, y, block=1024):
    n = x.numel()
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    add_kernel[(triton.cdiv(n, block),)](x, y, out, n, x.stride(0), y.stride(0), BLOCK=block)
    return out


def add_bytes(n):
    return 4 * (2 * n + n)


@triton.jit
def gelu(x):
    # The form with tanh: (1 + tanh(u)) / 2 is the sigmoid of 2u.
    return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))


@triton.jit
def fused_kernel(
    x, bias, out, rows, width, p, seed, x_row, x_column, bias_step,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < width)
    value = tl.load(x + row * x_row + column * x_column, mask=inside).to(tl.float32)
    value += tl.load(bias + column * bias_step, mask=column < width).to(tl.float32)
    kept = tl.rand(seed, row * width + column) >= p
    value = tl.where(kept, gelu(value) / (1 - p), 0.0)
    tl.store(out + row * width + column, value.to(out.dtype.element_ty), mask=inside)


def bias_gelu_dropout(x, bias, p, seed, block=(4, 256)):
    rows, width = x.shape
    out = torch.empty((rows, width), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows, block[0]), triton.cdiv(width, block[1]))
    fused_kernel[grid](
        x, bias, out, rows, width, p, seed, *x.stride(), bias.stride(0),
        ROWS=block[0], COLUMNS=block[1],
    )  # fmt: skip
    return out


def bias_gelu_dropout_bytes(rows, width, block=(4, 256)):
    return 2 * (2 * rows * width + triton.cdiv(rows, block[0]) * width)


@triton.jit
def softmax_kernel(x, out, width, x_row, x_column, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top, total = -float("inf"), 0.0
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        at = x + row * x_row + column * x_column
        value = tl.load(at, mask=column < width, other=-float("inf"))
        higher = tl.maximum(top, tl.max(value, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(value - higher), 0)
        top = higher
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        at = x + row * x_row + column * x_column
        value = tl.load(at, mask=column < width, other=-float("inf"))
        share = tl.exp(value - top) / total
        tl.store(out + row * width + column, share, mask=column < width)


def softmax(x, block=1024):
    rows, width = x.shape
    out = torch.empty((rows, width), dtype=x.dtype, device=x.device)
    softmax_kernel[(rows,)](x, out, width, *x.stride(), BLOCK=block)
    return out


def softmax_bytes(rows, width):
    return 4 * (2 * rows * width + rows * width)


@triton.jit
def matmul_kernel(
    a, b, out, M, N, K, a_row, a_column, b_row, b_column,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        along, down = start + tl.arange(0, BK)[None, :], start + tl.arange(0, BK)[:, None]
        left = tl.load(a + row * a_row + along * a_column, mask=(row < M) & (along < K), other=0.0)
        right = tl.load(
            b + down * b_row + column * b_column, mask=(down < K) & (column < N), other=0.0
        )
        total = tl.dot(left, right, total)
    result = total.to(out.dtype.element_ty)
    tl.store(out + row * N + column, result, mask=(row < M) & (column < N))


def matmul(a, b, block=(128, 128, 64)):
    M, K, N = *a.shape, b.shape[1]
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, block[0]), triton.cdiv(N, block[1]))
    matmul_kernel[grid](
        a, b, out, M, N, K, *a.stride(), *b.stride(), BM=block[0], BN=block[1], BK=block[2]
    )
    return out


def matmul_bytes(M, N, K, block=(128, 128, 64)):
    read = M * K * triton.cdiv(N, block[1]) + K * N * triton.cdiv(M, block[0])
    return 2 * (read + M * N)


@triton.jit
def attention_kernel(
    q, k, v, out, queries, keys, scale,
    q_row, q_column, k_row, k_column, v_row, v_column,
    CAUSAL: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)[:, None]
    lane, lane_down = tl.arange(0, DIM)[None, :], tl.arange(0, DIM)[:, None]
    query = tl.load(q + row * q_row + lane * q_column, mask=row < queries, other=0.0)
    top = tl.full((QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    result = tl.zeros((QUERIES, DIM), tl.float32)
    end = keys
    if CAUSAL:  # blocks of keys that no query of this program may see are not loaded
        end = tl.minimum(keys, (tl.program_id(0) + 1) * QUERIES)
    for start in range(0, end, KEYS):
        across, down = start + tl.arange(0, KEYS)[None, :], start + tl.arange(0, KEYS)[:, None]
        key = tl.load(k + across * k_row + lane_down * k_column, mask=across < keys, other=0.0)
        value = tl.load(v + down * v_row + lane * v_column, mask=down < keys, other=0.0)
        score = tl.dot(query, key) * scale
        seen = across < keys
        if CAUSAL:
            seen = seen & (across <= row)
        score = tl.where(seen, score, -float("inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        rescale = tl.exp(top - higher)
        total = total * rescale + tl.sum(weight, 1)
        result = tl.dot(weight.to(value.dtype), value, result * rescale[:, None])
        top = higher
    result = (result / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + row * DIM + lane, result, mask=row < queries)


def attention(q, k, v, causal=False, block=(64, 64)):
    (queries, dim), keys = q.shape, k.shape[0]
    out = torch.empty((queries, dim), dtype=q.dtype, device=q.device)
    attention_kernel[(triton.cdiv(queries, block[0]),)](
        q, k, v, out, queries, keys, dim**-0.5, *q.stride(), *k.stride(), *v.stride(),
        CAUSAL=causal, QUERIES=block[0], KEYS=block[1], DIM=dim,
    )  # fmt: skip
    return out


def attention_bytes(queries, keys, dim, causal=False, block=(64, 64)):
    read = 0
    for start in range(0, queries, block[0]):
        end = min(keys, start + block[0]) if causal else keys
        read += min(keys, triton.cdiv(end, block[1]) * block[1])
    return 2 * dim * (2 * queries + 2 * read)
