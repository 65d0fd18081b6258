"""Where the command line prints: results on one stream, progress and errors on the other, and no
text is markup.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from course_book import t
from course_book.text import retold

# Columns of what is no terminal: nothing there asks for a table to be narrowed.
PIPED = 1000


class _Console(Console):
    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **how)

    def on_broken_pipe(self) -> None:
        """Whoever reads has read enough, as `head` has: that is no failure."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


out_console = _Console(width=None if sys.stdout.isatty() else PIPED)
err_console = _Console(stderr=True)


def tell(text: str, **how: Any) -> None:
    """A sentence as one line; on a terminal, broken between words and never within a quantity."""
    if out_console.is_terminal:
        kept = re.sub(r"(?<=\d) (?=\S)", "\u00a0", text)
        lines = [_wrapped(line, out_console.width) for line in kept.split("\n")]
        text = "\n".join(lines).replace("\u00a0", " ")
    out_console.print(text, soft_wrap=True, **how)


def _wrapped(line: str, width: int) -> str:
    """A line broken between words, by the cells that letters take: Hangul takes two each."""
    lines = [""]
    for word in line.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def told(key: str, **values: Any) -> str:
    """A sentence of the command line in the reader's language, `tell-...` of `data/words.csv`."""
    return t(f"tell-{key}").format(**values)


def formats_in_words(said: Mapping[str, str]) -> str:
    """The formats of a step and where they come from, of `counting.told`, as one clause."""
    return "; ".join(f"{told(name)} {retold(one)}" for name, one in said.items())


def tell_json(found: Any) -> None:
    """Everything, in SI units, for programs."""
    out_console.print(json.dumps(found, indent=1), soft_wrap=True)


def columns(*names: str, left: int | None = None) -> Table:
    """A table of which no cell is ever cut: what is too wide goes on in the next line. All columns
    are flush left, or only the first `left`.
    """
    made = Table(box=None, pad_edge=False)
    for number, name in enumerate(names):
        flush: Any = "left" if left is None or number < left else "right"
        made.add_column(name, overflow="fold", justify=flush)
    return made


def counted(number: int, what: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@contextmanager
def progress(said: str) -> Iterator[Callable[[str], None]]:
    """Show what is going on while it goes on, a line at a time."""
    with err_console.status(Text(said)) as status:
        yield lambda line: status.update(Text(line))
