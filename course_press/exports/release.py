"""One release of the book, from the checks before to the archive; nothing leaves this machine."""

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from importlib.metadata import version as installed
from pathlib import Path
from typing import NamedTuple

from course_lib import CourseError
from course_press.check.rules import check_book
from course_press.exports import numbers
from course_press.exports.book import check_formats, export_book
from course_press.exports.notebooks import write_notebooks
from course_press.pages import about, site
from course_press.source.book import Say, languages, silent
from course_press.source.chapter import read_text
from course_press.source.files import swap_in

NUMBERS = Path("docs") / "numbers.md"
# Files that name the version.
VERSIONED = ("pyproject.toml", "CITATION.cff", "_quarto.yml")
# What a release prints anew into the clone: of the labs, the first cells.
PRINTED = ("notebooks/", "labs/", NUMBERS.as_posix())
# What goes into the archive beside the site.
ALONG = ("CITATION.cff", "LICENSE", "LICENSE-text", "README.md", NUMBERS.as_posix(), "notebooks")
SUMS = "SHA256SUMS"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_PLACES = {
    "pyproject.toml": (r'^version = "(.*)"$', 'version = "{version}"'),
    "CITATION.cff": (r"^version: (.*)$", "version: {version}"),
    "_quarto.yml": (r"^install-ref: v(.*)$", "install-ref: v{version}"),
}


class Chore(NamedTuple):
    """Part of a release: what it does, what it leaves, and the doing."""

    name: str
    leaves: Path
    do: Callable[[], object]


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
    """Make `out/book-<version>.zip` and its checksum; a run that was stopped goes on where it was.

    What is not right is refused with what to do about it; a dry run stops before it would write.
    """
    now = _checked(root, version, out, to, resumed=_state(out, version).is_file())
    langs = languages(root)
    pages = out / "site"
    archive = out / f"book-{version}.zip"

    def downloads() -> None:
        for lang in langs:
            export_book(root, lang, to, pages, say=say)

    steps = [
        Chore("notebooks", root / "notebooks", lambda: write_notebooks(root, langs, say=say)),
        Chore("numbers that changed", root / "notebooks", lambda: _numbers(root, version, say)),
        Chore("site", pages / "index.html", lambda: site.build(root, langs, pages, say=say)),
        Chore(" and ".join(to), pages / about.FOLDER, downloads),
        Chore("archive", archive, lambda: pack(root, pages, archive, day)),
    ]
    if dry_run:
        say(f"version: {now} → {version}" if now != version else f"version: {version}")
        for step in steps:
            say(f"would make: {step.name}")
        return archive
    state = _state(out, version)
    if not state.is_file():
        swap_in(state, "{}\n")
    _set_version(root, version, day)
    if installed("course-lib") != version:
        raise CourseError(
            f"the pages would say {installed('course-lib')}, the version that is installed: run "
            f"make book, which installs {version}, and then course release {version} again"
        )
    source = _source(root, version, to, day)
    if json.loads(read_text(state)).get("source") != source and (pages / site.MARKER).is_file():
        shutil.rmtree(pages)  # of another try: what is no longer asked for must not go along
    for step in _open(steps, state, source):
        say(step.name)
        step.do()
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


def _state(out: Path, version: str) -> Path:
    """Where a release notes how far it came."""
    return out / f".release-{version}.json"


def _checked(root: Path, version: str, out: Path, to: Sequence[str], *, resumed: bool) -> str:
    """The version before, where all is right for this one."""
    if not _VERSION.fullmatch(version):
        raise CourseError(f"version must be three whole numbers as in 1.2.3 (got {version!r})")
    check_formats(to, ", or --to epub")
    now, *_ = [_found(root, name) for name in VERSIONED]
    if [*map(int, now.split("."))] > [*map(int, version.split("."))]:
        said = f"version {version} is older than {now}, which pyproject.toml has"
        raise CourseError(f"{said}: give a later one")
    done = numbers.git(root, "rev-parse", "--verify", "--quiet", f"refs/tags/v{version}")
    if done.returncode == 0:
        raise CourseError(f"v{version} is tagged already: give a later version")
    # Files that git would commit, but those that a release which was stopped may have written.
    ours = [f":(exclude,top){name}" for name in (*VERSIONED, *PRINTED)] if resumed else []
    done = numbers.git(root, "status", "--porcelain", "-z", "--", ".", *ours)
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


def _numbers(root: Path, version: str, say: Say) -> None:
    since = numbers.last_release(root, f"v{version}")
    if since is None:
        say("no release is tagged yet, so there is nothing to compare the numbers with")
        return
    moves = numbers.between(root, since)
    numbers.write_page(moves, f"Since {since}, until v{version}", root / NUMBERS)


def _source(root: Path, version: str, to: Sequence[str], day: date) -> str:
    """A digest of all that a release is made from: whatever changes there begins it anew."""
    digest = hashlib.sha256(f"{version} {' '.join(to)} {day}".encode())
    for name in sorted(numbers.git(root, "ls-files", "-z").stdout.split("\0")):
        file = root / name
        if file.is_file() and not name.startswith(PRINTED):
            digest.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\0".encode())
    return digest.hexdigest()


def _open(steps: Sequence[Chore], state: Path, source: str) -> Iterator[Chore]:
    """The steps that are yet to do, each noted once it was done."""
    noted = json.loads(read_text(state))
    known = noted["done"] if noted.get("source") == source else []
    done: list[str] = []
    for step in steps:
        # What comes after a step that is done again is done again too.
        if step.name == "".join(known[len(done) : len(done) + 1]) and step.leaves.exists():
            done.append(step.name)
            continue
        yield step
        known = []
        done.append(step.name)
        swap_in(state, json.dumps({"source": source, "done": done}) + "\n")
