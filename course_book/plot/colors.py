"""Colors that stand for something: a chip or a path has the same one in every figure."""

from collections.abc import Sequence

from course_lib.specs import load_toml
from course_book.files import DATA

# More than six are not apart for every kind of color vision: what has the same color never stands
# in the same figure, or has another one there.
LINES = ("#1a3ab8", "#883c00", "#297c73", "#6a427b", "#906a21", "#622a2e")
# The mark of each color.
MARKERS = "osD^vP"
# Places in `LINES` of what a number passes on its way, and of the arithmetic at its end.
PATHS = {"memory": 1, "math": 2, "network": 3, "cache": 4}
# What has a color of its own, by what its label begins with.
_OWN: dict[str, int] = {
    name: PATHS[of] if of in PATHS else int(of)
    for name, of in load_toml(DATA / "colors.toml", dict).items()
}


def own_tone(label: str) -> int | None:
    """The place in `LINES` of the chip or path that a label begins with, if any.

    Examples
    --------
    >>> own_tone("H100") == own_tone("H100, fp8"), own_tone("B = 16"), own_tone("L40S")
    (True, None, None)
    """
    for name, tone in _OWN.items():
        if label == name or (label.startswith(name) and not label[len(name)].isalnum()):
            return tone
    return None


def tones(labels: Sequence[str]) -> list[int]:
    """The place in `LINES` of each label: its own, or the next one that is free.

    Examples
    --------
    >>> tones(["V100", "A100", "H100", "B200"]), tones(["D = 512", "D = 2,048"])
    ([4, 5, 0, 3], [0, 1])
    """
    found: dict[str, int] = {}
    for label in dict.fromkeys(labels):
        tone = own_tone(label)
        if tone is not None and tone not in found.values():
            found[label] = tone
    for i, label in enumerate(dict.fromkeys(labels)):
        free = [tone for tone in range(len(LINES)) if tone not in found.values()]
        found.setdefault(label, free[0] if free else i % len(LINES))
    return [found[label] for label in labels]
