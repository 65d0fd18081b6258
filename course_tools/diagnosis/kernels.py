"""Judges the kernels of a trace: what each loses, and to what.

A kernel has one cause: the one that explains most of the time beyond its bound.
"""

import re
from functools import cached_property
from math import ceil, prod

import numpy as np

from course_lib.specs import Accelerator
from course_tools.diagnosis.account import Account, Totals
from course_tools.diagnosis.amounts import bound, count, disagree, factors, peak, tensors
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import Floats, Numbers, OpType, Places, Rows

# Part of its bound's rate from which a kernel counts as near it: tuned products reach 0.6 to 0.9,
# and the same ones with operands of another size 0.55.
NEAR = 0.55
# Part of a bound's rate that tuned kernels reach: what could still be gained ends there.
FULL = 0.8
# Part of its bound below which a time shows that the bound is none: clocks and rounding aside.
TRUSTED = 0.95
# Bytes of the widest load, which must begin at a multiple of them [nvidia-cuda-guide]: rows of
# another length are loaded in smaller pieces.
ALIGNED = 16
# Blocks for each multiprocessor up to which an incomplete last wave is told apart.
SMALL = 4
CHAINED = ("elementwise", "reduce")
# Products of which attention in pieces has one before its softmax, and one behind it.
SCORES = ("aten::bmm", "aten::baddbmm")
# A kernel that somebody wrote for the occasion; those of libraries are templates, or have no
# arguments in their name.
OWN = re.compile(r"(void )?\w+\(.*\*")
# The cause of what calls of a kernel lose, the seconds of each, and how well it is shown.
Loss = tuple[str, Floats, float]


