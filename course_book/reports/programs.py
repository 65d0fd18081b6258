"""The report of compiled programs: what each exchanges, beside what the network model says, and how
long that takes on some links.
"""

from collections import Counter
from collections.abc import Mapping

from course_lib import network
from course_lib.bench.rows import Manifest
from course_lib.specs import chip
from course_tools import hlo
from course_book.reports.frame import opening, said
from course_book.text import Table, n, named, t, table

NAMES = {
    "tensor": "tensor-parallelism",
    "data": "data-parallelism",
    "both": "scheme-both",
    "fsdp": "scheme-fsdp",
    "sequence": "scheme-sequence",
    "experts": "scheme-experts",
}
"""The word for each of `network.SCHEMES`."""
LINKS = (
    ("a100-sxm-80", "nvlink"),
    ("h100-sxm", "nvlink"),
    ("b200-sxm", "nvlink"),
    ("h100-sxm", "host"),
)
"""Where times are predicted: a chip, and what joins eight of it."""


def exchanged(texts: Mapping[str, str], B: int, D: int, F: int) -> Table:
    """The collectives of each program, with the bytes that its text names and those of the model.

    Parameters
    ----------
    texts : compiled programs by scheme, for eight devices.
    B, D, F : the sizes for which they were compiled.

    Examples
    --------
    >>> shown = exchanged({"tensor": hlo.compiled_example("tensor")}, 4096, 8192, 28672)
    >>> repr(shown).splitlines()[-1]
    '| tensor parallelism | all-reduce | 8 | 67.1 MB | 67.1 MB |'
    """
    rows = []
    for scheme, text in texts.items():
        found: Counter[tuple[str, int]] = Counter()
        for one in hlo.compiled_collectives(text):
            found[one.collective, one.group] += int(one.bytes) * (one.times or 1)
        model: Counter[tuple[str, int]] = Counter()
        for step in network.sharded_mlp(scheme, B, D, F):
            model[step.collective, network.SCHEMES[scheme][step.axis]] += int(step.bytes)
        name = t(NAMES[scheme])
        for kind, group in dict.fromkeys([*model, *found]):
            sizes = (n(of[kind, group], "B") for of in (found, model))
            rows.append([name, named(kind), n(group), *sizes])
            name = ""
    header = [t("sharding"), t("collective"), t("chips-in-a-group")]
    return table([*header, t("bytes-in-program"), t("bytes-by-model")], rows, "llrrr")


def times(texts: Mapping[str, str]) -> Table:
    """The time that each program's collectives take at least, one after another, on four links.

    Parameters
    ----------
    texts : compiled programs by scheme.

    Examples
    --------
    >>> repr(times({"tensor": hlo.compiled_example("tensor")})).splitlines()[-1]
    '| tensor parallelism | 391 µs | 261 µs | 130 µs | 1.84 ms |'
    """
    between = [network.resolve_link(key, link, 8) for key, link in LINKS]
    rows = [
        [
            t(NAMES[scheme]),
            *(n(hlo.compiled_seconds(found, link, algorithm="switched"), "s") for link in between),
        ]
        for scheme, text in texts.items()
        for found in [hlo.compiled_collectives(text)]
    ]
    header = [f"8 × {chip(key).short}, {chip(key).joins[link].name}" for key, link in LINKS]
    return table([t("sharding"), *header], rows, "lrrrr")


def report(texts: Mapping[str, str], B: int, D: int, F: int, manifest: Manifest) -> str:
    """REPORT.md of compiled programs. Nothing in it is measured.

    Parameters
    ----------
    texts, B, D, F : as in `exchanged`.
    manifest : of the run.

    Examples
    --------
    >>> about = Manifest(lab="05", command="course lab run 05")
    >>> print(report({}, 4096, 8192, 28672, about).splitlines()[0])
    # 05
    """
    sizes = said("compiled-for", B=n(B), D=n(D), F=n(F))
    parts = [*opening(manifest), sizes, repr(exchanged(texts, B, D, F))]
    return "\n\n".join([*parts, said("not-timed"), repr(times(texts))]) + "\n"
