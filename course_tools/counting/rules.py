"""How torch's own operators are counted, by their names. Knows sizes, not torch."""

import math
from collections.abc import Sequence
from functools import cache
from types import MappingProxyType

from course_lib import ops


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FREE = _words(
    "alias detach empty empty_strided empty_like new_empty new_empty_strided lift lift_fresh "
    "lift_fresh_copy _local_scalar_dense _unsafe_view _reshape_alias sym_size sym_stride "
    "sym_numel sym_storage_offset is_same_size resize_ set_ _assert_async _assert_tensor_metadata "
    "_conj _neg_view record_stream expand squeeze unsqueeze t transpose permute view slice select "
    "as_strided split split_with_sizes unsafe_split unsafe_split_with_sizes unbind unfold diagonal "
    "real imag view_as_real "
    "view_as_complex _nested_tensor_size item device manual_seed is_nonzero scalar_tensor"
)
"""What moves nothing: views, and memory that is only set aside."""
PRODUCTS = _words("mm addmm bmm baddbmm mv addmv dot vdot addbmm _int_mm")
GATHERED = _words("index gather embedding index_select take _unsafe_index")
"""What reads as many elements as it writes, however large the array is that it picks from."""
SCATTERED = _words(
    "index_put scatter scatter_add scatter_reduce index_add index_copy index_fill masked_scatter "
    "_index_put_impl _unsafe_index_put put"
)
"""What writes as many elements as it is given, however large the array is that it puts them in."""
_COPIES = (
    "copy clone _to_copy cat stack fill zero zeros ones full zeros_like ones_like full_like "
    "new_zeros new_ones new_full arange range linspace eye tril triu constant_pad_nd repeat roll "
    "flip rot90 where masked_fill repeat_interleave contiguous pixel_shuffle pixel_unshuffle "
    "im2col col2im slice_scatter select_scatter diagonal_scatter as_strided_scatter diag_embed "
    "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d channel_shuffle "
    "view_as_complex_copy expand_copy slice_copy narrow_copy unfold_copy to_padded_tensor "
    "split_with_sizes_copy split_copy rand randn rand_like randn_like randint randperm uniform "
    "normal bernoulli exponential random split_copy nonzero unique _unique2 complex polar isin "
    "masked_select view_copy permute_copy tril_indices triu_indices logspace detach_copy "
    "resize upsample_nearest1d upsample_nearest2d upsample_nearest3d diag lift_fresh_copy "
    "native_dropout alpha_dropout frac_copy"
)
MOVES = _words(_COPIES)
"""What computes nothing: it copies, fills, or chooses between arrays."""
_SUMS = (
    "sum mean amax amin max min any all prod argmax argmin cumsum cumprod cummax cummin nansum "
    "logcumsumexp count_nonzero aminmax median mode max_pool2d_with_indices avg_pool1d avg_pool2d "
    "avg_pool3d _adaptive_avg_pool2d adaptive_avg_pool1d adaptive_max_pool2d histc bincount "
    "searchsorted bucketize equal max_pool1d_with_indices max_pool3d_with_indices topk kthvalue "
    "_adaptive_avg_pool3d adaptive_max_pool1d nanmean segment_reduce _is_all_true _is_any_true"
)
_norm, _tanh = ops.CONVENTIONS, 2.0
_EACH = {
    **dict.fromkeys(GATHERED, 0.0),
    **dict.fromkeys(SCATTERED, 0.0),
    "index_add": 1.0,
    "scatter_add": 1.0,
    "scatter_reduce": 1.0,
    "gelu": _norm["gelu"].flops,
    "silu": 4.0,  # negation, exponential, sum, division
    "sigmoid": 4.0,
    "hardswish": 4.0,
    "hardsigmoid": 3.0,
    "tanh": _tanh,
    "softplus": 3.0,
    "log_sigmoid_forward": 4.0,
    "mish": 3.0 + _tanh + 1.0,
    "elu": 3.0,
    "leaky_relu": 2.0,
    "prelu": 2.0,
    "_prelu_kernel": 2.0,
    "floor_divide": 1.0,
    "addcmul": 3.0,
    "addcdiv": 3.0,
    "lerp": 3.0,
    "glu": 5.0,
    "native_layer_norm": _norm["layer"].flops,
    "native_group_norm": _norm["layer"].flops,
    "native_batch_norm": 4.0,
    "_native_batch_norm_legit_no_training": 4.0,
    "cudnn_batch_norm": 4.0,
    "_fused_rms_norm": _norm["rms"].flops,
    "rms_norm": _norm["rms"].flops,
    "_softmax": _norm["softmax"].flops,
    "_log_softmax": _norm["softmax"].flops,
    "_safe_softmax": _norm["softmax"].flops,
    "logsumexp": 4.0,
    "var": 3.0,
    "var_mean": 3.0,
    "std": 3.0,
    "std_mean": 3.0,
    "linalg_vector_norm": 2.0,
    "norm": 2.0,
    "_cdist_forward": 3.0,
    "upsample_bilinear2d": 8.0,
    "_upsample_bilinear2d_aa": 8.0,
    "upsample_bicubic2d": 40.0,
    "_upsample_bicubic2d_aa": 40.0,
    "upsample_linear1d": 4.0,
    "upsample_trilinear3d": 16.0,
    "grid_sampler_2d": 8.0,
    **dict.fromkeys(MOVES, 0.0),
    **dict.fromkeys(_SUMS.split(), 1.0),
}
_PER_ELEMENT = MappingProxyType(_EACH)
"""FLOP for each element of what is read or written, whichever is more. A transcendental function, a
comparison or a division is one.
"""
_ORDERED = frozenset(("sort", "argsort", "msort"))
_FFT = frozenset(("_fft_r2c", "_fft_c2r", "_fft_c2c"))