class Candidate:
    """One kind of kernel, launched by one kind of operator, before its time is looked at.

    Attributes
    ----------
    kind, dtype : what it does, in which format.
    amount : FLOPs and bytes, or nothing.
    bound : s at least on the chip; 0 where not known.
    name : of the operator, or of the kernel without most of what stands in brackets.
    """

    def __init__(self, kernel: OpType, operator: OpType | None, chip: Accelerator | None) -> None:
        self.kernel, self.chip = kernel, chip
        called = operator.name if operator else ""
        self.inputs = tensors(operator) if operator else []
        self.kind, self.dtype = names.kernel(kernel.name, called)
        self.amount = count(operator, self.inputs) if operator else None
        if self.amount is not None and (self.kind != "product" or self.dtype is None):
            self.dtype = self.amount.dtype
        # Copies between two formats.
        copies = called in ("aten::_to_copy", "aten::float", "aten::double")
        converts = len({one.dtype for one in self.inputs}) > 1 or copies
        if self.kind in ("copy", "elementwise", "other") and names.CONVERTING.search(called):
            self.kind = "convert" if converts else self.kind
        self.bound = bound(self.amount, chip, self.kind, self.dtype)
        bare = names.bare(kernel.name)
        self.name = called if operator else bare if len(bare) <= 80 else bare[:77] + "..."

    @cached_property
    def narrow(self) -> int:
        """Bytes of an element of its largest operand."""
        largest = max(self.inputs, key=lambda one: one.elements, default=None)
        return names.BYTES.get(largest.dtype, 0) if largest else 0

    @property
    def own(self) -> bool:
        """Whether no library launches it, nor names it: a plain name, with pointers behind it."""
        return self.amount is None and bool(OWN.match(self.kernel.name))

    def loss(self, seconds: Floats, part: Floats, multiprocessors: int, bandwidth: float) -> Loss:
        """What rows lose that took so long; each does a part of its operator's work."""
        none, least = np.zeros(len(seconds)), self.bound * part
        excess = np.maximum(seconds - least / FULL, 0.0) if self.bound else seconds
        if self.kind == "collective":
            return "", none, 1.0
        if self.kind == "convert":
            return "wrong-format", seconds, 1.0
        inputs, most = self.inputs, max((one.elements for one in self.inputs), default=0)
        across = disagree(inputs) or (
            self.kind in ("copy", "layout", "reduce")
            and bool(inputs)
            and len(inputs[0].dims) > 1
            and any(one.scattered for one in inputs if one.elements == most)
        )
        if self.kind == "layout" or (self.kind == "copy" and across):
            return "strided", seconds, 0.4 if self.own else 1.0
        if self.kind == "copy":
            # Torch copies what lies alike by a memcpy: without shapes its own kernel tells of
            # another format or layout.
            if inputs or "direct_copy" not in self.kernel.name:
                return "copies", seconds, 1.0
            converts = re.search("unrolled|WithCast", self.kernel.name)
            return "wrong-format" if converts else "strided", seconds, 0.6
        losses: list[Loss] = []
        if self.kind == "product":
            losses += self._product(seconds, excess, part)
        elif self.kind in CHAINED and self.dtype == "fp64":
            losses.append(("wrong-format", seconds / 2, 0.8))
        if self.kind in (*CHAINED, "other") and across and self.amount:
            moving = self.amount.bytes / bandwidth * part if bandwidth else none
            slow = np.where(seconds > 2.5 * moving, seconds - moving, 0.0)
            losses.append(("strided", slow, 1.0))
        losses += self._waves(seconds, excess, least, multiprocessors)
        return max(losses, key=lambda one: float(one[1].sum()), default=("", none, 1.0))

    def _product(self, seconds: Floats, excess: Floats, of: Floats) -> list[Loss]:
        found: list[Loss] = []
        if self.dtype in names.WIDE:
            # What a format of half the bits leaves: half the bytes, and the rate of the fast unit.
            part = {"tf32": 0.5, "fp32": 0.125, "fp64": 0.1}[self.dtype]
            # Where neither the chip nor the shapes say what is left, that is a rule of thumb.
            sure = 0.6 if self.dtype == "tf32" else 1.0 if self.chip and self.amount else 0.8
            # A kernel of somebody's own has more to it than its format, which its arguments tell.
            sure = min(sure, 0.4) if self.own else sure
            gained = seconds * (1 - part)
            if self.chip is not None:
                fast = max(peak(self.chip, one) for one in ("bf16", "fp16"))
                own = peak(self.chip, self.dtype)
                part = min(own / fast, 1.0) if fast and own else 1.0
                gained = seconds * (1 - part)
                if self.amount is not None and fast:
                    t_memory = self.amount.bytes / 2 / self.chip.bandwidth
                    narrowed = max(t_memory, self.amount.flops / fast) / FULL * of
                    part, gained = 0.0, np.maximum(seconds - narrowed, 0.0)
            if part < 1:
                found.append(("wrong-format", gained, sure))
        odd = bool(re.search(r"align[12](?!\d)", self.kernel.name))
        if self.amount and (two := factors(self.inputs)) and self.narrow in (1, 2):
            sizes = (two[0].dims[-1], two[2])
            odd = any(size * self.narrow % ALIGNED and size > 64 for size in sizes)
        if odd:
            far = seconds > self.bound * of / NEAR
            gained = np.where(far, excess, 0.0) if self.bound else seconds / 2
            found.append(("strided", gained, 1.0 if self.bound else 0.6))
        return found

    def _waves(
        self, seconds: Floats, excess: Floats, least: Floats, multiprocessors: int
    ) -> list[Loss]:
        """What stands idle in the last wave of a kernel's blocks, or in its only one."""
        if not self.kernel.grid or not multiprocessors:
            return []
        blocks = prod(self.kernel.grid)
        each = ceil(blocks / multiprocessors)
        filled = blocks / (each * multiprocessors)
        if each > SMALL or filled > 0.85:
            return []
        if self.kind == "gather" or (self.kind == "elementwise" and (not self.bound or each > 1)):
            return []
        idle = np.minimum(seconds * (1 - filled), excess)
        far = self.bound == 0 or seconds > least / NEAR
        sure = 1.0 if self.bound or self.kind in ("product", "attention") else 0.7
        return [("ragged-waves", np.where(far, idle, 0.0), sure)]


