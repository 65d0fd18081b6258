"""Writing files so that a reader never sees half of one, whenever the writer is stopped."""

import os
import re
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LONGEST = 40
"""Characters that are kept of an id that is no name for a file."""


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
def staged(out: Path, first: str = "") -> Iterator[Path]:
    """A folder beside `out` in which to make what is to stand there, gone afterwards.

    What a killed run has left comes to its end before: what was made whole goes to its place, all
    else is deleted.

    Parameters
    ----------
    out : the folder that `put` will fill, there or not.
    first : the item of it that goes before all others.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        with _locked(out.parent):
            for left in sorted(out.parent.glob(f".{out.name}-stage-*")):
                with _locked(left, wait=False) as ours:
                    if ours:
                        _end(left, out, first)
            work = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-stage-"))
            held.enter_context(_locked(work))
        try:
            stage = work / "stage"
            stage.mkdir()
            yield stage
        finally:
            shutil.rmtree(work, ignore_errors=True)


def put(stage: Path, out: Path, first: str = "") -> None:
    """Put every item of a staged folder in its place in `out`; other items of `out` stay.

    A run that is killed once this has begun is brought to its end by the next one; an error brings
    all of the old back.
    """
    stage.rename(stage.with_name("ready"))
    with _locked(out.parent):
        _finish(stage.parent, out, first)


def _end(left: Path, out: Path, first: str) -> None:
    try:
        _finish(left, out, first)
    finally:
        shutil.rmtree(left)


def _finish(work: Path, out: Path, first: str) -> None:
    """Move what is ready from `work` to `out`; nothing where nothing was made whole."""
    ready = work / "ready"
    if not ready.is_dir():
        return
    out.mkdir(exist_ok=True)
    back: list[
        tuple[Path, Path]
    ] = []  # written down before each move, and passed over where the move never came
    try:
        for item in sorted(ready.iterdir(), key=lambda item: (item.name != first, item.name)):
            place = out / item.name
            if place.exists():
                aside = Path(tempfile.mkdtemp(dir=work)) / item.name
                if item.is_file() and place.is_file():
                    shutil.copy2(place, aside)
                    back.append((aside, place))
                    item.replace(place)  # its place is never empty
                    continue
                back.append((aside, place))
                place.rename(aside)
            back.append((place, item))
            item.rename(place)
    except BaseException:
        for source, target in reversed(back):
            if source.exists() and (target.is_file() or not target.exists()):
                source.replace(target)
        raise


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Whether this process is the one that works on a folder; its end, however it comes, lets go of
    it.
    """
    if (
        sys.platform == "win32"
    ):  # has no locks for folders: what is left there is for its owner to delete
        yield wait
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
