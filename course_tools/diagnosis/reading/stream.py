"""Reads a trace piece by piece, however long it is: an object with traceEvents, or a bare list,
packed by gzip or zstd or not. msgspec decodes pieces that end at the end of an event; what it does
not take the standard library reads event by event, which says exactly where it stumbles.
"""

import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import msgspec

from course_lib.core.checks import CourseError, shown

# The standard library has it from 3.14 on.
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
# Bytes read at a time.
PIECE = 1 << 20
# Bytes of one event, or of one value of `HEAD`, beyond which the file is no trace; any other value
# beside the events may be as long as it likes.
LONGEST = 1 << 24
# Bytes at the end of a piece in which the last whole event is looked for.
LAST = 1 << 16
# What is kept of what stands beside the events.
HEAD = ("deviceProperties", "distributedInfo", "constructed")
_BETWEEN = re.compile(rb"\}\s*,(?=\s*\{)")
_SPACE = re.compile(rb"[ \t\r\n]*")
# What is no JSON, by how it begins: that has to be written anew.
_OTHERS = {
    rb"\xff\xfe|\xfe\xff": "is text in UTF-16: save it in UTF-8",
    rb"\n[^{[]{0,99}[\x00-\x08\x0e-\x1f]": "is a protobuf, as Perfetto writes it: export "
    "JSON with export_chrome_trace of torch.profiler",
}
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# What opens or closes something within JSON, a string, or its beginning; and what ends a string.
_BRACKETS = re.compile(rb'[\[\]{}]|"[^"\\]*(?:\\.[^"\\]*)*"|"', re.DOTALL)
# A number that JSON does not have, behind a key.
_NO_NUMBER = re.compile(rb'":(?<!\\":)\s*-?(?:NaN|Infinity)(?=\s*[,}])')
_AFTER = re.compile(rb"[ \t\r\n,\]}]")  # what stands behind a number or a word
_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)


class Args(msgspec.Struct):
    """What matters of an event's `args`; shapes stay as written until somebody asks for them."""

    external: Any = msgspec.field(default=None, name="External id")
    external_lower: Any = msgspec.field(default=None, name="external id")
    correlation: Any = None
    correlation_id: Any = None
    name: Any = None
    device: Any = None
    stream: Any = None
    rocprof_device: Any = msgspec.field(default=None, name="dev-id")
    rocprof_stream: Any = msgspec.field(default=None, name="stream-id")
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Dims")
    dims_lower: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input type")
    strides: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Strides")
    concrete: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Concrete Inputs")
    bytes: Any = None
    grid: msgspec.Raw = msgspec.Raw()
    block: msgspec.Raw = msgspec.Raw()
    collective: Any = msgspec.field(default=None, name="Collective name")
    dtype: Any = None
    sent: Any = msgspec.field(default=None, name="In msg nelems")
    got: Any = msgspec.field(default=None, name="Out msg nelems")
    group: Any = msgspec.field(default=None, name="Group size")
    graph_node: Any = msgspec.field(default=None, name="graph node id")


