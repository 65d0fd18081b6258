"""A step whose sequences differ, as servers run it, summed up operator by operator: what times of
steps are held against.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from course_lib import llm
from course_lib.specs.catalog import decoder
from course_lib.workloads.transformer import _spread_experts, attention_of, works_of
from course_lib.workloads.weights import layout


def operators(model, new, seen, fm, *, tp=1, ep=1, skew=1.0):
    """Weights are read once for all tokens, attention is one kernel a layer for all sequences, and
    the head sees the last token of each; `new` tokens of each and its `seen` ones with them.
    """
    sequences, tokens = float(new.size), float(new.sum())
    decoding = bool(np.any((new == 1) & (seen > 1)))
    tp, ep, groups = layout(model, tp, ep)
    found = works_of(model, sequences / groups, tokens / sequences, tokens, fm, tp, decoding, True)
    for name, work in attention_of(model, 1.0 / groups, new, seen, fm, tp, decoding, True).items():
        amounts = {of: float(np.sum(getattr(work, of))) for of in ("flops", "bytes")}
        found["attention"][name] = replace(found["attention"][name], **amounts)
    return _spread_experts(found, model, tokens, fm, ep, skew)


def mixed(model, chip, new, context, **options):
    """The bound of such a step; lists of one length, or one number for all."""
    one = llm._deployed(decoder(model, windows=True), chip, **options)
    new, seen = np.broadcast_arrays(np.atleast_1d(new), np.atleast_1d(context))
    many = float(new.size)
    works = partial(operators, one.model, new, seen, one.fm)
    return llm._estimate(one, works, (many, new.sum() / many, seen.sum() / many), None)
