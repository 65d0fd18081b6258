"""Whether a model fits: what must be kept, what an engine keeps from it, how long and how many."""

from contextlib import suppress
from typing import Any

from course_lib import CourseError
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator
from course_tools import train
from course_tools.counting import Named
from course_tools.counting import named as model_named
from course_tools.serve import Pool, pool
from course_tools.serve.pool import devices
from course_book.answers.record import Answer, Interval, Remedy, Term, in_each_language
from course_book.text import n, t

# Shares of the pool around it where lines of engines' logs lie, of versions that were seen and of
# others: tests/course_tools/serve/test_pool.py has them.
SEEN, UNSEEN = 0.03, 0.10


def fits(
    model: Named | str,
    chip: Accelerator | str,
    engine: str | None = None,
    *,
    users: int = 1,
    context: int | None = None,
    method: str | None = None,
    **how: Any,
) -> Answer:
    """Whether a model can be served, or with a `method` trained, from the memory of its chips.

    Parameters
    ----------
    model, chip, engine, users, context : as in `course_tools.serve.pool`, and so are the rest.
    method : what is trained, as ``"lora,r=16"``: sequences are those of a step, without an engine.

    Examples
    --------
    >>> one = fits("llama-3-8b", "h100-sxm", "vllm@0.11.1", users=8, context=8192)
    >>> one.values["fits"], one.values["kv_bytes_per_token"]
    (True, 131072.0)
    """
    meant, on = model_named(model) if isinstance(model, str) else model, accelerator(chip)
    if method is not None:
        return _trained(meant, on, method, engine, users, context, **how)
    one = pool(meant, on, engine, users=users, context=context, **how)
    inside, kept = bool(one.left >= 0), one.kept
    parts = {"weights": kept.weights, "kv-cache": one.cache, **one.reserved, "left": one.left}
    values = {
        "fits": inside,
        "needed_bytes": kept.weights + one.cache,
        "reserved_bytes": sum(one.reserved.values()),
        "left_bytes": one.left,
        "kv_bytes_per_token": kept.token,
        "longest_context": one.longest_context,
        "most_users": one.most_users,
        "pool_bytes": one.bytes,
        "pool_tokens": one.pool_tokens if engine else None,
        "total_bytes": one.total,
    }
    of = {"model": meant.name, "chip": on.short, "users": one.users}

    def say() -> str:
        said = {**of, "context": n(one.context), "kv": n(kept.token, "B")}
        said |= {"short": n(-one.left, "B"), "most": n(one.most_users)}
        said["longest"] = n(one.longest_context)
        verdict = t("fits-yes" if inside else "fits-no").format(**said)
        return f"{verdict} {t('fits-room').format(**said)}"

    whose = f"{one.row.engine}@{one.row.since}"
    margin = one.bytes * (SEEN if one.known else UNSEEN)
    seen = Interval(one.bytes - margin, one.bytes + margin, "B", one.row.source)
    return Answer(
        question="fits",
        answer=in_each_language(say),
        values=values,
        assumed=_assumed(meant, on, one, engine, context, how),
        because=_terms(parts, one.total),
        next=_remedies(meant, on, engine, one, how),
        sources=(f"{whose}: {one.row.source}",) if engine else (),
        range=seen if engine and one.bytes > 0 else None,
    )


def _terms(parts: dict[str, float], total: float) -> tuple[Term, ...]:
    """Parts of the memory, largest first, and what is left last."""
    found = [Term(name, float(size), "B", float(size / total)) for name, size in parts.items()]
    return tuple(sorted(found, key=lambda one: (one.name == "left", -one.value)))


