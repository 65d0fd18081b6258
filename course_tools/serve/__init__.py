"""Servers: how many chips a service needs, and how long its users wait."""

from course_tools.serve.clock import StepTimeModel, linear_step_times, step_times
from course_tools.serve.fleet import (
    ROUTERS,
    ServingLayout,
    cache_blocks,
    on_one_replica,
    plan,
    sensitivity,
    service,
    simulate,
)
from course_tools.serve.memory import Pool, pool
from course_tools.serve.queues import in_system, speculated, speedup, usd_per_mtoken, wait
from course_tools.serve.requests import (
    LATENCIES,
    SHARES,
    Requests,
    Served,
    closed_workload,
    read_requests,
    synthetic_workload,
)
from course_tools.serve.settings import EngineSettings, engine, engines

__all__ = [
    "LATENCIES",
    "ROUTERS",
    "SHARES",
    "EngineSettings",
    "Pool",
    "Requests",
    "Served",
    "ServingLayout",
    "StepTimeModel",
    "cache_blocks",
    "closed_workload",
    "engine",
    "engines",
    "in_system",
    "linear_step_times",
    "on_one_replica",
    "plan",
    "pool",
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
