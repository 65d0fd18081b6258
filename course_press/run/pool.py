"""Does independent work side by side: pages run in kernels and are printed by pandoc, processes
that use every core.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from course_press.run import kernels

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
T = TypeVar("T")


def do_jobs(
    jobs: Sequence[tuple[str, Callable[[], T]]], *, say: Callable[[str], None] = lambda _: None
) -> list[T]:
    """Do all jobs, as many at a time as there are cores, and return what they gave, in the order of
    the jobs.
    """
    with ThreadPoolExecutor(CORES) as pool:
        futures = {pool.submit(job): name for name, job in jobs}
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                say(f"{done} of {len(jobs)} · {futures[future]}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            kernels.stop(server=False)
            raise
    return [future.result() for future in futures]
