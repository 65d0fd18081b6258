"""Where the command line prints: results on one stream, progress and errors on the other, and no
text is markup.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

out_console, err_console = (
    Console(highlight=False, markup=False),
    Console(stderr=True, highlight=False, markup=False),
)


@contextmanager
def progress(said: str) -> Iterator[Callable[[str], None]]:
    """Show what is going on while it goes on, a line at a time."""
    with err_console.status(Text(said)) as status:
        yield lambda line: status.update(Text(line))
