"""One release of the book, from the checks before to the archive; nothing leaves this machine."""

import hashlib
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from importlib.metadata import version as installed
from pathlib import Path

from course_lib import CourseError
from course_tools.calibrate.frozen import freeze
from course_press.check.rules import check_book
from course_press.exports.book import check_formats, export_book
from course_press.exports.notebooks import write_notebooks
from course_press.pages import about, site
from course_press.source.book import Say, languages, silent
from course_press.source.chapter import read_text
from course_press.source.files import swap_in

# Files that name the version.
VERSIONED = ("pyproject.toml", "CITATION.cff", "_quarto.yml")
# What a release prints anew into the clone: of the labs, the first cells.
PREDICTED = "course_tools/data/predictions"
PRINTED = ("notebooks/", "labs/", PREDICTED)
# What goes into the archive beside the site.
ALONG = ("CITATION.cff", "LICENSE", "LICENSE-text", "README.md", "notebooks")
SUMS = "SHA256SUMS"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_PLACES = {
    "pyproject.toml": (r'^version = "(.*)"$', 'version = "{version}"'),
    "CITATION.cff": (r"^version: (.*)$", "version: {version}"),
    "_quarto.yml": (r"^install-ref: v(.*)$", "install-ref: v{version}"),
}


def make_release(
    root: Path,
    version: str,
    out: Path,
    *,
    to: Sequence[str] = about.FORMATS,
    day: date,
    dry_run: bool = False,
    say: Say = silent,
) -> Path:
    """Make `out/book-<version>.zip` and its checksum; a run that was stopped is run again.

    What is not right is refused with what to do about it; a dry run stops before it would write.
    """
    now = _checked(root, version, out, to)
    langs = languages(root)
    pages = out / "site"
    archive = out / f"book-{version}.zip"

    def downloads() -> None:
        for lang in langs:
            export_book(root, lang, to, pages, say=say)

    chores: dict[str, Callable[[], object]] = {
        "predictions": lambda: freeze(version, root / PREDICTED),
        "notebooks": lambda: write_notebooks(root, langs, say=say),
        "site": lambda: site.build(root, langs, pages, say=say),
        " and ".join(to): downloads,
        "archive": lambda: pack(root, pages, archive, day),
    }
    if dry_run:
        say(f"version: {now} → {version}" if now != version else f"version: {version}")
        for name in chores:
            say(f"would make: {name}")
        return archive
    _set_version(root, version, day)
    if installed("course-lib") != version:
        raise CourseError(
            f"the pages would say {installed('course-lib')}, the version that is installed: run "
            f"make book, which installs {version}, and then course release {version} again"
        )
    if (pages / site.MARKER).is_file():
        shutil.rmtree(pages)  # of another try: what is no longer asked for must not go along
    for name, do in chores.items():
        say(name)
        do()
    return archive


def pack(root: Path, pages: Path, archive: Path, day: date) -> None:
    """Write the archive, the same bytes for the same files, and its checksum beside it."""
    files = {f"site/{file.relative_to(pages).as_posix()}": file for file in _below(pages)}
    for name in ALONG:
        files |= {file.relative_to(root).as_posix(): file for file in _below(root / name)}
    top, when = archive.stem, (day.year, day.month, day.day, 0, 0, 0)
    sums = []
    aside = archive.with_name(f".{archive.name}")
    try:
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, file in sorted(files.items()):
                content = file.read_bytes()
                sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
                _add(packed, f"{top}/{name}", content, when)
            _add(packed, f"{top}/{SUMS}", "".join(sums).encode(), when)
        aside.replace(archive)
    finally:
        aside.unlink(missing_ok=True)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    swap_in(archive.with_name(f"{archive.name}.sha256"), f"{digest}  {archive.name}\n")


def _add(packed: zipfile.ZipFile, name: str, content: bytes, when: tuple[int, ...]) -> None:
    entry = zipfile.ZipInfo(name, when)  # type: ignore[arg-type]
    entry.create_system, entry.external_attr = 3, 0o100644 << 16  # whoever packs, and wherever
    entry.compress_type = zipfile.ZIP_DEFLATED
    packed.writestr(entry, content)


def _below(place: Path) -> Iterator[Path]:
    """A file, or all files of a folder but hidden ones; none where it is missing."""
    if place.is_file():
        yield place
    for file in place.rglob("*"):
        hidden = any(part.startswith(".") for part in file.relative_to(place).parts)
        if file.is_file() and not hidden:
            yield file


def _checked(root: Path, version: str, out: Path, to: Sequence[str]) -> str:
    """The version before, where all is right for this one."""
    if not _VERSION.fullmatch(version):
        raise CourseError(f"version must be three whole numbers as in 1.2.3 (got {version!r})")
    check_formats(to, ", or --to epub")
    now, *_ = [_found(root, name) for name in VERSIONED]
    if [*map(int, now.split("."))] > [*map(int, version.split("."))]:
        said = f"version {version} is older than {now}, which pyproject.toml has"
        raise CourseError(f"{said}: give a later one")
    done = _git(root, "rev-parse", "--verify", "--quiet", f"refs/tags/v{version}")
    if done.returncode == 0:
        raise CourseError(f"v{version} is tagged already: give a later version")
    # Files that git would commit, but those that a release which was stopped may have written.
    ours = [f":(exclude,top){name}" for name in (*VERSIONED, *PRINTED)] if now == version else []
    done = _git(root, "status", "--porcelain", "-z", "--", ".", *ours)
    if done.returncode:
        raise CourseError(f"{root} is no git clone: release from one ({done.stderr.strip()})")
    if changed := [entry[3:] for entry in done.stdout.split("\0") if entry]:
        said = f"the work tree has changes ({', '.join(changed[:5])})"
        raise CourseError(f"{said}: commit them first")
    if out.exists() and not out.is_dir():
        raise CourseError(f"--out {str(out)!r} is no folder: choose another")
    findings = check_book(root)
    if findings:
        raise CourseError(f"course check has {len(findings)} findings; the first is {findings[0]}")
    return now


def _found(root: Path, name: str) -> str:
    pattern, _ = _PLACES[name]
    found = re.search(pattern, read_text(root / name), re.MULTILINE)
    if found is None or not _VERSION.fullmatch(found[1]):
        said = f"{name} has no line that says the version as 1.2.3"
        raise CourseError(f"{said}: add one like {_PLACES[name][1]!r}")
    return found[1]


def _set_version(root: Path, version: str, day: date) -> None:
    for name in VERSIONED:
        pattern, line = _PLACES[name]
        text = read_text(root / name)
        new = re.sub(pattern, line.format(version=version), text, count=1, flags=re.MULTILINE)
        new = re.sub(r"^(date-released|  date): .*$", rf"\1: {day}", new, flags=re.MULTILINE)
        if new != text:
            swap_in(root / name, new)


def _git(root: Path, *asked: str) -> "subprocess.CompletedProcess[str]":
    """What git answers in a folder; refused where there is no git."""
    call = ["git", "-C", str(root), *asked]
    try:
        return subprocess.run(call, capture_output=True, check=False, encoding="utf-8")
    except FileNotFoundError:
        raise CourseError("git is not on PATH: install it, and work in a clone") from None
