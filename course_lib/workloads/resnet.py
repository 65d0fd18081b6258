"""A residual network layer by layer: FLOPs, parameters, and four answers to which bytes count."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from numpy.typing import ArrayLike

from course_lib.core import Estimate, Kind, Work, total
from course_lib.core.checks import CourseError, Numbers, known, unfit, whole
from course_lib.core.dtypes import itemsize, widest
from course_lib.specs import MACS_ARE, Accelerator, ConvNet
from course_lib.specs import model as model_of
from course_lib.specs.catalog import accelerator, bounded

__all__ = ["BYTES", "ConvLayer", "Counted", "forward", "layers", "work"]

Counted = Literal["weights", "operands", "fused", "eager"]
# Which bytes are counted, each with all before it: - ``"weights"``: parameters only, as if
# activations never left the chip; - ``"operands"``: what each convolution and the classifier reads
# and writes beside them, batch norm and ReLU fused; - ``"fused"``: the shortcut that a block's sum
# reads, and the two poolings; - ``"eager"``: batch norm, ReLU and sum as operators of their own,
# each reading and writing its tensors.
BYTES: tuple[Counted, ...] = ("weights", "operands", "fused", "eager")


class Counting(TypedDict, total=False):
    """Formats of weights, ``"fp16"``, and of activations, as `w`, and which of `BYTES`."""

    w: str
    x: str | None
    counted: Counted


@dataclass(frozen=True, slots=True)
class ConvLayer:
    """A convolution and what follows it, a pooling, or the classifier. Sizes are of one image."""

    name: str  # "stem", "max_pool", "2.1.conv1" (stage, block, convolution), "classifier", …
    flops: int  # of the convolution or the classifier, two a multiply-accumulate; else none
    parameters: int  # with the batch norm's scale and shift, or the classifier's bias
    inputs: int  # elements read
    outputs: int  # and written
    pool: bool = False
    # What follows the convolution.
    norm: bool = False
    relu: bool = False
    adds: bool = False

    def elements(self, counted: Counted) -> int:
        """Activation elements of one image that move between chip and memory."""
        level = BYTES.index(known("counted", counted, BYTES))
        if level < (2 if self.pool else 1):
            return 0
        extra = self.adds * (level >= 2) + 2 * (self.norm + self.relu + self.adds) * (level >= 3)
        return self.inputs + self.outputs + extra * self.outputs

    def work(
        self,
        batch: ArrayLike,
        *,
        w: str = "fp16",
        x: str | None = None,
        counted: Counted = "operands",
    ) -> Work:
        """The layer's work for a batch of images."""
        images, size = whole("batch", batch), itemsize(w, "w")
        each = size if x is None else itemsize(x, "x")
        moved = self.parameters * size + images * self.elements(counted) * each
        kernels = 1 + (self.norm + self.relu + self.adds) * (counted == "eager")
        try:
            dtype = widest(w if x is None else x, w)
        except CourseError:
            raise CourseError(
                f"w and x must be one format, or one the wider (got {w!r} and {x!r})"
            ) from None
        kind: Kind = "convolution" if self.norm else "other"
        return Work(images * self.flops, moved, dtype, kernels=kernels, kind=kind)


def layers(net: ConvNet | str) -> tuple[ConvLayer, ...]:
    """The layers of a residual network of bottleneck blocks, or of its key: the stem, the max
    pooling, each block's convolutions and its shortcut's, the average pooling, the classifier.

    Examples
    --------
    >>> sum(layer.flops for layer in layers("resnet-50")) / 1e9
    8.178368512
    """
    # Source: [he2016] table 1.
    found: Any = model_of(net) if isinstance(net, str) else net
    if not isinstance(found, ConvNet):
        given = getattr(found, "key", found)
        raise unfit("net", "be a convnet or its key", given, "transformers are in course_lib.llm")
    if found is net:  # those of the table were checked when they were read
        found.check_sizes()
    return tuple(_layers(found))


def _layers(net: ConvNet) -> Iterator[ConvLayer]:
    side = net.image // 2
    yield _convolution("stem", 7, 3, net.stem, net.image, side)
    yield ConvLayer("max_pool", 0, 0, net.stem * side**2, net.stem * (side // 2) ** 2, pool=True)
    side, channels = side // 2, net.stem
    for stage, (blocks, width) in enumerate(zip(net.blocks, net.widths, strict=True), 2):
        for block in range(1, blocks + 1):
            name, out = f"{stage}.{block}", width * net.expansion
            after = side // 2 if block == 1 and stage > 2 else side
            middle = side if net.stride_in == "3x3" else after
            yield _convolution(f"{name}.conv1", 1, channels, width, side, middle)
            yield _convolution(f"{name}.conv2", 3, width, width, middle, after)
            if block == 1:
                yield _convolution(f"{name}.shortcut", 1, channels, out, side, after, relu=False)
            yield _convolution(f"{name}.conv3", 1, width, out, after, after, adds=True)
            side, channels = after, out
    yield ConvLayer("average_pool", 0, 0, channels * side**2, channels, pool=True)
    flops, parameters = MACS_ARE * channels * net.classes, (channels + 1) * net.classes
    yield ConvLayer("classifier", flops, parameters, channels, net.classes)


def _convolution(
    name: str, kernel: int, channels: int, out: int, side: int, after: int, **follows: bool
) -> ConvLayer:
    weights = kernel**2 * channels * out
    sizes = (weights + 2 * out, channels * side**2, out * after**2)
    flops = MACS_ARE * weights * after**2
    return ConvLayer(name, flops, *sizes, norm=True, **{"relu": True, **follows})


def work(net: ConvNet | str, batch: ArrayLike, **how: Unpack[Counting]) -> Work:
    """The whole network as one piece of work: its layers' FLOPs and bytes added up before any chip
    is chosen. A roofline of the sum lets the layers overlap, one's arithmetic with another's
    traffic; `forward` does not. `counted` are bytes as `BYTES` says; `x` defaults to `w`.

    Examples
    --------
    >>> [round(work("resnet-50", 64, counted=counted).intensity, 1) for counted in BYTES]
    [10240.1, 184.4, 142.0, 50.3]
    """
    every = list(_works(net, batch, **how).values())
    flops: Numbers = sum(one.flops for one in every)
    moved: Numbers = sum(one.bytes for one in every)
    return Work(flops, moved, every[0].dtype, kernels=sum(one.kernels for one in every))


def forward(
    net: ConvNet | str, chip: Accelerator | str, batch: ArrayLike, **how: Unpack[Counting]
) -> Estimate:
    """Bound a forward pass on a chip: the layers, its parts, one after another, each under its own
    roof. Launches are in no bound: `kernels` counts them. The rest is as in `work`.

    Examples
    --------
    >>> round(1e3 * forward("resnet-50", "a100-sxm-80", 64).lower, 2)
    2.1
    """
    on, works = accelerator(chip), _works(net, batch, **how)
    return total(**{name: bounded(one, on) for name, one in works.items()})


def _works(net: ConvNet | str, batch: ArrayLike, **how: Unpack[Counting]) -> dict[str, Work]:
    """The layers that move anything, by name."""
    counted = how.get("counted", "operands")
    moving = [one for one in layers(net) if one.elements(counted) or one.parameters]
    return {layer.name: layer.work(batch, **how) for layer in moving}
