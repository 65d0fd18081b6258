"""The spec tables as rows, for files and commands."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from course_lib.specs.accelerators import Accelerator
from course_lib.specs.catalog import chip, chips, listed_models, model
from course_lib.specs.ranges import PLAIN


def chip_rows(keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """One row a chip in SI units, with the same columns for all; what is unpublished is `None`.

    Examples
    --------
    >>> row = chip_rows(["h100-sxm"])[0]
    >>> row["bandwidth"], row["matrix.bf16"], row["matrix.int4"]
    (3350000000000.0, 989400000000000.0, None)
    """
    peaks = sorted({name for key in chips() for name in chip(key).peaks})
    plain = ("memory", "bandwidth", *(one for one in list(PLAIN)[2:] if one != "special"))
    return [
        {
            **{name: getattr(one, name) for name in ("key", "name", "vendor", "year", *plain)},
            **{name: one.peaks.get(name) for name in peaks},
            "links": "; ".join(f"{link.count} x {link.name}" for link in one.links.values())
            or None,
            "links_per_direction": sum(link.total_per_direction for link in one.links.values())
            or None,
            "host_per_direction": one.host.per_direction if one.host else None,
            "node_per_direction": one.node.ports.total_per_direction if one.node else None,
        }
        for one in map(chip, chips() if keys is None else keys)
    ]


def figure_rows(one: Accelerator) -> list[dict[str, Any]]:
    """One row for each figure of a chip: as published and in SI units, with its sources."""
    return [
        {"chip": one.key, "figure": name, "si": f.si, **msgspec.to_builtins(f)}
        for name, f in one.figures.items()
    ]


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV; an unpublished figure is an empty field.

    Examples
    --------
    >>> as_csv([{"chip": "t4", "fp8": None}]).splitlines()
    ['chip,fp8', 't4,']
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_json(keys: Iterable[str] | None = None) -> str:
    """Chips with every figure's provenance as JSON, and the sources that they cite.

    Examples
    --------
    >>> as_json(["t4"])[:22]
    '{"chips":[{"figures":['
    """
    found = [chip(key) for key in (chips() if keys is None else keys)]
    body = {
        "chips": [{"key": one.key, "name": one.name, "figures": figure_rows(one)} for one in found],
        "sources": {id_: source for one in found for id_, source in one.sources.items()},
    }
    return msgspec.json.encode(body, order="sorted").decode()


def model_rows() -> list[dict[str, str | int | float]]:
    """One row a model: its configuration, its computed parameters and the published count.

    Examples
    --------
    >>> model_rows()[0]["key"]
    'qwen3-0.6b'
    """
    names = ("key", "name", "vendor", "year", "parameters", "active_parameters")
    return [
        {**{name: getattr(one, name) for name in names}, "published": one.published.si}
        for one in map(model, listed_models())
    ]