def flops_of(name: str, elements: float, last: float, pointwise: bool) -> float | None:
    """FLOP of an operator that is no product.

    Parameters
    ----------
    name : torch's, without the underscore of what works in place.
    elements : of the largest array that it touches.
    last : of these in a row.
    pointwise : whether torch says that it treats each element alone.

    Returns
    -------
    `None` where nobody has counted it.

    Examples
    --------
    >>> flops_of("silu", 100, 10, True), flops_of("clone", 100, 10, False)
    (400.0, 0.0)
    >>> flops_of("mystery", 100, 10, False) is None
    True
    """
    if name in _PER_ELEMENT:
        return _PER_ELEMENT[name] * elements
    if name in _ORDERED:
        return elements * max(1.0, math.log2(max(last, 1.0)))
    if name in _FFT:
        return 5.0 * elements * max(1.0, math.log2(max(last, 1.0)))
    return elements if pointwise else None


@cache
def pairs(new: int, seen: int, *, causal: bool, window: int | None = None) -> int:
    """Pairs of tokens that attention sets against each other.

    Parameters
    ----------
    new, seen : queries, which are the last of the tokens, and all tokens.
    causal : whether a token looks at itself and what is before it only.
    window : tokens that it looks at, itself included; with ``causal=False`` half to either side.

    Examples
    --------
    >>> pairs(4, 4, causal=True), pairs(4, 4, causal=False), pairs(4, 4, causal=True, window=2)
    (10, 16, 7)
    >>> pairs(1, 100, causal=True, window=10)
    10
    """
    before = seen - new
    if not causal:
        half = seen if window is None else window // 2
        ends = ((max(0, before + i - half), min(seen - 1, before + i + half)) for i in range(new))
        return new * seen if half >= seen else sum(last - first + 1 for first, last in ends)
    if window is None or window >= seen:
        return new * seen - new * (new - 1) // 2
    return sum(min(before + i + 1, window) for i in range(new))


def product(shapes: Sequence[Sequence[int]]) -> tuple[int, int, int, int]:
    """B, D, F and groups of a product of two matrices, or of as many stacked ones.

    Examples
    --------
    >>> product([(16, 64), (64, 32)]), product([(8, 4, 64), (8, 64, 32)])
    ((16, 64, 32, 1), (32, 64, 32, 8))
    """
    left, right = shapes
    if len(left) == 3:
        groups, rows, inner = left
        return groups * rows, inner, right[-1], groups
    rows, inner = left if len(left) == 2 else (1, left[0])
    return rows, inner, right[1] if len(right) == 2 else 1, 1
