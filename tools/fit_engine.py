"""Fits vLLM's constant to the first third, by arrival, of the published log, and prints the errors
on the rest of it: how much more of the bandwidth its kernels reach than those of the older engines
that `course_tools.calibrate` knows.
"""

import msgspec
import numpy as np

from course_tools.serve.evidence import errors, read_log, serve_log
from course_tools.serve.settings import FOLDER, EngineSettings, engine

SOURCE = (
    "the first third of a log of vLLM 0.19.0 on an RTX 4090 (github:casys-kaist/LLMServingSim, MIT)"
)
LEAST, MOST, HALVINGS = 0.8, 1.3, 20


def fit() -> EngineSettings:
    """VLLM's constant: with it, half of the first third of the requests take less than they did,
    from end to end, and half more.
    """
    log = read_log()
    third = slice(len(log.requests) // 3)
    measured, low, high = log.latencies(third)["e2e"], LEAST, MOST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        slower = np.median(np.log(serve_log(log, bandwidth=middle).e2e[third] / measured)) > 0
        low, high = (middle, high) if slower else (low, middle)
    return msgspec.structs.replace(engine("vllm"), bandwidth=round(low, 3), source=SOURCE)


if __name__ == "__main__":
    one = fit()
    (FOLDER / "vllm.toml").write_text(
        f'name = "{one.name}"\nbandwidth = {one.bandwidth}\nsource = "{one.source}"\n',
        encoding="utf-8",
    )
    for name, off in errors().items():
        print(f"{name:10} {off:+.1%}")
