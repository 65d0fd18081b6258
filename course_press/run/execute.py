"""Runs a chapter's cells in one kernel and evaluates its inline expressions; what has run before is
reused.
"""

import asyncio
import atexit
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from course_press.run import kernels
from course_press.run.faults import find_faults
from course_press.source.chapter import Cell, Chapter, Inline, Line
from course_press.source.files import swap_in

TIMEOUT = 600
"""Seconds after which a cell is taken to hang."""
MOST_PATH = 75
"""Bytes of a temporary folder's path: with the name of a socket in it, a system takes about a
hundred.
"""
STEERING = (
    "COURSE_",
    "LANG",
    "LC_",
    "TZ",
    "PYTHON",
    "MPL",
    "MATPLOTLIB",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "NPY_",
    "SOURCE_DATE_EPOCH",
)
"""How the names of environment variables start that cells, or what they import, may look at."""
KEEP = 30 * 86_400
"""Seconds for which a cached result that nobody asks for is kept."""

_MARKDOWN = re.compile(r"[*_`\[\]<>|$\\#~^@{}\n]")
_FOUND = "application/x-course+json"
# Evaluates inline expressions in the reader's namespace and reports each value, or its error. It
# stands before every use, and asks nothing of that namespace: a cell may have taken any name.
_EVALUATE = f"""
def _course_inline(expressions, scope):
    from builtins import BaseException, eval, str, type
    from contextlib import redirect_stdout
    from io import StringIO
    from IPython import get_ipython
    found = []
    for expression in expressions:
        try:
            with redirect_stdout(StringIO()) as printed:
                value = eval(expression, scope)
            if printed.getvalue():
                found.append({{"error": "output of its own: it may print nothing"}})
            else:
                found.append({{"value": value}} if type(value) is str else {{"type": type(value).__name__}})
        except BaseException as error:
            found.append({{"error": f"{{type(error).__name__}}: {{error}}"}})
    get_ipython().display_pub.publish({{"{_FOUND}": found}})

"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class ChapterResults:
    """What running a chapter gave: each cell's outputs (nbformat) and each inline expression's
    text, in order.
    """

    outputs: Sequence[Sequence[Mapping[str, Any]]]
    inlines: Sequence[str]


class Cache:
    """Results by content: an entry whose key still fits is never stale. Entries unused for a month
    are dropped.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for entry in folder.glob("*.json"):
            if time.time() - entry.stat().st_mtime > KEEP:
                entry.unlink(missing_ok=True)

    @staticmethod
    def key(*parts: Any) -> str:
        """A name for the result that these parts determine."""
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[
            :32
        ]

    def get(self, key: str) -> Any:
        """The result stored under a key, or `None`."""
        file = self.folder / f"{key}.json"
        try:
            result = json.loads(file.read_text(encoding="utf-8"))
            os.utime(file)
        except (OSError, ValueError):
            return None
        return result

    def put(self, key: str, result: Any) -> None:
        """Store a result."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ".gitignore").write_text("*\n")
        swap_in(self.folder / f"{key}.json", json.dumps(result, ensure_ascii=False))


def environment(root: Path) -> str:
    """A fingerprint of all that outputs depend on besides the chapter.

    That is the library and its data, Python and its packages, the variables that steer them
    (`STEERING`), how the book is cited, and the files of the reader's own: what labs measured here,
    chips in the folder that `COURSE_CHIPS` names, and matplotlib's settings.
    """
    import matplotlib as mpl

    import course_lib
    from course_lib import specs
    import course_tools
    import course_book

    digest = hashlib.sha256(sys.version.encode())
    given = {**os.environ, **kernels.ENVIRONMENT}
    # The last one steers measurements, and no page measures anything while it is printed.
    of_a_run = ("COURSE_LANG", "COURSE_PRINT", "COURSE_RESULTS", "COURSE_CACHE")
    given |= dict.fromkeys(of_a_run, "")
    for name in sorted(name for name in given if name.startswith(STEERING)):
        digest.update(f"{name}={given[name]}\0".encode(errors="surrogateescape"))
    own = [
        *root.glob("labs/*/results/local/*"),
        root / "matplotlibrc",
        root / "CITATION.cff",
        Path(mpl.matplotlib_fname()),
    ]
    if given.get(specs.FOLDER):
        own += (root / given[specs.FOLDER]).glob("*.toml")
    for file in sorted(file for file in own if file.is_file()):
        digest.update(f"{file}\0".encode(errors="surrogateescape") + file.read_bytes())
    for package in (course_lib, course_tools, course_book):
        library = Path(str(package.__file__)).parent
        for file in sorted(
            path
            for path in library.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ):
            name = f"{package.__name__}/{file.relative_to(library)}"
            digest.update(f"{name}\0".encode() + file.read_bytes())
    digest.update("\n".join(sorted({f"{d.name}=={d.version}" for d in distributions()})).encode())
    printers = sorted(Path(__file__).parents[1].glob("outputs/*.py"))
    for module in (Path(__file__), Path(kernels.__file__), *printers):
        digest.update(module.read_bytes())
    return digest.hexdigest()


def run_chapter(
    chapter: Chapter, *, root: Path, lang: str, cache: Cache, fingerprint: str, own: bool = False
) -> ChapterResults:
    """Run a chapter, or reuse what it gave before: its outputs in every form that is printed.

    Parameters
    ----------
    chapter : as read.
    root : the book's folder, in which the kernel runs.
    lang : `COURSE_LANG` in the kernel.
    cache : where results are kept.
    fingerprint : from `environment`.
    own : whether cells see what the reader's own labs measured, as the site's do; a notebook is the
        same for every reader.

    Raises
    ------
    SourceError
        Naming the chapter, the cell's file and line, and the Python error, or what it may not show.
    """
    steps = _steps(chapter)
    if not steps:
        return ChapterResults([], [])
    shown = [
        [step.code, dict(step.options)] if isinstance(step, Cell) else [i.expression for i in step]
        for step in steps
    ]
    there = own and any(root.glob("labs/*/results/local/results.csv"))
    results = str(root / "labs") if there else ""
    key = cache.key("run", shown, lang, results, fingerprint)
    stored = cache.get(key)
    if stored is None:
        # The kernel's sockets are files of ours: nothing listens on a port.
        short = len(os.fsencode(tempfile.gettempdir())) <= MOST_PATH
        with tempfile.TemporaryDirectory(
            prefix="course-",
            dir=None if short else "/tmp",  # noqa: S108
        ) as sockets:
            ran = asyncio.run(_execute(chapter, steps, root, lang, results, sockets))
        stored = {"outputs": ran.outputs, "inlines": ran.inlines}
        cache.put(key, stored)
    for fault in find_faults(chapter, **stored):
        raise fault
    return ChapterResults(**stored)


def _steps(chapter: Chapter) -> list[Cell | list[Inline]]:
    """Cells, and between them the inline expressions that stand there, in reading order."""
    here = {id(inline.at): [] for inline in chapter.inlines}  # type: dict[int, list[Inline]]
    for inline in chapter.inlines:
        here[id(inline.at)].append(inline)
    steps: list[Cell | list[Inline]] = []
    for item in chapter.items:
        if isinstance(item, Cell):
            if item.options.get("eval", True):
                steps.append(item)
        elif id(item) in here:
            if steps and isinstance(steps[-1], list):
                steps[-1].extend(here[id(item)])
            else:
                steps.append(list(here[id(item)]))
    return steps


async def _evaluated(
    step: Sequence[Inline], execute: Callable[[str], Awaitable[Any]]
) -> Sequence[Mapping[str, str]]:
    """What the kernel says of each inline expression."""
    at = step[0].at
    try:
        outputs = (
            await execute(f"{_EVALUATE}_course_inline({[i.expression for i in step]!r}, globals())")
        ).outputs
    except CellExecutionError as error:
        raise at.error(
            f"the inline expressions from here to the next cell end with {error.ename}: "
            f"{error.evalue}"
        ) from None
    except CellTimeoutError:
        raise at.error(
            f"the inline expressions from here to the next cell ran longer than {TIMEOUT} s"
        ) from None
    except DeadKernelError:
        raise at.error(
            "the kernel died in an inline expression from here to the next cell"
        ) from None
    values = [output["data"][_FOUND] for output in outputs if _FOUND in output.get("data", {})]
    if len(values) != 1 or len(outputs) != 1:
        raise at.error(
            "an inline expression from here to the next cell shows something: it may only "
            "give its text"
        )
    found: Sequence[Mapping[str, str]] = values[0]
    return found


async def _execute(
    chapter: Chapter,
    steps: Sequence[Cell | list[Inline]],
    root: Path,
    lang: str,
    results: str,
    sockets: str,
) -> ChapterResults:
    notebook = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    # The kernel is this Python's own, whatever kernels the reader has registered under the name.
    specs = KernelSpecManager(kernel_dirs=[])
    manager = AsyncKernelManager(
        transport="ipc", ip=f"{sockets}/k", kernel_name="python3", kernel_spec_manager=specs
    )
    if kernels.FORKS:
        manager.provisioner = kernels.ForkedProvisioner(
            parent=manager, kernel_spec=manager.kernel_spec
        )
    resources = {"metadata": {"path": str(root)}}
    client = NotebookClient(
        notebook, km=manager, timeout=TIMEOUT, resources=resources, shutdown_kernel="immediate"
    )
    env = {**os.environ, **kernels.ENVIRONMENT, "COURSE_LANG": lang, "COURSE_PRINT": "both"}
    env["COURSE_RESULTS"] = results
    outputs: list[Sequence[Mapping[str, Any]]] = []
    inlines: list[str] = []

    async def execute(code: str) -> Any:
        notebook.cells.append(nbformat.v4.new_code_cell(code))  # type: ignore[no-untyped-call]
        try:
            return await client.async_execute_cell(notebook.cells[-1], len(notebook.cells) - 1)
        except CellExecutionError as error:
            # Where only the showing of a result failed, the reply names no error; the outputs do.
            for output in notebook.cells[-1].outputs:
                if output.output_type == "error":
                    error.ename, error.evalue = output.ename, output.evalue
            raise

    try:
        async with client.async_setup_kernel(env=env, cleanup_kc=True):
            for step in steps:
                if isinstance(step, Cell):
                    try:
                        outputs.append((await execute(step.code)).outputs)
                    except CellExecutionError as error:
                        raise _failed_line(step, error).error(
                            f"this cell of {chapter.path} failed with {error.ename}: {error.evalue}"
                        ) from None
                    except CellTimeoutError:
                        raise step.at.error(
                            f"this cell of {chapter.path} ran longer than {TIMEOUT} s"
                        ) from None
                    except DeadKernelError:
                        raise step.at.error(
                            f"the kernel died in this cell of {chapter.path}"
                        ) from None
                else:
                    found = await _evaluated(step, execute)
                    inlines += [_inline_text(*pair) for pair in zip(step, found, strict=True)]
    finally:
        # nbclient leaves this for the end of the process where a kernel does not start, and by
        # then there is nothing to clean up.
        atexit.unregister(client._cleanup_kernel)
    return ChapterResults(outputs, inlines)


def _failed_line(cell: Cell, error: CellExecutionError) -> Line:
    """The line of the cell that the traceback points at."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", error.traceback)
    lines = [int(number) for number in re.findall(r"Cell In\[\d+\], line (\d+)", plain)]
    # IPython drops leading empty lines before it counts.
    skipped = next((i for i, line in enumerate(cell.lines) if line.text.strip()), 0)
    return (
        cell.lines[min(skipped + lines[0], len(cell.lines)) - 1]
        if lines and cell.lines
        else cell.at
    )


def _inline_text(inline: Inline, found: Mapping[str, str]) -> str:
    shown = f"`{{python}} {inline.expression}`"
    if "error" in found:
        raise inline.at.error(f"{shown} failed with {found['error']}")
    if "value" not in found:
        raise inline.at.error(
            f"{shown} gives a {found['type']}, not text: write it with n() or t()"
        )
    if mark := _MARKDOWN.search(found["value"]):
        raise inline.at.error(
            f"{shown} gives {found['value']!r}: {mark[0]!r} would be read as Markdown"
        )
    return found["value"]
