"""Runs a learner's kernels by Triton's interpreter, and tells what they gave, moved and called."""

import contextlib
import ctypes
import importlib.util
import math
import socket
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from course_press.grading.sandbox import learner

MOST = 50  # launches, and calls of torch, that are told of one call of a learner's function
# How the names of operators begin that make an array, or fill it with one number.
MAKES = ("empty", "zeros", "ones", "full", "new_", "zero_", "fill_")
# Operators that look at an array in another way.
VIEWS = (
    "view", "reshape", "_unsafe_view", "_reshape_alias", "as_strided", "expand", "permute", "alias",
    "transpose", "t", "slice", "select", "squeeze", "unsqueeze", "detach", "lift_fresh", "unbind",
)  # fmt: skip


def main(job: dict[str, Any], talk: socket.socket) -> None:
    """Answer the grader's questions until it has no more."""
    import torch

    torch.set_num_threads(1)
    # A module of which only the file is known.
    spec: Any = importlib.util.spec_from_file_location("traffic", job["traffic"])
    traffic = importlib.util.module_from_spec(spec)
    sys.modules["traffic"] = traffic
    spec.loader.exec_module(traffic)

    def answer(function: Any, asked: dict[str, Any], payload: bytes) -> learner.Reply:
        named = {
            key: tuple(one) if isinstance(one, list) else one for key, one in asked["named"].items()
        }
        if "sizes" in asked:
            return learner.number(function(*asked["sizes"], **named)), b""
        return _called(function, _arrays(asked["arrays"], payload), named, job["file"], traffic)

    learner.serve(job, talk, lambda: answer)


def _arrays(about: list[dict[str, Any]], payload: bytes) -> list[Any]:
    """The arrays as tensors; those that are to lie apart are views of larger ones, full of NaN."""
    import torch

    found, at = [], 0
    for one in about:
        dtype, shape = getattr(torch, one["dtype"]), one["shape"]
        size = math.prod(shape) * dtype.itemsize
        flat = torch.frombuffer(bytearray(payload[at : at + size]), dtype=dtype)
        whole, at = flat.reshape(shape).clone(), at + size
        if one["apart"]:
            *rows, width = shape
            room = torch.full((*rows, 2 * width + 3), math.nan, dtype=dtype)
            whole = room[..., 1 : 2 * width : 2].copy_(whole)
        found.append(whole)
    return found


def _called(
    function: Any, arrays: list[Any], named: dict[str, Any], file: str, traffic: Any
) -> learner.Reply:
    """What a call gave back and what it moved."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: list[tuple[str, int]] = []

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        """Notes what the learner's own lines ask of torch; launching a kernel asks for more."""

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = func.overloadpacket.__name__
            line = _line(file)
            harmless = name.startswith(MAKES) or name in VIEWS
            if line and not harmless and len(calls) < MOST:
                calls.append((name, line))
            made = func(*args, **(kwargs or {}))
            if "empty" in name:  # what it holds is known: it is not a number
                _, at, size = _storage(made)
                ctypes.memset(at, 0xFF, size)
            return made

    watch: Any = Watch()
    written = _Holdings(arrays)
    with traffic.counted() as launches, written.watched(), watch:
        result = function(*arrays, **named)
    reply: dict[str, Any] = {"calls": calls, "launches": launches[:MOST]}
    if not isinstance(result, torch.Tensor):
        return {**reply, "other": type(result).__name__[: learner.LONGEST]}, b""
    reply["changed"] = written.changed or not written.known(result)
    reply["shape"], reply["dtype"] = list(result.shape), str(result.dtype).removeprefix("torch.")
    plain = result.detach().contiguous()
    return reply, plain.reshape(-1).view(torch.uint8).numpy().tobytes()


class _Holdings:
    """What lies in arrays as they are handed out, and as kernels leave them."""

    def __init__(self, arrays: list[Any]) -> None:
        self.changed = False
        self.held: dict[int, tuple[Any, bytes]] = {}
        self._note(arrays)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at what each launch is given, and what it leaves, while the block runs."""
        from triton.runtime.interpreter import GridExecutor

        launch = GridExecutor.__call__

        def launched(executor: Any, *given: Any, **named: Any) -> Any:
            tensors = list(_tensors([*given, *named.values()]))
            self.changed |= not all(self.known(one) or _plain(one) for one in tensors)
            done = launch(executor, *given, **named)
            self._note(tensors)
            return done

        GridExecutor.__call__ = launched
        try:
            yield
        finally:
            GridExecutor.__call__ = launch

    def known(self, tensor: Any) -> bool:
        """Whether it holds what it was handed out with, or what a kernel left there."""
        _, at, size = _storage(tensor)
        return bool(at in self.held and self.held[at][1] == ctypes.string_at(at, size))

    def _note(self, tensors: list[Any]) -> None:
        for one in tensors:
            storage, at, size = _storage(one)
            self.held[at] = storage, ctypes.string_at(at, size)  # held: nothing else comes there


def _tensors(given: list[Any]) -> Iterator[Any]:
    import torch

    for one in given:
        if isinstance(one, list | tuple):
            yield from _tensors(list(one))
        elif isinstance(base := getattr(one, "base", one), torch.Tensor):
            yield base


def _storage(tensor: Any) -> tuple[Any, int, int]:
    """Its memory, the address of that, and its bytes."""
    import torch

    storage = torch.Tensor.untyped_storage(tensor)
    return storage, storage.data_ptr(), storage.nbytes()


def _plain(tensor: Any) -> bool:
    """Whether it holds one value throughout."""
    _, at, size = _storage(tensor)
    held, one = ctypes.string_at(at, size), tensor.element_size()
    return bool(held == held[:one] * (size // one))


def _line(file: str) -> int:
    """The line of the learner's file that is being run; 0 where triton's own are, for it."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name == file:
            return frame.f_lineno
        if "triton" in name and "torch" not in name:
            return 0
        frame = frame.f_back
    return 0
