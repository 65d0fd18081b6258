"""What is noted of each operator that a model runs: its arithmetic, what it reads and writes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from course_lib.core import Kind, Unit

# The name of what puts the results of all steps together, each of which is written as it is made.
STEPS = "steps"


@dataclass(frozen=True, slots=True)
class Access:
    """An array that an operator reads or writes.

    Attributes
    ----------
    storage : a number that arrays share which are views of the same memory.
    elements : how many of its elements pass.
    format : ``"w"``, ``"x"`` or ``"kv"`` where it is in the format that a step has for weights,
        activations and cache, ``"state"`` for a cache's states, which are kept as activations are;
        a format of `course_lib.core.dtypes` where the model's code says so whatever the step's
        formats are; or bits, ``"64"`` say, of what is no such number.
    """

    storage: int
    elements: float
    format: str

    def times(self, many: float) -> "Access":
        """So many times as much of it."""
        return Access(self.storage, many * self.elements, self.format)


@dataclass(slots=True)
class Routing:
    """How many experts there are, how many a token visits, how many tokens choose, and whether a
    module's code goes through the experts one by one.
    """

    experts: int
    active: int
    tokens: int
    loops: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator as it ran.

    Attributes
    ----------
    name, where : what torch calls it, and the module that ran it.
    flops : FLOP, of a multiply-accumulate two.
    reads, writes : arrays.
    kind, unit : as of `course_lib.core.Work`.
    arithmetic : ``"matmul"`` or ``"attention"``, in the format that a step has for it, or a format.
    shape : the sizes of a product or of attention, as of `course_lib.core.Work`.
    routing : of a product with experts, which come first in `reads`.
    alone : whether it is a kernel of its own, which takes in no neighbour.
    times : how often it ran alike: in layers of one kind that have very many operators, or step by
        step.
    instead : what does the same with less work; `None` where nothing does.
    """

    name: str
    where: str
    flops: float
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    kind: Kind = "vector"
    unit: Unit = "vector"
    arithmetic: str = "fp32"
    shape: tuple[float, ...] | None = None
    routing: Routing | None = None
    alone: bool = True
    times: int = 1
    instead: "tuple[Operation, ...] | None" = None

    def on(self, moved: Callable[[Access], Access]) -> "Operation":
        """The same, and what stands in its place, on other arrays."""
        reads, writes = (tuple(map(moved, of)) for of in (self.reads, self.writes))
        instead = self.instead and tuple(one.on(moved) for one in self.instead)
        # As `replace` makes it, which takes three times as long: a model has many operators.
        how = (self.kind, self.unit, self.arithmetic, self.shape, self.routing, self.alone)
        return Operation(
            self.name, self.where, self.flops, reads, writes, *how, self.times, instead
        )

    def again(self, more: int) -> "Operation":
        """The same where all that it ran runs so many times more."""
        instead = self.instead and tuple(one.again(more) for one in self.instead)
        return replace(self, times=self.times * (1 + more), instead=instead)


@dataclass(frozen=True, slots=True)
class Trace:
    """A pass through a model.

    Attributes
    ----------
    operations : in the order in which they ran.
    own : storages of parameters, and how many elements each has.
    kept : storages that outlive the pass: these, caches, results; and how many elements stay there,
        where that is more than an operator writes.
    uncounted : operators of which only the bytes are counted, and in which module.
    tokens : new tokens of each sequence.
    cached, given : storages of what a cache holds, and of what the pass was given.
    alike : of storages of parameters, how many more each stands for: those of layers that were not
        noted once more.
    halved : whether products of two activations may be half hidden by a mask.
    """

    operations: tuple[Operation, ...]
    own: Mapping[int, float]
    kept: Mapping[int, float]
    uncounted: tuple[str, ...]
    tokens: int
    cached: frozenset[int] = frozenset()
    given: frozenset[int] = frozenset()
    alike: Mapping[int, int] = field(default_factory=dict)
    halved: bool = False
