"""The command `course verify`: can this number be true?"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from course_lib import CourseError
from course_lib.specs import chips
from course_tools import claims
from course_tools.claims import Claimed, Judgment
from course_book import n, t
from course_book.answers import verified
from course_book.text import language
from course_press.cli import console
from course_press.cli.console import AsJson, command, tell, tell_json, tell_table

app = typer.Typer()


@command(app)
def verify(
    claim: Annotated[str, Argument()] = "",
    chip: Annotated[str, Argument()] = "",
    tokens_per_second: float | None = None,
    ms_per_token: float | None = None,
    prompt_tokens_per_second: float | None = None,
    ttft: float | None = None,
    ms: float | None = None,
    flops: float | None = None,
    bytes_per_second: float | None = None,
    mfu: float | None = None,
    collective: str | None = None,
    size: Annotated[float | None, Option("--bytes")] = None,
    chips_together: Annotated[int, Option("--chips")] = 1,
    link: str | None = None,
    batch: int | None = None,
    users: int | None = None,
    tokens: Annotated[int | None, Option("--context")] = None,
    tp: int = 1,
    tokens_per_pass: float = 1.0,
    weights: str | None = None,
    cache: str | None = None,
    compute: str | None = None,
    rate_format: Annotated[str | None, Option("--format")] = None,
    clock: float | None = None,
    prefill: bool = False,
    sparse: bool = False,
    as_json: AsJson = False,
) -> None:
    """Can this number be true? Exits with 1 where it is impossible.

    Example: `course verify llama-2-70b h200-sxm --tokens-per-second 155 --batch 1 --weights fp16`
    """
    asked = dict(locals())
    console.see_own_modules()
    if claim == "-":
        with tempfile.TemporaryDirectory() as folder:
            written = sys.stdin.read()
            kind = "json" if written.lstrip().startswith(("[", "{")) else "csv"
            file = Path(folder) / f"stdin.{kind}"
            file.write_text(written, encoding="utf-8")
            return verify(str(file), chip, as_json=as_json)
    if _is_table(claim):
        found = list(claims.read(claim, chip))
        judged = [one for _, one in found if isinstance(one, Judgment)]
        if not judged:
            why = found[0][1] if found else "it has no rows"
            raise CourseError(f"{Path(claim).name!r} holds no claim that can be judged: {why}")
        _show_all(found, as_json)
        raise typer.Exit(any(one.verdict == "impossible" for one in judged))
    if not as_json and all(asked[name] is None for name in claims.SPEEDS):
        for example in console.SAID["verify"]["examples"]:
            tell(f"course verify {example}")
    names = {"size": "bytes", "chips_together": "chips", "tokens": "context"}
    names |= {"rate_format": "format"}
    given = {names.get(key, key): value for key, value in asked.items()}
    alone = not chip and claim in chips()
    given |= {"model": "" if alone else claim, "chip": claim if alone else chip}
    known = {key: given.get(key) for key in Claimed.__struct_fields__}
    one = claims.verify(
        Claimed(**{key: value for key, value in known.items() if value is not None})
    )
    answer = verified(one)
    if as_json:
        tell_json(answer.as_json())
    else:
        tell(answer.answer[language()], style="bold")
        for term in answer.because:
            if term.unit == "s":
                tell(f"{t(f'verify-{term.name}')}: {n(term.value, 's')}")
        for remedy in answer.next:
            tell(remedy.what[language()], style="dim")
    raise typer.Exit(one.verdict == "impossible")


def _is_table(given: str) -> bool:
    """Whether this names a table of claims rather than a model or a chip."""
    path = Path(given)
    if path.suffix == ".json" and path.is_file():
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            return False
        return not (isinstance(held, dict) and "model_type" in held)
    if path.suffix == ".csv" and not path.is_file():
        raise CourseError(f"file {given!r} is not there: pass the path of a .csv")
    return path.suffix == ".csv" or bool(
        given and path.is_dir() and not (path / "config.json").is_file()
    )


def _show_all(found: list[tuple[str, Judgment | str]], as_json: bool) -> None:
    every = [(where, verified(one) if isinstance(one, Judgment) else one) for where, one in found]
    counts = Counter(one.verdict for _, one in found if isinstance(one, Judgment))
    total, refused = sum(counts.values()), counts["impossible"]
    verdicts = [one for one in claims.VERDICTS if counts[one]]
    said = {"n": total, "impossible": refused, "cached": counts["cache-only"]}
    if as_json:
        rows = [
            {"where": where, **({"unread": one} if isinstance(one, str) else one.as_json())}
            for where, one in every
        ]
        tell_json({"question": "verify", "verdict": verdicts[-1], **said, "claims": rows})
        return
    shown = []
    for where, answer in every:
        if isinstance(answer, str):
            shown.append((where, "", "", t("verify-unread").format(why=answer)))
        else:
            values, sentence = answer.values, answer.answer[language()]
            shown.append((where, values["verdict"], n(values["factor"], "×"), sentence))
    heads = [t(f"verify-{name}") for name in ("claim", "verdict", "times-limit")]
    tell_table([*heads, ""], shown)
    tell(t("verify-count").format(**said))
