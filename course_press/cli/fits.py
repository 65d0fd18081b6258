"""The command `course fits`: will it serve, how long a context, how many users."""

import sys
from typing import Annotated, Any

import typer
from typer import Argument, Option

from course_lib import CourseError, specs
from course_tools.counting import named
from course_book import n, t
from course_book.answers import fits
from course_book.text import language
from course_press.cli import console
from course_press.cli.console import tell, tell_json, tell_table

app = typer.Typer()


@app.command("fits")
def fits_command(
    model: Annotated[
        str,
        Argument(
            help="Key of a model, a config.json, - for one on standard input, a .gguf, a "
            ".safetensors or its .index.json beside a config.json, or module:function."
        ),
    ],
    chip: console.Chip,
    engine: Annotated[
        str | None,
        Option(
            help="vllm@0.11.1, sglang, trtllm, llama.cpp, ollama or transformers, with a version."
        ),
    ] = None,
    users: Annotated[int, Option(help="Sequences at once.")] = 1,
    context: Annotated[
        int | None, Option(help="Tokens of each, engines' max_model_len; the model's own limit.")
    ] = None,
    method: Annotated[
        str | None, Option(help="To train it in place of serving: full, lora,r=16 or qlora.")
    ] = None,
    tp: Annotated[int, Option(help="Chips that share the model.")] = 1,
    weights: Annotated[
        str | None, Option(help="Format of the weights; as the config.json declares, or bf16.")
    ] = None,
    cache: console.Cache = None,
    memory: Annotated[
        float | None, Option(help="GB of a chip; what its driver reports, or the spec table's.")
    ] = None,
    utilization: Annotated[
        float | None, Option(help="The engine's share of the memory; its version's default.")
    ] = None,
    tokens: Annotated[
        int | None, Option(help="Most tokens of a step, max_num_batched_tokens.")
    ] = None,
    sequences: Annotated[int | None, Option(help="Most sequences of one, max_num_seqs.")] = None,
    as_json: console.AsJson = False,
) -> None:
    """Does it fit, for how many users? Exits with 1 if it does not.

    Example: `course fits llama-3-8b h100-sxm --engine vllm@0.11.1 --users 16 --context 8192`
    """
    if memory is not None and not 0 < memory < 1e9:
        raise CourseError(f"--memory must be a number of GB above 0 (got {memory:g})")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module of the reader's stands in the working folder
    meant = named(model, sys.stdin.read() if model == "-" else None)
    how: dict[str, Any] = {"tp": tp, "utilization": utilization}
    how |= {"tokens": tokens, "sequences": sequences}
    how |= {"total": None if memory is None else 1e9 * memory, "w": weights, "kv": cache}
    given = {name: value for name, value in how.items() if value is not None}
    on = specs.chip(chip)
    found = fits(meant, on, engine, users=users, context=context, method=method, **given)
    if as_json:
        tell_json(found.as_json())
    else:
        tell(found.answer[language()])
        rows = [
            (t(f"fits-{one.name}"), n(one.value, "B"), n(one.share or 0.0, "%"))
            for one in found.because
        ]
        tell_table((t("memory"), t("bytes"), t("share")), rows, left=1)
        if found.range is not None:
            low, high = n(found.range.low, "B"), n(found.range.high, "B")
            pool = n(found.values["pool_bytes"], "B")
            tell(t("fits-range").format(bytes=pool, low=low, high=high))
        for one in found.next:
            what = one.what[language()]
            tell(t("fits-gains").format(what=what, factor=n(one.factor, digits=3)))
        if engine is None and method is None:
            tell(t("fits-only").format(engine="vllm@0.11.1"))
        said = "; ".join(f"{name} {value}" for name, value in found.assumed.items())
        if said:
            tell(t("fits-taken").format(what=said), style="dim")
        for source in found.sources:
            tell(source, style="dim")
    if not found.values["fits"]:
        raise typer.Exit(1)
