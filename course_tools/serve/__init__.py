"""Servers: how many chips a service needs, and how long its users wait."""

from course_tools.serve.clock import StepTimeModel, linear_step_times, step_times
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
from course_tools.serve.requests import Requests, read_requests, synthetic_workload
from course_tools.serve.settings import EngineSettings, engine, engines

__all__ = [
    "LATENCIES",
    "PERCENTILE",
    "ROUTERS",
    "SHARES",
    "EngineSettings",
    "Requests",
    "Served",
    "Service",
    "ServingLayout",
    "StepTimeModel",
    "cache_blocks",
    "engine",
    "engines",
    "in_system",
    "linear_step_times",
    "on_one_replica",
    "plan",
    "read_requests",
    "sensitivity",
    "service",
    "simulate",
    "speculated",
    "speedup",
    "step_times",
    "synthetic_workload",
    "usd_per_mtoken",
    "wait",
]
