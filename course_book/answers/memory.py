"""Whether a model fits: what must be kept, what an engine keeps from it, how long and how many."""

from bisect import bisect_left
from typing import Any

from course_lib import CourseError
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator
from course_lib.specs.configurations import attending
from course_tools import train
from course_tools.counting import Named
from course_tools.counting import named as model_named
from course_tools.serve import Pool, pool
from course_tools.serve.memory import devices
from course_book.answers.record import Answer, Interval, Remedy, Term, fields, in_each_language, top
from course_book.text import n, t, words

# Shares of the pool around it, or half as much of the memory, where lines of engines' logs lie, of
# versions that were seen and of others: tests/course_tools/serve/test_pool.py has them.
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
        return _trained(meant, on, method, users, context, engine=engine, **how)
    one = pool(meant, on, engine, users=users, context=context, **how)
    kept, row = one.kept, one.row

    def sizes() -> dict[str, str]:
        found = {"kv": n(kept.token, "B"), "short": n(-one.left, "B"), "context": n(one.context)}
        found |= {"model": meant.name, "chip": on.short, "users": str(one.users)}
        return found | {"most": n(one.most_users or 0), "longest": n(one.longest_context or 0)}

    def say(inside: bool) -> str:
        keys = ["fits-yes" if inside else "fits-no"] + ["fits-room"] * (kept.token > 0)
        return " ".join(t(key).format(**sizes()) for key in keys)

    more = {"pool_bytes": one.bytes, "pool_tokens": one.pool_tokens if engine else None}
    spread = SEEN if one.known and not (_encodes(meant) or kept.state) else UNSEEN
    margin = spread * max(one.bytes, one.total / 2)
    low, high = sorted((one.bytes, one.bytes + one.other))
    seen = Interval(max(low - margin, 0.0), high + margin, "B", row.source)
    return _answer(
        {"weights": kept.weights, "kv-cache": one.cache, **one.reserved, "left": one.left},
        {
            "needed_bytes": kept.weights + one.cache,
            "reserved_bytes": sum(one.reserved.values()),
            "kv_bytes_per_token": kept.token,
            **fields(one, "longest_context most_users"),
            **more,
        },
        say,
        assumed=_assumed(meant, on, one, {"engine": engine, "context": context, **how}),
        next=_remedies(meant, on, engine, one, how),
        sources=(f"{row.engine}@{row.since}: {row.source}",) if engine else (),
        range=seen if engine and one.bytes > 0 else None,
    )


def _answer(parts: dict[str, float], values: dict[str, Any], say: Any, **rest: Any) -> Answer:
    """The answer of so many bytes by their names, of which the last are left."""
    total, left = sum(parts.values()), parts["left"]
    held = {name: float(size) for name, size in parts.items() if size or name == "left"}
    found = [Term(name, size, "B", size / total) for name, size in held.items()]
    return Answer(
        question="fits",
        answer=in_each_language(lambda: say(left >= 0)),
        values={"fits": bool(left >= 0), "left_bytes": left, "total_bytes": total, **values},
        because=tuple(sorted(found, key=lambda one: (one.name == "left", -one.value))),
        **rest,
    )


def _assumed(meant: Named, on: Accelerator, one: Pool, asked: dict[str, Any]) -> dict[str, Any]:
    """What was not said and taken, and which convention where there are two."""
    row, model, engine, found = one.row, meant.model, asked["engine"], dict[str, Any]()
    if engine is None:
        found["engine"] = "none: only what must be kept is counted"
    elif not one.known:
        why = "the nearest seen" if "@" in engine else "the newest seen"
        found["engine"] = f"{row.engine} {row.since} to {row.until}, {why}"
    if engine and "utilization" not in asked:
        found["utilization"] = round(one.share, 3)
    if "total" not in asked:
        where = "the driver reports" if engine and on.key in devices() else "the spec table has"
        found["memory"] = f"{one.total / 1e9:.2f} GB, as {where}"
    if asked["context"] is None:
        found["context"] = one.context
    if meant.limit and (one.longest_context or 0) > meant.limit:
        found["model_limit"] = meant.limit
    if row.prompts in ("whole", "cut"):
        found["step"] = {"tokens": one.tokens, "sequences": one.sequences}
    if one.other:
        found["sampler"] = words("en")["said-sampler"]
    if engine and _encodes(meant):
        found["encoder"] = words("en")["said-trial-run"]
    if model is None:
        found["cache"] = "grows with every token as over the few hundred that were traced"
        found["remedies"] = "of a trace only a shorter context: a format, or more chips, is another"
    if isinstance(model, Transformer) and model.windowed:
        past = one.kept.layer * (attending(model) - model.windowed)
        found["sliding_windows"] = {
            "taken": words("en")[f"said-windows-{row.windows}"],
            "all_layers_bytes_per_token": one.kept.token,
            "past_the_window_bytes_per_token": past,
        }
    return found


