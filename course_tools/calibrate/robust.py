"""A robust fit of positive constants: least absolute relative errors."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = 80
ENOUGH = 1e-5  # a step that lowers the sum by a smaller part than this is the last
# Log-residual below which more precision gains nothing; it keeps the weights finite.
SMALLEST = 0.01
LONGEST = 0.3  # longest step of a logarithm: a constant changes by a third at most at once


def least_absolute(
    residuals: Callable[[dict[str, float]], NDArray[Any]],
    start: Mapping[str, float],
    most: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Positive constants by name that minimise the sum of absolute residuals: logarithms of
    predicted over measured. `start` is where to begin, `most` the largest values allowed.
    """
    # Reweighted least squares on the constants' logarithms, damped as by Levenberg and Marquardt.
    names = list(start)
    ceiling = np.log([(most or {}).get(name, np.inf) for name in names])
    at = np.minimum(np.log([start[name] for name in names]), ceiling)

    def of(logs: NDArray[Any]) -> NDArray[Any]:
        return np.ravel(residuals(dict(zip(names, np.exp(logs).tolist(), strict=True))))

    now, damping = of(at), 1e-2
    for _ in range(STEPS):
        slopes = np.stack(
            [(of(at + h) - of(at - h)) / 2e-3 for h in 1e-3 * np.eye(len(names))], axis=1
        )
        weighted = slopes / np.maximum(np.abs(now), SMALLEST)[:, None]
        curvature = weighted.T @ slopes
        for _ in range(10):
            step = np.linalg.solve(
                curvature + damping * np.diag(np.diag(curvature) + 1e-9), -weighted.T @ now
            )
            tried = np.minimum(at + np.clip(step, -LONGEST, LONGEST), ceiling)
            then = of(tried)
            if np.abs(then).sum() < np.abs(now).sum():
                break
            damping *= 4
        else:
            break
        settled = np.abs(then).sum() > (1 - ENOUGH) * np.abs(now).sum()
        at, now, damping = tried, then, max(damping / 3, 1e-6)
        if settled:
            break
    return dict(zip(names, np.exp(at).tolist(), strict=True))
