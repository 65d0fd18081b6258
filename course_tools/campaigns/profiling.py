"""Records a trace with torch.profiler, without the name of the machine."""

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from course_lib.bench.device import torch_or_none
from course_lib.core.checks import CourseError, whole
from course_tools.diagnosis import trace


def record(
    call: Callable[[], Any], path: Path, device: str = "cpu", *, tries: int = 5
) -> list[trace.TraceEvent]:
    """Run something so many times under torch.profiler, after warming up, and keep the fastest run
    in a JSON file: slower ones tell of what else the machine does.
    """
    whole("tries", tries)
    torch = torch_or_none()
    if torch is None:
        raise CourseError("profiling needs torch: make labs, or pip install -e '.[torch]'")
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]

    def once() -> list[trace.TraceEvent]:
        with profile(activities=kinds, record_shapes=True) as profiler:
            call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "trace.json")
            profiler.export_chrome_trace(str(file))
            return trace.events(json.loads(file.read_text(encoding="utf-8"))["traceEvents"])

    def span(run: list[trace.TraceEvent]) -> float:
        ends, starts = (event.ts + event.dur for event in run), (event.ts for event in run)
        return max(ends, default=0.0) - min(starts, default=0.0)

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        call()
        fastest = min((once() for _ in range(tries)), key=span)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(fastest))
    return fastest
