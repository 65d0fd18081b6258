"""Where the command line prints: results on one stream, progress and errors on the other."""

from rich.console import Console

out_console, err_console = Console(highlight=False), Console(stderr=True, highlight=False)
