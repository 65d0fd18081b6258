"""How far predictions miss what was measured."""

import numpy as np
from numpy.typing import ArrayLike

from course_lib.calibrate.prediction import Prediction
from course_lib.core.checks import CourseError, plain, positive, shown, together

__all__ = ["coverage", "mean_error"]


def coverage(prediction: Prediction, measured: ArrayLike) -> float:
    """The share of measurements within the range.

    Examples
    --------
    >>> coverage(Prediction(2.0, 1.0, 3.0, ""), [0.5, 1.5, 2.5, 3.5])
    0.5
    """
    if not isinstance(prediction, Prediction):
        raise CourseError(f"prediction must be one, from predict (got {shown(prediction)})")
    times = np.asarray(positive("measured", measured))
    together(prediction=plain(np.asarray(prediction.low) + prediction.high), measured=plain(times))
    return float(np.mean((times >= prediction.low) & (times <= prediction.high)))


def mean_error(expected: ArrayLike, measured: ArrayLike) -> float:
    """Mean absolute percentage error, as a fraction.

    Examples
    --------
    >>> mean_error([1.1, 0.9], [1.0, 1.0])
    0.1...
    """
    likely, times = positive("expected", expected), positive("measured", measured)
    together(expected=likely, measured=times)
    return float(np.mean(np.abs(np.asarray(likely) / times - 1)))
