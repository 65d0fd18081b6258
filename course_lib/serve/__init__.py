"""Servers: how many chips a service needs, and how long its users wait."""

from course_lib.serve.engines import Engine, engine, engines
from course_lib.serve.fleet import ROUTERS, Service, cache_blocks, service, simulate
from course_lib.serve.outcome import LATENCIES, SHARES, Outcome
from course_lib.serve.pace import Pace, pace
from course_lib.serve.planning import PERCENTILE, Layout, plan, sensitivity
from course_lib.serve.queues import in_system, speculated, speedup, usd_per_mtoken, wait
from course_lib.serve.requests import Requests, drawn, read_requests

__all__ = [
    "LATENCIES",
    "PERCENTILE",
    "ROUTERS",
    "SHARES",
    "Engine",
    "Layout",
    "Outcome",
    "Pace",
    "Requests",
    "Service",
    "cache_blocks",
    "drawn",
    "engine",
    "engines",
    "in_system",
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
