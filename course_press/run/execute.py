"""Runs a chapter's cells in one kernel and evaluates its inline expressions; what has run before is
reused while all that it used is as it was.
"""

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import course_lib
from course_lib import specs
import course_tools
import course_book
from course_press.run import kernels
from course_press.run.faults import find_faults
from course_press.run.kernels import ChapterKernel, DeadKernelError
from course_press.source.assets import ASSETS
from course_press.source.book import languages
from course_press.source.chapter import Cell, Chapter, Inline, Line
from course_press.source.files import swap_in

PRESS = Path(__file__).parents[1]
# The folders of the book's own code and data.
PACKAGES = [
    PRESS,
    *(Path(str(one.__file__)).parent for one in (course_lib, course_tools, course_book)),
]
# Seconds after which a cell is taken to hang.
TIMEOUT = 600
# Seconds for which a cached result that nobody asks for is kept.
KEEP = 30 * 86_400
# Runs of the same cells that are kept: with one state of the library, with another.
VARIANTS = 8

# Reads what every installed package brings, a tenth of a second each time.
_distributions = cache(packages_distributions)
_MARKDOWN = re.compile(r"[*_`\[\]<>|$\\#~^@{}\n]")


class ChapterResults:
    """What running a chapter gave, read when it is asked for; its `key` is of what it gave."""

    def __init__(self, key: str, load: Callable[[], Mapping[str, Any]]) -> None:
        self.key, self._load = key, load

    @classmethod
    def of(cls, outputs: Sequence[Any], inlines: Sequence[str]) -> "ChapterResults":
        given = {"outputs": outputs, "inlines": inlines}
        return cls(Cache.key("ran", given), lambda: given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChapterResults) and self.key == other.key

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _given(self) -> Mapping[str, Any]:
        return self._load()

    @property
    def outputs(self) -> Sequence[Sequence[Mapping[str, Any]]]:
        """Each cell's outputs (nbformat)."""
        return self._given["outputs"]  # type: ignore[no-any-return]

    @property
    def inlines(self) -> Sequence[str]:
        """Each inline expression's text."""
        return self._given["inlines"]  # type: ignore[no-any-return]


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
        text = json.dumps(parts, sort_keys=True, default=_written)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def has(self, key: str) -> bool:
        """Whether there is a result under a key, which is used now."""
        try:
            os.utime(self.folder / f"{key}.json")
        except OSError:
            return False
        return True

    def get(self, key: str) -> Any:
        """The result stored under a key, or `None`."""
        try:
            result = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        self.has(key)
        return result

    def put(self, key: str, result: Any) -> None:
        """Store a result."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ".gitignore").write_text("*\n")
        swap_in(self.folder / f"{key}.json", json.dumps(result, ensure_ascii=False))


def _written(part: Any) -> str:
    if isinstance(part, set | frozenset):
        raise TypeError("a set is written in another order by every process")
    return str(part)


class Surroundings:
    """What outputs depend on besides the chapter, as it is while this lives: each is read once.
    Its `key` is of what every run depends on: Python, the variables that steer it and its packages
    (`kernels.STEERING`), how the book is cited, matplotlib's settings, and what runs the cells.
    """

    def __init__(self, root: Path) -> None:
        given = {**os.environ, **kernels.ENVIRONMENT}
        # The last one steers measurements, and no page measures anything while it is printed.
        of_a_run = ("COURSE_LANG", "COURSE_PRINT", "COURSE_RESULTS", "COURSE_CACHE")
        given |= dict.fromkeys(of_a_run, "")
        ours = [Path(__file__).with_name(name) for name in ("execute.py", "kernels.py", "shell.py")]
        own = [root / "CITATION.cff", root / "matplotlibrc", ASSETS / "kernels.toml", *ours]
        own += [Path(given["MATPLOTLIBRC"])] if "MATPLOTLIBRC" in given else []
        self.root = root
        self._seen: dict[tuple[str, str], str] = {}
        chips = [str(root / given[specs.FOLDER])] if given.get(specs.FOLDER) else []
        self.own = tuple(f"{folder}{os.sep}" for folder in PACKAGES)
        self.folders = [*map(str, (root, *PACKAGES)), *chips]
        self.key = Cache.key(
            sys.version,
            {name: given[name] for name in given if name.startswith(tuple(kernels.STEERING))},
            {file.name: self.of("file", str(file)) for file in sorted(own)},
        )

    def of(self, kind: str, name: str) -> str:
        """What a file, a folder or a package is like."""
        if (kind, name) not in self._seen:
            self._seen[kind, name] = str(getattr(self, f"_{kind}")(name))
        return self._seen[kind, name]

    def hold(self, used: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether all that a run used is as it was then."""
        return all(
            self.of(kind, name) == was for kind, of in used.items() for name, was in of.items()
        )

    def used(self, kernel: ChapterKernel, since: float) -> dict[str, dict[str, str]] | None:
        """What a kernel used, as it is now; `None` if it may have been otherwise when it was
        read.
        """
        named = kernel.ask(folders=self.folders)
        for name in named["file"]:
            file = Path(name)
            read = kernel.since if name.startswith(self.own) else since
            if file.is_file() and file.stat().st_mtime > read:
                return None
        distributions = _distributions()
        named["package"] = sorted(
            {one for name in named["package"] for one in distributions.get(name, ())}
        )
        for kind in ("file", "folder"):
            named[kind] = list(map(self._placed, named[kind]))
        return {kind: {name: self.of(kind, name) for name in of} for kind, of in named.items()}

    def _placed(self, path: str) -> str:
        """A path within one of the folders by the folder's place, so that a book may move."""
        for at, folder in enumerate(self.folders):
            if path.startswith(folder + os.sep):
                return f"{at}{path.removeprefix(folder)}"
        return path

    def _path(self, name: str) -> Path:
        at, slash, rest = name.partition(os.sep)
        return Path(self.folders[int(at)], rest) if at.isdigit() and slash else Path(name)

    def _file(self, name: str) -> str:
        try:
            return hashlib.sha256(self._path(name).read_bytes()).hexdigest()[:32]
        except OSError:
            return ""

    def _folder(self, name: str) -> str:
        try:
            held = sorted(os.listdir(self._path(name)))  # noqa: PTH208 - the names are all
        except OSError:
            return ""
        code = (".py", ".pyc", "__pycache__")
        return Cache.key([one for one in held if not one.endswith(code)])

    @staticmethod
    def _package(name: str) -> str:
        with suppress(PackageNotFoundError):
            return version(name)
        return ""

    @staticmethod
    def _absent(name: str) -> str:
        with suppress(ImportError, ValueError):
            return "there" if find_spec(name) else ""
        return ""


