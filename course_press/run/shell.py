"""A kernel: runs code in IPython's shell and says what it gave, a line of JSON for each piece."""

import base64
import contextlib
import functools
import io
import json
import numbers
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from course_lib.specs import Accelerator, load_toml
from course_press.run import trace
from course_press.source.assets import ASSETS

# What the piece of code that runs has shown so far (nbformat).
_given: list[dict[str, Any]] = []
# Functions of their arguments alone, by their modules, as long as these are not imported.
_PURE = load_toml(ASSETS / "pure.toml", dict)
_known: dict[int, Any] = {}


class _Stream(io.TextIOBase):
    """A standard stream: what is written there is an output."""

    encoding = "utf-8"

    def __init__(self, name: str) -> None:
        self.name = name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if _given and _given[-1].get("name") == self.name:
            _given[-1]["text"] += text
        elif text:
            _given.append({"output_type": "stream", "name": self.name, "text": text})
        return len(text)


class _Publisher(DisplayPublisher):
    def publish(self, data: Any, metadata: Any = None, *_: Any, **__: Any) -> None:
        shown = {"output_type": "display_data", "metadata": metadata or {}, "data": data}
        _given.append(shown)


class _Hook(DisplayHook):
    def start_displayhook(self) -> None: ...

    def write_output_prompt(self) -> None: ...

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        shown = {"output_type": "execute_result", "metadata": md_dict or {}, "data": format_dict}
        _given.append({**shown, "execution_count": self.prompt_count})

    def finish_displayhook(self) -> None: ...


class _Shell(InteractiveShell):
    displayhook_class = Type(_Hook)
    display_pub_class = Type(_Publisher)
    failed: Mapping[str, Any] | None = None

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.failed = {"name": etype.__name__, "value": str(evalue), "traceback": "\n".join(stb)}


def _started(env: Mapping[str, str]) -> _Shell:
    """A shell in which nothing has run."""
    os.environ.clear()
    os.environ.update(env)
    config = Config()
    config.HistoryManager.enabled = False
    _Shell.clear_instance()
    return _Shell.instance(config=config)


class _Question(pickle.Pickler):
    """Names what such a function gave, and chips, by themselves; anything else by what it holds."""

    def persistent_id(self, one: Any) -> int | None:
        if getattr(one, "__module__", "") == "__main__":
            # Another language's cell gives its name to something else.
            raise pickle.PicklingError
        if isinstance(one, Accelerator):
            _known[id(one)] = one
        return id(one) if id(one) in _known else None


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    held: dict[bytes, Any] = {}

    def answer(*args: Any, **options: Any) -> Any:
        asked = io.BytesIO()
        with contextlib.suppress(AttributeError, TypeError, pickle.PicklingError):
            _Question(asked).dump((args, options))
            if (key := asked.getvalue()) not in held:
                held[key] = found = function(*args, **options)
                _known[id(found)] = found
            # A list is the asker's own, to sort or to change.
            return held[key][:] if isinstance(held[key], list) else held[key]
        return function(*args, **options)

    return functools.update_wrapper(answer, function)


def _keep_pure() -> None:
    """Compute once what the languages of a chapter ask for, as far as it is imported by now."""
    for module in _PURE.keys() & sys.modules.keys():
        for name in _PURE.pop(module):
            setattr(sys.modules[module], name, _kept(getattr(sys.modules[module], name)))


def _ran(shell: _Shell, code: str) -> dict[str, Any]:
    shell.failed = None
    _keep_pure()
    result = shell.run_cell(code, store_history=True)  # type: ignore[no-untyped-call]
    error = result.error_before_exec or result.error_in_exec
    if error and not shell.failed:
        shell.failed = {"name": type(error).__name__, "value": str(error), "traceback": ""}
    return {"outputs": list(_given), "error": shell.failed}


def _values(shell: _Shell, expressions: Sequence[str]) -> dict[str, Any]:
    """Each expression's value in the reader's namespace, or its error; and whether one shows
    something.
    """
    found, shows = [], False
    for expression in expressions:
        _given.clear()
        try:
            value = eval(expression, shell.user_ns)  # noqa: S307 - a chapter's own code
        except BaseException as error:  # noqa: BLE001 - whatever it is, the page cannot stand
            found.append({"error": f"{type(error).__name__}: {error}"})
            continue
        names = {output.get("name") for output in _given}
        shows = shows or bool(names - {"stdout"})
        if names:
            found.append({"error": "output of its own: it may print nothing"})
        else:
            found.append({"value": value} if type(value) is str else {"type": type(value).__name__})
    return {"values": found, "shows": shows}


def _plain(value: Any) -> Any:
    """What JSON has no form for, as Jupyter sends it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else str(value)


def serve(asked: TextIO, told: TextIO) -> None:
    """Answer requests, each one a line of JSON, until nobody asks."""
    trace.start()
    sys.path.insert(0, "")
    sys.stdout, sys.stderr = _Stream("stdout"), _Stream("stderr")
    shell: Any = None
    for line in asked:
        request = json.loads(line)
        _given.clear()
        answer: dict[str, Any] = {}
        if "env" in request:
            os.chdir(request["cwd"])
            shell = _started(request["env"])
            answer = {"pid": os.getpid()}
        elif "set" in request:
            os.environ.update(request["set"])
        elif "code" in request:
            answer = _ran(shell, request["code"])
        elif "expressions" in request:
            answer = _values(shell, request["expressions"])
        elif "folders" in request:
            answer = trace.found(request["folders"])
        with contextlib.suppress(BrokenPipeError):
            told.write(json.dumps(answer, default=_plain) + "\n")
            told.flush()