class Candidates:
    """The kinds of kernels, or of a CPU's operators, of some rows.

    Attributes
    ----------
    each, which : the kinds, and which of them each row is.
    """

    def __init__(
        self, rows: Rows, places: Places, launchers: Numbers, chip: Accelerator | None
    ) -> None:
        self.rows, self.places = rows, places
        kinds, of = len(rows.types) + 1, rows.type[np.maximum(launchers, 0)].astype(np.int64)
        pairs = rows.type[places].astype(np.int64) * kinds + np.where(launchers >= 0, of + 1, 0)
        found, self.which = np.unique(pairs, return_inverse=True)
        types = [None, *rows.types]
        self.each = [Candidate(rows.types[k // kinds], types[k % kinds], chip) for k in found]
        self.members = [np.flatnonzero(self.which == i) for i in range(len(self.each))]

    def bandwidth(
        self, times: Floats, unit: float, least: float, large: float, most: float, but: str = ""
    ) -> float:
        """B/s of the kind that moves more than `large` bytes fastest: memory has at least that."""
        rates = [least]
        for one, members in zip(self.each, self.members, strict=True):
            if one.amount is not None and one.amount.bytes > large and one.kind != but:
                median = float(np.median(times[members])) * unit
                rates.append(one.amount.bytes / max(median, 1e-9))
        return min(max(rates), most)

    def chained(self, seconds: Floats, real: Places) -> Floats:
        """What fusing saves of each of these rows: in a run on one lane of those that only pass
        arrays on, all but the longest; of the same over and over, which may be no chain, half; of
        the scores of attention, which one operator would keep on the chip, all.
        """
        saved = np.zeros(len(seconds))
        lane = self.rows.lane[self.places[real]].astype(np.int64)
        order = np.lexsort((self.rows.ts[self.places[real]], lane))
        real, lane = real[order], lane[order]
        if not len(real):
            return saved
        which, times = self.which[real], seconds[real]
        kinds = np.array([one.kind in CHAINED for one in self.each])[which]
        softmax = np.array(["softmax" in one.name for one in self.each])[which]
        new = np.ones(len(real), bool)
        new[1:] = ~(kinds[1:] & kinds[:-1] & (lane[1:] == lane[:-1]))
        run, first = np.cumsum(new) - 1, np.flatnonzero(new)
        total = np.bincount(run, weights=times)
        differs = np.zeros(len(real), bool)
        differs[1:] = which[1:] != which[:-1]
        differs[first] = False
        varied = np.bincount(run, weights=differs) > 0
        part = 1 - np.maximum.reduceat(times, first) / np.where(total > 0, total, 1)
        chains = (np.bincount(run) > 1) & kinds[first]
        scores = np.array([one.name in SCORES for one in self.each])[which]
        copies = np.array([one.kind == "copy" for one in self.each])[which]
        last = len(real) - 1
        before, after = np.maximum(first - 1, 0), np.concatenate([first[1:], [last]])
        after = np.where(copies[after], np.minimum(after + 1, last), after)
        between = kinds[first] & scores[before] & scores[after]
        attends = between & (np.bincount(run, weights=softmax) > 0)
        kept = np.where(chains, part * np.where(varied, 1.0, 0.5), 0.0)
        saved[real] = times * np.where(attends, 1.0, kept)[run]
        return saved

    def book(
        self, found: Account, one: Candidate, times: Floats, calls: float, working: float
    ) -> None:
        """List calls among the operators that take most time; a call may have several kernels, or
        pass its work on to another operator.
        """
        amount = one.amount
        flops, moved = (amount.flops, amount.bytes) if amount else (0.0, 0.0)
        amounts = one.bound * working, flops * working, moved * working
        found.operator(one.name, calls, float(times.sum()), *amounts)
        found.kinds[one.kind] += float(times.sum())
        if one.dtype:
            found.formats.setdefault(one.name, Totals())[one.dtype] += float(times.sum())


def settle(found: Account, one: Candidate, calls: float, rest: float) -> bool:
    """Book what the bound of calls explains of the time that no cause does, where it is known."""
    least = one.bound * calls
    if one.bound:
        found.roof += rest if rest * NEAR <= least else least / FULL
    return bool(one.bound)
