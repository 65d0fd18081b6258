"""A small engine of one's own: its steps, and requests that it serves, measured."""

from course_lib.bench.serving.engine import CONFIG, SmallEngine
from course_lib.bench.serving.replaying import admitted, replay
from course_lib.bench.serving.stepping import EngineStep, plan, sweep

__all__ = ["CONFIG", "EngineStep", "SmallEngine", "admitted", "plan", "replay", "sweep"]
