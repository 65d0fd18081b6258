"""Servers: how many chips a service needs, and how long its users wait."""

from course_tools.serve.clock import Pace, linear_pace, pace
from course_tools.serve.fleet import (
    ROUTERS,
    Service,
    cache_blocks,
    on_one_replica,
    service,
    simulate,
)
from course_tools.serve.outcome import LATENCIES, SHARES, Served
from course_tools.serve.planning import PERCENTILE, ServingLayout, plan, sensitivity
from course_tools.serve.queues import in_system, speculated, speedup, usd_per_mtoken, wait
from course_tools.serve.requests import Requests, drawn, read_requests
from course_tools.serve.settings import EngineSettings, engine, engines

__all__ = [
    "LATENCIES",
    "PERCENTILE",
    "ROUTERS",
    "SHARES",
    "EngineSettings",
    "Pace",
    "Requests",
    "Served",
    "Service",
    "ServingLayout",
    "cache_blocks",
    "drawn",
    "engine",
    "engines",
    "in_system",
    "linear_pace",
    "on_one_replica",
    "pace",
    "plan",
    "read_requests",
    "sensitivity",
    "service",
    "simulate",
    "speculated",
    "speedup",
    "usd_per_mtoken",
    "wait",
]
