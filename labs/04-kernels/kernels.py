"""Lab 04: write five kernels in Triton, and say how many bytes each loads and stores.

Copy this file to my_kernels.py, fill in the steps in any order, and have your file graded as often
as you like:

    course grade 04 my_kernels.py

Each step has a kernel, a function that launches it, and a formula for the bytes that all of its
programs together load and store. The grader runs the file on the CPU, in Triton's interpreter. On a
GPU, the same file is compiled.

These rules hold for all steps. Sizes need not be multiples of a block, so mask what is past the
end. Arrays need not be contiguous, so pass their strides, and copy nothing. torch makes the result
with torch.empty and does nothing else. The caller chooses `block`.
"""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # triton reads this when it is imported
import triton
import triton.language as tl

# Step 1: out = x + y, for two vectors in fp32.


@triton.jit
def add_kernel(x, y, out, n, x_step, y_step, BLOCK: tl.constexpr):
    # TODO 1: which elements are this program's? tl.program_id(0) says which program it is, and
    #         tl.arange(0, BLOCK) numbers the lanes of a block. The mask is false from n on.
    # TODO 2: tl.load both blocks, each with its own step between elements, add them, and tl.store.
    pass


def add(x, y, block=1024):
    # TODO 3: make the result with torch.empty. The grid has triton.cdiv(n, block) programs:
    #         add_kernel[grid](x, y, out, n, x.stride(0), y.stride(0), BLOCK=block)
    raise NotImplementedError


def add_bytes(n):
    # TODO 4: the bytes that all programs together load and store. An fp32 element has four.
    raise NotImplementedError


# Step 2: out = dropout(gelu(x + bias)), one kernel, for x[rows, width] and bias[width] in fp16.


@triton.jit
def fused_kernel(
    x, bias, out, rows, width, p, seed, x_row, x_column, bias_step,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    # TODO 5: a program computes a tile of ROWS x COLUMNS. Rows as a column vector, [:, None], and
    #         columns as a row vector, [None, :], give all pairs. Load the bias once for the tile.
    # TODO 6: compute in fp32: .to(tl.float32). GELU in its form with tanh is
    #         x * sigmoid(2u) with u = sqrt(2 / pi) * (x + 0.044715 x^3), and there is tl.sigmoid.
    # TODO 7: an element is kept where tl.rand(seed, row * width + column) >= p, and what is kept is
    #         divided by 1 - p. The backward pass can compute the mask again, so don't store it.
    pass


def bias_gelu_dropout(x, bias, p, seed, block=(4, 256)):
    # TODO 8: a grid of two dimensions.
    raise NotImplementedError


def bias_gelu_dropout_bytes(rows, width, block=(4, 256)):
    # TODO 9: how often is the bias loaded?
    raise NotImplementedError


# Step 3: softmax of each row of x[rows, width] in fp32. A row may be longer than a block.


@triton.jit
def softmax_kernel(x, out, width, x_row, x_column, BLOCK: tl.constexpr):
    # TODO 10: a program computes a row. First pass, block by block: the running maximum, and the
    #          sum of the exponentials relative to it. When the maximum grows, the old sum shrinks
    #          by exp(old - new). Lanes past the row must not count: other=-float("inf").
    # TODO 11: second pass: load the row again and store exp(x - maximum) / sum.
    pass


def softmax(x, block=1024):
    # TODO 12
    raise NotImplementedError


def softmax_bytes(rows, width):
    # TODO 13
    raise NotImplementedError


# Step 4: out[M, N] = a[M, K] @ b[K, N] in fp16, summed up in fp32.


@triton.jit
def matmul_kernel(
    a, b, out, M, N, K, a_row, a_column, b_row, b_column,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    # TODO 14: a program computes a tile of BM x BN of the result, and has an accumulator of that
    #          size in tl.float32. Go along K in steps of BK: load a tile of a and one of b, then
    #          total = tl.dot(left, right, total). Lanes past K must add nothing: other=0.0.
    # TODO 15: convert to the format of the result, and store.
    pass


def matmul(a, b, block=(128, 128, 64)):
    # TODO 16
    raise NotImplementedError


def matmul_bytes(M, N, K, block=(128, 128, 64)):
    # TODO 17: each row of tiles loads all of b, and each column of tiles loads all of a.
    raise NotImplementedError


# Step 5: attention of one head, q[queries, dim], k[keys, dim], and v[keys, dim] in fp16. The scores
# never leave the program. dim is a power of two.


@triton.jit
def attention_kernel(
    q, k, v, out, queries, keys, scale,
    q_row, q_column, k_row, k_column, v_row, v_column,
    CAUSAL: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    # TODO 18: a program has QUERIES rows of q, and for each row it keeps, in fp32, a maximum, a
    #          sum, and a result of DIM numbers. Keys and values pass by in blocks of KEYS. Read a
    #          block of k as [DIM, KEYS], so that tl.dot(query, key) * scale gives scores of
    #          [QUERIES, KEYS].
    # TODO 19: with tl.where, set the scores past the last key to -float("inf"), and with CAUSAL
    #          also those of column > row. Update the maximum. Sum and result shrink by
    #          exp(old - new), as in step 3; then add the block's weights and weights @ value.
    # TODO 20: at the end, divide by the sum. With CAUSAL, you need not load keys that no query of
    #          the program may see.
    pass


def attention(q, k, v, causal=False, block=(64, 64)):
    # TODO 21: scale is 1 / sqrt(dim). causal asks for as many keys as queries.
    raise NotImplementedError


def attention_bytes(queries, keys, dim, causal=False, block=(64, 64)):
    # TODO 22
    raise NotImplementedError
