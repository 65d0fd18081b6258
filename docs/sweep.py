"""Simulates a service at many rates, a process for each that is free, and prints a line of JSON for each.

    python docs/sweep.py llama-3-8b h100-sxm 5 10 20 40 > sweep.jsonl

`point` is a plain function of plain values, and its requests come from a seed: whatever maps it, a loop, a pool
or a cluster's scheduler, gets the same numbers. docs/sweep.yaml is one point as a job of SkyPilot.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from course_tools import serve


def point(rate, model, chip, requests=10_000, seed=0):
    """What users of a service feel at a rate, as `course serve --json` has it."""
    done = serve.simulate(
        model, chip, serve.synthetic_workload(rate, requests, 512, 128, spread=0.5, seed=seed)
    )
    felt = {f"{name}_s": done.percentiles(name) for name in serve.LATENCIES}
    return {
        "rate": rate,
        **felt,
        "tokens_per_s": done.tokens_per_s,
        "preemptions": done.preemptions,
    }


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(
            "usage: python docs/sweep.py MODEL CHIP RATE [RATE ...], rates in requests a second"
        )
    model, chip, *rates = sys.argv[1:]
    with ProcessPoolExecutor() as pool:
        for found in pool.map(partial(point, model=model, chip=chip), map(float, rates)):
            print(json.dumps(found))  # noqa: T201
