"""How torch's own operators are counted, by their names. Knows sizes, not torch."""

import math
from collections.abc import Sequence
from functools import cache

from course_lib import ops


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What moves nothing: views, and memory that is only set aside.
FREE = _words(
    "alias detach empty empty_strided empty_like new_empty new_empty_strided lift lift_fresh "
    "lift_fresh_copy _local_scalar_dense _unsafe_view _reshape_alias sym_size sym_stride "
    "sym_numel sym_storage_offset is_same_size resize_ set_ _assert_async _assert_tensor_metadata "
    "_conj _neg_view record_stream expand squeeze unsqueeze t transpose permute view slice select "
    "as_strided split split_with_sizes unsafe_split unsafe_split_with_sizes unbind unfold diagonal "
    "real imag view_as_real "
    "view_as_complex _nested_tensor_size item device manual_seed is_nonzero scalar_tensor"
)
PRODUCTS = _words("mm addmm bmm baddbmm mv addmv dot vdot addbmm _int_mm")
# What reads as many elements as it writes, however large the array is that it picks from.
GATHERED = _words("index gather embedding index_select take _unsafe_index")
# What writes as many elements as it is given, however large the array is that it puts them in.
SCATTERED = _words(
    "index_put scatter scatter_add scatter_reduce index_add index_copy index_fill masked_scatter "
    "_index_put_impl _unsafe_index_put put"
)
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
# What computes nothing: it copies, fills, or chooses between arrays.
MOVES = _words(_COPIES)
_SUMS = (
    "sum mean amax amin max min any all prod argmax argmin cumsum cumprod cummax cummin nansum "
    "logcumsumexp count_nonzero aminmax median mode max_pool2d_with_indices avg_pool1d avg_pool2d "
    "avg_pool3d _adaptive_avg_pool2d adaptive_avg_pool1d adaptive_max_pool2d histc bincount "
    "searchsorted bucketize equal max_pool1d_with_indices max_pool3d_with_indices topk kthvalue "
    "_adaptive_avg_pool3d adaptive_max_pool1d nanmean segment_reduce _is_all_true _is_any_true"
)
# By a convention of `course_lib.ops`, what is counted as it says.
_NORMS = {
    "gelu": "gelu",
    "layer": "native_layer_norm native_group_norm",
    "rms": "_fused_rms_norm rms_norm",
    "softmax": "_softmax _log_softmax _safe_softmax",
}
_FLOPS = {
    1.0: "index_add scatter_add scatter_reduce floor_divide",
    2.0: "tanh leaky_relu prelu _prelu_kernel linalg_vector_norm norm",
    3.0: "hardsigmoid softplus elu addcmul addcdiv lerp var var_mean std std_mean _cdist_forward",
    # Of silu and sigmoid: negation, exponential, sum, division.
    4.0: "silu sigmoid hardswish log_sigmoid_forward logsumexp upsample_linear1d native_batch_norm "
    "_native_batch_norm_legit_no_training cudnn_batch_norm",
    5.0: "glu",
    6.0: "mish",  # an exponential, a sum and a logarithm, a hyperbolic tangent, a product
    8.0: "upsample_bilinear2d _upsample_bilinear2d_aa grid_sampler_2d",
    16.0: "upsample_trilinear3d",
    40.0: "upsample_bicubic2d _upsample_bicubic2d_aa",
}
# FLOP for each element of what is read or written, whichever is more. A transcendental function, a
# comparison or a division is one.
_PER_ELEMENT = {
    **dict.fromkeys(GATHERED | SCATTERED, 0.0),
    **{name: flops for flops, names in _FLOPS.items() for name in names.split()},
    **{one: ops.CONVENTIONS[of].flops for of, names in _NORMS.items() for one in names.split()},
    **dict.fromkeys(MOVES, 0.0),
    **dict.fromkeys(_SUMS.split(), 1.0),
}
_ORDERED = frozenset(("sort", "argsort", "msort"))
_FFT = frozenset(("_fft_r2c", "_fft_c2r", "_fft_c2c"))


def flops_of(name: str, elements: float, last: float, pointwise: bool) -> float | None:
    """FLOP of an operator that is no product, whose largest array has so many elements, `last` of
    them in a row; `None` where nobody has counted it, nor says torch that it treats each alone.
    """
    if name in _PER_ELEMENT:
        return _PER_ELEMENT[name] * elements
    steps = max(1.0, math.log2(max(last, 1.0)))
    if name in _ORDERED:
        return elements * steps
    if name in _FFT:  # of 5 N log2 N, as benchmarks of transforms count
        return 5.0 * elements * steps
    return elements if pointwise else None


@cache
def pairs(new: int, seen: int, *, causal: bool, window: int | None = None) -> int:
    """Pairs of tokens that attention sets against each other.

    The `new` queries are the last of the tokens; a causal one looks at itself and what is before
    it, or at the last `window` of these; one that is not causal at half a window to either side.

    Examples
    --------
    >>> pairs(4, 4, causal=True), pairs(4, 4, causal=False), pairs(4, 4, causal=True, window=2)
    (10, 16, 7)
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
    """B, D, F and groups of a product of two matrices, or of as many stacked ones."""
    left, right = shapes
    if len(left) == 3:
        groups, rows, inner = left
        return groups * rows, inner, right[-1], groups
    rows, inner = left if len(left) == 2 else (1, left[0])
    return rows, inner, right[1] if len(right) == 2 else 1, 1