class Event(msgspec.Struct):
    """One event as written: any field may be missing or of another type."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


_EVENTS = msgspec.json.Decoder(list[Event])
_EVENT = msgspec.json.Decoder(Event)


class Stream:
    """The events of a file, once, and what stands beside them when all have been read."""

    def __init__(self, path: Path) -> None:
        self.path, self.head, self.count = path, dict[str, Any](), 0
        # What was read of the file, from its byte `_start` in line `_line`; `_at` is where we are.
        self._buffer, self._at, self._start, self._line = b"", 0, 0, 1
        self._ended, self._distrusted = False, 0
        self._kept: int | None = None  # where a value begins that is wanted as a whole

    def __iter__(self) -> Iterator[Event]:
        broken: tuple[type[Exception], ...] = (zlib.error, gzip.BadGzipFile)
        try:
            with self.path.open("rb") as plain:
                begins = plain.read(4)
                plain.seek(0)
                unpack: Any = gzip
                if begins == _ZSTD:
                    unpack = self._zstd()
                    broken = (unpack.ZstdError,)
                packed = begins == _ZSTD or begins.startswith(_GZIP)
                with unpack.open(plain) if packed else plain as file:
                    self._file: IO[bytes] = file
                    yield from self._everything()
        except EOFError:
            raise self._error("is cut off inside its compression") from None
        except broken as error:
            raise self._error(f"is not well compressed ({error})") from None
        except OSError as error:
            path = shown(str(self.path))
            raise CourseError(f"path {path} cannot be read: {error.strerror}") from None

    def _zstd(self) -> Any:
        """What unpacks zstd."""
        try:
            return import_module(ZSTD)
        except ImportError:
            raise CourseError(
                f"{self.path.name} is packed by zstd: pip install {ZSTD}, or unpack it by zstd -d"
            ) from None

    def _everything(self) -> Iterator[Event]:
        self._more()
        self._at = 3 if self._buffer.startswith(b"\xef\xbb\xbf") else 0
        first = self._peek()
        if first == "":
            raise self._error("is empty", 0)
        if first not in "[{":
            for begins, said in _OTHERS.items():
                if re.match(begins, self._buffer):
                    raise CourseError(f"{self.path.name} {said}")
            raise self._error("is not a trace, since it does not begin as JSON does", self._here)
        self._at += 1
        # The format lets a list of events lack its end: a program that stopped wrote it.
        yield from self._events("]", "") if first == "[" else self._members()
        if self._peek():
            raise self._error("goes on after its end", self._here)

    def _members(self) -> Iterator[Event]:
        keys: list[str] = []
        found = False
        while self._next() != "}":
            if self._peek() != '"':
                raise self._cut_or("is no valid JSON (a key in double quotes was expected)")
            key = self._value()
            if self._peek() != ":":
                raise self._cut_or("is no valid JSON (a colon was expected)")
            self._at += 1
            if key == "traceEvents" and self._peek() == "[":
                found = True
                self._at += 1
                yield from self._events("]")
                continue
            keys.append(str(key))
            if key in HEAD:
                self.head[key] = self._value()
            else:
                self._skip()
        self._at += 1
        if not found:
            others = ", ".join(map(repr, keys[:6])) or "none"
            raise CourseError(
                f"{self.path.name} is JSON without a list traceEvents (its keys: {others}): it is "
                f"no trace of torch.profiler; export one with export_chrome_trace"
            )

    def _events(self, *ends: str) -> Iterator[Event]:
        """The events of a list whose bracket has been read, and its end."""
        while (mark := self._next()) not in ends:
            if mark != "{":
                raise self._cut_or("is no valid JSON (an event was expected)")
            piece = self._piece() or [_event(self._value())]
            self.count += len(piece)
            yield from piece
        self._at += 1

    def _next(self) -> str:
        """The character at which the next member begins, or a list or an object ends."""
        if self._peek() == ",":
            self._at += 1
        return self._peek()

    def _piece(self) -> list[Event]:
        """Events up to the last that ends in the buffer, where that end is found at once."""
        if not self._ended and len(self._buffer) - self._at < PIECE:
            self._more()
        if self._start + self._at < self._distrusted:
            return []
        tail = max(len(self._buffer) - LAST, self._at)
        for end in reversed(list(_BETWEEN.finditer(self._buffer, tail))[-8:]):
            try:
                piece = _NO_NUMBER.sub(b'":null', self._buffer[self._at : end.start() + 1])
                found = _EVENTS.decode(b"[" + piece + b"]")
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # the end of something inside an event, or an event of another kind
            self._at = end.end()
            return found
        self._distrusted = self._start + len(self._buffer)  # event by event, up to here
        return []

    def _value(self) -> Any:
        """The JSON value at which the buffer stands."""
        self._peek()
        at, self._kept = self._here, self._at
        self._skip()
        raw, text = self._buffer[self._kept : self._at], ""
        self._kept = None
        try:
            text = raw.decode()
            value = json.loads(text)
            # The standard library reads half a character, which no message can show.
            json.dumps(value if "\\u" in text else "", ensure_ascii=False).encode()
        except UnicodeDecodeError as error:
            raise self._error("is not text in UTF-8", at + error.start) from None
        except UnicodeEncodeError:
            raise self._error("holds half a character (a lone surrogate)", self._here) from None
        except (json.JSONDecodeError, RecursionError) as error:
            read, said = getattr(error, "pos", 0), getattr(error, "msg", "too deeply nested")
            stumbled = at + len(text[:read].encode())
            raise self._error(f"is no valid JSON ({said})", stumbled) from None
        return value

    def _skip(self) -> None:
        """Pass over a value of any length."""
        depth, marks = 0, _BRACKETS if self._peek() in '[{"' else _AFTER
        while True:
            if not (found := marks.search(self._buffer, self._at)):
                self._at = len(self._buffer)
                self._read_on()
                continue
            if marks is _AFTER:
                self._at = found.start()
                return
            self._at = found.end()
            if found[0] == b'"':
                self._string()
            depth += (found[0] in b"[{") - (found[0] in b"]}")
            if not depth:
                return

    def _string(self) -> None:
        """The rest of a string."""
        while True:
            found = _STRING.match(self._buffer, self._at)
            self._at = found.end() if found else self._at
            if self._buffer[self._at : self._at + 1] == b'"':
                self._at += 1
                return
            self._read_on()

    def _read_on(self) -> None:
        """Read on within a value, where there is more."""
        if self._ended:
            raise self._cut()
        if self._kept is not None and self._at - self._kept > LONGEST:
            raise self._error(f"holds a value of more than {LONGEST} bytes", self._here)
        self._more()

    def _peek(self) -> str:
        """The next character that is no space; nothing at the end of the file."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._buffer):
                return chr(self._buffer[self._at])
            if self._ended:
                return ""
            self._more()

    def _more(self) -> None:
        """Read on, and forget what has been used."""
        got = self._file.read(PIECE)
        self._ended = not got
        used = self._at if self._kept is None else self._kept
        self._kept = None if self._kept is None else 0
        self._line += self._buffer.count(b"\n", 0, used)
        self._start, self._buffer = self._start + used, self._buffer[used:] + got
        self._at -= used

    @property
    def _here(self) -> int:
        """The byte of the file at which we are."""
        return self._start + self._at

    def _cut_or(self, said: str) -> CourseError:
        return self._cut() if self._peek() == "" else self._error(said, self._here)

    def _cut(self) -> CourseError:
        return self._error(f"is cut off after {self.count} events")

    def _error(self, said: str, at: int | None = None) -> CourseError:
        """What is wrong at a byte of the file, or at the end of what was read."""
        at = self._start + len(self._buffer) if at is None else at
        line = self._line + self._buffer.count(b"\n", 0, max(at - self._start, 0))
        return CourseError(
            f"{self.path.name} {said} at byte {at}, line {line}: record or copy the trace again"
        )


def _event(value: Any) -> Event:
    """An event by itself: one with a number that JSON does not have, or of another shape."""
    # msgspec writes NaN and infinity, which the standard library reads, as null.
    for one in (value, {**value, "args": None}):
        try:
            return _EVENT.decode(msgspec.json.encode(one))
        except msgspec.DecodeError:  # args that are no object
            continue
    return Event()
