"""A reader's own function on the roof: `@roofline` in code, `%%roofline` in a notebook."""

import ast
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from course_lib.bench.device import machine
from course_lib.bench.operands import arrays
from course_lib.bench.record import sample
from course_lib.core.checks import unfit
from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator
from course_tools.counting import count
from course_book.answers import Answer, Interval, Term, cited, in_each_language
from course_book.answers.record import expected, range_in_words
from course_book.answers.steps import floats, operators
from course_book.text import language, n, t

# S that the function is run for where it is measured.
_BUDGET = 1.0


def roofline(
    chip: Accelerator | str, *, measured: bool | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say of every call of a torch function what it takes on a chip: bound, expected, measured.

    The function then runs as ever; its last answer is kept as `answer` beside it.

    Parameters
    ----------
    chip : an accelerator or its key.
    measured : whether to run it for a second; where not said, if it runs on this very chip.

    Examples
    --------
    >>> import torch
    >>> @roofline("h100-sxm")
    ... def double(x):
    ...     return x @ x
    >>> double(torch.ones(256, 256, dtype=torch.bfloat16)).shape
    double on H100: no less than 117 ns, memory-bound; ...
    torch.Size([256, 256])
    """
    on = accelerator(chip)

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*inputs: Any, **named: Any) -> Any:
            found = counted(function, on, *inputs, measured=measured, **named)
            vars(called)["answer"] = found
            print(found.answer[language()])  # noqa: T201
            return function(*inputs, **named)

        return called

    return wrap


def counted(
    function: Callable[..., Any],
    chip: Accelerator | str,
    *inputs: Any,
    measured: bool | None = None,
    **named: Any,
) -> Answer:
    """What a torch function takes on a chip when it is called with such inputs.

    Raises
    ------
    CourseError
        If there is no tensor of torch among the inputs: what NumPy does cannot be counted.

    Examples
    --------
    >>> import torch
    >>> counted(torch.nn.functional.gelu, "h100-sxm", torch.ones(4096, 4096)).values["bound"]
    'memory-bound'
    """
    on = accelerator(chip)
    name = getattr(function, "__name__", type(function).__name__)
    tensors = [one for one in (*inputs, *named.values()) if hasattr(one, "storage_offset")]
    if not tensors and not hasattr(function, "parameters"):
        why = "what NumPy does cannot be counted"
        raise unfit(name, "be called with a tensor of torch", inputs, why)
    step = count(function, *inputs, **named).on(on)
    found, spread, _ = expected(step, on)
    device = "cuda" if any(one.device.type == "cuda" for one in tensors) else "cpu"
    seconds = None
    if measured or (measured is None and machine(device).key == on.key):
        with_device = arrays(device)
        once = functools.partial(with_device.timed, lambda: function(*inputs, **named))
        seconds = float(sample(once, _BUDGET).median)
    values = {
        **floats(step, "lower speed_of_light", "{}_s"),
        "bound": str(step.bound),
        **floats(step, "flops bytes intensity"),
        "expected_s": None if found is None else float(found.expected),
        "measured_s": seconds,
    }
    whole = float(step.lower)
    every = operators(step)
    works = [one.work for _, _, one in every if one.work is not None]
    longest = max(works, key=lambda one: float(np.sum(one.flops)), default=None)
    values["unit"] = f"{longest.unit}.{longest.dtype}" if longest is not None else None
    terms = sorted(every, key=lambda one: -float(one[2].lower))
    return Answer(
        question="predict",
        answer=in_each_language(lambda: _sentence(name, on, values, spread)),
        values=values,
        because=tuple(
            Term(of, float(one.lower), "s", float(one.lower) / whole) for _, of, one in terms
        ),
        sources=cited(on, "bandwidth"),
        range=spread,
    )


def _sentence(name: str, chip: Accelerator, values: dict[str, Any], spread: Interval | None) -> str:
    of = {"model": name, "chip": chip.short, "bound": t(values["bound"])}
    said = [t("say-function").format(lower=n(values["lower_s"], "s"), **of)]
    if spread is not None:
        said.append(range_in_words(values["expected_s"], spread))
    if (seconds := values["measured_s"]) is not None:
        share = n(values["lower_s"] / seconds, "%")
        said.append(t("say-measured").format(seconds=n(seconds, "s"), share=share))
    return "; ".join(said)


def picture(found: Answer, chip: Accelerator | str) -> Any:
    """A chip's roof in the format of what was counted, which is dots: bound, expected, measured.

    Examples
    --------
    >>> import torch
    >>> _ = picture(counted(torch.mm, "l4", torch.ones(64, 64), torch.ones(64, 64)), "l4")
    """
    from course_book import plot  # takes long to import

    on, values = accelerator(chip), found.values
    peak, intensity = on.peaks[values["unit"]], values["intensity"]
    ends = [intensity, 0.1, peak / on.bandwidth]
    drawn = plot.roofline(
        {on.short: (peak, on.bandwidth)}, intensity=(min(ends) / 2, 4 * max(ends))
    )
    axes = drawn.figure.axes[0]
    for key in ("lower_s", "expected_s", "measured_s"):
        if (seconds := values[key]) is not None:
            reached = values["flops"] / seconds
            axes.plot(intensity, reached, "o", color=plot.INK, markersize=6, zorder=5)
            axes.set_ylim(bottom=min(reached / 3, axes.get_ylim()[0]))
            drawn.name_dot(t(f"say-dot-{key}"), intensity, reached, fontsize=9)
    return drawn


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext course_book.magic`: then `%%roofline h100-sxm` before a cell that ends in a call.

    Examples
    --------
    >>> from IPython.testing.globalipapp import get_ipython
    >>> load_ipython_extension(get_ipython())
    """

    def magic(line: str, cell: str) -> Any:
        body = ast.parse(cell).body
        last = body.pop() if body else None
        if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
            raise unfit("the cell", "end in the call of a torch function, as f(x)", cell)
        names = shell.user_ns
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - the reader's own cell

        def value(node: ast.expr) -> Any:
            return eval(compile(ast.Expression(node), "cell", "eval"), names)  # noqa: S307

        call = last.value
        named = {one.arg: value(one.value) for one in call.keywords if one.arg}
        found = counted(value(call.func), line.strip(), *map(value, call.args), **named)
        names["_answer"] = found
        print(found.answer[language()])  # noqa: T201
        return picture(found, line.strip())

    shell.register_magic_function(magic, "cell", "roofline")
