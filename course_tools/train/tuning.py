"""Fine-tuning: which parameters are trained, in which format the others lie, and what that leaves
of a step's arithmetic and memory.
"""

from dataclasses import dataclass
from typing import Literal

from course_lib.core.checks import CourseError, count, known, shown
from course_lib.core.dtypes import itemsize
from course_lib.specs import Transformer
from course_lib.workloads.weights import matrices
from course_tools.train.parallelism import FRAMEWORK, TUNING, TrainingConstants, constants

KINDS = ("full", "lora", "qlora")
# Matrices that get two narrow ones beside them: of queries and values alone, as the paper's and the
# peft library's default [hu2021], or of every product in a layer.
ON = {"qv": ("q", "v"), "all": ()}
BF16 = itemsize("bf16")


@dataclass(frozen=True, slots=True)
class Method:
    """How a model is trained on.

    Examples
    --------
    >>> method("qlora,r=8").w, str(method("lora"))
    ('nf4', 'lora,r=16,on=qv,w=bf16')
    """

    kind: str = "full"  # one of `KINDS`; both others train low-rank additions to frozen weights
    r: int = 16  # their rank
    on: Literal["qv", "all"] = "qv"  # which matrices have them
    w: str = ""  # format of the frozen weights: bf16, or nf4 with ``"qlora"``

    def __post_init__(self) -> None:
        known("method", self.kind, KINDS)
        known("on", self.on, ON)
        object.__setattr__(self, "r", count("r", self.r))
        object.__setattr__(self, "w", self.w or ("nf4" if self.kind == "qlora" else "bf16"))
        if self.kind != "qlora" and itemsize(self.w, "w") != BF16:
            raise CourseError(f"w={self.w} is for method qlora (got {self.kind})")

    @property
    def frozen(self) -> bool:
        """Whether the model's own weights stay as they are."""
        return self.kind != "full"

    @property
    def quantised(self) -> bool:
        """Whether frozen weights are unpacked before each product."""
        return itemsize(self.w) < BF16

    @property
    def drops(self) -> bool:
        """Whether the wide input of a layer's last product can go once it was used: its weights
        have no gradient. Kernels for quantised weights keep it, and what is added there needs it.
        """
        return self.frozen and not self.quantised and self.on == "qv"

    def trainable(self, model: Transformer) -> int:
        """Parameters that are trained.

        Examples
        --------
        >>> from course_lib.specs import model
        >>> method("lora,r=8").trainable(model("llama-2-7b"))
        4194304
        """
        if not self.frozen:
            return model.parameters
        named = ON[self.on]
        return sum(
            self.r * one.layers * one.copies * (one.inputs + one.outputs)
            for one in matrices(model, absorbed=False)
            if one.part != "head" and one.name != "router" and (not named or one.name in named)
        )

    def trains(self, model: Transformer) -> float:
        """Trained parameters over those of the model."""
        return self.trainable(model) / model.parameters

    def weight(self, model: Transformer) -> float:
        """Bytes of a parameter, in the mean: matrices of layers in the frozen format, all else and
        what is trained in bf16.
        """
        packed = sum(
            one.parameters for one in matrices(model, absorbed=False) if one.part != "head"
        )
        share = packed / model.parameters
        added = self.trains(model) if self.frozen else 0.0
        return share * itemsize(self.w) + (1 - share + added) * BF16

    def __str__(self) -> str:
        return f"{self.kind},r={self.r},on={self.on},w={self.w}" if self.frozen else self.kind


def method(text: str | Method) -> Method:
    """A method as text has it: ``full``, ``lora,r=16`` or ``qlora,r=16,on=all,w=nf4-double``.

    Examples
    --------
    >>> method("qlora,r=8").frozen, method("full").frozen
    (True, False)
    """
    if isinstance(text, Method):
        return text
    if not isinstance(text, str):
        raise CourseError(f"method must be text as 'lora,r=16' (got {shown(text)})")
    kind, *rest = (one.strip() for one in text.split(","))
    found: dict[str, str] = {}
    for part in rest:
        name, equals, value = part.partition("=")
        known("name in method", name, ("r", "on", "w"))
        if not equals or (name == "r" and not value.isdecimal()):
            raise CourseError(f"method {shown(text)} must be as 'lora,r=16,on=qv,w=bf16'")
        found[name] = value
    rank = {"r": int(found.pop("r"))} if "r" in found else {}
    return Method(kind, **rank, **found)  # type: ignore[arg-type]


def constants_for(framework: TrainingConstants | str | None, by: Method) -> TrainingConstants:
    """A framework's constants; when none is named, those of what was measured of a method."""
    return constants((TUNING if by.frozen else FRAMEWORK) if framework is None else framework)
