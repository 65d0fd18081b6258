"""Report of compiled programs: what each exchanges, by the model too, and how long that takes."""

from collections import Counter
from collections.abc import Mapping

from course_lib import network
from course_lib.bench.rows import Manifest
from course_lib.specs import chip
from course_tools import hlo
from course_book.reports.frame import opening, said
from course_book.text import Table, n, named, t, table

# The word for each of `network.SCHEMES`.
NAMES = {
    "tensor": "tensor-parallelism",
    "data": "data-parallelism",
    "both": "scheme-both",
    "fsdp": "scheme-fsdp",
    "sequence": "scheme-sequence",
    "experts": "scheme-experts",
}
# Where times are predicted: a chip, and what joins eight of it.
LINKS = (
    *(("a100-sxm-80", "nvlink"), ("h100-sxm", "nvlink"), ("b200-sxm", "nvlink")),
    ("h100-sxm", "host"),
)


def exchanged(texts: Mapping[str, str], B: int, D: int, F: int) -> Table:
    """Each program's collectives on eight devices, with bytes by its text and by the model."""
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
    """The time that each program's collectives take at least, one after another, on four links."""
    between = [network.resolve_link(key, link, 8) for key, link in LINKS]
    rows = []
    for scheme, text in texts.items():
        found = hlo.compiled_collectives(text)
        each = (hlo.compiled_seconds(found, link, algorithm="switched") for link in between)
        rows.append([t(NAMES[scheme]), *(n(seconds, "s") for seconds in each)])
    header = [f"8 × {chip(key).short}, {chip(key).joins[link].name}" for key, link in LINKS]
    return table([t("sharding"), *header], rows, "lrrrr")


def report(texts: Mapping[str, str], B: int, D: int, F: int, manifest: Manifest) -> str:
    """REPORT.md of compiled programs. Nothing in it is measured."""
    sizes = said("compiled-for", B=n(B), D=n(D), F=n(F))
    parts = [*opening(manifest), sizes, repr(exchanged(texts, B, D, F))]
    return "\n\n".join([*parts, said("not-timed"), repr(times(texts))]) + "\n"
