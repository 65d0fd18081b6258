"""Work set against a chip that may publish less than the work asks for."""

from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from course_lib.core import Estimate, Work, roofline
from course_lib.core.checks import CourseError, nonnegative, shown
from course_lib.specs.accelerators import Accelerator
from course_lib.specs.accelerators import chip as chip_of
from course_lib.specs.configurations import Transformer
from course_lib.specs.configurations import model as model_of


def bounded(work: Work, chip: Accelerator, *, comms: ArrayLike = 0.0) -> Estimate:
    """`roofline`, for work that comes from a model rather than from the reader.

    A chip without any matrix unit does products on its vector unit. Elementwise work on a chip that
    publishes no vector peak for it has memory time only, which keeps the bound a bound; a product's
    missing peak stays an error.
    """
    if work.unit == "matrix" and f"matrix.{work.dtype}" not in chip.peaks and not _has_matrix(chip):
        work = replace(work, unit="vector")
    elif work.unit == "vector" and f"vector.{work.dtype}" not in chip.peaks:
        times = (0.0 * work.flops, work.bytes / chip.bandwidth, nonnegative("comms", comms))
        return Estimate(*times, work.flops, work.bytes, work.kernels, work=work, chip=chip)
    return roofline(work, chip, comms=comms)


def _has_matrix(chip: Accelerator) -> bool:
    return any(name.startswith("matrix.") for name in chip.peaks)


def transformer(model: Transformer | str) -> Transformer:
    """The model itself or of this key; raise where it is not a transformer."""
    found: Any = model_of(model) if isinstance(model, str) else model
    if not isinstance(found, Transformer):
        said = shown(getattr(found, "key", found))
        raise CourseError(
            f"model must be a transformer or its key (got {said}): course_lib.resnet has convnets"
        )
    if found is model:  # those of the table were checked when they were read
        try:
            found.check_sizes()
        except CourseError as error:
            raise CourseError(f"model {found.key or found.name!r}: {error}") from None
    return found


def accelerator(chip: Accelerator | str) -> Accelerator:
    """The chip itself or of this key."""
    found: Any = chip_of(chip) if isinstance(chip, str) else chip
    if not isinstance(found, Accelerator) and not (
        hasattr(found, "peaks") and hasattr(found, "bandwidth")
    ):
        raise CourseError(
            f"chip must be a key of the spec table or an Accelerator (got {shown(found)})"
        )
    accelerator: Accelerator = found
    return accelerator