def run_chapter(
    chapter: Chapter,
    *,
    root: Path,
    lang: str,
    cache: Cache,
    around: Surroundings,
    own: bool = False,
    kernel: ChapterKernel | None = None,
) -> ChapterResults:
    """Run a chapter, or reuse what it gave before: its outputs in every form that is printed."""
    steps = _steps(chapter)
    if not steps:
        return ChapterResults.of([], [])
    shown = [
        [step.code, dict(step.options)] if isinstance(step, Cell) else [i.expression for i in step]
        for step in steps
    ]
    there = own and any(root.glob("labs/*/results/local/results.csv"))
    results = str(root / "labs") if there else ""
    key = cache.key("run", shown, lang, results, around.key)
    known = cache.get(key) or []
    found = next(
        (one["of"] for one in known if around.hold(one["used"]) and cache.has(one["of"])), None
    )
    if found is None:
        with nullcontext(kernel) if kernel else ChapterKernel() as running:
            given, used = _execute(chapter, steps, lang, results, around, running)
        found = cache.key("ran", given)
        cache.put(found, given)
        if used is not None:
            cache.put(key, [{"of": found, "used": used}, *known][:VARIANTS])
        _check(chapter, given)
        return ChapterResults(found, lambda: given)

    def load() -> Mapping[str, Any]:
        given: Mapping[str, Any] = cache.get(found)
        _check(chapter, given)
        return given

    return ChapterResults(found, load)


def _check(chapter: Chapter, given: Mapping[str, Any]) -> None:
    for fault in find_faults(chapter, **given):
        raise fault


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


def _execute(
    chapter: Chapter,
    steps: Sequence[Cell | list[Inline]],
    lang: str,
    results: str,
    around: Surroundings,
    kernel: ChapterKernel,
) -> tuple[dict[str, Any], dict[str, dict[str, str]] | None]:
    """What a chapter gives, and what it used for it."""
    env = {**os.environ, **kernels.ENVIRONMENT, "COURSE_LANG": lang, "COURSE_PRINT": "both"}
    env["COURSE_RESULTS"] = results
    since = time.time()
    # Notebooks of the first language keep outputs; of another, the page's card asks for a picture.
    pictured = lang == languages(around.root)[0]
    outputs: list[Any] = []
    inlines: list[str] = []
    try:
        kernel.begin(around.root, env)
        for step in steps:
            try:
                if isinstance(step, Cell):
                    what, at = f"this cell of {chapter.path}", step.at
                    ran = kernel.ask(TIMEOUT, code=step.code)
                    if error := ran["error"]:
                        raise _failed_line(step, error["traceback"]).error(
                            f"{what} failed with {error['name']}: {error['value']}"
                        )
                    outputs.append(ran["outputs"])
                    if not pictured and '"image/png"' in json.dumps(ran["outputs"]):
                        kernel.ask(set={"COURSE_PRINT": "site"})
                        pictured = True
                else:
                    what, at = "an inline expression from here to the next cell", step[0].at
                    asked = [inline.expression for inline in step]
                    ran = kernel.ask(TIMEOUT, expressions=asked)
                    if ran["shows"]:
                        raise at.error(f"{what} shows something: it may only give its text")
                    inlines += map(_inline_text, step, ran["values"])
            except TimeoutError:
                many = what.replace("an inline expression", "the inline expressions")
                raise at.error(f"{many} ran longer than {TIMEOUT} s") from None
            except DeadKernelError:
                raise at.error(f"the kernel died in {what}") from None
        used = around.used(kernel, since)
    except BaseException:
        kernel.end()
        raise
    return {"outputs": outputs, "inlines": inlines}, used


def _failed_line(cell: Cell, traceback: str) -> Line:
    """The line of the cell that the traceback points at."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", traceback)
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