def _assumed(
    meant: Named,
    on: Accelerator,
    one: Pool,
    engine: str | None,
    context: int | None,
    how: dict[str, Any],
) -> dict[str, Any]:
    """What was not said and taken, and which convention where there are two."""
    found: dict[str, Any] = {}
    if engine is None:
        found["engine"] = "none: only what must be kept is counted"
    elif not one.known:
        row, why = one.row, "the nearest seen" if "@" in engine else "the newest seen"
        found["engine"] = f"constants of {row.engine} {row.since} to {row.until}, {why}"
    if engine and how.get("utilization") is None:
        found["utilization"] = round(one.share, 3)
    if how.get("total") is None:
        driver = engine is not None and on.key in devices()
        found["memory"] = (
            f"as the {'driver reports' if driver else 'spec table has'}, {one.total:.0f} B"
        )
    if context is None:
        found["context"] = one.context
    if meant.limit and one.longest_context > meant.limit:
        found["model_limit"] = meant.limit
    if engine and one.row.prompts != "once":
        found["step"] = {"tokens": one.tokens, "sequences": one.sequences}
    model = meant.model
    if isinstance(model, Transformer) and model.windowed:
        every, layer = one.kept.token, one.kept.layer
        found["sliding_windows"] = {
            "taken": {
                "full": "pages of all layers hold all tokens",
                "grouped": "pages of layers with a window hold its tokens, in groups",
                "window": "layers with a window hold its tokens",
            }[one.row.windows],
            "all_layers_bytes_per_token": every,
            "past_the_window_bytes_per_token": layer * (model.layers - model.windowed),
        }
    return found


def _remedies(
    meant: Named, on: Accelerator, engine: str | None, one: Pool, how: dict[str, Any]
) -> tuple[Remedy, ...]:
    """The three changes after which most sequences of this length fit, each of them computed."""

    def most(of: Pool) -> float:
        each = of.sequence(of.context)
        return max(of.bytes / each, 0.0) if each else 0.0

    now, found = most(one), dict[str, Remedy]()
    tried = [("w", "fp8"), ("w", "awq"), ("kv", "fp8"), ("tp", 2 * how.get("tp", 1))]
    for name, value in [*tried, ("context", max(one.context // 2, 1))]:
        asked = {"users": one.users, "context": one.context, **how, name: value}
        with suppress(CourseError):
            then = most(pool(meant, on, engine, **asked))
            factor = then / now if now >= 1 else then

            def say(name: str = name, value: Any = value) -> str:
                return t(f"fits-do-{name}").format(value=value)

            better = factor > (found[name].factor if name in found else 1.0)
            if better and (name != "w" or meant.stored is None):
                found[name] = Remedy(in_each_language(say), {name: value}, factor)
    return tuple(sorted(found.values(), key=lambda each: -each.factor)[:3])


def _trained(
    meant: Named,
    on: Accelerator,
    method: str,
    engine: str | None,
    users: int,
    context: int | None,
    *,
    tp: int = 1,
    total: float | None = None,
    **rest: Any,
) -> Answer:
    """Whether a step of training fits: `course_tools.train` says what it keeps."""
    given = [name for name, value in {"engine": engine, **rest}.items() if value is not None]
    if given:
        raise CourseError(f"{given[0]} must be left out with method {method!r}: that is training")
    if not isinstance(model := meant.model, Transformer):
        raise CourseError(f"model {meant.name!r} must be one whose sizes are known, to be trained")
    if (size := total or on.memory) is None:
        raise CourseError(f"{on.key} has no published memory: pass --memory in GB")
    length = context or meant.limit or 2048

    def kept(many: int, tokens: int) -> train.TrainingMemory:
        return train.memory(model, f"tp={tp},mbs={many}", tokens, method=method)

    def largest(ok: Any) -> int:
        high = 1
        while high < 2**24 and ok(high):
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if ok(middle) else (low, middle)
        return low

    one = kept(users, length)
    parts = {name: float(value) for name, value in one.parts.items() if float(value) > 0}
    needed = float(one.total)
    inside, said = needed <= size, {"model": meant.name, "chip": on.short, "users": users}

    def say() -> str:
        sizes = {"needed": n(needed, "B"), "total": n(size, "B"), "context": n(length)}
        key = "fits-train-yes" if inside else "fits-train-no"
        return t(key).format(**said, **sizes, method=method)

    return Answer(
        question="fits",
        answer=in_each_language(say),
        values={
            "fits": inside,
            "needed_bytes": needed,
            "reserved_bytes": 0.0,
            "left_bytes": size - needed,
            "kv_bytes_per_token": 0.0,
            "longest_context": largest(lambda tokens: float(kept(users, tokens).total) <= size),
            "most_users": largest(lambda many: float(kept(many, length).total) <= size),
            "total_bytes": size,
        },
        assumed={"optimizer": "adamw", **({} if context else {"context": length})},
        because=_terms({**parts, "left": size - needed}, size),
    )
