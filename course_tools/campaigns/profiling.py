"""Records a trace with torch.profiler, without the name of the machine."""

import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from course_lib.bench.device import torch_or_none
from course_lib.core.checks import CourseError, whole
from course_tools.measured import trace


def record(
    call: Callable[[], Any], path: Path, device: str = "cpu", *, tries: int = 5
) -> list[trace.TraceEvent]:
    """Run something under torch.profiler, after warming up, and keep what
    `course_tools.measured.trace` reads
    of the fastest run.

    On a machine that does other things besides, the slower runs tell of those.

    Parameters
    ----------
    call : what to run.
    path : the JSON file to write.
    device : ``"cpu"`` or ``"cuda"``.
    tries : how often it runs under the profiler.

    Returns
    -------
    The events.

    Examples
    --------
    >>> record(lambda: None, Path("trace.json"), tries=0)
    Traceback (most recent call last):
    ...
    course_lib.CourseError: tries must be a positive whole number (got 0)
    """
    whole("tries", tries)
    torch = torch_or_none()
    if torch is None:
        raise CourseError("profiling needs torch: make labs, or pip install -e '.[torch]'")
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        call()
        runs = [
            _once(torch, call, lambda: profile(activities=kinds, record_shapes=True))
            for _ in range(tries)
        ]
    fastest = min(runs, key=_span)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(fastest))
    return fastest


def _once(
    torch: Any, call: Callable[[], Any], profile: Callable[[], Any]
) -> list[trace.TraceEvent]:
    with profile() as profiler:
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    descriptor, name = tempfile.mkstemp(suffix=".json")
    os.close(descriptor)
    try:
        profiler.export_chrome_trace(name)
        return trace.events(json.loads(Path(name).read_text(encoding="utf-8"))["traceEvents"])
    finally:
        Path(name).unlink()


def _span(run: list[trace.TraceEvent]) -> float:
    return max((event.ts + event.dur for event in run), default=0.0) - min(
        (event.ts for event in run), default=0.0
    )
