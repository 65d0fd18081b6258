"""What is published of chips and models, with its sources."""

from course_lib.specs.accelerators import Accelerator, Node
from course_lib.specs.catalog import (
    FOLDER,
    chip,
    chip_of_device,
    chips,
    listed_models,
    model,
    models,
    unreadable,
)
from course_lib.specs.configurations import MACS_ARE, ConvNet, Model, Transformer, cited_by
from course_lib.specs.provenance import DATA, UNITS, Figure, Source, load_toml, sources
from course_lib.specs.ranges import PARTS
from course_lib.specs.rental import Price, outdated, prices, quotes
from course_lib.specs.rows import as_csv, as_json, chip_rows, model_rows

__all__ = [
    "DATA",
    "FOLDER",
    "MACS_ARE",
    "PARTS",
    "UNITS",
    "Accelerator",
    "ConvNet",
    "Figure",
    "Model",
    "Node",
    "Price",
    "Source",
    "Transformer",
    "as_csv",
    "as_json",
    "chip",
    "chip_of_device",
    "chip_rows",
    "chips",
    "cited_by",
    "listed_models",
    "load_toml",
    "model",
    "model_rows",
    "models",
    "outdated",
    "prices",
    "quotes",
    "sources",
    "unreadable",
]
