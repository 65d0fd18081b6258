"""A small engine of one's own: its steps, and requests that it serves, measured."""

from course_tools.campaigns.serving.engine import CONFIG, SmallEngine
from course_tools.campaigns.serving.replaying import admitted, replay
from course_tools.campaigns.serving.stepping import EngineStep, plan, sweep

__all__ = ["CONFIG", "EngineStep", "SmallEngine", "admitted", "plan", "replay", "sweep"]
