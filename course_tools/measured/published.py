"""The measurements that ship with the library: published ones with their licence, each run of
inference beside the bound that `course_lib.llm` puts on it, and the results of our own labs.
"""

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from course_lib.bench.results import read
from course_lib.bench.rows import Row
from course_lib.core.checks import known
from course_lib.specs import chip, load_toml
from course_lib.workloads import llm
from course_tools.files import DATA
from course_tools.measured import given

FOLDER = DATA / "measured"
# The environment variable that names the folder of the reader's labs.
RESULTS = "COURSE_RESULTS"
_NAMED = load_toml(DATA / "evidence.toml", dict)["published"]
# Chips of the spec table by the names that `matmul_mamf` gives them.
CHIPS: Mapping[str, str] = _NAMED["fastest"]
# Files of `data/measured` that can be compared; and those of the same kind that no constant is
# fitted to: they test `course_tools.calibrate`.
TABLES, UNSEEN = tuple(_NAMED["tables"]), tuple(_NAMED["unseen"])
_MODELS, _CHIPS, _TECHNIQUES = (_NAMED[name] for name in ("models", "chips", "techniques"))


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest matrix product that somebody published for an accelerator.

    Attributes
    ----------
    chip, dtype : key in the spec table, and format.
    rate : FLOP/s.
    shape : M, N and K.
    source : where, as ``repo@commit:path``.
    """

    chip: str
    dtype: str
    rate: float
    shape: tuple[int, int, int]
    source: str


def table(name: str) -> list[Mapping[str, str]]:
    """The rows of a published CSV file in `data/measured`, named without its ending, as printed.

    Examples
    --------
    >>> table("matmul_mamf")[0]["dtype"]
    'bf16'
    """
    known("table", name, (file.stem for file in FOLDER.glob("*.csv")), "files are in data/measured")
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def best_published(dtype: str) -> dict[str, Best]:
    """The fastest published product in a format by chip, for the chips of the spec table.

    Examples
    --------
    >>> best_published("bf16")["h100-sxm"].rate / 1e12
    794.5
    """
    known("dtype", dtype, {row["dtype"] for row in table("matmul_mamf")})
    return {
        key: Best(
            chip=key,
            dtype=dtype,
            rate=float(row["mamf_tflops"]) * 1e12,
            shape=(int(row["M"]), int(row["N"]), int(row["K"])),
            source=row["source"],
        )
        for row in table("matmul_mamf")
        if row["dtype"] == dtype and (key := CHIPS.get(row["accelerator"]))
    }


class PublishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A published run and its bound.

    Attributes
    ----------
    table, model, chip : where it stands; keys of what ran.
    w : format of the weights.
    batch, tp, prompt, output : sequences, chips, tokens read and written by each sequence.
    measured : s of the whole run, or of the first token where that is what was published.
    predicted : s, its lower bound.
    bound : what sets the bound of the longer of its phases, prefill and decode.
    first, token : s of the first token and of each later one, where they were published; of a batch
        that starts together the median of all tokens, of one sequence what is left of the run after
        the first.
    source : where it was published.
    """

    table: str
    model: str
    chip: str
    w: str
    batch: int
    tp: int
    prompt: int
    output: int
    measured: float
    predicted: float
    bound: str
    first: float | None
    token: float | None
    source: str

    @property
    def ratio(self) -> float:
        """Measured over predicted: below 1 a bound would be broken."""
        return self.measured / self.predicted


def runs(name: str) -> list[PublishedRun]:
    """The rows of a published table whose meaning is clear, each beside its bound.

    A run's bound is that of its prefill and of `output` - 1 decode steps, at the mean context: the
    prompt and half the output. Time to first token is a prefill. Left out are models and chips that
    the tables do not have, and batches whose sequences do not fit at full length, so that they
    cannot have run at once. gpt-fast does not say how long its prompts are, nor does torchao: their
    rows are one decode step at a context of one token, which no run can undercut.

    Parameters
    ----------
    name : one of `TABLES` or `UNSEEN`.

    Returns
    -------
    Runs in the order of the file. Tensor parallelism is over NVLink, all links of a chip together.

    Examples
    --------
    >>> all(run.ratio > 1 for run in runs("decode_gptfast_bs1"))
    True
    """
    known("table", name, TABLES + UNSEEN)
    return [run for row in table(name) if (run := _run(name, row)) is not None]


def lab(number: str, *, own: bool = True) -> list[Row]:
    """What a lab measured: the committed rows, and, unless not `own`, the reader's where
    `COURSE_RESULTS` names the folder of the labs that hold them.

    Examples
    --------
    >>> {row.status for row in lab("00")} <= {"ok", "over-budget", "unsupported", "out-of-memory"}
    True
    """
    files = files_of(FOLDER, number)
    if own and (place := os.environ.get(RESULTS)):
        files += sorted(Path(place).glob(f"{number}-*/results/local/results.csv"))
    return [row for file in files for row in rows_of(file)]


def files_of(folder: Path, number: str = "*") -> list[Path]:
    """Where rows of a lab lie, or of all: files as a lab wrote them, and as readers gave them."""
    lab = f"lab-{number}"
    return [*sorted(folder.glob(f"{lab}/*/results.csv")), *sorted(folder.glob(f"{lab}/*.json"))]


def rows_of(file: Path) -> list[Row]:
    """The rows of such a file."""
    return given.read(file).read() if file.suffix == ".json" else read(file)


def _run(name: str, row: Mapping[str, str]) -> PublishedRun | None:
    if row["model"] not in _MODELS or row["gpu"] not in _CHIPS:
        return None
    steps_only = "technique" in row
    w = _TECHNIQUES[row["technique"]] if steps_only else row["dtype"]
    batch, tp = int(row["batch"]), int(row.get("tp") or row["n_gpus"])
    prompt = int(row.get("prompt_tokens") or row.get("in_len") or 1)
    output = int(row.get("output_tokens") or row.get("out_len") or 1)
    model, on = _MODELS[row["model"]], chip(_CHIPS[row["gpu"]])
    if not llm.fits(model, on, batch, prompt + output, w=w, tp=tp).fits:
        return None
    step: dict[str, Any] = {"w": w, "tp": tp, "link": "nvlink" if tp > 1 else None}
    parts = [] if steps_only else [(1, llm.prefill(model, on, batch, prompt, **step))]
    if output > 1 or steps_only:
        decode = llm.decode(model, on, batch, prompt + output // 2, **step)
        parts.append((max(output - 1, 1), decode))
    times = [count * float(part.lower) for count, part in parts]
    first = token = None
    if "first_token_ms" in row:
        measured = first = float(row["first_token_ms"]) / 1e3
    else:
        rate = float(
            row.get("out_tok_s_per_gpu") or row.get("throughput(out tok/s)") or row["tokens_per_s"]
        )
        measured = batch * output / (rate * tp if "out_tok_s_per_gpu" in row else rate)
        # Alone, a prompt's first token is its prefill; among others it has waited too.
        if batch == 1 and row.get("FTL(ave)(s)"):
            first = float(row["FTL(ave)(s)"])
    if steps_only:
        token = 1 / float(row["tokens_per_s"])
    elif "50%(s)" in row:
        token = float(row["50%(s)"]) if first is None else (measured - first) / (output - 1)
    return PublishedRun(
        table=name,
        model=model,
        chip=on.key,
        w=w,
        batch=batch,
        tp=tp,
        prompt=prompt,
        output=output,
        measured=measured,
        predicted=sum(times),
        bound=parts[times.index(max(times))][1].bound,
        first=first,
        token=token,
        source=row["source"],
    )