def _encodes(meant: Named) -> bool:
    """Whether a part of a model sees or hears: an engine tries it with the largest image."""
    said = {*(meant.config or {}), *getattr(meant.model, "other", ())}
    return any(word in name for name in said for word in ("vision", "audio"))


def _remedies(
    meant: Named, on: Accelerator, engine: str | None, one: Pool, how: dict[str, Any]
) -> tuple[Remedy, ...]:
    """The three changes after which most sequences of this length fit, each of them computed."""
    if not (each := one.sequence(one.context)):
        return ()
    now, traced = max(one.bytes / each, 1.0), meant.model is None

    def gain(**change: Any) -> float:
        ((name, value),) = change.items()
        if traced:  # once: what fewer tokens take is known of it, and no other format
            return max(one.bytes / one.sequence(value), 0.0) / now
        own = {"weights": "w", "cache": "kv"}.get(name, name)
        asked = {"users": one.users, "context": one.context, **how, own: value}
        of = pool(meant, on, engine, **asked)
        return max(of.bytes / of.sequence(of.context), 0.0) / now

    narrower = [] if meant.stored or traced else [("weights", "fp8"), ("weights", "awq")]
    others = [("cache", "fp8"), ("tp", 2 * how.get("tp", 1)), ("context", max(one.context // 2, 1))]
    every: Any = (*narrower, *(others[-1:] if traced else others))
    return top([(key, {key: to}) for key, to in every], gain, "users", 1.01)


def _trained(
    meant: Named, on: Accelerator, method: str, users: int, context: int | None, **how: Any
) -> Answer:
    """Whether a step of training fits: `course_tools.train` says what it keeps."""
    tp, total = how.pop("tp", 1), how.pop("total", None)
    if given := [name for name, value in how.items() if value is not None]:
        raise CourseError(f"{given[0]} must be left out with method {method!r}: that is training")
    model = meant.sized
    if (size := total or on.memory) is None:
        raise CourseError(f"{on.key} has no published memory: pass --memory in GB")
    length = context or meant.limit or 2048

    def kept(many: int, tokens: int) -> train.TrainingMemory:
        return train.memory(model, f"tp={tp},mbs={many}", tokens, method=method)

    def too_large(many: int, tokens: int) -> bool:
        return bool(kept(many, tokens).total > size)

    one, most = kept(users, length), range(1, 2**24)
    needed = float(one.total)
    sizes = {"needed": n(needed, "B"), "total": n(size, "B"), "context": n(length)}
    of = {"model": meant.name, "chip": on.short, "users": users, "method": method, **sizes}
    return _answer(
        {**{name: float(of) for name, of in one.parts.items()}, "left": size - needed},
        {
            "needed_bytes": needed,
            "reserved_bytes": 0.0,
            "kv_bytes_per_token": 0.0,
            "longest_context": bisect_left(most, True, key=lambda n: too_large(users, n)),
            "most_users": bisect_left(most, True, key=lambda n: too_large(n, length)),
        },
        lambda inside: t("fits-train-yes" if inside else "fits-train-no").format(**of),
        assumed={"optimizer": "adamw", **({} if context else {"context": length})},
    )
