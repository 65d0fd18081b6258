"""What commands share: where they print, of which no text is markup, and options of several."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, get_args, get_origin

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, BadParameter, Exit, Option, Typer

from course_lib import CourseError
from course_lib.core.checks import unfit
from course_tools.amounts import amount
from course_book import t
from course_book.text import language, named, retold

if TYPE_CHECKING:
    from course_tools.counting import Named
    from course_book.answers import Remedy

AsJson = Annotated[bool, Option("--json", help="Everything in SI units, as JSON.")]
Budget = Annotated[float, Option(min=1, help="Seconds for all measurements.")]
Chapters = Annotated[list[str] | None, Argument(help="Chapters by file name. All when not given.")]
F = TypeVar("F", bound=Callable[..., None])
SAID = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))

# Columns of what is no terminal: nothing there asks for a table to be narrowed.
PIPED = 1000


def command(app: Typer, name: str | None = None) -> Callable[[F], F]:
    """A command whose parameters say what `options.toml` has of them: options with a default, or
    else arguments, unless their annotations tell otherwise.
    """

    def made(function: F) -> F:
        said = SAID["shared"] | SAID.get(function.__name__.removesuffix("_command"), {})
        for one in signature(function).parameters.values():
            of = one.annotation
            info = Option(f"--{one.name.replace('_', '-')}")
            if get_origin(of) is Annotated:
                of, info = get_args(of)
            elif one.default is one.empty:
                info = Argument()
            info.help = info.help or said[one.name]
            numbers = [] if get_origin(of) is list else {int, float} & {of, *get_args(of)}
            if info.min is None and numbers:
                info.parser = _reading(one.name, *numbers)
            function.__annotations__[one.name] = Annotated[of, info]
        return app.command(name)(function)

    return made


def _reading(option: str, kind: type) -> Callable[[Any], Any]:
    """What reads a number with or without its unit, as people write it."""
    unit = SAID["units"].get(option, "whole" if kind is int else "number")

    def read(value: Any) -> Any:
        try:
            found = amount(str(value), unit)
            if kind is int and not found.is_integer():
                raise unfit("it", "be a whole number", value)
        except CourseError as error:
            raise BadParameter(str(error)) from error
        return kind(found)

    return read


class _Console(Console):
    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **how)

    def on_broken_pipe(self) -> None:
        """Whoever reads has read enough, as `head` has: that is no failure."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


out_console = _Console(width=None if sys.stdout.isatty() else PIPED)
err_console = _Console(stderr=True)


def complain(text: str, style: str = "red") -> None:
    """An error or a warning, as one line."""
    err_console.print(text, style=style, soft_wrap=True)


def refuse(error: str, code: int, as_json: bool = False) -> NoReturn:
    """An error as one line, with --json also as data, and the exit code."""
    if as_json or "--json" in sys.argv:
        from course_book.answers import refused

        tell_json(refused(error))
    complain(error)
    sys.exit(code)


def misused(error: Any) -> str:
    """What the shell's parser refuses, in the form of every other error."""
    see = f"see {error.ctx.command_path if error.ctx else 'course'} --help"
    if near := getattr(error, "possibilities", None):
        see = f"take {' or '.join(sorted(near))}"
    what, of = re.split("[,:]", error.message)[0].rstrip("."), getattr(error, "param", None)
    name = getattr(error, "option_name", None) or (of and of.opts[0])
    if not name:  # a command or an argument, in quotes or in brackets at the end
        which = "command" if "command" in what else "argument"
        word = re.search(r"(?<=')[^']+|(?<= \().*(?=\))", error.message)
        return f"{which} {word[0] if word else what!r} is not known: {see}"
    if isinstance(error.__cause__, CourseError):
        return f"{name} {error.message}"
    if not what:
        return f"{name} must be given: {see}"
    if what.startswith("Input should"):
        given = "\0".join(sys.argv).partition(f"\0{name}")[2][1:].partition("\0")[0]
        return f"{name} {what.replace('Input should', 'must')} (got {given!r})"
    return f"{name} is refused, {what[0].lower()}{what[1:]}: {see}"


def fail_with(findings: Sequence[Any]) -> None:
    """Tell all that was found and exit with 1; nothing where nothing was found."""
    for finding in findings:
        tell(str(finding))
    if findings:
        complain(counted(len(findings), "finding"))
        raise Exit(1)


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


def tested_in_words(evidence: str) -> str:
    """The rows of the table of errors that stand behind an answer."""
    rows = [row.partition(": ") for row in evidence.split("; ")]
    return "; ".join(f"{named(family)}: {retold(tested)}" for family, _, tested in rows)


def formats_in_words(said: Mapping[str, str]) -> str:
    """The formats of a step and where they come from, of `counting.told`, as one clause."""
    return "; ".join(f"{told(name)} {retold(one)}" for name, one in said.items())


def tell_next(changes: Iterable["Remedy"], key: str = "next") -> None:
    """What would give more, best first."""
    if said := "; ".join(one.what[language()] for one in changes):
        tell(told(key, changes=said))


def tell_json(found: Any) -> None:
    """Everything, in SI units, for programs."""
    out_console.print(json.dumps(found, indent=1), soft_wrap=True)


def tell_table(
    names: Iterable[str],
    rows: Iterable[Sequence[str]],
    *,
    left: int | None = None,
    styles: Sequence[str | None] = (),
    least: int | None = None,
) -> None:
    """A table that goes on in the next line where it is too wide, flush left or the first `left`.

    Its rows may have styles, and its first column a least width.
    """
    made = Table(box=None, pad_edge=False)
    for number, name in enumerate(names):
        flush: Any = "left" if left is None or number < left else "right"
        width = None if number else least
        made.add_column(name, overflow="fold", justify=flush, min_width=width)
    for row, style in zip_longest(rows, styles):
        made.add_row(*row, style=style)
    out_console.print(made)


@contextmanager
def writing(option: str, file: Path) -> Iterator[None]:
    """Refuse a file that cannot be written, by the option that names it."""
    try:
        yield
    except OSError as error:
        raise CourseError(f"{option} {str(file)!r} cannot be written: {error.strerror}") from None


def see_own_modules() -> None:
    """A module that a reader names stands in the working folder."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def meant(given: str) -> "Named":
    """The model that a reader names."""
    from course_tools.counting import named as model_named

    see_own_modules()
    return model_named(given, sys.stdin.read() if given == "-" else None)


def counted(number: int, what: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@contextmanager
def progress(said: str) -> Iterator[Callable[[str], None]]:
    """Show what is going on while it goes on, a line at a time."""
    with err_console.status(Text(said)) as status:
        yield lambda line: status.update(Text(line))
