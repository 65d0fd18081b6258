"""Writing files so that a reader never sees half of one, whenever the writer is stopped."""

import ctypes
import os
import re
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# Characters that are kept of an id that is no name for a file.
_LONGEST = 40


def file_names(ids: Iterable[str]) -> dict[str, str]:
    """What files are called by ids, so that no two share one on any system.

    An id keeps its name if it has up to 64 of a-z, A-Z, 0-9, - and _, begins with a letter or
    digit, and no other is like it but for capitals; else it is what is left of it, and a digest.

    Examples
    --------
    >>> file_names(["s001", "Kim/1"])
    {'s001': 's001', 'Kim/1': 'Kim_1-8afafa46'}
    """
    found = dict.fromkeys(ids, "")
    alike = Counter(map(str.casefold, found))
    for one in found:
        left = re.sub(r"[^\w -]", "_", one)[:_LONGEST].strip()
        digest = sha256(one.encode(errors="surrogatepass")).hexdigest()[:8]
        plain = _PLAIN.fullmatch(one) and alike[one.casefold()] == 1
        found[one] = one if plain else f"{left}-{digest}"
    return found


def swap_in(file: Path, text: str) -> None:
    """Write a file aside, then put it in its place, with its folder where that is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """A folder beside `out` to make its next one in; gone afterwards, mended before."""
    out.parent.mkdir(parents=True, exist_ok=True)
    mend(out)
    with ExitStack() as held:
        with _locked(out.parent):
            work = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-stage-"))
            held.enter_context(_locked(work))
        try:
            stage = work / "stage"
            stage.mkdir()
            yield stage
        finally:
            shutil.rmtree(work, ignore_errors=True)


def mend(out: Path) -> None:
    """Delete what killed runs have left beside `out`, and put back what one took away."""
    if not out.parent.is_dir():
        return
    with _locked(out.parent):
        for left in sorted(out.parent.glob(f".{out.name}-stage-*")):
            with _locked(left, wait=False) as ours:
                ready = left / "ready"
                if (ours or sys.platform == "win32") and ready.is_dir() and not out.exists():
                    ready.rename(out)
                if ours:
                    shutil.rmtree(left)


def put(stage: Path, out: Path) -> None:
    """Put a staged folder in the place of `out`, with the items of `out` that it lacks.

    Whenever this is killed, `out` is the old folder or the new one, whole. Where a system cannot
    exchange two folders in one move, it may be missing, until `mend`; an error brings the old back.
    """
    with _locked(out.parent):
        for item in out.iterdir() if out.is_dir() else ():
            to = stage / item.name
            if item.is_dir() and not item.is_symlink() and not to.exists():
                shutil.copytree(item, to, symlinks=True, copy_function=linked)
            elif not to.exists():
                linked(item, to)
        if out.is_dir():
            shutil.copystat(out, stage)
            if exchanged(stage, out):
                return
        ready, aside = stage.rename(stage.with_name("ready")), stage.with_name("aside")
        if out.exists():
            out.rename(aside)
        try:
            ready.rename(out)
        except BaseException:
            if aside.exists():
                aside.rename(out)
            raise


def exchanged(one: Path, other: Path) -> bool:
    """Whether two folders have changed places, in one move: Linux and macOS can, on most disks."""
    names, swap = [os.fsencode(one.absolute()), os.fsencode(other.absolute())], 2
    try:
        system = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(system.renamex_np(*names, swap) == 0)
        return bool(system.renameat2(-1, names[0], -1, names[1], swap) == 0)
    except (AttributeError, OSError, TypeError):  # no such call, or on Windows no such library
        return False


def linked(source: Path | str, target: Path | str) -> None:
    """The same file by a second name, or a copy where a disk has one name for each."""
    try:
        os.link(source, target, follow_symlinks=False)
    except (NotImplementedError, OSError):
        shutil.copy2(source, target, follow_symlinks=False)


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Whether this process alone works on a folder; its end, however it comes, lets go."""
    if sys.platform == "win32":  # no folder has locks: what is left there is its owner's to delete
        yield wait
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    ours = False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            ours = True
        yield ours
    finally:
        os.close(descriptor)
