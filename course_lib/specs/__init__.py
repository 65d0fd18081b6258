"""What is published of chips and models, with its sources."""

from course_lib.specs.accelerators import (
    FOLDER,
    Accelerator,
    Link,
    LinkSpec,
    Node,
    NodeSpec,
    chip,
    chip_of_device,
    chips,
    unreadable,
)
from course_lib.specs.configurations import (
    MACS_ARE,
    ConvNet,
    Experts,
    Latent,
    Model,
    Transformer,
    cited_by,
    model,
    models,
)
from course_lib.specs.provenance import (
    DATA,
    UNITS,
    Classic,
    Conflict,
    Figure,
    Source,
    check_quantity,
    cited,
    converted,
    decoded,
    sources,
)

__all__ = ["Accelerator", "Classic", "Conflict", "ConvNet", "DATA", "Experts", "FOLDER", "Figure", "Latent", "Link", "LinkSpec", "MACS_ARE", "Model", "Node", "NodeSpec", "Source", "Transformer", "UNITS", "check_quantity", "chip", "chip_of_device", "chips", "cited", "cited_by", "converted", "decoded", "model", "models", "sources", "unreadable"]
