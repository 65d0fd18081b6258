"""Who sends which chunks to whom in an all-reduce of eight chips, hop by hop."""

from typing import NamedTuple

__all__ = ["CHIPS", "COLUMNS", "SCHEDULES", "SWITCH", "Message", "ring", "torus", "tree"]

CHIPS, COLUMNS = 8, 4
"""Chips and chunks, numbered along the rows of two by four."""
SWITCH = CHIPS
"""The switch's place among those that hold chunks."""
AROUND = (0, 1, 2, 3, 7, 6, 5, 4)
"""The ring through the rows and columns."""


class Message(NamedTuple):
    """Chunks on their way."""

    source: int
    target: int
    chunks: tuple[int, ...]


def ring() -> list[list[Message]]:
    """Every chip passes one chunk to its neighbor: one round to add up, another to hand out.

    Examples
    --------
    >>> len(ring()), ring()[0][0]
    (14, Message(source=0, target=1, chunks=(0,)))
    """
    return [
        [
            Message(chip, AROUND[(place + 1) % CHIPS], (AROUND[(place - hop) % CHIPS],))
            for place, chip in enumerate(AROUND)
        ]
        for hop in range(2 * (CHIPS - 1))
    ]


def tree() -> list[list[Message]]:
    """Partners trade halves, then quarters, then eighths, and give back what is finished.

    Examples
    --------
    >>> [len(hop[0].chunks) for hop in tree()]
    [4, 2, 1, 1, 2, 4]
    """
    hops = []
    for bit in (4, 2, 1):
        # A chip still adds up what agrees with it in the bits that are done.
        done = (CHIPS - 1) & ~(2 * bit - 1)
        hops.append(
            [
                Message(
                    chip,
                    chip ^ bit,
                    tuple(
                        chunk
                        for chunk in range(CHIPS)
                        if not (chunk ^ chip) & done and (chunk ^ chip) & bit
                    ),
                )
                for chip in range(CHIPS)
            ]
        )
    return hops + _back(hops)


def torus() -> list[list[Message]]:
    """Half of the chunks go along the columns first, the others along the rows, both ways round.

    Examples
    --------
    >>> [len(hop) for hop in torus()]
    [24, 20, 12, 12, 20, 24]
    """
    out: list[list[Message]] = [[], [], []]
    for chunk in range(CHIPS):
        row, column = divmod(chunk, COLUMNS)
        near = [(column + way) % COLUMNS for way in (1, -1)]
        far, beside = (column + 2) % COLUMNS, near[column % 2]
        # The rows of one half, or of both at once once the column has been crossed.
        across, along = (2, 0) if row == 0 else (0, 1)
        rows = (row,) if row == 0 else (row, 1 - row)
        columns = range(COLUMNS) if row == 0 else (column,)
        for at in columns:
            out[across].append(_inside(row, at, 1 - row, at, chunk))
        for at in rows:
            out[along] += [_inside(at, column, at, to, chunk) for to in near]
            out[along + 1].append(_inside(at, beside, at, far, chunk))
    return _back(out) + out


def _inside(row: int, column: int, to_row: int, to_column: int, chunk: int) -> Message:
    return Message(COLUMNS * row + column, COLUMNS * to_row + to_column, (chunk,))


def _back(hops: list[list[Message]]) -> list[list[Message]]:
    """The way back: what was scattered is gathered, what was gathered is scattered."""
    return [[Message(b, a, chunks) for a, b, chunks in hop] for hop in reversed(hops)]


def _in_switch() -> list[list[Message]]:
    everything = tuple(range(CHIPS))
    there = [Message(chip, SWITCH, everything) for chip in range(CHIPS)]
    return [there, *_back([there])]


SCHEDULES = {"ring": ring(), "tree": tree(), "in-switch": _in_switch(), "torus": torus()}
"""The hops of each algorithm; the first half of them add up, the others hand out."""
